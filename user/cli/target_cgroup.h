/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#ifndef FT_CLI_TARGET_CGROUP_H
#define FT_CLI_TARGET_CGROUP_H

#include "cli/target.h"

#define FT_CGROUP_DIRS 16
/* The directories of one cgroup, one in each hierarchy that has it. */
struct ft_cgroup_dirs {
	size_t n;
	char v[FT_CGROUP_DIRS][768];
};

struct ft_proc_table;

int ft_pidset_add(struct ft_pidset *set, uint32_t pid);
/* Adds the members of a cgroup and of those below it; errors as ft_target_resolve(). */
int ft_target_cgroup(const char *root, const char *name, const struct ft_proc_table *t,
		     struct ft_pidset *set, char *err, size_t size);
/* rel: path below the mount, as ft_pidset.cgroup. 0 or negative errno. */
int ft_cgroup_open(const char *root, const char *rel, struct ft_cgroup_dirs *out);
/*
 * Adds the members of it and of those below as they are now, those that have ended but were not
 * reaped included. Reads nothing but their lists: for once a second.
 */
int ft_cgroup_members(const char *root, const struct ft_cgroup_dirs *dirs, struct ft_pidset *set);

#endif

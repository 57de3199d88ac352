/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#ifndef FT_CLI_TARGET_CGROUP_H
#define FT_CLI_TARGET_CGROUP_H

#include "cli/target.h"

struct ft_proc_table;

int ft_pidset_add(struct ft_pidset *set, uint32_t pid);
/* Adds the members of a cgroup and of those below it; errors as ft_target_resolve(). */
int ft_target_cgroup(const char *root, const char *name, const struct ft_proc_table *t,
		     struct ft_pidset *set, char *err, size_t size);

#endif

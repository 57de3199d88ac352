/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* From the command line to the processes that are meant. */
#ifndef FT_CLI_TARGET_H
#define FT_CLI_TARGET_H

#include "base/base.h"

/* One of pids, cgroup and all. */
struct ft_target_opts {
	const uint32_t *pids; /* threads stand for their process */
	size_t npids;
	const char *cgroup; /* path, or a part of it that only one cgroup has */
	bool no_children;   /* of pids: without descendants */
	bool all;	    /* every process that has a library named libnccl.so* mapped */
};

struct ft_pidset {
	uint32_t *pids; /* sorted */
	size_t n;
	uint64_t cgroup_id; /* of cgroup v2, 0: v1 or none asked for */
	char cgroup[512];   /* its path below the mount */
	size_t unread;	/* of all: whose mappings could not be read, so that NCCL may be there */
	char note[256]; /* "": nothing to say. What looks like a mistake but is not refused */
};
void ft_pidset_free(struct ft_pidset *set);
bool ft_pidset_has(const struct ft_pidset *set, uint32_t pid);
void ft_pidset_del(struct ft_pidset *set, uint32_t pid);

/*
 * Adds the processes to *set (zeroed before the first call; a second look adds those that came
 * meanwhile). On failure err holds one line that says what is wrong and what to do: -ESRCH (no such
 * process, or it has ended), -EINVAL (a kernel thread), -ENOENT (no such cgroup), -EEXIST (several
 * cgroups match), -EPERM (/proc hides it), -ENOMEM, and what opening /proc gives.
 */
int ft_target_resolve(const char *root, const struct ft_target_opts *opts, struct ft_pidset *set,
		      char *err, size_t size);
/* The program's exit status for its failure. */
int ft_target_failed(int err);

#endif

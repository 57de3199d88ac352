/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#ifndef FT_CLI_TARGET_SLURM_H
#define FT_CLI_TARGET_SLURM_H

#include "cli/target.h"
#include "host/proc.h"

/*
 * For each srun among the processes below[i] of the table: adds the tasks of its job on this node,
 * which are slurmstepd's children, not its own, and says so in the set's note. 0 or -ENOMEM.
 */
int ft_target_srun(const char *root, const struct ft_proc_table *t, const bool *below,
		   struct ft_pidset *set);

#endif

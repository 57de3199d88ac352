/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Reads the kernel side's counters of NCCL calls and tells what moved. */
#ifndef FT_SOURCE_NCCL_STATS_H
#define FT_SOURCE_NCCL_STATS_H

#include "include/ft_nccl.h"
#include "source/source.h"

struct ft_nccl_stats;
/* fds of the maps nccl_stats and nccl_other; they stay the caller's. */
int ft_nccl_stats_new(struct ft_nccl_stats **out, int stats_fd, int other_fd,
		      const struct ft_emit *emit);
void ft_nccl_stats_free(struct ft_nccl_stats *s);
/* Emits nccl.stats for what moved since the last read; `name` puts the process's name in. */
void ft_nccl_stats_read(struct ft_nccl_stats *s, uint64_t now_ns,
			void (*name)(void *ctx, uint32_t pid, char task[16]), void *ctx);
/* Forgets a process that has ended; read before. */
void ft_nccl_stats_drop(struct ft_nccl_stats *s, uint32_t pid);

#endif

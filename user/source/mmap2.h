/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* New executable mappings of any process, as the kernel reports them to perf. */
#ifndef FT_SOURCE_MMAP2_H
#define FT_SOURCE_MMAP2_H

#include "base/base.h"
#include "base/loop.h"
#include "nccl/nccl.h"

struct ft_mmap2_ops {
	/* start, end, pgoff, inode, device and path are set; the path is that of the process. */
	void (*mapped)(void *ctx, uint32_t pid, const struct ft_map *m);
	/* Records were lost: any process may have mapped anything. */
	void (*lost)(void *ctx, uint64_t records);
	/* All that was waiting has been handed on. */
	void (*idle)(void *ctx);
	void *ctx;
};

struct ft_mmap2;
/*
 * Events of every CPU, a ring of 64 KiB each. Negative errno: -EACCES or -EPERM without CAP_PERFMON
 * (perf_event_paranoid), others as perf_event_open says.
 */
int ft_mmap2_new(struct ft_mmap2 **out, struct ft_loop *loop, const struct ft_mmap2_ops *ops);
void ft_mmap2_free(struct ft_mmap2 *m);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Inside of the NCCL source: finding and probing NCCL in one process, the part that can block. */
#ifndef FT_SOURCE_NCCL_ATTACH_H
#define FT_SOURCE_NCCL_ATTACH_H

#include "nccl/nccl.h"
#include "source/uprobe.h"

/* A library of a process and its probes. */
struct ft_nccl_probed {
	uint32_t major, minor;
	uint64_t ino;
	uint8_t build_id_len, build_id[20];
	struct ft_uprobe_links enter, ret;
};

/* What became of one library. */
struct ft_nccl_result {
	struct ft_nccl_probed lib;
	bool known; /* the same file has its probes already */
	int enter_error, ret_error;
	uint32_t nprobes;
	bool no_cookies; /* the kernel attached none of `cookies` */
	uint64_t cookies[FT_NCCL_NFNS];
};

/*
 * A question to one process, with all that the answer takes: a worker that got stuck on the process
 * keeps it and frees it later.
 */
struct ft_nccl_request {
	uint32_t pid;
	struct ft_nccl_cache *cache;
	int *refs;	      /* of this process: its requests that are not freed, and its own */
	int enter_fd, ret_fd; /* programs; -ENOENT: no such probes, other errno: cannot be had */
	bool enter_multi, ret_multi, collectives;
	uint32_t nmaps; /* mappings to look at, 0: all of the process */
	struct ft_map **maps;
	uint32_t nknown; /* what has its probes already, without links */
	struct ft_nccl_probed known[FT_NCCL_LIBS_MAX];
	/* the answer, one result for each library of the scan */
	struct ft_nccl_scan scan;
	struct ft_nccl_result results[FT_NCCL_LIBS_MAX];
};

/* For ft_worker_call. */
int ft_nccl_request_run(void *request);
/* Drops one reference to what `refs` counts; the last one frees it. NULL is none. */
void ft_nccl_refs_put(int *refs);
/* Detaches what was not taken out of the results. */
void ft_nccl_request_free(void *request);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Where events come from. This room alone knows libbpf. Every source hands raw records to `emit`;
 * nothing here attributes or judges.
 */
#ifndef FT_SOURCE_SOURCE_H
#define FT_SOURCE_SOURCE_H

#include "base/base.h"
#include "base/loop.h"
#include "event/event.h"
#include "host/pci.h"
#include "include/ft_shared.h"

/* Where a source hands its records. */
struct ft_emit {
	void (*fn)(void *ctx, const void *rec, size_t len);
	void *ctx;
};

static inline void ft_emit(const struct ft_emit *e, const struct ft_rec *rec)
{
	e->fn(e->ctx, rec, rec->h.size);
}

/* --- the loader --- */
enum ft_probe_state { FT_PROBE_OFF, FT_PROBE_ON, FT_PROBE_UNNEEDED };

/* One program and what became of it. */
struct ft_probe {
	const char *object, *program; /* object "" is a poller */
	const char *attach;	      /* "tp_btf/kfree_skb" */
	const char *map;	      /* that an iterator goes through, NULL none */
	const char *instead_of; /* program whose variant it is, taken where that is not attached */
	const char *with;	/* target without which there is nothing to see, NULL none */
	const char *what;	/* event that it gives */
	const char *cost;	/* cost class */
	const char *hides;	/* what the user does not see without it */
	bool required;		/* its object is useless without it */
	bool heals;		/* what one run misses a later one reports */
	/* result */
	enum ft_probe_state state;
	int error;
	char reason[160];
};

/* A fresh copy of the probe table, nothing attached; NULL without memory. */
struct ft_probe *ft_probe_table(size_t *n);

struct ft_bpf;
struct ft_bpf_opts {
	bool all_procs, no_follow, collectives;
	unsigned int ring_bytes; /* power of 2, 0: default */
};

/*
 * Opens, loads and attaches every object of the probe table; what does not work is noted in the
 * table. Only
 * -ENOTSUP (no BTF), -EPERM (no program could be loaded for want of rights) and -ENOMEM fail as a
 * whole.
 */
int ft_bpf_open(struct ft_bpf **out, const struct ft_bpf_opts *opts, struct ft_loop *loop,
		const struct ft_emit *emit);
void ft_bpf_free(struct ft_bpf *b);
/* Lets events flow. */
void ft_bpf_ready(struct ft_bpf *b);
/* Takes all records that are in the ring now. */
void ft_bpf_drain(struct ft_bpf *b);
/* No event from now on; hands on all that is in the ring. */
void ft_bpf_stop(struct ft_bpf *b);
/* Ends all events; the maps stay readable. */
void ft_bpf_detach(struct ft_bpf *b);
/* Once a second: what was counted instead of sent, and what was lost. */
void ft_bpf_tick(struct ft_bpf *b);

/* Once a minute and at the end: what was counted as ordinary. */
void ft_bpf_ordinary(struct ft_bpf *b);

int ft_bpf_proc_add(struct ft_bpf *b, uint32_t pid, uint64_t start_ns);
bool ft_bpf_proc_has(struct ft_bpf *b, uint32_t pid);
void ft_bpf_proc_del(struct ft_bpf *b, uint32_t pid);
/* Walks the traced processes: *pid 0 for the first; false after the last. */
bool ft_bpf_proc_next(struct ft_bpf *b, uint32_t *pid);
/* Whether traced sockets are open still. */
bool ft_bpf_sockets(struct ft_bpf *b);
/*
 * Emits inv.sock for each socket that traced processes have open; they belong to their process from
 * now on.
 */
int ft_bpf_seed_sockets(struct ft_bpf *b);
int ft_bpf_netns_add(struct ft_bpf *b, uint32_t netns);
bool ft_bpf_netns_has(struct ft_bpf *b, uint32_t netns);

struct bpf_object;
struct bpf_program;
/* For sources that attach by themselves. NULL or -ENOENT when the object is not loaded. */
struct bpf_program *ft_bpf_program(struct ft_bpf *b, const char *object, const char *program);
int ft_bpf_map_fd(struct ft_bpf *b, const char *object, const char *map);
struct ft_probe *ft_bpf_probes(struct ft_bpf *b, size_t *n);
struct ft_probe *ft_bpf_probe(struct ft_bpf *b, const char *object, const char *program);

/* --- NCCL: uprobes on the libraries that traced processes map --- */
struct ft_nccl_src;
struct ft_nccl_opts {
	bool all;	  /* every process with an NCCL library, now and later */
	bool collectives; /* one record per call: returns of all calls are probed too */
	void (*found)(void *ctx,
		      uint32_t pid); /* -a: a process with an NCCL library that is not traced yet */
	void *ctx;
};
int ft_nccl_src_new(struct ft_nccl_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_nccl_opts *opts);
void ft_nccl_src_free(struct ft_nccl_src *s);
/*
 * Looks through all processes now and calls opts.found for those with NCCL that were not added.
 * Without opts.all it is for a note: a few of them, in 300 ms. -ETIMEDOUT: not all of them answered.
 */
int ft_nccl_src_find(struct ft_nccl_src *s);
/*
 * Looks through the process's mappings now and follows later ones. 1: has NCCL, 0: none, negative
 * errno.
 */
int ft_nccl_src_add(struct ft_nccl_src *s, uint32_t pid);
void ft_nccl_src_del(struct ft_nccl_src *s, uint32_t pid);
bool ft_nccl_src_has(struct ft_nccl_src *s, uint32_t pid);
/* Deletes those that are not traced any more: the records of their ends may be lost. */
void ft_nccl_src_prune(struct ft_nccl_src *s);
/* Once a second: emits nccl.stats of what moved. */
void ft_nccl_src_tick(struct ft_nccl_src *s);

/* --- rtnetlink: carrier and speed in the network namespaces of traced processes --- */
struct ft_link_src;
int ft_link_src_new(struct ft_link_src **out, struct ft_loop *loop, const struct ft_emit *emit);
void ft_link_src_free(struct ft_link_src *s);
/* The row of the probe table that tells whether a namespace could be opened; it must live as long. */
void ft_link_src_row(struct ft_link_src *s, struct ft_probe *row);
/*
 * Watches the namespace of a process (once per namespace): emits inv.netdev for each interface,
 * then net.link.
 */
int ft_link_src_add(struct ft_link_src *s, uint32_t pid, uint32_t netns);

/*
 * --- PCIe: speed, width and presence of the links on the way to GPUs and NICs, and the AER counters
 * of both their ends. The rows of the probe table: "pcie_poll", "pcie_counters". ---
 */
struct ft_pcie_src;
struct ft_pcie_opts {
	const char *root;	  /* of /sys, "" for the machine itself */
	unsigned int interval_ms; /* of the looks at Link Status, 0: default */
};
/* The tree is read during the call only. */
int ft_pcie_src_new(struct ft_pcie_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_pci *pci,
		    const struct ft_pcie_opts *opts);
void ft_pcie_src_free(struct ft_pcie_src *s);
/* Any record of another source: hot plug and recovery make it look again. Cheap for all others. */
void ft_pcie_src_note(struct ft_pcie_src *s, const struct ft_hdr *ev);
/* Once a second: the counters, and what came or went on the bus. */
void ft_pcie_src_tick(struct ft_pcie_src *s);

/*
 * --- the kernel log: GPUs, NICs and links in the drivers' own words, from its beginning. The row of
 * the probe table: "kmsg". ---
 */
struct ft_klog_src;
/*
 * Emits what is in the log now, marked `before`, and follows it. `root`: of /dev, "" for the machine
 * itself. The tree is read during the call only. A log that cannot be read is told by the row, or
 * without a `bpf` by a negative errno.
 */
int ft_klog_src_new(struct ft_klog_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_pci *pci, const char *root);
/*
 * Takes all lines that are in the log now. Those of the first call are from before the attach still;
 * of later ones, what the kernel side tells is not told again.
 */
void ft_klog_src_drain(struct ft_klog_src *s);
void ft_klog_src_free(struct ft_klog_src *s);

/* --- NVML: clock limits and NVLinks of the GPUs. The rows: "nvml_clocks", "nvml_nvlink". --- */
struct ft_gpu_src;
/*
 * Before anything else of the process uses NVML: it forks one that does. The tree must live as long
 * as the source.
 */
int ft_gpu_src_new(struct ft_gpu_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		   const struct ft_emit *emit, const struct ft_pci *pci);
void ft_gpu_src_free(struct ft_gpu_src *s);
/* The process that asks NVML, 0: there is none. */
pid_t ft_gpu_src_pid(const struct ft_gpu_src *s);

#endif

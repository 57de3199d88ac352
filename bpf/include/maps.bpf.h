/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Maps that all objects share: the loader creates each once and hands it to every object. Records,
 * their loss counters, and the counting that takes over in a storm.
 */
#ifndef FT_MAPS_BPF_H
#define FT_MAPS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_endian.h>
#include "include/ft_shared.h"

const volatile struct ft_cfg cfg SEC(".rodata.cfg");
/* Holds events back until everything is attached. */
volatile __u32 ready SEC(".data.ready");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ft_ring SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FT_KIND_MAX);
	__type(key, __u32);
	__type(value, struct ft_counts);
} ft_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FT_MAX_PROCS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct ft_proc);
} ft_procs SEC(".maps");

static __always_inline struct ft_counts *counts_of(__u32 kind)
{
	return bpf_map_lookup_elem(&ft_counts, &kind);
}

static __always_inline void count_lost(__u32 kind)
{
	struct ft_counts *c = counts_of(kind);

	if (c)
		c->lost++;
}

static __always_inline void count_map_full(__u32 kind)
{
	struct ft_counts *c = counts_of(kind);

	if (c)
		c->map_full++;
}

static __always_inline void count_ignored(__u32 kind)
{
	struct ft_counts *c = counts_of(kind);

	if (c)
		c->ignored++;
}

/* The process's entry when it is traced. */
static __always_inline struct ft_proc *proc_of(__u32 tgid)
{
	return bpf_map_lookup_elem(&ft_procs, &tgid);
}

static __always_inline void hdr_init(struct ft_hdr *h, __u16 kind, __u16 size)
{
	__builtin_memset(h, 0, sizeof(*h));
	h->ts_ns = bpf_ktime_get_ns();
	h->count = 1;
	h->kind = kind;
	h->size = size;
}

/* Names the current task. */
static __always_inline void hdr_task(struct ft_hdr *h)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 id = bpf_get_current_pid_tgid();

	h->pid = id >> 32;
	h->tid = (__u32)id;
	h->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	bpf_get_current_comm(h->task, sizeof(h->task));
	h->how |= FT_HOW(task);
}

/*
 * Flags of a submit for records of a high rate: the reader looks for them every FT_DRAIN_MS. Waking
 * it for each costs the traced process more than the record does. A ring that fills up wakes it.
 */
static __always_inline __u64 rec_quiet(void)
{
	__u64 used = bpf_ringbuf_query(&ft_ring, BPF_RB_AVAIL_DATA);

	return used > bpf_ringbuf_query(&ft_ring, BPF_RB_RING_SIZE) / 2 ? BPF_RB_FORCE_WAKEUP
									: BPF_RB_NO_WAKEUP;
}

/* Reserve, exact size; the failed one is counted. */
static __always_inline void *rec_reserve(__u16 kind, __u32 size)
{
	void *rec = bpf_ringbuf_reserve(&ft_ring, size, 0);

	if (!rec)
		count_lost(kind);
	return rec;
}

#endif

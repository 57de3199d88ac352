/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Storms: of one key the first records of a second are sent, the others counted. The reader takes
 * the counts every second. An event is sent, or counted here, or counted as lost: never two of
 * them.
 */
#ifndef FT_AGG_BPF_H
#define FT_AGG_BPF_H

#include "include/maps.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FT_MAX_AGG);
	__type(key, struct ft_agg_key);
	__type(value, struct ft_agg);
} ft_agg SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries,
	       FT_KIND_MAX); /* by kind: programs of several kinds interrupt each other */
	__type(key, __u32);
	__type(value, struct ft_agg);
} ft_agg_scratch SEC(".maps");

/* A new key; when the map is full its events go to the kind's "other" key, made by the loader. */
static __always_inline struct ft_agg *agg_new(struct ft_agg_key *key, const void *rec, __u32 size)
{
	__u32 kind = key->kind;
	struct ft_agg *a = bpf_map_lookup_elem(&ft_agg_scratch, &kind);
	struct ft_agg_key other = { .kind = key->kind };

	if (!a)
		return NULL;
	__builtin_memset(a, 0, sizeof(*a));
	__builtin_memcpy(&a->rec, rec, size);
	bpf_map_update_elem(&ft_agg, key, a, BPF_NOEXIST);
	a = bpf_map_lookup_elem(&ft_agg, key);
	if (a)
		return a;
	count_map_full(key->kind);
	return bpf_map_lookup_elem(&ft_agg, &other);
}

/*
 * Sends the record or counts it. s0 and s1 are its additive fields. A macro body in a function:
 * size must be a constant for the verifier.
 */
static __always_inline void agg_submit(struct ft_agg_key *key, struct ft_hdr *rec, __u32 size,
				       __u64 s0, __u64 s1)
{
	struct ft_agg *a = bpf_map_lookup_elem(&ft_agg, key);
	__u64 now = rec->ts_ns;

	if (!a)
		a = agg_new(key, rec, size);
	if (!a) {
		count_lost(key->kind);
		return;
	}
	/* Two CPUs may both open a window: a few records more are sent, none is counted twice. */
	if (now - a->window_ns >= cfg.storm_window_ns) {
		a->window_ns = now;
		a->window_n = 0;
		a->first_ns = 0;
	}
	__sync_fetch_and_add(&a->window_n, 1);
	if (a->window_n <= cfg.storm_records && !bpf_ringbuf_output(&ft_ring, rec, size, 0))
		return;
	if (!a->first_ns)
		a->first_ns = now;
	a->last_ns = now;
	__sync_fetch_and_add(&a->count, 1);
	/* A constant 0 would become an atomic "or", which no kernel before 5.12 knows. */
	if (s0)
		__sync_fetch_and_add(&a->sums[0], s0);
	if (s1)
		__sync_fetch_and_add(&a->sums[1], s1);
}

#endif

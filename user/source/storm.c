// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The kernel's counters only grow and this reader takes differences, so nothing is lost between a
 * read and a
 * reset: there is none.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <uthash.h>

#include "source/loader.h"
#include "source/storm.h"

#define BATCH 128

struct seen {
	struct ft_agg_key key;
	uint64_t count, sums[FT_AGG_SUMS], last_ns;
	UT_hash_handle hh;
};

struct ft_storm {
	int agg_fd, counts_fd, ncpus;
	struct seen *seen;
	struct ft_counts *percpu;
	uint64_t lost[FT_KIND_MAX], map_full[FT_KIND_MAX], ordinary;
	struct ft_agg_key keys[BATCH];
	struct ft_agg values[BATCH];
};

/* The key that takes the events of keys that do not fit; its record says nothing but the kind. */
static int other_keys(int fd)
{
#define X(id) FT_KIND_##id,
	static const enum ft_kind kinds[] = { FT_AGG_KINDS(X) };
#undef X

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct ft_agg_key key = { .kind = kinds[i] };
		struct ft_agg a = {};
		struct ft_rec rec;

		memcpy(&a.rec, ft_rec_new(&rec, kinds[i], 0), ft_kind(kinds[i])->size);
		if (bpf_map_update_elem(fd, &key, &a, BPF_ANY))
			return -errno;
	}
	return 0;
}

int ft_storm_new(struct ft_storm **out, int agg_fd, int counts_fd)
{
	struct ft_storm *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->agg_fd = agg_fd;
	s->counts_fd = counts_fd;
	s->ncpus = libbpf_num_possible_cpus();
	s->percpu = s->ncpus > 0 ? calloc(s->ncpus, sizeof(*s->percpu)) : NULL;
	err = !s->percpu ? -ENOMEM : agg_fd < 0 ? 0 : other_keys(agg_fd);
	if (err) {
		ft_storm_free(s);
		return err;
	}
	*out = s;
	return 0;
}

void ft_storm_free(struct ft_storm *s)
{
	struct seen *x, *tmp;

	if (!s)
		return;
	HASH_ITER(hh, s->seen, x, tmp) {
		HASH_DEL(s->seen, x);
		free(x);
	}
	free(s->percpu);
	free(s);
}

static struct seen *seen_get(struct ft_storm *s, const struct ft_agg_key *key)
{
	struct seen *x;

	HASH_FIND(hh, s->seen, key, sizeof(*key), x);
	if (x)
		return x;
	x = calloc(1, sizeof(*x));
	if (!x)
		return NULL;
	x->key = *key;
	HASH_ADD(hh, s->seen, key, sizeof(x->key), x);
	return x;
}

/* Sums into the additive fields; what varies is unknown, the sample's own values mean nothing. */
static void set_fields(struct ft_rec *rec, const uint64_t *sums)
{
	size_t n, k = 0;
	const struct ft_field *f = ft_kind(rec->h.kind)->fields(&n);
	struct ft_rec unknown;

	ft_rec_new(&unknown, rec->h.kind, 0);
	for (size_t i = 0; i < n; i++)
		if (f[i].role == FT_ROLE_SUM && k < FT_AGG_SUMS)
			memcpy(rec->buf + f[i].off, &sums[k++], sizeof(*sums));
		else if (f[i].role == FT_ROLE_VARIES)
			memcpy(rec->buf + f[i].off, unknown.buf + f[i].off, f[i].size);
}

static void read_key(struct ft_storm *s, const struct ft_agg_key *key, const struct ft_agg *a,
		     const struct ft_emit *emit)
{
	uint64_t n, sums[FT_AGG_SUMS];
	struct ft_rec rec;
	struct seen *x;

	if (!a->count)
		return;
	x = seen_get(s, key);
	if (!x || a->count == x->count)
		return; /* without memory it stays for the next read */
	n = a->count - x->count;
	for (int i = 0; i < FT_AGG_SUMS; i++) {
		sums[i] = a->sums[i] - x->sums[i];
		x->sums[i] = a->sums[i];
	}
	memcpy(rec.buf, &a->rec, a->rec.h.size);
	rec.h.count = n;
	rec.h.ts_ns = ft_mono_ns();
	rec.h.last_ns = a->last_ns;
	/* The kernel notes the first of each of its own seconds, which are not the reader's. */
	rec.h.first_ns = MIN(MAX(a->first_ns, x->last_ns), a->last_ns);
	rec.h.flags |= FT_REC_AGG;
	set_fields(&rec, sums);
	x->count = a->count;
	x->last_ns = a->last_ns;
	ft_emit(emit, &rec);
}

void ft_lost_emit(const char *of, uint64_t *seen, uint64_t now, const char *why,
		  const struct ft_emit *emit)
{
	struct ft_rec rec;
	struct ft_ev_lost *e;

	if (now == *seen)
		return;
	e = ft_rec_new(&rec, FT_KIND_lost, ft_mono_ns());
	e->records = now - *seen;
	e->total = now;
	ft_rec_str(&rec, &e->of, of);
	ft_rec_str(&rec, &e->reason, why);
	*seen = now;
	ft_emit(emit, &rec);
}

static bool counts_sum(struct ft_storm *s, uint32_t kind, struct ft_counts *sum)
{
	*sum = (struct ft_counts){};
	if (!ft_kind(kind) || bpf_map_lookup_elem(s->counts_fd, &kind, s->percpu))
		return false;
	for (int c = 0; c < s->ncpus; c++) {
		sum->lost += s->percpu[c].lost;
		sum->map_full += s->percpu[c].map_full;
		sum->ignored += s->percpu[c].ignored;
	}
	return true;
}

static void read_counts(struct ft_storm *s, const struct ft_emit *emit)
{
	struct ft_counts sum;

	for (uint32_t kind = 0; kind < FT_KIND_MAX; kind++) {
		if (!counts_sum(s, kind, &sum))
			continue;
		ft_lost_emit(ft_kind(kind)->name, &s->lost[kind], sum.lost, "ring buffer full",
			     emit);
		ft_lost_emit(ft_kind(kind)->name, &s->map_full[kind], sum.map_full,
			     "map full: counted without its details", emit);
	}
}

void ft_storm_ordinary(struct ft_storm *s, const struct ft_emit *emit)
{
	struct ft_ev_net_ordinary *e;
	struct ft_counts sum;
	struct ft_rec rec;

	if (!counts_sum(s, FT_KIND_net_drop, &sum))
		return;
	e = ft_rec_new(&rec, FT_KIND_net_ordinary, ft_mono_ns());
	e->packets = sum.ignored - s->ordinary;
	e->total = s->ordinary = sum.ignored;
	ft_emit(emit, &rec);
}

void ft_storm_read(struct ft_storm *s, const struct ft_emit *emit)
{
	struct ft_agg_key cursor;
	bool first = true;
	int err;

	do {
		uint32_t n = BATCH;

		if (s->agg_fd < 0)
			break;
		err = bpf_map_lookup_batch(s->agg_fd, first ? NULL : &cursor, &cursor, s->keys,
					   s->values, &n, NULL);
		if (err && errno != ENOENT)
			break;
		for (uint32_t i = 0; i < n; i++)
			read_key(s, &s->keys[i], &s->values[i], emit);
		first = false;
	} while (!err);
	read_counts(s, emit);
}

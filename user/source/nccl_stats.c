// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <bpf/bpf.h>
#include <uthash.h>

#include "nccl/nccl.h"
#include "source/nccl_stats.h"

/* A communicator that was destroyed is forgotten when it has been silent for so long. */
#define ENDED_NS (10 * NSEC_PER_SEC)

/* One entry of the kernel's map as it was read last. */
struct known {
	struct ft_nccl_key key;
	struct ft_nccl_stat last;
	UT_hash_handle hh;
};

struct ft_nccl_stats {
	int stats_fd, other_fd;
	const struct ft_emit *emit;
	struct known *known;
	uint64_t other_calls[FT_NCCL_OPS + 1], other_bytes[FT_NCCL_OPS + 1];
	struct ft_nccl_stat now; /* too large for the stack */
	uint32_t period[FT_NCCL_SLOTS], enqueue[FT_NCCL_SLOTS];
};

int ft_nccl_stats_new(struct ft_nccl_stats **out, int stats_fd, int other_fd,
		      const struct ft_emit *emit)
{
	struct ft_nccl_stats *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->stats_fd = stats_fd;
	s->other_fd = other_fd;
	s->emit = emit;
	*out = s;
	return 0;
}

void ft_nccl_stats_free(struct ft_nccl_stats *s)
{
	struct known *k, *tmp;

	if (!s)
		return;
	HASH_ITER(hh, s->known, k, tmp) {
		HASH_DEL(s->known, k);
		free(k);
	}
	free(s);
}

static struct known *known_of(struct ft_nccl_stats *s, const struct ft_nccl_key *key)
{
	struct known *k;

	HASH_FIND(hh, s->known, key, sizeof(*key), k);
	if (k)
		return k;
	k = calloc(1, sizeof(*k));
	if (!k)
		return NULL;
	k->key = *key;
	HASH_ADD(hh, s->known, key, sizeof(k->key), k);
	return k;
}

/* What one line says. */
struct part {
	uint64_t ts_ns, calls, total, bytes, last_entry_ns;
	bool times; /* the histograms belong to it */
};

static void emit_part(struct ft_nccl_stats *s, const struct ft_nccl_key *key, const char *task,
		      const struct part *p)
{
	struct ft_rec rec;
	struct ft_ev_nccl_stats *e = ft_rec_new(&rec, FT_KIND_nccl_stats, p->ts_ns);

	e->h.pid = key->tgid;
	e->h.start_ns = key->start_ns;
	e->h.how |= key->tgid ? FT_HOW(task) : 0;
	ft_strcpy(e->h.task, task, sizeof(e->h.task));
	e->comm_ptr = key->comm;
	e->op = key->op;
	e->calls = p->calls;
	e->calls_total = p->total;
	e->bytes = p->bytes;
	e->last_entry_ns = p->last_entry_ns;
	if (p->times) {
		e->enqueue_ns__p50 = ft_nccl_quantile(s->enqueue, 0.5);
		e->enqueue_ns__p99 = ft_nccl_quantile(s->enqueue, 0.99);
		e->period_ns__p50 = ft_nccl_quantile(s->period, 0.5);
		e->period_ns__p99 = ft_nccl_quantile(s->period, 0.99);
	}
	ft_emit(s->emit, &rec);
}

static uint64_t bytes_or_none(const struct ft_nccl_stat *st, uint64_t bytes)
{
	return st->flags & FT_NCCL_BYTES_UNKNOWN ? FT_NONE_U64 : bytes;
}

/*
 * The address was given to a new communicator since the last read: what was counted until then is
 * the old one's, with a line of its own.
 */
static void emit_moved(struct ft_nccl_stats *s, const struct known *k, const char *task,
		       uint64_t now_ns)
{
	const struct ft_nccl_stat *st = &s->now, *last = &k->last;
	bool renewed = st->inits != last->inits;
	uint64_t old = renewed ? st->init_calls - last->calls : 0;
	struct part p;

	if (old) {
		p = (struct part){
			.ts_ns = st->init_ns,
			.calls = old,
			.total = st->init_calls - last->init_calls,
			.bytes = st->init_bytes - last->bytes,
			.last_entry_ns = FT_NONE_U64,
		};
		emit_part(s, &k->key, task, &p);
	}
	p = (struct part){
		.ts_ns = now_ns,
		.calls = st->calls - last->calls - old,
		.total = st->calls - st->init_calls,
		.bytes = bytes_or_none(st, st->bytes - (renewed ? st->init_bytes : last->bytes)),
		.last_entry_ns = st->last_entry_ns,
		.times = !old,
	};
	if (p.calls)
		emit_part(s, &k->key, task, &p);
}

static void read_one(struct ft_nccl_stats *s, struct known *k, uint64_t now_ns,
		     void (*name)(void *, uint32_t, char[16]), void *ctx)
{
	char task[16] = "";

	if (bpf_map_lookup_elem(s->stats_fd, &k->key, &s->now))
		return;
	if (s->now.calls != k->last.calls) {
		for (int i = 0; i < FT_NCCL_SLOTS; i++) {
			s->period[i] = s->now.period[i] - k->last.period[i];
			s->enqueue[i] = s->now.enqueue[i] - k->last.enqueue[i];
		}
		if (name)
			name(ctx, k->key.tgid, task);
		emit_moved(s, k, task, now_ns);
	}
	k->last = s->now;
}

/* What had no room in the map, by operation: the key "other" is no process and no communicator. */
static void read_other(struct ft_nccl_stats *s, uint64_t now_ns)
{
	for (uint32_t op = 1; op <= FT_NCCL_OPS; op++) {
		struct ft_nccl_key key = { .comm = FT_NONE_U64, .op = op };
		struct part p = { .ts_ns = now_ns, .last_entry_ns = FT_NONE_U64 };

		if (bpf_map_lookup_elem(s->other_fd, &op, &s->now) ||
		    s->now.calls == s->other_calls[op])
			continue;
		p.calls = s->now.calls - s->other_calls[op];
		p.total = s->now.calls;
		p.bytes = bytes_or_none(&s->now, s->now.bytes - s->other_bytes[op]);
		emit_part(s, &key, "", &p);
		s->other_calls[op] = s->now.calls;
		s->other_bytes[op] = s->now.bytes;
	}
}

void ft_nccl_stats_read(struct ft_nccl_stats *s, uint64_t now_ns,
			void (*name)(void *ctx, uint32_t pid, char task[16]), void *ctx)
{
	struct ft_nccl_key key, next;
	struct known *k, *tmp;
	bool first = true;

	while (!bpf_map_get_next_key(s->stats_fd, first ? NULL : &key, &next)) {
		known_of(s, &next);
		key = next;
		first = false;
	}
	HASH_ITER(hh, s->known, k, tmp) {
		read_one(s, k, now_ns, name, ctx);
		if (!(k->last.flags & FT_NCCL_ENDED) || now_ns < k->last.last_entry_ns + ENDED_NS)
			continue;
		bpf_map_delete_elem(s->stats_fd, &k->key);
		HASH_DEL(s->known, k);
		free(k);
	}
	read_other(s, now_ns);
}

void ft_nccl_stats_drop(struct ft_nccl_stats *s, uint32_t pid)
{
	struct known *k, *tmp;

	HASH_ITER(hh, s->known, k, tmp) {
		if (k->key.tgid != pid)
			continue;
		bpf_map_delete_elem(s->stats_fd, &k->key);
		HASH_DEL(s->known, k);
		free(k);
	}
}

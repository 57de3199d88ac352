// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Records come from several CPUs and pollers, each about in order. A binary heap keyed by
 * (time, arrival) holds them back for a while and hands them on in order.
 */
#include "event/event.h"

struct node {
	uint64_t ts, seq;
	struct ft_hdr *ev;
};

struct ft_order {
	struct node *heap;
	size_t n, cap, max;
	uint64_t hold_ns, seq, last_ts;
	uint64_t newest; /* that was pushed, of what is not from before the attach */
	ft_sink_fn sink;
	void *ctx;
};

int ft_order_new(struct ft_order **out, uint64_t hold_ns, size_t max_records, ft_sink_fn sink,
		 void *ctx)
{
	struct ft_order *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	*o = (struct ft_order){ .hold_ns = hold_ns, .max = max_records, .sink = sink, .ctx = ctx };
	*out = o;
	return 0;
}

void ft_order_free(struct ft_order *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->n; i++)
		free(o->heap[i].ev);
	free(o->heap);
	free(o);
}

static bool before(const struct node *a, const struct node *b)
{
	return a->ts != b->ts ? a->ts < b->ts : a->seq < b->seq;
}

static void sift_up(struct node *h, size_t i)
{
	struct node x = h[i];

	for (; i && before(&x, &h[(i - 1) / 2]); i = (i - 1) / 2)
		h[i] = h[(i - 1) / 2];
	h[i] = x;
}

static void sift_down(struct node *h, size_t n, size_t i)
{
	struct node x = h[i];

	for (size_t c; (c = 2 * i + 1) < n; i = c) {
		if (c + 1 < n && before(&h[c + 1], &h[c]))
			c++;
		if (!before(&h[c], &x))
			break;
		h[i] = h[c];
	}
	h[i] = x;
}

static void hand_on(struct ft_order *o)
{
	struct ft_hdr *ev = o->heap[0].ev;
	uint64_t ts = o->heap[0].ts;

	o->heap[0] = o->heap[--o->n];
	if (o->n)
		sift_down(o->heap, o->n, 0);
	if (ts < o->last_ts)
		ev->flags |= FT_REC_LATE;
	else
		o->last_ts = ts;
	o->sink(o->ctx, ev);
	free(ev);
}

static int heap_room(struct ft_order *o)
{
	size_t cap = o->cap ? 2 * o->cap : 1024;
	struct node *h;

	if (o->n < o->cap)
		return 0;
	h = realloc(o->heap, cap * sizeof(*h));
	if (!h)
		return -ENOMEM;
	o->heap = h;
	o->cap = cap;
	return 0;
}

/* What is older than the inventory comes after it all the same: it is about those devices. */
static uint64_t turn_of(struct ft_order *o, const struct ft_hdr *ev)
{
	if (ev->flags & FT_REC_BEFORE)
		return MAX(ev->ts_ns, o->newest);
	o->newest = MAX(o->newest, ev->ts_ns);
	return ev->ts_ns;
}

int ft_order_push(struct ft_order *o, const void *rec, size_t len)
{
	int err = ft_rec_check(rec, len);
	struct ft_hdr *copy;

	if (!err)
		err = heap_room(o);
	if (err)
		return err;
	copy = malloc(len);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, rec, len);
	copy->flags &= ~FT_REC_LATE;
	o->heap[o->n] = (struct node){ turn_of(o, copy), o->seq++, copy };
	sift_up(o->heap, o->n++);
	while (o->n > o->max)
		hand_on(o);
	return 0;
}

void ft_order_advance(struct ft_order *o, uint64_t now_ns)
{
	/* A recording can hold any time: no sum that may wrap. */
	uint64_t until = now_ns - MIN(o->hold_ns, now_ns);

	while (o->n && (now_ns == UINT64_MAX || (now_ns >= o->hold_ns && o->heap[0].ts <= until)))
		hand_on(o);
}

uint64_t ft_order_due(const struct ft_order *o)
{
	return o->n ? o->heap[0].ts + MIN(o->hold_ns, UINT64_MAX - o->heap[0].ts) : UINT64_MAX;
}

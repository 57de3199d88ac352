// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* TCP connections of traced processes: who has which end. */
#include "attrib/internal.h"

static bool get_ip(const struct ft_field *f, const struct ft_hdr *ev, uint8_t ip[16])
{
	static const uint8_t none[16];

	if (!f || (f->role == FT_ROLE_VARIES && (ev->flags & FT_REC_AGG)))
		return false;
	memcpy(ip, (const char *)ev + f->off, 16);
	return memcmp(ip, none, sizeof(none)) != 0;
}

static bool get_port(const struct ft_field *f, const struct ft_hdr *ev, uint16_t *port)
{
	uint64_t v;

	if (!f || !ft_field_get(f, ev, &v) || !v)
		return false;
	*port = v;
	return true;
}

/* The event's addresses and ports, all four known. */
bool tuple_of(const struct ft_attrib *a, const struct ft_hdr *ev, struct tuple *t)
{
	const struct places *pl = &a->places[ev->kind];
	uint16_t sport, dport;
	uint64_t v;

	*t = (struct tuple){};
	if (!get_ip(pl->saddr, ev, t->src.ip) || !get_ip(pl->daddr, ev, t->dst.ip) ||
	    !get_port(pl->sport, ev, &sport) || !get_port(pl->dport, ev, &dport))
		return false;
	t->src.port = sport;
	t->dst.port = dport;
	if (pl->netns && ft_field_get(pl->netns, ev, &v))
		t->netns = v;
	return true;
}

/* The key is the same from both ends; true when src is its second endpoint. */
static bool flow_key(const struct tuple *t, struct flow_key *key)
{
	bool swap = memcmp(&t->src, &t->dst, sizeof(t->src)) > 0;

	key->a = swap ? t->dst : t->src;
	key->b = swap ? t->src : t->dst;
	return swap;
}

static struct flow *flow_find(const struct ft_attrib *a, const struct tuple *t, bool *swap)
{
	struct flow_key key;
	struct flow *f;

	*swap = flow_key(t, &key);
	HASH_FIND(hh, a->flows, &key, sizeof(key), f);
	return f;
}

static bool flow_done(const struct flow *f)
{
	return (!f->end[0].pid || f->end[0].closed) && (!f->end[1].pid || f->end[1].closed);
}

static void flow_drop(struct ft_attrib *a, struct flow *f)
{
	HASH_DEL(a->flows, f);
	free(f);
}

void flow_free_all(struct ft_attrib *a)
{
	struct flow *f, *next;

	HASH_ITER(hh, a->flows, f, next)
		flow_drop(a, f);
}

/* Closed connections stay until the room is needed: their last packets may still be dropped. */
static void flows_sweep(struct ft_attrib *a)
{
	struct flow *f, *next;

	HASH_ITER(hh, a->flows, f, next)
		if (flow_done(f))
			flow_drop(a, f);
}

static struct flow *flow_new(struct ft_attrib *a, const struct tuple *t)
{
	struct flow *f;

	if (HASH_COUNT(a->flows) >= FLOWS_MAX)
		flows_sweep(a);
	f = HASH_COUNT(a->flows) < FLOWS_MAX ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		goto unfit;
	flow_key(t, &f->key);
	HASH_ADD(hh, a->flows, key, sizeof(f->key), f);
	if (f->hh.tbl)
		return f;
	free(f);
unfit:
	a->unfit++;
	return NULL;
}

static bool is_closing(const struct ft_hdr *ev)
{
	return ev->kind == FT_KIND_tcp_state && ((const struct ft_ev_tcp_state *)ev)->to == 7;
}

/* The event's process has the end named by saddr and sport. */
void flow_learn(struct ft_attrib *a, const struct ft_hdr *ev)
{
	struct tuple t;
	struct flow *f;
	struct end *e;
	bool swap, same;

	if (!ev->pid || !tuple_of(a, ev, &t))
		return;
	f = flow_find(a, &t, &swap);
	if (!f)
		f = flow_new(a, &t);
	if (!f)
		return;
	swap = flow_key(&t, &f->key);
	e = &f->end[swap];
	if (e->pid && !e->closed && t.netns && e->netns && e->netns != t.netns) {
		e->ambiguous = true;
		return;
	}
	same = e->pid == ev->pid && !e->closed && proc_same_start(e->start_ns, ev->start_ns);
	*e = (struct end){
		.pid = ev->pid,
		.start_ns = ev->start_ns,
		.since_ns = same ? e->since_ns : ev->ts_ns,
		.netns = t.netns,
		.closed = is_closing(ev),
		.ambiguous = e->ambiguous && !e->closed,
	};
}

struct proc *flow_owner(struct ft_attrib *a, const struct tuple *t, bool dst)
{
	bool swap;
	const struct flow *f = flow_find(a, t, &swap);
	const struct end *e = f ? &f->end[swap ^ dst] : NULL;

	if (!e || !e->pid || e->ambiguous)
		return NULL;
	return proc_find(a, e->pid, e->start_ns);
}

uint64_t flow_since(const struct ft_attrib *a, const struct tuple *t, const struct proc *p)
{
	bool swap;
	const struct flow *f = flow_find(a, t, &swap);
	const struct end *e = f ? &f->end[swap] : NULL;

	return e && e->pid == p->pid && !e->ambiguous ? e->since_ns : 0;
}

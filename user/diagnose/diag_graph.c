// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The graph: processes, places, connections between them, interfaces that dropped packets. */
#include "diagnose/internal.h"

/* --- places --- */

static struct place *place_get(struct ft_diag *d, const struct place_key *key)
{
	struct place *p;

	HASH_FIND(hh, d->places, key, sizeof(*key), p);
	if (p)
		return p;
	p = HASH_COUNT(d->places) < PLACES_MAX ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		goto unfit;
	p->key = *key;
	HASH_ADD(hh, d->places, key, sizeof(p->key), p);
	if (p->hh.tbl)
		return p;
	free(p);
unfit:
	d->unfit++;
	return NULL;
}

struct place *place_of(struct ft_diag *d, const struct ft_attr_nic *nic)
{
	struct place_key key = { .netns = nic->netns };
	struct place *p;

	memcpy(key.ifname, nic->netdev, sizeof(key.ifname));
	p = place_get(d, &key);
	if (p && !p->local) {
		p->local = true;
		p->nic = *nic;
	}
	return p;
}

static struct place *place_remote(struct ft_diag *d, const uint8_t ip[16])
{
	struct place_key key = {};

	memcpy(key.ip, ip, sizeof(key.ip));
	return place_get(d, &key);
}

static bool same_rank(const struct ft_attr_rank *a, const struct ft_attr_rank *b)
{
	/* Equal numbers in two jobs: each knows a communicator of its own. */
	if (a->comm && b->comm && a->comm != b->comm && a->nranks == b->nranks)
		return false;
	if (a->global_rank >= 0 && b->global_rank >= 0)
		return a->global_rank == b->global_rank;
	return a->comm == b->comm && a->rank == b->rank && a->global_rank == b->global_rank;
}

void place_add_ranks(struct place *p, const struct ft_attr *attr)
{
	for (int i = 0; i < attr->nranks; i++) {
		int k = 0;

		while (k < p->nranks && !same_rank(&p->ranks[k], &attr->ranks[i]))
			k++;
		if (k == FT_ATTR_MAX)
			p->ranks_cut = true;
		else if (k == p->nranks)
			p->ranks[p->nranks++] = attr->ranks[i];
		else if (attr->ranks[i].nranks > p->ranks[k].nranks)
			p->ranks[k] = attr->ranks[i];
	}
}

/* --- addresses --- */

void addr_learn(struct ft_diag *d, const uint8_t ip[16], struct place *p)
{
	struct addr *a;

	HASH_FIND(hh, d->addrs, ip, 16, a);
	if (a) {
		if (a->place != p)
			a->place = NULL;
		return;
	}
	a = HASH_COUNT(d->addrs) < PLACES_MAX ? calloc(1, sizeof(*a)) : NULL;
	if (!a)
		goto unfit;
	memcpy(a->ip, ip, sizeof(a->ip));
	a->place = p;
	HASH_ADD(hh, d->addrs, ip, sizeof(a->ip), a);
	if (a->hh.tbl)
		return;
	free(a);
unfit:
	d->unfit++;
}

/* --- connections --- */

static bool get_end(const struct ft_field *addr, const struct ft_field *port,
		    const struct ft_hdr *ev, struct endpoint *out)
{
	static const uint8_t none[16];
	uint64_t v;

	if (!addr || !port || (addr->role == FT_ROLE_VARIES && (ev->flags & FT_REC_AGG)))
		return false;
	memcpy(out->ip, (const char *)ev + addr->off, sizeof(out->ip));
	if (!memcmp(out->ip, none, sizeof(none)) || !ft_field_get(port, ev, &v) || !v)
		return false;
	out->port = v;
	return true;
}

static void flows_sweep(struct ft_diag *d)
{
	struct flow *f, *next;

	HASH_ITER(hh, d->flows, f, next) {
		bool closed = (f->end[0].closed || !f->end[0].pid) &&
			      (f->end[1].closed || !f->end[1].pid);
		bool evidence = f->dir[0].segs || f->dir[1].segs || f->dir[0].drops[0].site ||
				f->dir[1].drops[0].site;

		if (!closed || evidence)
			continue;
		HASH_DEL(d->flows, f);
		free(f);
	}
}

static struct flow *flow_get(struct ft_diag *d, const struct flow_key *key)
{
	struct flow *f;

	HASH_FIND(hh, d->flows, key, sizeof(*key), f);
	if (f)
		return f;
	if (HASH_COUNT(d->flows) >= FLOWS_MAX)
		flows_sweep(d);
	f = HASH_COUNT(d->flows) < FLOWS_MAX ? calloc(1, sizeof(*f)) : NULL;
	if (!f)
		goto unfit;
	f->key = *key;
	HASH_ADD(hh, d->flows, key, sizeof(f->key), f);
	if (f->hh.tbl)
		return f;
	free(f);
unfit:
	d->unfit++;
	return NULL;
}

/* The event's own end: where its process and its interface are. */
static void end_learn(struct ft_diag *d, struct fend *e, const uint8_t ip[16],
		      const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct place *p;

	if (ev->pid)
		e->pid = ev->pid;
	if (!attr->nnics || (e->place && e->place->key.ifname[0] && !attr->nics[0].netdev[0]))
		return;
	p = place_of(d, &attr->nics[0]);
	if (!p)
		return;
	e->place = p;
	p->crossed = true;
	addr_learn(d, ip, p);
	place_add_ranks(p, attr);
	if (!p->pid && ev->pid) {
		p->pid = ev->pid;
		ft_fmt(p->task, "%.*s", (int)sizeof(ev->task), ev->task);
	}
}

/* *src is the index of the end that saddr and sport name. */
static bool flow_key_of(const struct ft_hdr *ev, struct flow_key *key, bool *src)
{
	const struct ft_kind_info *k = ft_kind(ev->kind);
	struct endpoint s, t;

	if (!get_end(ft_field(k, "saddr"), ft_field(k, "sport"), ev, &s) ||
	    !get_end(ft_field(k, "daddr"), ft_field(k, "dport"), ev, &t))
		return false;
	*src = memcmp(&s, &t, sizeof(s)) > 0;
	key->a = *src ? t : s;
	key->b = *src ? s : t;
	return true;
}

/* The connection of an event of one of its ends, the one that saddr and sport name. */
struct flow *flow_of(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr,
		     bool *src)
{
	struct flow_key key;
	struct flow *f = flow_key_of(ev, &key, src) ? flow_get(d, &key) : NULL;

	if (f)
		end_learn(d, &f->end[*src], (*src ? &key.b : &key.a)->ip, ev, attr);
	return f;
}

struct flow *flow_find(struct ft_diag *d, const struct ft_hdr *ev, bool *src)
{
	struct flow_key key;
	struct flow *f = NULL;

	if (flow_key_of(ev, &key, src))
		HASH_FIND(hh, d->flows, &key, sizeof(key), f);
	return f;
}

struct place *end_known(const struct ft_diag *d, const struct flow *f, int end)
{
	const struct endpoint *e = end ? &f->key.b : &f->key.a;
	struct place_key key = {};
	struct place *p;
	struct addr *a;

	if (f->end[end].place)
		return f->end[end].place;
	HASH_FIND(hh, d->addrs, e->ip, sizeof(e->ip), a);
	if (a)
		return a->place;
	memcpy(key.ip, e->ip, sizeof(key.ip));
	HASH_FIND(hh, d->places, &key, sizeof(key), p);
	return p;
}

struct place *end_place(struct ft_diag *d, struct flow *f, int end)
{
	const struct endpoint *e = end ? &f->key.b : &f->key.a;
	struct place *p = end_known(d, f, end);
	struct addr *a;

	if (p)
		return p;
	HASH_FIND(hh, d->addrs, e->ip, sizeof(e->ip), a);
	return a ? NULL : place_remote(d, e->ip);
}

/* --- interfaces that dropped --- */

struct site *site_of(struct ft_diag *d, uint32_t netns, const char *ifname)
{
	struct site_key key = { .netns = netns };
	struct site *s;

	memcpy(key.ifname, ifname, strnlen(ifname, sizeof(key.ifname)));
	HASH_FIND(hh, d->sites, &key, sizeof(key), s);
	if (s)
		return s;
	s = HASH_COUNT(d->sites) < SITES_MAX ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		goto unfit;
	s->key = key;
	HASH_ADD(hh, d->sites, key, sizeof(s->key), s);
	if (s->hh.tbl)
		return s;
	free(s);
unfit:
	d->unfit++;
	return NULL;
}

/* --- processes --- */

struct dproc *dproc_find(const struct ft_diag *d, uint32_t pid)
{
	struct dproc *p;

	HASH_FIND(hh, d->procs, &pid, sizeof(pid), p);
	return p;
}

/* /proc gives start times in ticks of 10 ms; 0 is unknown and may be any. */
static bool same_start(uint64_t a, uint64_t b)
{
	return !a || !b || (a > b ? a - b : b - a) <= 10 * NSEC_PER_MSEC;
}

/* A pid that is used again is another process: it takes the place of the one that ended. */
static struct dproc *dproc_renew(struct ft_diag *d, struct dproc *p, const struct ft_hdr *ev)
{
	if (same_start(p->start_ns, ev->start_ns)) {
		p->start_ns = p->start_ns ? p->start_ns : ev->start_ns;
		return p;
	}
	if (ev->start_ns < p->start_ns)
		return NULL; /* late news of the one before */
	*p = (struct dproc){
		.hh = p->hh, .pid = p->pid, .start_ns = ev->start_ns, .seen_ns = d->now_ns
	};
	return p;
}

static struct dproc *dproc_get(struct ft_diag *d, const struct ft_hdr *ev)
{
	struct dproc *p = dproc_find(d, ev->pid);

	if (p)
		return dproc_renew(d, p, ev);
	p = HASH_COUNT(d->procs) < PROCS_MAX ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		goto unfit;
	p->pid = ev->pid;
	p->start_ns = ev->start_ns;
	p->seen_ns = d->now_ns;
	HASH_ADD(hh, d->procs, pid, sizeof(p->pid), p);
	if (p->hh.tbl)
		return p;
	free(p);
unfit:
	d->unfit++;
	return NULL;
}

bool dproc_is_rank(const struct ft_diag *d, const struct dproc *p)
{
	return p->nranks || (p->nccl && !p->helper && !p->launcher && !d->numbered);
}

/* What tells a rank of unknown number from what stands above and below it. */
static void dproc_kin(struct ft_diag *d, struct dproc *p, const struct ft_hdr *ev)
{
	const struct ft_ev_inv_proc *inv = (const void *)ev;
	const struct ft_ev_proc_start *start = (const void *)ev;
	struct dproc *parent;

	switch (ev->kind) {
	case FT_KIND_nccl_lib:
		p->nccl = true;
		break;
	case FT_KIND_proc_start:
		parent = start->exec == 0 ? dproc_find(d, start->ppid) : NULL;
		p->nccl = p->launcher = false;
		p->helper = parent && (parent->helper || dproc_is_rank(d, parent));
		break;
	case FT_KIND_inv_proc:
		p->nccl |= inv->nccl == 1;
		p->helper = inv->helper == 1;
		parent = p->nccl && !p->helper ? dproc_find(d, inv->ppid) : NULL;
		if (parent)
			parent->launcher = true;
		break;
	}
}

/* Learns who is a rank; what is no rank is forgotten when it ends. */
void dproc_event(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct dproc *p;

	/* Facts read while it ended, or its socket's last words: it is not there again. */
	if (!ev->pid || (attr->ended && !dproc_find(d, ev->pid)))
		return;
	p = dproc_get(d, ev);
	if (!p)
		return;
	if (ev->kind == FT_KIND_proc_start && p->exit_ns) {
		p->exit_ns = 0;
		p->seen_ns = ev->ts_ns;
	}
	dproc_kin(d, p, ev);
	if (ev->kind == FT_KIND_inv_proc || ev->kind == FT_KIND_proc_start || !p->task[0])
		ft_fmt(p->task, "%.*s", (int)sizeof(ev->task), ev->task);
	p->nranks = attr->nranks;
	if (attr->nranks) {
		p->rank = attr->ranks[0];
		d->numbered |= rank_number(&p->rank) >= 0;
		d->comm_size = MAX(d->comm_size, attr->ranks[0].nranks);
	}
	if (ev->kind != FT_KIND_proc_exit)
		return;
	p->exit_ns = ev->ts_ns;
	if (!dproc_is_rank(d, p)) {
		HASH_DEL(d->procs, p);
		free(p);
	}
}

/* --- pairs: connections added up by the places they join, one way each --- */

static struct window *window_of(struct ft_diag *d, const struct pair_key *key, bool make)
{
	struct window *w;

	HASH_FIND(hh, d->windows, key, sizeof(*key), w);
	if (w || !make)
		return w;
	w = HASH_COUNT(d->windows) < PAIRS_MAX ? calloc(1, sizeof(*w)) : NULL;
	if (!w)
		goto unfit;
	w->key = *key;
	HASH_ADD(hh, d->windows, key, sizeof(w->key), w);
	if (w->hh.tbl)
		return w;
	free(w);
unfit:
	d->unfit++;
	return NULL;
}

/* Takes what is old enough to be known as lost; returns how many segments are not yet. */
static uint64_t window_settle(const struct ft_diag *d, struct window *w, bool final)
{
	uint64_t recent = 0;

	if (!final && d->now_ns < w->recent_ns + LATE_NS)
		recent = w->recent[0] + w->recent[1];
	else if (!final && d->now_ns < w->recent_ns + 2 * LATE_NS)
		recent = w->recent[0];
	w->lost = w->lost_before;
	if (w->segs > recent + w->late)
		w->lost = MAX(w->lost, w->segs - recent - w->late);
	return recent;
}

void window_add(struct ft_diag *d, struct flow *f, int src, uint64_t segs, uint64_t ts_ns)
{
	struct pair_key key = { end_place(d, f, src), end_place(d, f, !src) };
	struct window *w = key.src && key.dst ? window_of(d, &key, true) : NULL;

	if (!w)
		return;
	if (ts_ns > w->from_ns + WINDOW_NS) {
		/* What waits for its answer goes on to the next window. */
		w->segs = MIN(window_settle(d, w, false), w->segs - MIN(w->late, w->segs));
		w->lost_before = w->lost;
		w->from_ns = ts_ns;
		w->late = 0;
	}
	if (ts_ns > w->recent_ns + LATE_NS) {
		w->recent[1] = ts_ns > w->recent_ns + 2 * LATE_NS ? 0 : w->recent[0];
		w->recent[0] = 0;
		w->recent_ns = ts_ns;
	}
	w->recent[0] += segs;
	w->segs += segs;
	w->peak = MAX(w->peak, w->segs);
}

void window_late(struct ft_diag *d, struct flow *f, int src, uint64_t segs)
{
	struct pair_key key = { end_place(d, f, src), end_place(d, f, !src) };
	struct window *w = key.src && key.dst ? window_of(d, &key, false) : NULL;

	if (w)
		w->late += segs;
}

static struct pair *pair_get(struct ft_diag *d, struct place *src, struct place *dst)
{
	struct pair_key key = { src, dst };
	struct window *w;
	struct pair *p;

	HASH_FIND(hh, d->pair_hash, &key, sizeof(key), p);
	if (p)
		return p;
	if (d->npairs == PAIRS_MAX)
		goto unfit;
	w = window_of(d, &key, false);
	p = &d->pairs[d->npairs];
	*p = (struct pair){ .key = key };
	if (w) {
		p->peak = w->peak;
		p->lost = w->lost;
	}
	HASH_ADD(hh, d->pair_hash, key, sizeof(p->key), p);
	if (p->hh.tbl) {
		d->npairs++;
		return p;
	}
unfit:
	d->unfit++;
	return NULL;
}

static void pair_add_drops(struct pair *p, const struct dir *dir)
{
	for (size_t i = 0; i < ARRAY_SIZE(dir->drops) && dir->drops[i].site; i++) {
		size_t k = 0;

		while (k < ARRAY_SIZE(p->drops) - 1 && p->drops[k].site &&
		       p->drops[k].site != dir->drops[i].site)
			k++;
		p->drops[k].site = dir->drops[i].site;
		p->drops[k].packets += dir->drops[i].packets;
	}
}

static void pair_add(const struct ft_diag *d, struct pair *p, const struct dir *dir, bool closed)
{
	p->flows++;
	pair_add_drops(p, dir);
	if (dir->timeouts && !closed) {
		p->stalled++;
		p->timeouts = MAX(p->timeouts, dir->timeouts);
		p->unacked_segs += dir->unacked_segs;
		p->stall_ns = p->stall_ns ? MIN(p->stall_ns, dir->stall_ns) : dir->stall_ns;
		p->last_ns = d->now_ns;
	}
	if (!dir->segs)
		return;
	p->lossy_flows++;
	p->late += dir->late;
	p->segs += dir->segs;
	p->bytes += dir->bytes;
	p->syn_segs += dir->syn_segs;
	p->first_ns = p->first_ns ? MIN(p->first_ns, dir->first_ns) : dir->first_ns;
	p->last_ns = MAX(p->last_ns, dir->last_ns);
}

static bool pair_dir(struct ft_diag *d, struct flow *f, int src)
{
	struct place *from = end_place(d, f, src), *to = end_place(d, f, !src);
	/* An address that two namespaces have tells no place. */
	struct pair *p = from && to ? pair_get(d, from, to) : NULL;

	if (!p)
		return false;
	pair_add(d, p, &f->dir[src], f->end[src].closed);
	return p->stalled;
}

bool pairs_make(struct ft_diag *d, bool final)
{
	bool again = false;

	if (!d->pairs)
		d->pairs = calloc(PAIRS_MAX, sizeof(*d->pairs));
	HASH_CLEAR(hh, d->pair_hash);
	d->npairs = 0;
	if (!d->pairs)
		return false;
	for (struct window *w = d->windows; w; w = w->hh.next)
		again |= window_settle(d, w, final) > 0;
	for (struct flow *f = d->flows; f; f = f->hh.next)
		for (int src = 0; src < 2; src++)
			again |= pair_dir(d, f, src);
	return again;
}

bool place_touches(const struct pair *p, const struct place *x)
{
	return p->key.src == x || p->key.dst == x;
}

#define FREE_ALL(head, type)                                                                       \
	do {                                                                                       \
		struct type *e_, *next_;                                                           \
                                                                                                   \
		HASH_ITER(hh, head, e_, next_) {                                                   \
			HASH_DEL(head, e_);                                                        \
			free(e_);                                                                  \
		}                                                                                  \
	} while (0)

void graph_free(struct ft_diag *d)
{
	FREE_ALL(d->places, place);
	FREE_ALL(d->flows, flow);
	FREE_ALL(d->sites, site);
	FREE_ALL(d->addrs, addr);
	FREE_ALL(d->windows, window);
	FREE_ALL(d->procs, dproc);
	FREE_ALL(d->plinks, plink);
	HASH_CLEAR(hh, d->pair_hash);
	free(d->pairs);
}

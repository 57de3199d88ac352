// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Lossy links. A retransmission says that a packet of this direction was lost somewhere between
 * two places, not where. A drop says where. So first the drops explain what they can, then one
 * place that all the rest crosses, and what is left is a path that cannot be told apart further.
 */
#include "diagnose/internal.h"

/* --- evidence comes in --- */

/* A record that stands for several has the time of its making; the events were before. */
static uint64_t first_time(const struct ft_hdr *ev)
{
	return (ev->count > 1 || ev->flags & FT_REC_AGG) && ev->first_ns ? ev->first_ns : ev->ts_ns;
}

static uint64_t last_time(const struct ft_hdr *ev)
{
	return (ev->count > 1 || ev->flags & FT_REC_AGG) && ev->last_ns ? ev->last_ns : ev->ts_ns;
}

static void late_take(struct ft_diag *d, struct flow *f, int src, uint64_t segs)
{
	f->dir[src].late += segs;
	window_late(d, f, src, segs);
}

/*
 * What the receiver had already was late. Of a storm the segments are told after that; others that
 * were not seen had been sent before the attach.
 */
void loss_late(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_late *e = (const void *)ev;
	struct flow *f;
	struct dir *dir;
	uint64_t segs;
	bool src;

	f = flow_of(d, ev, attr, &src);
	if (!f)
		return;
	dir = &f->dir[src];
	segs = MIN(e->segs, dir->segs - dir->late);
	late_take(d, f, src, segs);
	if (ev->ts_ns > dir->ahead_ns + AHEAD_NS)
		dir->ahead = 0;
	dir->ahead += e->segs - segs;
	dir->ahead_ns = ev->ts_ns;
	d->dirty = true;
}

/* The segments of a storm, of which it was told before that they were late. */
static void late_ahead(struct ft_diag *d, const struct ft_hdr *ev, struct flow *f, int src,
		       uint64_t segs)
{
	struct dir *dir = &f->dir[src];

	if (!dir->ahead || first_time(ev) > dir->ahead_ns || ev->ts_ns > dir->ahead_ns + AHEAD_NS)
		return;
	segs = MIN(segs, dir->ahead);
	dir->ahead -= segs;
	late_take(d, f, src, segs);
}

void loss_retransmit(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_retransmit *e = (const void *)ev;
	uint64_t first = first_time(ev), last = last_time(ev);
	uint64_t segs = e->segs == FT_NONE_U64 ? ev->count : e->segs;
	struct flow *f;
	struct dir *dir;
	bool src;

	d->segs += segs;
	f = flow_of(d, ev, attr, &src);
	if (!f)
		return;
	dir = &f->dir[src];
	dir->segs += segs;
	if (e->bytes != FT_NONE_U64)
		dir->bytes += e->bytes;
	if (e->syn == 1)
		dir->syn_segs += segs;
	window_add(d, f, src, segs, last);
	late_ahead(d, ev, f, src, segs);
	dir->first_ns = dir->first_ns ? MIN(dir->first_ns, first) : first;
	dir->last_ns = MAX(dir->last_ns, last);
	d->dirty = true;
}

/* Of no link: by design, or the consequence of a loss elsewhere. */
static bool drop_is_blameless(const struct ft_ev_net_drop *e)
{
	char name[40];

	return ft_drop_is(ft_str_copy(&e->h, e->reason, name, sizeof(name))) != FT_DROP_IS_FAULT;
}

void loss_stall(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_stall *e = (const void *)ev;
	struct flow *f;
	bool src;

	f = flow_of(d, ev, attr, &src);
	if (!f)
		return;
	if (!f->dir[src].timeouts)
		f->dir[src].stall_ns = ev->ts_ns;
	f->dir[src].timeouts = e->timeouts;
	f->dir[src].unacked_segs = e->unacked_segs;
	d->dirty = true;
}

static void site_reason(struct site *s, const struct ft_ev_net_drop *e)
{
	char name[40];
	size_t i = 0;

	ft_str_copy(&e->h, e->reason, name, sizeof(name));
	while (i < ARRAY_SIZE(s->reasons) - 1 && s->reasons[i].packets &&
	       strcmp(s->reasons[i].name, name) != 0)
		i++;
	if (s->reasons[i].packets && strcmp(s->reasons[i].name, name) != 0)
		ft_fmt(s->reasons[i].name, "others");
	else
		ft_strcpy(s->reasons[i].name, name, sizeof(s->reasons[i].name));
	s->reasons[i].packets += e->h.count;
	if (!s->symbol[0])
		ft_str_copy(&e->h, e->symbol, s->symbol, sizeof(s->symbol));
}

static void dir_drop(struct dir *dir, struct site *s, uint64_t packets)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(dir->drops) - 1 && dir->drops[i].site && dir->drops[i].site != s)
		i++;
	dir->drops[i].site = s;
	dir->drops[i].packets += packets;
}

/* The place of the process that a drop without addresses belongs to. */
static struct place *owner_place(struct ft_diag *d, uint32_t pid)
{
	for (struct flow *f = d->flows; pid && f; f = f->hh.next)
		for (int i = 0; i < 2; i++)
			if (f->end[i].pid == pid && f->end[i].place)
				return f->end[i].place;
	return NULL;
}

static void site_add(struct site *s, const struct ft_ev_net_drop *e)
{
	uint64_t first = first_time(&e->h), last = last_time(&e->h);

	s->packets += e->h.count;
	s->bytes += e->len_bytes == FT_NONE_U64 ? 0 : e->len_bytes;
	*(e->ingress == 0 ? &s->out : &s->in) += e->h.count;
	s->first_ns = s->first_ns ? MIN(s->first_ns, first) : first;
	s->last_ns = MAX(s->last_ns, last);
	site_reason(s, e);
}

/* Packets of other people are dropped every day: only those of a traced process count. */
void loss_drop(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_drop *e = (const void *)ev;
	struct flow *f;
	struct site *s;
	bool src;

	if (drop_is_blameless(e)) {
		d->drops_ordinary += ev->count;
		return;
	}
	f = flow_find(d, ev, &src);
	if (!ev->pid && (!f || (!f->end[0].pid && !f->end[1].pid))) {
		d->drops_other += ev->count;
		return;
	}
	d->drops += ev->count;
	/* A packet that is dropped before its route or behind its interface is at none. */
	s = attr->nnics ? site_of(d, attr->nics[0].netns, attr->nics[0].netdev)
			: site_of(d, e->netns, "");
	if (!s)
		return;
	site_add(s, e);
	d->dirty = true;
	if (f) {
		dir_drop(&f->dir[src], s, ev->count);
	} else {
		s->owner = s->owner ? s->owner : owner_place(d, ev->pid);
		s->owned += ev->count;
	}
}

/* --- judgement --- */

/* Seen drops are proof; without them it counts what the receiver had not already. */
static bool is_lossy(const struct pair *p)
{
	return p->stalled || p->lost >= LOSS_SEGS || (p->drops[0].site && p->peak >= LOSS_SEGS);
}

/* Segments that were lost, for all we know; one that stands still sends few. */
static uint64_t loss_of(const struct pair *p)
{
	return p->segs - p->late + (uint64_t)p->stalled * LOSS_SEGS;
}

static uint64_t drops_at(const struct pair *p, const struct site *s)
{
	uint64_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(p->drops); i++)
		if (p->drops[i].site == s)
			n += p->drops[i].packets;
	return n;
}

static const char *site_name(const struct site *s)
{
	return s->key.ifname[0] ? s->key.ifname : "no interface";
}

/* The rank's place that this interface is itself, or the only one of its namespace. */
static struct place *site_place(const struct ft_diag *d, const struct site *s)
{
	struct place *p, *only = NULL;

	for (p = d->places; p; p = p->hh.next) {
		if (!p->local || !(p->nranks || p->pid) || p->key.netns != s->key.netns)
			continue;
		if (!strncmp(p->key.ifname, s->key.ifname, sizeof(s->key.ifname)))
			return p;
		if (s->key.ifname[0])
			continue;
		if (only)
			return NULL;
		only = p;
	}
	return only;
}

/*
 * An interface on the way (a switch port): the place that every packet dropped there goes to or
 * comes from. With one pair only both its ends would do: then *other is the second.
 */
static struct place *site_behind(const struct ft_diag *d, const struct site *s,
				 struct place **other)
{
	struct place *cand[2] = {};
	bool any = false;

	for (size_t i = 0; i < d->npairs; i++) {
		const struct pair *p = &d->pairs[i];

		if (!drops_at(p, s))
			continue;
		if (!any) {
			cand[0] = p->key.src;
			cand[1] = p->key.dst;
			any = true;
			continue;
		}
		for (int k = 0; k < 2; k++)
			if (cand[k] && !place_touches(p, cand[k]))
				cand[k] = NULL;
	}
	if (!any)
		return s->owner;
	*other = cand[0] && cand[1] ? cand[1] : NULL;
	return cand[0] ? cand[0] : cand[1];
}

static void cover(struct finding *f, struct pair *p)
{
	bool lost = p->lost >= LOSS_SEGS || p->drops[0].site || !p->stalled;
	uint64_t since = lost ? p->first_ns : p->stall_ns;

	p->covered = true;
	f->proof |= p->stalled;
	f->since_ns = f->since_ns && since ? MIN(f->since_ns, since) : MAX(f->since_ns, since);
	f->last_ns = MAX(f->last_ns, p->last_ns);
	if (f->ncover < COVER_MAX) {
		f->cover[f->ncover].src = p->key.src;
		f->cover[f->ncover].dst = p->key.dst;
		f->ncover++;
	}
	finding_ranks(f, p->key.src->ranks, p->key.src->nranks);
	finding_ranks(f, p->key.dst->ranks, p->key.dst->nranks);
}

static struct pair *covered_pair(const struct ft_diag *d, const struct finding *f, size_t i)
{
	struct pair_key key = { f->cover[i].src, f->cover[i].dst };
	struct pair *p;

	HASH_FIND(hh, d->pair_hash, &key, sizeof(key), p);
	return p;
}

struct sums {
	uint64_t segs, bytes, flows, lossy_flows, stalled;
};

static struct sums cover_sums(const struct ft_diag *d, const struct finding *f)
{
	struct sums s = {};

	for (size_t i = 0; i < f->ncover; i++) {
		const struct pair *p = covered_pair(d, f, i);

		if (!p)
			continue;
		s.segs += p->segs;
		s.bytes += p->bytes;
		s.flows += p->flows;
		s.lossy_flows += p->lossy_flows;
		s.stalled += p->stalled;
	}
	return s;
}

static void evidence_pair(struct finding *f, const struct pair *p)
{
	char src[64], dst[64], late[64] = "", stalled[96] = "";

	place_short(p->key.src, src, sizeof(src));
	place_short(p->key.dst, dst, sizeof(dst));
	if (p->late)
		ft_fmt(late, ", %llu of them late and not lost (D-SACK)",
		       (unsigned long long)p->late);
	if (p->stalled)
		ft_fmt(stalled,
		       "; %u stand%s still: %u timeouts in a row, %u segments unacknowledged",
		       p->stalled, p->stalled == 1 ? "s" : "", p->timeouts, p->unacked_segs);
	lines_add(&f->evidence, "%s -> %s: %llu segment%s sent again in %u of %u connections%s%s%s",
		  src, dst, (unsigned long long)p->segs, ft_plural(p->segs, "s"), p->lossy_flows,
		  p->flows, late,
		  p->segs && p->segs == p->syn_segs ? " (all SYN: no connection is made)" : "",
		  stalled);
}

/* The pairs that the finding rests on, the worst first. */
static void evidence_pairs(const struct ft_diag *d, struct finding *f)
{
	for (size_t shown = 0; shown < MIN(f->ncover, 4); shown++) {
		size_t best = shown;
		const struct pair *p;

		for (size_t i = shown + 1; i < f->ncover; i++) {
			const struct pair *a = covered_pair(d, f, i), *b = covered_pair(d, f, best);

			if (a && b && loss_of(a) > loss_of(b))
				best = i;
		}
		__typeof__(f->cover[0]) tmp = f->cover[shown];

		f->cover[shown] = f->cover[best];
		f->cover[best] = tmp;
		p = covered_pair(d, f, shown);
		if (p)
			evidence_pair(f, p);
	}
	if (f->ncover > 4)
		lines_add(&f->evidence, "and %zu more pairs", f->ncover - 4);
}

static void evidence_site(const struct ft_diag *d, struct finding *f, const struct site *s)
{
	const char *way = !s->out ? "received" : !s->in ? "sent" : "received and sent";
	char where[64] = "", enter[48];

	ft_fmt(where, "%.16s (netns %u)", site_name(s), s->key.netns);
	netns_enter(d, s->key.netns, enter, sizeof(enter));
	lines_add(&f->evidence, "%s: %llu %s packets dropped, %s%s%s%s", where,
		  (unsigned long long)s->packets, way,
		  s->reasons[0].name[0] ? s->reasons[0].name : "reason unknown",
		  s->reasons[1].packets ? " and others" : "", s->symbol[0] ? " in " : "",
		  s->symbol);
	for (size_t i = 0; i < ARRAY_SIZE(s->reasons) && s->reasons[i].packets; i++) {
		const char *hint = reason_hint(s->reasons[i].name);

		if (hint)
			lines_add(&f->next, "at %.16s (netns %u; %s%s): %s", site_name(s),
				  s->key.netns, enter,
				  enter[0] ? "COMMAND" : "find it: lsns -t net", hint);
	}
	f->since_ns = f->since_ns ? MIN(f->since_ns, s->first_ns) : s->first_ns;
	f->last_ns = MAX(f->last_ns, s->last_ns);
}

static void object_of(struct finding *f, const char *at)
{
	char a[128], b[128];

	place_name(f->x, a, sizeof(a));
	if (f->y) {
		place_short(f->x, a, sizeof(a));
		place_short(f->y, b, sizeof(b));
		ft_fmt(f->object, "path between %.60s and %.60s%s", a, b, at);
	} else {
		ft_strcpy(f->object, a, sizeof(f->object));
	}
}

/* How those do that have an end in common with the path at fault. */
static void clean_flows(const struct ft_diag *d, struct finding *f)
{
	uint32_t pairs = 0, clean = 0;

	for (size_t i = 0; i < d->npairs && f->y; i++) {
		const struct pair *p = &d->pairs[i];

		if (p->covered || (!place_touches(p, f->x) && !place_touches(p, f->y)))
			continue;
		pairs++;
		clean += !p->segs && !p->stalled;
	}
	if (clean)
		lines_add(
			&f->evidence,
			"%u of the %u other directions at its ends are clean; how much they carry is "
			"not known",
			clean, pairs);
}

static void remote_next(const struct ft_diag *d, struct finding *f, const struct place *p)
{
	char ip[48];

	if (!p || p->local)
		return;
	ip_name(p->key.ip, ip);
	if (d->job[0])
		lines_add(
			&f->next,
			"the far end is not traced here: ssh %s sudo fabrictrace --cgroup job_%s -d 30",
			ip, d->job);
	else
		lines_add(&f->next,
			  "the far end is not traced here: ssh %s sudo fabrictrace -a -d 30", ip);
}

static void link_next(const struct ft_diag *d, struct finding *f)
{
	const struct place *ends[] = { f->x, f->y };
	char enter[48];

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const struct place *p = ends[i];

		remote_next(d, f, p);
		if (!p || !p->local || !p->key.ifname[0] || !strcmp(p->key.ifname, "lo"))
			continue;
		netns_enter(d, p->key.netns, enter, sizeof(enter));
		lines_add(&f->next, "errors and discards of %.16s (netns %u): %sethtool -S %.16s",
			  p->key.ifname, p->key.netns, enter, p->key.ifname);
	}
}

/* The words that depend on sums: made last, when all evidence has been added. */
static void loss_finish(struct ft_diag *d, struct finding *f)
{
	struct sums s = cover_sums(d, f);
	double seconds = (f->last_ns - f->since_ns) / 1e9;

	ft_fmt(f->text, "%s: %llu segment%s sent again in %llu of %llu connections that cross it",
	       f->object, (unsigned long long)s.segs, ft_plural(s.segs, "s"),
	       (unsigned long long)s.lossy_flows, (unsigned long long)s.flows);
	if (s.stalled)
		ft_fmt(f->text,
		       "%s: nothing is acknowledged in %llu of %llu connections that cross it",
		       f->object, (unsigned long long)s.stalled, (unsigned long long)s.flows);
	if (!s.segs && !s.stalled) {
		ft_fmt(f->text, "%s: packets dropped", f->object);
		ft_fmt(f->why, "packets were dropped, but no retransmission goes with them%s",
		       d->watch[FT_KIND_tcp_retransmit] == WATCH_OFF ? " (they are not watched)"
								     : "");
		f->confidence = 1;
	} else if (s.segs) {
		ft_fmt(f->cost, "%llu segment%s (%.*f %s) sent again in %.1f s",
		       (unsigned long long)s.segs, ft_plural(s.segs, "s"), s.bytes >= 100000,
		       s.bytes / (s.bytes >= 100000 ? 1e6 : 1e3), s.bytes >= 100000 ? "MB" : "kB",
		       seconds);
	}
	f->no_wire |= f->x->local && !strcmp(f->x->key.ifname, "lo");
	evidence_pairs(d, f);
	clean_flows(d, f);
	link_next(d, f);
	finding_submit(d, f);
}

/*
 * Does the loss at the site explain this pair? One dropped GSO packet is up to 64 segments sent
 * again.
 */
static bool site_explains(const struct site *s, const struct finding *f, bool own,
			  const struct pair *p)
{
	const struct place *owner = own ? f->x : s->owner;
	uint64_t n = drops_at(p, s);

	if (n * 64 >= p->segs - p->late && n)
		return true;
	if (!owner || (owner != f->x && owner != f->y) || !s->owned ||
	    s->owned * 64 < p->segs - p->late)
		return false;
	/*
	 * Drops without addresses (a storm is only counted): by direction at the place itself. A
	 * port on the way receives what the place sends, or sends what it receives.
	 */
	if (own)
		return (s->in && p->key.dst == owner) || (s->out && p->key.src == owner);
	return place_touches(p, f->x) && (!f->y || place_touches(p, f->y));
}

/* A finding for the place may be there already, from another interface of the same path. */
static struct finding *finding_for(struct finding *list, size_t *n, size_t max, struct place *x,
				   struct place *y)
{
	for (size_t i = 0; i < *n; i++)
		if (list[i].x == x && list[i].y == y)
			return &list[i];
	if (*n == max)
		return NULL;
	list[*n] = (struct finding){ .rule = R_LOSS, .x = x, .y = y };
	return &list[(*n)++];
}

/* Of two ends that are both possible the one that is known to drop packets anyway. */
static void prefer_known(const struct finding *list, size_t n, struct place **x, struct place **y)
{
	for (size_t i = 0; i < n && *y; i++) {
		if (list[i].y || (list[i].x != *x && list[i].x != *y))
			continue;
		*x = list[i].x;
		*y = NULL;
	}
}

static uint64_t site_matched(const struct ft_diag *d, const struct site *s)
{
	uint64_t matched = s->owned;

	for (size_t i = 0; i < d->npairs; i++)
		matched += drops_at(&d->pairs[i], s);
	return matched;
}

static bool site_is_software(const struct site *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->reasons) && s->reasons[i].packets; i++)
		if (!reason_is_software(s->reasons[i].name))
			return false;
	return s->packets;
}

static void site_finding(struct ft_diag *d, const struct site *s, struct finding *f, bool own)
{
	uint64_t matched = site_matched(d, s);
	char at[48] = "";

	f->confidence = MAX(f->confidence, f->y || matched < 2 * LOSS_SEGS ? 2 : 3);
	if (own)
		ft_fmt(f->why, s->key.ifname[0]
				       ? "the drops were seen at this interface itself"
				       : "the drops were seen in its namespace, at no interface");
	else if (!f->why[0])
		ft_fmt(f->why, "every packet dropped at %s goes to or comes from %s", site_name(s),
		       f->y ? "these two" : "it");
	if (f->y)
		ft_fmt(at, ", at %.16s", site_name(s));
	f->no_wire = (!f->proof || f->no_wire) && site_is_software(s);
	f->proof = true;
	object_of(f, at);
	evidence_site(d, f, s);
	for (size_t i = 0; i < d->npairs; i++)
		if (!d->pairs[i].covered && (is_lossy(&d->pairs[i]) || drops_at(&d->pairs[i], s)) &&
		    loss_of(&d->pairs[i]) && site_explains(s, f, own, &d->pairs[i]))
			cover(f, &d->pairs[i]);
	finding_ranks(f, f->x->ranks, f->x->nranks);
}

/* First the ranks' own interfaces, then those on the way. */
static void judge_sites(struct ft_diag *d, bool own, struct finding *list, size_t *n, size_t max)
{
	for (struct site *s = d->sites; s; s = s->hh.next) {
		struct place *x = site_place(d, s), *y = NULL;
		struct finding *f;

		if (own != (x != NULL) || site_matched(d, s) < DROPS_MIN)
			continue;
		if (!own) {
			x = site_behind(d, s, &y);
			prefer_known(list, *n, &x, &y);
		}
		f = x ? finding_for(list, n, max, x, y) : NULL;
		if (f)
			site_finding(d, s, f, own);
	}
}

/* --- without drops: one place that the lossy pairs have in common --- */

struct weight {
	uint64_t segs;
	unsigned int pairs, lossy_in, lossy_out;
};

static struct weight weigh(const struct ft_diag *d, const struct place *x)
{
	struct weight w = {};

	for (size_t i = 0; i < d->npairs; i++) {
		const struct pair *p = &d->pairs[i];

		if (!is_lossy(p) || p->covered || !place_touches(p, x))
			continue;
		w.segs += loss_of(p);
		w.pairs++;
		w.lossy_in += p->key.dst == x;
		w.lossy_out += p->key.src == x;
	}
	return w;
}

static uint64_t open_segs(const struct ft_diag *d, size_t *pairs)
{
	uint64_t n = 0;

	*pairs = 0;
	for (size_t i = 0; i < d->npairs; i++) {
		if (!is_lossy(&d->pairs[i]) || d->pairs[i].covered)
			continue;
		n += loss_of(&d->pairs[i]);
		++*pairs;
	}
	return n;
}

/* Both ends of a single path explain it equally well: then nobody is the common place. */
static struct place *common_place(const struct ft_diag *d, uint64_t total)
{
	struct weight best = {}, second = {};
	struct place *x = NULL;

	for (struct place *p = d->places; p; p = p->hh.next) {
		struct weight w = weigh(d, p);

		if (w.segs > best.segs) {
			second = best;
			best = w;
			x = p;
		} else if (w.segs > second.segs) {
			second = w;
		}
	}
	if (!x || best.pairs < 2 || best.segs * 10 < total * 8 || second.segs * 10 > best.segs * 8)
		return NULL;
	return x;
}

static void judge_common(struct ft_diag *d)
{
	_cleanup_free_ struct finding *f = calloc(1, sizeof(*f));
	size_t pairs;
	uint64_t total = open_segs(d, &pairs);
	struct place *x = pairs >= 2 ? common_place(d, total) : NULL;

	if (!f || !x)
		return;
	*f = (struct finding){ .rule = R_LOSS,
			       .x = x,
			       .confidence = total >= 4 * LOSS_SEGS ? 2 : 1 };
	object_of(f, "");
	for (size_t i = 0; i < d->npairs; i++)
		if (is_lossy(&d->pairs[i]) && !d->pairs[i].covered &&
		    place_touches(&d->pairs[i], x))
			cover(f, &d->pairs[i]);
	ft_fmt(f->why, "all paths that lose packets have it in common; %s",
	       !x->local ? "what is dropped there cannot be seen from here"
	       : d->watch[FT_KIND_net_drop] == WATCH_OFF ? "drops are not watched"
							 : "no drop was seen at it");
	loss_finish(d, f);
}

/* Many paths and no common place: the network between them, or congestion. */
static bool judge_fabric(struct ft_diag *d)
{
	_cleanup_free_ struct finding *f = NULL;
	size_t pairs;

	open_segs(d, &pairs);
	if (pairs <= 3)
		return false;
	f = calloc(1, sizeof(*f));
	if (!f)
		return true;
	*f = (struct finding){ .rule = R_LOSS, .confidence = 1 };
	for (size_t i = 0; i < d->npairs; i++)
		if (is_lossy(&d->pairs[i]) && !d->pairs[i].covered)
			cover(f, &d->pairs[i]);
	ft_fmt(f->object, "no single link: %zu of %zu paths lose packets", pairs, d->npairs);
	ft_fmt(f->text, "%s (a switch, congestion, or several faults)", f->object);
	ft_fmt(f->why, "the paths have no place in common");
	evidence_pairs(d, f);
	finding_submit(d, f);
	return true;
}

static void judge_paths(struct ft_diag *d)
{
	for (size_t i = 0; i < d->npairs; i++) {
		_cleanup_free_ struct finding *f = NULL;
		struct pair *p = &d->pairs[i], *back;
		struct pair_key key = { p->key.dst, p->key.src };

		if (!is_lossy(p) || p->covered)
			continue;
		f = calloc(1, sizeof(*f));
		if (!f)
			return;
		*f = (struct finding){ .rule = R_LOSS,
				       .x = p->key.src,
				       .y = p->key.dst,
				       .confidence =
					       p->stalled || loss_of(p) >= 4 * LOSS_SEGS ? 2 : 1 };
		object_of(f, "");
		ft_fmt(f->why,
		       "one path only, and no drop was seen on it%s: nothing tells its ends apart",
		       d->watch[FT_KIND_net_drop] == WATCH_OFF ? " (drops are not watched)" : "");
		cover(f, p);
		HASH_FIND(hh, d->pair_hash, &key, sizeof(key), back);
		if (back && is_lossy(back) && !back->covered)
			cover(f, back);
		loss_finish(d, f);
	}
}

#define SITE_FINDINGS 16

/*
 * What crosses a link that was seen to lose packets by its own drops is put down to it, where
 * the drops themselves were not seen: so it is less sure. Drops without a loss adopt nothing.
 */
static void adopt_rest(struct ft_diag *d, struct finding *list, size_t n)
{
	for (size_t i = 0; i < d->npairs; i++) {
		struct pair *p = &d->pairs[i];
		struct finding *f = NULL;
		size_t fits = 0;
		char src[64], dst[64];

		for (size_t k = 0; k < n; k++) {
			if (list[k].y || !list[k].ncover || !place_touches(p, list[k].x))
				continue;
			f = &list[k];
			fits++;
		}
		if (!is_lossy(p) || p->covered || fits != 1)
			continue;
		place_short(p->key.src, src, sizeof(src));
		place_short(p->key.dst, dst, sizeof(dst));
		lines_add(&f->evidence, "%s -> %s crosses it as well, its drops were not seen", src,
			  dst);
		cover(f, p);
		f->confidence = MIN(f->confidence, 2);
	}
}

static bool all_late(const struct ft_diag *d, const struct finding *f)
{
	for (size_t i = 0; i < f->ncover; i++) {
		const struct pair *p = covered_pair(d, f, i);

		/* One that is not there any more goes another way now. */
		if (!p || !p->late || is_lossy(p))
			return false;
	}
	return f->rule == R_LOSS && f->ncover && !f->proof;
}

/* The receiver's word may take longer than LATE_NS. */
static void withdraw_late(struct ft_diag *d)
{
	for (size_t i = 0; i < d->nincidents; i++)
		if (!d->incidents[i].merged && all_late(d, &d->incidents[i].f))
			incident_withdraw(
				d, &d->incidents[i],
				"the receiver had the segments already (D-SACK): they were "
				"late, not lost");
}

bool loss_judge(struct ft_diag *d, bool final)
{
	_cleanup_free_ struct finding *list = calloc(SITE_FINDINGS, sizeof(*list));
	bool again = pairs_make(d, final);
	size_t n = 0;

	if (!list || !d->pairs)
		return again;
	judge_sites(d, true, list, &n, SITE_FINDINGS);
	judge_sites(d, false, list, &n, SITE_FINDINGS);
	adopt_rest(d, list, n);
	for (size_t i = 0; i < n; i++)
		loss_finish(d, &list[i]);
	judge_common(d);
	if (!judge_fabric(d))
		judge_paths(d);
	withdraw_late(d);
	return again;
}

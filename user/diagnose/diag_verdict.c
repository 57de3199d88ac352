// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The answer: one cause or none, with what speaks for it, what was excluded, and what was not
 * seen.
 */
#include <signal.h>

#include "diagnose/internal.h"

#define ANY_NS (24ull * 3600 * NSEC_PER_SEC)

static bool anywhere(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	(void)d;
	(void)f;
	(void)by;
	return true;
}

static bool at_place(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	const struct place *ends[] = { f->x, f->y };

	(void)d;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i] && (ends[i] == by->x || ends[i] == by->y))
			return true;
	for (size_t i = 0; i < f->ncover; i++)
		if (by->x && (f->cover[i].src == by->x || f->cover[i].dst == by->x))
			return true;
	return false;
}

/* Both ends of a connection of the dead process. */
typedef bool (*ends_fn)(const struct finding *by, const struct place *a, const struct place *b);

static bool died_on(const struct ft_diag *d, uint32_t pid, const struct finding *by, ends_fn fits)
{
	for (const struct flow *f = d->flows; f; f = f->hh.next)
		for (int i = 0; i < 2; i++)
			if (f->end[i].pid == pid &&
			    fits(by, end_known(d, f, i), end_known(d, f, !i)))
				return true;
	return false;
}

static bool is_end(const struct finding *by, const struct place *a, const struct place *b)
{
	return by->x && (a == by->x || b == by->x);
}

static bool is_covered(const struct finding *by, const struct place *a, const struct place *b)
{
	for (size_t i = 0; i < by->ncover; i++)
		if ((by->cover[i].src == a && by->cover[i].dst == b) ||
		    (by->cover[i].src == b && by->cover[i].dst == a))
			return true;
	return false;
}

/* No link kills a process: these come from the memory or from the program itself. */
static bool died_at_place(const struct ft_diag *d, const struct finding *f,
			  const struct finding *by)
{
	static const int own[] = { SIGKILL, SIGSEGV, SIGBUS };

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		if (f->sig == own[i])
			return false;
	return f->code != 0 && died_on(d, f->pid, by, is_end);
}

/* NCCL gives up on a peer that it does not hear: the rank that reports it is not the fault. */
static bool gave_up(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	bool by_itself = f->sig == SIGABRT || (f->code != FT_NONE_S32 && f->code != 0);

	return by_itself && by->confidence >= 2 && died_on(d, f->pid, by, is_covered);
}

/* `by` explains `what` when it began before it, at most so long, and both fit. */
static const struct {
	enum rule_id by, what;
	bool (*fits)(const struct ft_diag *, const struct finding *f, const struct finding *by);
	uint64_t within_ns;
} explains[] = {
	{ R_LINK_DOWN, R_LOSS, at_place, 60 * NSEC_PER_SEC },
	{ R_LINK_DOWN, R_RESET, at_place, 300 * NSEC_PER_SEC },
	{ R_LINK_DOWN, R_DIED, died_at_place, 300 * NSEC_PER_SEC },
	{ R_LINK_DOWN, R_NCCL, anywhere, 3600 * NSEC_PER_SEC },
	{ R_TX_TIMEOUT, R_LOSS, at_place, 60 * NSEC_PER_SEC },
	{ R_TX_TIMEOUT, R_RESET, at_place, 300 * NSEC_PER_SEC },
	{ R_TX_TIMEOUT, R_LINK_DOWN, at_place, 60 * NSEC_PER_SEC },
	{ R_TX_TIMEOUT, R_DIED, died_at_place, 300 * NSEC_PER_SEC },
	{ R_LINK_DOWN, R_LINK_SPEED, at_place, 300 * NSEC_PER_SEC },
	{ R_DIED, R_RESET, anywhere, 300 * NSEC_PER_SEC },
	{ R_DIED, R_NCCL, anywhere, FOLLOW_NS },
	{ R_DIED, R_LOSS, anywhere, 120 * NSEC_PER_SEC },
	{ R_LOSS, R_DIED, gave_up, 60 * NSEC_PER_SEC },
	{ R_LOSS, R_RESET, at_place, ANY_NS },
	{ R_RESET, R_NCCL, anywhere, ANY_NS },
};

/*
 * Retransmissions are noticed up to a timeout after the packet was sent, or before the link's
 * state is.
 */
#define SLACK_NS (2 * NSEC_PER_SEC)

/* An interface of which nothing says that the job uses it. */
static bool is_aside(const struct finding *f)
{
	return (f->rule == R_LINK_DOWN || f->rule == R_LINK_SPEED || f->rule == R_TX_TIMEOUT) &&
	       !f->x->nranks && !f->x->crossed;
}

static bool explained(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	for (size_t i = 0; i < ARRAY_SIZE(explains); i++) {
		uint64_t slack = explains[i].fits == at_place ? SLACK_NS : 0;

		if (explains[i].by == by->rule && explains[i].what == f->rule &&
		    by->since_ns <= f->since_ns + slack &&
		    f->since_ns <= by->last_ns + explains[i].within_ns &&
		    explains[i].fits(d, f, by))
			return true;
	}
	return false;
}

static const struct finding *explained_by(const struct ft_diag *d, const struct incident *in)
{
	for (size_t i = 0; i < d->nincidents; i++) {
		const struct incident *by = &d->incidents[i];

		if (by != in && !by->merged && !is_aside(&by->f) && explained(d, &in->f, &by->f))
			return &by->f;
	}
	return NULL;
}

/* What goes on now and is known well comes before what weighs more. */
static bool is_better(const struct incident *x, const struct incident *y)
{
	const struct finding *a = &x->f, *b = &y->f;
	const int order[][2] = {
		{ !is_aside(a), !is_aside(b) },
		{ x->open, y->open },
		{ a->confidence >= 2, b->confidence >= 2 },
		{ rules[a->rule].weight, rules[b->rule].weight },
		{ a->confidence, b->confidence },
	};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (order[i][0] != order[i][1])
			return order[i][0] > order[i][1];
	return a->since_ns < b->since_ns;
}

static const struct incident *primary(const struct ft_diag *d)
{
	const struct incident *best = NULL;

	for (size_t i = 0; i < d->nincidents; i++) {
		const struct incident *in = &d->incidents[i];

		if (in->merged || explained_by(d, in))
			continue;
		if (!best || is_better(in, best))
			best = in;
	}
	return best;
}

/* --- lists of the record: each has its share of the record's room --- */

struct list {
	struct ft_rec *rec;
	struct ft_str *field;
	size_t left, skipped;
};

static void list_add(struct list *l, const char *s)
{
	size_t len = strlen(s) + 1;

	if (!*s)
		return;
	if (len > l->left) {
		l->skipped++;
		return;
	}
	l->left -= len;
	ft_rec_strs_add(l->rec, l->field, s);
}

static __printf(2, 3) void list_addf(struct list *l, const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	list_add(l, line);
}

static void list_end(struct list *l)
{
	char line[32];

	if (!l->skipped)
		return;
	ft_fmt(line, "and %zu more", l->skipped);
	ft_rec_strs_add(l->rec, l->field, line);
}

static const char *const confidence_words[] = { "none", "low", "medium", "high" };

static void put_evidence(const struct ft_diag *d, struct list *l, const struct incident *in)
{
	uint64_t age = d->now_ns - MIN(in->f.last_ns, d->now_ns);

	for (size_t i = 0; i < in->f.evidence.n; i++)
		list_add(l, in->f.evidence.s[i]);
	if (in->f.rule == R_DIED && !in->open)
		list_add(l, "settled: a rank of this number runs again");
	else if (in->f.rule != R_DIED)
		list_addf(l,
			  in->open ? "still open: last seen %.1f s before this verdict"
				   : "settled: last seen %.1f s before this verdict",
			  age / 1e9);
	if (in->f.why[0])
		list_addf(l, "confidence %s: %s", confidence_words[in->f.confidence & 3],
			  in->f.why);
	for (size_t i = 0; i < d->nincidents; i++) {
		const struct incident *o = &d->incidents[i];
		const struct finding *by;

		if (o == in || o->merged)
			continue;
		by = explained_by(d, o);
		list_addf(l, "%s: %s", by ? "consequence" : "also", o->f.text);
	}
	list_end(l);
}

static size_t ranks_known(const struct ft_diag *d, size_t *alive)
{
	size_t n = 0;

	*alive = 0;
	for (const struct dproc *p = d->procs; p; p = p->hh.next) {
		n += dproc_is_rank(d, p);
		*alive += dproc_is_rank(d, p) && !p->exit_ns;
	}
	return n;
}

/* Retransmissions that make no finding. */
static void put_noise(const struct ft_diag *d, struct list *l)
{
	for (size_t i = 0, shown = 0; i < d->npairs && shown < 3; i++) {
		const struct pair *p = &d->pairs[i];
		char src[64], dst[64];

		if (!p->segs || p->peak >= LOSS_SEGS)
			continue;
		place_short(p->key.src, src, sizeof(src));
		place_short(p->key.dst, dst, sizeof(dst));
		list_addf(
			l,
			"%s -> %s: %llu segments sent again, at most %llu in a minute: what a busy network has",
			src, dst, (unsigned long long)p->segs, (unsigned long long)p->peak);
		shown++;
	}
}

static void put_checked(const struct ft_diag *d, struct list *l)
{
	size_t alive, ranks = ranks_known(d, &alive);

	list_addf(l,
		  "%u processes, %zu ranks, %u TCP connections, %llu interfaces watched for %.0f s",
		  HASH_COUNT(d->procs), ranks, HASH_COUNT(d->flows), (unsigned long long)d->netdevs,
		  (d->now_ns - d->start_ns) / 1e9);
	put_noise(d, l);
	if (d->died_together)
		list_add(l, d->together);
	list_end(l);
}

/* --- excluded: only what was watched --- */

static enum watch_state watch_of(const struct ft_diag *d, enum rule_id rule)
{
	return d->watch[ft_kind_by_name(rules[rule].watch)->kind];
}

static bool found_any(const struct ft_diag *d, enum rule_id rule)
{
	for (size_t i = 0; i < d->nincidents; i++)
		if (d->incidents[i].f.rule == rule && !d->incidents[i].merged)
			return true;
	return false;
}

static void clean_loss(const struct ft_diag *d, struct list *l, bool other)
{
	uint32_t flows = 0, pairs = 0;

	for (size_t i = 0; i < d->npairs; i++) {
		if (d->pairs[i].segs)
			continue;
		pairs++;
		flows += d->pairs[i].flows;
	}
	if (pairs)
		list_addf(
			l,
			"packet loss on %s links: 0 segments sent again in %u connections, %u directions",
			other ? "other" : "these", flows, pairs);
}

static void clean_other(const struct ft_diag *d, struct list *l, enum rule_id rule)
{
	size_t alive, ranks;

	switch (rule) {
	case R_DIED:
		ranks = ranks_known(d, &alive);
		list_addf(l, "%s: none (%zu of %zu still run, the others ended in order)",
			  rules[rule].clean, alive, ranks);
		break;
	case R_LINK_DOWN:
		list_addf(l, "%s: none on %llu interfaces", rules[rule].clean,
			  (unsigned long long)d->netdevs);
		break;
	case R_RESET:
		list_addf(l, "%s: none while both ends ran (%llu ordinary)", rules[rule].clean,
			  (unsigned long long)d->resets_ordinary);
		break;
	default:
		list_addf(l, "%s: none", rules[rule].clean);
	}
}

/* Why nothing could be found although it was watched: then its absence says nothing. */
static const char *nothing_there(const struct ft_diag *d, enum rule_id rule)
{
	size_t alive;

	switch (rule) {
	case R_DIED:
		return ranks_known(d, &alive) ? NULL : "no rank is known";
	case R_TX_TIMEOUT:
	case R_LINK_DOWN:
	case R_LINK_SPEED:
		return d->netdevs ? NULL : "no interface is known";
	case R_LOSS:
	case R_RESET:
		return d->flows || d->segs ? NULL : "no connection is known";
	default:
		return d->procs ? NULL : "no process is known";
	}
}

static void put_ruled_out(const struct ft_diag *d, struct list *l)
{
	for (int r = 0; r < R_MAX; r++) {
		if (watch_of(d, r) != WATCH_ON || nothing_there(d, r))
			continue;
		if (r == R_LOSS)
			clean_loss(d, l, found_any(d, R_LOSS));
		else if (!found_any(d, r) && !(r == R_DIED && d->died_together))
			clean_other(d, l, r);
	}
	if (d->watch[FT_KIND_net_drop] == WATCH_ON && !d->drops) {
		char ordinary[64] = "", other[64] = "none on this node";

		if (d->ordinary_known || d->drops_ordinary)
			ft_fmt(ordinary, " (%llu in the ordinary course)",
			       (unsigned long long)d->drops_ordinary);
		if (d->drops_other)
			ft_fmt(other, "none of a known connection, %llu others",
			       (unsigned long long)d->drops_other);
		list_addf(l, "dropped packets: %s%s", other, ordinary);
	}
	list_end(l);
}

static const char *const unwatched[] = { "not known whether it was watched", "not watched" };

/* What there was no room for. */
static void put_bounds(const struct ft_diag *d, struct list *l)
{
	if (d->nodetail)
		list_addf(l, "%llu events counted without their details (map full)",
			  (unsigned long long)d->nodetail);
	if (d->unfit)
		list_addf(l, "%llu objects were beyond the bounds of the diagnosis",
			  (unsigned long long)d->unfit);
	if (d->deaths_more || d->resets_more)
		list_addf(l, "%llu ends of ranks and %llu resets of these were not judged",
			  (unsigned long long)d->deaths_more, (unsigned long long)d->resets_more);
	if (d->unattributed)
		list_addf(l, "%llu objects were beyond the bounds of the attribution",
			  (unsigned long long)d->unattributed);
}

static void put_blind(const struct ft_diag *d, struct list *l)
{
	if (d->lost)
		list_addf(l, "%llu events were lost on the way (lines of kind lost)",
			  (unsigned long long)d->lost);
	put_bounds(d, l);
	for (int r = 0; r < R_MAX; r++) {
		const char *why = found_any(d, r) ? NULL : nothing_there(d, r);

		if (watch_of(d, r) != WATCH_ON)
			why = unwatched[watch_of(d, r)];
		if (why)
			list_addf(l, "%s: %s", rules[r].clean, why);
	}
	if (d->watch[FT_KIND_net_drop] != WATCH_ON)
		list_addf(l, "dropped packets: %s", unwatched[d->watch[FT_KIND_net_drop]]);
	for (size_t i = 0; i < d->nblind; i++) {
		if (d->blind_procs[i])
			list_addf(l, "%s and %u more processes", d->blind[i], d->blind_procs[i]);
		else
			list_add(l, d->blind[i]);
	}
	l->skipped += d->blind_more;
	list_end(l);
}

/* --- what to do --- */

static void put_next(const struct ft_diag *d, struct list *l, const struct incident *in)
{
	if (in) {
		for (size_t i = 0; i < in->f.next.n; i++)
			list_add(l, in->f.next.s[i]);
		for (size_t i = 0; i < ARRAY_SIZE(rules[0].next) && rules[in->f.rule].next[i]; i++)
			list_add(l, rules[in->f.rule].next[i]);
	} else {
		list_add(l, "watch for longer, while the job is slow: fabrictrace -p PID -d 300");
	}
	if (d->job[0])
		list_addf(
			l,
			"all nodes of the job: srun --jobid=%s --overlap --ntasks-per-node=1 sudo fabrictrace --cgroup "
			"job_%s -d 60",
			d->job, d->job);
	else
		list_add(l, "on each other node of the job: sudo fabrictrace -a -d 60");
	list_end(l);
}

static const char *const how_hit[R_MAX] = {
	[R_DIED] = "measured",
	[R_TX_TIMEOUT] = "by its sockets or its namespace",
	[R_LINK_DOWN] = "by its sockets or its namespace",
	[R_LINK_SPEED] = "by its sockets or its namespace",
	[R_LOSS] = "by the connections that cross it",
	[R_RESET] = "by the connections that were reset",
	[R_NCCL] = "measured",
};

static void put_hits(const struct ft_diag *d, struct list *l, const struct incident *in)
{
	_cleanup_buf_ struct ft_buf b = {};
	size_t alive, ranks = ranks_known(d, &alive);
	int all = d->comm_size > 1 ? d->comm_size : d->world;
	const char *of = d->comm_size > 1 ? "communicator" : "job";

	if (is_aside(&in->f)) {
		list_add(l, "nobody, as far as known: no socket of the job uses this interface");
		return;
	}
	ranks_name(&b, in->f.ranks, in->f.nranks, in->f.nranks == FT_ATTR_MAX);
	if (b.len)
		list_addf(l, "%s directly (%s)", b.s, how_hit[in->f.rule]);
	else
		list_add(l, "processes whose rank is not known (see evidence)");
	if (all > 1 && in->f.rule == R_DIED)
		list_addf(l, "all %d ranks of the %s wait for it (inferred)", all, of);
	else if (ranks > 1 && in->f.rule == R_DIED)
		list_add(l, "the other ranks of the job wait for it (inferred)");
	else if (all > 1)
		list_addf(l,
			  "all %d ranks of the %s: a collective is as slow as its slowest link "
			  "(inferred)",
			  all, of);
	else if (ranks > 1)
		list_addf(l,
			  "the other ranks of the job (%zu are seen here): a collective is as slow "
			  "as its slowest link (inferred)",
			  ranks);
	list_end(l);
}

#define LIST(name, room) (&(struct list){ .rec = out, .field = &e->name, .left = room })

void ft_diag_verdict(struct ft_diag *d, uint64_t now_ns, bool final, struct ft_rec *out,
		     struct ft_attr *attr)
{
	const struct incident *in;
	struct ft_ev_verdict *e;

	d->now_ns = MAX(d->now_ns, now_ns);
	d->start_ns = d->start_ns ? d->start_ns : d->now_ns;
	d->dirty = true; /* the clean connections count as well */
	diag_judge(d, final);
	in = primary(d);
	e = ft_rec_new(out, FT_KIND_verdict, d->now_ns);
	e->final = final;
	e->confidence = in ? in->f.confidence : 0;
	*attr = (struct ft_attr){};
	if (in) {
		incident_attr(d, &in->f, attr);
		e->since_ns = in->f.since_ns + d->opts.clock->offset_ns;
		ft_rec_str(out, &e->cause__kind, rules[in->f.rule].kind);
		ft_rec_str(out, &e->cause__object, in->f.object);
		put_hits(d, LIST(hits, 400), in);
		put_evidence(d, LIST(evidence, 1300), in);
		ft_rec_str(out, &e->cost__value, in->f.cost[0] ? in->f.cost : "");
		ft_rec_str(
			out, &e->cost__basis,
			in->f.cost[0]
				? "counted by the kernel; the effect on the step time is not measured"
				: "");
	} else {
		put_checked(d, LIST(evidence, 1300));
	}
	attr->severity = in ? finding_severity(&in->f) : FT_INFO;
	put_ruled_out(d, LIST(ruled_out, 600));
	put_next(d, LIST(next, 700), in);
	put_blind(d, LIST(blind, 700));
}

void ft_diag_heartbeat(struct ft_diag *d, uint64_t now_ns, struct ft_rec *out, struct ft_attr *attr)
{
	struct ft_ev_heartbeat *e;
	_cleanup_buf_ struct ft_buf b = {};
	size_t alive, ranks, open = 0;

	ft_diag_advance(d, now_ns);
	ranks = ranks_known(d, &alive);
	for (size_t i = 0; i < d->nincidents; i++) {
		const struct incident *in = &d->incidents[i];

		if (!in->open || in->merged)
			continue;
		ft_buf_printf(&b, "%s#%u %s: %s", open++ ? "; " : "", in->id,
			      rules[in->f.rule].title, in->f.object);
	}
	if (!open)
		ft_buf_printf(
			&b,
			"%zu of %zu ranks run, %llu segments sent again, %llu packets dropped, no finding",
			alive, ranks, (unsigned long long)d->segs, (unsigned long long)d->drops);
	e = ft_rec_new(out, FT_KIND_heartbeat, d->now_ns);
	e->open = open;
	e->procs = HASH_COUNT(d->procs);
	ft_rec_str(out, &e->text, b.s ? b.s : "");
	*attr = (struct ft_attr){ .severity = open ? FT_WARNING : FT_INFO };
}

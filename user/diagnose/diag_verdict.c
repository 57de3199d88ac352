// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The answer: one cause or none, with what speaks for it, what was excluded, and what was not
 * seen.
 */
#include "diagnose/internal.h"

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

static double seconds_since(const struct ft_diag *d, uint64_t ns)
{
	return (d->now_ns - MIN(ns, d->now_ns)) / 1e9;
}

/* Whether it goes on. */
static void put_state(const struct ft_diag *d, struct list *l, const struct incident *in)
{
	const struct place *x = in->f.rule == R_LINK_DOWN ? in->f.x : NULL;
	char since[16], state[128] = "";

	if (in->f.link)
		plink_state(d, &in->f, state, sizeof(state));
	if (state[0]) {
		list_add(l, state);
	} else if (in->f.rule == R_DIED) {
		if (!in->open)
			list_add(l, "settled: a rank of this number runs again");
	} else if (x && x->down) {
		list_addf(l, "the carrier is still down: lost %.1f s before this verdict",
			  seconds_since(d, x->down_last_ns));
	} else if (x && x->up_ns) {
		time_name(d, x->up_ns, since, sizeof(since));
		list_addf(l, "carrier is back since %s; watched %.1f s for a repeat", since,
			  seconds_since(d, x->up_ns));
	} else {
		list_addf(l, "%s: last seen %.1f s before this verdict",
			  in->open ? "still open" : "settled", seconds_since(d, in->f.last_ns));
	}
}

static void put_evidence(const struct ft_diag *d, struct list *l, const struct incident *in)
{
	for (size_t i = 0; i < in->f.evidence.n; i++)
		list_add(l, in->f.evidence.s[i]);
	put_state(d, l, in);
	if (in->f.why[0])
		list_addf(l, "confidence %s: %s", confidence_words[in->f.confidence & 3],
			  in->f.why);
	for (size_t i = 0; i < d->nincidents; i++) {
		const struct incident *o = &d->incidents[i];
		const struct finding *by;

		if (o == in || o->merged)
			continue;
		by = incident_explained_by(d, o);
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
			"%s -> %s: %llu segment%s sent again, at most %llu in a minute: what a busy network has",
			src, dst, (unsigned long long)p->segs, ft_plural(p->segs, "s"),
			(unsigned long long)p->peak);
		shown++;
	}
}

static void put_checked(const struct ft_diag *d, struct list *l)
{
	size_t alive, ranks = ranks_known(d, &alive);
	unsigned int procs = HASH_COUNT(d->procs), flows = HASH_COUNT(d->flows);

	list_addf(
		l,
		"%u process%s, %zu rank%s, %u TCP connection%s, %llu interface%s watched for %.0f s",
		procs, ft_plural(procs, "es"), ranks, ft_plural(ranks, "s"), flows,
		ft_plural(flows, "s"), (unsigned long long)d->netdevs, ft_plural(d->netdevs, "s"),
		seconds_since(d, d->start_ns));
	put_noise(d, l);
	if (d->died_together)
		list_add(l, d->together);
	list_end(l);
}

/* --- excluded: only what was watched --- */

static uint16_t watch_kind(enum rule_id rule)
{
	return ft_kind_by_name(rules[rule].watch)->kind;
}

static bool found_any(const struct ft_diag *d, enum rule_id rule)
{
	for (size_t i = 0; i < d->nincidents; i++)
		if (d->incidents[i].f.rule == rule && !d->incidents[i].merged)
			return true;
	return pcie_found(d, rule);
}

/* What no finding is about: directions without a loss, and those with less than makes one. */
static void clean_loss(const struct ft_diag *d, struct list *l, bool other)
{
	uint64_t ends = 0, segs = 0;
	uint32_t all = 0, clean = 0, few = 0;
	const char *what = other ? "packet loss on other links" : "packet loss";

	for (size_t i = 0; i < d->npairs; i++) {
		const struct pair *p = &d->pairs[i];

		if (p->covered)
			continue;
		all++;
		ends += p->flows;
		clean += !p->segs;
		few += p->segs && p->lost < LOSS_SEGS;
		segs += p->lost < LOSS_SEGS ? p->segs : 0;
	}
	if (few)
		list_addf(l,
			  "%s: none on %u of %u direction%s, %llu segment%s on %u, below the "
			  "threshold of %u in a minute",
			  what, clean, all, ft_plural(all, "s"), (unsigned long long)segs,
			  ft_plural(segs, "s"), few, LOSS_SEGS);
	else if (clean && other)
		list_addf(l, "%s: none on %u direction%s", what, clean, ft_plural(clean, "s"));
	else if (clean)
		/* Each connection has two. */
		list_addf(l, "%s: none in %llu connection%s (%u direction%s)", what,
			  (unsigned long long)ends / 2, ft_plural(ends / 2, "s"), clean,
			  ft_plural(clean, "s"));
}

/* A process that is stopped has not ended: what is said is not that it runs. */
static void clean_died(const struct ft_diag *d, struct list *l)
{
	size_t alive, ranks = ranks_known(d, &alive), ended = ranks - alive;
	const char *what = rules[R_DIED].clean;

	if (!ended)
		list_addf(l, "%s: none (%zu of %zu ha%s not ended)", what, alive, ranks,
			  alive == 1 ? "s" : "ve");
	else if (alive)
		list_addf(l, "%s: none (%zu of %zu ha%s not ended, %zu ended in order)", what,
			  alive, ranks, alive == 1 ? "s" : "ve", ended);
	else
		list_addf(l, "%s: none (all %zu ended in order)", what, ranks);
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
	case R_GONE:
	case R_PCIE_SLOW:
	case R_PCIE_FLAP:
		if (!plinks_all(d))
			return "no PCIe link is known";
		return plinks_known(d) ? NULL : "speed and width are known of no link";
	case R_PCIE_ERRORS:
		if (!plinks_all(d))
			return "no PCIe link is known";
		return plinks_aer(d) ? NULL : "the kernel handles AER on none of the links";
	case R_XID:
	case R_SLOWDOWN:
	case R_NVLINK:
		return d->gpus ? NULL : "no GPU is known";
	case R_LOSS:
	case R_RESET:
		return d->flows || d->segs ? NULL : "no connection is known";
	default:
		return d->procs ? NULL : "no process is known";
	}
}

static const char *const unwatched[] = { [WATCH_UNKNOWN] = "not known whether it was watched",
					 [WATCH_OFF] = "not watched",
					 [WATCH_UNNEEDED] = "not known whether it was watched" };

/* Why the absence of this kind of records says nothing; NULL: it does say something. */
static const char *unsure(const struct ft_diag *d, uint16_t kind, char *out, size_t size)
{
	uint64_t lost = d->lost_of[kind];

	if (d->watch[kind] != WATCH_ON)
		return unwatched[d->watch[kind]];
	if (!lost)
		return NULL;
	snprintf(out, size, "%llu record%s of it w%s lost", (unsigned long long)lost,
		 ft_plural(lost, "s"), lost == 1 ? "as" : "ere");
	return out;
}

/* Some causes are seen by either of two kinds. */
static const char *unsure_rule(const struct ft_diag *d, enum rule_id rule, char *out, size_t size)
{
	const char *other = rules[rule].or_watch;
	const char *why = unsure(d, watch_kind(rule), out, size);
	char text[64];

	if (why && other && !unsure(d, ft_kind_by_name(other)->kind, text, sizeof(text)))
		return NULL;
	return why;
}

static bool errors_excluded(const struct ft_diag *d)
{
	char why[64];

	return !unsure_rule(d, R_PCIE_ERRORS, why, sizeof(why)) &&
	       !nothing_there(d, R_PCIE_ERRORS) && !found_any(d, R_PCIE_ERRORS);
}

/* Nothing about speed, width and presence of PCIe links was found, and they were watched. */
static bool pcie_excluded(const struct ft_diag *d)
{
	char why[64];

	return !unsure_rule(d, R_PCIE_SLOW, why, sizeof(why)) && !found_any(d, R_PCIE_SLOW) &&
	       !found_any(d, R_PCIE_FLAP) && !found_any(d, R_GONE);
}

/* Not of a rule that shares its line with another, nor of GPUs on a node without any. */
static bool is_told(const struct ft_diag *d, enum rule_id rule)
{
	bool gpu = rule == R_XID || rule == R_SLOWDOWN || rule == R_NVLINK;

	return rules[rule].clean && (!gpu || d->gpus);
}

static void clean_other(const struct ft_diag *d, struct list *l, enum rule_id rule)
{
	char text[160];

	switch (rule) {
	case R_DIED:
		clean_died(d, l);
		break;
	case R_LINK_DOWN:
		list_addf(l, "%s: none on %llu interface%s", rules[rule].clean,
			  (unsigned long long)d->netdevs, ft_plural(d->netdevs, "s"));
		break;
	case R_PCIE_SLOW:
		pcie_clean(d, errors_excluded(d), text, sizeof(text));
		list_add(l, text);
		break;
	case R_PCIE_ERRORS:
		pcie_clean_errors(d, text, sizeof(text));
		/* Said in the line about the links already. */
		if (!pcie_excluded(d))
			list_add(l, text);
		break;
	case R_RESET:
		list_addf(l, "%s: none while both ends ran (%llu ordinary)", rules[rule].clean,
			  (unsigned long long)d->resets_ordinary);
		break;
	default:
		list_addf(l, "%s: none", rules[rule].clean);
	}
}

static bool netns_before(const struct ft_diag *d, const struct place *p)
{
	for (const struct place *o = d->places; o != p; o = o->hh.next)
		if (o->listed && o->key.netns == p->key.netns)
			return true;
	return false;
}

static unsigned int netns_known(const struct ft_diag *d)
{
	unsigned int n = 0;

	for (const struct place *p = d->places; p; p = p->hh.next)
		n += p->listed && !netns_before(d, p);
	return n;
}

/* Only what was watched: the sockets of traced processes, and the namespaces of these. */
static void clean_drops(const struct ft_diag *d, struct list *l)
{
	char ordinary[64] = "", where[64] = "of traced sockets", other[64] = "";
	unsigned int netns = netns_known(d);

	if (d->ordinary_known || d->drops_ordinary)
		ft_fmt(ordinary, " (%llu in the ordinary course)",
		       (unsigned long long)d->drops_ordinary);
	if (netns == 1)
		ft_fmt(where, "in the one traced network namespace");
	else if (netns)
		ft_fmt(where, "in the %u traced network namespaces", netns);
	if (d->drops_other)
		ft_fmt(other, " of a known connection, %llu other%s",
		       (unsigned long long)d->drops_other, ft_plural(d->drops_other, "s"));
	list_addf(l, "dropped packets: none seen%s %s%s", other, where, ordinary);
}

static void put_ruled_out(const struct ft_diag *d, struct list *l)
{
	char why[64];

	for (int r = 0; r < R_MAX; r++) {
		if (!is_told(d, r) || unsure_rule(d, r, why, sizeof(why)) || nothing_there(d, r))
			continue;
		if (r == R_LOSS)
			clean_loss(d, l, found_any(d, R_LOSS));
		else if (r == R_PCIE_SLOW ? pcie_excluded(d)
					  : !found_any(d, r) && !(r == R_DIED && d->died_together))
			clean_other(d, l, r);
	}
	if (!unsure(d, FT_KIND_net_drop, why, sizeof(why)) && !d->drops)
		clean_drops(d, l);
	list_end(l);
}

/* What there was no room for. */
static void put_bounds(const struct ft_diag *d, struct list *l)
{
	if (d->nodetail)
		list_addf(l, "%llu event%s counted without %s details (map full)",
			  (unsigned long long)d->nodetail, ft_plural(d->nodetail, "s"),
			  d->nodetail == 1 ? "its" : "their");
	if (d->unfit)
		list_addf(l, "%llu object%s beyond the bounds of the diagnosis",
			  (unsigned long long)d->unfit, d->unfit == 1 ? " was" : "s were");
	if (d->deaths_more || d->resets_more)
		list_addf(l, "%llu end%s of ranks and %llu reset%s of these were not judged",
			  (unsigned long long)d->deaths_more, ft_plural(d->deaths_more, "s"),
			  (unsigned long long)d->resets_more, ft_plural(d->resets_more, "s"));
	if (d->unattributed)
		list_addf(l, "%llu object%s beyond the bounds of the attribution",
			  (unsigned long long)d->unattributed,
			  d->unattributed == 1 ? " was" : "s were");
}

static const char *why_blind(const struct ft_diag *d, enum rule_id rule, char *out, size_t size)
{
	const char *why = unsure_rule(d, rule, out, size);
	const char *none = found_any(d, rule) ? NULL : nothing_there(d, rule);

	/* Where nothing is there, nothing had to be attached. */
	return none && (!why || d->watch[watch_kind(rule)] == WATCH_UNNEEDED) ? none : why;
}

static bool blind_alike(const struct ft_diag *d, enum rule_id rule, const char *why)
{
	char text[64];
	const char *other = why_blind(d, rule, text, sizeof(text));

	return other && !strcmp(other, why);
}

static void put_pcie_blind(const struct ft_diag *d, struct list *l)
{
	struct lines lines = {};

	pcie_blind(d, &lines);
	for (size_t i = 0; i < lines.n; i++)
		list_add(l, lines.s[i]);
}

static void put_blind(const struct ft_diag *d, struct list *l)
{
	const char *why;
	char text[64];

	if (d->lost)
		list_addf(l, "%llu event%s lost on the way (lines of kind lost)",
			  (unsigned long long)d->lost, d->lost == 1 ? " was" : "s were");
	put_bounds(d, l);
	for (int r = 0; r < R_MAX; r++) {
		if (!is_told(d, r))
			continue;
		why = why_blind(d, r, text, sizeof(text));
		/* One line where the same is true of both. */
		if (r == R_PCIE_SLOW && why && blind_alike(d, R_PCIE_ERRORS, why))
			list_addf(l, "PCIe links and their errors: %s", why);
		else if (why && !(r == R_PCIE_ERRORS && blind_alike(d, R_PCIE_SLOW, why)))
			list_addf(l, "%s: %s", rules[r].clean, why);
	}
	why = unsure(d, FT_KIND_net_drop, text, sizeof(text));
	if (why)
		list_addf(l, "dropped packets: %s", why);
	put_pcie_blind(d, l);
	if (d->procs)
		list_add(l, "slow or stopped process: not judged by this version");
	for (size_t i = 0; i < d->nblind; i++) {
		if (d->blind_procs[i])
			list_addf(l, "%s and %u more process%s", d->blind[i], d->blind_procs[i],
				  ft_plural(d->blind_procs[i], "es"));
		else
			list_add(l, d->blind[i]);
	}
	l->skipped += d->blind_more;
	list_end(l);
}

/* --- what to do --- */

/* All that was dropped on the finding's way fell to the host's own rules and queues. */
static void next_of(struct list *l, const struct incident *in)
{
	const struct rule *r = &rules[in->f.rule];

	for (size_t i = 0; i < in->f.next.n; i++)
		list_add(l, in->f.next.s[i]);
	if (in->f.no_wire)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(r->next) && r->next[i]; i++)
		list_add(l, r->next[i]);
}

static const struct dproc *first_alive(const struct ft_diag *d)
{
	const struct dproc *p = d->procs;

	while (p && p->exit_ns)
		p = p->hh.next;
	return p;
}

static void put_ended(const struct ft_diag *d, struct list *l)
{
	uint64_t begin = d->attached_ns ? d->attached_ns : d->start_ns;
	double after = (d->end.ns - MIN(begin, d->end.ns)) / 1e9;
	bool killed = d->end.sig != FT_NONE_S32, bad = killed || d->end.code;
	char how[64];

	how_ended(d->end.code, d->end.sig, how, sizeof(how));
	if (!killed && d->end.code == FT_NONE_S32)
		ft_fmt(how, "a status that is not known");
	list_addf(l, "the job ended %s%s after %.1f s: %s", killed ? "" : "with ", how, after,
		  bad ? "read its own output"
		      : "trace it while it is slow, or from its start (fabrictrace -- CMD)");
}

static void next_without_cause(const struct ft_diag *d, struct list *l)
{
	const struct dproc *p = first_alive(d);
	char target[300] = "-p PID";

	if (!p && d->end.ns) {
		put_ended(d, l);
		return;
	}
	if (d->target[0])
		ft_strcpy(target, d->target, sizeof(target));
	else if (p)
		ft_fmt(target, "-p %u", p->pid);
	list_addf(l, "watch for longer, while the job is slow: sudo fabrictrace %s -d 300", target);
}

static void put_next(const struct ft_diag *d, struct list *l, const struct incident *in)
{
	if (in)
		next_of(l, in);
	else
		next_without_cause(d, l);
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
	[R_GONE] = "by the device that it uses",
	[R_XID] = "by the GPU that it uses",
	[R_PCIE_SLOW] = "by the devices below the link that it uses",
	[R_PCIE_ERRORS] = "by the devices below the link that it uses",
	[R_PCIE_FLAP] = "by the devices below the link that it uses",
	[R_NVLINK] = "by the GPU that it uses",
	[R_SLOWDOWN] = "by the GPU that it uses",
	[R_DEV_LOG] = "by the device that it uses",
};

/* It does not slow the job down but stops it. */
static bool stops(enum rule_id rule)
{
	return rule == R_DIED || rule == R_GONE || rule == R_XID;
}

static void put_hits(const struct ft_diag *d, struct list *l, const struct incident *in)
{
	_cleanup_buf_ struct ft_buf b = {};
	size_t alive, ranks = ranks_known(d, &alive);
	int all = d->comm_size > 1 ? d->comm_size : d->world;
	const char *of = d->comm_size > 1 ? "communicator" : "job";

	char users[160] = "";

	if (finding_is_aside(&in->f)) {
		list_add(l, in->f.link ? "nobody, as far as known: no traced process uses it"
				       : "nobody, as far as known: no socket of the job uses this "
					 "interface");
		return;
	}
	if (in->f.link)
		pcie_users(d, &in->f, users, sizeof(users));
	ranks_name(&b, in->f.ranks, in->f.nranks, in->f.nranks == FT_ATTR_MAX);
	if (users[0])
		list_add(l, users);
	else if (b.len)
		list_addf(l, "%s directly (%s)", b.s, how_hit[in->f.rule]);
	else
		list_add(l, "processes whose rank is not known (see evidence)");
	if (all > 1 && stops(in->f.rule))
		list_addf(l, "all %d ranks of the %s wait for it (inferred)", all, of);
	else if (ranks > 1 && stops(in->f.rule))
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

#define BLIND_END	 32 /* "and 12 more" */
#define LIST(name, room) (&(struct list){ .rec = out, .field = &e->name, .left = room })

void ft_diag_verdict(struct ft_diag *d, uint64_t now_ns, bool final, struct ft_rec *out,
		     struct ft_attr *attr)
{
	const struct incident *in;
	struct ft_ev_verdict *e;
	size_t used;

	d->now_ns = MAX(d->now_ns, now_ns);
	d->start_ns = d->start_ns ? d->start_ns : d->now_ns;
	d->dirty = true; /* the clean connections count as well */
	diag_judge(d, final);
	in = incident_primary(d);
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
		ft_rec_str(out, &e->cost__basis,
			   !in->f.cost[0] ? ""
			   : in->f.link
				   ? "line rate each way after coding; the effect on the step "
				     "time is not measured"
				   : "counted by the kernel; the effect on the step time is not "
				     "measured");
	} else {
		put_checked(d, LIST(evidence, 1300));
	}
	attr->severity = in ? finding_severity(&in->f) : FT_INFO;
	put_ruled_out(d, LIST(ruled_out, 600));
	put_next(d, LIST(next, 700), in);
	/* All that is left: what was not seen must not be cut where the rest is short. */
	used = out->h.size + BLIND_END;
	put_blind(d, LIST(blind, used < FT_REC_MAX ? FT_REC_MAX - used : 0));
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
			"%zu of %zu rank%s ha%s not ended, %llu segment%s sent again, %llu packet%s dropped, no finding",
			alive, ranks, ft_plural(ranks, "s"), alive == 1 ? "s" : "ve",
			(unsigned long long)d->segs, ft_plural(d->segs, "s"),
			(unsigned long long)d->drops, ft_plural(d->drops, "s"));
	e = ft_rec_new(out, FT_KIND_heartbeat, d->now_ns);
	e->open = open;
	e->procs = HASH_COUNT(d->procs);
	ft_rec_str(out, &e->text, b.s ? b.s : "");
	*attr = (struct ft_attr){ .severity = open ? FT_WARNING : FT_INFO };
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The rules that need no graph. */
#include <signal.h>

#include "diagnose/internal.h"

/* --- interfaces --- */

static void finding_place(struct finding *f, enum rule_id rule, const struct ft_hdr *ev,
			  struct place *p)
{
	*f = (struct finding){ .rule = rule, .x = p, .since_ns = ev->ts_ns, .last_ns = ev->ts_ns };
	place_name(p, f->object, sizeof(f->object));
	finding_ranks(f, p->ranks, p->nranks);
	if (p->crossed) {
		f->confidence = p->nranks ? 3 : 2;
		ft_fmt(f->why, "the kernel reported it for this interface");
	} else {
		/* RDMA needs no socket: then a real NIC may still be the rank's own. */
		f->confidence = p->nranks && p->nic.bdf[0] ? 2 : 1;
		ft_fmt(f->why,
		       "the kernel reported it, but no socket of a rank is known to use this interface");
	}
}

/* With the interface's name and the way into its namespace, so that it can be pasted. */
static void next_cable(const struct ft_diag *d, struct finding *f, const struct place *p,
		       const char *command)
{
	char enter[48];

	netns_enter(d, p->key.netns, enter, sizeof(enter));
	lines_add(&f->next,
		  "check cable, transceiver and switch port of %.16s (netns %u): %s%s %.16s; the "
		  "switch's log",
		  p->key.ifname, p->key.netns, enter, command, p->key.ifname);
}

/*
 * A guess by the namespace makes all ranks in it the owners of whatever interface it has, a
 * container's veth for one.
 */
static void place_add_owners(struct place *p, const struct ft_attr *attr)
{
	if (!attr->shared || attr->how & FT_HOW(route))
		place_add_ranks(p, attr);
}

static bool all_ended(const struct ft_diag *d)
{
	bool any = false;

	for (const struct dproc *p = d->procs; p; p = p->hh.next) {
		any |= dproc_is_rank(d, p);
		if (dproc_is_rank(d, p) && !p->exit_ns)
			return false;
	}
	return any;
}

static void carrier_now(struct place *p, const struct ft_ev_net_link *e, uint32_t downs)
{
	if (downs) {
		p->down_ns = p->down_ns ? p->down_ns : e->h.ts_ns;
		p->down_last_ns = e->h.ts_ns;
		p->up_ns = 0;
	}
	p->downs += downs;
	if (e->carrier > 1)
		return;
	p->down = e->carrier == 0;
	if (p->down)
		p->up_ns = 0;
	else if (p->downs && !p->up_ns)
		p->up_ns = e->h.ts_ns;
}

static void link_down(struct ft_diag *d, const struct ft_ev_net_link *e, struct place *p)
{
	bool known = e->carrier_down_delta != FT_NONE_U32;
	uint32_t downs = known && e->carrier_down_delta ? e->carrier_down_delta : e->carrier == 0;
	_cleanup_free_ struct finding *f = malloc(sizeof(*f));

	carrier_now(p, e, downs);
	/* That it is back is news of the same incident. */
	if (!p->downs || !f)
		return;
	finding_place(f, R_LINK_DOWN, &e->h, p);
	f->since_ns = p->down_ns;
	f->last_ns = p->down_last_ns;
	ft_fmt(f->text, "%s: carrier lost %u time%s", f->object, p->downs,
	       ft_plural(p->downs, "s"));
	lines_add(&f->evidence, "carrier lost %u time%s while watched; carrier now: %s", p->downs,
		  ft_plural(p->downs, "s"),
		  e->removed == 1   ? "no, the interface is gone"
		  : e->carrier == 1 ? "yes"
		  : e->carrier == 0 ? "no"
				    : "unknown");
	if (e->carrier_down_count != FT_NONE_U32)
		lines_add(&f->evidence, "carrier losses since boot: %u", e->carrier_down_count);
	next_cable(d, f, p, "ethtool -m");
	finding_submit(d, f);
}

static void link_speed(struct ft_diag *d, const struct ft_ev_net_link *e, struct place *p)
{
	uint32_t speed = e->speed_mbps == FT_NONE_U32 ? 0 : e->speed_mbps;
	_cleanup_free_ struct finding *f = malloc(sizeof(*f));

	if (speed && speed < p->speed_mbps && f) {
		finding_place(f, R_LINK_SPEED, &e->h, p);
		ft_fmt(f->text, "%s: %u -> %u Mbit/s", f->object, p->speed_mbps, speed);
		lines_add(&f->evidence, "speed %u -> %u Mbit/s", p->speed_mbps, speed);
		next_cable(d, f, p, "ethtool");
		finding_submit(d, f);
	}
	p->speed_mbps = MAX(speed, p->speed_mbps);
}

void rule_link(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_link *e = (const void *)ev;
	struct place *p = attr->nnics ? place_of(d, &attr->nics[0]) : NULL;

	/* Interfaces go down with the job's namespaces when it ends. */
	if (!p || all_ended(d))
		return;
	/* A driver loaded anew, a container's end: nobody that is known sent through it. */
	if (e->removed == 1 && !p->crossed)
		return;
	place_add_owners(p, attr);
	link_down(d, e, p);
	link_speed(d, e, p);
}

void rule_tx_timeout(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_tx_timeout *e = (const void *)ev;
	struct place *p = attr->nnics ? place_of(d, &attr->nics[0]) : NULL;
	_cleanup_free_ struct finding *f = malloc(sizeof(*f));

	if (!p || !f)
		return;
	place_add_owners(p, attr);
	finding_place(f, R_TX_TIMEOUT, ev, p);
	for (size_t i = 0; i < d->nincidents; i++)
		if (d->incidents[i].f.rule == R_TX_TIMEOUT && d->incidents[i].f.x == p)
			f->since_ns = d->incidents[i].f.since_ns;
	ft_fmt(f->text, "%s: the driver did not send for seconds", f->object);
	if (e->queue != FT_NONE_S32)
		lines_add(&f->evidence, "transmit queue %d timed out (dev_watchdog)", e->queue);
	finding_submit(d, f);
}

/* --- ranks that die --- */

static bool same_label(const struct ft_attr_rank *a, const struct ft_attr_rank *b)
{
	/* A wrapper has the rank's number by the environment, but no communicator. */
	return rank_number(a) >= 0 && rank_number(a) == rank_number(b) &&
	       (a->comm == b->comm || !a->comm || !b->comm);
}

static bool is_bad(int32_t code, int32_t sig)
{
	return (sig != FT_NONE_S32 && sig) || (code != FT_NONE_S32 && code);
}

/* Ends in order that were no finding make room for others. */
static void deaths_sweep(struct ft_diag *d)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->ndeaths; i++) {
		const struct death *x = &d->deaths[i];

		if (!x->early || !x->judged || x->found)
			d->deaths[kept++] = *x;
	}
	d->ndeaths = kept;
}

static struct death *death_new(struct ft_diag *d)
{
	if (d->ndeaths == DEATHS_MAX)
		deaths_sweep(d);
	if (d->ndeaths < DEATHS_MAX)
		return &d->deaths[d->ndeaths++];
	d->deaths_more++;
	d->unfit++;
	return NULL;
}

void rule_exit(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_proc_exit *e = (const void *)ev;
	const struct dproc *p = dproc_find(d, ev->pid);
	bool bad = is_bad(e->exit_code, e->signal);
	struct ft_attr_rank rank = { .rank = -1, .nranks = -1, .global_rank = -1 };
	struct death *x;

	d->end.ns = ev->ts_ns;
	d->end.code = e->exit_code;
	d->end.sig = e->signal == 0 ? FT_NONE_S32 : e->signal;
	if (attr->nranks)
		rank = attr->ranks[0];
	else if (!p || !dproc_is_rank(d, p))
		return;
	/* A command with a launcher's variables ends in order every day, a rank with NCCL does not. */
	if (!bad && (e->exit_code != 0 || (rank.rank < 0 && !(p && p->nccl))))
		return;
	/* A wrapper that ends with its rank's status is not another death. */
	for (size_t i = 0; i < d->ndeaths; i++)
		if (same_label(&d->deaths[i].rank, &rank) && ev->ts_ns - d->deaths[i].ns < GRACE_NS)
			return;
	x = death_new(d);
	if (!x)
		return;
	*x = (struct death){ .pid = ev->pid,
			     .ns = ev->ts_ns,
			     .code = e->exit_code,
			     .sig = e->signal == 0 ? FT_NONE_S32 : e->signal,
			     .early = !bad,
			     .rank = rank };
	ft_fmt(x->task, "%.*s", (int)sizeof(ev->task), ev->task);
}

/* Another rank that ran when this one died. */
static bool is_other(const struct ft_diag *d, const struct dproc *p, const struct death *x)
{
	return dproc_is_rank(d, p) && p->pid != x->pid && !same_label(&p->rank, &x->rank) &&
	       p->seen_ns <= x->ns && (!p->exit_ns || p->exit_ns >= x->ns);
}

static size_t others_alive(const struct ft_diag *d, const struct death *x)
{
	size_t n = 0;

	for (const struct dproc *p = d->procs; p; p = p->hh.next)
		n += is_other(d, p, x) && (!p->exit_ns || p->exit_ns > x->ns + GRACE_NS);
	return n;
}

static bool others_run(const struct ft_diag *d, const struct death *x)
{
	for (const struct dproc *p = d->procs; p; p = p->hh.next)
		if (is_other(d, p, x) && !p->exit_ns)
			return true;
	return false;
}

static size_t other_ranks(const struct ft_diag *d, const struct death *x)
{
	size_t n = 0;

	for (const struct dproc *p = d->procs; p; p = p->hh.next)
		n += is_other(d, p, x);
	return n;
}

/* A job that is stopped ends everywhere at once and in the same way: no fault of a rank. */
static bool ended_together(struct ft_diag *d, const struct death *x)
{
	size_t others = other_ranks(d, x), same = 0;
	char how[64];

	if (!others || others_alive(d, x))
		return false;
	for (size_t i = 0; i < d->ndeaths; i++) {
		const struct death *o = &d->deaths[i];

		same += o->code == x->code && o->sig == x->sig && o->ns >= x->ns &&
			o->ns <= x->ns + GRACE_NS;
	}
	if (same < others + 1)
		return false;
	how_ended(x->code, x->sig, how, sizeof(how));
	ft_fmt(d->together, "all %zu ranks ended together: %s", same, how);
	d->died_together = true;
	return true;
}

static void death_why(const struct death *x, size_t alive, size_t others, struct finding *f)
{
	bool unknown = rank_number(&x->rank) < 0;

	f->confidence = x->early ? 1 : unknown || (!alive && others) ? 2 : 3;
	ft_fmt(f->why, "%s%s",
	       x->early		  ? "it may have been done; the others went on"
	       : alive || !others ? "the kernel reported its end while the others went on"
				  : "it ended first, the others followed within 2 s",
	       unknown ? "; that it is a rank is known by its NCCL library only" : "");
}

static void death_finding(struct ft_diag *d, const struct death *x)
{
	_cleanup_free_ struct finding *f = calloc(1, sizeof(*f));
	_cleanup_buf_ struct ft_buf who = {};
	size_t alive = others_alive(d, x), others = other_ranks(d, x);
	char how[64];

	if (!f)
		return;
	how_ended(x->code, x->sig, how, sizeof(how));
	*f = (struct finding){ .rule = R_DIED,
			       .since_ns = x->ns,
			       .last_ns = x->ns,
			       .pid = x->pid,
			       .code = x->code,
			       .sig = x->sig };
	ranks_name(&who, &x->rank, 1, false);
	if (!who.len)
		ft_buf_puts(&who, "a rank whose number is not known");
	ft_fmt(f->object, "%s (pid %u, %s)", who.s ? who.s : "a rank", x->pid, x->task);
	ft_fmt(f->text, "%.150s: %s", f->object, how);
	lines_add(&f->evidence, "%s; it was the first of %zu rank%s here to end, %zu went on", how,
		  others + 1, ft_plural(others + 1, "s"), alive);
	death_why(x, alive, others, f);
	if (x->sig != FT_NONE_S32 && signal_hint(x->sig))
		lines_add(&f->next, "%s", signal_hint(x->sig));
	if (rank_number(&x->rank) >= 0)
		finding_ranks(f, &x->rank, 1);
	finding_submit(d, f);
}

/* Crashes have their own cause, whatever happened before. */
static bool is_crash(int32_t sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE;
}

/*
 * The launcher ends the others, or they fail on the lost connection: at once, or after the
 * time-out of a collective.
 */
static bool follows_death(struct ft_diag *d, const struct death *x)
{
	const struct dproc *p = dproc_find(d, x->pid);

	for (const struct death *o = d->deaths; o < x; o++) {
		if (o->early != x->early)
			continue;
		if (x->ns <= o->ns + GRACE_NS)
			return true;
		if (!x->early && o->found && p && p->seen_ns <= o->ns &&
		    x->ns <= o->ns + FOLLOW_NS && !is_crash(x->sig))
			return true;
	}
	return false;
}

/* Who only ended first was no fault when the others end in order as well. */
static bool ended_in_order(const struct ft_diag *d, const struct death *x)
{
	for (size_t i = 0; i < d->ndeaths; i++)
		if (!d->deaths[i].early && d->deaths[i].ns >= x->ns)
			return false;
	return !others_run(d, x);
}

/* The job was started again: what goes wrong now has another cause. */
static bool started_again(const struct ft_diag *d, const struct death *x)
{
	for (const struct dproc *p = d->procs; p; p = p->hh.next)
		if (p->nranks && !p->exit_ns && p->seen_ns > x->ns && rank_number(&x->rank) >= 0 &&
		    rank_number(&p->rank) == rank_number(&x->rank))
			return true;
	return false;
}

static void deaths_review(struct ft_diag *d)
{
	for (size_t i = 0; i < d->ndeaths; i++) {
		const struct death *x = &d->deaths[i];

		if (!x->found)
			continue;
		if (x->early && ended_in_order(d, x))
			finding_close(d, R_DIED, x->pid, "the others ended in order too");
		else if (started_again(d, x))
			finding_close(d, R_DIED, x->pid, NULL);
	}
}

/* Each death is judged once, when it is known what the others did. */
void deaths_judge(struct ft_diag *d, bool final)
{
	for (size_t i = 0; i < d->ndeaths; i++) {
		struct death *x = &d->deaths[i];

		if (x->judged || ((!final || x->early) && d->now_ns < x->ns + GRACE_NS))
			continue;
		x->judged = true;
		if (follows_death(d, x))
			continue;
		if (x->early ? !others_alive(d, x) : ended_together(d, x))
			continue;
		x->found = true;
		death_finding(d, x);
	}
	deaths_review(d);
}

/* --- resets --- */

void rule_reset(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_reset *e = (const void *)ev;
	struct reset *r = &d->resets[d->nresets];
	struct flow *f;
	bool src;

	/* A refused or half-closed connection ends so every day; an established one does not. */
	if ((e->tcp_state != 1 && e->tcp_state != 8 && e->tcp_state != FT_NONE_U8) ||
	    !attr->nranks) {
		d->resets_ordinary++;
		return;
	}
	f = flow_of(d, ev, attr, &src);
	if (!f || f->reset)
		return;
	f->reset = true;
	if (d->nresets == RESETS_MAX) {
		d->resets_more++;
		d->unfit++;
		return;
	}
	*r = (struct reset){ .a = end_place(d, f, src),
			     .b = end_place(d, f, !src),
			     .pid = { f->end[src].pid, f->end[!src].pid },
			     .ns = ev->ts_ns };
	d->nresets++;
}

static bool ends_around(const struct ft_diag *d, uint32_t pid, uint64_t ns)
{
	const struct dproc *p = NULL;

	HASH_FIND(hh, d->procs, &pid, sizeof(pid), p);
	return p && p->exit_ns && p->exit_ns + GRACE_NS >= ns && p->exit_ns <= ns + GRACE_NS;
}

static void reset_finding(struct ft_diag *d, const struct reset *r)
{
	_cleanup_free_ struct finding *f = calloc(1, sizeof(*f));
	struct place *first = r->a, *second = r->b;
	char a[64], b[64];
	unsigned int n = 0;

	if (!f || !r->a || !r->b)
		return;
	if (first->nranks && second->nranks &&
	    rank_number(first->ranks) > rank_number(second->ranks)) {
		first = r->b;
		second = r->a;
	}
	*f = (struct finding){ .rule = R_RESET,
			       .x = r->a,
			       .y = r->b,
			       .since_ns = r->ns,
			       .last_ns = r->ns,
			       .confidence = 2 };
	for (size_t i = 0; i < d->nresets; i++) {
		const struct reset *o = &d->resets[i];

		if ((o->a != r->a || o->b != r->b) && (o->a != r->b || o->b != r->a))
			continue;
		n++;
		f->since_ns = MIN(f->since_ns, o->ns);
	}
	place_short(first, a, sizeof(a));
	place_short(second, b, sizeof(b));
	ft_fmt(f->object, "connections between %.60s and %.60s", a, b);
	ft_fmt(f->text, "%u reset: %.180s", n, f->object);
	ft_fmt(f->why, "both processes went on; who sent the reset is in the events (tcp.reset)");
	lines_add(&f->evidence, "%u established connection%s reset while both processes went on", n,
		  ft_plural(n, "s"));
	finding_ranks(f, r->a->ranks, r->a->nranks);
	finding_ranks(f, r->b->ranks, r->b->nranks);
	finding_submit(d, f);
}

/* A process that ends resets its connections: so they wait to see whether one does. */
void resets_judge(struct ft_diag *d, bool final)
{
	for (size_t i = 0; i < d->nresets; i++) {
		struct reset *r = &d->resets[i];

		if (r->done || (!final && d->now_ns < r->ns + GRACE_NS))
			continue;
		r->done = true;
		if (ends_around(d, r->pid[0], r->ns) || ends_around(d, r->pid[1], r->ns))
			d->resets_ordinary++;
		else
			reset_finding(d, r);
	}
}

/* --- NCCL --- */

void rule_nccl(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_nccl_comm *e = (const void *)ev;
	_cleanup_free_ struct finding *f = NULL;
	_cleanup_buf_ struct ft_buf who = {};

	if (e->result == FT_NONE_S32 || e->result == 0 || e->result == 7)
		return;
	f = calloc(1, sizeof(*f));
	if (!f)
		return;
	*f = (struct finding){ .rule = R_NCCL,
			       .since_ns = ev->ts_ns,
			       .last_ns = ev->ts_ns,
			       .pid = ev->pid,
			       .confidence = 2 };
	ranks_name(&who, attr->ranks, attr->nranks, false);
	if (!who.len && e->rank >= 0)
		ft_buf_printf(&who, "rank %d", e->rank);
	ft_fmt(f->object, "nccl%s in %s%spid %u (%.16s)", ft_name_of(&ft_format_nccl_op, e->op),
	       who.s ? who.s : "", who.len ? ", " : "", ev->pid, ev->task);
	ft_fmt(f->text, "%s: %s", f->object, ft_name_of(&ft_format_nccl_result, e->result));
	lines_add(&f->evidence, "result %d: %s", e->result,
		  ft_name_of(&ft_format_nccl_result, e->result));
	ft_fmt(f->why, "NCCL returned it; why is in its log");
	finding_ranks(f, attr->ranks, attr->nranks);
	finding_submit(d, f);
}

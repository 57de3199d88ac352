// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Which incident explains which, and which of them is the cause. */
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

static bool if_sure(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	(void)d;
	(void)f;
	return by->confidence >= 2;
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

/* A process that used the device. */
static bool same_user(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	(void)d;
	if (by->confidence < 2 || !by->link)
		return false;
	if (f->pid && f->pid == by->link->attr.user_pid)
		return true;
	for (int i = 0; i < f->nranks; i++)
		for (int k = 0; k < by->nranks; k++)
			if (rank_number(&f->ranks[i]) >= 0 &&
			    f->ranks[i].comm == by->ranks[k].comm &&
			    rank_number(&f->ranks[i]) == rank_number(&by->ranks[k]))
				return true;
	return false;
}

static bool has_nic(const struct ft_attr *a, const struct place *x)
{
	for (int i = 0; x && x->nic.bdf[0] && i < a->nnics; i++)
		if (!strcmp(a->nics[i].bdf, x->nic.bdf))
			return true;
	return false;
}

/* The interface is of a NIC below the link. */
static bool same_nic(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	(void)d;
	return by->link && (has_nic(&by->link->attr, f->x) || has_nic(&by->link->attr, f->y));
}

/* A switch that is gone takes with it what is below. */
static bool is_below(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	const struct ft_attr *all = by->link ? &by->link->attr : NULL;

	(void)d;
	if (!all || !f->link || f->link == by->link || plink_is_direct(by->link))
		return false;
	for (int i = 0; i < f->link->attr.ngpus; i++)
		for (int k = 0; k < all->ngpus; k++)
			if (!strcmp(f->link->attr.gpus[i].bdf, all->gpus[k].bdf))
				return true;
	return false;
}

static bool same_link(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	(void)d;
	return f->link && f->link == by->link;
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
	{ R_GONE, R_DIED, same_user, FOLLOW_NS },
	{ R_GONE, R_RESET, if_sure, FOLLOW_NS },
	{ R_GONE, R_NCCL, if_sure, FOLLOW_NS },
	{ R_GONE, R_NVLINK, same_link, FOLLOW_NS },
	{ R_GONE, R_LINK_DOWN, same_nic, 60 * NSEC_PER_SEC },
	{ R_GONE, R_TX_TIMEOUT, same_nic, 60 * NSEC_PER_SEC },
	{ R_GONE, R_LOSS, same_nic, 60 * NSEC_PER_SEC },
	{ R_GONE, R_GONE, is_below, 60 * NSEC_PER_SEC },
	{ R_GONE, R_XID, is_below, 60 * NSEC_PER_SEC },
	{ R_GONE, R_PCIE_ERRORS, is_below, 60 * NSEC_PER_SEC },
	{ R_XID, R_DIED, same_user, FOLLOW_NS },
	{ R_XID, R_RESET, if_sure, FOLLOW_NS },
	{ R_XID, R_NCCL, if_sure, FOLLOW_NS },
	{ R_PCIE_SLOW, R_LOSS, same_nic, ANY_NS },
	{ R_PCIE_SLOW, R_TX_TIMEOUT, same_nic, ANY_NS },
	{ R_PCIE_ERRORS, R_TX_TIMEOUT, same_nic, ANY_NS },
};

/*
 * Retransmissions are noticed up to a timeout after the packet was sent, or before the link's
 * state is.
 */
#define SLACK_NS (2 * NSEC_PER_SEC)

/* An interface of which nothing says that the job uses it. */
bool finding_is_aside(const struct finding *f)
{
	if (f->link)
		return f->aside;
	return (f->rule == R_LINK_DOWN || f->rule == R_LINK_SPEED || f->rule == R_TX_TIMEOUT) &&
	       !f->x->nranks && !f->x->crossed;
}

/* What is polled, or read from the log, may come after what follows from it. */
static bool needs_slack(bool (*fits)(const struct ft_diag *, const struct finding *,
				     const struct finding *))
{
	return fits == at_place || fits == same_user || fits == same_nic || fits == same_link ||
	       fits == is_below;
}

static bool explained(const struct ft_diag *d, const struct finding *f, const struct finding *by)
{
	for (size_t i = 0; i < ARRAY_SIZE(explains); i++) {
		uint64_t slack = needs_slack(explains[i].fits) ? SLACK_NS : 0;

		if (explains[i].by == by->rule && explains[i].what == f->rule &&
		    by->since_ns <= f->since_ns + slack &&
		    f->since_ns <= by->last_ns + explains[i].within_ns &&
		    explains[i].fits(d, f, by))
			return true;
	}
	return false;
}

const struct finding *incident_explained_by(const struct ft_diag *d, const struct incident *in)
{
	for (size_t i = 0; i < d->nincidents; i++) {
		const struct incident *by = &d->incidents[i];

		if (by != in && !by->merged && !finding_is_aside(&by->f) &&
		    explained(d, &in->f, &by->f))
			return &by->f;
	}
	return NULL;
}

/* What goes on now and is known well comes before what weighs more. */
static bool is_better(const struct incident *x, const struct incident *y)
{
	const struct finding *a = &x->f, *b = &y->f;
	const int order[][2] = {
		{ !finding_is_aside(a), !finding_is_aside(b) },
		{ x->open, y->open },
		{ a->confidence >= 2, b->confidence >= 2 },
		{ finding_weight(a), finding_weight(b) },
		{ a->confidence, b->confidence },
	};

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		if (order[i][0] != order[i][1])
			return order[i][0] > order[i][1];
	return a->since_ns < b->since_ns;
}

const struct incident *incident_primary(const struct ft_diag *d)
{
	const struct incident *best = NULL;

	for (size_t i = 0; i < d->nincidents; i++) {
		const struct incident *in = &d->incidents[i];

		if (in->merged || incident_explained_by(d, in))
			continue;
		if (!best || is_better(in, best))
			best = in;
	}
	return best;
}

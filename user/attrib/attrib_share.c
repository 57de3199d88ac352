// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Sockets that several processes hold. Their owner is who opened them; what it forks has them, too,
 * and a packet does not say which of them sent it.
 */
#include "attrib/internal.h"

#define DEPTH_MAX 64

/*
 * Whether q was forked by p, or by a fork of it. since_ns: each of them since then, none of which
 * has executed anything; 0: whenever.
 */
static bool descends(struct ft_attrib *a, const struct proc *q, const struct proc *p,
		     uint64_t since_ns)
{
	for (int i = 0; q && i < DEPTH_MAX; i++) {
		if (since_ns && q->forked_ns <= since_ns)
			return false;
		q = proc_find(a, q->ppid, 0);
		if (q == p)
			return true;
	}
	return false;
}

static bool rank_listed(const struct ft_attr *attr, const struct ft_attr_rank *r)
{
	for (int i = 0; i < attr->nranks; i++) {
		const struct ft_attr_rank *k = &attr->ranks[i];

		if (r->global_rank >= 0 && k->global_rank == r->global_rank)
			return true;
		if (k->comm == r->comm && k->rank == r->rank && k->global_rank == r->global_rank)
			return true;
	}
	return false;
}

/* Adds the ranks of the process that are not there yet, and its GPUs with them. */
static void ranks_join(struct ft_attrib *a, struct proc *q, struct ft_attr *out)
{
	struct ft_attr tmp = {};
	bool more = false;

	ranks_fill(a, q, 0, &tmp);
	for (int i = 0; i < tmp.nranks; i++) {
		if (rank_listed(out, &tmp.ranks[i]))
			continue;
		more = true;
		if (out->nranks == FT_ATTR_MAX)
			out->truncated = true;
		else
			out->ranks[out->nranks++] = tmp.ranks[i];
	}
	if (!more)
		return;
	out->how |= tmp.how;
	for (int i = 0; i < q->nidents; i++)
		gpus_fill(a, q, q->idents[i].device, false, out);
	if (!q->nidents)
		gpus_fill(a, q, -1, false, out);
}

/*
 * That it was inherited the kernel tells of sockets that it listed, and the forks since then tell.
 * Heirs of a rank that are none themselves (data loaders, what they start) work for that rank: then
 * nothing that is listed is in doubt.
 */
void heirs_fill(struct ft_attrib *a, struct proc *p, const struct ft_hdr *ev, const struct tuple *t,
		struct ft_attr *out)
{
	bool told = ev->how & FT_HOW(inherited), any = told;
	uint64_t since_ns = t && p->forks ? flow_since(a, t, p) : 0;
	int own = out->nranks;

	if (!told && !since_ns)
		return;
	for (struct proc *q = a->procs; q; q = q->hh.next) {
		/* Of many helpers one is enough: this is done for each event of a storm. */
		if (q == p || q->exited || (any && q->helper) ||
		    !descends(a, q, p, told ? 0 : since_ns))
			continue;
		any = true;
		if (!q->helper)
			ranks_join(a, q, out);
	}
	if (!any)
		return;
	out->how |= FT_HOW(inherited);
	out->shared |= !own || out->nranks > own;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Communicators of a process, and the ranks that follow from them or from the environment. */
#include "attrib/internal.h"

void comms_free(struct proc *p)
{
	for (struct comm *c = p->comms, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	p->comms = NULL;
	p->ncomms = 0;
	p->idents_valid = false;
}

static struct comm *find(const struct proc *p, uint64_t ptr)
{
	struct comm *c = p->comms;

	while (c && c->ptr != ptr)
		c = c->next;
	return c;
}

const struct comm *comm_find(const struct proc *p, uint64_t ptr)
{
	return find(p, ptr);
}

static bool any_alive(const struct proc *p)
{
	for (const struct comm *c = p->comms; c; c = c->next)
		if (!c->dead)
			return true;
	return false;
}

static void drop_oldest_dead(struct proc *p)
{
	for (struct comm **at = &p->comms; *at; at = &(*at)->next) {
		struct comm *c = *at;

		if (!c->dead)
			continue;
		*at = c->next;
		p->ncomms--;
		free(c);
		return;
	}
}

/* Appends, so that the list goes from the oldest to the newest. */
static struct comm *comm_new(struct ft_attrib *a, struct proc *p)
{
	struct comm **tail = &p->comms, *c;

	p->idents_valid = false;
	if (p->ncomms >= COMMS_MAX)
		drop_oldest_dead(p);
	c = p->ncomms < COMMS_MAX ? calloc(1, sizeof(*c)) : NULL;
	if (!c) {
		a->unfit++;
		return NULL;
	}
	while (*tail)
		tail = &(*tail)->next;
	*tail = c;
	p->ncomms++;
	return c;
}

static void comm_made(struct ft_attrib *a, struct proc *p, const struct ft_ev_nccl_comm *e)
{
	struct comm *c = find(p, e->comm_ptr), *next;
	bool fresh = !c || c->dead || c->rank != e->rank || c->nranks != e->nranks;

	/* The allocator gives addresses out again: a new communicator is a new one at the end. */
	if (c && fresh) {
		c->ptr = 0;
		c->dead = true;
	}
	if (fresh)
		c = comm_new(a, p);
	if (!c)
		return;
	next = c->next;
	*c = (struct comm){ .next = next, .ptr = e->comm_ptr };
	c->rank = e->rank;
	c->nranks = e->nranks;
	c->parent = e->parent == FT_NONE_U64 ? 0 : e->parent;
	c->device = e->device == FT_NONE_S32 ? -1 : e->device;
	if (e->comm_hash && e->comm_hash != FT_NONE_U64)
		c->hash = e->comm_hash;
	else if (e->id_hash != FT_NONE_U64)
		c->hash = e->id_hash;
	p->nccl = 1;
	p->helper = false;
	p->idents_valid = false;
}

static bool in_table(uint8_t op, const uint8_t *ops, size_t n)
{
	return memchr(ops, op, n) != NULL;
}

/* ncclSuccess, or ncclInProgress of a non-blocking or grouped init. */
static bool result_ok(int32_t result)
{
	return result == 0 || result == 7;
}

void comm_event(struct ft_attrib *a, const struct ft_hdr *ev)
{
	static const uint8_t makes[] = { 13, 14, 15, 16, 17, 18, 19 }, ends[] = { 21, 22 };
	const struct ft_ev_nccl_comm *e = (const void *)ev;
	struct proc *p = proc_learn(a, ev);
	struct comm *c;

	if (!p || !e->comm_ptr || e->comm_ptr == FT_NONE_U64)
		return;
	if (in_table(e->op, makes, sizeof(makes)) && result_ok(e->result) && e->rank >= 0 &&
	    e->nranks > e->rank)
		comm_made(a, p, e);
	c = in_table(e->op, ends, sizeof(ends)) ? find(p, e->comm_ptr) : NULL;
	if (c)
		c->dead = true;
	p->idents_valid = false;
}

/* Two ranks of one communicator are two ranks; a split belongs to the rank that has its parent. */
static bool belongs(const struct proc *p, int ident, const struct comm *c)
{
	const struct ident *id = &p->idents[ident];

	if (id->device >= 0 && c->device >= 0 && id->device != c->device)
		return false;
	for (const struct comm *m = p->comms; m && m != c; m = m->next) {
		if (m->ident != ident)
			continue;
		if (c->parent && (m->ptr == c->parent || m->parent == c->parent))
			return true;
		if (m->nranks == c->nranks && m->rank != c->rank && m->hash == c->hash &&
		    (c->hash || (!m->parent && !c->parent)))
			return false;
	}
	return true;
}

static int ident_of(struct proc *p, const struct comm *c)
{
	const struct comm *parent = c->parent ? find(p, c->parent) : NULL;

	if (parent && parent->ident >= 0)
		return parent->ident;
	for (int i = 0; i < p->nidents; i++)
		if (belongs(p, i, c))
			return i;
	if (p->nidents == FT_ATTR_MAX) {
		p->idents_cut = true;
		return -1;
	}
	p->idents[p->nidents] = (struct ident){ .rep = c, .device = c->device };
	return p->nidents++;
}

void idents_update(struct proc *p)
{
	bool alive = any_alive(p);

	if (p->idents_valid)
		return;
	p->nidents = 0;
	p->idents_cut = false;
	for (struct comm *c = p->comms; c; c = c->next)
		c->ident = -1;
	for (struct comm *c = p->comms; c; c = c->next) {
		struct ident *id;

		/* After the last destroy the process still is the rank it was. */
		if (c->dead && alive)
			continue;
		c->ident = ident_of(p, c);
		if (c->ident < 0)
			continue;
		id = &p->idents[c->ident];
		if (c->nranks > id->rep->nranks)
			id->rep = c;
		if (id->device < 0)
			id->device = c->device;
	}
	p->idents_valid = true;
}

/*
 * A launcher's variables are inherited by wrappers (shells, numactl): a process without NCCL is
 * not the rank when another one with the same rank has NCCL.
 */
static bool is_wrapper(const struct ft_attrib *a, const struct proc *p)
{
	if (p->nccl != 0)
		return false;
	for (const struct proc *q = a->procs; q; q = q->hh.next)
		if (q != p && q->nccl == 1 && q->env_rank == p->env_rank && !q->helper &&
		    !q->exited)
			return true;
	return false;
}

static int global_rank(const struct proc *p, const struct comm *c, struct ft_attr *out)
{
	if (p->nidents > 1)
		return -1;
	if (p->env_rank >= 0) {
		out->how |= FT_HOW(env);
		return p->env_rank;
	}
	/* only the environment tells how large the whole job is */
	return c && p->env_world > 0 && c->nranks == p->env_world ? c->rank : -1;
}

static void add_rank(const struct proc *p, const struct comm *c, struct ft_attr *out)
{
	struct ft_attr_rank *r = &out->ranks[out->nranks];

	out->ranks_all++;
	if (out->nranks == FT_ATTR_MAX) {
		out->truncated = true;
		return;
	}
	*r = (struct ft_attr_rank){ .rank = -1, .nranks = -1 };
	if (c) {
		r->comm = c->hash;
		r->rank = c->rank;
		r->nranks = c->nranks;
		out->how |= FT_HOW(comm_init);
	}
	r->global_rank = global_rank(p, c, out);
	out->nranks++;
}

void ident_fill(const struct proc *p, int ident, struct ft_attr *out)
{
	add_rank(p, p->idents[ident].rep, out);
}

void ranks_fill(struct ft_attrib *a, struct proc *p, uint64_t comm_ptr, struct ft_attr *out)
{
	const struct comm *c = comm_ptr ? comm_find(p, comm_ptr) : NULL;

	idents_update(p);
	if (c) {
		add_rank(p, c, out);
		return;
	}
	for (int i = 0; i < p->nidents; i++)
		add_rank(p, p->idents[i].rep, out);
	out->truncated |= p->idents_cut;
	if (p->nidents > 1)
		out->shared = true;
	if (!p->nidents && p->env_rank >= 0 && !p->helper && !is_wrapper(a, p))
		add_rank(p, NULL, out);
}

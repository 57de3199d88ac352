// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What is asked of traced processes. One that is stuck takes its deadline each time, so they queue
 * up, a pass has a budget, and the ring is drained between two of them.
 */
#include "cli/session_parts.h"
#include "host/fs.h"
#include "host/proc.h"

#define ANSWER_MS 200 /* a process that does not answer /proc reads in time is named */
#define PASS_NS	  (2 * NSEC_PER_SEC)

static void to_record(void *ctx, struct ft_hdr *ev)
{
	session_record(ctx, ev, ev->size);
}

void session_unseen(struct session *s, const char *what, int err)
{
	struct ft_ev_inv_host *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_inv_host, ft_mono_ns());
	e->error = err;
	ft_rec_str(&rec, &e->what, what);
	ft_rec_str(&rec, &e->reason, strerror(-err));
	ft_emit(&s->emit, &rec);
}

/* --- the queue --- */

void session_look_add(struct session *s, uint32_t pid, bool facts)
{
	struct ft_looks *q = &s->looks;
	char what[64];

	for (size_t i = 0; i < q->n; i++) {
		if (q->v[i].pid != pid)
			continue;
		q->v[i].facts |= facts;
		return;
	}
	if (q->n == q->cap) {
		size_t cap = MAX(2 * q->cap, (size_t)64);
		void *v = reallocarray(q->v, cap, sizeof(*q->v));

		if (!v) {
			ft_fmt(what, "process %u", pid);
			session_unseen(s, what, -ENOMEM);
			return;
		}
		q->v = v;
		q->cap = cap;
	}
	q->v[q->n++] = (struct ft_look){ pid, facts };
	if (q->n == 1)
		ft_loop_timer_set(s->look_timer, ft_mono_ns());
}

void session_look_del(struct session *s, uint32_t pid)
{
	struct ft_looks *q = &s->looks;

	for (size_t i = 0; i < q->n; i++) {
		if (q->v[i].pid != pid)
			continue;
		memmove(q->v + i, q->v + i + 1, (q->n - i - 1) * sizeof(*q->v));
		q->n--;
		return;
	}
}

/* --- a pass --- */

static bool more(void *ctx)
{
	struct session *s = ctx;

	ft_bpf_drain(s->bpf);
	return ft_mono_ns() < s->look_until_ns;
}

void session_netns_watch(struct session *s, uint32_t pid)
{
	uint32_t netns;
	char text[64];
	int err;

	ft_fmt(text, "/proc/%u/ns/net", pid);
	if (ft_link_inode("", text, &netns))
		return; /* ended meanwhile, or named by the inventory as unreadable */
	err = ft_bpf_netns_add(s->bpf, netns);
	if (err) {
		ft_fmt(text, "drops in network namespace %u", netns);
		session_unseen(s, text, err);
	}
	err = ft_link_src_add(s->links, pid, netns);
	/* Other failures are named by the source itself. */
	if (err == -ENOSPC || err == -ENOMEM) {
		ft_fmt(text, "interfaces of network namespace %u", netns);
		session_unseen(s, text, err);
	}
}

static void look_facts(struct session *s, struct ft_looks *q)
{
	_cleanup_free_ uint32_t *pids = calloc(q->n, sizeof(*pids));
	size_t n = 0;
	ssize_t done;

	for (size_t i = 0; pids && i < q->n; i++)
		if (q->v[i].facts)
			pids[n++] = q->v[i].pid;
	/* All in one: whether one is a helper is seen beside its parent. */
	done = pids ? ft_proc_inventory_while("", pids, n, ANSWER_MS, s->pci, to_record, more, s)
		    : -ENOMEM;
	if (done < 0) {
		session_unseen(s, "the inventory of processes", done);
		done = q->n;
	}
	for (size_t i = 0; i < q->n && done; i++) {
		if (!q->v[i].facts)
			continue;
		q->v[i].facts = false;
		session_netns_watch(s, q->v[i].pid);
		done--;
	}
}

void session_seed(struct session *s)
{
	int err = ft_bpf_seed_sockets(s->bpf);

	/* -ENOENT: the probe table says why there is no list. */
	if (err && err != -ENOENT && err != s->seed_error)
		session_unseen(s, "sockets that were open before", err);
	s->seed_error = err;
}

void session_look(void *ctx)
{
	struct session *s = ctx;
	struct ft_looks q = s->looks;
	bool go = true;

	/* Records that are drained meanwhile start a new queue. */
	s->looks = (struct ft_looks){};
	s->look_until_ns = ft_mono_ns() + PASS_NS;
	if (q.n)
		look_facts(s, &q);
	for (size_t i = 0; i < q.n; i++) {
		int has_nccl;

		/* What is left has a pass of its own, after the main loop's other business. */
		if (q.v[i].facts || !go) {
			session_look_add(s, q.v[i].pid, q.v[i].facts);
			continue;
		}
		if (!ft_bpf_proc_has(s->bpf, q.v[i].pid))
			continue; /* ended meanwhile */
		has_nccl = ft_nccl_src_add(s->nccl, q.v[i].pid);
		s->with_nccl += has_nccl > 0;
		s->nccl_unknown += has_nccl < 0;
		go = more(s);
	}
	free(q.v);
	if (s->seed)
		session_seed(s);
	s->seed = false;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Link Status and AER counters of the links on the way to GPUs and NICs. A thread looks at them
 * (pcie_poll.c) and tells by a pipe what is another value than before; here that becomes records.
 * When something comes or goes on the bus the tree is read anew and the thread gets a new list.
 */
#include <fcntl.h>

#include "source/pcie.h"

#define INTERVAL_MS 100
#define LATE_NS	    (200 * NSEC_PER_MSEC) /* no register takes so long that is there */
#define MESSAGES    64			  /* in a row, then others have their turn */

/* --- messages --- */
static void start_poll(struct ft_pcie_src *s);

static void on_scanned(struct ft_pcie_src *s)
{
	int err;

	if (!pcie_scan_done(s->scan))
		return;
	err = pcie_tree_scanned(s);
	if (err)
		pcie_unseen_emit("PCI devices that came or went", err, strerror(-err), &s->emit);
	else
		start_poll(s);
}

static void on_asleep(struct ft_pcie_src *s, struct pcie_link *l)
{
	char what[96];

	if (l->told_sleep || l->sleeps)
		return;
	l->told_sleep = true;
	ft_fmt(what, "PCIe link of %s, at times", l->device);
	pcie_unseen_emit(what, -EHOSTDOWN, "asleep: a read would wake it up", &s->emit);
}

static void link_unseen(struct ft_pcie_src *s, const struct pcie_link *l, int error,
			const char *why)
{
	char what[96];

	ft_fmt(what, "PCIe link %s - %s", l->port, l->device);
	pcie_unseen_emit(what, error, why, &s->emit);
}

static void on_error(struct ft_pcie_src *s, struct pcie_link *l, int error)
{
	/* Taken out of the tree: the next look at that tells. */
	if (error == -ENODEV) {
		pcie_scan_want(s, 0);
		return;
	}
	if (l->unread)
		return;
	l->unread = true;
	link_unseen(s, l, error, strerror(-error));
}

static void on_status(struct ft_pcie_src *s, struct pcie_link *l, const struct pcie_msg *m)
{
	bool was_off = l->gone || (l->known && !l->now.width);

	pcie_link_status(l, m, &s->emit);
	/* Another device may be there; and of one that was off the registers are not known. */
	if (was_off && !l->gone && l->now.width)
		pcie_scan_want(s, 0);
}

static void on_message(struct ft_pcie_src *s, const struct pcie_msg *m)
{
	struct pcie_link *l;

	if (m->what == PCIE_SCANNED) {
		on_scanned(s);
		return;
	}
	if (m->number != s->number)
		return; /* of a list that does not hold any more */
	if (m->what == PCIE_COUNTER) {
		pcie_aer_read(&s->aers[s->aer_of[m->index]], s->root, m->ts_ns, &s->emit);
		return;
	}
	l = &s->links[s->link_of[m->index]];
	if (m->what == PCIE_STATUS)
		on_status(s, l, m);
	else if (m->what == PCIE_ASLEEP)
		on_asleep(s, l);
	else if (m->what == PCIE_ERROR)
		on_error(s, l, m->error);
	else if (m->what == PCIE_AWAKE && l->sleeps)
		pcie_scan_want(s, 0);
}

static void on_pipe(void *ctx)
{
	struct ft_pcie_src *s = ctx;
	struct pcie_msg m;

	s->own = true;
	for (int i = 0; i < MESSAGES && read(s->pipe[0], &m, sizeof(m)) == sizeof(m); i++)
		on_message(s, &m);
	pcie_scan_due(s, ft_mono_ns());
	s->own = false;
}

/* --- the thread --- */
static int poll_fill(struct ft_pcie_src *s, struct pcie_poll *p)
{
	for (size_t i = 0; i < s->nlinks; i++) {
		struct pcie_link *l = &s->links[i];
		const struct pcie_watch w = {
			.upper = pcie_link_upper(l),
			.below = l->port[0] && !l->absent ? l->device : "",
			.cap = l->cap,
			.last = l->gone	   ? PCIE_STATUS_ONES
				: l->known ? l->status
					   : PCIE_STATUS_NONE,
		};
		int k = l->stuck ? -EBUSY : pcie_poll_link(p, &w);

		if (k == -ENOMEM)
			return k;
		if (k >= 0)
			s->link_of[k] = i;
		else if (!l->stuck)
			on_error(s, l, k);
	}
	s->nfiles = 0;
	s->file_error = 0;
	for (size_t i = 0; i < s->naers; i++) {
		char path[128];
		int k;

		pcie_aer_path(&s->aers[i], path);
		k = pcie_poll_file(p, path);
		if (k == -ENOMEM)
			return k;
		if (k >= 0)
			s->aer_of[k] = i;
		else if (k != -ENOENT)
			s->file_error = k;
		s->nfiles += k >= 0;
	}
	return 0;
}

/* Keeps a thread that hangs at the link apart. -EBUSY: there are too many. */
static int stuck_keep(struct ft_pcie_src *s, const char *upper)
{
	struct pcie_link *l = pcie_link_find(s->links, s->nlinks, upper);
	size_t i = 0;

	while (i < PCIE_STUCK_MAX && s->stuck[i].poll)
		i++;
	if (i == PCIE_STUCK_MAX)
		return -EBUSY;
	ft_strcpy(s->stuck[i].upper, upper, sizeof(s->stuck[i].upper));
	pcie_poll_leave(s->poll);
	s->stuck[i].poll = ft_take_ptr(s->poll);
	if (!l)
		return 0;
	l->stuck = true;
	if (!l->unread)
		link_unseen(s, l, -ETIMEDOUT, "no answer in time: not watched");
	l->unread = true;
	return 0;
}

/*
 * The thread of before ends; we do not wait for it, it may hang. One that does would have the next
 * hang at the same link: it is kept, and that link left alone.
 */
static int poll_retire(struct ft_pcie_src *s)
{
	const char *upper = s->poll ? pcie_poll_stuck(s->poll, ft_mono_ns(), LATE_NS) : NULL;

	if (upper)
		return stuck_keep(s, upper);
	pcie_poll_drop(s->poll);
	s->poll = NULL;
	return 0;
}

/* The list of now, looked at by a new thread; the one before ends. */
static void start_poll(struct ft_pcie_src *s)
{
	int err = poll_retire(s);

	s->number++; /* what one that hangs tells is of the list before */
	if (!err)
		err = pcie_poll_new(&s->poll, s->root, s->interval_ms, s->pipe[1], s->number);
	if (!err)
		err = poll_fill(s, s->poll);
	if (!err && (s->nlinks || s->nfiles))
		err = pcie_poll_start(s->poll);
	if (err && err != -EBUSY) {
		pcie_poll_drop(s->poll);
		s->poll = NULL;
	}
	s->poll_error = err;
	pcie_rows_set(s);
}

static void stuck_back(struct ft_pcie_src *s, size_t i)
{
	struct pcie_link *l = pcie_link_find(s->links, s->nlinks, s->stuck[i].upper);

	pcie_poll_drop(s->stuck[i].poll);
	s->stuck[i].poll = NULL;
	if (l) {
		l->stuck = l->unread = false;
		link_unseen(s, l, 0, "it answered late: watched again");
		/* Nor may its registers have been found meanwhile. */
		if (!l->cap)
			pcie_scan_want(s, 0);
	}
	start_poll(s);
}

/*
 * A read that does not come back holds the thread, not us: the other links get a new one. When it
 * comes back after all, its link is looked at again.
 */
static void check_stuck(struct ft_pcie_src *s, uint64_t now)
{
	bool hangs, in_vain;

	for (size_t i = 0; i < PCIE_STUCK_MAX; i++)
		if (s->stuck[i].poll && pcie_poll_has_left(s->stuck[i].poll))
			stuck_back(s, i);
	hangs = s->poll && pcie_poll_stuck(s->poll, now, PCIE_POLL_STUCK_NS);
	in_vain = s->poll_error == -EBUSY; /* it hung, and there was no room to keep it */
	if (hangs != in_vain)
		start_poll(s);
}

/* --- the source --- */
static struct ft_pci *tree_copy(const struct ft_pci *p)
{
	struct ft_pci *copy = calloc(1, sizeof(*copy));

	if (copy)
		copy->v = calloc(p->n + 1, sizeof(*copy->v));
	if (!copy || !copy->v) {
		free(copy);
		return NULL;
	}
	copy->n = p->n;
	if (p->n)
		memcpy(copy->v, p->v, p->n * sizeof(*p->v));
	return copy;
}

static int src_open(struct ft_pcie_src *s, const struct ft_pci *pci)
{
	struct ft_pci *tree = tree_copy(pci);
	int err = s->root && tree ? 0 : -ENOMEM;

	if (!err && pipe2(s->pipe, O_CLOEXEC | O_NONBLOCK))
		err = -errno;
	if (!err)
		err = ft_loop_add(s->loop, s->pipe[0], on_pipe, s);
	if (err) {
		ft_pci_free(tree);
		return err;
	}
	return pcie_tree_take(s, tree);
}

int ft_pcie_src_new(struct ft_pcie_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_pci *pci,
		    const struct ft_pcie_opts *opts)
{
	struct ft_pcie_src *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct ft_pcie_src){ .loop = loop,
				   .emit = *emit,
				   .root = strdup(opts->root),
				   .interval_ms = opts->interval_ms ? opts->interval_ms
								    : INTERVAL_MS,
				   .pipe = { -1, -1 },
				   .scan_due_ns = UINT64_MAX };
	err = src_open(s, pci);
	if (err) {
		ft_pcie_src_free(s);
		return err;
	}
	s->attached = true;
	s->bus_hash = pcie_bus_hash(s->root);
	s->rows = bpf ? ft_bpf_probes(bpf, &s->nrows) : NULL;
	pcie_blind_emit(s);
	start_poll(s);
	*out = s;
	return 0;
}

void ft_pcie_src_free(struct ft_pcie_src *s)
{
	if (!s)
		return;
	pcie_poll_end(s->poll);
	for (size_t i = 0; i < PCIE_STUCK_MAX; i++)
		pcie_poll_end(s->stuck[i].poll);
	pcie_scan_drop(&s->scan);
	if (s->pipe[0] >= 0) {
		ft_loop_del(s->loop, s->pipe[0]);
		close(s->pipe[0]);
		close(s->pipe[1]);
	}
	ft_pci_free(s->tree);
	free(s->links);
	free(s->aers);
	free(s->root);
	free(s);
}

/* The kernel's own words of the bus, not ours. */
void ft_pcie_src_note(struct ft_pcie_src *s, const struct ft_hdr *ev)
{
	const struct ft_ev_pcie_link *e = (const void *)ev;

	if (s->own)
		return;
	if (ev->kind == FT_KIND_pcie_hotplug || ev->kind == FT_KIND_pcie_recovery)
		pcie_scan_want(s, 0);
	else if (ev->kind == FT_KIND_pcie_link &&
		 (e->reason == PCIE_REASON_BUS_ADDED || e->reason == PCIE_REASON_HOT_PLUG))
		pcie_scan_want(s, 0);
}

void ft_pcie_src_tick(struct ft_pcie_src *s)
{
	uint64_t now = ft_mono_ns(), hash = pcie_bus_hash(s->root);

	s->own = true;
	if (hash != s->bus_hash) {
		s->bus_hash = hash;
		pcie_scan_want(s, now);
	}
	check_stuck(s, now);
	on_scanned(s);
	pcie_scan_due(s, now);
	s->own = false;
}

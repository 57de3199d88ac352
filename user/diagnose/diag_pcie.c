// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* PCIe links: what is seen. */
#include "diagnose/internal.h"

/* --- which link --- */

static struct plink *plink_find(const struct ft_diag *d, const char *key)
{
	struct plink *pl;

	HASH_FIND_STR(d->plinks, key, pl);
	return pl;
}

static struct plink *plink_get(struct ft_diag *d, const char *key)
{
	struct plink *pl = plink_find(d, key);

	if (pl || !key[0])
		return pl;
	pl = HASH_COUNT(d->plinks) < PLINKS_MAX ? calloc(1, sizeof(*pl)) : NULL;
	if (!pl)
		goto unfit;
	ft_strcpy(pl->key, key, sizeof(pl->key));
	pl->now = pl->possible = pl->low = (struct ft_pci_link){ FT_NONE_U32, FT_NONE_U32 };
	pl->pstate = pl->utilization = FT_NONE_U8;
	pl->info = d->opts.attrib ? ft_attrib_link(d->opts.attrib, key) : NULL;
	HASH_ADD_STR(d->plinks, key, pl);
	if (pl->hh.tbl)
		return pl;
	free(pl);
unfit:
	d->unfit++;
	return NULL;
}

struct plink *plink_by_bdf(const struct ft_diag *d, const char *bdf)
{
	const struct ft_attrib_link *l = d->opts.attrib ? ft_attrib_link(d->opts.attrib, bdf)
							: NULL;

	return plink_find(d, l ? l->key : bdf);
}

/* Who is concerned now, and who was: a process that died of it is gone from the attribution. */
static void plink_attr(struct plink *pl, const struct ft_attr *attr)
{
	struct ft_attr old = pl->attr;

	pl->attr = *attr;
	if (!attr->users && old.users) {
		memcpy(pl->attr.ranks, old.ranks, sizeof(old.ranks));
		pl->attr.nranks = old.nranks;
		pl->attr.ranks_all = old.ranks_all;
		pl->attr.users = old.users;
		pl->attr.user_pid = old.user_pid;
		pl->attr.shared = old.shared;
	}
}

struct plink *plink_of(struct ft_diag *d, const struct ft_attr *attr, const char bdf[16])
{
	char own[16];
	struct plink *pl;

	ft_fmt(own, "%.15s", bdf);
	pl = plink_get(d, attr->nlinks ? attr->links[0] : own);
	if (pl)
		plink_attr(pl, attr);
	return pl;
}

bool plink_is_direct(const struct plink *pl)
{
	char bus[16], *dot;

	if (!pl->info)
		return true;
	ft_strcpy(bus, pl->info->device, sizeof(bus));
	dot = strrchr(bus, '.');
	if (dot)
		*dot = 0;
	return !strncmp(pl->info->serves, bus, strlen(bus));
}

/* n from first_ns to ns. */
static void burst_add(struct burst *b, uint64_t first_ns, uint64_t ns, uint64_t n)
{
	if (!b->from_ns || ns > b->from_ns + WINDOW_NS) {
		b->from_ns = first_ns;
		b->n = 0;
	}
	b->n += n;
	b->last_ns = ns;
	if (b->peak < BURST_MIN)
		b->first_ns = b->from_ns;
	b->peak = MAX(b->peak, b->n);
}

static uint64_t first_of(const struct ft_hdr *ev)
{
	return ev->count > 1 && ev->first_ns ? ev->first_ns : ev->ts_ns;
}

void plink_before_note(struct plink *pl, enum aspect_id id, uint64_t ns)
{
	uint64_t *first = &pl->before[id].first_ns, *last = &pl->before[id].last_ns;

	/* The log tells in order of time. */
	if (!*last || ns > *last + DATES_GAP_NS)
		*first = ns;
	*first = MIN(*first, ns);
	*last = MAX(*last, ns);
}

uint64_t plink_before_ns(const struct ft_diag *d, const struct plink *pl)
{
	uint64_t first = 0;

	for (int id = 0; id < A_MAX; id++)
		if (pl->before[id].last_ns && pl->before[id].last_ns + TOLD_NS >= d->start_ns &&
		    (!first || pl->before[id].first_ns < first))
			first = pl->before[id].first_ns;
	return first;
}

uint64_t plink_since(const struct plink *pl, enum aspect_id id)
{
	uint64_t first = pl->before[id].first_ns, last = pl->before[id].last_ns;
	uint64_t since = pl->aspects[id].first_ns;

	return first && since <= last + DATES_GAP_NS ? MIN(first, since) : since;
}

static bool settles(const struct plink *pl, uint64_t ns)
{
	return pl->settle_ns && ns < pl->settle_ns + SETTLE_NS;
}

/* --- inventory --- */

void pcie_inventory(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_inv_pci *e = (const void *)ev;
	const struct ft_attrib_link *l;
	struct plink *pl;
	char device[16];

	(void)attr;
	ft_str_copy(ev, e->device, device, sizeof(device));
	l = d->opts.attrib ? ft_attrib_link(d->opts.attrib, device) : NULL;
	pl = plink_get(d, l ? l->key : device);
	d->equals_due = true;
	if (!pl)
		return;
	pl->info = l;
	pl->possible = (struct ft_pci_link){ e->possible__gen, e->possible__width };
	pl->target_gen = e->target_gen == FT_NONE_U32 ? 0 : e->target_gen;
	if (pl->now_ns || e->now__gen == FT_NONE_U32)
		return;
	pl->now = (struct ft_pci_link){ e->now__gen, e->now__width };
	pl->now_ns = ev->ts_ns;
}

/* --- errors --- */

/* 0 the port's, 1 the device's. */
static int end_of(const struct plink *pl, const char device[16])
{
	return strncmp(pl->key, device, 16) != 0;
}

static void error_count(struct plink *pl, const char *name, size_t len, uint64_t n)
{
	size_t i = 0, last = ARRAY_SIZE(pl->errors) - 1;

	while (i < last && pl->errors[i].n &&
	       (strncmp(pl->errors[i].name, name, len) != 0 || pl->errors[i].name[len]))
		i++;
	if (i == last)
		ft_fmt(pl->errors[i].name, "others");
	else if (!pl->errors[i].n)
		snprintf(pl->errors[i].name, sizeof(pl->errors[i].name), "%.*s", (int)len, name);
	pl->errors[i].n += n;
}

/*
 * A request that the device refuses: by software that reads what is not there. No cable, slot or
 * card has to be at fault.
 */
static bool software_can(const char *name, size_t len)
{
	static const char *const soft[] = { "UnsupReq", "ACSViol", "CmpltAbrt", "UnxCmplt" };

	for (size_t i = 0; i < ARRAY_SIZE(soft); i++)
		if (len == strlen(soft[i]) && !memcmp(name, soft[i], len))
			return true;
	return false;
}

/* An error that was not corrected; name NULL: nothing tells which. */
static void hard_note(struct ft_diag *d, struct plink *pl, uint64_t ns, bool before,
		      const char *name, size_t len)
{
	bool first = !before && (!pl->hard_ns || pl->hard_before);

	if (!pl->hard_ns)
		pl->hard_before = true;
	if (!pl->hard_ns || (pl->hard_before && (!before || ns > pl->hard_last_ns + DATES_GAP_NS)))
		pl->hard_ns = ns;
	pl->hard_last_ns = MAX(pl->hard_last_ns, ns);
	pl->hard_before &= before;
	pl->hard_link |= !name || !software_can(name, len);
	if (first)
		pcie_judge_link(d, pl, false);
}

void pcie_aer(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_aer *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->device);
	unsigned int cls = e->aer_class;
	bool before = e->before == 1, again = e->advisory == 1;
	/* Without the tracepoint these are the log's, and the counters tell of the same errors. */
	bool also_counted = d->watch[FT_KIND_pcie_aer] != WATCH_ON &&
			    d->watch[FT_KIND_pcie_counter] == WATCH_ON;
	size_t len;
	const char *s = ft_str_get(ev, e->errors, &len);

	if (!pl || cls > 2)
		return;
	/* Told and counted as correctable already: this is its name. */
	if (again) {
		pl->told_again[end_of(pl, e->device)] += ev->count;
	} else if (before) {
		pl->log_before[cls] += ev->count;
		plink_before_note(pl, A_ERRORS, ev->ts_ns);
	} else {
		pl->events[end_of(pl, e->device)][cls] += ev->count;
	}
	if (cls == 2 && !before && !also_counted && !settles(pl, ev->ts_ns))
		burst_add(&pl->correctable, first_of(ev), ev->ts_ns, ev->count);
	if (cls != 2 && !again && !len)
		hard_note(d, pl, ev->ts_ns, before, NULL, 0);
	for (size_t i = 0, n; i < len; i += n + 1) {
		n = strnlen(s + i, len - i);
		if (!before && !also_counted)
			error_count(pl, s + i, n, ev->count);
		if (cls != 2 && !again)
			hard_note(d, pl, ev->ts_ns, before, s + i, n);
	}
}

/* The kernel's own counters: of before the attach, and where no event comes all there is. */
void pcie_counter(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_counter *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->device);
	unsigned int cls = e->aer_class;
	size_t len = strnlen(e->error, sizeof(e->error));
	int end;

	/* The file's last line adds the others up. */
	if (!pl || cls > 2 || e->delta == FT_NONE_U64 || !strncmp(e->error, "TOTAL", 5))
		return;
	end = end_of(pl, e->device);
	if (e->before == 1) {
		pl->counted_before[end][cls] += e->delta;
		return;
	}
	pl->counted[end][cls] += e->delta;
	if (d->watch[FT_KIND_pcie_aer] == WATCH_ON)
		return;
	error_count(pl, e->error, len, e->delta);
	if (cls == 2 && !settles(pl, ev->ts_ns))
		burst_add(&pl->correctable, first_of(ev), ev->ts_ns, e->delta);
	else if (cls != 2)
		hard_note(d, pl, ev->ts_ns, false, e->error, len);
}

uint64_t plink_errors(const struct plink *pl, int end, int cls)
{
	uint64_t counted = pl->counted[end][cls];

	/* The counters have an advisory error in both classes. */
	if (cls == 0)
		counted -= MIN(pl->told_again[end], counted);
	return MAX(pl->events[end][cls], counted);
}

void pcie_recovery(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_recovery *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->device);

	if (!pl || e->before == 1)
		return;
	if (e->result == 0)
		hard_note(d, pl, ev->ts_ns, false, NULL, 0);
	pl->contained |= e->result == 0;
	/* NVIDIA's driver has no handlers: this fails after any error, and says nothing of its kind. */
	pl->unrecovered |= e->result == 3;
	if (e->result == 2)
		pl->unrecovered = false;
	/* Only after these the link trains again. */
	if (e->result == 0 || e->result == 2)
		pl->settle_ns = ev->ts_ns;
}

/* --- speed and width --- */

int plink_busy(const struct ft_diag *d, const struct plink *pl, uint64_t *since_ns)
{
	bool unknown = !pl->attr.ngpus, busy = false;

	*since_ns = UINT64_MAX;
	for (int i = 0; i < pl->attr.ngpus; i++) {
		const struct plink *g = plink_by_bdf(d, pl->attr.gpus[i].bdf);

		if (g && g->busy_ns) {
			*since_ns = MIN(*since_ns, g->busy_ns);
			busy = true;
		} else if (g && !g->clocks_ns && g->nccl_ns &&
			   d->now_ns < g->nccl_last_ns + ACTIVE_NS) {
			*since_ns = MIN(*since_ns, g->nccl_ns);
			busy = true;
		} else {
			unknown |= !g || !g->clocks_ns;
		}
	}
	return busy ? 1 : unknown ? -1 : 0;
}

bool pcie_is_degraded(const struct plink *pl)
{
	const struct ft_pci_link *n = &pl->now, *p = &pl->possible;

	return n->width && n->width != FT_NONE_U32 &&
	       ((p->width != FT_NONE_U32 && n->width < p->width) ||
		(p->gen != FT_NONE_U32 && n->gen != FT_NONE_U32 && n->gen < p->gen));
}

static void state_add(struct plink *pl, struct ft_pci_link l, uint64_t ns)
{
	size_t i = 0, last = ARRAY_SIZE(pl->states) - 1;

	while (i < last && pl->states[i].ns &&
	       (pl->states[i].l.gen != l.gen || pl->states[i].l.width != l.width))
		i++;
	pl->states[i].l = i < last ? l : (struct ft_pci_link){ FT_NONE_U32, FT_NONE_U32 };
	pl->states[i].ns += ns;
}

/* When the GPUs below were idle last: all of them, as far as it is known of each. */
static uint64_t idle_last(const struct ft_diag *d, const struct plink *pl)
{
	uint64_t last = UINT64_MAX;

	for (int i = 0; i < pl->attr.ngpus; i++) {
		const struct plink *g = plink_by_bdf(d, pl->attr.gpus[i].bdf);

		if (!g || !g->clocks_ns)
			return 0;
		last = MIN(last, g->busy_ns ? g->idle_ns : d->now_ns);
	}
	return pl->attr.ngpus ? last : 0;
}

static void pending_settle(const struct ft_diag *d, struct plink *pl, size_t i)
{
	uint64_t from = pl->pending[i].ns, n = pl->pending[i].n;

	if (idle_last(d, pl) + SPEED_WAIT_NS >= from && idle_last(d, pl))
		pl->idle_transitions += n;
	else
		burst_add(&pl->flaps, from, pl->pending[i].last_ns, n);
	pl->pending[i].n = pl->pending[i].ns = 0;
}

void plink_settle(const struct ft_diag *d, struct plink *pl, bool final)
{
	for (size_t i = 0; i < ARRAY_SIZE(pl->pending); i++)
		if (pl->pending[i].n &&
		    (final || d->now_ns >= pl->pending[i].ns + NSEC_PER_SEC + SPEED_WAIT_NS / 2))
			pending_settle(d, pl, i);
}

static void pending_add(const struct ft_diag *d, struct plink *pl, uint64_t ns, uint64_t n)
{
	size_t i = 0, oldest = 0;

	for (; i < ARRAY_SIZE(pl->pending); i++) {
		if (pl->pending[i].n && ns < pl->pending[i].ns + NSEC_PER_SEC)
			break;
		if (pl->pending[i].ns < pl->pending[oldest].ns)
			oldest = i;
	}
	if (i == ARRAY_SIZE(pl->pending)) {
		i = oldest;
		if (pl->pending[i].n)
			pending_settle(d, pl, i);
		pl->pending[i].ns = ns;
	}
	pl->pending[i].n += n;
	pl->pending[i].last_ns = ns;
}

/*
 * Changes that are new: the kernel's events and our own looks tell of the same ones, and the one that
 * has more saw what the other missed.
 */
static uint64_t transitions_new(struct plink *pl, const struct ft_ev_pcie_link *e)
{
	bool known = e->transitions != FT_NONE_U64;
	bool differs = e->from__gen != e->to__gen || e->from__width != e->to__width;
	uint64_t before = pl->transitions;

	if (e->exact == 1)
		pl->told += known ? e->transitions : differs;
	else
		pl->looked += known ? e->transitions : differs;
	pl->transitions = MAX(pl->told, pl->looked);
	pl->inexact = pl->looked > pl->told;
	return pl->transitions - before;
}

/* An idle GPU lowers its speed and comes back: counted, no fault. Lanes are never saved so. */
static void transitions_add(struct ft_diag *d, struct plink *pl, const struct ft_ev_pcie_link *e)
{
	/* The kernel's events do not say what was before. */
	uint32_t from = e->from__width == FT_NONE_U32 ? pl->now.width : e->from__width;
	uint64_t n = transitions_new(pl, e);

	if (!n || settles(pl, e->h.ts_ns))
		return;
	if (from == e->to__width || e->to__width == FT_NONE_U32) {
		pending_add(d, pl, e->h.ts_ns, n);
	} else {
		burst_add(&pl->flaps, e->h.ts_ns, e->h.ts_ns, n);
		pl->width_ns = e->h.ts_ns;
	}
}

static void presence(struct plink *pl, uint64_t ns, bool there, bool orderly, uint8_t how)
{
	if (!there) {
		if (!pl->gone_ns) {
			pl->gone_ns = ns;
			pl->gone_how = how;
			pl->orderly = orderly;
		}
		pl->orderly |= orderly;
		return;
	}
	pl->settle_ns = ns;
	if (!pl->gone_ns)
		return;
	pl->resets += ns < pl->gone_ns + SETTLE_NS;
	pl->gone_ns = 0;
	pl->back_ns = ns;
}

/* A register of a device that does not answer reads as ones. */
static bool is_width(uint32_t width)
{
	return width <= LANES_MAX;
}

static void state_set(struct plink *pl, const struct ft_ev_pcie_link *e)
{
	const struct ft_pci_link from = { e->from__gen, e->from__width };
	const struct ft_pci_link to = { e->to__gen, e->to__width };
	uint64_t ts = e->h.ts_ns;

	if (!is_width(to.width))
		return;
	/* It may be back where it was: then only the record tells how long it was away. */
	if (is_width(from.width) && e->reason != 6 && e->in_state_ns != FT_NONE_U64)
		state_add(pl, from, e->in_state_ns);
	if (to.gen == pl->now.gen && to.width == pl->now.width && pl->now_ns)
		return;
	if (is_width(from.width) && e->reason != 6 && e->in_state_ns == FT_NONE_U64 && pl->now_ns)
		state_add(pl, from, ts - MIN(pl->now_ns, ts));
	pl->now = to;
	pl->now_ns = ts;
	pl->changed |= e->reason != 6;
}

/* Gone with its link: back with it. A device that hangs or was taken off its bus may have one. */
static bool was_without_link(const struct plink *pl)
{
	return pl->gone_ns &&
	       (pl->gone_how == FT_NONE_U8 || (pl->gone_how == 1 && pl->now.width == 0));
}

void pcie_link(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_link *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->port[0] ? e->port : e->device);

	/* How the first look found it: the inventory said so already. */
	if (!pl || e->before == 1 || (e->to__width != FT_NONE_U32 && !is_width(e->to__width)))
		return;
	if (e->possible__gen != FT_NONE_U32)
		pl->possible.gen = e->possible__gen;
	if (e->possible__width != FT_NONE_U32)
		pl->possible.width = e->possible__width;
	if (e->target_gen != FT_NONE_U32)
		pl->target_gen = e->target_gen;
	pl->training = e->training == 1;
	pl->lbms_ns = e->lbms == 1 ? ev->ts_ns : pl->lbms_ns;
	pl->labs_ns = e->labs == 1 ? ev->ts_ns : pl->labs_ns;
	if (!e->to__width)
		presence(pl, ev->ts_ns, false, false, FT_NONE_U8);
	else if (e->to__width != FT_NONE_U32 && was_without_link(pl))
		presence(pl, ev->ts_ns, true, false, 0);
	transitions_add(d, pl, e);
	state_set(pl, e);
	/* Lost lanes are a fault at once; a speed is judged when time has passed. */
	if (!pl->low_now && pcie_is_degraded(pl))
		pcie_judge_link(d, pl, false);
}

/* --- there or not --- */

void pcie_hotplug(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_hotplug *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->port[0] ? e->port : e->device);
	bool comes = e->event == 0 || e->event == 2;

	if (!pl || e->event == FT_NONE_U8)
		return;
	if (e->before == 1 && !comes && e->event != 4)
		plink_before_note(pl, A_GONE, ev->ts_ns);
	if (e->before == 1)
		return;
	/* A card in the slot, even a link, is no device yet: it may not train, or not answer. */
	if (comes)
		pl->settle_ns = ev->ts_ns;
	else
		presence(pl, ev->ts_ns, e->event == 4, true, 1);
}

void pcie_gone(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_gone *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->device[0] ? e->device : e->port);

	if (!pl || e->how_seen == FT_NONE_U8)
		return;
	presence(pl, ev->ts_ns, e->how_seen == 3, e->how_seen == 1, e->how_seen);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Names of PCIe links and their devices, and the evidence about them in words. */
#include "diagnose/internal.h"

/* "0000:40:01.0 -> 41:00.0": the domain is told once. */
void plink_ends(const struct plink *pl, char out[40])
{
	const struct ft_attrib_link *l = pl->info;
	const char *colon = strchr(pl->key, ':');
	size_t domain = colon ? colon - pl->key + 1 : 0;

	if (!l || !l->port[0])
		snprintf(out, 40, "%s", pl->key);
	else
		snprintf(out, 40, "%s -> %s", l->port,
			 l->device + (strncmp(l->port, l->device, domain) ? 0 : domain));
}

static void gpus_name(const struct ft_attr *a, struct ft_buf *b)
{
	bool numbered = true;

	for (int i = 0; i < a->ngpus; i++)
		numbered &= a->gpus[i].index >= 0;
	if (!numbered && a->ngpus > 1) {
		ft_buf_printf(b, "%d GPUs", a->ngpus);
		return;
	}
	ft_buf_printf(b, "GPU%s ", ft_plural(a->ngpus, "s"));
	for (int i = 0; i < a->ngpus; i++) {
		if (numbered)
			ft_buf_printf(b, "%s%d", i ? "," : "", a->gpus[i].index);
		else
			ft_buf_puts(b, a->gpus[i].bdf);
	}
}

static void nics_name(const struct ft_attr *a, struct ft_buf *b)
{
	const struct ft_attr_nic *n = &a->nics[0];

	if (a->nnics > 1)
		ft_buf_printf(b, "%s%d NICs", b->len ? " and " : "", a->nnics);
	else
		ft_buf_printf(b, "%sNIC %.31s", b->len ? " and " : "",
			      n->ibdev[0]    ? n->ibdev
			      : n->netdev[0] ? n->netdev
					     : n->bdf);
}

/* "ranks 0-15 (16 of 24)" */
static void users_name(const struct plink *pl, struct ft_buf *b)
{
	const struct ft_attr *a = &pl->attr;
	_cleanup_buf_ struct ft_buf ranks = {};

	ranks_name(&ranks, a->ranks, a->nranks, false);
	if (ranks.len)
		ft_buf_printf(b, " = %s%s", a->shared ? "one of " : "", ranks.s);
	if (ranks.len && a->truncated && a->ranks_all > a->nranks)
		ft_buf_printf(b, " (%d of %u)", a->nranks, a->ranks_all);
}

void plink_name(const struct plink *pl, bool device, char *out, size_t size)
{
	const char *slot = pl->info ? pl->info->slot : "";
	_cleanup_buf_ struct ft_buf b = {}, who = {};
	char ends[40];

	plink_ends(pl, ends);
	if (pl->attr.ngpus)
		gpus_name(&pl->attr, &who);
	/* The function beside a NIC's is the same card. */
	if (pl->attr.nnics)
		nics_name(&pl->attr, &who);
	if (!device)
		ft_buf_printf(&b, "PCIe %s", plink_is_direct(pl) ? "link" : "uplink");
	if (who.len)
		ft_buf_printf(&b, "%s%s", device ? "" : " of ", who.s);
	else if (device)
		ft_buf_puts(&b, "PCIe device");
	users_name(pl, &b);
	if (slot[0])
		ft_buf_printf(&b, ", slot %s", slot);
	ft_buf_printf(&b, " (%s)", ends);
	ft_strcpy(out, b.s ? b.s : pl->key, size);
}

void gbytes_name(struct ft_pci_link from, struct ft_pci_link to, char out[40])
{
	double a = ft_pci_gbytes(from), b = ft_pci_gbytes(to);

	if (a > 0 && b > 0)
		snprintf(out, 40, "%.1f -> %.1f GB/s", a, b);
	else
		snprintf(out, 40, "GB/s not known");
}

/* --- evidence --- */

static const char *span(uint64_t ns, char out[24])
{
	if (ns < 60 * NSEC_PER_SEC)
		snprintf(out, 24, "%.1f s", ns / 1e9);
	else if (ns < 3600 * NSEC_PER_SEC)
		snprintf(out, 24, "%.1f min", ns / 60e9);
	else
		snprintf(out, 24, "%.1f h", ns / 3600e9);
	return out;
}

static void states_line(const struct plink *pl, struct lines *l)
{
	_cleanup_buf_ struct ft_buf b = {};
	char name[32], time[24];

	for (size_t i = 0; i < ARRAY_SIZE(pl->states) && pl->states[i].ns; i++)
		ft_buf_printf(&b, "%s%s %s", b.len ? ", " : "",
			      pl->states[i].l.width ? ft_pci_link_text(pl->states[i].l, name)
						    : "no link",
			      span(pl->states[i].ns, time));
	if (b.len)
		lines_add(l, "time in each state before this one: %s", b.s);
}

static void transitions_line(const struct plink *pl, struct lines *l)
{
	if (pl->transitions)
		lines_add(l, "%s%llu change%s of speed or width (%s)",
			  pl->inexact ? "at least " : "", (unsigned long long)pl->transitions,
			  ft_plural(pl->transitions, "s"),
			  pl->inexact
				  ? "seen by looks: what is shorter than their interval is missed"
				  : "counted by events");
	if (pl->idle_transitions)
		lines_add(l, "%llu of them were of an idle GPU's speed: no fault",
			  (unsigned long long)pl->idle_transitions);
}

/* Its equals: same vendor and device number, each behind a link of its own. */
static void equals_line(const struct ft_diag *d, const struct plink *pl, struct lines *l)
{
	unsigned int same = 0, well = 0;

	for (const struct plink *o = d->plinks; o; o = o->hh.next) {
		bool fine = true;

		if (o == pl || !o->info || !pl->info || !pl->info->serves_id ||
		    o->info->serves_id != pl->info->serves_id ||
		    strcmp(o->info->device, o->info->serves) != 0)
			continue;
		same++;
		for (int i = 0; i < A_MAX; i++)
			fine &= !o->aspects[i].confidence;
		well += fine;
	}
	if (!same || !plink_is_direct(pl))
		return;
	if (well == same)
		lines_add(l, "its %u equals on this node have nothing of this", same);
	else
		lines_add(l, "of its %u equals on this node %u have nothing of this", same, well);
}

static const char *how_low(const struct plink *pl, char *out, size_t size)
{
	const struct ft_pci_link *p = &pl->possible, *n = &pl->low;
	char width[48] = "", speed[32] = "";

	if (n->width && n->width < p->width && p->width == 2 * n->width)
		ft_fmt(width, "width halved");
	else if (n->width && n->width < p->width)
		ft_fmt(width, "%u of %u lanes", n->width, p->width);
	if (n->gen < p->gen)
		ft_fmt(speed, "speed -%u gen%s", p->gen - n->gen, ft_plural(p->gen - n->gen, "s"));
	snprintf(out, size, "%s%s%s", width, width[0] && speed[0] ? " and " : "", speed);
	return out;
}

static void busy_words(const struct ft_diag *d, const struct plink *pl, char *out, size_t size)
{
	const struct plink *g = pl->attr.ngpus ? plink_by_bdf(d, pl->attr.gpus[0].bdf) : NULL;
	uint64_t since;
	int busy = plink_busy(d, pl, &since);

	out[0] = 0;
	if (busy == 1 && g && g->pstate != FT_NONE_U8)
		snprintf(out, size, " while the GPU is at work (P%u)", g->pstate);
	else if (busy == 1)
		snprintf(out, size, " while the GPU is at work");
}

static void slow_evidence(struct ft_diag *d, struct plink *pl, struct lines *l)
{
	char how[80], busy[48], at[16];

	if (pl->low.width != FT_NONE_U32) {
		busy_words(d, pl, busy, sizeof(busy));
		lines_add(l, "%s%s: %s", how_low(pl, how, sizeof(how)), busy,
			  pl->aspects[A_SLOW].text);
	} else {
		lines_add(l, "%s", pl->aspects[A_SLOW].text);
	}
	if (pl->target_gen && pl->possible.gen != FT_NONE_U32 &&
	    pl->target_gen < MAX(pl->possible.gen, pl->better.gen))
		lines_add(l, "the port's target speed (Link Control 2) is Gen%u", pl->target_gen);
	if (pl->lbms_ns || pl->labs_ns) {
		time_name(d, MAX(pl->lbms_ns, pl->labs_ns), at, sizeof(at));
		lines_add(l, "%s at %s: the %s", pl->labs_ns ? "LABS" : "LBMS", at,
			  pl->labs_ns ? "device changed it of its own"
				      : "port changed it for reliability or by command");
	}
	transitions_line(pl, l);
	states_line(pl, l);
	if (pl->low.width != FT_NONE_U32)
		equals_line(d, pl, l);
}

static void error_names(const struct plink *pl, struct ft_buf *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(pl->errors) && pl->errors[i].n; i++)
		ft_buf_printf(b, "%s%s x%llu", b->len ? " " : "", pl->errors[i].name,
			      (unsigned long long)pl->errors[i].n);
}

static void both_ends(const struct plink *pl, struct lines *l)
{
	uint64_t n[2] = {}, all;

	for (int end = 0; end < 2; end++)
		for (int cls = 0; cls < 3; cls++)
			n[end] += plink_errors(pl, end, cls);
	if (!pl->info || !pl->info->port[0] || (!n[0] && !n[1]))
		return;
	all = n[0] + n[1];
	if (!n[0] || !n[1])
		lines_add(
			l,
			"all reported by the %s %s (%llu), none by the %s: the link is common to both",
			n[0] ? "port" : "device", n[0] ? pl->info->port : pl->info->device,
			(unsigned long long)all, n[0] ? "device" : "port");
	else
		lines_add(l, "%llu reported by the port %s, %llu by the device %s",
			  (unsigned long long)n[0], pl->info->port, (unsigned long long)n[1],
			  pl->info->device);
}

/* The tracepoint and the counters are two ways to the same figure. */
static void cross_check(const struct plink *pl, struct lines *l)
{
	uint64_t events = 0, counted = 0;

	for (int cls = 0; cls < 3; cls++) {
		for (int end = 0; end < 2; end++) {
			events += pl->events[end][cls] + (cls ? 0 : pl->told_again[end]);
			counted += pl->counted[end][cls];
		}
	}
	if (events && counted > events)
		lines_add(l, "the kernel's counters rose by %llu, %llu of them were seen as events",
			  (unsigned long long)counted, (unsigned long long)events);
}

/* What was there before the attach, and since when. */
void plink_before(const struct ft_diag *d, const struct plink *pl, struct lines *l)
{
	uint64_t counted = 0, logged = 0, first = plink_before_ns(d, pl);
	char at[16];

	for (int cls = 0; cls < 3; cls++) {
		counted += pl->counted_before[0][cls] + pl->counted_before[1][cls];
		logged += pl->log_before[cls];
	}
	if (counted)
		lines_add(l, "%llu PCIe error%s before the attach by the kernel's counters",
			  (unsigned long long)counted, ft_plural(counted, "s"));
	if (logged)
		lines_add(l, "%llu PCIe error%s before the attach in the kernel log",
			  (unsigned long long)logged, ft_plural(logged, "s"));
	if (!first)
		return;
	time_name(d, first, at, sizeof(at));
	lines_add(l, "the kernel log has trouble of it from before the attach, first at %s", at);
}

static void errors_evidence(struct ft_diag *d, struct plink *pl, struct lines *l)
{
	_cleanup_buf_ struct ft_buf names = {};
	char first[16], last[16];

	error_names(pl, &names);
	time_name(d, pl->aspects[A_ERRORS].first_ns, first, sizeof(first));
	time_name(d, pl->aspects[A_ERRORS].last_ns, last, sizeof(last));
	lines_add(l, "%s, %s to %s: %.120s", pl->aspects[A_ERRORS].text, first, last,
		  names.len ? names.s : "names not known");
	if (pl->contained)
		lines_add(l, "the port cut the link off to contain an error (DPC)%s",
			  pl->unrecovered ? "; the recovery failed" : "");
	else if (pl->unrecovered)
		lines_add(l, "the kernel's recovery failed: the driver of the device has none");
	both_ends(pl, l);
	cross_check(pl, l);
	equals_line(d, pl, l);
}

static void gone_evidence(struct ft_diag *d, struct plink *pl, struct lines *l)
{
	char at[16];

	time_name(d, pl->aspects[A_GONE].first_ns, at, sizeof(at));
	lines_add(l, "%s, since %s", pl->aspects[A_GONE].text, at);
	for (size_t i = 0; i < ARRAY_SIZE(pl->xids) && pl->xids[i].n; i++)
		if (pl->xids[i].xid == 79)
			lines_add(l, "Xid 79: %s", pl->xids[i].text);
	if (pl->logs[0].ns)
		lines_add(l, "kernel log: %s", pl->logs[0].text);
}

static void xid_evidence(struct ft_diag *d, struct plink *pl, struct lines *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(pl->xids) && pl->xids[i].n; i++) {
		const char *text = ft_xid_text(pl->xids[i].xid);
		char at[16];

		time_name(d, pl->xids[i].first_ns, at, sizeof(at));
		lines_add(l, "Xid %u x%llu since %s%s (%s): %s", pl->xids[i].xid,
			  (unsigned long long)pl->xids[i].n, at,
			  pl->xids[i].before ? ", before the attach" : "",
			  text ? text : "not in our table", pl->xids[i].text);
	}
}

static void flap_evidence(struct ft_diag *d, struct plink *pl, struct lines *l)
{
	transitions_line(pl, l);
	states_line(pl, l);
	equals_line(d, pl, l);
}

static void log_evidence(struct ft_diag *d, struct plink *pl, struct lines *l)
{
	for (size_t i = 0; i < FT_LOGS; i++) {
		char at[16];

		if (!pl->logs[i].ns)
			continue;
		time_name(d, pl->logs[i].ns, at, sizeof(at));
		lines_add(l, "kernel log, %s%s: %s", at,
			  pl->logs[i].before ? ", before the attach" : "", pl->logs[i].text);
	}
}

void plink_evidence(struct ft_diag *d, struct plink *pl, enum aspect_id id, struct lines *l)
{
	static void (*const fns[A_MAX])(struct ft_diag *, struct plink *, struct lines *) = {
		[A_GONE] = gone_evidence,     [A_XID] = xid_evidence,	[A_SLOW] = slow_evidence,
		[A_ERRORS] = errors_evidence, [A_FLAP] = flap_evidence, [A_LOG] = log_evidence,
	};

	fns[id](d, pl, l);
}

/* How it is at the verdict. */
void plink_state(const struct ft_diag *d, const struct finding *f, char *out, size_t size)
{
	const struct plink *pl = f->link;
	char name[32], at[16], time[24];

	out[0] = 0;
	if (f->rule == R_GONE && pl->gone_ns) {
		snprintf(out, size, "still gone, for %s",
			 span(d->now_ns - MIN(pl->gone_ns, d->now_ns), time));
	} else if (f->rule == R_GONE && pl->back_ns) {
		time_name(d, pl->back_ns, at, sizeof(at));
		snprintf(out, size, "it answers again since %s", at);
	} else if (f->rule == R_PCIE_SLOW && pl->low_now) {
		snprintf(out, size, "still so: %s, for %s", ft_pci_link_text(pl->now, name),
			 span(d->now_ns - MIN(pl->now_ns, d->now_ns), time));
	} else if (f->rule == R_PCIE_FLAP && pl->now_ns) {
		time_name(d, pl->flaps.last_ns, at, sizeof(at));
		snprintf(out, size, "last change at %s; now %s, for %s", at,
			 pl->now.width ? ft_pci_link_text(pl->now, name) : "no link",
			 span(d->now_ns - MIN(pl->now_ns, d->now_ns), time));
	} else if (f->rule == R_PCIE_SLOW && pl->low.width == FT_NONE_U32) {
		snprintf(out, size, "still so");
	} else if (f->rule == R_PCIE_SLOW && pl->low_end_ns) {
		time_name(d, pl->low_end_ns, at, sizeof(at));
		snprintf(out, size, "back at %s since %s; watched %s for a repeat",
			 ft_pci_link_text(pl->now, name), at,
			 span(d->now_ns - MIN(pl->low_end_ns, d->now_ns), time));
	}
}

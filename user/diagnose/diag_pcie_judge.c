// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* PCIe links, GPUs and what the kernel log says of them: what it means. */
#include "diagnose/internal.h"

/* In what kind of incident a link's strongest aspect results. */
const enum rule_id aspect_rule[A_MAX] = {
	[A_GONE] = R_GONE,	    [A_XID] = R_XID,	    [A_SLOW] = R_PCIE_SLOW,
	[A_ERRORS] = R_PCIE_ERRORS, [A_FLAP] = R_PCIE_FLAP, [A_LOG] = R_DEV_LOG,
};

/*
 * What happened before the attach concerns who runs now only if a process that uses the device was
 * there already; without any process to tell, not longer than an hour.
 */
static bool concerns_now(const struct ft_diag *d, const struct plink *pl, uint64_t ns)
{
	const struct dproc *p = pl->attr.user_pid ? dproc_find(d, pl->attr.user_pid) : NULL;

	if (p && p->start_ns)
		return p->start_ns <= ns;
	return !HASH_COUNT(d->procs) && d->start_ns < ns + 3600 * NSEC_PER_SEC;
}

/* --- gone --- */

static void gone_text(const struct plink *pl, struct aspect *a)
{
	static const char *const how[] = { "does not answer: every read gives ones", "removed",
					   "in the kernel's error state: inaccessible", "",
					   "not below its port any more" };

	if (pl->fell_ns)
		ft_fmt(a->text, "fell off the bus, by its driver");
	else if (pl->gone_how == FT_NONE_U8)
		ft_fmt(a->text, "its PCIe link is down");
	else
		ft_fmt(a->text, "%s%s", how[MIN(pl->gone_how, ARRAY_SIZE(how) - 1)],
		       pl->gone_how == 1 && pl->attr.users ? " while in use" : "");
}

/* A driver that says so knows; silence may be a reset, and somebody may have taken out a spare. */
static void judge_gone(struct ft_diag *d, struct plink *pl, bool final)
{
	struct aspect *a = &pl->aspects[A_GONE];
	bool fell = pl->fell_ns && (!pl->fell_before || concerns_now(d, pl, pl->fell_ns));
	bool settled = pl->gone_ns && d->now_ns >= pl->gone_ns + SETTLE_NS;
	bool used = pl->attr.users, nobody = !HASH_COUNT(d->procs);

	if (!a->confidence && !fell && !settled && !(final && pl->gone_ns && used))
		return;
	if (!a->confidence)
		a->first_ns = fell && pl->gone_ns ? MIN(pl->fell_ns, pl->gone_ns)
			      : fell		  ? pl->fell_ns
						  : pl->gone_ns;
	a->last_ns = pl->gone_ns ? d->now_ns : MAX(MAX(pl->fell_ns, pl->back_ns), a->last_ns);
	if (!fell && !pl->gone_ns)
		return; /* it is back: what was found stays */
	if (!fell && !used && pl->orderly && !nobody)
		return;
	gone_text(pl, a);
	a->confidence = fell || (used && settled) ? 3 : used || (nobody && !pl->orderly) ? 2 : 1;
	ft_fmt(a->why, "%s",
	       fell		 ? "the driver reported it"
	       : used && settled ? "a traced process uses it, and it did not come back in 5 s"
	       : used		 ? "a traced process uses it; a reset takes up to 5 s as well"
	       : nobody		 ? "no process is traced: whether it was in use is not known"
				 : "no traced process uses it");
}

/* --- slow --- */

static uint64_t errors_near(const struct plink *pl)
{
	uint64_t last = MAX(pl->correctable.last_ns, pl->hard_last_ns);

	return last && last + SETTLE_NS >= pl->now_ns && last <= pl->now_ns + SETTLE_NS;
}

/* The GPU was at work for long enough, with the link as it is now. */
static bool busy_throughout(const struct ft_diag *d, const struct plink *pl, uint64_t busy_ns,
			    bool final)
{
	uint64_t wait = pl->changed ? SPEED_WAIT_NS : SPEED_ATTACH_NS;

	/* At the end there is nothing more to wait for: what it was at the change must do. */
	if (final && busy_ns <= pl->now_ns)
		return true;
	return d->now_ns >= MAX(busy_ns, pl->now_ns) + wait;
}

/* NVML said so after the link had changed, or had the time to say that it is idle. */
static uint8_t busy_confidence(const struct ft_diag *d, const struct plink *pl, struct aspect *a)
{
	bool nvml = false, after = !pl->changed || d->now_ns >= pl->now_ns + SPEED_WAIT_NS;

	for (int i = 0; i < pl->attr.ngpus; i++) {
		const struct plink *g = plink_by_bdf(d, pl->attr.gpus[i].bdf);

		nvml |= g && g->busy_ns;
		after |= g && g->busy_ns && g->clocks_ns > pl->now_ns;
	}
	ft_fmt(a->why, "%s",
	       !nvml   ? "NCCL calls were made on the GPU before and after"
	       : after ? "the GPU was at work before and after"
		       : "the GPU was at work before; the trace ended before it could tell more");
	return nvml && after ? 3 : 2;
}

static uint8_t slow_speed(const struct ft_diag *d, const struct plink *pl, bool final,
			  struct aspect *a)
{
	uint64_t busy_ns;
	int busy = plink_busy(d, pl, &busy_ns);
	bool commanded = pl->target_gen && pl->target_gen < pl->possible.gen &&
			 pl->now.gen <= pl->target_gen;

	if (errors_near(pl)) {
		ft_fmt(a->why, "errors came with it");
		return 3;
	}
	if (busy == 0 || (busy == 1 && !busy_throughout(d, pl, busy_ns, final)))
		return 0;
	if (commanded) {
		ft_fmt(a->why, "limited by command: the port asks for Gen%u (Link Control 2)",
		       pl->target_gen);
		return busy == 1 || !pl->attr.ngpus ? 2 : 1;
	}
	if (busy == 1)
		return busy_confidence(d, pl, a);
	if (plink_is_direct(pl) && pl->attr.ngpus)
		return 0;
	ft_fmt(a->why, pl->attr.ngpus
			       ? "whether its GPUs are at work is not known; they save power "
				 "on their own links, not on one above a switch"
			       : "a NIC does not lower its speed when it is idle");
	return 2;
}

static void slow_text(const struct plink *pl, struct aspect *a)
{
	char low[32], full[32], gbytes[40];

	ft_pci_link_text(pl->low, low);
	ft_pci_link_text(pl->possible, full);
	gbytes_name(pl->possible, pl->low, gbytes);
	if (pl->changed)
		ft_fmt(a->text, "%s -> %s, %s each way", full, low, gbytes);
	else
		ft_fmt(a->text,
		       "%s instead of %s, %.1f instead of %.1f GB/s each way, since before "
		       "the attach",
		       low, full, ft_pci_gbytes(pl->low), ft_pci_gbytes(pl->possible));
}

static bool is_worse(struct ft_pci_link a, struct ft_pci_link b)
{
	return b.width == FT_NONE_U32 || ft_pci_gbytes(a) < ft_pci_gbytes(b);
}

static void judge_slow(struct ft_diag *d, struct plink *pl, bool final)
{
	struct aspect *a = &pl->aspects[A_SLOW];
	bool narrow = pl->now.width < pl->possible.width && pl->possible.width != FT_NONE_U32;
	uint8_t confidence = 0;

	if (pl->low_now && !pcie_is_degraded(pl)) {
		pl->low_now = false;
		pl->low_end_ns = pl->now_ns;
		a->last_ns = pl->now_ns;
	}
	if (!pcie_is_degraded(pl) || pl->gone_ns)
		return;
	if (pl->settle_ns && d->now_ns < pl->settle_ns + SETTLE_NS)
		return;
	if (narrow && !pl->training) {
		confidence = 3;
		ft_fmt(a->why, "fewer lanes than both ends have: no power saving takes them away");
	} else if (!pl->training) {
		confidence = slow_speed(d, pl, final, a);
	}
	if (confidence || pl->low_now)
		a->last_ns = d->now_ns;
	if (!confidence)
		return;
	if (!a->confidence)
		a->first_ns = pl->now_ns;
	a->confidence = MAX(a->confidence, confidence);
	pl->low_now = true;
	pl->low_end_ns = 0;
	if (!is_worse(pl->now, pl->low))
		return;
	pl->low = pl->now;
	slow_text(pl, a);
}

/*
 * Both ends offer less than those of its equals: a link that was trained low, or set so by the
 * firmware. Equals are what have the same vendor and device number; most of them must agree.
 */
static void compare_equals(struct ft_diag *d, struct plink *pl)
{
	size_t n;
	const struct ft_attrib_link *l = ft_attrib_links(d->opts.attrib, &n), *me = pl->info;
	struct ft_pci_link better = {};
	unsigned int same = 0, more = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ft_pci_link can = { l[i].possible_gen, l[i].possible_width };

		/* A card's further functions have rows of their own on the same link. */
		if (l[i].serves_id != me->serves_id || strcmp(l[i].device, l[i].serves) != 0 ||
		    !strcmp(l[i].key, pl->key) || ft_attrib_link(d->opts.attrib, l[i].key) != &l[i])
			continue;
		same++;
		if (!l[i].possible_gen || ft_pci_gbytes(can) <= ft_pci_gbytes(pl->possible))
			continue;
		more++;
		better = can;
	}
	pl->equals = same;
	pl->better_equals = 2 * more > same && same >= 2 ? more : 0;
	pl->better = better;
}

static void compare_all(struct ft_diag *d)
{
	if (!d->equals_due || !d->opts.attrib)
		return;
	d->equals_due = false;
	for (struct plink *pl = d->plinks; pl; pl = pl->hh.next)
		if (pl->info && pl->info->serves_id && pl->possible.width != FT_NONE_U32 &&
		    !strcmp(pl->info->device, pl->info->serves))
			compare_equals(d, pl);
}

static void judge_equals(struct ft_diag *d, struct plink *pl)
{
	struct aspect *a = &pl->aspects[A_SLOW];
	char low[32], full[32];

	if (!pl->better_equals || a->confidence || pl->gone_ns)
		return;
	/* Slots of less lanes are where NICs are put by design. */
	a->confidence = pl->better_equals == pl->equals && pl->attr.ngpus ? 2 : 1;
	a->first_ns = d->start_ns;
	a->last_ns = d->now_ns;
	ft_fmt(a->text,
	       "its ends offer %s only, %u of its %u equals %s (%.1f of %.1f GB/s each way)",
	       ft_pci_link_text(pl->possible, low), pl->better_equals, pl->equals,
	       ft_pci_link_text(pl->better, full), ft_pci_gbytes(pl->possible),
	       ft_pci_gbytes(pl->better));
	ft_fmt(a->why,
	       "compared with its equals only: the slot, the firmware's setting or a damaged "
	       "card can be why");
}

/* --- errors, flaps, Xid, log --- */

static void judge_errors(struct ft_diag *d, struct plink *pl)
{
	struct aspect *a = &pl->aspects[A_ERRORS];
	const struct burst *c = &pl->correctable;
	bool hard = pl->hard_ns && (!pl->hard_before || concerns_now(d, pl, pl->hard_ns));
	char hards[48] = "", soft[48] = "";
	uint64_t n[3] = {};

	if (!hard && c->peak < BURST_MIN)
		return;
	for (int cls = 0; cls < 3; cls++)
		n[cls] = plink_errors(pl, 0, cls) + plink_errors(pl, 1, cls);
	a->first_ns = !hard		     ? c->first_ns
		      : c->peak >= BURST_MIN ? MIN(pl->hard_ns, c->first_ns)
					     : pl->hard_ns;
	a->last_ns = MAX(hard ? pl->hard_last_ns : 0, c->last_ns);
	if (hard && pl->hard_link) {
		a->confidence = pl->hard_before ? 2 : 3;
		ft_fmt(a->why, "an error that was not corrected%s",
		       pl->hard_before ? ", before the attach" : "");
	} else if (c->peak >= BURST_MIN) {
		a->confidence = c->peak >= BURST_BIG ? 3 : 2;
		ft_fmt(a->why,
		       "%llu corrected errors in a minute; a healthy link has a few in a day",
		       (unsigned long long)c->peak);
	} else {
		a->confidence = 1;
		ft_fmt(a->why, "a request was refused: software that reads what is not there does "
			       "that on a healthy link");
	}
	if (n[0] + n[1])
		ft_fmt(hards, "%llu uncorrected error%s%s", (unsigned long long)(n[0] + n[1]),
		       ft_plural(n[0] + n[1], "s"), n[2] ? ", " : "");
	if (n[2])
		ft_fmt(soft, "%llu corrected error%s", (unsigned long long)n[2],
		       ft_plural(n[2], "s"));
	ft_fmt(a->text, "%s%s%s", hards[0] || soft[0] ? hards : "contained or recovered", soft,
	       pl->unrecovered ? ", not recovered" : "");
}

/* Lanes, errors or flags that came with changes of speed: power saving alone has none. */
static bool flap_has_company(const struct plink *pl)
{
	const uint64_t with[] = { pl->width_ns, pl->lbms_ns, pl->labs_ns, pl->correctable.last_ns,
				  pl->hard_last_ns };

	for (size_t i = 0; i < ARRAY_SIZE(with); i++)
		if (with[i] && with[i] + SETTLE_NS >= pl->flaps.first_ns &&
		    with[i] <= pl->flaps.last_ns + SETTLE_NS)
			return true;
	return false;
}

static void judge_flaps(struct ft_diag *d, struct plink *pl)
{
	struct aspect *a = &pl->aspects[A_FLAP];
	uint64_t since;
	int busy;

	if (pl->flaps.peak < BURST_MIN)
		return;
	a->first_ns = pl->flaps.first_ns;
	a->last_ns = pl->flaps.last_ns;
	busy = plink_busy(d, pl, &since);
	a->confidence = MAX(a->confidence, busy == 1				 ? 3
					   : busy == -1 && !flap_has_company(pl) ? 1
										 : 2);
	ft_fmt(a->text, "%s%llu changes of speed or width in %.0f s",
	       pl->inexact ? "at least " : "",
	       (unsigned long long)(pl->transitions - pl->idle_transitions),
	       (a->last_ns - MIN(a->first_ns, a->last_ns)) / 1e9);
	ft_fmt(a->why, "%s",
	       a->confidence == 3
		       ? "the GPU is at work: no power saving changes its link"
		       : "whether it is idle is not known; power saving changes the speed, too");
}

static void judge_xid(struct ft_diag *d, struct plink *pl)
{
	struct aspect *a = &pl->aspects[A_XID];

	for (size_t i = 0; i < ARRAY_SIZE(pl->xids) && pl->xids[i].n; i++) {
		uint32_t xid = pl->xids[i].xid;
		bool app = ft_xid_is_application(xid), before = pl->xids[i].before;
		const char *text = ft_xid_text(xid);
		bool record = ft_xid_is_record(xid);
		uint8_t confidence = app || record || !text ? 1 : before ? 2 : 3;

		/* Xid 79 is what "gone" stands for. */
		if (xid == 79 || (before && (app || !concerns_now(d, pl, pl->xids[i].last_ns))))
			continue;
		a->first_ns = a->confidence ? MIN(a->first_ns, pl->xids[i].first_ns)
					    : pl->xids[i].first_ns;
		a->last_ns = MAX(a->last_ns, pl->xids[i].last_ns);
		if (confidence <= a->confidence)
			continue;
		a->confidence = confidence;
		ft_fmt(a->text, "Xid %u: %s%s", xid, text ? text : pl->xids[i].text,
		       app ? " (an application error)" : "");
		ft_fmt(a->why, "%s",
		       app	? "an application error by the driver's own table"
		       : record ? "a record, no error: it asks for a reset at most"
		       : !text	? "its number is not in our table: what it means is not known"
		       : before ? "reported before the attach, while its process ran"
				: "the driver reported it");
	}
}

static void judge_logs(struct plink *pl)
{
	struct aspect *a = &pl->aspects[A_LOG];

	for (size_t i = 0; i < FT_LOGS; i++) {
		bool before = pl->logs[i].before, health = i == 1 && !before;
		uint8_t confidence = before ? 1 : 2;

		/* Less bandwidth than the card can take is what the slot gives: told at each boot. */
		if (!pl->logs[i].ns || (!health && i != 2))
			continue;
		a->first_ns = a->confidence ? a->first_ns : pl->logs[i].ns;
		a->last_ns = MAX(a->last_ns, pl->logs[i].ns);
		if (confidence <= a->confidence)
			continue;
		a->confidence = confidence;
		ft_fmt(a->text, "%s",
		       health ? "its firmware reports trouble" : "its slot gives too little power");
		ft_fmt(a->why, "by its driver's line in the kernel log");
	}
}

/* --- findings --- */

void plink_finding(struct finding *f, struct plink *pl, enum rule_id rule)
{
	*f = (struct finding){ .rule = rule, .link = pl, .aside = false };
	plink_name(pl, rule != R_PCIE_SLOW && rule != R_PCIE_ERRORS && rule != R_PCIE_FLAP,
		   f->object, sizeof(f->object));
	finding_ranks(f, pl->attr.ranks, pl->attr.nranks);
}

static enum aspect_id strongest(const struct plink *pl)
{
	enum aspect_id weak = A_MAX;

	for (int id = 0; id < A_MAX; id++) {
		if (pl->aspects[id].confidence >= 2)
			return id;
		if (pl->aspects[id].confidence && weak == A_MAX)
			weak = id;
	}
	return weak;
}

static void next_commands(const struct plink *pl, struct finding *f)
{
	const struct ft_attrib_link *l = pl->info;
	bool commanded = pl->target_gen && pl->possible.gen != FT_NONE_U32 &&
			 pl->target_gen < pl->possible.gen;

	if (commanded && l && l->port[0] && f->rule == R_PCIE_SLOW)
		lines_add(
			&f->next,
			"setpci -s %s CAP_EXP+30.W shows the commanded speed (last digit %u); ask who "
			"set it (firmware, a script)",
			l->port, pl->target_gen);
	if (pl->better_equals && f->rule == R_PCIE_SLOW && !pl->low_now)
		lines_add(&f->next,
			  "compare the slot's settings in the firmware (speed, bifurcation) with "
			  "those of its equals");
	if (l && l->port[0])
		lines_add(&f->next, "lspci -vv -s %s; lspci -vv -s %s (LnkSta, LnkCtl2, AER)",
			  l->port, l->device);
	else
		lines_add(&f->next, "lspci -vv -s %s (LnkSta, LnkCtl2, AER)", pl->key);
	if (pl->attr.ngpus)
		lines_add(&f->next, "dmesg | grep -iE 'xid|aer|pcie'");
}

static void link_finding(struct ft_diag *d, struct plink *pl)
{
	_cleanup_free_ struct finding *f = malloc(sizeof(*f));
	enum aspect_id main = strongest(pl);
	const struct aspect *a = &pl->aspects[main];

	if (main == A_MAX || !f)
		return;
	plink_finding(f, pl, aspect_rule[main]);
	f->confidence = a->confidence;
	f->since_ns = a->first_ns;
	f->aside = !pl->attr.users && HASH_COUNT(d->procs) > 0;
	f->mild = (main == A_ERRORS && !(pl->hard_ns && pl->hard_link)) ||
		  (main == A_SLOW && pl->low.width == FT_NONE_U32 && !pl->attr.ngpus);
	snprintf(f->text, sizeof(f->text), "%s: %s", f->object, a->text);
	ft_fmt(f->why, "%s", a->why);
	plink_evidence(d, pl, main, &f->evidence);
	for (int id = 0; id < A_MAX; id++) {
		const struct aspect *o = &pl->aspects[id];

		if (!o->confidence)
			continue;
		f->since_ns = MIN(f->since_ns, plink_since(pl, id));
		f->last_ns = MAX(f->last_ns, o->last_ns);
		if (id != (int)main)
			plink_evidence(d, pl, id, &f->evidence);
	}
	plink_before(d, pl, &f->evidence);
	if (pl->low.width != FT_NONE_U32)
		gbytes_name(pl->possible, pl->low, f->cost);
	next_commands(pl, f);
	finding_submit(d, f);
}

/* Who uses it now; who did stays when nobody does any more. */
static void users_update(struct ft_diag *d, struct plink *pl)
{
	struct ft_attr now;

	if (!pl->info || !d->opts.attrib)
		return;
	ft_attrib_link_attr(d->opts.attrib, pl->key, &now);
	if (now.users || !pl->attr.users)
		pl->attr = now;
}

/* Most links have nothing to tell. */
static bool has_news(const struct plink *pl)
{
	return pcie_is_degraded(pl) || pl->low_now || pl->better_equals || pl->gone_ns ||
	       pl->back_ns || pl->fell_ns || pl->hard_ns || pl->correctable.n || pl->transitions ||
	       pl->xids[0].n || pl->logged || pl->slowdown.times || pl->nvlink.n ||
	       pl->nvlink.downs;
}

void pcie_judge_link(struct ft_diag *d, struct plink *pl, bool final)
{
	if (!has_news(pl))
		return;
	users_update(d, pl);
	judge_gone(d, pl, final);
	judge_slow(d, pl, final);
	judge_equals(d, pl);
	judge_errors(d, pl);
	plink_settle(d, pl, final);
	judge_flaps(d, pl);
	judge_xid(d, pl);
	judge_logs(pl);
	link_finding(d, pl);
	gpu_slowdown_finding(d, pl);
	gpu_nvlink_finding(d, pl);
}

void pcie_judge(struct ft_diag *d, bool final)
{
	compare_all(d);
	for (struct plink *pl = d->plinks; pl; pl = pl->hh.next)
		pcie_judge_link(d, pl, final);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* GPUs: Xids, clocks, NVLinks; and what the kernel log says of devices. */
#include "diagnose/internal.h"

static void fell_off(struct ft_diag *d, struct plink *pl, uint64_t ns, bool before)
{
	if (pl->fell_ns && !pl->fell_before)
		return;
	pl->fell_ns = ns;
	pl->fell_before = before;
	if (!before)
		pcie_judge_link(d, pl, false);
}

/* --- GPU --- */

void gpu_xid(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_gpu_xid *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->bdf);
	bool before = e->before == 1;
	size_t i = 0;

	if (!pl || e->xid == FT_NONE_U32)
		return;
	if (before && !ft_xid_is_application(e->xid) && !ft_xid_is_record(e->xid))
		plink_before_note(pl, e->xid == 79 ? A_GONE : A_XID, ev->ts_ns);
	while (i < ARRAY_SIZE(pl->xids) && pl->xids[i].n && pl->xids[i].xid != e->xid)
		i++;
	if (i == ARRAY_SIZE(pl->xids)) {
		d->unfit++;
		return;
	}
	if (!pl->xids[i].n || (pl->xids[i].before && !before)) {
		pl->xids[i].xid = e->xid;
		pl->xids[i].n = 0;
		pl->xids[i].first_ns = ev->ts_ns;
		pl->xids[i].before = before;
		ft_str_copy(ev, e->text, pl->xids[i].text, sizeof(pl->xids[i].text));
	}
	if (before && ev->ts_ns > pl->xids[i].last_ns + DATES_GAP_NS)
		pl->xids[i].first_ns = ev->ts_ns;
	pl->xids[i].n += ev->count;
	pl->xids[i].last_ns = ev->ts_ns;
	if (e->xid == 79)
		fell_off(d, pl, ev->ts_ns, before);
	else if (pl->xids[i].n == ev->count && !before)
		pcie_judge_link(d, pl, false);
}

static void slowdown_set(struct plink *pl, const struct ft_ev_gpu_clocks *e)
{
	bool on = e->reasons != FT_NONE_U64 && e->reasons & FT_CLOCKS_SLOWDOWN;
	uint64_t ts = e->h.ts_ns;

	if (pl->slowdown.on_ns) {
		pl->slowdown.total_ns += ts - MIN(pl->slowdown.last_ns, ts);
		pl->slowdown.last_ns = ts;
	}
	if (!on) {
		pl->slowdown.on_ns = 0;
		return;
	}
	if (!pl->slowdown.on_ns) {
		pl->slowdown.on_ns = pl->slowdown.last_ns = ts;
		pl->slowdown.times++;
	}
	pl->slowdown.first_ns = pl->slowdown.first_ns ? pl->slowdown.first_ns : ts;
	pl->slowdown.reasons |= e->reasons & FT_CLOCKS_SLOWDOWN;
	if (e->sm_mhz != FT_NONE_U32)
		pl->slowdown.mhz_low = pl->slowdown.mhz_low ? MIN(pl->slowdown.mhz_low, e->sm_mhz)
							    : e->sm_mhz;
	if (e->temperature != FT_NONE_U32)
		pl->slowdown.temperature = MAX(pl->slowdown.temperature, e->temperature);
	if (e->power_mw != FT_NONE_U32)
		pl->slowdown.power_mw = MAX(pl->slowdown.power_mw, e->power_mw);
	if (e->power_limit_mw != FT_NONE_U32)
		pl->slowdown.power_limit_mw = e->power_limit_mw;
}

/* P0 to P2 are what CUDA runs in; a lower one with work in it is at work, too. */
void gpu_clocks(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_gpu_clocks *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->bdf);
	bool busy, idle_before = pl && pl->clocks_ns && !pl->busy_ns;

	if (!pl)
		return;
	slowdown_set(pl, e);
	if (e->pstate == FT_NONE_U8 && e->utilization == FT_NONE_U8)
		return;
	pl->pstate = e->pstate;
	pl->utilization = e->utilization;
	pl->clocks_ns = ev->ts_ns;
	busy = e->pstate <= 2 || (e->utilization != FT_NONE_U8 && e->utilization > 0);
	if (!busy)
		pl->busy_ns = 0;
	else if (!pl->busy_ns)
		pl->busy_ns = ev->ts_ns;
	if (!busy || pl->busy_ns == ev->ts_ns)
		pl->idle_ns = idle_before || !busy ? ev->ts_ns : pl->idle_ns;
}

/* Calls on a communicator whose GPU is known: that GPU has work. */
void gpu_active(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct plink *pl = attr->ngpus == 1 && !attr->shared ? plink_by_bdf(d, attr->gpus[0].bdf)
							     : NULL;

	if (!pl)
		return;
	if (!pl->nccl_ns || ev->ts_ns > pl->nccl_last_ns + ACTIVE_NS)
		pl->nccl_ns = ev->ts_ns;
	pl->nccl_last_ns = ev->ts_ns;
}

void gpu_nvlink(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_gpu_nvlink *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->bdf);
	uint64_t delta = e->delta == FT_NONE_U64 ? 0 : e->delta;
	uint64_t bit = 1ull << (e->link & 63);
	bool was_down, down;

	if (!pl)
		return;
	was_down = pl->nvlink.down & bit;
	if (e->active != FT_NONE_U8)
		pl->nvlink.down = e->active ? pl->nvlink.down & ~bit : pl->nvlink.down | bit;
	/* A card that has no bridge has its links down all the time. */
	if (e->before == 1) {
		pl->nvlink.before += delta;
		return;
	}
	down = e->active == 0 && !was_down;
	if (!delta && !down)
		return;
	pl->nvlink.n += delta;
	pl->nvlink.downs += down;
	pl->nvlink.first_ns = pl->nvlink.first_ns ? pl->nvlink.first_ns : ev->ts_ns;
	pl->nvlink.last_ns = ev->ts_ns;
	pl->nvlink.link = e->link;
	ft_str_copy(ev, e->error, pl->nvlink.error, sizeof(pl->nvlink.error));
}

/* --- the kernel log --- */

void dev_log(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_dev_log *e = (const void *)ev;
	struct plink *pl = plink_of(d, attr, e->bdf);
	bool before = e->before == 1;

	if (!pl || e->what >= FT_LOGS)
		return;
	/*
	 * That a slot gives less than the card can take is told at each boot, and a port without a
	 * cable is no trouble of the device.
	 */
	if (before && (e->what == 0 || e->what == 1 || e->what == 5))
		plink_before_note(pl, e->what ? A_LOG : A_GONE, ev->ts_ns);
	if (before && pl->logs[e->what].ns && !pl->logs[e->what].before)
		return;
	pl->logs[e->what].before = before;
	pl->logs[e->what].ns = ev->ts_ns;
	ft_str_copy(ev, e->text, pl->logs[e->what].text, sizeof(pl->logs[0].text));
	pl->logged = true;
	if (e->what == 0)
		fell_off(d, pl, ev->ts_ns, before);
}

/* --- findings of their own --- */

static void reason_names(uint64_t reasons, char *out, size_t size)
{
	static const struct {
		uint64_t bit;
		const char *name;
	} names[] = {
		{ 0x40, "hardware thermal slowdown" },
		{ 0x80, "power brake (by the power supply)" },
		{ 0x08, "hardware slowdown" },
		{ 0x20, "software thermal slowdown" },
	};
	size_t len = 0;

	out[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		/* The general bit says nothing when one of its reasons is there. */
		if (!(reasons & names[i].bit) || (names[i].bit == 0x08 && reasons & 0xc0))
			continue;
		len += snprintf(out + len, size - len, "%s%s", len ? ", " : "", names[i].name);
		if (len >= size)
			return;
	}
}

void gpu_slowdown_finding(struct ft_diag *d, struct plink *pl)
{
	_cleanup_free_ struct finding *f = NULL;
	uint64_t total = pl->slowdown.total_ns;
	char why[96], facts[120] = "";

	if (!pl->slowdown.times)
		return;
	f = malloc(sizeof(*f));
	if (!f)
		return;
	if (pl->slowdown.on_ns)
		total += d->now_ns - pl->slowdown.last_ns;
	plink_finding(f, pl, R_SLOWDOWN);
	reason_names(pl->slowdown.reasons, why, sizeof(why));
	f->aside = !pl->attr.users && HASH_COUNT(d->procs) > 0;
	f->confidence = pl->slowdown.reasons & 0xc8 && total >= 2 * NSEC_PER_SEC ? 3 : 2;
	f->since_ns = pl->slowdown.first_ns;
	f->last_ns = pl->slowdown.on_ns ? d->now_ns : pl->slowdown.last_ns;
	ft_fmt(f->text, "%s: %s", f->object, why);
	ft_fmt(f->why, "NVML names it as what limits the clocks");
	lines_add(&f->evidence, "%s, %u time%s, %.1f s in all%s", why, pl->slowdown.times,
		  ft_plural(pl->slowdown.times, "s"), total / 1e9,
		  pl->slowdown.on_ns ? ", still so" : "");
	if (pl->slowdown.mhz_low)
		ft_fmt(facts, "SM clock down to %u MHz", pl->slowdown.mhz_low);
	if (pl->slowdown.temperature)
		snprintf(facts + strlen(facts), sizeof(facts) - strlen(facts), "%sup to %u C",
			 facts[0] ? ", " : "", pl->slowdown.temperature);
	if (pl->slowdown.power_mw)
		snprintf(facts + strlen(facts), sizeof(facts) - strlen(facts), "%s%u of %u W",
			 facts[0] ? ", " : "", pl->slowdown.power_mw / 1000,
			 pl->slowdown.power_limit_mw / 1000);
	if (facts[0])
		lines_add(&f->evidence, "%s", facts);
	finding_submit(d, f);
}

void gpu_nvlink_finding(struct ft_diag *d, struct plink *pl)
{
	_cleanup_free_ struct finding *f = NULL;
	const char *what = pl->nvlink.error[0] ? pl->nvlink.error : "error";

	if (!pl->nvlink.downs && pl->nvlink.n < BURST_MIN)
		return;
	f = malloc(sizeof(*f));
	if (!f)
		return;
	plink_finding(f, pl, R_NVLINK);
	f->aside = !pl->attr.users && HASH_COUNT(d->procs) > 0;
	f->confidence = pl->nvlink.downs ? 3 : 2;
	f->since_ns = pl->nvlink.first_ns;
	f->last_ns = pl->nvlink.last_ns;
	if (pl->nvlink.downs)
		ft_fmt(f->text, "%s: NVLink %u went down", f->object, pl->nvlink.link);
	else
		ft_fmt(f->text, "%s: %llu NVLink errors (%s)", f->object,
		       (unsigned long long)pl->nvlink.n, what);
	ft_fmt(f->why, "counted by NVML");
	lines_add(&f->evidence, "NVLink %u: %llu %s since the attach, %llu before; down %u time%s",
		  pl->nvlink.link, (unsigned long long)pl->nvlink.n, what,
		  (unsigned long long)pl->nvlink.before, pl->nvlink.downs,
		  ft_plural(pl->nvlink.downs, "s"));
	finding_submit(d, f);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What of a GPU's state is new, and worth a line. */
#include "host/nvml.h"
#include "source/gpu.h"

#define FAULTS                                                                                     \
	(FT_CLOCKS_HW_SLOWDOWN | FT_CLOCKS_SW_THERMAL | FT_CLOCKS_HW_THERMAL |                     \
	 FT_CLOCKS_HW_POWER_BRAKE)

#define PSTATE_WORKS 2 /* P0 to P2 */

/* --- records --- */
static void emit_missing(const struct ft_emit *emit, size_t nr, const struct ft_nvml_state *st)
{
	struct ft_ev_inv_host *e;
	struct ft_rec rec;
	char what[64];

	e = ft_rec_new(&rec, FT_KIND_inv_host, ft_mono_ns());
	if (st->error)
		e->error = st->error;
	if (st->bdf[0])
		ft_fmt(what, "clocks and NVLinks of GPU %s (NVML)", st->bdf);
	else
		ft_fmt(what, "clocks and NVLinks of GPU number %zu of NVML", nr);
	ft_rec_str(&rec, &e->what, what);
	ft_rec_str(&rec, &e->reason,
		   st->asleep ? "asleep: a question would wake it up" : ft_nvml_reason(st->error));
	ft_emit(emit, &rec);
}

static void emit_clocks(const struct ft_emit *emit, const struct ft_nvml_state *st, uint64_t now_ns)
{
	struct ft_ev_gpu_clocks *e;
	struct ft_rec rec;
	char other[16];

	e = ft_rec_new(&rec, FT_KIND_gpu_clocks, now_ns);
	e->reasons = st->reasons;
	e->index = st->minor;
	e->sm_mhz = st->sm_mhz;
	e->temperature = st->temperature;
	e->power_mw = st->power_mw;
	e->power_limit_mw = st->power_limit_mw;
	e->pstate = st->pstate;
	e->utilization = st->utilization;
	ft_strcpy(e->bdf, st->bdf, sizeof(e->bdf));
	for (unsigned int bit = 0; bit < 64 && st->reasons != FT_NONE_U64; bit++) {
		const char *name = ft_clocks_reason_name(bit);

		if (!(st->reasons & 1ull << bit))
			continue;
		ft_fmt(other, "bit %u", bit);
		ft_rec_strs_add(&rec, &e->names, name ? name : other);
	}
	ft_emit(emit, &rec);
}

struct link_news {
	unsigned int link;
	uint8_t active, before;
	uint64_t total, delta; /* FT_NONE_U64: it is about the state */
	const char *error;
};

static void emit_link(const struct ft_emit *emit, const struct ft_nvml_state *st,
		      const struct link_news *news)
{
	struct ft_ev_gpu_nvlink *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_gpu_nvlink, ft_mono_ns());
	e->total = news->total;
	e->delta = news->delta;
	e->index = st->minor;
	e->link = news->link;
	e->active = news->active;
	e->before = news->before;
	ft_strcpy(e->bdf, st->bdf, sizeof(e->bdf));
	if (news->error)
		ft_rec_str(&rec, &e->error, news->error);
	ft_emit(emit, &rec);
}

/* --- what is new --- */
static bool is_busy(const struct ft_nvml_state *st)
{
	return st->utilization != FT_NONE_U8 && st->utilization;
}

static uint64_t faults(const struct ft_nvml_state *st)
{
	return st->reasons == FT_NONE_U64 ? 0 : st->reasons & FAULTS;
}

/* It begins or ends its work, or leaves the states in which it works: its link may follow it. */
static bool load_changed(const struct ft_nvml_state *told, const struct ft_nvml_state *st)
{
	if (is_busy(st) != is_busy(told))
		return st->utilization != FT_NONE_U8;
	return told->pstate <= PSTATE_WORKS && st->pstate > PSTATE_WORKS &&
	       st->pstate != FT_NONE_U8;
}

/*
 * A power cap comes and goes many times a minute on a GPU that does its work: what got worse, and
 * whether it works, is told at once, all else at most once per settle_ns.
 */
static bool clocks_are_news(const struct gpu *g, const struct ft_nvml_state *st, uint64_t now_ns,
			    uint64_t settle_ns)
{
	const struct ft_nvml_state *told = &g->told;

	if (!g->told_ns)
		return st->reasons != FT_NONE_U64 || st->pstate != FT_NONE_U8 ||
		       st->utilization != FT_NONE_U8;
	if (faults(st) & ~faults(told) || load_changed(told, st))
		return true;
	if (st->reasons == told->reasons && st->pstate == told->pstate &&
	    is_busy(st) == is_busy(told) &&
	    (st->utilization == FT_NONE_U8) == (told->utilization == FT_NONE_U8))
		return false;
	return now_ns - g->told_ns >= settle_ns;
}

static void take_errors(const struct ft_emit *emit, const struct gpu *g, struct ft_nvlink *old,
			const struct ft_nvml_state *st, unsigned int link)
{
	const struct ft_nvlink *now = &st->links[link];

	for (unsigned int k = 0; k < FT_NVLINK_ERRORS; k++) {
		uint64_t total = now->errors[k], told = old->errors[k];
		struct link_news news = { link,	 now->active, 0,
					  total, total,	      ft_nvlink_error_name(k) };

		if (total == FT_NONE_U64)
			continue;
		old->errors[k] = total;
		/* What a link counted that was down at the attach may be of before it or not. */
		if (told == FT_NONE_U64)
			news.before = g->counted ? FT_NONE_U8 : 1;
		else if (total >= told) /* else it was set to 0 */
			news.delta = total - told;
		if (news.delta)
			emit_link(emit, st, &news);
	}
}

static void take_links(const struct ft_emit *emit, struct gpu *g, const struct ft_nvml_state *st)
{
	for (int i = 0; i < st->nlinks; i++) {
		struct ft_nvlink *old = &g->links[i];
		const struct ft_nvlink *now = &st->links[i];
		struct link_news news = { i, now->active, 0, FT_NONE_U64, FT_NONE_U64, NULL };

		if (now->active == FT_NONE_U8)
			continue;
		take_errors(emit, g, old, st, i);
		if (old->active != FT_NONE_U8 && old->active != now->active)
			emit_link(emit, st, &news);
		old->active = now->active;
	}
	g->nlinks = st->nlinks;
	g->counted = true;
}

void gpu_init(struct gpu *g)
{
	*g = (struct gpu){ .nlinks = 0 };
	memset(g->links, 0xff, sizeof(g->links));
}

void gpu_take(struct gpu *g, const struct ft_nvml_state *st, size_t nr, uint64_t settle_ns,
	      const struct ft_emit *emit)
{
	uint64_t now_ns = ft_mono_ns();

	if (!g->told_ns)
		g->told = *st;
	if ((st->error && st->error != g->error) || (st->asleep && !g->asleep))
		emit_missing(emit, nr, st);
	g->error = st->error;
	g->asleep = st->asleep;
	if (st->error || st->asleep)
		return;
	if (clocks_are_news(g, st, now_ns, settle_ns)) {
		emit_clocks(emit, st, now_ns);
		g->told = *st;
		g->told_ns = now_ns;
	}
	if (st->nlinks != FT_NONE_S32)
		take_links(emit, g, st);
}

static int links_up(const struct gpu *g)
{
	int n = 0;

	for (int i = 0; i < g->nlinks; i++)
		n += g->links[i].active == 1;
	return n;
}

/*
 * Links that lead nowhere are down on many boards, and no link is up without a bridge; one that has
 * fewer than its equals had a fault before the attach.
 */
void gpus_compare(const struct gpu *v, size_t n, const struct ft_emit *emit)
{
	int most = 0;

	for (size_t i = 0; i < n; i++)
		most = MAX(most, links_up(&v[i]));
	for (size_t i = 0; i < n; i++) {
		int here = links_up(&v[i]);

		for (int k = 0; here && here < most && k < v[i].nlinks; k++) {
			struct link_news news = { k, 0, 1, FT_NONE_U64, FT_NONE_U64, NULL };

			if (!v[i].links[k].active)
				emit_link(emit, &v[i].told, &news);
		}
	}
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Four equal GPUs and a NIC below one PCIe switch; rank i runs on GPU i. */
#ifndef FT_TESTS_DIAG_PCIE_FIXTURE_H
#define FT_TESTS_DIAG_PCIE_FIXTURE_H

#include "diag_fixture.h"

#define ROOT "0000:15:01.0"
#define UP   "0000:16:00.0"
#define NIC  "0000:1c:00.0"
#define MS   NSEC_PER_MSEC
#define T0   (200000ull * SEC) /* of the attach: more than a day after the boot */

static const char *const port[] = { "0000:17:00.0", "0000:17:01.0", "0000:17:02.0", "0000:17:03.0",
				    "0000:17:04.0" };
static const char *const gpu[] = { "0000:18:00.0", "0000:19:00.0", "0000:1a:00.0", "0000:1b:00.0",
				   NIC };

static uint32_t inv_id; /* vendor and device number; 0: the fixture's GPU or NIC */

static __attribute__((unused)) void inv_link(const char *up, const char *down, const char *serves,
					     uint32_t gen, uint32_t width, uint32_t can,
					     uint32_t target)
{
	struct ft_rec r;
	struct ft_ev_inv_pci *e = ft_rec_new(&r, FT_KIND_inv_pci, now);

	e->now__gen = gen;
	e->now__width = width;
	e->possible__gen = can;
	e->possible__width = 16;
	e->target_gen = target;
	e->os_aer = 1;
	e->serves_id = inv_id ? inv_id : strcmp(serves, NIC) ? 0x10de2330 : 0x15b31021;
	ft_rec_str(&r, &e->port, up);
	ft_rec_str(&r, &e->device, down);
	ft_rec_str(&r, &e->serves, serves);
	ft_rec_str(&r, &e->slot, strcmp(serves, gpu[3]) ? "" : "5");
	play(&r);
}

static __attribute__((unused)) void inv_gpus(void)
{
	for (int i = 0; i < 4; i++) {
		struct ft_rec r;
		struct ft_ev_inv_gpu *g = ft_rec_new(&r, FT_KIND_inv_gpu, now);

		g->index = i;
		ft_rec_str(&r, &g->bdf, gpu[i]);
		play(&r);
	}
}

static __attribute__((unused)) void inv_users(uint64_t start_ns)
{
	for (int i = 0; i < 4; i++) {
		struct ft_rec r;
		struct ft_ev_inv_gpu_proc *e;

		rec_proc(&r, now, PID(i), 1, NS(i), i);
		r.h.start_ns = start_ns;
		play(&r);
		e = ft_rec_new(&r, FT_KIND_inv_gpu_proc, now);
		head(&r, PID(i), "trainer");
		ft_rec_str(&r, &e->bdf, gpu[i]);
		play(&r);
	}
}

static __attribute__((unused)) void watch_pcie(void)
{
	static const char *const kinds[] = { "pcie.link",  "pcie.aer",	 "pcie.counter", "gpu.xid",
					     "gpu.clocks", "gpu.nvlink", "proc.exit" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		watch(kinds[i], true);
}

/* The link of one of them (-1: of the switch) as given, all others Gen5 x16. */
static __attribute__((unused)) void node_with(int odd, uint32_t gen, uint32_t width, uint32_t can,
					      uint32_t target)
{
	now = T0;
	watch_pcie();
	inv_gpus();
	for (int i = 0; i < 5; i++) {
		if (odd == -1)
			inv_link(ROOT, UP, gpu[i], gen, width, can, target);
		else
			inv_link(ROOT, UP, gpu[i], 5, 16, 5, 5);
		if (odd == i)
			inv_link(port[i], gpu[i], gpu[i], gen, width, can, target);
		else
			inv_link(port[i], gpu[i], gpu[i], 5, 16, 5, 5);
	}
}

static __attribute__((unused)) void node(void)
{
	node_with(0, 5, 16, 5, 5);
	inv_users(T0 - 100 * SEC);
}

/* --- what is seen --- */

static __attribute__((unused)) struct ft_ev_pcie_link *rec_change(struct ft_rec *r, int i,
								  uint32_t from_gen,
								  uint32_t from_width, uint32_t gen,
								  uint32_t width)
{
	struct ft_ev_pcie_link *e = ft_rec_new(r, FT_KIND_pcie_link, now);

	e->from__gen = from_gen;
	e->from__width = from_width;
	e->to__gen = gen;
	e->to__width = width;
	e->possible__gen = 5;
	e->possible__width = 16;
	e->transitions = 1;
	e->reason = 5;
	e->before = e->exact = e->training = e->lbms = e->labs = 0;
	ft_strcpy(e->port, i < 0 ? ROOT : port[i], sizeof(e->port));
	ft_strcpy(e->device, i < 0 ? UP : gpu[i], sizeof(e->device));
	return e;
}

static __attribute__((unused)) void change(int i, uint32_t from_gen, uint32_t from_width,
					   uint32_t gen, uint32_t width)
{
	struct ft_rec r;

	rec_change(&r, i, from_gen, from_width, gen, width);
	play(&r);
}

static __attribute__((unused)) void clocks(int i, uint8_t pstate, uint8_t utilization,
					   uint64_t reasons)
{
	struct ft_rec r;
	struct ft_ev_gpu_clocks *e = ft_rec_new(&r, FT_KIND_gpu_clocks, now);

	e->index = i;
	e->pstate = pstate;
	e->utilization = utilization;
	e->reasons = reasons;
	e->sm_mhz = 345;
	e->temperature = 91;
	ft_strcpy(e->bdf, gpu[i], sizeof(e->bdf));
	play(&r);
}

static __attribute__((unused)) void aer_at(const char *who, int class, const char *error,
					   uint32_t n, bool before, uint64_t ts)
{
	struct ft_rec r;
	struct ft_ev_pcie_aer *e = ft_rec_new(&r, FT_KIND_pcie_aer, ts);

	r.h.count = n;
	e->aer_class = class;
	e->before = before;
	ft_strcpy(e->device, who, sizeof(e->device));
	ft_rec_strs_add(&r, &e->errors, error);
	play(&r);
}

static __attribute__((unused)) void aer(const char *who, int class, const char *error, uint32_t n)
{
	aer_at(who, class, error, n, false, now);
}

static __attribute__((unused)) void counter(const char *who, int class, const char *error,
					    uint64_t n, bool before)
{
	struct ft_rec r;
	struct ft_ev_pcie_counter *e = ft_rec_new(&r, FT_KIND_pcie_counter, now);

	e->delta = e->total = n;
	e->aer_class = class;
	e->before = before;
	ft_strcpy(e->device, who, sizeof(e->device));
	ft_strcpy(e->error, error, sizeof(e->error));
	play(&r);
}

static __attribute__((unused)) void gone(int i, int how)
{
	struct ft_rec r;
	struct ft_ev_pcie_gone *e = ft_rec_new(&r, FT_KIND_pcie_gone, now);

	e->how_seen = how;
	e->before = 0;
	ft_strcpy(e->port, i < 0 ? ROOT : port[i], sizeof(e->port));
	ft_strcpy(e->device, i < 0 ? UP : gpu[i], sizeof(e->device));
	play(&r);
}

static __attribute__((unused)) void hotplug(int i, int event)
{
	struct ft_rec r;
	struct ft_ev_pcie_hotplug *e = ft_rec_new(&r, FT_KIND_pcie_hotplug, now);

	e->event = event;
	e->before = 0;
	ft_strcpy(e->port, port[i], sizeof(e->port));
	play(&r);
}

static __attribute__((unused)) void xid_at(int i, uint32_t xid, bool before, uint64_t ts)
{
	struct ft_rec r;
	struct ft_ev_gpu_xid *e = ft_rec_new(&r, FT_KIND_gpu_xid, ts);

	e->xid = xid;
	e->before = before;
	ft_strcpy(e->bdf, gpu[i], sizeof(e->bdf));
	ft_rec_str(&r, &e->text, "NVRM: Xid");
	play(&r);
}

static __attribute__((unused)) void log_line(const char *bdf, int what, bool before)
{
	struct ft_rec r;
	struct ft_ev_dev_log *e = ft_rec_new(&r, FT_KIND_dev_log, before ? now - 600 * SEC : now);

	e->what = what;
	e->before = before;
	ft_strcpy(e->bdf, bdf, sizeof(e->bdf));
	ft_rec_str(&r, &e->text, "mlx5_core: a line");
	play(&r);
}

/* --- the verdict --- */

static __attribute__((unused)) void assert_verdict(const char *kind, const char *object,
						   int confidence)
{
	const struct ft_ev_verdict *e = verdict();

	assert_string_equal(V.kind, kind);
	assert_string_equal(V.object, object);
	assert_int_equal(e->confidence, confidence);
}

static __attribute__((unused)) void assert_none(void)
{
	verdict();
	assert_string_equal(V.kind, "");
	assert_int_equal(seen.n, 0);
}

static __attribute__((unused)) bool evidence(const char *text)
{
	return list_has(((const struct ft_ev_verdict *)&V.rec)->evidence, text);
}

static __attribute__((unused)) bool ruled_out(const char *text)
{
	return list_has(((const struct ft_ev_verdict *)&V.rec)->ruled_out, text);
}

static __attribute__((unused)) bool blind(const char *text)
{
	return list_has(((const struct ft_ev_verdict *)&V.rec)->blind, text);
}

static __attribute__((unused)) bool next(const char *text)
{
	return list_has(((const struct ft_ev_verdict *)&V.rec)->next, text);
}

#endif

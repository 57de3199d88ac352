// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "out_fixture.h"

#define T0 (1764475923ull * SEC)

static struct ft_attr gpu_attr(void)
{
	struct ft_attr a = { .nranks = 1, .ngpus = 1, .severity = FT_WARNING };

	a.ranks[0] = (struct ft_attr_rank){ .rank = 11, .nranks = 64, .global_rank = 11 };
	a.gpus[0].index = 3;
	ft_fmt(a.gpus[0].bdf, "0000:41:00.0");
	return a;
}

static void assert_line(struct ft_rec *r, const struct ft_attr *a, const char *expected)
{
	_cleanup_buf_ struct ft_buf b = {};

	assert_int_equal(ft_rec_check(r, r->h.size), 0);
	ft_text_line(&b, &r->h, a);
	assert_string_equal(b.s, expected);
}

static struct ft_ev_pcie_aer *rec_aer(struct ft_rec *r, uint64_t ts, const char *first,
				      const char *second)
{
	struct ft_ev_pcie_aer *e = ft_rec_new(r, FT_KIND_pcie_aer, ts);

	e->aer_class = 2;
	e->before = 0;
	ft_strcpy(e->device, "0000:40:01.0", sizeof(e->device));
	ft_rec_strs_add(r, &e->errors, first);
	if (second)
		ft_rec_strs_add(r, &e->errors, second);
	return e;
}

static void test_aer(void **state)
{
	struct ft_attr a = gpu_attr();
	struct ft_ev_pcie_aer *e;
	struct ft_rec r;

	(void)state;
	e = rec_aer(&r, 1, "RxErr", "BadTLP");
	assert_line(&r, &a, "PCIe  rank 11 GPU 3  0000:40:01.0  RxErr BadTLP");
	r.h.count = 143;
	assert_line(&r, &a, "PCIe  rank 11 GPU 3  0000:40:01.0  RxErr x143 BadTLP x143");
	e->before = 1;
	assert_line(&r, &a,
		    "PCIe  before the attach: rank 11 GPU 3  0000:40:01.0  RxErr x143 BadTLP x143");
	e = rec_aer(&r, 1, "TLP", NULL);
	e->aer_class = 0;
	ft_rec_str(&r, &e->tlp__type, "MRd");
	ft_rec_str(&r, &e->tlp__requester, "0000:41:00.0");
	assert_line(&r, &none, "PCIe  0000:40:01.0  NOT CORRECTED  TLP  MRd of 0000:41:00.0");
	e->advisory = 1;
	assert_line(&r, &none, "PCIe  0000:40:01.0  advisory  TLP  MRd of 0000:41:00.0");
	e->advisory = 0;
	e->aer_class = 1;
	a.ngpus = 0;
	a.nnics = 1;
	ft_fmt(a.nics[0].ibdev, "mlx5_3");
	assert_line(&r, &a, "PCIe  rank 11 mlx5_3  0000:40:01.0  FATAL  TLP  MRd of 0000:41:00.0");
	a.nics[0].ibdev[0] = 0;
	a.nranks = 0;
	assert_line(&r, &a, "PCIe  NIC  0000:40:01.0  FATAL  TLP  MRd of 0000:41:00.0");
}

static void test_uplink(void **state)
{
	struct ft_attr a = gpu_attr();
	struct ft_rec r;

	(void)state;
	rec_aer(&r, 1, "RxErr", NULL);
	a.ngpus = 4;
	a.nnics = 2;
	a.nranks = FT_ATTR_MAX;
	for (int i = 0; i < FT_ATTR_MAX; i++)
		a.ranks[i].global_rank = i;
	a.ranks_all = 24;
	a.truncated = true;
	assert_line(&r, &a, "PCIe  ranks 0-15 (16 of 24) 4 GPUs 2 NICs  0000:40:01.0  RxErr");
}

static struct ft_ev_pcie_link *rec_change(struct ft_rec *r, uint64_t ts, uint32_t gen,
					  uint32_t width)
{
	struct ft_ev_pcie_link *e = ft_rec_new(r, FT_KIND_pcie_link, ts);

	e->from__gen = 5;
	e->from__width = 16;
	e->to__gen = gen;
	e->to__width = width;
	e->before = e->lbms = e->labs = e->training = e->exact = 0;
	e->transitions = 1;
	ft_strcpy(e->port, "0000:40:01.0", sizeof(e->port));
	ft_strcpy(e->device, "0000:41:00.0", sizeof(e->device));
	return e;
}

static void test_link(void **state)
{
	struct ft_attr a = gpu_attr();
	struct ft_ev_pcie_link *e;
	struct ft_rec r;

	(void)state;
	e = rec_change(&r, 1, 3, 8);
	assert_line(&r, &a,
		    "PCIe  rank 11 GPU 3  0000:40:01.0 -> 41:00.0  Gen5 x16 -> Gen3 x8, 63.0 -> "
		    "7.9 GB/s");
	e->lbms = 1;
	e->transitions = 12;
	assert_line(
		&r, &a,
		"PCIe  rank 11 GPU 3  0000:40:01.0 -> 41:00.0  at least 12 changes, now Gen3 x8  LBMS");
	e = rec_change(&r, 1, 1, 0);
	ft_strcpy(e->device, "0001:41:00.0", sizeof(e->device));
	assert_line(&r, &a,
		    "PCIe  rank 11 GPU 3  0000:40:01.0 -> 0001:41:00.0  Gen5 x16 -> no link");
	e = ft_rec_new(&r, FT_KIND_pcie_link, 1); /* nothing is known */
	assert_line(&r, &none, "PCIe    unknown");
}

static void test_presence(void **state)
{
	struct ft_attr a = gpu_attr();
	struct ft_ev_pcie_recovery *c;
	struct ft_ev_pcie_hotplug *h;
	struct ft_ev_pcie_gone *g;
	struct ft_rec r;

	(void)state;
	g = ft_rec_new(&r, FT_KIND_pcie_gone, 1);
	g->how_seen = 0;
	ft_strcpy(g->port, "0000:40:01.0", sizeof(g->port));
	ft_strcpy(g->device, "0000:41:00.0", sizeof(g->device));
	assert_line(&r, &a, "PCIe  rank 11 GPU 3  0000:40:01.0 -> 41:00.0  GONE: all-ones reads");
	g->how_seen = 3;
	assert_line(&r, &a, "PCIe  rank 11 GPU 3  0000:40:01.0 -> 41:00.0  answers again");
	h = ft_rec_new(&r, FT_KIND_pcie_hotplug, 1);
	h->event = 3;
	ft_strcpy(h->port, "0000:40:01.0", sizeof(h->port));
	ft_rec_str(&r, &h->slot, "5");
	assert_line(&r, &a, "PCIe  rank 11 GPU 3  0000:40:01.0  card not present, slot 5");
	c = ft_rec_new(&r, FT_KIND_pcie_recovery, 1);
	c->result = 3;
	ft_strcpy(c->device, "0000:40:01.0", sizeof(c->device));
	assert_line(&r, &a, "PCIe  rank 11 GPU 3  0000:40:01.0  recovery failed");
}

static void test_gpu(void **state)
{
	struct ft_attr a = gpu_attr();
	struct ft_ev_gpu_clocks *c;
	struct ft_ev_gpu_nvlink *n;
	struct ft_ev_dev_log *l;
	struct ft_ev_gpu_xid *x;
	struct ft_rec r;

	(void)state;
	x = ft_rec_new(&r, FT_KIND_gpu_xid, 1);
	x->xid = 31;
	x->before = 1;
	ft_strcpy(x->bdf, "0000:41:00.0", sizeof(x->bdf));
	ft_rec_str(&r, &x->text, "NVRM\033[31m");
	assert_line(&r, &a,
		    "GPU   before the attach: rank 11 GPU 3  0000:41:00.0  Xid 31 (GPU memory page "
		    "fault: application)  NVRM\\x1b[31m");
	c = ft_rec_new(&r, FT_KIND_gpu_clocks, 1);
	c->pstate = 0;
	c->sm_mhz = 345;
	c->temperature = 92;
	c->power_mw = 210000;
	c->power_limit_mw = 700000;
	ft_rec_strs_add(&r, &c->names, "hardware thermal slowdown");
	assert_line(
		&r, &a,
		"GPU   rank 11 GPU 3  P0  345 MHz  hardware thermal slowdown  92 C  210 of 700 W");
	n = ft_rec_new(&r, FT_KIND_gpu_nvlink, 1);
	n->link = 4;
	n->delta = 12;
	n->active = 0;
	ft_rec_str(&r, &n->error, "replay");
	assert_line(&r, &a, "GPU   rank 11 GPU 3  NVLink 4  DOWN  +12 replay");
	l = ft_rec_new(&r, FT_KIND_dev_log, 1);
	ft_strcpy(l->bdf, "0000:41:00.0", sizeof(l->bdf));
	ft_rec_str(&r, &l->text, "a line");
	assert_line(&r, &none, "LOG   0000:41:00.0  a line");
}

static void put(const struct ft_rec *r, const struct ft_attr *a)
{
	assert_int_equal(ft_out_event(O, &r->h, a), 0);
}

/* A storm is a line a second for each thing that is said; a link that goes to and fro one. */
static void test_folds(void **state)
{
	struct ft_attr a = gpu_attr(), bad = gpu_attr();
	struct ft_rec r;

	(void)state;
	bad.severity = FT_ERROR;
	out_open(ft_out_text, 0, false);
	for (int i = 0; i < 100; i++) {
		rec_aer(&r, T0 + i * (SEC / 200), i % 4 ? "RxErr" : "BadTLP", NULL);
		put(&r, &a);
		rec_change(&r, T0 + i * (SEC / 200), i % 2 ? 5 : 1, i == 50 ? 8 : 16);
		put(&r, i == 50 ? &bad : &a);
	}
	assert_int_equal(ft_out_flush(O, T0 + 3 * SEC), 0);
	assert_int_equal(lines_of(written()), 3);
	assert_non_null(strstr(written(),
			       "04:12:03.005 ~ PCIe  rank 11 GPU 3  0000:40:01.0  RxErr x75 "
			       "in 0.5 s\n"));
	assert_non_null(strstr(written(), "BadTLP x25 in 0.5 s\n"));
	assert_non_null(strstr(written(),
			       "! PCIe  rank 11 GPU 3  0000:40:01.0 -> 41:00.0  at least 100 "
			       "changes, now Gen5 x16"));
	out_close();
}

/* An idle GPU's speed, and the log of days, are for those who ask. */
static void test_shown(void **state)
{
	struct ft_attr a = gpu_attr();
	struct ft_rec r;

	(void)state;
	for (int verbose = 0; verbose < 2; verbose++) {
		out_open(ft_out_text, verbose, false);
		a.severity = FT_INFO;
		rec_change(&r, T0, 1, 16);
		put(&r, &a);
		a.severity = FT_WARNING;
		rec_aer(&r, T0, "RxErr", NULL)->before = 1;
		put(&r, &a);
		assert_int_equal(ft_out_flush(O, T0 + 3 * SEC), 0);
		assert_int_equal(lines_of(written()), verbose ? 2 : 0);
		a.severity = FT_ERROR;
		put(&r, &a);
		assert_int_equal(ft_out_flush(O, T0 + 6 * SEC), 0);
		assert_int_equal(lines_of(written()), verbose ? 3 : 1);
		out_close();
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aer),   cmocka_unit_test(test_uplink),
		cmocka_unit_test(test_link),  cmocka_unit_test(test_presence),
		cmocka_unit_test(test_gpu),   cmocka_unit_test(test_folds),
		cmocka_unit_test(test_shown),
	};

	return cmocka_run_group_tests(tests, out_setup, NULL);
}

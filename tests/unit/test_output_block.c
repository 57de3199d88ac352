// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "out_fixture.h"
#include "random_rec.h"

static const struct ft_style plain = { .clock = &out_clock };

static void test_verdict(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_rec r;
	struct ft_ev_verdict *e = ft_rec_new(&r, FT_KIND_verdict, 5);

	(void)state;
	e->since_ns = 1764475923123456789ull;
	e->confidence = 3;
	ft_rec_str(&r, &e->cause__kind, "lossy-link");
	ft_rec_str(&r, &e->cause__object, "eth0 of rank 2 (netns 77)");
	ft_rec_strs_add(&r, &e->hits, "ranks 1, 2 directly");
	ft_rec_strs_add(&r, &e->evidence, "one");
	ft_rec_strs_add(&r, &e->evidence, "two\x1b");
	ft_rec_strs_add(&r, &e->ruled_out, "carrier loss: none");
	ft_rec_strs_add(&r, &e->ruled_out, "dead rank: none");
	ft_rec_strs_add(&r, &e->blind, "NVLink");
	ft_rec_strs_add(&r, &e->next, "drain n17");
	ft_rec_str(&r, &e->cost__value, "5 segments");
	ft_rec_str(&r, &e->cost__basis, "counted");
	ft_text_verdict(&b, &r.h, &none, &plain);
	assert_string_equal(b.s,
			    "VERDICT     eth0 of rank 2 (netns 77)  (lossy-link)  confidence high\n"
			    "  since     04:12:03.123\n"
			    "  hits      ranks 1, 2 directly\n"
			    "  evidence  [1] one\n"
			    "            [2] two\\x1b\n"
			    "  cost      5 segments (counted)\n"
			    "  excluded  carrier loss: none | dead rank: none\n"
			    "  not known NVLink\n"
			    "  do now    drain n17\n");
}

static void test_no_cause(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_style color = { .clock = &out_clock, .color = true };
	struct ft_rec r;
	struct ft_ev_verdict *e = ft_rec_new(&r, FT_KIND_verdict, 5);

	(void)state;
	ft_rec_strs_add(&r, &e->evidence, "4 ranks");
	ft_text_verdict(&b, &r.h, &none, &color);
	assert_string_equal(b.s,
			    "\033[1;32mVERDICT     no cause found\n\033[0m  checked   4 ranks\n");
}

static void test_random(void **state)
{
	(void)state;
	for (int i = 0; i < 500; i++) {
		_cleanup_buf_ struct ft_buf b = {};
		struct ft_rec r;

		rnd_rec(&r, FT_KIND_verdict);
		ft_text_verdict(&b, &r.h, &none, &plain);
		assert_true(lines_of(b.s) >= 1);
	}
}

static void feed(struct ft_attrib *a, struct ft_rec *r)
{
	static struct ft_attr attr;

	ft_attrib_event(a, &r->h, &attr);
}

static void add_rank(struct ft_attrib *a, int rank)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *p = rec_proc(&r, 1, 100 + rank, 1, 77, rank);

	p->env_world = 64;
	ft_rec_str(&r, &p->job, "88123");
	ft_rec_strs_add(&r, &p->gpu_files, "0000:19:00.0");
	feed(a, &r);
	retransmit_rec(&r, 2, 100 + rank, 1);
	feed(a, &r);
}

static void test_job(void **state)
{
	_cleanup_buf_ struct ft_buf b = {}, all = {};
	struct ft_ev_inv_pci *l;
	struct ft_ev_inv_gpu *g;
	struct ft_attrib *a;
	struct ft_rec r;

	(void)state;
	assert_int_equal(ft_attrib_new(&a), 0);
	g = ft_rec_new(&r, FT_KIND_inv_gpu, 1);
	g->index = 0;
	ft_rec_str(&r, &g->bdf, "0000:19:00.0");
	feed(a, &r);
	l = ft_rec_new(&r, FT_KIND_inv_pci, 1);
	l->now__gen = 3;
	l->now__width = 8;
	l->possible__gen = 5;
	l->possible__width = 16;
	ft_rec_str(&r, &l->port, "0000:18:01.0");
	ft_rec_str(&r, &l->device, "0000:19:00.0");
	feed(a, &r);
	add_rank(a, 1);
	add_rank(a, 0);
	ft_text_job(&b, a, &plain, false);
	assert_string_equal(
		b.s,
		"job         Slurm 88123: 2 ranks of 64 here (+0 helpers, 0 other processes)\n"
		"    RANK       PID  GPU               PCIe NOW / POSSIBLE     NIC               NETNS       TASK\n"
		"       0       100  0 0000:19:00.0    Gen3 x8 / Gen5 x16      eth0              77  trainer\n"
		"       1       101  0 0000:19:00.0    Gen3 x8 / Gen5 x16      eth0              77  trainer\n");
	for (int i = 2; i < 20; i++)
		add_rank(a, i);
	ft_buf_reset(&b);
	ft_text_job(&b, a, &plain, false);
	assert_int_equal(lines_of(b.s), 2 + 8 + 1);
	assert_non_null(strstr(b.s, "+ 12 more ranks (-v lists them)"));
	ft_text_job(&all, a, &plain, true);
	assert_int_equal(lines_of(all.s), 2 + 20);
	ft_attrib_free(a);
}

static void count_before(struct ft_attrib *a, const char *device, int class, uint64_t n)
{
	struct ft_rec r;
	struct ft_ev_pcie_counter *e = ft_rec_new(&r, FT_KIND_pcie_counter, 1);

	e->delta = n;
	e->aer_class = class;
	e->before = 1;
	ft_strcpy(e->device, device, sizeof(e->device));
	ft_strcpy(e->error, class == 2 ? "RxErr" : "TLP", sizeof(e->error));
	feed(a, &r);
}

/* What was there before has room in place of the namespace and the name. */
static void test_job_errors(void **state)
{
	static const char *const shown[] = { " 0000:19:00.0    Gen3 x8 / Gen5 x16      eth0  ",
					     " 0000:19:00.0    Gen3 x8 / Gen5 x16      eth0  ",
					     "Gen5 x16      212 corrected       eth0\n",
					     "Gen5 x16      212+1 uncorrected   eth0\n" };
	struct ft_ev_inv_pci *l;
	struct ft_ev_inv_gpu *g;
	struct ft_attrib *a;
	struct ft_rec r;

	(void)state;
	assert_int_equal(ft_attrib_new(&a), 0);
	g = ft_rec_new(&r, FT_KIND_inv_gpu, 1);
	g->index = 0;
	ft_rec_str(&r, &g->bdf, "0000:19:00.0");
	feed(a, &r);
	l = ft_rec_new(&r, FT_KIND_inv_pci, 1);
	l->now__gen = 3;
	l->now__width = 8;
	l->possible__gen = 5;
	l->possible__width = 16;
	ft_rec_str(&r, &l->port, "0000:18:01.0");
	ft_rec_str(&r, &l->device, "0000:19:00.0");
	ft_rec_str(&r, &l->serves, "0000:19:00.0");
	feed(a, &r);
	add_rank(a, 0);
	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		_cleanup_buf_ struct ft_buf b = {};

		if (i)
			count_before(a, "0000:18:01.0", i == 3 ? 0 : 2,
				     i == 1   ? 0
				     : i == 2 ? 212
					      : 1);
		ft_text_job(&b, a, &plain, false);
		assert_non_null(strstr(b.s, shown[i]));
		assert_int_equal(strstr(b.s, "ERRORS BEFORE") != NULL, i >= 2);
		assert_int_equal(strstr(b.s, "NETNS") != NULL, i < 2);
	}
	ft_attrib_free(a);
}

/* Open files name the GPUs it may use, NVML those that it does use. */
static void test_job_gpus(void **state)
{
	static const char *const bdfs[] = { "0000:19:00.0", "0000:1a:00.0" };
	_cleanup_buf_ struct ft_buf b = {}, used = {};
	struct ft_attrib *a;
	struct ft_rec r;
	struct ft_ev_inv_proc *p = rec_proc(&r, 1, 100, 1, 77, 0);

	(void)state;
	assert_int_equal(ft_attrib_new(&a), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bdfs); i++)
		ft_rec_strs_add(&r, &p->gpu_files, bdfs[i]);
	feed(a, &r);
	ft_text_job(&b, a, &plain, false);
	assert_non_null(strstr(b.s, "one of 2"));
	for (size_t i = 0; i < ARRAY_SIZE(bdfs); i++) {
		struct ft_ev_inv_gpu_proc *g = ft_rec_new(&r, FT_KIND_inv_gpu_proc, 2);

		head(&r, 100, "trainer");
		ft_rec_str(&r, &g->bdf, bdfs[i]);
		feed(a, &r);
	}
	ft_text_job(&used, a, &plain, false);
	assert_non_null(strstr(used.s, "2 GPUs"));
	ft_attrib_free(a);
}

static void test_job_unknown(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_attrib *a;
	struct ft_rec r;

	(void)state;
	assert_int_equal(ft_attrib_new(&a), 0);
	rec_proc(&r, 1, 100, 1, 77, -1);
	feed(a, &r);
	ft_text_job(&b, a, &plain, false);
	assert_non_null(
		strstr(b.s, "0 ranks here (+0 helpers, 1 other process); no rank is known"));
	ft_attrib_free(a);
}

/* Without a process there is no job that could lack ranks. */
static void test_job_none(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_attrib *a;

	(void)state;
	assert_int_equal(ft_attrib_new(&a), 0);
	ft_text_job(&b, a, &plain, false);
	assert_string_equal(b.s, "job         no process is traced now\n");
	ft_attrib_free(a);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdict),	    cmocka_unit_test(test_no_cause),
		cmocka_unit_test(test_random),	    cmocka_unit_test(test_job),
		cmocka_unit_test(test_job_errors),  cmocka_unit_test(test_job_gpus),
		cmocka_unit_test(test_job_unknown), cmocka_unit_test(test_job_none),
	};

	return cmocka_run_group_tests(tests, out_setup, NULL);
}

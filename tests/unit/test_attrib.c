// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "attrib_fixture.h"
#include "random_rec.h"

static void test_how_of_record_stays(void **state)
{
	struct ft_rec r;

	(void)state;
	rec_proc(&r, 1, 10, 1, 7, 0);
	r.h.how = FT_HOW(iterator);
	feed(&r);
	assert_true(got.how & FT_HOW(iterator));
}

static void test_severity_default(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++) {
		struct ft_rec r;

		if (!ft_kind(kind) || kind == FT_KIND_proc_exit || kind == FT_KIND_gpu_clocks ||
		    kind == FT_KIND_nccl_comm || kind == FT_KIND_net_link ||
		    kind == FT_KIND_incident || kind == FT_KIND_verdict)
			continue;
		ft_rec_new(&r, kind, 1);
		feed(&r);
		assert_int_equal(got.severity, ft_kind(kind)->severity);
	}
}

static void test_severity_exit(void **state)
{
	(void)state;
	feed_proc(10, 7, 0);
	feed_proc(11, 7, 1);
	feed_proc(12, 7, -1);
	feed_exit(10, 0, 0);
	assert_int_equal(got.severity, FT_INFO);
	feed_exit(11, 3, 0);
	assert_int_equal(got.severity, FT_ERROR);
	feed_exit(12, 3, 0);
	assert_int_equal(got.severity, FT_WARNING); /* a rank by its NCCL library only */
	feed_proc(13, 7, -1);
	feed_exit(13, 0, 0);
	assert_int_equal(got.severity, FT_INFO);
}

/* The record of the end was lost, and only that it has ended is told later: neither good nor bad. */
static void test_exit_unknown(void **state)
{
	struct ft_rec r;

	(void)state;
	feed_proc(10, 7, 0);
	ft_rec_new(&r, FT_KIND_proc_exit, 5);
	head(&r, 10, "trainer");
	feed(&r);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.severity, FT_INFO);
	ft_rec_new(&r, FT_KIND_net_tx_timeout, 6);
	((struct ft_ev_net_tx_timeout *)&r)->netns = 7;
	feed(&r);
	assert_int_equal(got.nranks, 0);
}

static void test_shared_by_record(void **state)
{
	struct ft_rec r;

	(void)state;
	rec_proc(&r, 1, 10, 1, 7, 0);
	r.h.flags = FT_REC_SHARED;
	feed(&r);
	assert_true(got.shared);
}

/* Whatever comes: bounded, and no rank without a source. */
static void test_random(void **state)
{
	(void)state;
	for (int i = 0; i < 30000; i++) {
		unsigned int kind = rnd() % FT_KIND_MAX;
		struct ft_rec r;

		if (!ft_kind(kind))
			continue;
		rnd_rec(&r, kind);
		r.h.pid %= 50;
		r.h.how &= ~FT_ATTRIB_HOW;
		feed(&r);
		assert_true(got.nranks <= FT_ATTR_MAX && got.ngpus <= FT_ATTR_MAX &&
			    got.nnics <= FT_ATTR_MAX);
		assert_true(!got.nranks || got.how & (FT_HOW(env) | FT_HOW(comm_init)));
		assert_true(got.severity <= FT_FATAL);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_how_of_record_stays), T(test_severity_default), T(test_severity_exit),
		T(test_exit_unknown),	     T(test_shared_by_record), T(test_random),
	};

	ft_attrib_free(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

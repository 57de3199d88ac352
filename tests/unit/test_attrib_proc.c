// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "attrib_fixture.h"

#define TICK (10 * NSEC_PER_MSEC)

static void feed_proc_at(uint32_t pid, uint64_t start_ns, int rank)
{
	struct ft_rec r;

	rec_proc(&r, 1, pid, 1, 7, rank);
	r.h.start_ns = start_ns;
	feed(&r);
}

/* /proc counts in ticks, BPF in ns: the same process. */
static void test_start_times(void **state)
{
	(void)state;
	feed_proc_at(10, 100 * TICK, 1);
	feed_retransmit(10, 100 * TICK + 9999999);
	assert_int_equal(got.nranks, 1);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 1);
}

static void test_pid_reused(void **state)
{
	(void)state;
	feed_proc_at(10, 100 * TICK, 1);
	feed_proc_at(10, 500 * TICK, -1);
	feed_retransmit(10, 500 * TICK + 1);
	assert_int_equal(got.nranks, 0);
	/* a late event of the process before */
	feed_retransmit(10, 100 * TICK);
	assert_int_equal(got.nranks, 1);
	/* and one that is older than both is nobody's */
	feed_retransmit(10, 5 * TICK);
	assert_int_equal(got.nranks, 0);
}

/* Without start times a fork tells that the pid is in new hands. */
static void test_fork_after_exit(void **state)
{
	(void)state;
	feed_proc(10, 7, 3);
	feed_exit(10, 0, 0);
	feed_start(10, 1, false);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 0);
}

static void test_helper(void **state)
{
	(void)state;
	feed_proc(10, 7, 3);
	feed_start(20, 10, false);
	feed_retransmit(20, 0);
	assert_int_equal(got.nranks, 0);
	feed_start(21, 20, false); /* a helper's child */
	feed_exit(21, 0, 9);
	assert_int_equal(got.nranks, 0);
	assert_int_equal(got.severity, FT_INFO);
	feed_exit(10, 0, 9);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.severity, FT_ERROR);
}

/* A socket that a helper inherited may carry the rank's traffic. */
static void test_helper_shared_socket(void **state)
{
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *e = ft_rec_new(&r, FT_KIND_tcp_retransmit, 3);

	(void)state;
	feed_proc(10, 7, 3);
	feed_start(20, 10, false);
	head(&r, 20, "trainer");
	r.h.flags = FT_REC_SHARED;
	r.h.how = FT_HOW(inherited);
	e->segs = 1;
	feed(&r);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.ranks[0].global_rank, 3);
	assert_true(got.shared);
	assert_true(got.how & FT_HOW(inherited));
}

/* One that makes a communicator itself is a rank. */
static void test_helper_becomes_rank(void **state)
{
	(void)state;
	feed_proc(10, 7, 3);
	feed_start(20, 10, false);
	feed_comm(20, 13, 0x1000, 1, 2, -1);
	feed_retransmit(20, 0);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.ranks[0].rank, 1);
}

static void test_helper_by_inventory(void **state)
{
	struct ft_rec r;

	(void)state;
	feed_proc(10, 7, 3);
	rec_proc(&r, 1, 20, 10, 7, 3)->helper = 1;
	feed(&r);
	feed_retransmit(20, 0);
	assert_int_equal(got.nranks, 0);
}

/* A launcher forks and the child executes the trainer. */
static void test_exec_is_no_helper(void **state)
{
	(void)state;
	feed_proc(10, 7, 3);
	feed_start(20, 10, false);
	feed_start(20, 10, true);
	feed_retransmit(20, 0);
	assert_int_equal(got.nranks, 0); /* its environment is not read yet */
	feed_proc(20, 7, 1);
	feed_retransmit(20, 0);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.ranks[0].global_rank, 1);
}

/* A worker pool that comes and goes for ever does not fill the memory. */
static void test_many_forks(void **state)
{
	(void)state;
	feed_proc(10, 7, 3);
	for (uint32_t i = 0; i < 100000; i++) {
		feed_start(1000 + i, 10, false);
		feed_exit(1000 + i, 0, 0);
	}
	assert_int_equal(ft_attrib_unfit(A), 0);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 1);
}

static void test_bound(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 65536 + 10; i++)
		feed_start(1 + i, 0, true);
	assert_int_equal(ft_attrib_unfit(A), 10);
}

static void count(void *ctx, const struct ft_attrib_proc *p)
{
	int *n = ctx;

	n[0]++;
	n[1] += p->helper;
	n[2] += p->alive;
	if (p->pid != 10)
		return;
	assert_string_equal(p->task, "trainer");
	assert_string_equal(p->container, "abc");
	assert_string_equal(p->job, "88123");
	assert_int_equal(p->env_rank, 3);
	assert_int_equal(p->attr->nranks, 1);
	assert_int_equal(p->attr->nnics, 1);
	assert_string_equal(p->attr->nics[0].netdev, "eth0");
}

static void test_each(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *e = rec_proc(&r, 1, 10, 1, 7, 3);
	int n[3] = {};

	(void)state;
	ft_rec_str(&r, &e->container, "abc");
	ft_rec_str(&r, &e->job, "88123");
	feed(&r);
	assert_string_equal(got.container, "abc");
	feed_start(20, 10, false);
	feed_exit(20, 0, 0);
	feed_retransmit(10, 0);
	assert_string_equal(got.container, "abc");
	ft_attrib_each(A, count, n);
	assert_int_equal(n[0], 2);
	assert_int_equal(n[1], 1);
	assert_int_equal(n[2], 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_start_times),
		T(test_pid_reused),
		T(test_fork_after_exit),
		T(test_helper),
		T(test_helper_shared_socket),
		T(test_helper_becomes_rank),
		T(test_helper_by_inventory),
		T(test_exec_is_no_helper),
		T(test_many_forks),
		T(test_bound),
		T(test_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "attrib_fixture.h"

static void assert_rank(int i, int rank, int nranks, int global)
{
	assert_true(i < got.nranks);
	assert_int_equal(got.ranks[i].rank, rank);
	assert_int_equal(got.ranks[i].nranks, nranks);
	assert_int_equal(got.ranks[i].global_rank, global);
}

static void test_unknown_is_not_zero(void **state)
{
	(void)state;
	feed_proc(10, 7, -1);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 0);
	assert_false(got.shared);
	assert_int_equal(got.how & (FT_HOW(env) | FT_HOW(comm_init)), 0);
}

static void test_env(void **state)
{
	(void)state;
	feed_proc(10, 7, 2);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 1);
	assert_rank(0, -1, -1, 2);
	assert_true(got.how & FT_HOW(env));
	assert_false(got.how & FT_HOW(comm_init));
}

static void test_init(void **state)
{
	(void)state;
	feed_proc(10, 7, -1);
	feed_comm(10, 13, 0x1000, 3, 8, -1);
	feed_retransmit(10, 0);
	assert_rank(0, 3, 8, -1); /* how large the job is, nobody said */
	assert_true(got.ranks[0].comm == 0x77);
	assert_true(got.how & FT_HOW(comm_init));
	assert_false(got.how & FT_HOW(env));
}

/* The global rank and the rank in the communicator are two things. */
static void test_both(void **state)
{
	(void)state;
	feed_proc(10, 7, 2);
	feed_comm(10, 13, 0x1000, 1, 2, -1);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 1);
	assert_rank(0, 1, 2, 2);
	assert_int_equal(got.how & (FT_HOW(env) | FT_HOW(comm_init)),
			 FT_HOW(env) | FT_HOW(comm_init));
}

static void test_world_by_size(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *e = rec_proc(&r, 1, 10, 1, 7, -1);

	(void)state;
	e->env_world = 4;
	feed(&r);
	feed_comm(10, 13, 0x1000, 3, 4, -1);
	feed_retransmit(10, 0);
	assert_rank(0, 3, 4, 3);
}

static void test_failed_init(void **state)
{
	struct ft_rec r;
	struct ft_ev_nccl_comm *e = rec_comm(&r, 2, 10, 13, 0x1000, 1, 4);

	(void)state;
	e->result = 1;
	feed(&r);
	assert_int_equal(got.severity, FT_ERROR);
	assert_int_equal(got.nranks, 0);
	e->result = 7;
	feed(&r);
	assert_int_equal(got.severity, FT_INFO);
	assert_int_equal(got.nranks, 1);
}

/* A rank per thread: what cannot be told apart lists all. */
static void test_threads(void **state)
{
	(void)state;
	feed_proc(10, 7, 1); /* RANK is the process's, not a rank's */
	for (int i = 0; i < 4; i++)
		feed_comm(10, 13, 0x1000 + i, i, 4, i);
	assert_int_equal(got.nranks, 1); /* the event itself names the communicator */
	assert_rank(0, 3, 4, -1);
	assert_false(got.shared);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 4);
	assert_true(got.shared);
	for (int i = 0; i < 4; i++)
		assert_rank(i, i, 4, -1);
	assert_false(got.how & FT_HOW(env));
}

static void test_threads_without_device(void **state)
{
	(void)state;
	feed_comm(10, 13, 0x1000, 0, 2, -1);
	feed_comm(10, 13, 0x2000, 1, 2, -1);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 2);
	assert_true(got.shared);
}

static void test_many_threads(void **state)
{
	(void)state;
	for (int i = 0; i < FT_ATTR_MAX + 4; i++)
		feed_comm(10, 13, 0x1000 + i, i, 64, i);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, FT_ATTR_MAX);
	assert_true(got.truncated);
	assert_true(got.shared);
}

static void feed_split(uint64_t parent, uint64_t ptr, int rank, int nranks)
{
	struct ft_rec r;
	struct ft_ev_nccl_comm *e = rec_comm(&r, 2, 10, 17, ptr, rank, nranks);

	e->parent = parent;
	feed(&r);
}

/* Tensor and data parallel groups of one rank: still one rank. */
static void test_splits(void **state)
{
	(void)state;
	feed_comm(10, 13, 0x1000, 5, 8, 0);
	feed_split(0x1000, 0x2000, 1, 2);
	feed_split(0x1000, 0x3000, 0, 2);
	assert_rank(0, 0, 2, -1);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 1);
	assert_rank(0, 5, 8, -1);
	assert_false(got.shared);
}

/* The parent was made before the attach. */
static void test_splits_of_unknown(void **state)
{
	(void)state;
	feed_split(0x1000, 0x2000, 1, 2);
	feed_split(0x1000, 0x3000, 0, 2);
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 1);
	assert_false(got.shared);
}

/* Addresses are given out again; a destroyed communicator still says who the process was. */
static void test_destroy_and_reuse(void **state)
{
	(void)state;
	feed_comm(10, 13, 0x1000, 1, 4, 0);
	feed_comm(10, 21, 0x1000, 0, 0, -1);
	assert_rank(0, 1, 4, -1);
	feed_exit(10, 1, 0);
	assert_rank(0, 1, 4, -1);
	feed_comm(11, 13, 0x1000, 2, 4, 0);
	feed_comm(11, 22, 0x1000, 0, 0, -1);
	feed_comm(11, 13, 0x1000, 0, 2, 0);
	feed_retransmit(11, 0);
	assert_int_equal(got.nranks, 1);
	assert_rank(0, 0, 2, -1);
}

static void test_comm_bound(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++) {
		feed_comm(10, 13, 0x1000 + i, 1, 4, 0);
		feed_comm(10, 21, 0x1000 + i, 0, 0, -1);
	}
	feed_retransmit(10, 0);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(ft_attrib_unfit(A), 0);
	for (int i = 0; i < 300; i++)
		feed_comm(12, 13, 0x1000 + i, 1, 4, 0);
	assert_int_equal(ft_attrib_unfit(A), 300 - 256);
}

/* RANK is inherited by shells and wrappers: the process with NCCL is the rank. */
static void test_wrapper(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *e = rec_proc(&r, 1, 9, 1, 7, 2);

	(void)state;
	e->nccl = 0;
	feed(&r);
	feed_exit(9, 1, 0);
	assert_int_equal(got.nranks, 1); /* nobody else claims it */
	feed_proc(10, 7, 2);
	rec_proc(&r, 1, 11, 1, 7, 2)->nccl = 0;
	feed(&r);
	assert_int_equal(got.nranks, 0);
	feed_exit(11, 1, 0);
	assert_int_equal(got.nranks, 0);
	assert_int_equal(got.severity, FT_INFO);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_unknown_is_not_zero),
		T(test_env),
		T(test_init),
		T(test_both),
		T(test_world_by_size),
		T(test_failed_init),
		T(test_threads),
		T(test_threads_without_device),
		T(test_many_threads),
		T(test_splits),
		T(test_splits_of_unknown),
		T(test_destroy_and_reuse),
		T(test_comm_bound),
		T(test_wrapper),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

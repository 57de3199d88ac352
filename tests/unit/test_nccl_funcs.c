// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "event/event.h"
#include "nccl_lib.h"

/* The table's numbers and names are those of the schema: one list, in two places. */
static void test_names(void **state)
{
	(void)state;
	for (unsigned int i = 1; i < FT_NCCL_NFNS; i++) {
		const struct ft_nccl_func *f = &ft_nccl_funcs[i];
		const char *op = ft_value_name(&ft_format_nccl_op, f->op);

		assert_non_null(f->name);
		assert_in_range(f->cls, FT_NCCL_CALL, FT_NCCL_END);
		assert_non_null(op);
		if (i == FT_NCCL_Bcast)
			assert_string_equal(op, "Broadcast");
		else
			assert_string_equal(op, f->name);
		if (f->cls == FT_NCCL_CALL)
			assert_in_range(f->op, 1, FT_NCCL_OPS);
	}
	assert_null(ft_nccl_funcs[0].name);
}

/* Positions by the x86-64 and arm64 calling conventions, from the prototypes of nccl.h. */
static void test_positions(void **state)
{
	static const struct ft_nccl_fn fns[] = {
#define FN(nr, name, opnr, class, ...) [nr] = { .op = opnr, .cls = FT_NCCL_##class, ##__VA_ARGS__ },
		FT_NCCL_FNS
#undef FN
	};

	(void)state;
	/* (sendbuff, recvbuff, count, datatype, op, root, comm, stream) */
	assert_int_equal(fns[FT_NCCL_Reduce].peer, FT_ARG(5));
	assert_int_equal(fns[FT_NCCL_Reduce].comm, FT_ARG(6));
	assert_int_equal(fns[FT_NCCL_Reduce].stream, FT_ARG(7));
	/* (buff, count, datatype, peer, comm, stream) */
	assert_int_equal(fns[FT_NCCL_Send].peer, FT_ARG(3));
	assert_int_equal(fns[FT_NCCL_Send].comm, FT_ARG(4));
	/* (comm*, nranks, ncclUniqueId, rank): rank is edx or w3 */
#if defined(__x86_64__)
	assert_int_equal(fns[FT_NCCL_CommInitRank].rank, FT_ARG(2));
#else
	assert_int_equal(fns[FT_NCCL_CommInitRank].rank, FT_ARG(3));
	assert_int_equal(fns[FT_NCCL_CommInitRank].id, FT_ARG(2));
#endif
	for (unsigned int i = 1; i < FT_NCCL_NFNS; i++) {
		assert_int_equal(!!fns[i].newcomm, fns[i].cls == FT_NCCL_INIT);
		if (fns[i].cls == FT_NCCL_CALL)
			assert_true(fns[i].comm && fns[i].count && fns[i].dtype && fns[i].stream);
	}
}

static void test_quantile(void **state)
{
	uint32_t slots[FT_NCCL_SLOTS] = {};

	(void)state;
	assert_true(ft_nccl_quantile(slots, 0.5) == UINT64_MAX);
	/* 2^20 ns, its first eighth: 1048576 to 1179648 */
	slots[(20 - FT_NCCL_LOG_MIN) * FT_NCCL_SUB] = 100;
	assert_in_range(ft_nccl_quantile(slots, 0.5), 1 << 20, (1 << 20) + (1 << 17));
	slots[(30 - FT_NCCL_LOG_MIN) * FT_NCCL_SUB + 7] = 100;
	assert_in_range(ft_nccl_quantile(slots, 0.25), 1 << 20, (1 << 20) + (1 << 17));
	assert_in_range(ft_nccl_quantile(slots, 0.99), (1ull << 31) - (1 << 27), 1ull << 31);
	slots[FT_NCCL_SLOTS - 1] = 1000000;
	assert_in_range(ft_nccl_quantile(slots, 1.0), 1ull << 36, 1ull << FT_NCCL_LOG_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_positions),
		cmocka_unit_test(test_quantile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

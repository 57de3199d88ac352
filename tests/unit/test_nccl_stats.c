// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The reader of the kernel's counters, on real maps that the test fills. */
#include <bpf/bpf.h>

#include "event/event.h"
#include "nccl_lib.h"
#include "source/nccl_stats.h"

struct fixture {
	int stats_fd, other_fd, n;
	struct ft_emit emit;
	struct ft_nccl_stats *stats;
	struct ft_rec recs[8];
};

static void keep(void *ctx, const void *rec, size_t len)
{
	struct fixture *f = ctx;

	assert_int_equal(ft_rec_check(rec, len), 0);
	assert_true(f->n < (int)ARRAY_SIZE(f->recs));
	memcpy(&f->recs[f->n++], rec, len);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	f->stats_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "nccl_stats", sizeof(struct ft_nccl_key),
				     sizeof(struct ft_nccl_stat), 16, NULL);
	f->other_fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "nccl_other", 4,
				     sizeof(struct ft_nccl_stat), FT_NCCL_OPS + 1, NULL);
	f->emit = (struct ft_emit){ keep, f };
	return ft_nccl_stats_new(&f->stats, f->stats_fd, f->other_fd, &f->emit);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ft_nccl_stats_free(f->stats);
	close(f->stats_fd);
	close(f->other_fd);
	free(f);
	return 0;
}

static bool no_maps(const struct fixture *f)
{
	if (f->stats_fd >= 0 && f->other_fd >= 0)
		return false;
	print_message("no BPF maps to be had here: skipped\n");
	return true;
}

static const struct ft_nccl_key key = { .start_ns = 5, .comm = 0x7000, .tgid = 42, .op = 1 };

static const struct ft_ev_nccl_stats *line(struct fixture *f, int nr)
{
	assert_true(nr < f->n);
	assert_int_equal(f->recs[nr].h.kind, FT_KIND_nccl_stats);
	return (const void *)&f->recs[nr];
}

static void put(struct fixture *f, const struct ft_nccl_stat *st)
{
	f->n = 0;
	assert_int_equal(bpf_map_update_elem(f->stats_fd, &key, st, BPF_ANY), 0);
	ft_nccl_stats_read(f->stats, 1000, NULL, NULL);
}

static void test_moved(void **state)
{
	struct ft_nccl_stat st = { .calls = 10, .bytes = 4000, .last_entry_ns = 900 };
	struct fixture *f = *state;

	if (no_maps(f))
		skip();
	st.period[80] = 9;
	put(f, &st);
	assert_int_equal(f->n, 1);
	assert_true(line(f, 0)->calls == 10 && line(f, 0)->bytes == 4000);
	assert_true(line(f, 0)->h.pid == 42 && line(f, 0)->h.start_ns == 5);
	assert_true(line(f, 0)->comm_ptr == 0x7000 && line(f, 0)->op == 1);
	assert_true(line(f, 0)->enqueue_ns__p50 == FT_NONE_U64);
	assert_in_range(line(f, 0)->period_ns__p50, 1 << 20, (1 << 20) + (1 << 17));
	/* nothing moved: no line */
	put(f, &st);
	assert_int_equal(f->n, 0);
	/* only what is new; a size that is not known makes the sum unknown */
	st.calls = 13;
	st.flags = FT_NCCL_BYTES_UNKNOWN;
	put(f, &st);
	assert_true(line(f, 0)->calls == 3 && line(f, 0)->calls_total == 13);
	assert_true(line(f, 0)->bytes == FT_NONE_U64);
	assert_true(line(f, 0)->period_ns__p50 == FT_NONE_U64);
}

/* The address goes to a new communicator between two reads: two lines, nothing lost or mixed. */
static void test_reused(void **state)
{
	struct ft_nccl_stat st = { .calls = 10, .bytes = 100, .last_entry_ns = 500 };
	struct fixture *f = *state;

	if (no_maps(f))
		skip();
	put(f, &st);
	st = (struct ft_nccl_stat){ .calls = 19,
				    .bytes = 190,
				    .last_entry_ns = 800,
				    .inits = 1,
				    .init_calls = 15,
				    .init_bytes = 150,
				    .init_ns = 700 };
	put(f, &st);
	assert_int_equal(f->n, 2);
	assert_true(line(f, 0)->calls == 5 && line(f, 0)->calls_total == 15);
	assert_true(line(f, 0)->bytes == 50 && line(f, 0)->h.ts_ns == 700);
	assert_true(line(f, 1)->calls == 4 && line(f, 1)->calls_total == 4);
	assert_true(line(f, 1)->bytes == 40);
	st.calls = 20;
	st.bytes = 200;
	put(f, &st);
	assert_true(line(f, 0)->calls == 1 && line(f, 0)->calls_total == 5);
	assert_true(line(f, 0)->bytes == 10);
}

static void test_forgets(void **state)
{
	struct ft_nccl_stat st = { .calls = 1, .last_entry_ns = 900, .flags = FT_NCCL_ENDED };
	struct fixture *f = *state;
	struct ft_nccl_key next;

	if (no_maps(f))
		skip();
	/* destroyed, but too recently */
	put(f, &st);
	assert_int_equal(bpf_map_get_next_key(f->stats_fd, NULL, &next), 0);
	ft_nccl_stats_read(f->stats, 60 * NSEC_PER_SEC, NULL, NULL);
	assert_int_equal(bpf_map_get_next_key(f->stats_fd, NULL, &next), -ENOENT);
	/* a process that ended */
	st.flags = 0;
	put(f, &st);
	ft_nccl_stats_drop(f->stats, 43);
	assert_int_equal(bpf_map_get_next_key(f->stats_fd, NULL, &next), 0);
	ft_nccl_stats_drop(f->stats, 42);
	assert_int_equal(bpf_map_get_next_key(f->stats_fd, NULL, &next), -ENOENT);
}

static void test_other(void **state)
{
	struct ft_nccl_stat st = { .calls = 7, .bytes = 70 };
	struct fixture *f = *state;
	uint32_t op = 9;

	if (no_maps(f))
		skip();
	assert_int_equal(bpf_map_update_elem(f->other_fd, &op, &st, BPF_ANY), 0);
	ft_nccl_stats_read(f->stats, 1000, NULL, NULL);
	ft_nccl_stats_read(f->stats, 2000, NULL, NULL);
	assert_int_equal(f->n, 1);
	assert_true(line(f, 0)->calls == 7 && line(f, 0)->op == 9 && !line(f, 0)->h.pid);
	assert_true(line(f, 0)->comm_ptr == FT_NONE_U64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_moved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_forgets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

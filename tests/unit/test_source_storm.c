// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The reader of what the kernel counted instead of sending, on real maps that the test fills. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "source/loader.h"
#include "source/storm.h"

struct fixture {
	int agg_fd, counts_fd;
	size_t n;
	struct ft_emit emit;
	struct ft_storm *storm;
	struct ft_rec recs[16];
};

static void keep(void *ctx, const void *rec, size_t len)
{
	struct fixture *f = ctx;

	assert_int_equal(ft_rec_check(rec, len), 0);
	assert_true(f->n < ARRAY_SIZE(f->recs));
	memcpy(&f->recs[f->n++], rec, len);
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	f->agg_fd = bpf_map_create(BPF_MAP_TYPE_HASH, "agg", sizeof(struct ft_agg_key),
				   sizeof(struct ft_agg), 512, NULL);
	f->counts_fd = bpf_map_create(BPF_MAP_TYPE_PERCPU_ARRAY, "counts", 4,
				      sizeof(struct ft_counts), FT_KIND_MAX, NULL);
	f->emit = (struct ft_emit){ keep, f };
	if (f->agg_fd < 0 || f->counts_fd < 0)
		return 0;
	return ft_storm_new(&f->storm, f->agg_fd, f->counts_fd);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ft_storm_free(f->storm);
	close(f->agg_fd);
	close(f->counts_fd);
	free(f);
	return 0;
}

static struct fixture *need_maps(void **state)
{
	struct fixture *f = *state;

	if (!f->storm) {
		print_message("no BPF maps to be had here\n");
		skip();
	}
	return f;
}

static struct ft_agg_key key_of(uint64_t a)
{
	return (struct ft_agg_key){ .a = a, .pid = 42, .kind = FT_KIND_tcp_retransmit };
}

/* What the kernel has counted by now, all from the start. */
static struct ft_agg retransmits(uint64_t count, uint64_t segs, uint64_t bytes)
{
	struct ft_agg a = { .count = count, .sums = { segs, bytes }, .first_ns = 100 };
	struct ft_ev_tcp_retransmit *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_tcp_retransmit, 50);
	e->h.pid = 42;
	e->segs = 1;
	e->bytes = 1448;
	e->dport = 29500;
	e->cwnd_segs = 10;
	e->srtt_us = 77;
	memcpy(&a.rec, e, sizeof(*e));
	a.last_ns = 100 * count;
	return a;
}

static const struct ft_ev_tcp_retransmit *read_one(struct fixture *f, const struct ft_agg_key *key,
						   const struct ft_agg *a)
{
	f->n = 0;
	assert_int_equal(bpf_map_update_elem(f->agg_fd, key, a, BPF_ANY), 0);
	ft_storm_read(f->storm, &f->emit);
	return f->n ? (const void *)&f->recs[0] : NULL;
}

static void test_differences(void **state)
{
	struct fixture *f = need_maps(state);
	struct ft_agg a = retransmits(10, 12, 5000);
	struct ft_agg_key key = key_of(1);
	const struct ft_ev_tcp_retransmit *e = read_one(f, &key, &a);

	assert_int_equal(f->n, 1);
	assert_int_equal(e->h.kind, FT_KIND_tcp_retransmit);
	assert_true(e->h.flags & FT_REC_AGG);
	assert_int_equal(e->h.count, 10);
	assert_true(e->segs == 12 && e->bytes == 5000);
	assert_true(e->h.first_ns == 100 && e->h.last_ns == 1000);
	/* what the key fixes is known, what differs by event is not */
	assert_true(e->h.pid == 42 && e->dport == 29500);
	assert_true(e->cwnd_segs == FT_NONE_U32 && e->srtt_us == FT_NONE_U32);
	/* nothing new: no line */
	assert_null(read_one(f, &key, &a));
	a = retransmits(13, 16, 5900);
	e = read_one(f, &key, &a);
	assert_int_equal(e->h.count, 3);
	assert_true(e->segs == 4 && e->bytes == 900);
	/* since what was told last, not since the first of all */
	assert_true(e->h.first_ns == 1000 && e->h.last_ns == 1300);
}

/* More keys than one read of the map takes: each once, nothing lost. */
static void test_batches(void **state)
{
	struct fixture *f = need_maps(state);
	uint64_t counted = 0, told = 0;

	for (uint64_t i = 0; i < 400; i++) {
		struct ft_agg a = retransmits(i % 40 ? 0 : i + 1, 0, 0);
		struct ft_agg_key key = key_of(i);

		counted += a.count;
		assert_int_equal(bpf_map_update_elem(f->agg_fd, &key, &a, BPF_ANY), 0);
	}
	ft_storm_read(f->storm, &f->emit);
	assert_int_equal(f->n, 10);
	for (size_t i = 0; i < f->n; i++)
		told += f->recs[i].h.count;
	assert_true(told == counted);
}

/* Counts of keys that found no room have a key of their kind alone: the record names nobody. */
static void test_other_key(void **state)
{
	struct fixture *f = need_maps(state);
	struct ft_agg_key key = { .kind = FT_KIND_net_drop };
	const struct ft_ev_net_drop *e;
	struct ft_agg a;

	assert_int_equal(bpf_map_lookup_elem(f->agg_fd, &key, &a), 0);
	a.count = 7;
	a.sums[0] = 7000;
	a.last_ns = 9;
	f->n = 0;
	assert_int_equal(bpf_map_update_elem(f->agg_fd, &key, &a, BPF_ANY), 0);
	ft_storm_read(f->storm, &f->emit);
	assert_int_equal(f->n, 1);
	e = (const void *)&f->recs[0];
	assert_true(e->h.kind == FT_KIND_net_drop && e->h.count == 7 && e->len_bytes == 7000);
	assert_true(!e->h.pid && e->netns == FT_NONE_U32 && e->ifindex == FT_NONE_U32);
}

static void set_counts(struct fixture *f, uint32_t kind, const struct ft_counts *first,
		       const struct ft_counts *last)
{
	int n = libbpf_num_possible_cpus();
	_cleanup_free_ struct ft_counts *percpu = calloc(n, sizeof(*percpu));

	percpu[n - 1] = *last;
	percpu[0].lost += first->lost;
	percpu[0].map_full += first->map_full;
	percpu[0].ignored += first->ignored;
	assert_int_equal(bpf_map_update_elem(f->counts_fd, &kind, percpu, BPF_ANY), 0);
}

static void assert_lost(const struct ft_rec *r, const char *reason, uint64_t n, uint64_t total)
{
	const struct ft_ev_lost *e = (const void *)r;
	char text[64];

	assert_int_equal(e->h.kind, FT_KIND_lost);
	assert_string_equal(ft_str_copy(&e->h, e->of, text, sizeof(text)), "tcp.reset");
	ft_str_copy(&e->h, e->reason, text, sizeof(text));
	assert_non_null(strstr(text, reason));
	assert_true(e->records == n && e->total == total);
}

static void test_lost(void **state)
{
	struct fixture *f = need_maps(state);

	set_counts(f, FT_KIND_tcp_reset, &(struct ft_counts){ .lost = 3 },
		   &(struct ft_counts){ .lost = 4, .map_full = 5 });
	ft_storm_read(f->storm, &f->emit);
	assert_int_equal(f->n, 2);
	assert_lost(&f->recs[0], "ring buffer full", 7, 7);
	assert_lost(&f->recs[1], "map full", 5, 5);
	f->n = 0;
	ft_storm_read(f->storm, &f->emit);
	assert_int_equal(f->n, 0);
	set_counts(f, FT_KIND_tcp_reset, &(struct ft_counts){ .lost = 3 },
		   &(struct ft_counts){ .lost = 6, .map_full = 5 });
	ft_storm_read(f->storm, &f->emit);
	assert_int_equal(f->n, 1);
	assert_lost(&f->recs[0], "ring buffer full", 2, 9);
}

/* Told also when there was none: a zero that was counted. */
static void test_ordinary(void **state)
{
	struct fixture *f = need_maps(state);
	const struct ft_ev_net_ordinary *e = (const void *)&f->recs[0];

	ft_storm_ordinary(f->storm, &f->emit);
	assert_true(f->n == 1 && e->packets == 0 && e->total == 0);
	set_counts(f, FT_KIND_net_drop, &(struct ft_counts){ .ignored = 20 },
		   &(struct ft_counts){ .ignored = 22 });
	f->n = 0;
	ft_storm_ordinary(f->storm, &f->emit);
	assert_true(f->n == 1 && e->packets == 42 && e->total == 42);
	f->n = 0;
	ft_storm_ordinary(f->storm, &f->emit);
	assert_true(f->n == 1 && e->packets == 0 && e->total == 42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_differences, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_batches, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_other_key, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_lost, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ordinary, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

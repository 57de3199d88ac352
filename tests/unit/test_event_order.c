// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "records.h"

struct got {
	size_t n;
	uint64_t ts[5000];
	uint32_t pid[5000];
	unsigned int late;
};

static void sink(void *ctx, struct ft_hdr *ev)
{
	struct got *g = ctx;

	g->ts[g->n] = ev->ts_ns;
	g->pid[g->n] = ev->pid;
	g->n++;
	g->late += !!(ev->flags & FT_REC_LATE);
}

static void push(struct ft_order *o, uint64_t ts, uint32_t pid)
{
	struct ft_rec r;

	ft_rec_new(&r, FT_KIND_proc_exit, ts);
	r.h.pid = pid;
	assert_int_equal(ft_order_push(o, &r, r.h.size), 0);
}

static void test_sorts(void **state)
{
	static struct got g;
	struct ft_order *o;
	uint32_t x = 1;

	(void)state;
	memset(&g, 0, sizeof(g));
	assert_int_equal(ft_order_new(&o, 100, 10000, sink, &g), 0);
	for (uint32_t i = 0; i < 4000; i++) {
		x = x * 1664525 + 1013904223;
		push(o, x % 997, i);
	}
	assert_int_equal(g.n, 0);
	ft_order_advance(o, UINT64_MAX);
	assert_int_equal(g.n, 4000);
	for (size_t i = 1; i < g.n; i++) {
		assert_true(g.ts[i - 1] <= g.ts[i]);
		/* equal times keep their arrival */
		if (g.ts[i - 1] == g.ts[i])
			assert_true(g.pid[i - 1] < g.pid[i]);
	}
	assert_int_equal(g.late, 0);
	ft_order_free(o);
}

static void push_before(struct ft_order *o, uint64_t ts, uint32_t pid)
{
	struct ft_rec r;

	ft_rec_new(&r, FT_KIND_proc_exit, ts);
	r.h.pid = pid;
	r.h.flags = FT_REC_BEFORE;
	assert_int_equal(ft_order_push(o, &r, r.h.size), 0);
}

/* The kernel log's history comes after the inventory that was made of the present. */
static void test_before(void **state)
{
	static struct got g;
	struct ft_order *o;

	(void)state;
	memset(&g, 0, sizeof(g));
	assert_int_equal(ft_order_new(&o, 100, 100, sink, &g), 0);
	push(o, 1000, 1);
	push_before(o, 10, 2);
	push_before(o, 20, 3);
	push(o, 1001, 4);
	push(o, 999, 5);
	ft_order_advance(o, UINT64_MAX);
	assert_int_equal(g.n, 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(g.pid[i], ((const uint32_t[]){ 5, 1, 2, 3, 4 })[i]);
	assert_int_equal(g.ts[2], 10);
	assert_int_equal(g.late, 0);
	ft_order_free(o);
}

static void test_hold_and_late(void **state)
{
	static struct got g;
	struct ft_order *o;

	(void)state;
	memset(&g, 0, sizeof(g));
	assert_int_equal(ft_order_new(&o, 100, 10, sink, &g), 0);
	assert_true(ft_order_due(o) == UINT64_MAX);
	push(o, 1000, 1);
	push(o, 900, 2);
	assert_int_equal(ft_order_due(o), 1000);
	ft_order_advance(o, 50); /* less than the hold */
	ft_order_advance(o, 999);
	assert_int_equal(g.n, 0);
	ft_order_advance(o, 1000);
	assert_int_equal(g.n, 1);
	assert_int_equal(g.ts[0], 900);
	ft_order_advance(o, 1100);
	push(o, 950, 3);
	ft_order_advance(o, 2000);
	assert_int_equal(g.n, 3);
	assert_int_equal(g.late, 1);
	ft_order_free(o);
}

static void test_bound(void **state)
{
	static struct got g;
	struct ft_order *o;

	(void)state;
	memset(&g, 0, sizeof(g));
	assert_int_equal(ft_order_new(&o, 1000000, 4, sink, &g), 0);
	for (int i = 0; i < 10; i++)
		push(o, 100 - i, i);
	assert_int_equal(g.n, 6);
	ft_order_free(o); /* frees the rest */
}

static void test_refuses(void **state)
{
	struct ft_order *o;
	struct ft_rec r;

	(void)state;
	assert_int_equal(ft_order_new(&o, 10, 4, sink, NULL), 0);
	ft_rec_new(&r, FT_KIND_proc_exit, 1);
	assert_int_equal(ft_order_push(o, &r, r.h.size - 1), -EBADMSG);
	r.h.kind = 99;
	assert_int_equal(ft_order_push(o, &r, r.h.size), -EPROTO);
	ft_order_free(o);
	ft_order_free(NULL);
}

/* A time at the end of the range, as a damaged recording may have, waits and does not wrap. */
static void test_no_wrap(void **state)
{
	static struct got g;
	struct ft_order *o;

	(void)state;
	memset(&g, 0, sizeof(g));
	assert_int_equal(ft_order_new(&o, 100, 4, sink, &g), 0);
	push(o, UINT64_MAX - 1, 1);
	assert_true(ft_order_due(o) == UINT64_MAX);
	ft_order_advance(o, 5000);
	assert_int_equal(g.n, 0);
	ft_order_advance(o, UINT64_MAX);
	assert_int_equal(g.n, 1);
	ft_order_free(o);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sorts),	      cmocka_unit_test(test_before),
		cmocka_unit_test(test_hold_and_late), cmocka_unit_test(test_bound),
		cmocka_unit_test(test_refuses),	      cmocka_unit_test(test_no_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

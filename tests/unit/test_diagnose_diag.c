// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "diagnose/internal.h"

#include "diag_fixture.h"
#include "random_rec.h"

static void test_lines(void **state)
{
	struct lines l = {};

	(void)state;
	lines_add(&l, "%d", 1);
	lines_add(&l, "%d", 1); /* once is enough */
	assert_int_equal(l.n, 1);
	for (int i = 0; i < 100; i++)
		lines_add(&l, "line %d", i);
	assert_int_equal(l.n, LINES_MAX);
}

static void submit(const char *object, uint8_t confidence, uint64_t last)
{
	static struct finding f;

	f = (struct finding){
		.rule = R_NCCL, .confidence = confidence, .since_ns = now, .last_ns = last
	};
	ft_fmt(f.object, "%s", object);
	finding_submit(D, &f);
}

static void test_no_repetition(void **state)
{
	(void)state;
	tick(SEC);
	submit("a", 1, now);
	submit("a", 1, now);
	assert_int_equal(seen.n, 1);
	submit("a", 2, now); /* surer */
	assert_int_equal(seen.n, 2);
	submit("a", 1, now); /* less sure is no news */
	assert_int_equal(seen.n, 2);
	submit("b", 1, now);
	assert_int_equal(seen.n, 3);
	assert_int_equal(D->nincidents, 2);
}

static void test_reopened(void **state)
{
	(void)state;
	tick(SEC);
	submit("a", 1, now);
	tick(301 * SEC);
	assert_int_equal(seen.closed, 1);
	tick(SEC);
	assert_int_equal(seen.closed, 1);
	submit("a", 1, now);
	assert_int_equal(seen.opened, 2);
	assert_int_equal(D->nincidents, 1);
	assert_true(D->incidents[0].open);
}

static void test_bound(void **state)
{
	(void)state;
	tick(SEC);
	for (int i = 0; i < INCIDENTS_MAX + 5; i++) {
		char object[16];

		ft_fmt(object, "o%d", i);
		submit(object, 1, now);
	}
	assert_int_equal(D->unfit, 5);
	assert_true(list_has(verdict()->blind, "5 objects were beyond the bounds"));
}

static void test_own_kinds_ignored(void **state)
{
	struct ft_rec r;

	(void)state;
	ft_rec_new(&r, FT_KIND_verdict, 500 * SEC);
	play(&r);
	assert_int_equal(D->now_ns, 0);
}

/* Whatever comes: no crash, no overflow, records that are well-formed. */
static void test_random(void **state)
{
	(void)state;
	for (int i = 0; i < 20000; i++) {
		unsigned int kind = rnd() % FT_KIND_MAX;
		struct ft_rec r;

		if (!ft_kind(kind))
			continue;
		rnd_rec(&r, kind);
		r.h.pid %= 20;
		if (i % 2) {
			now += rnd() % (SEC / 10);
			r.h.ts_ns = now;
		}
		play(&r);
		if (i % 1000 == 0)
			verdict();
	}
	verdict();
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_lines), T(test_no_repetition),	  T(test_reopened),
		T(test_bound), T(test_own_kinds_ignored), T(test_random),
	};

	ft_diag_free(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "out_fixture.h"
#include "random_rec.h"

#define T0 (1764475923ull * SEC)

static void put(const struct ft_rec *r, const struct ft_attr *a)
{
	assert_int_equal(ft_out_event(O, &r->h, a), 0);
}

static void flush(uint64_t ns)
{
	assert_int_equal(ft_out_flush(O, ns), 0);
}

static void test_header(void **state)
{
	struct ft_rec r;

	(void)state;
	out_open(ft_out_text, 0, false);
	session_rec(&r, T0);
	put(&r, &none);
	assert_string_equal(written(), "");
	flush(T0 + 1);
	flush(T0 + SEC / 20); /* more of the inventory may come */
	put(&r, &none);
	flush(T0 + SEC / 5);
	assert_string_equal(written(), "");
	flush(T0 + SEC / 2);
	assert_string_equal(written(),
			    "fabrictrace 0.1  n17  Linux 6.8.0-60  attached 04:12:03 in 0.2 s\n"
			    "target      -p 4000\n"
			    "blind       NVLink\n");
	flush(T0 + SEC); /* once */
	assert_int_equal(lines_of(written()), 3);
	out_close();
}

/* A terminal has a width, a file has none. What was found is told whole in both. */
static void test_full_lines(void **state)
{
	struct ft_ev_incident *e;
	char text[150] = "";
	struct ft_rec r;

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	e = ft_rec_new(&r, FT_KIND_incident, T0);
	ft_rec_str(&r, &e->text, text);
	for (int full = 0; full < 2; full++) {
		out_full = full;
		out_open(ft_out_text, 0, false);
		put(&r, &none);
		flush(T0);
		assert_int_equal(strstr(written(), text) != NULL, full);
		assert_int_equal(strstr(written(), "x\n               xx") != NULL, !full);
		assert_null(strstr(written(), ".."));
		assert_int_equal(lines_of(full ? "" : written()), full ? 0 : 3);
		out_close();
	}
	out_full = false;
}

/* One line a second per pair, with the sums. */
static void test_folds(void **state)
{
	struct ft_attr a = rank_attr(1, 2), b = rank_attr(2, 3);
	struct ft_rec r;

	(void)state;
	out_open(ft_out_text, 0, false);
	for (int i = 0; i < 50; i++) {
		retransmit_rec(&r, T0 + i * (SEC / 100), 10, 2);
		put(&r, &a);
		retransmit_rec(&r, T0 + i * (SEC / 100), 11, 1);
		put(&r, &b);
	}
	flush(T0 + SEC / 2);
	assert_string_equal(written(), "");
	flush(T0 + 2 * SEC);
	assert_string_equal(
		written(),
		"04:12:03.000 ~ TCP   rank 1 -> 2  eth0  retransmitted 100 segs in 0.5 s\n"
		"04:12:03.000 ~ TCP   rank 2 -> 3  eth0  retransmitted 50 segs in 0.5 s\n");
	out_close();
}

static void test_verbosity(void **state)
{
	static const struct {
		int verbose;
		unsigned int lines;
	} cases[] = { { -1, 1 }, { 0, 2 }, { 1, 3 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ft_attr a = rank_attr(1, 2);
		struct ft_ev_incident *e;
		struct ft_rec r;

		out_open(ft_out_text, cases[i].verbose, false);
		retransmit_rec(&r, T0, 10, 2);
		put(&r, &a);
		ft_rec_new(&r, FT_KIND_tcp_state, T0 + 1);
		put(&r, &none);
		e = ft_rec_new(&r, FT_KIND_incident, T0 + 2);
		e->id = 1;
		e->open = 1;
		ft_rec_str(&r, &e->cause__kind, "lossy-link");
		put(&r, &a);
		flush(UINT64_MAX);
		assert_int_equal(lines_of(written()), cases[i].lines);
		out_close();
	}
}

static void test_only_bad_exits(void **state)
{
	struct ft_attr a = rank_attr(1, -1);
	struct ft_rec r;

	(void)state;
	out_open(ft_out_text, 0, false);
	ft_rec_new(&r, FT_KIND_proc_exit, T0);
	a.severity = FT_INFO;
	put(&r, &a);
	a.severity = FT_ERROR;
	put(&r, &a);
	flush(UINT64_MAX);
	assert_string_equal(written(), "04:12:03.000 ! PROC  rank 1  pid 0  ended\n");
	out_close();
}

static void test_color(void **state)
{
	struct ft_attr a = rank_attr(1, 2);
	struct ft_rec r;

	(void)state;
	out_open(ft_out_text, 0, true);
	retransmit_rec(&r, T0, 10, 2);
	put(&r, &a);
	flush(UINT64_MAX);
	assert_string_equal(
		written(),
		"\033[33m04:12:03.000 ~ TCP   rank 1 -> 2  eth0  retransmitted 2 segs\033[0m\n");
	out_close();
}

static void test_write_error(void **state)
{
	struct ft_out_opts o = { .clock = &out_clock };
	struct ft_attr a = rank_attr(1, 2);
	struct ft_rec r;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	o.fd = fds[1];
	assert_int_equal(ft_out_text(&O, &o), 0);
	retransmit_rec(&r, T0, 10, 2);
	put(&r, &a);
	assert_int_equal(ft_out_flush(O, UINT64_MAX), -EPIPE);
	assert_int_equal(ft_out_event(O, &r.h, &a), -EPIPE);
	ft_out_free(O);
	close(fds[1]);
}

/* Every kind, every verbosity: at most 100 columns, no control character. */
static void test_random(void **state)
{
	(void)state;
	for (int verbose = -1; verbose < 2; verbose++) {
		const char *s;

		out_open(ft_out_text, verbose, false);
		for (int i = 0; i < 400; i++) {
			struct ft_attr a = rank_attr(i % 8, i % 3 - 1);
			unsigned int kind = rnd() % FT_KIND_MAX;
			struct ft_rec r;

			if (!ft_kind(kind) || kind == FT_KIND_verdict)
				continue;
			rnd_rec(&r, kind);
			put(&r, i % 2 ? &a : &none);
			if (i % 50 == 0)
				flush(r.h.ts_ns);
		}
		flush(UINT64_MAX);
		s = written();
		for (size_t col = 0; *s; s++) {
			col = *s == '\n' ? 0 : col + ((*s & 0xc0) != 0x80);
			assert_true(col <= 100);
			assert_true(*s == '\n' || (unsigned char)*s >= 0x20);
		}
		out_close();
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_header),	  cmocka_unit_test(test_folds),
		cmocka_unit_test(test_verbosity), cmocka_unit_test(test_only_bad_exits),
		cmocka_unit_test(test_color),	  cmocka_unit_test(test_write_error),
		cmocka_unit_test(test_random),	  cmocka_unit_test(test_full_lines),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, out_setup, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <time.h>

#include "output/internal.h"

#include "records.h"

static void test_count(void **state)
{
	static const struct {
		uint64_t n;
		const char *s;
	} cases[] = { { 0, "0" },
		      { 999, "999" },
		      { 1000, "1,000" },
		      { 1234567, "1,234,567" },
		      { UINT64_MAX, "18,446,744,073,709,551,615" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct ft_buf b = {};

		text_count(&b, cases[i].n);
		assert_string_equal(b.s, cases[i].s);
	}
}

static void test_cut(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};

	(void)state;
	ft_buf_puts(&b, "keep ");
	ft_buf_puts(&b, "0123456789");
	text_cut(&b, 5, 10);
	assert_string_equal(b.s, "keep 0123456789");
	text_cut(&b, 5, 9);
	assert_string_equal(b.s, "keep 0123456..");
	/* two bytes each, one column each */
	ft_buf_reset(&b);
	ft_buf_puts(&b, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
	text_cut(&b, 0, 5);
	assert_int_equal(b.len, 10);
	text_cut(&b, 0, 4);
	assert_string_equal(b.s, "\xc3\xa9\xc3\xa9..");
}

static void test_ranks(void **state)
{
	struct ft_attr_rank r[4] = { { .rank = 0, .global_rank = 4 },
				     { .rank = 1, .global_rank = 5 },
				     { .rank = 2, .global_rank = -1 },
				     { .rank = -1, .global_rank = -1 } };
	_cleanup_buf_ struct ft_buf b = {};

	(void)state;
	text_ranks(&b, r, 1, false);
	ft_buf_puts(&b, "|");
	text_ranks(&b, r, 2, false);
	ft_buf_puts(&b, "|");
	text_ranks(&b, r, 4, true);
	assert_string_equal(b.s, "rank 4|ranks 4,5|ranks 4,5,2,??");
}

static void test_wrapped(void **state)
{
	_cleanup_buf_ struct ft_buf b = {}, text = {};
	size_t lines = 0;

	(void)state;
	for (int i = 0; i < 60; i++)
		ft_buf_puts(&text, "word ");
	for (int i = 0; i < 150; i++)
		ft_buf_puts(&text, "x"); /* no blank to break at */
	text_wrapped(&b, "label", text.s, text.len);
	for (char *save, *l = strtok_r(b.s, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		assert_true(strlen(l) <= WIDTH);
		assert_true(!strncmp(l, lines++ ? "            " : "label       ", 12));
	}
	assert_int_equal(lines, 6);
}

static void test_continue(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};

	(void)state;
	ft_buf_puts(&b, "before\n");
	text_continue(&b, 7, 4);
	assert_string_equal(b.s, "before\n");
	for (int i = 0; i < 20; i++)
		ft_buf_puts(&b, "twelve bytes ");
	text_continue(&b, 7, 4);
	ft_buf_puts(&b, "|");
	assert_string_equal(
		b.s,
		"before\n"
		"twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes twelve\n"
		"    bytes twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes\n"
		"    twelve bytes twelve bytes twelve bytes twelve bytes twelve bytes |");
}

static void test_day(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	uint64_t now = 1764475923ull * NSEC_PER_SEC;

	(void)state;
	text_day(&b, now - 11 * 3600 * NSEC_PER_SEC, now);
	assert_int_equal(b.len, 0);
	text_day(&b, now - 13 * 3600 * NSEC_PER_SEC, now);
	assert_string_equal(b.s, "2025-11-29 ");
}

static void test_addr_and_time(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	uint8_t ip[16] = {};

	(void)state;
	text_addr(&b, ip, 7);
	ft_buf_puts(&b, " ");
	set_ip(ip, "10.0.0.1");
	text_addr(&b, ip, FT_NONE_U16);
	ft_buf_puts(&b, " ");
	text_time(&b, 1764475923123456789ull, true);
	ft_buf_puts(&b, " ");
	text_time(&b, 1764475923123456789ull, false);
	assert_string_equal(b.s, "?:7 10.0.0.1 04:12:03.123 04:12:03");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_count),	      cmocka_unit_test(test_cut),
		cmocka_unit_test(test_ranks),	      cmocka_unit_test(test_wrapped),
		cmocka_unit_test(test_addr_and_time), cmocka_unit_test(test_continue),
		cmocka_unit_test(test_day),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

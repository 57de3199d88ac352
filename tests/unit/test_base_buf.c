// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "records.h"

static void test_grow(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	size_t total = 0;

	(void)state;
	for (int i = 0; i < 5000; i++) {
		ft_buf_printf(&b, "%d,", i);
		total += snprintf(NULL, 0, "%d,", i);
	}
	assert_int_equal(b.len, total);
	assert_int_equal(strlen(b.s), total);
	assert_true(!strncmp(b.s, "0,1,2,", 6) && !strcmp(b.s + b.len - 5, "4999,"));
	ft_buf_reset(&b);
	assert_int_equal(b.len, 0);
	assert_string_equal(b.s, "");
}

static void test_no_memory(void **state)
{
	struct ft_buf b = { .err = -ENOMEM };

	(void)state;
	ft_buf_puts(&b, "ignored");
	ft_buf_printf(&b, "%d", 1);
	assert_int_equal(b.len, 0);
	assert_null(b.s);
}

struct text_case {
	const char *in, *json, *shown;
};

static const struct text_case cases[] = {
	{ "plain", "\"plain\"", "plain" },
	{ "a\"b\\c", "\"a\\\"b\\\\c\"", "a\"b\\c" },
	{ "x\n\x1b[31m\x7f", "\"x\\u000a\\u001b[31m\\u007f\"", "x\\x0a\\x1b[31m\\x7f" },
	{ "caf\xc3\xa9", "\"caf\xc3\xa9\"", "caf\xc3\xa9" },
	{ "\xf0\x9f\x98\x80", "\"\xf0\x9f\x98\x80\"", "\xf0\x9f\x98\x80" },
	{ "cut\xe2\x82", "\"cut\\ufffd\\ufffd\"", "cut\\xe2\\x82" },
	{ "\xc0\xaf", "\"\\ufffd\\ufffd\"", "\\xc0\\xaf" },		    /* overlong */
	{ "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"", "\\xed\\xa0\\x80" }, /* surrogate */
	{ "\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"",
	  "\\xf4\\x90\\x80\\x80" },			       /* > U+10FFFF */
	{ "\xc2\x9b[2J", "\"\xc2\x9b[2J\"", "\\xc2\\x9b[2J" }, /* C1 CSI */
};

static void test_texts(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_buf_ struct ft_buf json = {}, shown = {};

		ft_buf_json_str(&json, cases[i].in, strlen(cases[i].in));
		ft_buf_escape(&shown, cases[i].in, strlen(cases[i].in));
		assert_string_equal(json.s, cases[i].json);
		assert_string_equal(shown.s, cases[i].shown);
	}
}

static void test_nul_inside(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};

	(void)state;
	ft_buf_json_str(&b, "a\0b", 3);
	assert_string_equal(b.s, "\"a\\u0000b\"");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_grow),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_nul_inside),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>
#include <sys/stat.h>

#include "records.h"

static char dir[] = "/tmp/fabrictrace-util.XXXXXX";

static void put(const char *name, const char *text, size_t len)
{
	char path[128];
	_cleanup_file_ FILE *f = NULL;

	ft_fmt(path, "%s%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(text, 1, len, f), len);
}

static void test_read_file(void **state)
{
	_cleanup_free_ char *text = NULL, *untouched = NULL;
	static char big[9000];

	(void)state;
	put("/small", "abc\ndef\n", 8);
	assert_int_equal(ft_read_file(dir, "/small", 100, &text), 8);
	assert_string_equal(text, "abc\ndef\n");
	memset(big, 'x', sizeof(big));
	put("/big", big, sizeof(big));
	assert_int_equal(ft_read_file(dir, "/big", 8999, &untouched), -EFBIG);
	assert_int_equal(ft_read_file(dir, "/none", 10, &untouched), -ENOENT);
	assert_null(untouched);
	assert_int_equal(ft_read_file(dir, "/big", 9000, &untouched), 9000);
}

static void test_read_line(void **state)
{
	char line[5] = "keep";
	uint64_t v = 7;

	(void)state;
	put("/line", "123456\nrest", 11);
	assert_int_equal(ft_read_line(dir, "/line", line, sizeof(line)), 0);
	assert_string_equal(line, "1234");
	assert_int_equal(ft_read_u64(dir, "/line", &v), 0);
	assert_int_equal(v, 123456);
	put("/word", "12 \n", 4);
	assert_int_equal(ft_read_u64(dir, "/word", &v), -EINVAL);
	assert_int_equal(ft_read_u64(dir, "/none", &v), -ENOENT);
	assert_int_equal(v, 123456);
}

static void test_parse_u64(void **state)
{
	static const struct {
		const char *s;
		int err;
		uint64_t v;
	} cases[] = {
		{ "0", 0, 0 },
		{ "0x1f", 0, 31 },
		{ "18446744073709551615", 0, UINT64_MAX },
		{ "18446744073709551616", -ERANGE, 9 },
		{ "", -EINVAL, 9 },
		{ "-1", -EINVAL, 9 },
		{ "+1", -EINVAL, 9 },
		{ " 1", -EINVAL, 9 },
		{ "1 ", -EINVAL, 9 },
		{ "0x", -EINVAL, 9 },
		{ "010", 0, 10 },
		{ "1e3", -EINVAL, 9 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t v = 9;

		assert_int_equal(ft_parse_u64(cases[i].s, &v), cases[i].err);
		assert_int_equal(v, cases[i].v);
	}
}

static void test_strcpy(void **state)
{
	const char *volatile long_text = "123456";
	char a[4] = "zzz";

	(void)state;
	ft_strcpy(a, "abcdef", sizeof(a));
	assert_string_equal(a, "abc");
	ft_strcpy(a, "", sizeof(a));
	assert_string_equal(a, "");
	ft_fmt(a, "%s", long_text);
	assert_string_equal(a, "123");
}

static void test_time(void **state)
{
	char iso[32];

	(void)state;
	ft_time_iso(1764475923123456789ull, iso);
	assert_string_equal(iso, "2025-11-30T04:12:03.123456789Z");
	ft_time_iso(0, iso);
	assert_string_equal(iso, "1970-01-01T00:00:00.000000000Z");
	ft_time_iso(UINT64_MAX, iso);
	assert_string_equal(iso, "2554-07-21T23:34:33.709551615Z");
}

static void test_clock(void **state)
{
	int64_t a = ft_clock_offset(), b = (int64_t)(ft_real_ns() - ft_mono_ns());

	(void)state;
	assert_true(llabs(a - b) < (int64_t)(100 * NSEC_PER_MSEC));
}

static void test_take(void **state)
{
	char *p = malloc(1), *q = ft_take_ptr(p);
	int fd = 5, got = ft_take_fd(fd);

	(void)state;
	assert_null(p);
	assert_non_null(q);
	free(q);
	assert_int_equal(fd, -1);
	assert_int_equal(got, 5);
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = { "/small", "/big", "/line", "/word", "" };
	char path[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		ft_fmt(path, "%s%s", dir, names[i]);
		remove(path);
	}
	return 0;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_file), cmocka_unit_test(test_read_line),
		cmocka_unit_test(test_parse_u64), cmocka_unit_test(test_strcpy),
		cmocka_unit_test(test_time),	  cmocka_unit_test(test_clock),
		cmocka_unit_test(test_take),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

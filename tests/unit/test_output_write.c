// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "output/internal.h"

#include "out_fixture.h"

static void test_commit(void **state)
{
	struct writer w = { .fd = memfd_create("out", MFD_CLOEXEC) };

	(void)state;
	out_fd = w.fd;
	ft_buf_puts(&w.buf, "held");
	assert_int_equal(writer_commit(&w), 0);
	assert_string_equal(written(), "");
	assert_int_equal(writer_flush(&w), 0);
	assert_string_equal(written(), "held");
	assert_int_equal(writer_flush(&w), 0); /* nothing twice */
	assert_string_equal(written(), "held");
	for (int i = 0; i < 70000; i++)
		ft_buf_puts(&w.buf, "x");
	assert_int_equal(writer_commit(&w), 0);
	assert_int_equal(w.buf.len, 0);
	ft_buf_free(&w.buf);
	close(w.fd);
}

static void test_errors_stay(void **state)
{
	struct writer w = { .fd = -1 };

	(void)state;
	ft_buf_puts(&w.buf, "x");
	assert_int_equal(writer_flush(&w), -EBADF);
	assert_int_equal(writer_flush(&w), -EBADF);
	assert_int_equal(writer_commit(&w), -EBADF);
	ft_buf_free(&w.buf);
}

static void test_no_memory(void **state)
{
	struct writer w = { .fd = STDOUT_FILENO, .buf.err = -ENOMEM };

	(void)state;
	assert_int_equal(writer_commit(&w), -ENOMEM);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commit),
		cmocka_unit_test(test_errors_stay),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, out_setup, NULL);
}

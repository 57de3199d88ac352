// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>

#include "records.h"

/* What the call writes to stderr. */
static char *said(int verbose, const char *text)
{
	static char out[2048];
	int fds[2], old = dup(STDERR_FILENO);
	ssize_t n;

	assert_int_equal(pipe2(fds, O_NONBLOCK), 0);
	dup2(fds[1], STDERR_FILENO);
	ft_verbose = verbose;
	ft_err("E %s", text);
	ft_warn("W %s", text);
	ft_info("I %s", text);
	ft_verbose = 0;
	dup2(old, STDERR_FILENO);
	close(old);
	n = read(fds[0], out, sizeof(out) - 1);
	out[MAX(n, 0)] = 0;
	close(fds[0]);
	close(fds[1]);
	return out;
}

static void test_levels(void **state)
{
	(void)state;
	assert_string_equal(said(-1, "x"), "fabrictrace: E x\n");
	assert_string_equal(said(0, "x"), "fabrictrace: E x\nfabrictrace: warning: W x\n");
	assert_string_equal(said(1, "x"),
			    "fabrictrace: E x\nfabrictrace: warning: W x\nfabrictrace: I x\n");
}

static void test_escaped(void **state)
{
	(void)state;
	assert_string_equal(said(-1, "\x1b[2J"), "fabrictrace: E \\x1b[2J\n");
}

int main(void)
{
	static const struct CMUnitTest tests[] = { cmocka_unit_test(test_levels),
						   cmocka_unit_test(test_escaped) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

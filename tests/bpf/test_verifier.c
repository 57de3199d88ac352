// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Every program of the probe table passes this kernel's verifier, or its target does not exist
 * here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "source/source.h"

static void drop(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
}

static void test_load(void **state)
{
	struct ft_emit emit = { drop, NULL };
	struct ft_bpf_opts opts = {};
	struct ft_loop *loop;
	struct ft_bpf *bpf;
	struct ft_probe *p;
	int loaded = 0;
	size_t n;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(ft_loop_new(&loop), 0);
	assert_int_equal(ft_bpf_open(&bpf, &opts, loop, &emit), 0);
	p = ft_bpf_probes(bpf, &n);
	for (size_t i = 0; i < n; i++) {
		if (p[i].error && p[i].error != -ENOENT)
			fail_msg("%s/%s: %s", p[i].object, p[i].program, p[i].reason);
		loaded += p[i].state == FT_PROBE_ON;
	}
	assert_true(loaded > 0);
	ft_bpf_free(bpf);
	ft_loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_load) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

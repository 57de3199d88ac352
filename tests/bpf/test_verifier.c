// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Every program of the probe table passes this kernel's verifier: a test for each. Those that this
 * kernel has no target for, or takes the other variant of, are skipped, and the name says why.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/libbpf.h>

#include "source/source.h"

#define MAX_ROWS 64

static struct ft_bpf *bpf;

static void drop(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
}

static bool is_loaded(const struct ft_probe *p)
{
	struct bpf_program *prog = ft_bpf_program(bpf, p->object, p->program);

	return prog && bpf_program__fd(prog) >= 0;
}

/* A lockdown forbids programs on functions before the verifier sees them. */
static bool is_untried(const struct ft_probe *p)
{
	bool function = strstr(p->attach, "entry/") || strstr(p->attach, "exit/");

	if (is_loaded(p))
		return false;
	return p->error == -ENOENT || p->state == FT_PROBE_UNNEEDED ||
	       (function && p->error == -EPERM);
}

static void test_row(void **state)
{
	const struct ft_probe *p = *state;

	if (is_untried(p))
		skip();
	if (!is_loaded(p))
		fail_msg("%s", p->reason);
}

static void test_root(void **state)
{
	(void)state;
	skip();
}

static int run_rows(struct ft_probe *rows, size_t n)
{
	struct CMUnitTest tests[MAX_ROWS] = {};
	static char names[MAX_ROWS][256];
	size_t k = 0;

	for (size_t i = 0; i < n && k < MAX_ROWS; i++) {
		const struct ft_probe *p = &rows[i];
		const char *why = !is_untried(p) ? "" : p->reason[0] ? p->reason : "not needed";

		if (!p->object[0])
			continue; /* a poller */
		ft_fmt(names[k], "%s/%s%s%s", p->object, p->program, why[0] ? ": " : "", why);
		tests[k] = (struct CMUnitTest){ names[k], test_row, NULL, NULL, &rows[i] };
		k++;
	}
	/* The macro takes nothing but whole arrays. */
	return _cmocka_run_group_tests("verifier", tests, k, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest needs_root[] = { { "needs root", test_root, NULL, NULL, NULL } };
	struct ft_emit emit = { drop, NULL };
	struct ft_bpf_opts opts = {};
	struct ft_loop *loop;
	struct ft_probe *rows;
	int err, failed;
	size_t n;

	if (geteuid() != 0)
		return cmocka_run_group_tests(needs_root, NULL, NULL);
	err = ft_loop_new(&loop);
	if (!err)
		err = ft_bpf_open(&bpf, &opts, loop, &emit);
	if (err) {
		printf("Bail out! no program could be loaded: %s\n", strerror(-err));
		return 1;
	}
	rows = ft_bpf_probes(bpf, &n);
	failed = run_rows(rows, n);
	ft_bpf_free(bpf);
	ft_loop_free(loop);
	return failed;
}

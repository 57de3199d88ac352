// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The probe table against the objects that were built, and its own rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/libbpf.h>

#include "source/loader.h"

static const char *const objects[] = { "proc", "tcp", "net", "pcie", "nccl" };

static const struct ft_probe *row(const struct ft_probe *p, size_t n, const char *object,
				  const char *program)
{
	const struct ft_probe *found = NULL;

	for (size_t i = 0; i < n; i++)
		if (!strcmp(p[i].object, object) && !strcmp(p[i].program, program)) {
			assert_null(found);
			found = &p[i];
		}
	return found;
}

/* Where the kernel attaches is what the row says; uprobes are attached by ourselves. */
static void assert_attach(const struct ft_probe *p, const char *section)
{
	size_t kind = strcspn(section, "/");

	if (section[kind])
		assert_string_equal(p->attach, section);
	else
		assert_int_equal(strncmp(p->attach, section, kind), 0);
}

static void test_programs(void **state)
{
	_cleanup_free_ struct ft_probe *p;
	size_t n, rows = 0, programs = 0;

	(void)state;
	p = ft_probe_table(&n);
	for (size_t i = 0; i < n; i++)
		rows += p[i].object[0] != 0;
	for (size_t o = 0; o < ARRAY_SIZE(objects); o++) {
		struct bpf_program *prog;
		struct bpf_object *obj;
		char path[128];

		ft_fmt(path, FT_BUILD "/bpf/%s.bpf.o", objects[o]);
		obj = bpf_object__open_file(path, NULL);
		assert_non_null(obj);
		bpf_object__for_each_program(prog, obj) {
			const struct ft_probe *r = row(p, n, objects[o], bpf_program__name(prog));

			if (!r)
				fail_msg("%s has no row", bpf_program__name(prog));
			assert_attach(r, bpf_program__section_name(prog));
			programs++;
		}
		bpf_object__close(obj);
	}
	assert_int_equal(programs, rows);
}

/* The better one comes first: it is tried first. */
static void assert_variant(const struct ft_probe *p, size_t n, const struct ft_probe *variant)
{
	const struct ft_probe *better = row(p, n, variant->object, variant->instead_of);

	assert_non_null(better);
	assert_true(better < variant);
	assert_string_equal(better->what, variant->what);
	assert_string_equal(better->hides, variant->hides);
}

/* Each row can be told: what it gives is a kind of event, and what is missed without it. */
static void test_rows(void **state)
{
	_cleanup_free_ struct ft_probe *p, *again;
	size_t n;

	(void)state;
	p = ft_probe_table(&n);
	for (size_t i = 0; i < n; i++) {
		bool kind = false;

		for (unsigned int k = 0; k < FT_KIND_MAX; k++)
			kind |= ft_kind(k) && !strcmp(ft_kind(k)->name, p[i].what);
		if (!kind)
			fail_msg("%s gives \"%s\", which is no kind", p[i].program, p[i].what);
		assert_non_null(strchr(p[i].attach, '/'));
		assert_true(p[i].hides[0] && p[i].cost[0]);
		assert_true(!p[i].error && p[i].state == FT_PROBE_OFF && !p[i].reason[0]);
		/* a variant hides what the other one does */
		if (i && !strncmp(p[i].attach, "u", 1) && !strcmp(p[i].what, p[i - 1].what))
			assert_string_equal(p[i].hides, p[i - 1].hides);
		if (p[i].instead_of)
			assert_variant(p, n, &p[i]);
	}
	/* a copy: what became of one session's programs is not another's */
	p[0].error = -EPERM;
	again = ft_probe_table(&n);
	assert_int_equal(again[0].error, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_programs),
		cmocka_unit_test(test_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

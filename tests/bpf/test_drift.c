// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The layout that the BPF compiler gave each record, by the BTF of the built objects, against the
 * table that user code decodes with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "event/event.h"

static const char *const objects[] = { "proc", "tcp", "net", "pcie", "nccl" };

static const struct ft_kind_info *kind_of_struct(const char *name)
{
	char dotted[64];

	if (strncmp(name, "ft_ev_", 6) != 0)
		return NULL;
	for (unsigned int i = 0; i < FT_KIND_MAX; i++) {
		const struct ft_kind_info *k = ft_kind(i);

		if (!k)
			continue;
		ft_fmt(dotted, "%s", k->name);
		for (char *p = dotted; *p; p++)
			if (*p == '.')
				*p = '_';
		if (!strcmp(dotted, name + 6))
			return k;
	}
	fail_msg("%s is in an object but not in the table", name);
	return NULL;
}

/* Returns the number of members that were compared. */
static int compare(const struct btf *btf, const struct btf_type *t, const struct ft_kind_info *k)
{
	const struct btf_member *m = btf_members(t);
	size_t n;
	const struct ft_field *f = k->fields(&n);

	assert_int_equal(t->size, k->size);
	/* member 0 is the head */
	assert_int_equal(btf_vlen(t), n + 1);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(btf__name_by_offset(btf, m[i + 1].name_off), f[i].name);
		assert_int_equal(m[i + 1].offset, f[i].off * 8);
		assert_int_equal(btf__resolve_size(btf, m[i + 1].type), f[i].size);
	}
	return n;
}

static void test_layouts(void **state)
{
	size_t structs = 0, kinds = 0;

	(void)state;
	for (unsigned int i = 0; i < FT_KIND_MAX; i++)
		kinds += ft_kind(i) != NULL;
	for (size_t o = 0; o < ARRAY_SIZE(objects); o++) {
		struct btf *btf;
		char path[128];

		ft_fmt(path, FT_BUILD "/bpf/%s.bpf.o", objects[o]);
		btf = btf__parse_elf(path, NULL);
		assert_non_null(btf);
		for (uint32_t id = 1; id < btf__type_cnt(btf); id++) {
			const struct btf_type *t = btf__type_by_id(btf, id);
			const struct ft_kind_info *k;

			if (!btf_is_struct(t))
				continue;
			k = kind_of_struct(btf__name_by_offset(btf, t->name_off));
			if (!k)
				continue;
			compare(btf, t, k);
			structs++;
		}
		btf__free(btf);
	}
	assert_int_equal(structs, kinds * ARRAY_SIZE(objects));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_layouts) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

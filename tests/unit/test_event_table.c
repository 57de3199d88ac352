// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "records.h"

static void test_kinds(void **state)
{
	unsigned int n = 0;

	(void)state;
	for (unsigned int i = 0; i < FT_KIND_MAX; i++) {
		const struct ft_kind_info *k = ft_kind(i);

		if (!k)
			continue;
		n++;
		assert_int_equal(k->kind, i);
		assert_ptr_equal(ft_kind_by_name(k->name), k);
		assert_true(k->doc[0] != 0);
		assert_true(k->severity <= FT_FATAL);
		assert_true(k->size >= sizeof(struct ft_hdr) && k->size <= FT_REC_MAX);
		for (unsigned int other = i + 1; other < FT_KIND_MAX; other++)
			assert_true(!ft_kind(other) || strcmp(ft_kind(other)->name, k->name) != 0);
	}
	assert_true(n > 20);
	assert_null(ft_kind(0));
	assert_null(ft_kind(FT_KIND_MAX));
	assert_null(ft_kind(70000));
	assert_null(ft_kind_by_name("nothing"));
}

static void test_fields(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < FT_KIND_MAX; i++) {
		const struct ft_kind_info *k = ft_kind(i);
		const struct ft_field *f;
		size_t n, at = sizeof(struct ft_hdr);

		if (!k)
			continue;
		f = k->fields(&n);
		for (size_t x = 0; x < n; x++) {
			/* one after the other, without holes */
			assert_int_equal(f[x].off, at);
			at += f[x].size;
			assert_true(!strcmp(f[x].format->name, "hidden") || f[x].doc[0]);
			assert_ptr_equal(ft_field(k, f[x].name), &f[x]);
		}
		assert_int_equal(at, k->size);
		assert_null(ft_field(k, "no_such_field"));
	}
}

/* `a__b` fields of one object stand together: else the JSON object would be opened twice. */
static void test_groups_together(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < FT_KIND_MAX; i++) {
		const struct ft_kind_info *k = ft_kind(i);
		const struct ft_field *f;
		size_t n;

		if (!k)
			continue;
		f = k->fields(&n);
		for (size_t a = 0; a < n; a++) {
			const char *sep = strstr(f[a].name, "__");
			size_t len = sep ? (size_t)(sep - f[a].name) + 2 : 0;

			for (size_t b = a + 2; sep && b < n; b++)
				if (!strncmp(f[a].name, f[b].name, len))
					assert_true(!strncmp(f[a].name, f[b - 1].name, len));
		}
	}
}

static void test_names(void **state)
{
	(void)state;
	assert_string_equal(ft_value_name(&ft_format_tcp_state, 1), "ESTABLISHED");
	assert_null(ft_value_name(&ft_format_tcp_state, 77));
	assert_string_equal(ft_name_of(&ft_format_tcp_state, 77), "?");
	assert_string_equal(ft_name_of(&ft_format_direction, 0), "received");
	assert_string_equal(ft_how_name(FT_HOW_env), "env");
	assert_null(ft_how_name(32));
	for (unsigned int bit = 0; ft_how_name(bit); bit++)
		assert_true(ft_how_name(bit)[0] != 0);
	assert_string_equal(ft_severity_name[FT_FATAL], "fatal");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_groups_together),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

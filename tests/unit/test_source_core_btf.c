// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/btf.h>

#include "source/core_btf.h"

/*
 * A kernel with struct outer { int a; const struct inner in; struct other *p; char c[8]; e_t e; },
 * struct inner { int x; int bits:3; }, struct other { int x; }, enum e { E_ONE = 1 }.
 */
static struct btf *kernel_btf(void)
{
	struct btf *b = btf__new_empty();
	int i = btf__add_int(b, "int", 4, BTF_INT_SIGNED);
	int ch = btf__add_int(b, "char", 1, BTF_INT_CHAR), inner, other, e, in, p, c, e_t;

	inner = btf__add_struct(b, "inner", 8);
	btf__add_field(b, "x", i, 0, 0);
	btf__add_field(b, "bits", i, 32, 3);
	other = btf__add_struct(b, "other", 4);
	btf__add_field(b, "x", i, 0, 0);
	e = btf__add_enum(b, "e", 4);
	btf__add_enum_value(b, "E_ONE", 1);
	in = btf__add_const(b, inner);
	p = btf__add_ptr(b, other);
	c = btf__add_array(b, i, ch, 8);
	e_t = btf__add_typedef(b, "e_t", e);
	btf__add_struct(b, "outer", 40);
	btf__add_field(b, "a", i, 0, 0);
	btf__add_field(b, "in", in, 32, 0);
	btf__add_field(b, "p", p, 128, 0);
	btf__add_field(b, "c", c, 192, 0);
	btf__add_field(b, "e", e_t, 256, 0);
	return b;
}

static struct btf *object_btf(void)
{
	struct btf *b = btf__new_empty();

	btf__add_struct(b, "outer___old", 0);
	btf__add_struct(b, "ours_only", 0);
	btf__add_struct(b, NULL, 0);
	return b;
}

static struct btf *copy_of(struct btf *kernel)
{
	struct btf *object = object_btf(), *copy = NULL;
	struct ft_core_names *names = NULL;

	assert_int_equal(ft_core_names_add(&names, object), 0);
	assert_int_equal(ft_core_names_add(&names, object), 0);
	assert_int_equal(ft_core_btf_new(&copy, kernel, names), 0);
	ft_core_names_free(names);
	btf__free(object);
	return copy;
}

static void test_copy(void **state)
{
	struct btf *kernel = kernel_btf(), *copy = copy_of(kernel);
	int id = btf__find_by_name_kind(copy, "outer", BTF_KIND_STRUCT);
	const struct btf_type *t = btf__type_by_id(copy, id), *in;
	const struct btf_member *m = btf_members(t);

	(void)state;
	assert_true(id > 0);
	assert_int_equal(btf_vlen(t), 5);
	assert_int_equal(t->size, 40);
	assert_string_equal(btf__name_by_offset(copy, m[1].name_off), "in");
	assert_int_equal(btf_member_bit_offset(t, 1), 32);
	in = btf__type_by_id(copy, m[1].type);
	assert_int_equal(btf_vlen(in), 2);
	assert_int_equal(btf_member_bit_offset(in, 1), 32);
	assert_int_equal(btf_member_bitfield_size(in, 1), 3);
	assert_true(btf_is_ptr(btf__type_by_id(copy, m[2].type)));
	assert_int_equal(btf_array(btf__type_by_id(copy, m[3].type))->nelems, 8);
	assert_true(btf_is_enum(btf__type_by_id(copy, m[4].type)));
	btf__free(copy);
	btf__free(kernel);
}

/* Neither what a pointer leads to nor what nobody named. */
static void test_left_out(void **state)
{
	struct btf *kernel = kernel_btf(), *copy = copy_of(kernel);

	(void)state;
	assert_true(btf__find_by_name_kind(copy, "other", BTF_KIND_STRUCT) < 0);
	assert_true(btf__find_by_name_kind(copy, "ours_only", BTF_KIND_STRUCT) < 0);
	btf__free(copy);
	btf__free(kernel);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

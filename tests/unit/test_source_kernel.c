// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Names of reasons from a kernel's types, made here as several releases have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/btf.h>

#include "source/loader.h"

#define SUBSYS (200 << 16) /* of no kernel yet: the running one is asked, too */

static struct btf *types;

static int setup(void **state)
{
	(void)state;
	types = btf__new_empty();
	btf__add_enum(types, "skb_drop_reason", 4);
	btf__add_enum_value(types, "SKB_NOT_DROPPED_YET", 0);
	btf__add_enum_value(types, "SKB_DROP_REASON_NOT_SPECIFIED", 2);
	btf__add_enum_value(types, "SKB_DROP_REASON_QDISC_DROP", 64);
	btf__add_enum(types, "sk_rst_reason", 4);
	btf__add_enum_value(types, "SK_RST_REASON_NO_SOCKET", 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	btf__free(types);
	return 0;
}

static void test_core(void **state)
{
	struct ft_kernel *k = NULL;

	(void)state;
	assert_int_equal(ft_kernel_new(&k, types), 0);
	assert_string_equal(ft_kernel_drop_reason(k, 0), "NOT_DROPPED_YET");
	assert_string_equal(ft_kernel_drop_reason(k, 64), "QDISC_DROP");
	assert_null(ft_kernel_drop_reason(k, 63));
	assert_null(ft_kernel_drop_reason(k, FT_NONE_U32));
	assert_string_equal(ft_kernel_reset_reason(k, 1), "NO_SOCKET");
	assert_null(ft_kernel_reset_reason(k, FT_NONE_U32));
	ft_kernel_free(k);
}

/* The number of the subsystem in the upper half; openvswitch repeats its base as a first value. */
static void test_subsystems(void **state)
{
	struct ft_kernel *k = NULL;
	struct btf *module;

	(void)state;
	module = btf__new_empty_split(types);
	btf__add_enum(module, "ovs_drop_reason", 4);
	btf__add_enum_value(module, "__OVS_DROP_REASON", SUBSYS);
	btf__add_enum_value(module, "OVS_DROP_LAST_ACTION", SUBSYS + 1);
	btf__add_enum(module, "drop_reason_of_nobody", 4);
	btf__add_enum_value(module, "NOBODY", SUBSYS + 2);
	btf__add_enum(module, "_drop_reason", 4);
	btf__add_enum_value(module, "NAMELESS", SUBSYS + 3);
	assert_int_equal(ft_kernel_new(&k, types), 0);
	assert_int_equal(ft_kernel_subsys_drops(k, types, 1), 0);
	assert_int_equal(ft_kernel_subsys_drops(k, module, btf__type_cnt(types)), 0);
	assert_string_equal(ft_kernel_drop_reason(k, SUBSYS + 1), "OVS_DROP_LAST_ACTION");
	assert_null(ft_kernel_drop_reason(k, SUBSYS + 2));
	assert_null(ft_kernel_drop_reason(k, SUBSYS + 3));
	assert_string_equal(ft_kernel_drop_reason(k, 64), "QDISC_DROP");
	ft_kernel_free(k);
	btf__free(module);
}

/* A kernel before 5.17 has neither. */
static void test_old(void **state)
{
	struct btf *old = btf__new_empty();
	struct ft_kernel *k = NULL;

	(void)state;
	assert_int_equal(ft_kernel_new(&k, old), 0);
	assert_null(ft_kernel_drop_reason(k, 2));
	assert_null(ft_kernel_reset_reason(k, 1));
	ft_kernel_free(k);
	btf__free(old);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_core, setup, teardown),
		cmocka_unit_test_setup_teardown(test_subsystems, setup, teardown),
		cmocka_unit_test(test_old),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What is told from a kernel's BTF, on BTF that the test makes: of 5.15, of 6.1 and of 6.18. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/btf.h>

#include "source/loader.h"

#define SUBSYS (200 << 16) /* of no kernel yet: the running one is asked, too */

static void add_reasons(struct btf *btf)
{
	static const char *const names[] = {
		"SKB_NOT_DROPPED_YET",
		"SKB_CONSUMED",
		"SKB_DROP_REASON_NOT_SPECIFIED",
		"SKB_DROP_REASON_NO_SOCKET",
		"SKB_DROP_REASON_NETFILTER_DROP",
		"SKB_DROP_REASON_TCP_OLD_DATA",
	};

	assert_true(btf__add_enum(btf, "skb_drop_reason", 4) > 0);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_int_equal(btf__add_enum_value(btf, names[i], i), 0);
	/* neither a reason nor a place in any table */
	assert_int_equal(btf__add_enum_value(btf, "SKB_DROP_REASON_MAX", 6), 0);
	assert_int_equal(btf__add_enum_value(btf, "SKB_DROP_REASON_SUBSYS_MASK", -65536), 0);
	assert_int_equal(btf__add_enum_value(btf, "SKB_DROP_REASON_FAR", 1 << 20), 0);
}

/* As the kernel's DECLARE_TRACE makes it: a pointer to void fn(void *__data, args..). */
static void add_tracepoint(struct btf *btf, const char *name, int args)
{
	char typedef_name[64];
	int proto, ptr;

	proto = btf__add_func_proto(btf, 0);
	for (int i = 0; i <= args; i++)
		assert_int_equal(btf__add_func_param(btf, "x", 1), 0);
	ptr = btf__add_ptr(btf, proto);
	ft_fmt(typedef_name, "btf_trace_%s", name);
	assert_true(btf__add_typedef(btf, typedef_name, ptr) > 0);
}

static struct btf *btf_new(void)
{
	struct btf *btf = btf__new_empty();

	assert_non_null(btf);
	assert_int_equal(btf__add_int(btf, "int", 4, BTF_INT_SIGNED), 1);
	return btf;
}

static void test_old_kernel(void **state)
{
	struct btf *btf = btf_new();
	struct ft_cfg cfg = {};

	(void)state;
	add_tracepoint(btf, "kfree_skb", 2);
	add_tracepoint(btf, "tcp_retransmit_skb", 2);
	add_tracepoint(btf, "tcp_send_reset", 2);
	ft_features(btf, &cfg);
	assert_false(cfg.skb_has_reason || cfg.retransmit_err || cfg.reset_reason);
	assert_int_equal(cfg.self, getpid());
	btf__free(btf);
}

static void test_new_kernel(void **state)
{
	struct btf *btf = btf_new();
	struct ft_cfg cfg = {};

	(void)state;
	add_reasons(btf);
	add_tracepoint(btf, "kfree_skb", 4); /* rx_sk, 6.11 */
	add_tracepoint(btf, "tcp_retransmit_skb", 3);
	add_tracepoint(btf, "tcp_send_reset", 3);
	ft_features(btf, &cfg);
	assert_true(cfg.skb_has_reason && cfg.retransmit_err && cfg.reset_reason);
	btf__free(btf);
}

/* Some stable kernels have the enum before the tracepoint has the argument, or the reverse. */
static void test_half_backported(void **state)
{
	struct btf *only_enum = btf_new(), *only_argument = btf_new();
	struct ft_cfg cfg = {};

	(void)state;
	add_reasons(only_enum);
	add_tracepoint(only_enum, "kfree_skb", 2);
	ft_features(only_enum, &cfg);
	assert_false(cfg.skb_has_reason);
	add_tracepoint(only_argument, "kfree_skb", 3);
	ft_features(only_argument, &cfg);
	assert_false(cfg.skb_has_reason);
	btf__free(only_enum);
	btf__free(only_argument);
}

/* pcie_update_link_speed(bus, u16) up to 6.12, (bus) later, (bus, enum) from 7.0 on. */
static void test_pcie(void **state)
{
	static const struct {
		int aer_args, link_args, link_size;
		bool advisory;
		uint32_t bus_type, status_arg, tells_advisory;
	} cases[] = {
		{ 5, 2, 2, false, 0, 1, 0 },
		{ 5, 1, 0, false, 0, 0, 0 },
		{ 6, 2, 4, true, 1, 0, 1 },
		{ 0, 0, 0, false, 0, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct btf *btf = btf_new();
		struct ft_cfg cfg = {};
		int size = cases[i].link_size, arg = 1, proto;

		if (cases[i].aer_args)
			add_tracepoint(btf, "aer_event", cases[i].aer_args);
		if (size)
			arg = btf__add_int(btf, size == 2 ? "u16" : "u32", size, 0);
		proto = btf__add_func_proto(btf, 0);
		for (int n = 0; n < cases[i].link_args; n++)
			btf__add_func_param(btf, "x", n ? arg : 1);
		if (cases[i].link_args)
			btf__add_func(btf, "pcie_update_link_speed", BTF_FUNC_GLOBAL, proto);
		if (cases[i].advisory)
			btf__add_func(btf, "aer_get_uncor_info", BTF_FUNC_STATIC, proto);
		ft_features(btf, &cfg);
		assert_int_equal(cfg.aer_bus_type, cases[i].bus_type);
		assert_int_equal(cfg.link_status_arg, cases[i].status_arg);
		assert_int_equal(cfg.aer_tells_advisory, cases[i].tells_advisory);
		btf__free(btf);
	}
}

static void test_drop_classes(void **state)
{
	struct btf *btf = btf_new();
	struct ft_cfg cfg = {};
	const uint8_t expected[] = {
		FT_DROP_ORDINARY, FT_DROP_ORDINARY, FT_DROP_UNNAMED, FT_DROP_ORDINARY, 0,
		FT_DROP_ORDINARY
	};

	(void)state;
	add_reasons(btf);
	ft_features(btf, &cfg);
	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_int_equal(cfg.drop_class[i], expected[i]);
	for (size_t i = ARRAY_SIZE(expected); i < sizeof(cfg.drop_class); i++)
		assert_int_equal(cfg.drop_class[i], 0);
	btf__free(btf);
}

static void test_drop_reasons(void **state)
{
	struct btf *with = btf_new(), *without = btf_new();
	struct ft_kernel *k;

	(void)state;
	add_reasons(with);
	assert_int_equal(ft_kernel_new(&k, with), 0);
	assert_string_equal(ft_kernel_drop_reason(k, 1), "CONSUMED");
	assert_string_equal(ft_kernel_drop_reason(k, 4), "NETFILTER_DROP");
	assert_null(ft_kernel_drop_reason(k, 7));
	assert_null(ft_kernel_drop_reason(k, UINT32_MAX));
	ft_kernel_free(k);
	assert_int_equal(ft_kernel_new(&k, without), 0);
	assert_null(ft_kernel_drop_reason(k, 0));
	ft_kernel_free(k);
	ft_kernel_free(NULL);
	btf__free(with);
	btf__free(without);
}

/* The number of the subsystem in the upper half; openvswitch repeats its base as a first value. */
static void test_subsystems(void **state)
{
	struct btf *types = btf_new(), *module;
	struct ft_kernel *k = NULL;

	(void)state;
	add_reasons(types);
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
	assert_string_equal(ft_kernel_drop_reason(k, 4), "NETFILTER_DROP");
	ft_kernel_free(k);
	btf__free(module);
	btf__free(types);
}

static void test_reset_reasons(void **state)
{
	struct btf *btf = btf_new();
	struct ft_kernel *k;

	(void)state;
	btf__add_enum(btf, "sk_rst_reason", 4);
	btf__add_enum_value(btf, "SK_RST_REASON_NO_SOCKET", 1);
	assert_int_equal(ft_kernel_new(&k, btf), 0);
	assert_string_equal(ft_kernel_reset_reason(k, 1), "NO_SOCKET");
	assert_null(ft_kernel_reset_reason(k, 2));
	assert_null(ft_kernel_reset_reason(k, UINT32_MAX));
	ft_kernel_free(k);
	btf__free(btf);
}

static void test_targets(void **state)
{
	struct btf *btf = btf_new();
	int proto;

	(void)state;
	add_tracepoint(btf, "kfree_skb", 3);
	proto = btf__add_func_proto(btf, 1);
	assert_true(btf__add_func(btf, "bpf_iter_task_file", BTF_FUNC_GLOBAL, proto) > 0);
	assert_true(ft_target_id(btf, "tp_btf/kfree_skb") > 0);
	assert_int_equal(ft_target_id(btf, "tp_btf/kfree"), -ENOENT);
	assert_true(ft_target_id(btf, "iter/task_file") > 0);
	assert_int_equal(ft_target_id(btf, "iter/task"), -ENOENT);
	assert_true(btf__add_func(btf, "dpc_process_error", BTF_FUNC_STATIC, proto) > 0);
	assert_true(ft_target_id(btf, "fentry/dpc_process_error") > 0);
	assert_true(ft_target_id(btf, "fexit/dpc_process_error") > 0);
	assert_true(ft_target_id(btf, "kprobe/dpc_process_error") > 0);
	assert_int_equal(ft_target_id(btf, "fentry/dpc"), -ENOENT);
	assert_int_equal(ft_target_id(btf, "kprobe/dpc"), -ENOENT);
	/* not a matter of BTF */
	assert_int_equal(ft_target_id(btf, "uprobe/x"), 0);
	btf__free(btf);
}

/* By the kernel's own list; it shows no addresses without CAP_SYSLOG. */
static void test_symbol(void **state)
{
	_cleanup_file_ FILE *f = fopen("/proc/kallsyms", "re");
	struct btf *btf = btf_new();
	unsigned long long addr = 0, at;
	struct ft_kernel *k;
	char line[512], name[256];

	(void)state;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %*c %255s", &at, name) == 2 && !strcmp(name, "tcp_v4_rcv"))
			addr = at;
	assert_int_equal(ft_kernel_new(&k, btf), 0);
	if (!addr) {
		assert_string_equal(ft_kernel_symbol(k, 0xffffffff81000000), "");
	} else {
		assert_string_equal(ft_kernel_symbol(k, addr), "tcp_v4_rcv");
		assert_string_equal(ft_kernel_symbol(k, addr + 8), "tcp_v4_rcv");
		assert_string_not_equal(ft_kernel_symbol(k, addr - 1), "tcp_v4_rcv");
		assert_string_equal(ft_kernel_symbol(k, 1), "");
	}
	ft_kernel_free(k);
	btf__free(btf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_kernel),	cmocka_unit_test(test_new_kernel),
		cmocka_unit_test(test_half_backported), cmocka_unit_test(test_drop_classes),
		cmocka_unit_test(test_drop_reasons),	cmocka_unit_test(test_targets),
		cmocka_unit_test(test_symbol),		cmocka_unit_test(test_subsystems),
		cmocka_unit_test(test_reset_reasons),	cmocka_unit_test(test_pcie),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

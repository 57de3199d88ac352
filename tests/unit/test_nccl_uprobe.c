// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <sys/syscall.h>

#include "nccl_lib.h"
#include "source/uprobe.h"

static const char *const kinds[] = { "uprobe.multi", "uretprobe.multi", "uprobe", "uretprobe" };

/* Each kind either works or says why not, and says the same when it is asked again. */
static void test_usable(void **state)
{
	char reason[160], again[160];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint64_t begin = ft_mono_ns();
		int err;

		reason[0] = again[0] = 0;
		err = ft_uprobe_usable(kinds[i], reason, sizeof(reason));
		print_message("%s: %s %s (%.1f ms)\n", kinds[i], err ? "off" : "on", reason,
			      (ft_mono_ns() - begin) / 1e6);
		assert_true(err <= 0 && !err == !reason[0]);
		assert_int_equal(ft_uprobe_usable(kinds[i], again, sizeof(again)), err);
		assert_string_equal(reason, again);
	}
}

static void test_resolve(void **state)
{
	struct ft_probe probes[] = {
		{ .object = "nccl", .program = "x_multi", .attach = "uprobe.multi/f" },
		{ .object = "nccl", .program = "x", .attach = "uprobe/f" },
		{ .object = "tcp", .program = "y", .attach = "tp_btf/y" },
	};

	(void)state;
	ft_uprobe_resolve(probes, ARRAY_SIZE(probes));
	assert_true(ft_uprobe_row_multi(&probes[0]) && !ft_uprobe_row_multi(&probes[1]));
	assert_true(ft_uprobe_row(&probes[1]) && !ft_uprobe_row(&probes[2]));
	if (!probes[0].error)
		assert_int_equal(probes[1].state, FT_PROBE_UNNEEDED);
	else
		assert_true(probes[0].reason[0]);
	assert_int_equal(probes[2].state, FT_PROBE_OFF);
	assert_int_equal(probes[2].error, 0);
}

static int load_empty(bool multi)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	DECLARE_LIBBPF_OPTS(bpf_prog_load_opts, opts,
			    .expected_attach_type =
				    (enum bpf_attach_type)(multi ? FT_BPF_TRACE_UPROBE_MULTI : 0));

	return bpf_prog_load(BPF_PROG_TYPE_KPROBE, "empty", "Dual BSD/GPL", insns, 2, &opts);
}

/* What the kernel refuses leaves nothing behind; the right place attaches. */
static void attach_kind(bool multi)
{
	const char *path = lib_make("probed.so", LIB_BOTH("AllReduce"), "");
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC), prog = load_empty(multi);
	struct ft_nccl_image img;
	uint64_t cookies[2] = { 1, 2 }, offsets[2] = { 0, 1ull << 40 };
	struct ft_uprobe_set set = { .pid = getpid(),
				     .fd = fd,
				     .n = 2,
				     .offsets = offsets,
				     .cookies = cookies,
				     .multi = multi };
	struct ft_uprobe_links links = {};
	bool no_cookies = false;

	assert_true(prog >= 0);
	assert_int_equal(lib_read(path, &img), 0);
	offsets[0] = img.syms[0].offset;
	assert_true(ft_uprobe_attach(prog, &set, &links, &no_cookies) < 0);
	assert_int_equal(links.n, 0);
	set.n = 1;
	assert_int_equal(ft_uprobe_attach(prog, &set, &links, &no_cookies), 0);
	assert_int_equal(links.n, 1);
	ft_uprobe_detach(&links);
	assert_int_equal(links.n, 0);
	ft_uprobe_detach(&links);
	set.pid = 0x3ffffff;
	assert_true(ft_uprobe_attach(prog, &set, &links, &no_cookies) < 0);
}

static void test_attach_multi(void **state)
{
	char reason[160];

	(void)state;
	if (ft_uprobe_usable("uprobe.multi", reason, sizeof(reason)))
		skip();
	attach_kind(true);
}

static void test_attach_perf(void **state)
{
	char reason[160];

	(void)state;
	if (ft_uprobe_usable("uprobe", reason, sizeof(reason)))
		skip();
	attach_kind(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_usable),
		cmocka_unit_test(test_resolve),
		cmocka_unit_test(test_attach_multi),
		cmocka_unit_test(test_attach_perf),
	};

	return cmocka_run_group_tests(tests, lib_dir_make, lib_dir_remove);
}

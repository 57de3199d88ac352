// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What a dropped packet costs, by the kernel's run-time statistics: switches them on, attaches a
 * program that does nothing to the same tracepoint, and for each line on standard input prints
 * "id name run_time_ns run_cnt" of every loaded program that has run, then an empty line. The
 * statistics and the program end with this process, however it ends.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <err.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRACEPOINT "kfree_skb"

static void attach_empty(void)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	DECLARE_LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	int fd, id = libbpf_find_vmlinux_btf_id(TRACEPOINT, BPF_TRACE_RAW_TP);

	if (id < 0)
		errx(1, "no tracepoint " TRACEPOINT ": %s", strerror(-id));
	opts.attach_btf_id = id;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "Dual BSD/GPL", insns, 2, &opts);
	if (fd < 0)
		err(1, "cannot load an empty program");
	if (bpf_raw_tracepoint_open(NULL, fd) < 0)
		err(1, "cannot attach to " TRACEPOINT);
}

static void print_program(__u32 id)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);
	int fd = bpf_prog_get_fd_by_id(id);

	if (fd < 0)
		return; /* unloaded meanwhile */
	if (!bpf_obj_get_info_by_fd(fd, &info, &size) && info.run_cnt)
		printf("%u %s %llu %llu\n", id, *info.name ? info.name : "-",
		       (unsigned long long)info.run_time_ns, (unsigned long long)info.run_cnt);
	close(fd);
}

int main(void)
{
	char line[64];
	__u32 id;

	if (bpf_enable_stats(BPF_STATS_RUN_TIME) < 0)
		err(1, "cannot enable BPF statistics");
	attach_empty();
	while (fgets(line, sizeof(line), stdin)) {
		for (id = 0; !bpf_prog_get_next_id(id, &id);)
			print_program(id);
		putchar('\n');
		fflush(stdout);
	}
	return 0;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The probe table: every program, what it gives and what is not seen without it. */
#include "source/loader.h"

static const struct ft_probe table[] = {
	{ .object = "proc", .program = "proc_fork", .attach = "tp_btf/sched_process_fork", .what = "proc.start",
	  .cost = "per fork", .required = true, .hides = "children of traced processes" },
	{ .object = "proc", .program = "proc_exec", .attach = "tp_btf/sched_process_exec", .what = "proc.start",
	  .cost = "per exec", .hides = "what traced processes execute" },
	{ .object = "proc", .program = "proc_exit", .attach = "tp_btf/sched_process_exit", .what = "proc.exit",
	  .cost = "per exit", .required = true, .hides = "the end of ranks, with status or signal" },
	{ .object = "tcp", .program = "tcp_set_state", .attach = "tp_btf/inet_sock_set_state", .what = "tcp.state",
	  .cost = "per connection", .required = true,
	  .hides = "owners of new TCP sockets: their retransmissions, resets and drops" },
	{ .object = "tcp", .program = "tcp_retransmit", .attach = "tp_btf/tcp_retransmit_skb", .what = "tcp.retransmit",
	  .cost = "per retransmission", .hides = "TCP retransmissions" },
	{ .object = "tcp", .program = "tcp_retransmit_synack", .attach = "tp_btf/tcp_retransmit_synack",
	  .what = "tcp.retransmit", .cost = "per retransmission", .hides = "retransmitted SYN-ACKs" },
	{ .object = "tcp", .program = "tcp_receive_reset", .attach = "tp_btf/tcp_receive_reset", .what = "tcp.reset",
	  .cost = "per reset", .hides = "received resets" },
	{ .object = "tcp", .program = "tcp_send_reset", .attach = "tp_btf/tcp_send_reset", .what = "tcp.reset",
	  .cost = "per reset", .hides = "sent resets" },
	{ .object = "tcp", .program = "sock_iter", .attach = "iter/task_file", .what = "inv.sock", .cost = "once",
	  .hides = "owners of sockets that were open before the attach, and of accepted ones" },
	{ .object = "net", .program = "net_drop", .attach = "tp_btf/kfree_skb", .what = "net.drop",
	  .cost = "per dropped packet", .hides = "packets dropped in the kernel" },
	{ .object = "net", .program = "net_tx_timeout", .attach = "tp_btf/net_dev_xmit_timeout",
	  .what = "net.tx_timeout", .cost = "none", .hides = "hung transmit queues" },
	{ .object = "nccl", .program = "nccl_enter_multi", .attach = "uprobe.multi/NCCL calls", .what = "nccl.stats",
	  .cost = "per NCCL call", .hides = "NCCL calls: operations, sizes, progress" },
	{ .object = "nccl", .program = "nccl_enter", .attach = "uprobe/NCCL calls", .what = "nccl.stats",
	  .cost = "per NCCL call", .hides = "NCCL calls: operations, sizes, progress" },
	{ .object = "nccl", .program = "nccl_return_multi", .attach = "uretprobe.multi/NCCL init calls",
	  .what = "nccl.comm", .cost = "per communicator",
	  .hides = "ranks of communicators made from now on, results of NCCL calls" },
	{ .object = "nccl", .program = "nccl_return", .attach = "uretprobe/NCCL init calls", .what = "nccl.comm",
	  .cost = "per communicator", .hides = "ranks of communicators made from now on, results of NCCL calls" },
	{ .object = "", .program = "mmap2", .attach = "perf/new mappings", .what = "nccl.lib",
	  .cost = "per executable mapping", .hides = "NCCL libraries within a second of their loading" },
	{ .object = "", .program = "rtnetlink", .attach = "netlink/interfaces", .what = "net.link", .cost = "per change",
	  .hides = "carrier and speed of interfaces" },
};

struct ft_probe *ft_probe_table(size_t *n)
{
	struct ft_probe *copy = malloc(sizeof(table));

	if (!copy)
		return NULL;
	memcpy(copy, table, sizeof(table));
	*n = ARRAY_SIZE(table);
	return copy;
}

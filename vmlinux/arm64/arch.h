/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Registers at a uprobe, arm64: a fixed ABI, no CO-RE. */
struct user_pt_regs {
	__u64 regs[31];
	__u64 sp, pc, pstate;
};
struct pt_regs {
	struct user_pt_regs user_regs;
};

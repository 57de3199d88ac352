/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Registers at a uprobe, x86-64: a fixed ABI, no CO-RE. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The table of causes. */
#include "diagnose/internal.h"

const struct rule rules[R_MAX] = {
	[R_DIED] = {
		.kind = "rank-died",
		.title = "rank died",
		.weight = 80,
		.settle_ns = UINT64_MAX / 2,
		.watch = "proc.exit",
		.clean = "dead rank",
		.next = {
			"read the log of that rank; if it happens again, leave out that GPU or node",
		},
	},
	[R_TX_TIMEOUT] = {
		.kind = "tx-timeout",
		.title = "transmit queue hung",
		.weight = 70,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "net.tx_timeout",
		.clean = "hung transmit queue",
		.next = {
			"dmesg | grep -i 'transmit queue'; driver and firmware of the NIC",
			"drain the node; restart the job without it",
		},
	},
	[R_LINK_DOWN] = {
		.kind = "link-down",
		.title = "link lost its carrier",
		.weight = 70,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "net.link",
		.clean = "carrier loss",
		.next = {
			"drain the node if it happens again",
		},
	},
	[R_LINK_SPEED] = {
		.kind = "link-slow",
		.title = "link runs slower than before",
		.weight = 60,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "net.link",
		.clean = "slower link",
	},
	[R_LOSS] = {
		.kind = "lossy-link",
		.title = "link loses packets",
		.weight = 50,
		.settle_ns = 60 * NSEC_PER_SEC,
		.watch = "tcp.retransmit",
		.clean = "packet loss",
		.next = {
			"check cable, transceiver and switch port of that link; drain the node if it stays",
		},
	},
	[R_RESET] = {
		.kind = "tcp-reset",
		.title = "connections were reset",
		.weight = 40,
		.settle_ns = 60 * NSEC_PER_SEC,
		.watch = "tcp.reset",
		.clean = "reset connections",
		.next = {
			"look for a firewall or load balancer with an idle time-out between the two",
			"read the logs of both ranks at that time",
		},
	},
	[R_NCCL] = {
		.kind = "nccl-error",
		.title = "NCCL call failed",
		.weight = 30,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "nccl.comm",
		.clean = "failed NCCL init",
		.next = {
			"run the rank with NCCL_DEBUG=WARN for NCCL's own words",
		},
	},
	[R_GONE] = {
		.kind = "pcie-device-gone",
		.title = "device gone from the bus",
		.weight = 95,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "pcie.link",
		.next = {
			"drain the node and restart the job without it; a reset or a power cycle may bring it "
			"back, then reseat or replace the card or riser",
		},
	},
	[R_XID] = {
		.kind = "gpu-xid",
		.title = "GPU error (Xid)",
		.weight = 85,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "gpu.xid",
		.clean = "Xid",
		.next = {
			"nvidia-smi -q -i GPU (ECC, row remapping); drain the node if the Xid is the hardware's",
		},
	},
	[R_PCIE_SLOW] = {
		.kind = "pcie-link-degraded",
		.title = "PCIe link below what it can do",
		.weight = 75,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "pcie.link",
		.clean = "PCIe links",
		.next = {
			"drain the node; restart the job without it; reseat or replace the riser, retimer or "
			"card of that slot",
		},
	},
	[R_PCIE_ERRORS] = {
		.kind = "pcie-errors",
		.title = "PCIe errors",
		.weight = 65,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "pcie.aer",
		.or_watch = "pcie.counter",
		.clean = "PCIe errors",
		.next = {
			"reseat the card or riser of that slot at the next chance; drain the node if the rate "
			"grows or the link slows down",
		},
	},
	[R_PCIE_FLAP] = {
		.kind = "pcie-link-flapping",
		.title = "PCIe link changes its speed or width again and again",
		.weight = 62,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "pcie.link",
		.next = {
			"drain the node if the job is slow; reseat or replace the riser, retimer or card of "
			"that slot",
		},
	},
	[R_NVLINK] = {
		.kind = "nvlink-errors",
		.title = "NVLink errors",
		.weight = 61,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "gpu.nvlink",
		.clean = "NVLink errors",
		.next = {
			"nvidia-smi nvlink -e; nvidia-smi nvlink -s; drain the node if the link is down",
		},
	},
	[R_SLOWDOWN] = {
		.kind = "gpu-throttled",
		.title = "GPU clocks are throttled",
		.weight = 60,
		.settle_ns = 60 * NSEC_PER_SEC,
		.watch = "gpu.clocks",
		.clean = "GPU throttling",
		.next = {
			"nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER; check cooling and power supplies",
		},
	},
	[R_DEV_LOG] = {
		.kind = "device-trouble",
		.title = "trouble of a device by the kernel log",
		.weight = 35,
		.settle_ns = 300 * NSEC_PER_SEC,
		.watch = "gpu.xid",
		.next = {
			"dmesg -T; firmware and power cabling of that card",
		},
	},
};

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Configuration and map layouts that BPF programs and the loader share. */
#ifndef FT_SHARED_H
#define FT_SHARED_H

#include "include/ft_event.h"

/* Bounds. What does not fit is counted in ft_lost. */
#define FT_MAX_PROCS  16384
#define FT_MAX_TUPLES 65536
#define FT_MAX_NETNS  1024
#define FT_MAX_AGG    16384

/* Beyond so many records of one key in one second the rest is counted only. */
#define FT_STORM_RECORDS 50

/*
 * With --collectives the reader looks into the ring so often, whether it is woken or not: well
 * within the time that records are held back for order.
 */
#define FT_DRAIN_MS 10

/* Every record. */
union ft_any_rec {
	struct ft_hdr h;
#define N(value, name)
#define EVENT(number, id, name, severity, doc, fields) struct ft_ev_##id id;
#include "schema/events.def"
#undef N
};

/* Constant of an object, in .rodata.cfg, set before the load. */
struct ft_cfg {
	__u64 storm_window_ns;
	__u32 storm_records;
	__u32 all_procs;	  /* -a: no filter by process */
	__u32 follow;		  /* children are traced too */
	__u32 skb_has_reason;	  /* kfree_skb tells why */
	__u32 retransmit_err;	  /* tcp_retransmit_skb has a third argument (6.17) */
	__u32 reset_reason;	  /* tcp_send_reset has a third argument (6.12) */
	__u32 collectives;	  /* one record per NCCL call */
	__u32 self;		  /* the tracer's own tgid */
	__u32 aer_bus_type;	  /* aer_event has a sixth argument (7.0) */
	__u32 aer_tells_advisory; /* of an advisory non-fatal error also which it was (7.3) */
	__u32 link_status_arg;	  /* pcie_update_link_speed is given Link Status (up to 6.12) */
	__u8 drop_class[512];	  /* enum ft_drop_class by core drop reason */
	/*
	 * No bytes: puts all layouts into each object's BTF, where a test compares them with the
	 * table.
	 */
	union ft_any_rec layouts[0];
};

enum ft_drop_class {
	FT_DROP_FAULT = 0,    /* listed */
	FT_DROP_ORDINARY = 1, /* only counted */
	FT_DROP_UNNAMED = 2,  /* the kernel gives no reason: listed on traced sockets alone */
};

/* Of a pcie.aer record, in `bus`. */
enum ft_aer_bus {
	FT_AER_BUS_PCIE = 1,
	FT_AER_BUS_CXL = 2,
	FT_AER_FLIT = 1 << 7, /* the header is that of a packet in flit mode */
};

/* Of a traced process, key: tgid. */
struct ft_proc {
	__u64 start_ns; /* boot time clock */
	__u32 ppid;
	__u32 reserved;
};

/* Owner of a socket. */
struct ft_owner {
	__u64 start_ns;
	__u32 pid;
	__u32 how;
	__u32 flags; /* FT_REC_SHARED */
	union {
		__u32 retrans; /* of a socket: its total_retrans when last seen */
		__u32 sockets; /* of a listener's tuple: how many of them have it */
	};
	__u32 dups, timeouts; /* of a socket: as last told */
	char task[16];
};

/* Local and remote end of a traced socket, seen from its owner; rport 0: a listener. */
struct ft_tuple {
	ft_ip laddr, raddr;
	__u32 netns;
	__u16 lport, rport;
	__u32 proto;
	__u32 reserved;
};

/* Key of a storm: what makes two events the same line. */
struct ft_agg_key {
	__u64 a, b, c;
	__u32 pid;
	__u16 kind;
	__u16 reserved;
};

#define FT_AGG_SUMS 2 /* FS fields of a kind, in their order */

/* Kinds that a storm can come of. */
#define FT_AGG_KINDS(X) X(tcp_retransmit) X(tcp_reset) X(tcp_state) X(net_drop) X(pcie_aer)
union ft_agg_rec {
	struct ft_hdr h;
#define X(id) struct ft_ev_##id id;
	FT_AGG_KINDS(X)
#undef X
};

struct ft_agg {
	__u64 window_ns;
	__u64 window_n;
	/* counted instead of sent; only ever growing, the reader differences */
	__u64 count, sums[FT_AGG_SUMS];
	__u64 first_ns, last_ns; /* of the counted ones */
	union ft_agg_rec rec;	 /* a sample, for the fields that the key fixes */
};

/* Per-kind counters, one slot per CPU. */
struct ft_counts {
	__u64 lost;	/* the ring buffer was full */
	__u64 map_full; /* a map was full */
	__u64 ignored;	/* ordinary: counted, not listed */
};

#endif

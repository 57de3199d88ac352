/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The NCCL functions that are probed, where their arguments are, and the counters of their calls:
 * what the NCCL programs and user code share.
 */
#ifndef FT_NCCL_H
#define FT_NCCL_H

#include "include/ft_shared.h"

#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
#define FT_NCCL_REGS 6 /* integer arguments in registers, the rest on the stack */
/*
 * ncclUniqueId (128 bytes) by value: x86-64 puts it on the stack and no register is used up, arm64
 * passes a pointer to a copy in the register of its turn.
 */
#define FT_NCCL_BYVAL 0
#else
#define FT_NCCL_REGS  8
#define FT_NCCL_BYVAL 1
#endif

/* The nth integer argument, n from 0. In the table 0 is "has no such argument". */
#define FT_ARG(n) ((n) + 1)
/* The same, n counted without an ncclUniqueId that goes by value before it. */
#define FT_ARGV(n) ((n) + 1 + FT_NCCL_BYVAL)

enum ft_nccl_class {
	FT_NCCL_CALL = 1, /* works on a communicator: counted */
	FT_NCCL_GROUP,	  /* has no communicator: seen only with --collectives */
	FT_NCCL_INIT,	  /* makes communicators: its return value is needed */
	FT_NCCL_END,	  /* ends a communicator */
};

enum ft_nccl_id {
	FT_NCCL_ID_NONE,
	FT_NCCL_ID_STACK,   /* by value: x86-64 [rsp+8], arm64 pointer in x2 */
	FT_NCCL_ID_POINTER, /* a pointer to it */
};

/* Argument positions (FT_ARG) of a function, from NCCL's public nccl.h, tags v2.18.1 to v2.30.7. */
struct ft_nccl_fn {
	__u8 op; /* format nccl_op of events.def */
	__u8 cls;
	__u8 count, dtype, peer, comm, stream;
	__u8 buf; /* only to tell an ncclBroadcast called by ncclBcast */
	__u8 newcomm, nranks, rank, color, devlist;
	__u8 id_how, id;
};

/*
 * FN(number, name, op, class, arguments). Numbers are those of nccl_op, so that a recording and the
 * probe's cookie agree; ncclBcast (24) is a Broadcast in every record.
 * ncclCommShrink is in 2.27+, AlltoAll, Gather, Scatter in 2.28+, CommRevoke in 2.28.7+,
 * CommGrow in 2.29+, CommInitRankScalable in 2.23+.
 */
#define FT_NCCL_FNS                                                                                \
	FN(1, AllReduce, 1, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .comm = FT_ARG(5),       \
	   .stream = FT_ARG(6))                                                                    \
	FN(2, ReduceScatter, 2, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .comm = FT_ARG(5),   \
	   .stream = FT_ARG(6))                                                                    \
	FN(3, AllGather, 3, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .comm = FT_ARG(4),       \
	   .stream = FT_ARG(5))                                                                    \
	FN(4, AlltoAll, 4, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .comm = FT_ARG(4),        \
	   .stream = FT_ARG(5))                                                                    \
	FN(5, Broadcast, 5, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .peer = FT_ARG(4),       \
	   .comm = FT_ARG(5), .stream = FT_ARG(6), .buf = FT_ARG(0))                               \
	FN(6, Gather, 6, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .peer = FT_ARG(4),          \
	   .comm = FT_ARG(5), .stream = FT_ARG(6))                                                 \
	FN(7, Scatter, 7, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .peer = FT_ARG(4),         \
	   .comm = FT_ARG(5), .stream = FT_ARG(6))                                                 \
	FN(8, Reduce, 8, CALL, .count = FT_ARG(2), .dtype = FT_ARG(3), .peer = FT_ARG(5),          \
	   .comm = FT_ARG(6), .stream = FT_ARG(7))                                                 \
	FN(9, Send, 9, CALL, .count = FT_ARG(1), .dtype = FT_ARG(2), .peer = FT_ARG(3),            \
	   .comm = FT_ARG(4), .stream = FT_ARG(5))                                                 \
	FN(10, Recv, 10, CALL, .count = FT_ARG(1), .dtype = FT_ARG(2), .peer = FT_ARG(3),          \
	   .comm = FT_ARG(4), .stream = FT_ARG(5))                                                 \
	FN(11, GroupStart, 11, GROUP)                                                              \
	FN(12, GroupEnd, 12, GROUP)                                                                \
	FN(13, CommInitRank, 13, INIT, .newcomm = FT_ARG(0), .nranks = FT_ARG(1),                  \
	   .rank = FT_ARGV(2), .id_how = FT_NCCL_ID_STACK, .id = FT_ARG(2))                        \
	FN(14, CommInitRankConfig, 14, INIT, .newcomm = FT_ARG(0), .nranks = FT_ARG(1),            \
	   .rank = FT_ARGV(2), .id_how = FT_NCCL_ID_STACK, .id = FT_ARG(2))                        \
	FN(15, CommInitRankScalable, 15, INIT, .newcomm = FT_ARG(0), .nranks = FT_ARG(1),          \
	   .rank = FT_ARG(2), .id_how = FT_NCCL_ID_POINTER, .id = FT_ARG(4))                       \
	FN(16, CommInitAll, 16, INIT, .newcomm = FT_ARG(0), .nranks = FT_ARG(1),                   \
	   .devlist = FT_ARG(2))                                                                   \
	FN(17, CommSplit, 17, INIT, .comm = FT_ARG(0), .color = FT_ARG(1), .newcomm = FT_ARG(3))   \
	FN(18, CommShrink, 18, INIT, .comm = FT_ARG(0), .newcomm = FT_ARG(3))                      \
	FN(19, CommGrow, 19, INIT, .comm = FT_ARG(0), .nranks = FT_ARG(1), .rank = FT_ARG(3),      \
	   .newcomm = FT_ARG(4), .id_how = FT_NCCL_ID_POINTER, .id = FT_ARG(2))                    \
	FN(20, CommFinalize, 20, END, .comm = FT_ARG(0))                                           \
	FN(21, CommDestroy, 21, END, .comm = FT_ARG(0))                                            \
	FN(22, CommAbort, 22, END, .comm = FT_ARG(0))                                              \
	FN(23, CommRevoke, 23, END, .comm = FT_ARG(0))                                             \
	FN(24, Bcast, 5, CALL, .count = FT_ARG(1), .dtype = FT_ARG(2), .peer = FT_ARG(3),          \
	   .comm = FT_ARG(4), .stream = FT_ARG(5), .buf = FT_ARG(0))

enum ft_nccl_fn_nr {
#define FN(nr, name, op, cls, ...) FT_NCCL_##name = nr,
	FT_NCCL_FNS
#undef FN
		FT_NCCL_NFNS = 25, /* numbers are 1..24 */
};

/* Cookie of a probe. */
#define FT_NCCL_COOKIE_FN  0xffull
#define FT_NCCL_COOKIE_RET 0x100ull /* its return is probed too */

/* Where a kernel has no cookies (before 5.15): key by the address that was hit. */
struct ft_nccl_ip {
	__u64 ip;
	__u32 tgid;
	__u32 reserved;
};

#define FT_NCCL_OPS	    10 /* counted operations: nccl_op 1..10 */
#define FT_NCCL_MAX_KEYS    8192
#define FT_NCCL_INITALL_MAX 64

/*
 * Histogram of times: 8 slots an octave from 2^10 ns on, up to 2^37 ns (137 s), so that a quantile
 * is known to 6 %: a step that grows from 254 to 300 ms must show.
 */
#define FT_NCCL_SUB	8
#define FT_NCCL_LOG_MIN 10
#define FT_NCCL_LOG_MAX 37
#define FT_NCCL_SLOTS	((FT_NCCL_LOG_MAX - FT_NCCL_LOG_MIN) * FT_NCCL_SUB)

/* Process, communicator, operation. */
struct ft_nccl_key {
	__u64 start_ns;
	__u64 comm;
	__u32 tgid;
	__u32 op;
};

enum ft_nccl_stat_flag {
	FT_NCCL_BYTES_UNKNOWN = 1, /* a data type whose size is not known was used */
	FT_NCCL_ENDED = 2,	   /* destroyed or aborted */
};

/* Only ever growing; the reader differences. */
struct ft_nccl_stat {
	__u64 calls, bytes;
	__u64 last_entry_ns;
	/* The address was given to a new communicator: when, and the counters at that time. */
	__u64 init_ns, init_calls, init_bytes;
	__u32 flags;
	__u32 inits;
	__u32 period[FT_NCCL_SLOTS];
	__u32 enqueue[FT_NCCL_SLOTS];
};

#endif

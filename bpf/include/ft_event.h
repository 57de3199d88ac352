/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Records as they travel from the kernel (or a poller) to the output, made from events.def.
 * Included by BPF programs (after vmlinux.h) and by user code.
 */
#ifndef FT_EVENT_H
#define FT_EVENT_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#include <stddef.h>
#endif

#define FT_REC_MAX 4096 /* bytes of a record with its texts */

enum ft_flag {
	FT_REC_AGG = 1 << 0,	/* stands for several: FV fields are unknown */
	FT_REC_LATE = 1 << 1,	/* arrived after its place in the order had passed */
	FT_REC_BEFORE = 1 << 2, /* happened before the attach */
	FT_REC_SHARED = 1 << 3, /* more than the named process can be its owner */
};

/* Head of every record, 72 bytes. Times are CLOCK_MONOTONIC in ns. */
struct ft_hdr {
	__u64 ts_ns;	/* of the event; when count > 1 of the reading of the count */
	__u64 first_ns; /* of the first and the last one, 0 unless count > 1 */
	__u64 last_ns;
	__u64 start_ns; /* start of the process, boot time clock, 0 unknown */
	__u32 count;	/* events that the record stands for */
	__u32 how;	/* 1 << enum ft_how */
	__u32 pid;	/* process (tgid) in the initial pid namespace, 0 none known */
	__u32 tid;
	__u16 kind; /* enum ft_kind */
	__u16 size; /* bytes of the whole record */
	__u16 flags;
	__u16 reserved;
	char task[16]; /* name of the process's main thread or of the caller */
};

/* A text in the tail of the record: offset from the record's start; len 0 is unknown. */
struct ft_str {
	__u32 off;
	__u32 len;
};

typedef __u8 ft_u8;
typedef __u16 ft_u16;
typedef __u32 ft_u32;
typedef __u64 ft_u64;
typedef __s32 ft_s32;
typedef __s64 ft_s64;
typedef char ft_c16[16];
typedef __u8 ft_ip[16];
typedef struct ft_str ft_str;
typedef struct ft_str ft_strs;

enum ft_how {
#define HOW(bit, id, name, doc) FT_HOW_##id = bit,
#include "schema/how.def"
};
#define FT_HOW(id) (1u << FT_HOW_##id)

enum ft_kind {
#define EVENT(number, id, name, severity, doc, fields) FT_KIND_##id = number,
#include "schema/events.def"
	FT_KIND_MAX = 128, /* bound of per-kind tables */
};

#define N(value, name)
#define F(type, name, format, doc)  ft_##type name;
#define FS(type, name, format, doc) ft_##type name;
#define FV(type, name, format, doc) ft_##type name;
#define EVENT(number, id, name, severity, doc, fields)                                             \
	struct ft_ev_##id {                                                                        \
		struct ft_hdr h;                                                                   \
		fields                                                                             \
	};
#include "schema/events.def"
#undef F
#undef FS
#undef FV

/* No padding: what a BPF program leaves unset would leak kernel memory into a recording. */
#define F(type, name, format, doc)  +sizeof(ft_##type)
#define FS(type, name, format, doc) +sizeof(ft_##type)
#define FV(type, name, format, doc) +sizeof(ft_##type)
#define EVENT(number, id, name, severity, doc, fields)                                             \
	_Static_assert(sizeof(struct ft_ev_##id) == sizeof(struct ft_hdr) fields,                  \
		       #id " has padding");                                                        \
	_Static_assert(number > 0 && number < FT_KIND_MAX, #id " is out of range");
#include "schema/events.def"
#undef F
#undef FS
#undef FV
#undef N

_Static_assert(sizeof(struct ft_hdr) == 72, "head of a record");

#endif

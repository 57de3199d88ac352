/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Events: tables made from events.def, building and checking records, JSON, order in time. */
#ifndef FT_EVENT_EVENT_H
#define FT_EVENT_EVENT_H

#include "base/base.h"
#include "include/ft_event.h"

enum ft_severity { FT_INFO, FT_WARNING, FT_ERROR, FT_FATAL };

enum ft_type {
	FT_T_u8,
	FT_T_u16,
	FT_T_u32,
	FT_T_u64,
	FT_T_s32,
	FT_T_s64,
	FT_T_c16,
	FT_T_ip,
	FT_T_str,
	FT_T_strs
};

/* What a field is in a record that stands for several events. */
enum ft_role { FT_ROLE_KEY, FT_ROLE_SUM, FT_ROLE_VARIES };

struct ft_name {
	uint64_t value;
	const char *name;
};

struct ft_format {
	const char *name;
	const struct ft_name *names; /* NULL unless a list of names; ends with name NULL */
};

struct ft_field {
	const char *name; /* `a__b` is member b of object a in JSON */
	const char *doc;
	const struct ft_format *format;
	uint16_t off, size;
	uint8_t type, role;
};

struct ft_kind_info {
	const char *name; /* "tcp.retransmit" */
	const char *doc;
	enum ft_severity severity;
	uint16_t kind, size; /* size of the fixed part, head included */
	const struct ft_field *(*fields)(size_t *n);
};

/* Table entry, NULL when the number is not a kind. */
const struct ft_kind_info *ft_kind(unsigned int kind);
/* By name; NULL when there is none. */
const struct ft_kind_info *ft_kind_by_name(const char *name);
const struct ft_field *ft_field(const struct ft_kind_info *k, const char *name);
extern const char *const ft_severity_name[];
/* Name of a `how` bit, NULL past the last. */
const char *ft_how_name(unsigned int bit);
/* Name of a value in a list of names, NULL when it has none. */
const char *ft_value_name(const struct ft_format *f, uint64_t value);
extern const struct ft_format ft_format_tcp_state, ft_format_direction, ft_format_l4proto,
	ft_format_nccl_op, ft_format_nccl_dtype, ft_format_nccl_result, ft_format_probe_state,
	ft_format_confidence, ft_format_aer_class, ft_format_hotplug, ft_format_recovery,
	ft_format_gone;
const char *ft_name_of(const struct ft_format *f, uint64_t value); /* "?" instead of NULL */

/* What a drop reason of the kernel, by its name, says of the network. */
enum ft_drop_is {
	FT_DROP_IS_FAULT,    /* also every reason that is not known here */
	FT_DROP_IS_ORDINARY, /* the protocol's ordinary course: counted, not listed */
	FT_DROP_IS_ENDPOINT, /* the receiving socket's: listed, but no link is to blame */
};
enum ft_drop_is ft_drop_is(const char *reason);

/* --- records --- */
/*
 * Checks that buf holds one well-formed record of len bytes: known kind, sizes, every text inside
 * the tail. 0, -EPROTO (unknown kind), -EBADMSG (sizes or texts).
 */
int ft_rec_check(const void *buf, size_t len);

/* Numeric field widened; false when it is unknown (null). */
bool ft_field_get(const struct ft_field *f, const struct ft_hdr *ev, uint64_t *out);
/* Text of a str, strs or c16 field; length 0 when unknown. Not terminated. */
const char *ft_field_text(const struct ft_field *f, const struct ft_hdr *ev, size_t *len);
/* Text of a str/strs member, e.g. ft_str_get(&e->h, e->exe, &len). */
static inline const char *ft_str_get(const struct ft_hdr *ev, struct ft_str s, size_t *len)
{
	*len = s.len;
	return (const char *)ev + s.off;
}
/* Whether the member's text equals s. */
bool ft_str_is(const struct ft_hdr *ev, struct ft_str s, const char *text);
/* Copy with termination, cut at size; returns dst ("" when unknown). */
char *ft_str_copy(const struct ft_hdr *ev, struct ft_str s, char *dst, size_t size);

/* An address of either family as records have it, IPv4 mapped into IPv6; -EBADMSG. */
int ft_ip_parse(const char *text, uint8_t out[16]);

/* Builder: ft_rec_new() fills every field with its unknown value. */
struct ft_rec {
	union {
		struct ft_hdr h;
		char buf[FT_REC_MAX];
		uint64_t align;
	};
};
/*
 * Returns the typed record, e.g. struct ft_ev_net_link *e = ft_rec_new(&rec, FT_KIND_net_link, ts).
 */
void *ft_rec_new(struct ft_rec *rec, enum ft_kind kind, uint64_t ts_ns);
/* Appends a text; cut when the record is full. Set texts one field after the other. */
void ft_rec_str(struct ft_rec *rec, struct ft_str *field, const char *s);
/* Adds one element to a list; elements of one list must be added in a row. */
void ft_rec_strs_add(struct ft_rec *rec, struct ft_str *field, const char *s);

/* Unknown values. */
#define FT_NONE_U8  0xffu
#define FT_NONE_U16 0xffffu
#define FT_NONE_U32 0xffffffffu
#define FT_NONE_U64 0xffffffffffffffffull
#define FT_NONE_S32 ((int32_t)0x80000000)

/* --- attribution, filled by attrib/, printed by output/ --- */
#define FT_ATTR_MAX 16
struct ft_attr_rank {
	uint64_t comm;	     /* hash, 0 unknown */
	int32_t rank;	     /* in the communicator, -1 unknown */
	int32_t nranks;	     /* -1 unknown */
	int32_t global_rank; /* -1 unknown */
};
struct ft_attr_gpu {
	int32_t index; /* -1 unknown */
	char bdf[16];
};
struct ft_attr_nic {
	char netdev[16], ibdev[32], bdf[16];
	int32_t port;	/* -1 unknown */
	uint32_t netns; /* 0 unknown */
};
struct ft_attr {
	uint8_t nranks, ngpus, nnics, nlinks;
	bool shared;
	bool truncated; /* more than FT_ATTR_MAX were possible */
	bool ended;	/* the process had ended before, or does now; not in the JSON line */
	/*
	 * not in the JSON line: all ranks, those included for which there was no room; of a PCIe
	 * link or GPU the traced processes that use it, and the first of them
	 */
	uint32_t ranks_all, users, user_pid;
	uint32_t how;	  /* 1 << enum ft_how, the record's own bits included */
	uint8_t severity; /* enum ft_severity */
	char container[72];
	struct ft_attr_rank ranks[FT_ATTR_MAX];
	struct ft_attr_gpu gpus[FT_ATTR_MAX];
	struct ft_attr_nic nics[FT_ATTR_MAX];
	char links[FT_ATTR_MAX][16];
	/*
	 * the other end of the event's connection, where it is on this node; not in the JSON line
	 */
	uint8_t npeers;
	bool peer_sends;   /* the event's source address is the peer's */
	uint32_t peer_pid; /* 0 unknown */
	struct ft_attr_rank peers[FT_ATTR_MAX];
};

/* --- JSON --- */
/* One line without newline. attr may be NULL (nothing known). */
void ft_json_event(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr,
		   const char *host, const struct ft_clock *clock);
/*
 * The inverse: a line of ft_json_event() becomes a record and, unless attr is NULL, its
 * attribution. Times stay CLOCK_REALTIME, as if the monotonic clock had offset 0; tid and start_ns
 * are not in a line and stay 0. All of `how` comes back in the record's head. Members that the
 * schema does not know are ignored. 0, -EBADMSG (no JSON object, wrong types, numbers above
 * INT64_MAX), -EPROTO (unknown kind or version).
 */
int ft_json_parse(const char *line, size_t len, struct ft_rec *out, struct ft_attr *attr);
/* Only the `data` object. */
void ft_json_data(struct ft_buf *b, const struct ft_hdr *ev);
/* JSON Schema (2020-12) of all lines. */
void ft_json_schema(struct ft_buf *b);

/* --- order: holds records back for hold_ns and hands them on by time --- */
struct ft_order;
typedef void (*ft_sink_fn)(void *ctx, struct ft_hdr *ev);
int ft_order_new(struct ft_order **out, uint64_t hold_ns, size_t max_records, ft_sink_fn sink,
		 void *ctx);
void ft_order_free(struct ft_order *o);
#define FT_HOLD_NS (20 * NSEC_PER_MSEC)
/* So long after a retransmission it is asked whether it had been in vain (tcp.late). */
#define FT_LOOK_NS (200 * NSEC_PER_MSEC)
/*
 * Copies the record (checked before). Over max_records the oldest goes out early. A record from
 * before the attach (FT_REC_BEFORE) has its turn after all that was pushed until then. 0, -ENOMEM, or
 * ft_rec_check's.
 */
int ft_order_push(struct ft_order *o, const void *rec, size_t len);
/* Hands on what is older than now_ns - hold; UINT64_MAX: all. */
void ft_order_advance(struct ft_order *o, uint64_t now_ns);
/* Monotonic time at which the next one is due, UINT64_MAX when empty. */
uint64_t ft_order_due(const struct ft_order *o);

#endif

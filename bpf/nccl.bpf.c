// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * NCCL calls of traced processes: one program for the entry of every function, one for the return
 * where the return value is needed. A call is asynchronous: the time in it is enqueue time.
 */
#include "include/maps.bpf.h"
#include "include/ft_nccl.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

static const struct ft_nccl_fn fns[FT_NCCL_NFNS] = {
#define FN(nr, name, opnr, class, ...) [nr] = { .op = opnr, .cls = FT_NCCL_##class, ##__VA_ARGS__ },
	FT_NCCL_FNS
#undef FN
};

#define NONE_U64 (~0ull)
#define NONE_U32 (~0u)
#define NONE_S32 ((__s32)0x80000000)

#define UNIQUE_ID_BYTES 128
#define COMM_OPS_END	(FT_NCCL_OPS + 1)

/* A call that a thread is in. */
struct flight {
	__u64 start_ns; /* of the process: a dead thread's entry means nothing to its successor */
	__u64 sp, ts;
	__u64 comm, count, stream, buf, seq;
	__u64 newcomm, id_hash, devlist;
	__s32 rank, nranks, peer;
	__u32 color;
	__u32 dtype;
	__u8 fn, op, cls, ret;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct flight);
} nccl_flights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FT_NCCL_MAX_KEYS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ft_nccl_key);
	__type(value, struct ft_nccl_stat);
} nccl_stats SEC(".maps");

/* What had no room in nccl_stats, by operation. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, COMM_OPS_END);
	__type(key, __u32);
	__type(value, struct ft_nccl_stat);
} nccl_other SEC(".maps");

/* A fresh entry: too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ft_nccl_stat);
} nccl_zero SEC(".maps");

/* Cookies by address, where the kernel cannot attach them (before 5.15). */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ft_nccl_ip);
	__type(value, __u64);
} nccl_ips SEC(".maps");

enum bpf_func_id___ft {
	BPF_FUNC_get_attach_cookie___ft = 174,
};

static __always_inline __u64 cookie_of(struct pt_regs *ctx, __u32 tgid)
{
	struct ft_nccl_ip key = { .ip = PT_REGS_IP(ctx), .tgid = tgid };
	__u64 *cookie;

	/* 5.15+ */
	if (bpf_core_enum_value_exists(enum bpf_func_id___ft, BPF_FUNC_get_attach_cookie___ft))
		return bpf_get_attach_cookie(ctx);
	cookie = bpf_map_lookup_elem(&nccl_ips, &key);
	return cookie ? *cookie : 0;
}

/* Stack pointer at the entry of the function that has just returned: x86's ret pops the address. */
static __always_inline __u64 sp_of_entry(struct pt_regs *ctx)
{
	return PT_REGS_SP(ctx) - (FT_NCCL_BYVAL ? 0 : 8);
}

/* Integer arguments. Loaded one by one: an index into ctx that is no constant is refused. */
struct args {
	__u64 a[8];
};

#define ARG(reg)                                                                                   \
	({                                                                                         \
		__u64 v = (reg);                                                                   \
		barrier_var(v);                                                                    \
		v;                                                                                 \
	})

static __always_inline void args_load(struct args *args, struct pt_regs *ctx)
{
	args->a[0] = ARG(PT_REGS_PARM1(ctx));
	args->a[1] = ARG(PT_REGS_PARM2(ctx));
	args->a[2] = ARG(PT_REGS_PARM3(ctx));
	args->a[3] = ARG(PT_REGS_PARM4(ctx));
	args->a[4] = ARG(PT_REGS_PARM5(ctx));
#if FT_NCCL_REGS == 6
	__u64 stack[2] = { NONE_U64, NONE_U64 };

	/* libbpf before 1.2 has no PT_REGS_PARM6 */
	args->a[5] = ARG(ctx->r9);
	bpf_probe_read_user(stack, sizeof(stack), (void *)(PT_REGS_SP(ctx) + 8));
	args->a[6] = stack[0];
	args->a[7] = stack[1];
#else
	args->a[5] = ARG(((struct user_pt_regs *)ctx)->regs[5]);
	args->a[6] = ARG(((struct user_pt_regs *)ctx)->regs[6]);
	args->a[7] = ARG(((struct user_pt_regs *)ctx)->regs[7]);
#endif
}

static __always_inline __u64 pick(const struct args *args, __u8 pos, __u64 none)
{
	__u64 v = none;

#pragma unroll
	for (int i = 0; i < 8; i++)
		if (pos == FT_ARG(i))
			v = args->a[i];
	return v;
}

/*
 * Global functions (not static) are verified once by themselves, not on every path that calls them:
 * with comm_mark() static the load took 330 ms instead of 5 on 6.18.
 */

/* FNV-1a, 64 bits, of a unique id: the same in all ranks of a communicator. */
__noinline __u64 id_hash(__u64 user_ptr)
{
	__u8 id[UNIQUE_ID_BYTES];
	__u64 hash = 0xcbf29ce484222325ull;

	if (bpf_probe_read_user(id, sizeof(id), (void *)user_ptr))
		return NONE_U64;
	for (int i = 0; i < UNIQUE_ID_BYTES; i++)
		hash = (hash ^ id[i]) * 0x100000001b3ull;
	return hash;
}

static __always_inline void flight_init(struct flight *fl, const struct ft_nccl_fn *f,
					const struct args *args)
{
	fl->comm = pick(args, f->comm, NONE_U64);
	fl->newcomm = pick(args, f->newcomm, 0);
	fl->nranks = pick(args, f->nranks, NONE_S32);
	fl->rank = pick(args, f->rank, NONE_S32);
	fl->color = pick(args, f->color, NONE_U32);
	fl->devlist = pick(args, f->devlist, 0);
	fl->peer = NONE_S32;
	fl->count = fl->stream = fl->seq = NONE_U64;
	fl->dtype = NONE_U32;
	fl->id_hash = NONE_U64;
	/* ncclCommGrow takes -1 from ranks that are members already. */
	if (fl->rank < 0)
		fl->rank = NONE_S32;
}

static __always_inline void flight_call(struct flight *fl, const struct ft_nccl_fn *f,
					const struct args *args)
{
	fl->comm = pick(args, f->comm, NONE_U64);
	fl->count = pick(args, f->count, NONE_U64);
	fl->dtype = pick(args, f->dtype, NONE_U32);
	fl->peer = pick(args, f->peer, NONE_S32);
	fl->stream = pick(args, f->stream, NONE_U64);
	fl->buf = pick(args, f->buf, 0);
	fl->seq = fl->id_hash = NONE_U64;
	fl->rank = fl->nranks = NONE_S32;
	fl->color = NONE_U32;
}

/* 0: not known. Numbers of ncclDataType_t; 10 and 11 since 2.24. */
static __always_inline __u32 dtype_size(__u32 dtype)
{
	/* one byte, two, four, eight */
	if (dtype < 2 || dtype == 10 || dtype == 11)
		return 1;
	if (dtype == 6 || dtype == 9)
		return 2;
	if (dtype == 2 || dtype == 3 || dtype == 7)
		return 4;
	return dtype == 4 || dtype == 5 || dtype == 8 ? 8 : 0;
}

static __always_inline __u32 log2_of(__u64 v)
{
	__u32 r = 0;

#define STEP(n)                                                                                    \
	if (v >> (n)) {                                                                            \
		v >>= (n);                                                                         \
		r += (n);                                                                          \
	}
	STEP(32)
	STEP(16)
	STEP(8)
	STEP(4)
	STEP(2)
	STEP(1)
#undef STEP
	return r;
}

__noinline __u32 slot_of(__u64 ns)
{
	__u32 log;

	if (ns < 1ull << FT_NCCL_LOG_MIN)
		return 0;
	if (ns >= 1ull << FT_NCCL_LOG_MAX)
		return FT_NCCL_SLOTS - 1;
	log = log2_of(ns);
	return (log - FT_NCCL_LOG_MIN) * FT_NCCL_SUB + ((ns >> (log - 3)) & (FT_NCCL_SUB - 1));
}

static __always_inline struct ft_nccl_stat *stat_of(const struct ft_nccl_key *key)
{
	struct ft_nccl_stat *st = bpf_map_lookup_elem(&nccl_stats, key);
	__u32 zero = 0;

	if (st)
		return st;
	st = bpf_map_lookup_elem(&nccl_zero, &zero);
	if (!st)
		return NULL;
	bpf_map_update_elem(&nccl_stats, key, st, BPF_NOEXIST);
	st = bpf_map_lookup_elem(&nccl_stats, key);
	if (st)
		return st;
	count_map_full(FT_KIND_nccl_stats);
	return bpf_map_lookup_elem(&nccl_other, &key->op);
}

static __always_inline void key_of(struct ft_nccl_key *key, const struct flight *fl, __u32 tgid)
{
	key->start_ns = fl->start_ns;
	key->comm = fl->comm;
	key->tgid = tgid;
	key->op = fl->op;
}

/* Counts the call; its number on (communicator, operation) goes to the flight. */
static __noinline int count_call(struct flight *fl, __u32 tgid)
{
	struct ft_nccl_key key;
	struct ft_nccl_stat *st;
	__u32 size, slot;
	__u64 last;

	if (!fl)
		return 0;
	key_of(&key, fl, tgid);
	st = stat_of(&key);
	if (!st)
		return 0;
	fl->seq = st->calls - st->init_calls;
	__sync_fetch_and_add(&st->calls, 1);
	size = dtype_size(fl->dtype);
	if (size)
		__sync_fetch_and_add(&st->bytes, fl->count * size);
	else
		st->flags |= FT_NCCL_BYTES_UNKNOWN;
	last = st->last_entry_ns;
	st->last_entry_ns = fl->ts;
	slot = slot_of(fl->ts - last);
	if (last && last < fl->ts && slot < FT_NCCL_SLOTS)
		__sync_fetch_and_add(&st->period[slot], 1);
	return 0;
}

static __noinline int count_enqueue(struct flight *fl, __u32 tgid, __u64 ns)
{
	struct ft_nccl_key key;
	struct ft_nccl_stat *st;
	__u32 slot = slot_of(ns);

	if (!fl)
		return 0;
	key_of(&key, fl, tgid);
	st = bpf_map_lookup_elem(&nccl_stats, &key);
	if (st && slot < FT_NCCL_SLOTS)
		__sync_fetch_and_add(&st->enqueue[slot], 1);
	return 0;
}

__noinline int op_mark(__u64 start_ns, __u64 comm, __u32 tgid, __u32 op, __u64 init_ns)
{
	struct ft_nccl_key key = { .start_ns = start_ns, .comm = comm, .tgid = tgid, .op = op };
	struct ft_nccl_stat *st = bpf_map_lookup_elem(&nccl_stats, &key);

	if (!st)
		return 0;
	if (!init_ns) {
		st->flags |= FT_NCCL_ENDED;
		return 0;
	}
	st->init_calls = st->calls;
	st->init_bytes = st->bytes;
	st->init_ns = init_ns;
	st->last_entry_ns = 0;
	st->flags = 0;
	st->inits++;
	return 0;
}

/*
 * An address can be reused: whatever was counted before belongs to the communicator that had it
 * before. With init_ns 0: the end of one, after which the reader may forget it.
 */
__noinline int comm_mark(__u64 start_ns, __u64 comm, __u32 tgid, __u64 init_ns)
{
	for (int op = 1; op < COMM_OPS_END; op++)
		op_mark(start_ns, comm, tgid, op, init_ns);
	return 0;
}

struct comm_out {
	__u64 comm;
	__u64 duration_ns;
	__s32 rank, result, device;
};

static __noinline int emit_comm(struct flight *fl, struct comm_out *out)
{
	struct ft_ev_nccl_comm *e;

	if (!fl || !out || !ready)
		return 0;
	e = rec_reserve(FT_KIND_nccl_comm, sizeof(*e));
	if (!e)
		return 0;
	hdr_init(&e->h, FT_KIND_nccl_comm, sizeof(*e));
	hdr_task(&e->h);
	e->comm_ptr = out->comm;
	e->parent = fl->cls == FT_NCCL_INIT ? fl->comm : NONE_U64;
	e->comm_hash = NONE_U64;
	e->id_hash = fl->id_hash;
	e->stream = NONE_U64;
	e->duration_ns = out->duration_ns;
	e->rank = out->rank;
	e->nranks = fl->nranks;
	e->result = out->result;
	e->device = out->device;
	e->color = fl->color;
	e->op = fl->op;
	e->pad = 0;
	e->pad2 = 0;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

static __noinline int emit_call(struct flight *fl, __u64 enqueue_ns, __s32 result)
{
	struct ft_ev_nccl_call *e;
	__u32 size;

	if (!fl || !ready)
		return 0;
	e = rec_reserve(FT_KIND_nccl_call, sizeof(*e));
	if (!e)
		return 0;
	hdr_init(&e->h, FT_KIND_nccl_call, sizeof(*e));
	hdr_task(&e->h);
	/* When it was entered, not when it returned. */
	e->h.ts_ns = fl->ts;
	size = dtype_size(fl->dtype);
	e->comm_ptr = fl->comm;
	e->seq_since_attach = fl->seq;
	e->call_count = fl->count;
	e->bytes = size && fl->count != NONE_U64 ? fl->count * size : NONE_U64;
	e->stream = fl->stream;
	e->enqueue_ns = enqueue_ns;
	e->peer = fl->peer;
	e->result = result;
	e->op = fl->op;
	e->dtype = fl->dtype < 256 ? fl->dtype : 255;
	e->pad = 0;
	e->pad2 = 0;
	bpf_ringbuf_submit(e, rec_quiet());
	return 0;
}

/*
 * Only the outermost call of a thread counts. A call is inside another when its stack frame is
 * below; where the outer one's return is probed that decides. ncclBcast's is not by default, but it
 * does nothing more than call ncclBroadcast with its own arguments (all of 2.18 to 2.30).
 */
static __always_inline bool is_nested(const struct flight *outer, const struct flight *fl,
				      const struct args *args)
{
	if (outer->start_ns != fl->start_ns || fl->sp > outer->sp)
		return false;
	if (outer->ret && fl->sp < outer->sp)
		return true;
	return outer->fn == FT_NCCL_Bcast && fl->fn == FT_NCCL_Broadcast &&
	       fl->comm == outer->comm && fl->count == outer->count && fl->peer == outer->peer &&
	       args->a[0] == outer->buf && args->a[1] == outer->buf;
}

/* The call that this one was made by; a finished one whose return was not seen goes. */
static __always_inline bool within_other(__u64 id, const struct flight *fl, const struct args *args)
{
	struct flight *outer = bpf_map_lookup_elem(&nccl_flights, &id);

	if (!outer)
		return false;
	if (is_nested(outer, fl, args)) {
		if (!outer->ret)
			bpf_map_delete_elem(&nccl_flights, &id);
		return true;
	}
	bpf_map_delete_elem(&nccl_flights, &id);
	return false;
}

/* What a call tells at its entry. */
static __always_inline void entered(struct flight *fl, __u32 tgid)
{
	struct comm_out out = {
		.comm = NONE_U64,
		.duration_ns = NONE_U64,
		.rank = fl->rank,
		.result = NONE_S32,
		.device = NONE_S32,
	};

	if (fl->cls == FT_NCCL_CALL && ready)
		count_call(fl, tgid);
	if (fl->cls == FT_NCCL_END) {
		out.comm = fl->comm;
		emit_comm(fl, &out);
		if (fl->op == FT_NCCL_CommDestroy || fl->op == FT_NCCL_CommAbort)
			comm_mark(fl->start_ns, fl->comm, tgid, 0);
		return;
	}
	/* Return probes are off: better less than nothing. */
	if (fl->cls == FT_NCCL_INIT && !fl->ret)
		emit_comm(fl, &out);
	if (fl->cls <= FT_NCCL_GROUP && cfg.collectives && !fl->ret)
		emit_call(fl, NONE_U64, NONE_S32);
}

static __always_inline int enter(struct pt_regs *ctx)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u64 id = bpf_get_current_pid_tgid(), cookie, where;
	const struct ft_nccl_fn *f;
	struct flight fl = {};
	struct args args;
	__u32 tgid = id >> 32, nr;

	if (tgid == cfg.self || (!cfg.all_procs && !proc_of(tgid)))
		return 0;
	cookie = cookie_of(ctx, tgid);
	nr = cookie & FT_NCCL_COOKIE_FN;
	if (nr >= FT_NCCL_NFNS)
		return 0;
	f = &fns[nr];
	args_load(&args, ctx);
	fl.start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	fl.sp = PT_REGS_SP(ctx);
	fl.ts = bpf_ktime_get_ns();
	fl.fn = nr;
	fl.op = f->op;
	fl.cls = f->cls;
	fl.ret = !!(cookie & FT_NCCL_COOKIE_RET);
	if (fl.cls == FT_NCCL_CALL)
		flight_call(&fl, f, &args);
	else
		flight_init(&fl, f, &args);
	if (within_other(id, &fl, &args))
		return 0;
	if (f->id_how) {
		where = pick(&args, f->id, 0);
		/* By value on x86-64: above the return address. */
		if (f->id_how == FT_NCCL_ID_STACK && !FT_NCCL_BYVAL)
			where = fl.sp + 8;
		fl.id_hash = id_hash(where);
	}
	entered(&fl, tgid);
	if (fl.ret || nr == FT_NCCL_Bcast)
		bpf_map_update_elem(&nccl_flights, &id, &fl, BPF_ANY);
	return 0;
}

/* *newcomm; unknown when the call failed: NCCL leaves what was there, or NULL. */
static __always_inline __u64 comm_at(__u64 ptr, __s32 result)
{
	__u64 comm = 0;

	/* 0 success, 7 in progress (not blocking): set before the initialisation ends */
	if (result && result != 7)
		return NONE_U64;
	if (bpf_probe_read_user(&comm, sizeof(comm), (void *)ptr) || !comm)
		return NONE_U64;
	return comm;
}

/*
 * The nr-th communicator that the call of this thread made. ncclCommInitAll makes one for each
 * device, with a rank each; without a list the devices are 0, 1, ..
 */
__noinline int comm_made(__u64 id, __u32 nr, __u64 duration_ns, __s32 result)
{
	struct flight *fl = bpf_map_lookup_elem(&nccl_flights, &id);
	struct comm_out out = { .duration_ns = duration_ns, .result = result };

	if (!fl)
		return 0;
	out.rank = fl->rank;
	out.device = NONE_S32;
	if (fl->op == FT_NCCL_CommInitAll) {
		out.rank = nr;
		out.device = nr;
		if (fl->devlist &&
		    bpf_probe_read_user(&out.device, 4, (void *)(fl->devlist + nr * 4)))
			out.device = NONE_S32;
	}
	out.comm = comm_at(fl->newcomm + nr * 8, result);
	emit_comm(fl, &out);
	if (out.comm != NONE_U64)
		comm_mark(fl->start_ns, out.comm, id >> 32, fl->ts);
	return 0;
}

static __always_inline void left_init(struct flight *fl, __u64 id, __u64 ns, __s32 result)
{
	__s32 n = fl->op == FT_NCCL_CommInitAll ? fl->nranks : 1;

	for (int i = 0; i < FT_NCCL_INITALL_MAX && i < n; i++)
		comm_made(id, i, ns, result);
	if (n > FT_NCCL_INITALL_MAX)
		count_map_full(FT_KIND_nccl_comm);
}

static __always_inline int leave(struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid(), ns = bpf_ktime_get_ns();
	struct flight *fl = bpf_map_lookup_elem(&nccl_flights, &id);
	__s32 result = (__s32)PT_REGS_RC(ctx);

	/* Below the outermost call's frame: the return of a nested one. */
	if (!fl || fl->sp != sp_of_entry(ctx))
		return 0;
	ns -= fl->ts;
	if (fl->cls == FT_NCCL_INIT)
		left_init(fl, id, ns, result);
	if (fl->cls == FT_NCCL_CALL && ready)
		count_enqueue(fl, id >> 32, ns);
	if (cfg.collectives && fl->cls <= FT_NCCL_GROUP)
		emit_call(fl, ns, result);
	bpf_map_delete_elem(&nccl_flights, &id);
	return 0;
}

/*
 * Each twice: a program for BPF_TRACE_UPROBE_MULTI (6.6+) cannot be attached to a perf event, nor
 * the other way round. Only one of the pair is loaded.
 */
SEC("uprobe")
int nccl_enter_multi(struct pt_regs *ctx)
{
	return enter(ctx);
}

SEC("uprobe")
int nccl_enter(struct pt_regs *ctx)
{
	return enter(ctx);
}

SEC("uretprobe")
int nccl_return_multi(struct pt_regs *ctx)
{
	return leave(ctx);
}

SEC("uretprobe")
int nccl_return(struct pt_regs *ctx)
{
	return leave(ctx);
}

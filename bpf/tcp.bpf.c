// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * TCP sockets of traced processes: who owns them, their states, retransmissions and resets.
 * Retransmissions run in softirq: the current task says nothing, only the socket does.
 */
#include "include/agg.bpf.h"
#include "include/socks.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Accepted sockets whose owner is not confirmed yet: the reader then runs the iterator. */
volatile __u32 unconfirmed SEC(".data.unconfirmed");

static __always_inline struct ft_owner *owner_of(struct sock *sk)
{
	return bpf_sk_storage_get(&ft_socks, sk, NULL, 0);
}

static __always_inline void owner_task(struct ft_owner *o, struct task_struct *task, __u32 how)
{
	o->pid = BPF_CORE_READ(task, tgid);
	o->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	o->how = how;
	o->flags = 0;
	BPF_CORE_READ_STR_INTO(&o->task, task, group_leader, comm);
}

/* Called by the process itself: connect() and listen(). */
static __always_inline struct ft_owner *owner_current(struct sock *sk)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct ft_owner *o;

	if (!proc_of(bpf_get_current_pid_tgid() >> 32))
		return NULL;
	o = bpf_sk_storage_get(&ft_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (o)
		owner_task(o, task, FT_HOW(sock_owner));
	else
		count_map_full(FT_KIND_tcp_state);
	return o;
}

/*
 * A port that several sockets listen at (SO_REUSEPORT, or each at an address of its own) has one
 * entry: it names the first, and says so when another process has one, too. again: the socket is in
 * it already, by another owner.
 */
static __always_inline void tuple_listen(const struct ft_tuple *t, struct ft_owner *new, bool again)
{
	struct ft_owner *old;

	new->flags = 0;
	new->sockets = 1;
	if (!bpf_map_update_elem(&ft_tuples, t, new, BPF_NOEXIST))
		return;
	old = bpf_map_lookup_elem(&ft_tuples, t);
	if (!old) {
		count_map_full(FT_KIND_tcp_state);
		return;
	}
	/* The end of a UDP socket shows nowhere, only that of its process. */
	if ((again && old->sockets == 1) || (t->proto == IPPROTO_UDP && !proc_of(old->pid))) {
		bpf_map_update_elem(&ft_tuples, t, new, BPF_EXIST);
		return;
	}
	if (!again)
		__sync_fetch_and_add(&old->sockets, 1);
	if (old->pid != new->pid)
		old->flags = FT_REC_SHARED;
}

static __always_inline void tuple_add(struct sock *sk, const struct ft_owner *o, bool listener,
				      bool again)
{
	struct ft_tuple t;
	struct ft_owner copy = *o;

	if (!sk_full_tuple(sk, &t))
		return;
	t.proto = sk->sk_protocol;
	if (listener) {
		tuple_to_listener(&t);
		tuple_listen(&t, &copy, again);
	} else if (bpf_map_update_elem(&ft_tuples, &t, &copy, BPF_ANY)) {
		count_map_full(FT_KIND_tcp_state);
	}
}

/* One listener fewer; when the last one is the named process's, nothing is in doubt any more. */
static __always_inline bool tuple_unlisten(const struct ft_tuple *t, const struct ft_owner *o)
{
	struct ft_owner *e = bpf_map_lookup_elem(&ft_tuples, t);

	if (!e || e->sockets <= 1)
		return false;
	__sync_fetch_and_add(&e->sockets, -1); /* its value would need 5.12 */
	if (e->sockets == 1 && e->pid != o->pid)
		e->flags = 0;
	return true;
}

static __always_inline void tuple_del(struct sock *sk, const struct ft_owner *o, bool listener)
{
	struct ft_tuple t;

	if (!sk_full_tuple(sk, &t))
		return;
	if (listener) {
		tuple_to_listener(&t);
		if (tuple_unlisten(&t, o))
			return;
	}
	bpf_map_delete_elem(&ft_tuples, &t);
}

/* Head, addresses and route of a record about a socket. */
#define SOCK_RECORD(e, kindname, sk, owner)                                                        \
	({                                                                                         \
		struct ft_tuple __t;                                                               \
		bool __ok = sk_full_tuple(sk, &__t);                                               \
                                                                                                   \
		__builtin_memset((e), 0, sizeof(*(e)));                                            \
		hdr_init(&(e)->h, FT_KIND_##kindname, sizeof(*(e)));                               \
		hdr_owner(&(e)->h, owner);                                                         \
		__builtin_memcpy((e)->saddr, __t.laddr, 16);                                       \
		__builtin_memcpy((e)->daddr, __t.raddr, 16);                                       \
		(e)->sport = __t.lport;                                                            \
		(e)->dport = __t.rport;                                                            \
		(e)->netns = __t.netns;                                                            \
		sk_route(sk, &(e)->ifindex, (e)->ifname);                                          \
		__ok;                                                                              \
	})

static __always_inline void key_of_tuple(struct ft_agg_key *k, __u16 kind, __u32 pid, __u16 sport,
					 __u16 dport, const __u8 *daddr, __u32 netns, __u64 extra)
{
	const __u32 *d = (const __u32 *)daddr;

	__builtin_memset(k, 0, sizeof(*k));
	k->kind = kind;
	k->pid = pid;
	k->a = (__u64)netns << 32 | (__u32)sport << 16 | dport;
	k->b = (__u64)d[0] << 32 | d[1];
	k->c = ((__u64)d[2] << 32 | d[3]) ^ extra << 32;
}

/* --- retransmissions --- */

/*
 * Segments since the last look, as the kernel counts them for TcpRetransSegs: it raises the
 * socket's total_retrans in the same place. The tracepoint also fires for attempts that sent and
 * counted nothing (6.17: the packet is still in the device's queue), and has no segment count of
 * its own.
 */
static __always_inline __u32 segs_new(struct ft_owner *o, struct sock *sk)
{
	__u32 total = BPF_CORE_READ((struct tcp_sock *)sk, total_retrans);
	__u32 segs = total >= o->retrans ? total - o->retrans : total;

	o->retrans = total;
	return segs;
}

static __always_inline void retransmit_submit(struct ft_ev_tcp_retransmit *e)
{
	struct ft_agg_key key;

	key_of_tuple(&key, FT_KIND_tcp_retransmit, e->h.pid, e->sport, e->dport, e->daddr, e->netns,
		     (__u32)e->err << 1 | e->syn);
	/* Unknown adds nothing: the sum of a storm says at least so many. */
	agg_submit(&key, &e->h, sizeof(*e), e->segs, e->bytes == ~0ull ? 0 : e->bytes);
}

/* Those of a last run that was skipped, because the program was running on that CPU already. */
static __always_inline void retransmit_rest(struct sock *sk, struct ft_owner *o)
{
	struct ft_ev_tcp_retransmit e;
	__u32 segs = segs_new(o, sk);

	if (!ready || !segs || !SOCK_RECORD(&e, tcp_retransmit, sk, o))
		return;
	e.segs = segs;
	e.bytes = ~0ull;
	e.cwnd_segs = e.srtt_us = e.in_flight_segs = ~0u;
	e.err = (__s32)0x80000000;
	e.tcp_state = 0xff;
	retransmit_submit(&e);
}

/* --- what no tracepoint tells: a look at the sockets, by the reader or at their end --- */

#define STALL_TIMEOUTS 3 /* in a row, 1.4 s with the shortest timeout: no busy network has that */

/*
 * The receiver tells of segments that it had already (D-SACK): those were sent again because
 * something was slow, and nothing was lost.
 */
static __always_inline void late_look(struct sock *sk, struct ft_owner *o)
{
	__u32 dups = BPF_CORE_READ((struct tcp_sock *)sk, dsack_dups),
	      total = BPF_CORE_READ((struct tcp_sock *)sk, total_retrans), old = o->dups;
	struct ft_ev_tcp_late e;

	/* What the network doubled is told in the same way: as the kernel does, no more than was sent. */
	if (dups > total)
		dups = total;
	/* A socket that is connected again begins at 0. */
	if (dups < old)
		o->dups = dups;
	if (dups <= old || !SOCK_RECORD(&e, tcp_late, sk, o) || !e.dport)
		return;
	e.segs = dups - old;
	/* What is lost is told by the next look. */
	if (!bpf_ringbuf_output(&ft_ring, &e, sizeof(e), 0))
		o->dups = dups;
	else
		count_lost(FT_KIND_tcp_late);
}

static __always_inline void stall_look(struct sock *sk, struct ft_owner *o)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u32 timeouts = BPF_CORE_READ(tp, inet_conn.icsk_retransmits);
	struct ft_ev_tcp_stall e;

	/* Without segments on their way it counts probes of a closed window. */
	if (timeouts < STALL_TIMEOUTS || !BPF_CORE_READ(tp, packets_out))
		timeouts = 0;
	if (timeouts == o->timeouts || !SOCK_RECORD(&e, tcp_stall, sk, o))
		return;
	e.timeouts = timeouts;
	e.unacked_segs = BPF_CORE_READ(tp, packets_out);
	e.tcp_state = BPF_CORE_READ(sk, __sk_common.skc_state);
	/* What is lost is told by the next look. */
	if (!bpf_ringbuf_output(&ft_ring, &e, sizeof(e), 0))
		o->timeouts = timeouts;
	else
		count_lost(FT_KIND_tcp_stall);
}

SEC("iter/bpf_sk_storage_map")
int sock_look(struct bpf_iter__bpf_sk_storage_map *ctx)
{
	struct ft_owner *o = ctx->value;
	struct sock *sk = ctx->sk;

	if (!sk || !o || sk->sk_protocol != IPPROTO_TCP)
		return 0;
	late_look(sk, o);
	stall_look(sk, o);
	return 0;
}

static __always_inline void socket_end(struct sock *sk, struct ft_owner *o)
{
	retransmit_rest(sk, o);
	if (ready)
		late_look(sk, o);
}

/* --- states --- */

static __always_inline void state_record(struct sock *sk, const struct ft_owner *o, int from,
					 int to)
{
	struct ft_ev_tcp_state e;
	struct ft_agg_key key;

	if (!SOCK_RECORD(&e, tcp_state, sk, o))
		return;
	e.from = from;
	e.to = to;
	/* A storm of connections is one key a process, however many peers and ports. */
	__builtin_memset(&key, 0, sizeof(key));
	key.kind = FT_KIND_tcp_state;
	key.pid = e.h.pid;
	key.a = (__u64)e.netns << 32 | (__u32)to;
	agg_submit(&key, &e.h, sizeof(e), 0, 0);
}

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(tcp_set_state, struct sock *sk, int from, int to)
{
	struct ft_owner *o;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	o = owner_of(sk);
	if (!o && (to == TCP_SYN_SENT || to == TCP_LISTEN))
		o = owner_current(sk);
	if (!o)
		return 0;
	if (from == TCP_LISTEN && to == TCP_SYN_RECV) {
		/* Cloned from the listener; which process accepts it is not known yet. */
		o->how = FT_HOW(listener);
		unconfirmed = 1;
	}
	/* The accepted socket starts with its SYN-ACKs that were sent again: told elsewhere. */
	if (from == TCP_SYN_RECV)
		o->retrans = BPF_CORE_READ((struct tcp_sock *)sk, total_retrans);
	if (to == TCP_CLOSE && from != TCP_SYN_RECV && from != TCP_LISTEN)
		socket_end(sk, o);
	if (to == TCP_ESTABLISHED || to == TCP_LISTEN)
		tuple_add(sk, o, to == TCP_LISTEN, false);
	else if (to == TCP_CLOSE)
		tuple_del(sk, o, from == TCP_LISTEN);
	if (ready)
		state_record(sk, o, from, to);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(tcp_retransmit, struct sock *sk, struct sk_buff *skb)
{
	struct ft_ev_tcp_retransmit e;
	struct tcp_sock *tp;
	struct ft_owner *o;
	__u32 segs;

	if (!sk)
		return 0;
	o = owner_of(sk);
	if (!o)
		return 0;
	segs = segs_new(o, sk);
	if (!ready || !segs || !SOCK_RECORD(&e, tcp_retransmit, sk, o))
		return 0;
	tp = (struct tcp_sock *)sk;
	e.segs = segs;
	e.bytes = BPF_CORE_READ(skb, len);
	e.cwnd_segs = BPF_CORE_READ(tp, snd_cwnd);
	e.srtt_us = BPF_CORE_READ(tp, srtt_us) >> 3;
	e.in_flight_segs = BPF_CORE_READ(tp, packets_out) - BPF_CORE_READ(tp, sacked_out) -
			   BPF_CORE_READ(tp, lost_out) + BPF_CORE_READ(tp, retrans_out);
	e.err = cfg.retransmit_err ? (__s32)((__u64 *)ctx)[2] : (__s32)0x80000000;
	e.tcp_state = BPF_CORE_READ(sk, __sk_common.skc_state);
	e.syn = e.tcp_state == TCP_SYN_SENT;
	retransmit_submit(&e);
	return 0;
}

SEC("tp_btf/tcp_retransmit_synack")
int BPF_PROG(tcp_retransmit_synack, struct sock *sk, struct request_sock *req)
{
	struct ft_ev_tcp_retransmit e;
	struct ft_owner *o;
	struct ft_tuple t;

	if (!ready || !sk || !sk_is_full(sk))
		return 0;
	o = owner_of(sk);
	if (!o || !sk_tuple(&req->__req_common, &t) || !SOCK_RECORD(&e, tcp_retransmit, sk, o))
		return 0;
	__builtin_memcpy(e.saddr, t.laddr, 16);
	__builtin_memcpy(e.daddr, t.raddr, 16);
	e.sport = t.lport;
	e.dport = t.rport;
	e.segs = 1;
	e.cwnd_segs = e.srtt_us = e.in_flight_segs = ~0u;
	e.err = (__s32)0x80000000;
	e.tcp_state = TCP_NEW_SYN_RECV;
	e.syn = 1;
	retransmit_submit(&e);
	return 0;
}

/* --- resets --- */

static __always_inline void reset_record(struct sock *sk, __u8 direction, __u32 reason)
{
	struct ft_ev_tcp_reset e;
	struct ft_agg_key key;
	struct ft_owner *o;

	if (!ready || !sk || !sk_is_full(sk))
		return;
	o = owner_of(sk);
	if (!o || !SOCK_RECORD(&e, tcp_reset, sk, o))
		return;
	e.reason_nr = reason;
	e.direction = direction;
	e.tcp_state = BPF_CORE_READ(sk, __sk_common.skc_state);
	key_of_tuple(&key, FT_KIND_tcp_reset, e.h.pid, 0, 0, e.daddr, e.netns, direction);
	agg_submit(&key, &e.h, sizeof(e), 0, 0);
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(tcp_receive_reset, struct sock *sk)
{
	reset_record(sk, 0, ~0u);
	return 0;
}

SEC("tp_btf/tcp_send_reset")
int BPF_PROG(tcp_send_reset, struct sock *sk, struct sk_buff *skb)
{
	reset_record(sk, 1, cfg.reset_reason ? (__u32)((__u64 *)ctx)[2] : ~0u);
	return 0;
}

/* --- sockets that are open already, and who accepted the new ones --- */

static __always_inline void seed_record(struct sock *sk, const struct ft_owner *o)
{
	struct ft_ev_inv_sock e;

	if (!SOCK_RECORD(&e, inv_sock, sk, o))
		return;
	e.tcp_state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (bpf_ringbuf_output(&ft_ring, &e, sizeof(e), 0))
		count_lost(FT_KIND_inv_sock);
}

/* Generations between who opened a socket and who holds it that are looked for. */
#define FORKS_MAX 8

/* Whether the owner forked the task, or a fork of it did. */
static __always_inline bool owner_forked(const struct ft_owner *o, struct task_struct *task)
{
	for (int i = 0; i < FORKS_MAX; i++) {
		task = BPF_CORE_READ(task, real_parent);
		if ((__u32)BPF_CORE_READ(task, tgid) == o->pid)
			return BPF_CORE_READ(task, group_leader, start_boottime) == o->start_ns;
	}
	return false;
}

/*
 * The owner is the oldest process that holds the socket; younger ones inherited it by fork. One that
 * it did not fork, a sibling, had it from a parent that has gone: then either may be meant.
 */
static __always_inline bool owner_claim(struct ft_owner *o, struct task_struct *task, bool fresh)
{
	__u32 tgid = BPF_CORE_READ(task, tgid);
	__u64 start = BPF_CORE_READ(task, group_leader, start_boottime);

	if (fresh || (o->how & FT_HOW(listener))) {
		owner_task(o, task, FT_HOW(iterator));
		return true;
	}
	if (o->pid == tgid)
		return false;
	if (start < o->start_ns && (o->how & FT_HOW(iterator))) {
		owner_task(o, task, FT_HOW(iterator) | FT_HOW(inherited));
		return true;
	}
	o->how |= FT_HOW(inherited);
	if (!owner_forked(o, task))
		o->flags |= FT_REC_SHARED;
	return false;
}

/* A packet without a socket is as much in doubt as the socket that it is for. */
static __always_inline void tuple_doubt(struct sock *sk, const struct ft_owner *o)
{
	struct ft_owner *e;
	struct ft_tuple t;

	if (!(o->flags & FT_REC_SHARED) || !sk_full_tuple(sk, &t))
		return;
	t.proto = sk->sk_protocol;
	if (t.proto == IPPROTO_UDP || BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN)
		tuple_to_listener(&t);
	e = bpf_map_lookup_elem(&ft_tuples, &t);
	if (e && e->pid == o->pid)
		e->flags = FT_REC_SHARED;
}

SEC("iter/task_file")
int sock_iter(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	struct socket *socket;
	struct ft_owner *o;
	struct sock *sk;
	bool fresh;
	__u8 state;

	if (!task || !file || !proc_of(task->tgid))
		return 0;
	socket = bpf_sock_from_file(file);
	if (!socket)
		return 0;
	sk = socket->sk;
	if (!sk)
		return 0;
	o = bpf_sk_storage_get(&ft_socks, sk, NULL, 0);
	fresh = !o;
	if (fresh)
		o = bpf_sk_storage_get(&ft_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!o) {
		count_map_full(FT_KIND_inv_sock);
		return 0;
	}
	if (!owner_claim(o, task, fresh)) {
		tuple_doubt(sk, o);
		return 0;
	}
	if (sk->sk_protocol == IPPROTO_UDP && sk->sk_type == SOCK_DGRAM)
		tuple_add(sk, o, true, !fresh); /* by its port alone: most are not connected */
	if (sk->sk_protocol != IPPROTO_TCP || sk->sk_type != SOCK_STREAM)
		return 0;
	if (fresh) {
		o->retrans = BPF_CORE_READ((struct tcp_sock *)sk, total_retrans);
		o->dups = BPF_CORE_READ((struct tcp_sock *)sk, dsack_dups);
	}
	state = BPF_CORE_READ(sk, __sk_common.skc_state);
	if (state == TCP_CLOSE)
		return 0;
	tuple_add(sk, o, state == TCP_LISTEN, !fresh);
	seed_record(sk, o);
	return 0;
}

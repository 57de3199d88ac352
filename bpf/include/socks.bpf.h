/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Sockets of traced processes: their owner, and their addresses for packets that have no socket
 * yet.
 */
#ifndef FT_SOCKS_BPF_H
#define FT_SOCKS_BPF_H

#include "include/maps.bpf.h"

#define AF_INET	    2
#define AF_INET6    10
#define IPPROTO_TCP 6
#define IPPROTO_UDP 17
#define SOCK_STREAM 1
#define SOCK_DGRAM  2

enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT = 2,
	TCP_SYN_RECV = 3,
	TCP_TIME_WAIT = 6,
	TCP_CLOSE = 7,
	TCP_LISTEN = 10,
	TCP_NEW_SYN_RECV = 12,
};

/*
 * The owner lives and dies with the socket, so an address that is used again cannot inherit it.
 * Cloned: an accepted socket starts with its listener's owner.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct ft_owner);
} ft_socks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FT_MAX_TUPLES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ft_tuple);
	__type(value, struct ft_owner);
} ft_tuples SEC(".maps");

/* Network namespaces that traced processes live in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FT_MAX_NETNS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u8);
} ft_netns SEC(".maps");

static __always_inline void ip4_map(__u8 *ip, __be32 v4)
{
	__u32 *w = (__u32 *)ip;

	w[0] = 0;
	w[1] = 0;
	w[2] = bpf_htonl(0xffff);
	w[3] = v4;
}

static __always_inline void ip6_copy(__u8 *ip, const struct in6_addr *v6)
{
	bpf_probe_read_kernel(ip, 16, v6);
}

/*
 * A request or timewait socket is smaller than struct sock: nothing behind sock_common may be read.
 */
static __always_inline bool sk_is_full(const struct sock *sk)
{
	__u8 state = sk->__sk_common.skc_state;

	return state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV;
}

/* Addresses of any kind of socket; false for other families. */
static __always_inline bool sk_tuple(const struct sock_common *c, struct ft_tuple *t)
{
	__u16 family = BPF_CORE_READ(c, skc_family);

	__builtin_memset(t, 0, sizeof(*t));
	if (family == AF_INET) {
		ip4_map(t->laddr, BPF_CORE_READ(c, skc_rcv_saddr));
		ip4_map(t->raddr, BPF_CORE_READ(c, skc_daddr));
	} else if (family == AF_INET6) {
		ip6_copy(t->laddr, &c->skc_v6_rcv_saddr);
		ip6_copy(t->raddr, &c->skc_v6_daddr);
	} else {
		return false;
	}
	t->lport = BPF_CORE_READ(c, skc_num);
	t->rport = bpf_ntohs(BPF_CORE_READ(c, skc_dport));
	t->netns = BPF_CORE_READ(c, skc_net.net, ns.inum);
	t->proto = IPPROTO_TCP; /* request sockets have no field for it */
	return true;
}

/*
 * Of a full socket: one that is closing has lost its port number by then (inet_put_port), not its
 * source port.
 */
static __always_inline bool sk_full_tuple(const struct sock *sk, struct ft_tuple *t)
{
	if (!sk_tuple(&sk->__sk_common, t))
		return false;
	if (!t->lport)
		t->lport = bpf_ntohs(BPF_CORE_READ((const struct inet_sock *)sk, inet_sport));
	return true;
}

/* A listener is found by its local port alone: it may be bound to any address. */
static __always_inline void tuple_to_listener(struct ft_tuple *t)
{
	__builtin_memset(t->laddr, 0, sizeof(t->laddr));
	__builtin_memset(t->raddr, 0, sizeof(t->raddr));
	t->rport = 0;
}

static __always_inline void hdr_owner(struct ft_hdr *h, const struct ft_owner *o)
{
	h->pid = o->pid;
	h->tid = 0;
	h->start_ns = o->start_ns;
	h->how |= o->how;
	h->flags |= o->flags;
	__builtin_memcpy(h->task, o->task, sizeof(h->task));
}

/* Interface of the socket's route, as the kernel last used it. */
static __always_inline void sk_route(const struct sock *sk, __u32 *ifindex, char *ifname)
{
	struct net_device *dev = BPF_CORE_READ(sk, sk_dst_cache, dev);

	*ifindex = BPF_CORE_READ(dev, ifindex);
	if (!*ifindex) {
		*ifindex = ~0u;
		__builtin_memset(ifname, 0, 16);
		return;
	}
	BPF_CORE_READ_STR_INTO((char(*)[16])ifname, dev, name);
}

#endif

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Packets that the kernel drops, and transmit queues that hang. The path of a packet that nobody
 * traces costs at most two map lookups.
 */
#include "include/agg.bpf.h"
#include "include/socks.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ETH_P_IP   0x0800
#define ETH_P_IPV6 0x86dd
#define NO_OFFSET  0xffff
#define TH_SYN	   0x02
#define TH_ACK	   0x10

static __always_inline __u32 netns_of(struct net_device *dev)
{
	return dev->nd_net.net->ns.inum;
}

/* What TCP and UDP have at the same place, and TCP's flags behind it. */
struct l4_head {
	__be16 source, dest;
	__u32 seq, ack;
	__u8 offset, flags;
} __attribute__((packed));

/*
 * Addresses and ports from the packet's own headers, as source and destination. *opens: a first
 * SYN.
 */
static __always_inline bool skb_headers(struct sk_buff *skb, struct ft_ev_net_drop *e, bool *opens)
{
	__u16 off = BPF_CORE_READ(skb, network_header),
	      proto = bpf_ntohs(BPF_CORE_READ(skb, protocol));
	unsigned char *head = BPF_CORE_READ(skb, head);
	struct l4_head th;
	__u32 l4;

	if (!head || off == NO_OFFSET || !off)
		return false;
	if (proto == ETH_P_IP) {
		struct iphdr ip;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), head + off) || ip.version != 4)
			return false;
		ip4_map(e->saddr, ip.saddr);
		ip4_map(e->daddr, ip.daddr);
		e->proto = ip.protocol;
		l4 = off + ip.ihl * 4;
	} else if (proto == ETH_P_IPV6) {
		struct ipv6hdr ip;

		if (bpf_probe_read_kernel(&ip, sizeof(ip), head + off) || ip.version != 6)
			return false;
		__builtin_memcpy(e->saddr, &ip.saddr, 16);
		__builtin_memcpy(e->daddr, &ip.daddr, 16);
		e->proto = ip.nexthdr;
		l4 = off + sizeof(ip);
	} else {
		return false;
	}
	if (e->proto != IPPROTO_TCP && e->proto != IPPROTO_UDP)
		return true;
	if (bpf_probe_read_kernel(&th, sizeof(th), head + l4))
		return true;
	e->sport = bpf_ntohs(th.source);
	e->dport = bpf_ntohs(th.dest);
	*opens = e->proto == IPPROTO_TCP && (th.flags & (TH_SYN | TH_ACK)) == TH_SYN;
	return true;
}

/*
 * The traced socket that an arriving packet is for, though it never met it. One lookup for a
 * stranger's.
 */
static __always_inline struct ft_owner *owner_by_tuple(const struct ft_ev_net_drop *e, bool opens)
{
	struct ft_tuple t = {
		.netns = e->netns, .lport = e->dport, .rport = e->sport, .proto = e->proto
	};
	struct ft_owner *o;

	if (e->proto != IPPROTO_TCP && e->proto != IPPROTO_UDP)
		return NULL;
	__builtin_memcpy(t.laddr, e->daddr, 16);
	__builtin_memcpy(t.raddr, e->saddr, 16);
	if (opens || e->proto == IPPROTO_UDP)
		tuple_to_listener(&t);
	o = bpf_map_lookup_elem(&ft_tuples, &t);
	/* The end of a UDP socket shows nowhere, only that of its process. */
	return o && e->proto == IPPROTO_UDP && !proc_of(o->pid) ? NULL : o;
}

static __always_inline void drop_submit(struct ft_ev_net_drop *e)
{
	struct ft_agg_key key = { .kind = FT_KIND_net_drop, .pid = e->h.pid };

	key.a = e->location;
	key.b = (__u64)e->ifindex << 32 | e->reason_nr;
	key.c = (__u64)e->netns << 32 | (__u32)e->proto << 8 | e->ingress;
	agg_submit(&key, &e->h, sizeof(*e), e->len_bytes, 0);
}

static __always_inline void drop_unknown(struct ft_ev_net_drop *e)
{
	__builtin_memset(e, 0, sizeof(*e));
	e->sport = e->dport = 0xffff;
	e->proto = 0xff;
	e->ifindex = ~0u;
	e->reason_nr = ~0u;
}

static __always_inline void drop_device(struct ft_ev_net_drop *e, struct net_device *dev)
{
	if (!dev)
		return;
	e->ifindex = BPF_CORE_READ(dev, ifindex);
	BPF_CORE_READ_STR_INTO(&e->ifname, dev, name);
}

/* Where the packet was when it was dropped. */
struct place {
	struct net_device *dev; /* NULL unknown */
	__u32 dev_ns, sock_ns;	/* 0 unknown */
	bool arrived;		/* at dev, from outside */
};

static __always_inline void place_of(struct place *p, struct sk_buff *skb, struct sock *sk)
{
	/* Loads, not helper calls: each packet pays for them. A wrong pointer reads as 0. */
	struct net_device *dev = skb->dev;
	int ifindex = dev->ifindex, iif = skb->skb_iif;

	p->dev = ifindex > 0 ? dev : NULL;
	p->arrived = p->dev && ifindex == iif;
	p->dev_ns = p->dev ? netns_of(dev) : 0;
	p->sock_ns = sk ? sk->__sk_common.skc_net.net->ns.inum : 0;
}

/*
 * Whether anybody here wants to know. skb->dev shares its storage with the links of queues: a
 * pointer is believed when what it points to is the interface of arrival, or in the namespace of
 * the socket or in a watched one. A veth hands packets on with their sender's socket, which says
 * nothing about the namespace they arrive in.
 */
static __always_inline bool place_wanted(struct place *p, bool has_sock, bool has_owner)
{
	bool watched;

	if (has_sock && !has_owner && (!p->dev || p->dev_ns == p->sock_ns))
		return false;
	watched = p->dev && bpf_map_lookup_elem(&ft_netns, &p->dev_ns);
	if (p->dev && !p->arrived && p->dev_ns != p->sock_ns && !watched)
		p->dev = NULL;
	return has_owner || watched;
}

/* Ordinary for everybody, or without a reason and on nobody's socket: counted, not listed. */
static __always_inline bool drop_is_ordinary(__u32 reason, bool has_owner)
{
	__u8 class = reason < sizeof(cfg.drop_class) ? cfg.drop_class[reason] : FT_DROP_FAULT;

	return class == FT_DROP_ORDINARY || (class == FT_DROP_UNNAMED && !has_owner);
}

SEC("tp_btf/kfree_skb")
int BPF_PROG(net_drop, struct sk_buff *skb, void *location)
{
	__u32 reason = cfg.skb_has_reason ? (__u32)((__u64 *)ctx)[2] : ~0u;
	struct ft_owner *o = NULL, *receiver = NULL;
	struct sock *sk = skb->sk;
	struct ft_ev_net_drop e;
	bool opens = false;
	struct place p;

	if (!ready)
		return 0;
	if (sk && !sk_is_full(sk))
		sk = NULL;
	if (sk)
		o = bpf_sk_storage_get(&ft_socks, sk, NULL, 0);
	place_of(&p, skb, sk);
	if (!place_wanted(&p, sk != NULL, o != NULL))
		return 0;
	drop_unknown(&e);
	hdr_init(&e.h, FT_KIND_net_drop, sizeof(e));
	drop_device(&e, p.dev);
	e.netns = p.dev ? p.dev_ns : p.sock_ns;
	e.location = (__u64)location;
	e.reason_nr = reason;
	e.len_bytes = BPF_CORE_READ(skb, len);
	e.ingress = p.arrived;
	if (skb_headers(skb, &e, &opens) && (!sk || e.netns != p.sock_ns))
		receiver = owner_by_tuple(&e, opens);
	if (receiver)
		o = receiver;
	if (drop_is_ordinary(reason, o != NULL)) {
		count_ignored(FT_KIND_net_drop);
		return 0;
	}
	if (receiver)
		e.h.how = FT_HOW(tuple);
	if (o)
		hdr_owner(&e.h, o);
	else
		e.h.how = FT_HOW(netns);
	drop_submit(&e);
	return 0;
}

SEC("tp_btf/net_dev_xmit_timeout")
int BPF_PROG(net_tx_timeout, struct net_device *dev, int queue)
{
	__u32 netns = BPF_CORE_READ(dev, nd_net.net, ns.inum);
	struct ft_ev_net_tx_timeout *e;

	if (!ready || !bpf_map_lookup_elem(&ft_netns, &netns))
		return 0;
	e = rec_reserve(FT_KIND_net_tx_timeout, sizeof(*e));
	if (!e)
		return 0;
	__builtin_memset(e, 0, sizeof(*e));
	hdr_init(&e->h, FT_KIND_net_tx_timeout, sizeof(*e));
	e->h.how = FT_HOW(ifname);
	e->netns = netns;
	e->ifindex = BPF_CORE_READ(dev, ifindex);
	BPF_CORE_READ_STR_INTO(&e->ifname, dev, name);
	e->queue = queue;
	bpf_ringbuf_submit(e, 0);
	return 0;
}

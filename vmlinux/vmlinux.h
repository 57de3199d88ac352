/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The kernel types that the programs read, and of these only the members they read. Offsets come
 * from the running kernel's BTF (CO-RE); order and gaps here mean nothing.
 * Architecture types are in <arch>/arch.h, types of modules in files of their own.
 */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

typedef unsigned char __u8;
typedef short int __s16;
typedef short unsigned int __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long int __s64;
typedef long long unsigned int __u64;
typedef __u8 u8;
typedef __s16 s16;
typedef __u16 u16;
typedef __s32 s32;
typedef __u32 u32;
typedef __s64 s64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u16 __sum16;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
};

enum {
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_CLONE = 1 << 9,
};

enum {
	BPF_SK_STORAGE_GET_F_CREATE = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};

enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

struct list_head {
	struct list_head *next, *prev;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	char name[16];
	int ifindex;
	possible_net_t nd_net;
};

struct nsproxy {
	struct net *net_ns;
};

struct mm_struct {
	long unsigned int arg_start, arg_end;
};

struct signal_struct {
	atomic_t live;
	int group_exit_code;
	unsigned int flags;
};

struct file;

struct task_struct {
	int pid, tgid;
	u64 start_boottime;
	int exit_code;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct signal_struct *signal;
	struct mm_struct *mm;
	struct nsproxy *nsproxy;
	char comm[16];
};

struct linux_binprm {
	const char *filename;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	union {
		struct {
			__be32 skc_daddr;
			__be32 skc_rcv_saddr;
		};
	};
	union {
		struct {
			__be16 skc_dport;
			__u16 skc_num;
		};
	};
	short unsigned int skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	possible_net_t skc_net;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct dst_entry {
	struct net_device *dev;
};

struct sock;

struct socket {
	struct sock *sk;
};

struct sock {
	struct sock_common __sk_common;
	struct dst_entry *sk_dst_cache;
	u16 sk_protocol;
	u16 sk_type;
	struct socket *sk_socket;
};

struct inet_sock {
	struct sock sk;
	__be32 inet_saddr;
	__be16 inet_sport;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	u8 icsk_retransmits;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_cwnd;
	u32 srtt_us;
	u32 packets_out, sacked_out, lost_out, retrans_out;
	u32 total_retrans, dsack_dups;
};

struct request_sock {
	struct sock_common __req_common;
	struct sock *rsk_listener;
};

struct sk_buff {
	union {
		struct {
			struct net_device *dev;
		};
	};
	struct sock *sk;
	unsigned int len;
	int skb_iif;
	__be16 protocol;
	__u16 transport_header, network_header, mac_header;
	unsigned char *head;
	unsigned char *data;
};

struct iphdr {
	__u8 ihl : 4, version : 4;
	__u8 tos;
	__be16 tot_len, id, frag_off;
	__u8 ttl, protocol;
	__sum16 check;
	__be32 saddr, daddr;
};

struct ipv6hdr {
	__u8 priority : 4, version : 4;
	__u8 flow_lbl[3];
	__be16 payload_len;
	__u8 nexthdr, hop_limit;
	struct in6_addr saddr, daddr;
};

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id, seq_num;
};

struct bpf_iter__task_file {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct task_struct *task;
	};
	u32 fd;
	union {
		struct file *file;
	};
};

struct bpf_map;

struct bpf_iter__bpf_sk_storage_map {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct bpf_map *map;
	};
	union {
		struct sock *sk;
	};
	union {
		void *value;
	};
};

struct kobject {
	const char *name;
};

struct device {
	struct kobject kobj;
};

struct pci_dev;

struct pci_bus {
	struct pci_dev *self;
	unsigned char cur_bus_speed;
};

struct pci_dev {
	struct device dev;
};

struct pci_slot {
	struct kobject kobj;
};

struct hotplug_slot {
	struct pci_slot *pci_slot;
};

struct pcie_device {
	struct pci_dev *port;
};

/* of pciehp: another one of this name has none of these */
struct controller {
	struct pcie_device *pcie;
	u8 state;
	struct hotplug_slot hotplug_slot;
};

/* raw tracepoint's record, only to ask whether this kernel's kfree_skb tells the reason (5.17+) */
struct trace_event_raw_kfree_skb {
	int reason;
};

#pragma clang attribute pop

#include "arch.h"

#endif

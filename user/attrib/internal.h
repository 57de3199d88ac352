/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the files of this room share. */
#ifndef FT_ATTRIB_INTERNAL_H
#define FT_ATTRIB_INTERNAL_H

/* Without memory an element is not added: its hh.tbl is NULL, and it counts as unfit. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "attrib/attrib.h"

#define PROCS_MAX    65536
#define EXITED_MAX   4096 /* ended processes that are remembered, for late events */
#define COMMS_MAX    256  /* of one process */
#define FLOWS_MAX    65536
#define NETDEVS_MAX  4096
#define GPUS_MAX     64
#define USES_MAX     1024 /* of GPUs, by processes that are not known yet */
#define LINKS_MAX    1024
#define OWN_NICS     4 /* NICs remembered of a process's sockets */
#define NETDEV_ADDRS 8 /* as many as inv.netdev tells */

/* /proc gives start times in ticks of 10 ms. */
#define START_SLACK_NS (10 * NSEC_PER_MSEC)

struct comm {
	struct comm *next;
	uint64_t ptr, parent, hash;
	int32_t rank, nranks, device;
	bool dead;
	int ident; /* index in proc.idents */
};

/*
 * One rank of a process: its communicators on one GPU. A process with a rank per thread has
 * several.
 */
struct ident {
	const struct comm *rep; /* the largest communicator, the oldest of those */
	int device;		/* CUDA device, -1 unknown */
};

struct own_nic {
	uint32_t netns, ifindex;
	char ifname[16];
};

struct proc {
	UT_hash_handle hh;
	uint32_t pid, ppid, netns;
	uint64_t start_ns;
	struct proc *older; /* the process that had this pid before */
	bool helper, exited;
	int nccl;
	int env_rank, env_world, env_local_rank;
	uint32_t rank_pid;  /* of a helper: the rank that forked it */
	uint64_t forked_ns; /* 0: not seen, or it has executed something since */
	uint32_t forks;	    /* that were seen */
	struct comm *comms;
	int ncomms;
	struct ident idents[FT_ATTR_MAX];
	int nidents;
	bool idents_cut, idents_valid;
	int ngpus;
	bool gpus_cut;
	char gpus[FT_ATTR_MAX][16]; /* open device files, sorted */
	int nused;
	bool used_cut;
	char used[FT_ATTR_MAX][16]; /* it runs on these, by NVML */
	int nown;
	struct own_nic own[OWN_NICS];
	char task[17], exe[128], container[72], pod[64], job[32], env_by[32], cuda_visible[256];
};

struct netdev {
	UT_hash_handle hh;
	struct netdev_key {
		uint32_t netns, ifindex;
	} key;
	struct ft_attr_nic nic;
	bool inner; /* lo, dummy: carries addresses of a routed host, and sends nothing out */
	uint8_t addrs[NETDEV_ADDRS][16];
	int naddrs;
};

struct gpu {
	int32_t index;
	char bdf[16], uuid[48];
};

/* NVML names all processes of the node, before or after the inventory does. */
struct gpu_use {
	uint32_t pid;
	uint64_t start_ns;
	char bdf[16];
};

/* A TCP connection seen from one or both ends: a is the smaller endpoint. */
struct endpoint {
	uint8_t ip[16];
	uint16_t port;
} __attribute__((packed));

struct tuple {
	struct endpoint src, dst;
	uint32_t netns;
};

struct end {
	uint32_t pid, netns;
	uint64_t start_ns;
	uint64_t since_ns; /* the process has it, as far as was seen */
	bool closed;
	bool ambiguous; /* two processes claim it: equal addresses in two namespaces */
};

struct flow {
	UT_hash_handle hh;
	struct flow_key {
		struct endpoint a, b;
	} key;
	struct end end[2];
};

/* Fields by which any kind of event is placed; NULL where the kind has none. */
struct places {
	const struct ft_field *saddr, *daddr, *sport, *dport, *netns, *ifindex, *ifname, *comm_ptr,
		*port, *device, *bdf;
};

/* A PCI address, or a bus below a port, and the link that it is an end of. */
struct pci_end {
	UT_hash_handle hh;
	char name[16];
	size_t link; /* the first row of its link */
};

/* Who uses a link or device, until something is learned: a storm of errors costs one look. */
#define PCI_CACHE 16
struct pci_cached {
	char key[17];
	uint64_t at;
	struct ft_attr attr;
};

struct ft_attrib {
	struct proc *procs;
	struct netdev *netdevs;
	struct flow *flows;
	struct gpu gpus[GPUS_MAX]; /* sorted by PCI address: CUDA's order of equal GPUs */
	int ngpus;
	struct gpu_use uses[USES_MAX];
	int nuses;
	struct ft_attrib_link links[LINKS_MAX];
	size_t nlinks;
	struct pci_end *pci_ends;
	struct pci_cached pci_cache[PCI_CACHE];
	uint64_t learned;	     /* processes, ranks or devices changed so often */
	uint32_t exited[EXITED_MAX]; /* ring of pids */
	uint64_t nexited;
	uint64_t unfit;
	struct places places[FT_KIND_MAX];
};

/* attrib_proc.c */
struct proc *proc_find(struct ft_attrib *a, uint32_t pid, uint64_t start_ns);
struct proc *proc_learn(struct ft_attrib *a, const struct ft_hdr *ev);
void proc_inventory(struct ft_attrib *a, const struct ft_hdr *ev);
void proc_started(struct ft_attrib *a, const struct ft_hdr *ev);
void proc_exited(struct ft_attrib *a, const struct ft_hdr *ev);
void proc_library(struct ft_attrib *a, const struct ft_hdr *ev);
void proc_free_all(struct ft_attrib *a);
bool proc_is_rank(const struct proc *p);
bool proc_same_start(uint64_t a_ns, uint64_t b_ns); /* 0: unknown, it may be any */

/* attrib_rank.c */
void comm_event(struct ft_attrib *a, const struct ft_hdr *ev);
void comms_free(struct proc *p);
void idents_update(struct proc *p);
/* Adds the process's ranks; comm_ptr 0: of the event no communicator is known. */
void ranks_fill(struct ft_attrib *a, struct proc *p, uint64_t comm_ptr, struct ft_attr *out);
void ident_fill(const struct proc *p, int ident, struct ft_attr *out);
const struct comm *comm_find(const struct proc *p, uint64_t ptr);

/* attrib_dev.c */
void netdev_inventory(struct ft_attrib *a, const struct ft_hdr *ev);
void gpu_inventory(struct ft_attrib *a, const struct ft_hdr *ev);
void gpu_proc_inventory(struct ft_attrib *a, const struct ft_hdr *ev);
void gpu_uses_take(const struct ft_attrib *a, struct proc *p);
void netdev_free_all(struct ft_attrib *a);
void nic_fill(struct ft_attrib *a, uint32_t netns, uint32_t ifindex, const char *ifname,
	      struct ft_attr *out);
/* The one that carries the local address of a connection. */
void nic_fill_by_addr(struct ft_attrib *a, const struct tuple *t, struct ft_attr *out);
/* whole: of the process itself, to which all of its GPUs belong. */
void gpus_fill(struct ft_attrib *a, struct proc *p, int device, bool whole, struct ft_attr *out);
void links_fill(const struct ft_attrib *a, struct ft_attr *out);
void add_link(const char *key, struct ft_attr *out);
void add_gpu(const struct ft_attrib *a, const char *bdf, struct ft_attr *out);
bool gpu_known(const struct ft_attrib *a, const char *bdf);
void own_nic_learn(struct ft_attrib *a, struct proc *p, uint32_t netns, uint32_t ifindex,
		   const char *ifname);
bool own_nic_has(const struct proc *p, const struct ft_attr_nic *nic);

/* attrib_pci.c */
void pci_inventory(struct ft_attrib *a, const struct ft_hdr *ev);
void pci_counted(struct ft_attrib *a, const struct ft_hdr *ev);
void pci_free_all(struct ft_attrib *a);
/*
 * An event of a PCIe link or of a device: what is concerned, and who uses it. False: the kind is of
 * neither.
 */
bool pci_fill(struct ft_attrib *a, const struct ft_hdr *ev, struct ft_attr *out);

/* attrib_flow.c */
bool tuple_of(const struct ft_attrib *a, const struct ft_hdr *ev, struct tuple *t);
void flow_learn(struct ft_attrib *a, const struct ft_hdr *ev);
/* Owner of one end of the packet's connection, NULL when unknown or ambiguous. */
struct proc *flow_owner(struct ft_attrib *a, const struct tuple *t, bool dst);
/* Since when the process has the connection's source end, 0 unknown. */
uint64_t flow_since(const struct ft_attrib *a, const struct tuple *t, const struct proc *p);
void flow_free_all(struct ft_attrib *a);

/* attrib_share.c */
/* Processes that inherited the event's socket from its owner; t NULL: the connection is not known. */
void heirs_fill(struct ft_attrib *a, struct proc *p, const struct ft_hdr *ev, const struct tuple *t,
		struct ft_attr *out);

#endif

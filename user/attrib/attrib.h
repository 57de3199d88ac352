/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Attribution: event -> process, ranks, GPUs, NICs, links, and how that is known. Opens nothing
 * and reads no clock: all it knows came in as records.
 */
#ifndef FT_ATTRIB_ATTRIB_H
#define FT_ATTRIB_ATTRIB_H

#include "event/event.h"

struct ft_attrib;

/* Bits of `how` that attribution adds. The others come with the record, from its source. */
#define FT_ATTRIB_HOW                                                                              \
	(FT_HOW(comm_init) | FT_HOW(env) | FT_HOW(bus_id) | FT_HOW(nvml) | FT_HOW(dev_files) |     \
	 FT_HOW(cuda_device) | FT_HOW(route) | FT_HOW(ifname) | FT_HOW(address) |                  \
	 FT_HOW(pci_path) | FT_HOW(driver))

int ft_attrib_new(struct ft_attrib **out);
void ft_attrib_free(struct ft_attrib *a);
/*
 * Learns from the event, in order of time, and fills all of *out. A rank that is not known is
 * left out, never guessed; `comm` is the hash of the communicator, or of its unique id where only
 * the init call was seen.
 */
void ft_attrib_event(struct ft_attrib *a, const struct ft_hdr *ev, struct ft_attr *out);
/*
 * How many processes, communicators, sockets and devices were beyond the bounds and are not
 * known.
 */
uint64_t ft_attrib_unfit(const struct ft_attrib *a);

/* A process as attribution knows it; texts are "" and numbers 0 or -1 where unknown. */
struct ft_attrib_proc {
	uint64_t start_ns; /* boot time clock */
	uint32_t pid, ppid, netns;
	bool helper; /* forked from a rank: not a rank itself */
	bool alive;
	int nccl; /* has an NCCL library: 1, 0, -1 unknown */
	int env_rank, env_world, env_local_rank;
	const char *task, *exe, *container, *pod, *job, *env_by;
	const struct ft_attr *attr; /* ranks, GPUs, NICs of its sockets, links */
};
/* All processes, in no order. */
void ft_attrib_each(struct ft_attrib *a, void (*fn)(void *ctx, const struct ft_attrib_proc *p),
		    void *ctx);

/* A PCIe link as inv.pci told it, once for each GPU and NIC below it. */
struct ft_attrib_link {
	char key[16]; /* names the link: its upstream port, its device where no port is seen */
	char port[16], device[16], serves[16], slot[24];
	uint32_t now_gen, now_width, possible_gen, possible_width, target_gen; /* 0 unknown */
	uint32_t serves_id;	   /* vendor and device number of what it serves, 0 unknown */
	int32_t numa;		   /* -1 unknown */
	uint64_t errors_before[3]; /* by AER's class, both ends, by the counters at the attach */
	bool counted;		   /* these are known */
	bool no_aer;		   /* the kernel does not handle AER of its port */
	bool asleep;
};
const struct ft_attrib_link *ft_attrib_links(const struct ft_attrib *a, size_t *n);
/*
 * The link that a PCI address is an end of: a port that faces down is the upper end of the link
 * below it, a switch's upstream port and every function of an endpoint the lower end of the link
 * above. NULL when the inventory has none.
 */
const struct ft_attrib_link *ft_attrib_link(const struct ft_attrib *a, const char *bdf);
/*
 * The attribution of an event of that link: all GPUs and NICs below it, the processes that use them
 * and their ranks, as of now. Nothing when the link is not known.
 */
void ft_attrib_link_attr(struct ft_attrib *a, const char *bdf, struct ft_attr *out);
/* The errors reported by one end count for the link: the upper end is its port. */
bool ft_attrib_is_port(const struct ft_attrib *a, const char *bdf);

/*
 * NVML's bits of clock event reasons that are a fault (nvml.h): hardware slowdown, software and
 * hardware thermal slowdown, power brake. A power cap (4) is a setting, idle (1) is none.
 */
#define FT_CLOCKS_SLOWDOWN (0x08 | 0x20 | 0x40 | 0x80)

/* What the number of an Xid means, by the driver's own table; NULL for one that is not in ours. */
const char *ft_xid_text(uint32_t xid);
/* It comes from what the application does, not from the GPU. */
bool ft_xid_is_application(uint32_t xid);
/* It records what was done or what to do: the error itself has another number. */
bool ft_xid_is_record(uint32_t xid);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The PCI tree of a machine: GPUs, NICs and the links on their way to the root complex. */
#ifndef FT_HOST_PCI_H
#define FT_HOST_PCI_H

#include "event/event.h"

/* State or ability of a link; FT_NONE_U32 unknown. */
struct ft_pci_link {
	uint32_t gen, width;
};

enum ft_pci_role { FT_PCI_OTHER, FT_PCI_GPU, FT_PCI_NIC };

struct ft_pci_dev {
	char bdf[16];
	int parent;	/* index of the port above, -1 on a root bus */
	int physfn;	/* index of the physical function, -1 when it is one */
	int depth;	/* ports above */
	uint32_t class; /* 0x030200 */
	uint16_t vendor, device;
	int32_t numa; /* FT_NONE_S32 unknown */
	enum ft_pci_role role;
	bool on_path; /* a GPU or NIC, or above one: only these are asked for their links */
	bool gone;    /* every read gives ones: the device does not answer on the bus */
	int error;    /* why its link is unknown: -ETIMEDOUT, -EBUSY, -EHOSTDOWN (asleep), 0 */
	struct ft_pci_link now, max;
	int gpu_error;	   /* why the driver's facts are unknown */
	int32_t gpu_index; /* device minor, FT_NONE_S32 unknown */
	char gpu_name[64], gpu_uuid[48];
};

struct ft_pci {
	size_t n;
	struct ft_pci_dev *v; /* sorted by address */
};

/*
 * Reads /sys/bus/pci and /proc/driver/nvidia below root. Devices are asked in workers: one that
 * does not answer in timeout_ms is noted in its `error`. A machine without PCI gives an empty tree.
 */
int ft_pci_read(const char *root, int timeout_ms, struct ft_pci **out);
void ft_pci_free(struct ft_pci *p);
static inline void ft_pci_freep(struct ft_pci **p)
{
	ft_pci_free(*p);
}

/* NULL when there is none. */
const struct ft_pci_dev *ft_pci_find(const struct ft_pci *p, const char *bdf);
/* GPU by index (device minor), NULL when unknown. */
const struct ft_pci_dev *ft_pci_gpu(const struct ft_pci *p, int32_t index);

/* The link above a device. */
struct ft_pci_hop {
	const struct ft_pci_dev *port,
		*device;	     /* port NULL: not seen from here, as in a virtual machine */
	struct ft_pci_link now;	     /* what the device's end says */
	struct ft_pci_link possible; /* min(port's, device's), never the device's alone */
};
/* false: no link above it (inside a switch, or part of the root complex). */
bool ft_pci_hop(const struct ft_pci *p, const struct ft_pci_dev *d, struct ft_pci_hop *out);
/* Links from a device up to the root, the device's own first. Returns their number. */
size_t ft_pci_path(const struct ft_pci *p, const struct ft_pci_dev *d, struct ft_pci_hop *hops,
		   size_t max);
#define FT_PCI_HOPS 8

/* A whole path: the narrowest link now, and the narrowest of what is possible. */
struct ft_pci_path {
	struct ft_pci_link now, possible; /* unknown as soon as one link of the path is */
	struct ft_pci_hop slowest;	  /* the hop that limits now; device NULL unknown */
	size_t hops;
	bool below; /* slowest.now is less than slowest.possible */
};
void ft_pci_path_sum(const struct ft_pci *p, const struct ft_pci_dev *d, struct ft_pci_path *out);

/* Bytes per ns (GB/s) in each direction after line coding, 0 when unknown. */
double ft_pci_gbytes(struct ft_pci_link l);
/* "32.0 GT/s PCIe" -> 5; FT_NONE_U32 when it is no known speed. */
uint32_t ft_pci_gen(const char *text);
/* "Gen5 x16", "unknown" */
const char *ft_pci_link_text(struct ft_pci_link l, char out[32]);

/*
 * inv.pci of each link on the way to each GPU and NIC, inv.gpu of each GPU, inv.host of each device
 * that did not answer.
 */
void ft_pci_emit(const struct ft_pci *p, uint64_t ts_ns, ft_sink_fn sink, void *ctx);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The PCI tree of a machine: GPUs, NICs and the links on their way to the root complex. */
#ifndef FT_HOST_PCI_H
#define FT_HOST_PCI_H

#include "event/event.h"

#define FT_PCI_DIR "/sys/bus/pci/devices"

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
	/*
	 * Of the upper end of a link (a port; a device, where its port is out of sight). Beyond its
	 * first 64 bytes config is for CAP_SYS_ADMIN.
	 */
	uint16_t cap;	   /* offset of the PCI Express capability in config, 0 unknown */
	int config_error;  /* why it is: -EPERM, -ETIMEDOUT, -EBUSY, -ENODEV (all ones) .. */
	bool tells_active; /* has a bit for "the link is up" (DLLLA); not all ports of Gen1 and 2 */
	uint8_t active;	   /* that bit, FT_NONE_U8 unknown */
	uint32_t target_gen; /* Link Control 2: the speed that the port may try */
	uint8_t aer, dpc;    /* the kernel handles these errors of the port; FT_NONE_U8 unknown */
	char slot[32];	     /* name of the slot that a device is in, "" none */
	int gpu_error;	     /* why the driver's facts are unknown */
	int32_t gpu_index;   /* device minor, FT_NONE_S32 unknown */
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
/*
 * Whether the port's `active` can be believed. A device that answers has a link, whatever the bit
 * says: QEMU does not set it where ACPI does the hot plug.
 */
bool ft_pci_hop_tells_active(const struct ft_pci_hop *hop);
/* false: no link above it (inside a switch, or part of the root complex). */
bool ft_pci_hop(const struct ft_pci *p, const struct ft_pci_dev *d, struct ft_pci_hop *out);
/*
 * The device answers, and its Link Status says 0 lanes: virtual functions in a virtual machine keep
 * those bits 0 (PCI Express, SR-IOV: reserved). What an emulated port above says is made up then.
 */
bool ft_pci_hop_hides(const struct ft_pci_hop *hop);
/* Whether the kernel handles AER of what is below the port: its root port does. */
uint8_t ft_pci_os_aer(const struct ft_pci *p, const struct ft_pci_dev *port);
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

/* Link Status, at cap + FT_PCI_LNKSTA. */
#define FT_PCI_LNKSTA	    0x12
#define FT_PCI_LNKCTL2	    0x30
#define FT_PCI_LNKSTA_SPEED 0x000f
#define FT_PCI_LNKSTA_WIDTH 0x03f0
#define FT_PCI_LNKSTA_LT    0x0800 /* training */
#define FT_PCI_LNKSTA_DLLLA 0x2000 /* the link is up */
#define FT_PCI_LNKSTA_LBMS  0x4000
#define FT_PCI_LNKSTA_LABS  0x8000
/* Speed and width of a Link Status; width 0: no link. */
struct ft_pci_link ft_pci_lnksta(uint16_t status);
/* Target speed of a Link Control 2, at cap + FT_PCI_LNKCTL2. */
uint32_t ft_pci_target(uint16_t control2);

/* Bytes per ns (GB/s) in each direction after line coding, 0 when unknown. */
double ft_pci_gbytes(struct ft_pci_link l);
/* "32.0 GT/s PCIe" -> 5; FT_NONE_U32 when it is no known speed. */
uint32_t ft_pci_gen(const char *text);
/* "Gen5 x16", "unknown" */
const char *ft_pci_link_text(struct ft_pci_link l, char out[32]);

/*
 * inv.pci of each link on the way to each GPU and NIC, inv.gpu of each GPU, inv.host of each device
 * that did not answer. Virtual functions come last.
 */
void ft_pci_emit(const struct ft_pci *p, uint64_t ts_ns, ft_sink_fn sink, void *ctx);
/* The same of one device. */
void ft_pci_emit_dev(const struct ft_pci *p, const struct ft_pci_dev *d, uint64_t ts_ns,
		     ft_sink_fn sink, void *ctx);

#endif

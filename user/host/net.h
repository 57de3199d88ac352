/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Network interfaces and RDMA ports, as /sys below a root directory shows them. */
#ifndef FT_HOST_NET_H
#define FT_HOST_NET_H

#include "event/event.h"

/* Port of an RDMA device. */
struct ft_ibport {
	char ibdev[32];
	char bdf[16];	 /* "" where the device is no PCI function (rxe, siw) */
	char netdev[16]; /* interface of its first GID, "" none (InfiniBand without IPoIB) */
	int32_t numa;	 /* FT_NONE_S32 unknown */
	uint8_t port;
	uint8_t active;	     /* FT_NONE_U8 unknown */
	uint32_t speed_mbps; /* FT_NONE_U32 unknown */
};

struct ft_netdev {
	char ifname[16], driver[32], bdf[16], ibdev[32];
	uint32_t ifindex, speed_mbps, mtu, carrier_down_count; /* FT_NONE_U32 unknown */
	int32_t numa;					       /* FT_NONE_S32 unknown */
	uint8_t carrier, port;				       /* FT_NONE_U8 unknown */
	int error; /* why the speed is unknown, 0: the driver does not say */
};

struct ft_net {
	uint32_t netns; /* FT_NONE_U32 unknown */
	struct ft_netdev *v;
	size_t n;
	struct ft_ibport *ports;
	size_t nports;
};

/* Speeds ask the device: they are read in workers. */
int ft_net_read(const char *root, int timeout_ms, struct ft_net **out);
void ft_net_free(struct ft_net *net);
static inline void ft_net_freep(struct ft_net **net)
{
	ft_net_free(*net);
}

/* Only the RDMA ports; without speed when timeout_ms is 0. *out is allocated. */
int ft_ibports_read(const char *root, int timeout_ms, struct ft_ibport **out, size_t *n);
/* The port behind an interface of a PCI function, NULL when there is none. */
const struct ft_ibport *ft_ibport_of(const struct ft_ibport *ports, size_t n, const char *bdf,
				     const char *ifname);
/* NUMA node of a PCI function, FT_NONE_S32 unknown. */
int32_t ft_pci_numa(const char *root, const char *bdf);

/* "400 Gb/sec (4X NDR)" -> 400000; FT_NONE_U32 when it says nothing. */
uint32_t ft_ib_rate_mbps(const char *text);

/* inv.netdev; addrs may be added behind it with ft_rec_strs_add(). */
struct ft_ev_inv_netdev *ft_netdev_rec(const struct ft_netdev *d, uint32_t netns, uint64_t ts_ns,
				       struct ft_rec *out);
/* inv.netdev of each interface, and of each RDMA port that has none. */
void ft_net_emit(const struct ft_net *net, uint64_t ts_ns, ft_sink_fn sink, void *ctx);

#endif

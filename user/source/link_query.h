/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Questions to the network namespace of a process. Each can block on the RTNL lock or on a NIC's
 * firmware, so each runs in a worker and has a deadline.
 */
#ifndef FT_SOURCE_LINK_QUERY_H
#define FT_SOURCE_LINK_QUERY_H

#include <arpa/inet.h>
#include <linux/netlink.h>

#include "host/net.h"

#define LINK_ADDRS 8 /* per interface, the rest is not kept */

/* Sockets live in the namespace in which they were opened. -1: none. */
struct link_fds {
	int monitor; /* notifications, non-blocking */
	int query;   /* dumps */
	int ioctl;   /* ethtool */
};
void link_fds_close(struct link_fds *fds);

struct link_iface {
	struct ft_netdev d;
	uint8_t naddrs;
	char addrs[LINK_ADDRS][INET6_ADDRSTRLEN];
	uint32_t changes;      /* of the carrier, ever growing: old messages have less */
	uint64_t asked_ns;     /* when its speed was read */
	struct ft_netdev told; /* as the last record of it says */
	bool dirty;	       /* may differ from `told` */
};

struct link_list {
	struct link_iface *v;
	size_t n;
};
void link_list_free(struct link_list *l);
struct link_iface *link_list_find(struct link_list *l, uint32_t ifindex);
int link_list_add(struct link_list *l, const struct link_iface *i);

/*
 * Opens the namespace of a process and lists its interfaces; notifications are on before the list
 * is made. -ESTALE: the process lives in another namespace than `netns` by now; -EPERM, -EACCES:
 * not permitted; -ETIMEDOUT, -EBUSY.
 */
int link_ns_open(uint32_t pid, uint32_t netns, int timeout_ms, struct link_fds *fds,
		 struct link_list *out);
/* Lists again. */
int link_ns_list(const struct link_fds *fds, int timeout_ms, struct link_list *out);
/* Driver, address and speed of one interface. */
int link_ns_ask(const struct link_fds *fds, struct link_iface *i, int timeout_ms);

/* What an RTM_NEWLINK says itself; everything else unknown. -EINVAL: no message of an interface. */
int link_msg_parse(const struct nlmsghdr *nlh, struct link_iface *out);
/* Interface and address of an RTM_NEWADDR or RTM_DELADDR. */
int link_addr_parse(const struct nlmsghdr *nlh, uint32_t *ifindex, char addr[INET6_ADDRSTRLEN]);
/* true: it was not there before, and fits. */
bool link_addr_add(struct link_iface *i, const char *addr);
bool link_addr_del(struct link_iface *i, const char *addr);

#endif

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>
#include <libmnl/libmnl.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/base.h"
#include "host/fs.h"
#include "source/link_query.h"

#define RCVBUF	   (1 << 20) /* flaps of many interfaces at once */
#define DUMP_TRIES 3
#define DUMP_BYTES 32768

void link_fds_close(struct link_fds *fds)
{
	ft_closep(&fds->monitor);
	ft_closep(&fds->query);
	ft_closep(&fds->ioctl);
	*fds = (struct link_fds){ -1, -1, -1 };
}

void link_list_free(struct link_list *l)
{
	free(l->v);
	*l = (struct link_list){};
}

struct link_iface *link_list_find(struct link_list *l, uint32_t ifindex)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].d.ifindex == ifindex)
			return &l->v[i];
	return NULL;
}

int link_list_add(struct link_list *l, const struct link_iface *i)
{
	struct link_iface *v = reallocarray(l->v, l->n + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	v[l->n++] = *i;
	l->v = v;
	return 0;
}

/* --- messages --- */
static uint32_t get_u32(const struct nlattr *a)
{
	return mnl_attr_validate(a, MNL_TYPE_U32) < 0 ? FT_NONE_U32 : mnl_attr_get_u32(a);
}

static void get_text(const struct nlattr *a, char *out, size_t size)
{
	size_t len = strnlen(mnl_attr_get_payload(a), mnl_attr_get_payload_len(a));

	ft_strcpy(out, mnl_attr_get_payload(a), MIN(size, len + 1));
}

static void get_kind(const struct nlattr *info, struct ft_netdev *d)
{
	const struct nlattr *a;

	mnl_attr_for_each_nested(a, info)
		if (mnl_attr_get_type(a) == IFLA_INFO_KIND)
			get_text(a, d->driver, sizeof(d->driver));
}

int link_msg_parse(const struct nlmsghdr *nlh, struct link_iface *out)
{
	const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
	struct link_iface i = { .d = { .speed_mbps = FT_NONE_U32,
				       .mtu = FT_NONE_U32,
				       .numa = FT_NONE_S32,
				       .carrier_down_count = FT_NONE_U32,
				       .carrier = FT_NONE_U8,
				       .port = FT_NONE_U8 },
				.changes = FT_NONE_U32 };
	const struct nlattr *a;
	char parent[16] = "";

	/* A bridge reports its ports under its own family: not the interface's state. */
	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*ifi) || ifi->ifi_family != AF_UNSPEC)
		return -EINVAL;
	i.d.ifindex = ifi->ifi_index;
	mnl_attr_for_each(a, nlh, sizeof(*ifi)) {
		switch (mnl_attr_get_type(a)) {
		case IFLA_IFNAME:
			get_text(a, i.d.ifname, sizeof(i.d.ifname));
			break;
		case IFLA_MTU:
			i.d.mtu = get_u32(a);
			break;
		case IFLA_CARRIER:
			i.d.carrier = mnl_attr_get_u8(a) != 0;
			break;
		case IFLA_CARRIER_CHANGES:
			i.changes = get_u32(a);
			break;
		case IFLA_CARRIER_DOWN_COUNT: /* since 4.16 */
			i.d.carrier_down_count = get_u32(a);
			break;
		case IFLA_LINKINFO:
			get_kind(a, &i.d);
			break;
		case IFLA_PARENT_DEV_NAME: /* since 5.14 */
			get_text(a, parent, sizeof(parent));
			break;
		}
	}
	if (ft_is_bdf(parent))
		ft_strcpy(i.d.bdf, parent, sizeof(i.d.bdf));
	*out = i;
	return 0;
}

int link_addr_parse(const struct nlmsghdr *nlh, uint32_t *ifindex, char addr[INET6_ADDRSTRLEN])
{
	const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
	const struct nlattr *a, *address = NULL, *local = NULL;

	if (mnl_nlmsg_get_payload_len(nlh) < sizeof(*ifa))
		return -EINVAL;
	mnl_attr_for_each(a, nlh, sizeof(*ifa)) {
		if (mnl_attr_get_type(a) == IFA_ADDRESS)
			address = a;
		else if (mnl_attr_get_type(a) == IFA_LOCAL)
			local = a;
	}
	/* IFA_ADDRESS is the peer's on a point-to-point interface. */
	local = local ? local : address;
	if (!local || mnl_attr_get_payload_len(local) < (ifa->ifa_family == AF_INET ? 4 : 16) ||
	    !inet_ntop(ifa->ifa_family, mnl_attr_get_payload(local), addr, INET6_ADDRSTRLEN))
		return -EINVAL;
	*ifindex = ifa->ifa_index;
	return 0;
}

static int addr_index(const struct link_iface *i, const char *addr)
{
	for (int k = 0; k < i->naddrs; k++)
		if (!strcmp(i->addrs[k], addr))
			return k;
	return -1;
}

bool link_addr_add(struct link_iface *i, const char *addr)
{
	if (addr_index(i, addr) >= 0 || i->naddrs == LINK_ADDRS)
		return false;
	ft_strcpy(i->addrs[i->naddrs++], addr, sizeof(i->addrs[0]));
	return true;
}

bool link_addr_del(struct link_iface *i, const char *addr)
{
	int k = addr_index(i, addr);

	if (k < 0)
		return false;
	i->naddrs--;
	memmove(i->addrs[k], i->addrs[k + 1], (i->naddrs - k) * sizeof(i->addrs[0]));
	return true;
}

/* --- dumps --- */
static int on_link(const struct nlmsghdr *nlh, void *data)
{
	struct link_list *l = data;
	struct link_iface i;

	if (nlh->nlmsg_type != RTM_NEWLINK || link_msg_parse(nlh, &i))
		return MNL_CB_OK;
	if (!link_list_add(l, &i))
		return MNL_CB_OK;
	errno = ENOMEM;
	return MNL_CB_ERROR;
}

static int on_addr(const struct nlmsghdr *nlh, void *data)
{
	char addr[INET6_ADDRSTRLEN];
	struct link_iface *i;
	uint32_t ifindex;

	if (nlh->nlmsg_type != RTM_NEWADDR || link_addr_parse(nlh, &ifindex, addr))
		return MNL_CB_OK;
	i = link_list_find(data, ifindex);
	if (i)
		link_addr_add(i, addr);
	return MNL_CB_OK;
}

static int dump(int fd, uint16_t type, mnl_cb_t cb, void *data)
{
	_cleanup_free_ char *buf = malloc(DUMP_BYTES);
	struct nlmsghdr *nlh;
	uint32_t seq = ft_mono_ns();
	int more = 1;

	if (!buf)
		return -ENOMEM;
	nlh = mnl_nlmsg_put_header(buf);
	nlh->nlmsg_type = type;
	nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	nlh->nlmsg_seq = seq;
	/* One head fits both requests: family first, and zeroes. */
	memset(mnl_nlmsg_put_extra_header(nlh, sizeof(struct ifinfomsg)), 0,
	       sizeof(struct ifinfomsg));
	if (type == RTM_GETLINK)
		mnl_attr_put_u32(nlh, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
	if (send(fd, nlh, nlh->nlmsg_len, 0) < 0)
		return -errno;
	while (more > 0) {
		ssize_t n = recv(fd, buf, DUMP_BYTES, 0);

		if (n < 0)
			return -errno;
		/* The rest of an earlier dump that was broken off, or that nobody waited for. */
		if (n >= (ssize_t)sizeof(*nlh) && nlh->nlmsg_seq != seq)
			continue;
		more = mnl_cb_run(buf, n, seq, 0, cb, data);
	}
	return more < 0 ? -errno : 0;
}

/* --- ethtool --- */
static int ethtool(int fd, const char *ifname, void *data)
{
	struct ifreq ifr = {};

	ft_strcpy(ifr.ifr_name, ifname, sizeof(ifr.ifr_name));
	ifr.ifr_data = data;
	return ioctl(fd, SIOCETHTOOL, &ifr) ? -errno : 0;
}

static uint32_t ask_speed(int fd, const char *ifname)
{
	struct {
		struct ethtool_link_settings s;
		uint32_t masks[3 * 127];
	} req = { .s.cmd = ETHTOOL_GLINKSETTINGS };

	/* The first call says how many words of link modes this kernel has. */
	if (ethtool(fd, ifname, &req) || req.s.link_mode_masks_nwords >= 0)
		return FT_NONE_U32;
	req.s.cmd = ETHTOOL_GLINKSETTINGS;
	req.s.link_mode_masks_nwords = -req.s.link_mode_masks_nwords;
	if (ethtool(fd, ifname, &req) || !req.s.speed)
		return FT_NONE_U32;
	return req.s.speed; /* SPEED_UNKNOWN is FT_NONE_U32 */
}

static void ask(int fd, struct link_iface *i, const struct ft_ibport *ports, size_t n)
{
	struct ethtool_drvinfo info = { .cmd = ETHTOOL_GDRVINFO };
	const struct ft_ibport *port;

	i->asked_ns = ft_mono_ns();
	i->d.speed_mbps = ask_speed(fd, i->d.ifname);
	if (!ethtool(fd, i->d.ifname, &info)) {
		ft_strcpy(i->d.driver, info.driver, sizeof(i->d.driver));
		if (ft_is_bdf(info.bus_info))
			ft_strcpy(i->d.bdf, info.bus_info, sizeof(i->d.bdf));
	}
	i->d.numa = ft_pci_numa("", i->d.bdf);
	port = i->d.bdf[0] ? ft_ibport_of(ports, n, i->d.bdf, i->d.ifname) : NULL;
	if (!port)
		return;
	ft_strcpy(i->d.ibdev, port->ibdev, sizeof(i->d.ibdev));
	i->d.port = port->port;
}

/* --- jobs: own all that they use, so that a late one harms nobody --- */
struct job {
	char path[64]; /* of the namespace */
	uint32_t netns;
	struct link_fds fds;
	struct link_list list;
	struct link_iface one;
};

static void job_free(void *arg)
{
	struct job *j = arg;

	link_fds_close(&j->fds);
	link_list_free(&j->list);
	free(j);
}

static int list_all(struct job *j)
{
	_cleanup_free_ struct ft_ibport *ports = NULL;
	size_t nports = 0;
	int err = -EINTR;

	/* The kernel marks a dump during which something changed: it may lack an interface. */
	for (int try = 0; err == -EINTR && try < DUMP_TRIES; try++) {
		link_list_free(&j->list);
		err = dump(j->fds.query, RTM_GETLINK, on_link, &j->list);
		if (!err)
			err = dump(j->fds.query, RTM_GETADDR, on_addr, &j->list);
	}
	if (err)
		return err;
	ft_ibports_read("", 0, &ports, &nports);
	for (size_t i = 0; i < j->list.n; i++)
		ask(j->fds.ioctl, &j->list.v[i], ports, nports);
	return 0;
}

static int open_sockets(struct link_fds *fds)
{
	const struct sockaddr_nl groups = {
		.nl_family = AF_NETLINK,
		.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
	};
	const struct timeval patience = { .tv_sec = 5 };
	const int size = RCVBUF;

	fds->monitor = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	fds->query = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
	fds->ioctl = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fds->monitor < 0 || fds->query < 0 || fds->ioctl < 0)
		return -errno;
	if (setsockopt(fds->monitor, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
		setsockopt(fds->monitor, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fds->query, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return bind(fds->monitor, (const void *)&groups, sizeof(groups)) ? -errno : 0;
}

/* This thread is thrown away after the job, so it need not come back from the namespace. */
static int job_open(void *arg)
{
	struct job *j = arg;
	_cleanup_close_ int ns = open(j->path, O_RDONLY | O_CLOEXEC);
	struct stat st, own;
	int err;

	if (ns < 0 || fstat(ns, &st) || stat("/proc/self/ns/net", &own))
		return -errno;
	if (st.st_ino != j->netns)
		return -ESTALE;
	/* Our own namespace needs no right. */
	if (st.st_ino != own.st_ino && setns(ns, CLONE_NEWNET))
		return -errno;
	err = open_sockets(&j->fds);
	return err ? err : list_all(j);
}

static int job_list(void *arg)
{
	return list_all(arg);
}

static int job_ask(void *arg)
{
	_cleanup_free_ struct ft_ibport *ports = NULL;
	struct job *j = arg;
	size_t n = 0;

	ft_ibports_read("", 0, &ports, &n);
	ask(j->fds.ioctl, &j->one, ports, n);
	return 0;
}

static struct job *job_new(const struct link_fds *fds)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->fds = (struct link_fds){ -1, -1, -1 };
	if (!fds)
		return j;
	j->fds.query = fcntl(fds->query, F_DUPFD_CLOEXEC, 0);
	j->fds.ioctl = fcntl(fds->ioctl, F_DUPFD_CLOEXEC, 0);
	if (j->fds.query >= 0 && j->fds.ioctl >= 0)
		return j;
	job_free(j);
	return NULL;
}

/* Runs it; after 0 the job is still the caller's, else it is gone. */
static int job_run(struct job *j, int (*fn)(void *), int timeout_ms)
{
	int err = j ? ft_worker_call(fn, job_free, j, timeout_ms) : -ENOMEM;

	if (j && err && err != -ETIMEDOUT)
		job_free(j);
	return err;
}

int link_ns_open(uint32_t pid, uint32_t netns, int timeout_ms, struct link_fds *fds,
		 struct link_list *out)
{
	struct job *j = job_new(NULL);
	int err;

	if (j) {
		ft_fmt(j->path, "/proc/%u/ns/net", pid);
		j->netns = netns;
	}
	err = job_run(j, job_open, timeout_ms);
	if (err)
		return err;
	*fds = j->fds;
	j->fds = (struct link_fds){ -1, -1, -1 };
	*out = j->list;
	j->list = (struct link_list){};
	job_free(j);
	return 0;
}

int link_ns_list(const struct link_fds *fds, int timeout_ms, struct link_list *out)
{
	struct job *j = job_new(fds);
	int err = job_run(j, job_list, timeout_ms);

	if (err)
		return err;
	*out = j->list;
	j->list = (struct link_list){};
	job_free(j);
	return 0;
}

int link_ns_ask(const struct link_fds *fds, struct link_iface *i, int timeout_ms)
{
	struct job *j = job_new(fds);
	int err;

	if (j)
		j->one = *i;
	err = job_run(j, job_ask, timeout_ms);
	if (err)
		return err;
	*i = j->one;
	job_free(j);
	return 0;
}

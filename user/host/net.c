// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <limits.h>

#include "host/fs.h"
#include "host/net.h"

#define NET_DIR "/sys/class/net"
#define IB_DIR	"/sys/class/infiniband"

int32_t ft_pci_numa(const char *root, const char *bdf)
{
	char path[96], line[32];

	ft_fmt(path, "/sys/bus/pci/devices/%s/numa_node", bdf);
	/* -1 where the firmware does not say */
	if (!bdf[0] || ft_read_line(root, path, line, sizeof(line)) || line[0] < '0' ||
	    line[0] > '9')
		return FT_NONE_S32;
	return atoi(line);
}

/* --- RDMA ports --- */
uint32_t ft_ib_rate_mbps(const char *text)
{
	double gbit;
	char unit[8];

	if (sscanf(text, "%lf %7s", &gbit, unit) != 2 || strcmp(unit, "Gb/sec") != 0 || gbit <= 0 ||
	    gbit > 1e5)
		return FT_NONE_U32;
	return gbit * 1000;
}

static void port_read(const char *root, int timeout_ms, struct ft_ibport *p)
{
	static const char *const names[] = { "rate", "state" };
	char dir[96], path[128], texts[ARRAY_SIZE(names)][FT_ATTR_TEXT];

	ft_fmt(dir, IB_DIR "/%s/ports/%u", p->ibdev, p->port);
	ft_fmt(path, "%s/gid_attrs/ndevs/0", dir);
	ft_read_line(root, path, p->netdev, sizeof(p->netdev));
	/* The port's attributes are a firmware command on mlx5. */
	if (!timeout_ms || ft_attrs_read(root, dir, names, ARRAY_SIZE(names), texts, timeout_ms))
		return;
	p->speed_mbps = ft_ib_rate_mbps(texts[0]);
	if (texts[1][0])
		p->active = !strncmp(texts[1], "4:", 2);
}

static int device_read(const char *root, const char *ibdev, int timeout_ms, struct ft_ibport **v,
		       size_t *n)
{
	_cleanup_names_ struct ft_names ports = {};
	char path[96], bdf[16] = "";
	struct ft_ibport *more;

	ft_fmt(path, IB_DIR "/%s/device", ibdev);
	ft_bdf_of(root, path, bdf);
	ft_fmt(path, IB_DIR "/%s/ports", ibdev);
	if (ft_names_read(root, path, &ports))
		return 0;
	more = realloc(*v, (*n + ports.n + 1) * sizeof(**v));
	if (!more)
		return -ENOMEM;
	*v = more;
	for (size_t i = 0; i < ports.n; i++) {
		struct ft_ibport *p = &(*v)[*n];

		*p = (struct ft_ibport){ .port = atoi(ports.v[i]),
					 .active = FT_NONE_U8,
					 .speed_mbps = FT_NONE_U32 };
		ft_strcpy(p->ibdev, ibdev, sizeof(p->ibdev));
		ft_strcpy(p->bdf, bdf, sizeof(p->bdf));
		p->numa = ft_pci_numa(root, bdf);
		port_read(root, timeout_ms, p);
		*n += p->port != 0;
	}
	return 0;
}

int ft_ibports_read(const char *root, int timeout_ms, struct ft_ibport **out, size_t *n)
{
	_cleanup_names_ struct ft_names names = {};
	_cleanup_free_ struct ft_ibport *v = NULL;
	size_t count = 0;
	int err = ft_names_read(root, IB_DIR, &names);

	if (err && err != -ENOENT)
		return err;
	for (size_t i = 0; i < names.n; i++) {
		err = device_read(root, names.v[i], timeout_ms, &v, &count);
		if (err)
			return err;
	}
	*out = ft_take_ptr(v);
	*n = count;
	return 0;
}

const struct ft_ibport *ft_ibport_of(const struct ft_ibport *ports, size_t n, const char *bdf,
				     const char *ifname)
{
	const struct ft_ibport *only = NULL;
	size_t same = 0;

	for (size_t i = 0; i < n; i++) {
		bool here = bdf[0] && !strcmp(ports[i].bdf, bdf);

		/*
		 * Names repeat in other namespaces: the device must be the same, too. A bond has no
		 * device.
		 */
		if ((here || !bdf[0]) && ports[i].netdev[0] && !strcmp(ports[i].netdev, ifname))
			return &ports[i];
		if (here) {
			only = &ports[i];
			same++;
		}
	}
	return same == 1 ? only : NULL;
}

/* --- interfaces --- */
static uint32_t number(const char *root, const char *ifname, const char *name)
{
	char path[96];
	uint64_t v;

	ft_fmt(path, NET_DIR "/%s/%s", ifname, name);
	return ft_read_u64(root, path, &v) || v >= FT_NONE_U32 ? FT_NONE_U32 : v;
}

static void read_driver(const char *root, struct ft_netdev *d)
{
	char path[96];
	_cleanup_free_ char *uevent = NULL;

	ft_fmt(path, NET_DIR "/%s/device/driver", d->ifname);
	if (!ft_link_base(root, path, d->driver, sizeof(d->driver)))
		return;
	/* Virtual interfaces: bridge, bond, vlan, vxlan; veth does not say. */
	ft_fmt(path, NET_DIR "/%s/uevent", d->ifname);
	if (ft_head_read(root, path, 4096, &uevent) < 0)
		return;
	for (char *line = uevent; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, "DEVTYPE=", 8)) {
			ft_strcpy(d->driver, line + 8,
				  MIN(sizeof(d->driver), strcspn(line + 8, "\n") + 1));
			return;
		}
		if (!*line)
			return;
	}
}

static void read_speed(const char *root, int timeout_ms, struct ft_netdev *d)
{
	static const char *const names[] = { "speed" };
	char dir[64], text[1][FT_ATTR_TEXT];
	long mbps;

	ft_fmt(dir, NET_DIR "/%s", d->ifname);
	d->error = ft_attrs_read(root, dir, names, 1, text, timeout_ms);
	if (d->error)
		return;
	/* -1 or nothing: unknown */
	mbps = strtol(text[0], NULL, 10);
	if (mbps > 0)
		d->speed_mbps = mbps;
}

static void netdev_read(const char *root, const char *ifname, int timeout_ms,
			const struct ft_net *net, struct ft_netdev *d)
{
	const struct ft_ibport *port;
	uint32_t carrier;
	char path[96];

	*d = (struct ft_netdev){ .speed_mbps = FT_NONE_U32, .port = FT_NONE_U8 };
	ft_strcpy(d->ifname, ifname, sizeof(d->ifname));
	d->ifindex = number(root, ifname, "ifindex");
	d->mtu = number(root, ifname, "mtu");
	d->carrier_down_count = number(root, ifname, "carrier_down_count");
	/* Cannot be read while the interface is administratively down. */
	carrier = number(root, ifname, "carrier");
	d->carrier = carrier > 1 ? FT_NONE_U8 : carrier;
	ft_fmt(path, NET_DIR "/%s/device", ifname);
	ft_bdf_of(root, path, d->bdf);
	d->numa = ft_pci_numa(root, d->bdf);
	read_driver(root, d);
	read_speed(root, timeout_ms, d);
	port = ft_ibport_of(net->ports, net->nports, d->bdf, ifname);
	if (!port)
		return;
	ft_strcpy(d->ibdev, port->ibdev, sizeof(d->ibdev));
	d->port = port->port;
	if (d->speed_mbps == FT_NONE_U32)
		d->speed_mbps = port->speed_mbps;
}

static int net_read(struct ft_net *net, const char *root, int timeout_ms)
{
	_cleanup_names_ struct ft_names names = {};
	int err = ft_names_read(root, NET_DIR, &names);

	if (err && err != -ENOENT)
		return err;
	err = ft_ibports_read(root, timeout_ms, &net->ports, &net->nports);
	if (err)
		return err;
	net->netns = FT_NONE_U32;
	ft_link_inode(root, root[0] ? "/proc/1/ns/net" : "/proc/self/ns/net", &net->netns);
	net->v = calloc(MAX(names.n, (size_t)1), sizeof(*net->v));
	if (!net->v)
		return -ENOMEM;
	for (size_t i = 0; i < names.n; i++) {
		netdev_read(root, names.v[i], timeout_ms, net, &net->v[net->n]);
		/* bonding_masters is a file among the interfaces */
		net->n += net->v[net->n].ifindex != FT_NONE_U32;
	}
	return 0;
}

int ft_net_read(const char *root, int timeout_ms, struct ft_net **out)
{
	_cleanup_(ft_net_freep) struct ft_net *net = calloc(1, sizeof(*net));
	int err = net ? net_read(net, root, timeout_ms) : -ENOMEM;

	if (!err)
		*out = ft_take_ptr(net);
	return err;
}

void ft_net_free(struct ft_net *net)
{
	if (!net)
		return;
	free(net->v);
	free(net->ports);
	free(net);
}

/* --- records --- */
struct ft_ev_inv_netdev *ft_netdev_rec(const struct ft_netdev *d, uint32_t netns, uint64_t ts_ns,
				       struct ft_rec *out)
{
	struct ft_ev_inv_netdev *e = ft_rec_new(out, FT_KIND_inv_netdev, ts_ns);

	e->netns = netns;
	e->ifindex = d->ifindex;
	e->speed_mbps = d->speed_mbps;
	e->mtu = d->mtu;
	e->carrier_down_count = d->carrier_down_count;
	e->numa = d->numa;
	e->carrier = d->carrier;
	e->port = d->port;
	ft_strcpy(e->ifname, d->ifname, sizeof(e->ifname));
	ft_rec_str(out, &e->driver, d->driver);
	ft_rec_str(out, &e->bdf, d->bdf);
	ft_rec_str(out, &e->ibdev, d->ibdev);
	return e;
}

static bool has_netdev(const struct ft_net *net, const struct ft_ibport *p)
{
	for (size_t i = 0; i < net->n; i++)
		if (!strcmp(net->v[i].ibdev, p->ibdev) && net->v[i].port == p->port)
			return true;
	return false;
}

void ft_net_emit(const struct ft_net *net, uint64_t ts_ns, ft_sink_fn sink, void *ctx)
{
	struct ft_rec rec;

	for (size_t i = 0; i < net->n; i++) {
		ft_netdev_rec(&net->v[i], net->netns, ts_ns, &rec);
		sink(ctx, &rec.h);
	}
	for (size_t i = 0; i < net->nports; i++) {
		const struct ft_ibport *p = &net->ports[i];
		struct ft_netdev d = { .ifindex = FT_NONE_U32,
				       .speed_mbps = p->speed_mbps,
				       .mtu = FT_NONE_U32,
				       .carrier_down_count = FT_NONE_U32,
				       .numa = p->numa,
				       .carrier = p->active,
				       .port = p->port };

		if (has_netdev(net, p))
			continue;
		ft_strcpy(d.bdf, p->bdf, sizeof(d.bdf));
		ft_strcpy(d.ibdev, p->ibdev, sizeof(d.ibdev));
		ft_netdev_rec(&d, FT_NONE_U32, ts_ns, &rec);
		sink(ctx, &rec.h);
	}
}

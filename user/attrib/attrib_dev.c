// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* NICs and GPUs. */
#include "attrib/internal.h"

static struct netdev *netdev_find(const struct ft_attrib *a, uint32_t netns, uint32_t ifindex)
{
	struct netdev_key key = { netns, ifindex };
	struct netdev *d;

	HASH_FIND(hh, a->netdevs, &key, sizeof(key), d);
	return d;
}

static struct netdev *netdev_by_name(const struct ft_attrib *a, uint32_t netns, const char *ifname)
{
	for (struct netdev *d = a->netdevs; d; d = d->hh.next)
		if (d->key.netns == netns && !strcmp(d->nic.netdev, ifname))
			return d;
	return NULL;
}

static struct netdev *netdev_learn(struct ft_attrib *a, uint32_t netns, uint32_t ifindex)
{
	struct netdev *d = netdev_find(a, netns, ifindex);

	if (d)
		return d;
	d = HASH_COUNT(a->netdevs) < NETDEVS_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		goto unfit;
	d->key = (struct netdev_key){ netns, ifindex };
	HASH_ADD(hh, a->netdevs, key, sizeof(d->key), d);
	if (d->hh.tbl)
		return d;
	free(d);
unfit:
	a->unfit++;
	return NULL;
}

static void addrs_copy(struct netdev *d, const struct ft_ev_inv_netdev *e)
{
	const char *s = (const char *)e + e->addrs.off;

	d->naddrs = 0;
	for (size_t i = 0, n; i < e->addrs.len && d->naddrs < NETDEV_ADDRS; i += n + 1) {
		char text[64];

		n = strnlen(s + i, e->addrs.len - i);
		ft_fmt(text, "%.*s", (int)n, s + i);
		text[strcspn(text, "/")] = 0; /* with its prefix length or without */
		d->naddrs += !ft_ip_parse(text, d->addrs[d->naddrs]);
	}
}

void netdev_inventory(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_inv_netdev *e = (const void *)ev;
	struct netdev *d = netdev_learn(a, e->netns, e->ifindex);

	if (!d)
		return;
	d->nic = (struct ft_attr_nic){ .port = e->port == FT_NONE_U8 ? -1 : e->port,
				       .netns = e->netns };
	ft_fmt(d->nic.netdev, "%.*s", (int)sizeof(e->ifname), e->ifname);
	ft_str_copy(ev, e->ibdev, d->nic.ibdev, sizeof(d->nic.ibdev));
	ft_str_copy(ev, e->bdf, d->nic.bdf, sizeof(d->nic.bdf));
	d->inner = !strcmp(d->nic.netdev, "lo") || ft_str_is(ev, e->driver, "dummy");
	addrs_copy(d, e);
}

void netdev_free_all(struct ft_attrib *a)
{
	struct netdev *d, *next;

	HASH_ITER(hh, a->netdevs, d, next) {
		HASH_DEL(a->netdevs, d);
		free(d);
	}
}

void nic_fill(struct ft_attrib *a, uint32_t netns, uint32_t ifindex, const char *ifname,
	      struct ft_attr *out)
{
	struct netdev *d = ifindex ? netdev_find(a, netns, ifindex) : NULL;
	struct ft_attr_nic *n = &out->nics[out->nnics];

	if (!d && ifname[0])
		d = netdev_by_name(a, netns, ifname);
	if ((!d && !ifname[0]) || out->nnics == FT_ATTR_MAX)
		return;
	if (d) {
		*n = d->nic;
	} else {
		*n = (struct ft_attr_nic){ .port = -1, .netns = netns };
		ft_strcpy(n->netdev, ifname, sizeof(n->netdev));
	}
	for (int i = 0; i < out->nnics; i++)
		if (!memcmp(&out->nics[i], n, sizeof(*n)))
			return;
	out->nnics++;
}

static bool carries(const struct netdev *d, uint32_t netns, const uint8_t ip[16])
{
	for (int i = 0; i < d->naddrs && d->key.netns == netns; i++)
		if (!memcmp(d->addrs[i], ip, 16))
			return true;
	return false;
}

/*
 * Nothing where several carry it, which the route would have told apart, or one that sends nothing,
 * or where the remote address is of this namespace, too: what goes from here to here crosses no NIC.
 */
void nic_fill_by_addr(struct ft_attrib *a, const struct tuple *t, struct ft_attr *out)
{
	const struct netdev *only = NULL;
	int n = 0;

	for (struct netdev *d = a->netdevs; d; d = d->hh.next) {
		if (carries(d, t->netns, t->dst.ip))
			return;
		if (!carries(d, t->netns, t->src.ip))
			continue;
		only = d;
		n++;
	}
	if (n == 1 && !only->inner)
		nic_fill(a, t->netns, only->key.ifindex, only->nic.netdev, out);
}

void own_nic_learn(struct ft_attrib *a, struct proc *p, uint32_t netns, uint32_t ifindex,
		   const char *ifname)
{
	struct own_nic *n = &p->own[p->nown];

	if ((!ifindex && !ifname[0]) || !strcmp(ifname, "lo"))
		return;
	for (int i = 0; i < p->nown; i++)
		if (p->own[i].netns == netns && p->own[i].ifindex == ifindex)
			return;
	if (p->nown == OWN_NICS)
		return;
	*n = (struct own_nic){ .netns = netns, .ifindex = ifindex };
	ft_strcpy(n->ifname, ifname, sizeof(n->ifname));
	p->nown++;
	a->learned++;
}

bool own_nic_has(const struct proc *p, const struct ft_attr_nic *nic)
{
	for (int i = 0; i < p->nown; i++)
		if (p->own[i].netns == nic->netns && !strcmp(p->own[i].ifname, nic->netdev))
			return true;
	return false;
}

/* --- GPUs --- */

void gpu_inventory(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_inv_gpu *e = (const void *)ev;
	struct gpu g = { .index = e->index == FT_NONE_S32 ? -1 : e->index };
	int at = a->ngpus;

	ft_str_copy(ev, e->bdf, g.bdf, sizeof(g.bdf));
	ft_str_copy(ev, e->uuid, g.uuid, sizeof(g.uuid));
	for (int i = 0; i < a->ngpus; i++) {
		if (strcmp(a->gpus[i].bdf, g.bdf) != 0)
			continue;
		/* While it goes the driver does not know it any more: it is the same one. */
		if (g.index < 0)
			g.index = a->gpus[i].index;
		if (!g.uuid[0])
			ft_strcpy(g.uuid, a->gpus[i].uuid, sizeof(g.uuid));
		a->gpus[i] = g;
		return;
	}
	if (a->ngpus == GPUS_MAX) {
		a->unfit++;
		return;
	}
	for (; at && strcmp(a->gpus[at - 1].bdf, g.bdf) > 0; at--)
		a->gpus[at] = a->gpus[at - 1];
	a->gpus[at] = g;
	a->ngpus++;
}

static int gpu_by_bdf(const struct ft_attrib *a, const char *bdf)
{
	for (int i = 0; i < a->ngpus; i++)
		if (!strcmp(a->gpus[i].bdf, bdf))
			return i;
	return -1;
}

bool gpu_known(const struct ft_attrib *a, const char *bdf)
{
	return gpu_by_bdf(a, bdf) >= 0;
}

void add_gpu(const struct ft_attrib *a, const char *bdf, struct ft_attr *out)
{
	int known = gpu_by_bdf(a, bdf);
	struct ft_attr_gpu *g = &out->gpus[out->ngpus];

	for (int i = 0; i < out->ngpus; i++)
		if (!strcmp(out->gpus[i].bdf, bdf))
			return;
	if (out->ngpus == FT_ATTR_MAX) {
		out->truncated = true;
		return;
	}
	g->index = known >= 0 ? a->gpus[known].index : -1;
	ft_strcpy(g->bdf, bdf, sizeof(g->bdf));
	out->ngpus++;
}

/* Entry nr of CUDA_VISIBLE_DEVICES; nr < 0: the only one. False: no such entry. */
static bool visible_entry(const char *list, int nr, char *out, size_t size)
{
	const char *s = list;

	if (nr < 0 && strchr(list, ','))
		return false;
	for (int i = 0; i < nr; i++) {
		s = strchr(s, ',');
		if (!s)
			return false;
		s++;
	}
	snprintf(out, size, "%.*s", (int)strcspn(s, ","), s);
	return out[0] != 0;
}

static const char *gpu_by_uuid(const struct ft_attrib *a, const char *prefix)
{
	const char *bdf = NULL;

	/* CUDA takes any prefix that names one GPU. */
	for (int i = 0; i < a->ngpus; i++) {
		if (strncmp(a->gpus[i].uuid, prefix, strlen(prefix)) != 0)
			continue;
		if (bdf)
			return NULL;
		bdf = a->gpus[i].bdf;
	}
	return bdf;
}

/*
 * A hint among the GPUs whose files are open: the CUDA device number counts the visible GPUs by
 * PCI address (equal GPUs; CUDA_DEVICE_ORDER may say otherwise). Used only where the open files
 * are all GPUs of the node, or no CUDA_VISIBLE_DEVICES stands between.
 */
static const char *gpu_hint(const struct ft_attrib *a, const struct proc *p, int device)
{
	char entry[64];
	uint64_t nr;

	if (!p->cuda_visible[0])
		return device >= 0 && device < p->ngpus && !p->gpus_cut ? p->gpus[device] : NULL;
	if (!visible_entry(p->cuda_visible, device, entry, sizeof(entry)))
		return NULL;
	if (!strncmp(entry, "GPU-", 4))
		return gpu_by_uuid(a, entry);
	if (ft_parse_u64(entry, &nr) || p->ngpus != a->ngpus || nr >= (uint64_t)p->ngpus)
		return NULL;
	return p->gpus[nr];
}

static bool listed(char (*list)[16], int n, const char *bdf)
{
	for (int i = 0; i < n; i++)
		if (!strcmp(list[i], bdf))
			return true;
	return false;
}

static void use_add(struct proc *p, const char *bdf)
{
	if (listed(p->used, p->nused, bdf))
		return;
	if (p->nused < FT_ATTR_MAX)
		ft_strcpy(p->used[p->nused++], bdf, sizeof(p->used[0]));
	else
		p->used_cut = true;
}

/* What NVML said of the process before it was known. */
void gpu_uses_take(const struct ft_attrib *a, struct proc *p)
{
	for (int i = 0; i < a->nuses; i++)
		if (a->uses[i].pid == p->pid && proc_same_start(a->uses[i].start_ns, p->start_ns))
			use_add(p, a->uses[i].bdf);
}

void gpu_proc_inventory(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_inv_gpu_proc *e = (const void *)ev;
	struct proc *p = proc_find(a, ev->pid, ev->start_ns);
	struct gpu_use u = { .pid = ev->pid, .start_ns = ev->start_ns };

	ft_str_copy(ev, e->bdf, u.bdf, sizeof(u.bdf));
	if (!u.pid || !u.bdf[0])
		return;
	if (p)
		use_add(p, u.bdf);
	else if (a->nuses < USES_MAX)
		a->uses[a->nuses++] = u;
	else
		a->unfit++;
}

/*
 * NVML's list is of what runs now: with several GPUs the process uses them all (or keeps memory on
 * one by mistake), and only a communicator's device tells one event's GPU.
 */
static void used_fill(const struct ft_attrib *a, struct proc *p, int device, bool whole,
		      struct ft_attr *out)
{
	const char *hint = p->nused > 1 && device >= 0 ? gpu_hint(a, p, device) : NULL;

	out->how |= FT_HOW(nvml);
	if (hint && listed(p->used, p->nused, hint)) {
		add_gpu(a, hint, out);
		out->how |= FT_HOW(cuda_device);
		return;
	}
	for (int i = 0; i < p->nused; i++)
		add_gpu(a, p->used[i], out);
	out->truncated |= p->used_cut;
	if (p->nused > 1 && !whole)
		out->shared = true;
}

/*
 * device: CUDA device of the communicator, -1 unknown. What NVML saw comes first; open files that
 * name several GPUs mean one of them.
 */
void gpus_fill(struct ft_attrib *a, struct proc *p, int device, bool whole, struct ft_attr *out)
{
	const char *hint;

	if (p->nused) {
		used_fill(a, p, device, whole, out);
		return;
	}
	if (!p->ngpus)
		return;
	hint = p->ngpus > 1 ? gpu_hint(a, p, device) : NULL;
	if (hint && listed(p->gpus, p->ngpus, hint)) {
		add_gpu(a, hint, out);
		out->how |= FT_HOW(cuda_device) | FT_HOW(dev_files);
		return;
	}
	for (int i = 0; i < p->ngpus; i++)
		add_gpu(a, p->gpus[i], out);
	out->how |= FT_HOW(dev_files);
	out->truncated |= p->gpus_cut;
	if (p->ngpus > 1)
		out->shared = true;
}

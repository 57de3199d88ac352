// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* One event in, its attribution out. */
#include "attrib/internal.h"

static const char *const place_names[] = { "saddr", "daddr",   "sport",	 "dport",
					   "netns", "ifindex", "ifname", "comm_ptr",
					   "port",  "device",  "bdf" };
_Static_assert(sizeof(struct places) == ARRAY_SIZE(place_names) * sizeof(void *),
	       "one name per place");

int ft_attrib_new(struct ft_attrib **out)
{
	struct ft_attrib *a = calloc(1, sizeof(*a));

	if (!a)
		return -ENOMEM;
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++) {
		const struct ft_kind_info *k = ft_kind(kind);
		const struct ft_field **at = (const struct ft_field **)&a->places[kind];

		for (size_t i = 0; k && i < ARRAY_SIZE(place_names); i++)
			at[i] = ft_field(k, place_names[i]);
	}
	*out = a;
	return 0;
}

void ft_attrib_free(struct ft_attrib *a)
{
	if (!a)
		return;
	proc_free_all(a);
	netdev_free_all(a);
	pci_free_all(a);
	flow_free_all(a);
	free(a);
}

uint64_t ft_attrib_unfit(const struct ft_attrib *a)
{
	return a->unfit;
}

/* What is learned from which kind, before the event itself is attributed. */
static const struct {
	uint16_t kind;
	void (*learn)(struct ft_attrib *, const struct ft_hdr *);
} learners[] = {
	{ FT_KIND_inv_proc, proc_inventory },
	{ FT_KIND_proc_start, proc_started },
	{ FT_KIND_proc_exit, proc_exited },
	{ FT_KIND_nccl_lib, proc_library },
	{ FT_KIND_nccl_comm, comm_event },
	{ FT_KIND_inv_netdev, netdev_inventory },
	{ FT_KIND_inv_gpu, gpu_inventory },
	{ FT_KIND_inv_pci, pci_inventory },
	{ FT_KIND_inv_sock, flow_learn },
	{ FT_KIND_tcp_state, flow_learn },
	{ FT_KIND_tcp_retransmit, flow_learn },
	{ FT_KIND_tcp_reset, flow_learn },
	{ FT_KIND_inv_gpu_proc, gpu_proc_inventory },
	{ FT_KIND_pcie_counter, pci_counted },
};

/* --- severity where the kind's own is not the last word --- */

static bool is_bad_exit(const struct ft_hdr *ev)
{
	const struct ft_ev_proc_exit *e = (const void *)ev;

	return (e->signal != FT_NONE_S32 && e->signal) ||
	       (e->exit_code != FT_NONE_S32 && e->exit_code);
}

static enum ft_severity exit_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	return is_bad_exit(ev) && out->nranks ? FT_ERROR : FT_INFO;
}

static enum ft_severity comm_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	int32_t result = ((const struct ft_ev_nccl_comm *)ev)->result;

	(void)out;
	return result == FT_NONE_S32 || result == 0 || result == 7 ? FT_INFO : FT_ERROR;
}

static enum ft_severity link_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	(void)out;
	return ((const struct ft_ev_net_link *)ev)->carrier == 0 ? FT_ERROR : FT_WARNING;
}

static enum ft_severity aer_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	const struct ft_ev_pcie_aer *e = (const void *)ev;
	uint8_t cls = e->advisory == 1 ? 2 : e->aer_class;

	(void)out;
	return cls == 0 ? FT_ERROR : cls == 1 ? FT_FATAL : FT_WARNING;
}

/* A link that lost lanes is a fault; a lower speed alone may be an idle GPU. */
static enum ft_severity pcie_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	const struct ft_ev_pcie_link *e = (const void *)ev;

	(void)out;
	if (e->before == 1 || e->to__width == FT_NONE_U32)
		return FT_WARNING;
	if (!e->to__width ||
	    (e->possible__width != FT_NONE_U32 && e->to__width < e->possible__width))
		return FT_ERROR;
	return FT_INFO;
}

static enum ft_severity hotplug_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	uint8_t event = ((const struct ft_ev_pcie_hotplug *)ev)->event;

	(void)out;
	return event == 0 || event == 2 || event == 4 ? FT_INFO : FT_WARNING;
}

static enum ft_severity gone_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	uint8_t how = ((const struct ft_ev_pcie_gone *)ev)->how_seen;

	if (how == 3)
		return FT_INFO;
	/* A spare that is taken out. */
	return how == 1 && !out->users ? FT_WARNING : FT_ERROR;
}

static enum ft_severity xid_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	uint32_t xid = ((const struct ft_ev_gpu_xid *)ev)->xid;

	(void)out;
	return ft_xid_is_application(xid) || ft_xid_is_record(xid) ? FT_WARNING : FT_ERROR;
}

static enum ft_severity clocks_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	uint64_t reasons = ((const struct ft_ev_gpu_clocks *)ev)->reasons;

	(void)out;
	return reasons != FT_NONE_U64 && reasons & FT_CLOCKS_SLOWDOWN ? FT_WARNING : FT_INFO;
}

static enum ft_severity incident_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	(void)out;
	return ((const struct ft_ev_incident *)ev)->open == 1 ? FT_WARNING : FT_INFO;
}

static enum ft_severity verdict_severity(const struct ft_hdr *ev, const struct ft_attr *out)
{
	(void)out;
	return ((const struct ft_ev_verdict *)ev)->cause__kind.len ? FT_WARNING : FT_INFO;
}

static const struct {
	uint16_t kind;
	enum ft_severity (*fn)(const struct ft_hdr *, const struct ft_attr *);
} severities[] = {
	{ FT_KIND_proc_exit, exit_severity },	 { FT_KIND_nccl_comm, comm_severity },
	{ FT_KIND_net_link, link_severity },	 { FT_KIND_incident, incident_severity },
	{ FT_KIND_verdict, verdict_severity },	 { FT_KIND_pcie_aer, aer_severity },
	{ FT_KIND_pcie_link, pcie_severity },	 { FT_KIND_pcie_hotplug, hotplug_severity },
	{ FT_KIND_pcie_gone, gone_severity },	 { FT_KIND_gpu_xid, xid_severity },
	{ FT_KIND_gpu_clocks, clocks_severity },
};

/* A rank by its NCCL library only: what a rank starts (a compiler) has it mapped as well. */
static bool may_be_rank(struct ft_attrib *a, const struct proc *p)
{
	const struct proc *parent = p ? proc_find(a, p->ppid, 0) : NULL;

	return p && p->nccl == 1 && !p->helper && !(parent && proc_is_rank(parent));
}

static void severity_fill(struct ft_attrib *a, const struct ft_hdr *ev, const struct proc *p,
			  struct ft_attr *out)
{
	for (size_t i = 0; i < ARRAY_SIZE(severities); i++)
		if (severities[i].kind == ev->kind)
			out->severity = severities[i].fn(ev, out);
	if (ev->kind == FT_KIND_proc_exit && is_bad_exit(ev) && may_be_rank(a, p))
		out->severity = MAX(out->severity, FT_WARNING);
}

/* --- owners --- */

/* Kinds that tell of a process as a whole, so of all of its GPUs. */
static bool is_of_process(const struct ft_hdr *ev)
{
	static const uint16_t kinds[] = { FT_KIND_proc_start, FT_KIND_proc_exit, FT_KIND_inv_proc,
					  FT_KIND_inv_gpu_proc };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i] == ev->kind)
			return true;
	return false;
}

static void proc_fill(struct ft_attrib *a, struct proc *p, const struct ft_hdr *ev,
		      struct ft_attr *out)
{
	const struct ft_field *cf = a->places[ev->kind].comm_ptr;
	bool whole = is_of_process(ev);
	struct proc *rank = NULL;
	const struct comm *c;
	uint64_t ptr = 0;
	int device;

	if (cf && !ft_field_get(cf, ev, &ptr))
		ptr = 0;
	memcpy(out->container, p->container, sizeof(out->container));
	/* An inherited socket of a helper may be the rank's own traffic. */
	if (p->helper && (ev->flags & FT_REC_SHARED))
		rank = proc_find(a, p->rank_pid, 0);
	ranks_fill(a, rank ? rank : p, ptr, out);
	if (p->helper && !rank)
		return;
	p = rank ? rank : p;
	c = ptr ? comm_find(p, ptr) : NULL;
	device = c ? c->device : p->nidents == 1 ? p->idents[0].device : -1;
	if (out->nranks <= 1) {
		gpus_fill(a, p, device, whole, out);
		return;
	}
	for (int i = 0; i < p->nidents; i++)
		gpus_fill(a, p, p->idents[i].device, whole, out);
}

/*
 * An event of an interface that names no process, or only one of several: the ranks whose sockets
 * go through it all have to do with it; where no socket is known, it may be any of the ranks in its
 * namespace. named: whose ranks are listed already, may be NULL.
 */
static void netns_fill(struct ft_attrib *a, uint32_t netns, const struct ft_hdr *ev,
		       const struct proc *named, struct ft_attr *out)
{
	bool by_route = false;

	for (struct proc *p = a->procs; p && out->nnics; p = p->hh.next)
		by_route |= !p->exited && !p->helper && own_nic_has(p, &out->nics[0]);
	for (struct proc *p = a->procs; p; p = p->hh.next) {
		if (p == named || p->exited || p->helper || p->netns != netns)
			continue;
		if (by_route && !own_nic_has(p, &out->nics[0]))
			continue;
		ranks_fill(a, p, 0, out);
	}
	if (!out->nranks)
		return;
	out->how |= by_route ? FT_HOW(route) : FT_HOW(netns);
	/* A packet has one owner, the state of a link concerns all. */
	out->shared |= (!by_route || a->places[ev->kind].saddr) && out->nranks > 1;
}

/* t: the connection, NULL where it is not known. */
static void nics_fill(struct ft_attrib *a, const struct ft_hdr *ev, const struct tuple *t,
		      struct proc *p, struct ft_attr *out)
{
	const struct places *pl = &a->places[ev->kind];
	uint64_t netns = 0, ifindex = 0;
	char ifname[17] = "";
	bool route = pl->saddr && ev->kind != FT_KIND_net_drop, known;
	const char *name;
	size_t len;

	if (!pl->ifname)
		return;
	name = ft_field_text(pl->ifname, ev, &len);
	memcpy(ifname, name, MIN(len, sizeof(ifname) - 1));
	if (!ft_field_get(pl->netns, ev, &netns))
		netns = 0;
	if (!ft_field_get(pl->ifindex, ev, &ifindex))
		ifindex = 0;
	nic_fill(a, netns, ifindex, ifname, out);
	known = out->nnics;
	if (!known && route && t)
		nic_fill_by_addr(a, t, out);
	if (!out->nnics)
		return;
	out->how |= !known ? FT_HOW(address) : route ? FT_HOW(route) : FT_HOW(ifname);
	if (known && route && p)
		own_nic_learn(a, p, netns, ifindex, ifname);
}

/* The process of a packet that the kernel could not name, by its addresses. */
static struct proc *owner_by_tuple(struct ft_attrib *a, const struct ft_hdr *ev,
				   const struct tuple *t, struct ft_attr *out)
{
	const struct ft_ev_net_drop *e = (const void *)ev;
	struct proc *p;

	if (ev->kind != FT_KIND_net_drop)
		return NULL;
	p = flow_owner(a, t, e->ingress != 0);
	if (!p)
		p = flow_owner(a, t, e->ingress == 0);
	if (p)
		out->how |= FT_HOW(tuple);
	return p;
}

static void peers_fill(struct ft_attrib *a, const struct tuple *t, const struct proc *p,
		       struct ft_attr *out)
{
	struct proc *src = flow_owner(a, t, false), *dst = flow_owner(a, t, true);
	struct proc *peer = src == p ? dst : dst == p ? src : NULL;
	struct ft_attr tmp = {};

	if (!peer)
		return;
	ranks_fill(a, peer, 0, &tmp);
	out->peer_pid = peer->pid;
	out->peer_sends = peer == src;
	out->npeers = tmp.nranks;
	memcpy(out->peers, tmp.ranks, sizeof(out->peers));
}

static void owners_fill(struct ft_attrib *a, const struct ft_hdr *ev, const struct tuple *t,
			struct proc *p, struct ft_attr *out)
{
	const struct ft_field *nf = a->places[ev->kind].netns;
	/* A port with several listeners: any of the namespace. */
	bool others = p ? ev->flags & FT_REC_SHARED && ev->how & FT_HOW(tuple) : !ev->pid;
	uint64_t netns;

	if (p) {
		proc_fill(a, p, ev, out);
		heirs_fill(a, p, ev, t, out);
	}
	if (others && nf && ev->kind < FT_KIND_inv_proc && ft_field_get(nf, ev, &netns))
		netns_fill(a, netns, ev, p, out);
}

static void learn(struct ft_attrib *a, const struct ft_hdr *ev)
{
	for (size_t i = 0; i < ARRAY_SIZE(learners); i++) {
		if (learners[i].kind != ev->kind)
			continue;
		learners[i].learn(a, ev);
		/* These say not who uses a GPU or NIC; a process's NIC counts by itself. */
		a->learned += learners[i].learn != flow_learn && learners[i].learn != pci_counted;
	}
}

void ft_attrib_event(struct ft_attrib *a, const struct ft_hdr *ev, struct ft_attr *out)
{
	struct proc *p = NULL;
	struct tuple t;
	bool have_tuple = tuple_of(a, ev, &t);

	learn(a, ev);
	*out = (struct ft_attr){ .how = ev->how, .severity = ft_kind(ev->kind)->severity };
	if (ev->pid)
		p = proc_find(a, ev->pid, ev->start_ns);
	else if (have_tuple)
		p = owner_by_tuple(a, ev, &t, out);
	out->ended = p && p->exited;
	nics_fill(a, ev, have_tuple ? &t : NULL, p, out);
	owners_fill(a, ev, have_tuple ? &t : NULL, p, out);
	if (p && have_tuple)
		peers_fill(a, &t, p, out);
	if (!pci_fill(a, ev, out))
		links_fill(a, out);
	out->shared |= !!(ev->flags & FT_REC_SHARED);
	severity_fill(a, ev, p, out);
}

void ft_attrib_each(struct ft_attrib *a, void (*fn)(void *ctx, const struct ft_attrib_proc *p),
		    void *ctx)
{
	static const struct ft_hdr none = { .kind = FT_KIND_proc_start };

	for (struct proc *p = a->procs; p; p = p->hh.next) {
		struct ft_attr attr = {};
		struct ft_attrib_proc info = {
			.pid = p->pid,
			.ppid = p->ppid,
			.start_ns = p->start_ns,
			.netns = p->netns,
			.helper = p->helper,
			.alive = !p->exited,
			.nccl = p->nccl,
			.env_rank = p->env_rank,
			.env_world = p->env_world,
			.env_local_rank = p->env_local_rank,
			.task = p->task,
			.exe = p->exe,
			.container = p->container,
			.pod = p->pod,
			.job = p->job,
			.env_by = p->env_by,
			.attr = &attr,
		};

		proc_fill(a, p, &none, &attr);
		for (int i = 0; i < p->nown; i++)
			nic_fill(a, p->own[i].netns, p->own[i].ifindex, p->own[i].ifname, &attr);
		links_fill(a, &attr);
		fn(ctx, &info);
	}
}

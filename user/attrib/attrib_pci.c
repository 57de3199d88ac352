// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* PCIe: address -> link -> GPUs and NICs below it -> processes that use them -> ranks. */
#include "attrib/internal.h"

/* --- inventory --- */

static uint32_t none_is_zero(uint32_t v)
{
	return v == FT_NONE_U32 ? 0 : v;
}

static struct pci_end *end_find(const struct ft_attrib *a, const char *name)
{
	struct pci_end *e;

	HASH_FIND_STR(a->pci_ends, name, e);
	return e;
}

/* "0000:41:00.0" -> "0000:41" */
static void bus_of(const char *bdf, char out[16])
{
	const char *dev = strrchr(bdf, ':');

	snprintf(out, 16, "%.*s", dev ? (int)MIN(dev - bdf, 15) : 0, bdf);
}

static void end_add(struct ft_attrib *a, const char *name, size_t link)
{
	struct pci_end *e = name[0] && !end_find(a, name) ? calloc(1, sizeof(*e)) : NULL;

	if (!e)
		return;
	ft_strcpy(e->name, name, sizeof(e->name));
	e->link = link;
	HASH_ADD_STR(a->pci_ends, name, e);
	if (e->hh.tbl)
		return;
	free(e);
	a->unfit++;
}

/* The first row of the link; a link that serves several has a row for each. */
static void ends_add(struct ft_attrib *a, size_t row)
{
	const struct ft_attrib_link *l = &a->links[row];
	const struct pci_end *key = end_find(a, l->key);
	size_t first = key ? key->link : row;
	char bus[16];

	end_add(a, l->key, first);
	end_add(a, l->device, first);
	/* All that is on the bus below a port: further functions, virtual ones. */
	bus_of(l->device, bus);
	if (l->port[0])
		end_add(a, bus, first);
}

void pci_inventory(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_inv_pci *e = (const void *)ev;
	struct ft_attrib_link l = {
		.now_gen = none_is_zero(e->now__gen),
		.now_width = none_is_zero(e->now__width),
		.possible_gen = none_is_zero(e->possible__gen),
		.possible_width = none_is_zero(e->possible__width),
		.target_gen = none_is_zero(e->target_gen),
		.serves_id = none_is_zero(e->serves_id),
		.numa = e->numa == FT_NONE_S32 ? -1 : e->numa,
		.no_aer = e->os_aer == 0,
		.asleep = e->asleep == 1,
	};

	ft_str_copy(ev, e->port, l.port, sizeof(l.port));
	ft_str_copy(ev, e->device, l.device, sizeof(l.device));
	ft_str_copy(ev, e->serves, l.serves, sizeof(l.serves));
	ft_str_copy(ev, e->slot, l.slot, sizeof(l.slot));
	ft_strcpy(l.key, l.port[0] ? l.port : l.device, sizeof(l.key));
	for (size_t i = 0; i < a->nlinks; i++) {
		if (strcmp(a->links[i].key, l.key) != 0 ||
		    strcmp(a->links[i].device, l.device) != 0 ||
		    strcmp(a->links[i].serves, l.serves) != 0)
			continue;
		memcpy(l.errors_before, a->links[i].errors_before, sizeof(l.errors_before));
		l.counted = a->links[i].counted;
		a->links[i] = l;
		return;
	}
	if (a->nlinks == LINKS_MAX) {
		a->unfit++;
		return;
	}
	a->links[a->nlinks] = l;
	ends_add(a, a->nlinks++);
}

/* Of the link's first row. The file's last line adds the others up. */
void pci_counted(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_pcie_counter *e = (const void *)ev;
	const struct pci_end *end;
	char bdf[16];

	ft_fmt(bdf, "%.15s", e->device);
	end = end_find(a, bdf);
	if (!end || e->before != 1 || e->aer_class > 2 || e->delta == FT_NONE_U64 ||
	    !strncmp(e->error, "TOTAL", 5))
		return;
	a->links[end->link].errors_before[e->aer_class] += e->delta;
	a->links[end->link].counted = true;
}

void pci_free_all(struct ft_attrib *a)
{
	struct pci_end *e, *next;

	HASH_ITER(hh, a->pci_ends, e, next) {
		HASH_DEL(a->pci_ends, e);
		free(e);
	}
}

const struct ft_attrib_link *ft_attrib_links(const struct ft_attrib *a, size_t *n)
{
	*n = a->nlinks;
	return a->links;
}

const struct ft_attrib_link *ft_attrib_link(const struct ft_attrib *a, const char *bdf)
{
	const struct pci_end *e = end_find(a, bdf);
	char bus[16];

	bus_of(bdf, bus);
	if (!e)
		e = end_find(a, bus);
	return e ? &a->links[e->link] : NULL;
}

bool ft_attrib_is_port(const struct ft_attrib *a, const char *bdf)
{
	const struct ft_attrib_link *l = ft_attrib_link(a, bdf);

	return l && !strcmp(l->port, bdf);
}

void add_link(const char *key, struct ft_attr *out)
{
	for (int i = 0; i < out->nlinks; i++)
		if (!strcmp(out->links[i], key))
			return;
	if (out->nlinks < FT_ATTR_MAX)
		ft_strcpy(out->links[out->nlinks++], key, sizeof(out->links[0]));
	else
		out->truncated = true;
}

static void links_to(const struct ft_attrib *a, const char *bdf, struct ft_attr *out)
{
	if (!bdf[0])
		return;
	for (size_t i = 0; i < a->nlinks; i++)
		if (!strcmp(a->links[i].device, bdf) || !strcmp(a->links[i].serves, bdf))
			add_link(a->links[i].key, out);
}

/* The links on the way to the GPUs and NICs in *out. */
void links_fill(const struct ft_attrib *a, struct ft_attr *out)
{
	for (int i = 0; i < out->ngpus; i++)
		links_to(a, out->gpus[i].bdf, out);
	for (int i = 0; i < out->nnics; i++)
		links_to(a, out->nics[i].bdf, out);
}

/* --- what is below, and who uses it --- */

static void add_nic(const struct ft_attr_nic *n, struct ft_attr *out)
{
	if (out->nnics == FT_ATTR_MAX)
		out->truncated = true;
	else
		out->nics[out->nnics++] = *n;
}

/* A NIC whose interface is in no namespace that is watched has a PCI address only. */
static void add_device(const struct ft_attrib *a, const char *bdf, bool gpu, struct ft_attr *out)
{
	struct ft_attr_nic only = { .port = -1 };
	bool any = false;

	if (gpu || gpu_known(a, bdf)) {
		add_gpu(a, bdf, out);
		return;
	}
	for (const struct netdev *d = a->netdevs; d; d = d->hh.next) {
		if (strcmp(d->nic.bdf, bdf) != 0)
			continue;
		add_nic(&d->nic, out);
		any = true;
	}
	ft_strcpy(only.bdf, bdf, sizeof(only.bdf));
	if (!any)
		add_nic(&only, out);
}

static int gpus_common(const struct ft_attr *a, const struct ft_attr *b)
{
	int n = 0;

	for (int i = 0; i < a->ngpus; i++)
		for (int k = 0; k < b->ngpus; k++)
			n += !strcmp(a->gpus[i].bdf, b->gpus[k].bdf);
	return n;
}

/* Whether that rank of the process (-1: the process) runs on a GPU in *out; *how tells how. */
static bool on_gpus(struct ft_attrib *a, struct proc *p, int ident, struct ft_attr *out,
		    bool *certain)
{
	struct ft_attr its = {};
	int common;

	gpus_fill(a, p, ident < 0 ? -1 : p->idents[ident].device, false, &its);
	common = gpus_common(&its, out);
	if (!common)
		return false;
	/* With NVML's list it runs on each of them; open files are of one among them. */
	*certain = its.how & FT_HOW(nvml) || !its.shared || common == its.ngpus;
	out->how |= its.how;
	return true;
}

static void user_of_gpus(struct ft_attrib *a, struct proc *p, struct ft_attr *out, bool *user)
{
	bool certain = true;

	idents_update(p);
	for (int i = 0; i < p->nidents; i++) {
		if (!on_gpus(a, p, i, out, &certain))
			continue;
		ident_fill(p, i, out);
		out->shared |= !certain;
		*user = true;
	}
	if (p->nidents || !on_gpus(a, p, -1, out, &certain))
		return;
	ranks_fill(a, p, 0, out);
	out->shared |= !certain;
	*user = true;
}

static void user_of_nics(struct ft_attrib *a, struct proc *p, struct ft_attr *out, bool *user)
{
	for (int i = 0; i < out->nnics && !*user; i++) {
		if (!out->nics[i].netdev[0] || !own_nic_has(p, &out->nics[i]))
			continue;
		ranks_fill(a, p, 0, out);
		out->how |= FT_HOW(route);
		*user = true;
	}
}

/* only: the process that the driver names, NULL: whoever. */
static void users_fill(struct ft_attrib *a, struct proc *only, struct ft_attr *out)
{
	for (struct proc *p = only ? only : a->procs; p; p = only ? NULL : p->hh.next) {
		bool user = false;

		if ((p->exited || p->helper) && !only)
			continue;
		user_of_gpus(a, p, out, &user);
		if (!user)
			user_of_nics(a, p, out, &user);
		if (!user && only) {
			ranks_fill(a, p, 0, out);
			user = true;
		}
		if (!user)
			continue;
		out->users++;
		out->user_pid = out->user_pid ? out->user_pid : p->pid;
	}
	out->how |= FT_HOW(pci_path) | (only ? FT_HOW(driver) : 0);
}

static void link_fill(struct ft_attrib *a, const struct ft_attrib_link *l, struct ft_attr *out)
{
	add_link(l->key, out);
	for (size_t i = 0; i < a->nlinks; i++)
		if (!strcmp(a->links[i].key, l->key))
			add_device(a, a->links[i].serves, false, out);
	users_fill(a, NULL, out);
}

static void device_fill(struct ft_attrib *a, const char *bdf, bool gpu, struct proc *only,
			struct ft_attr *out)
{
	const struct ft_attrib_link *l = ft_attrib_link(a, bdf);

	if (l)
		add_link(l->key, out);
	/* A port is neither: what is said of it concerns all that is below. */
	if (l && !strcmp(l->port, bdf)) {
		link_fill(a, l, out);
		return;
	}
	add_device(a, bdf, gpu, out);
	users_fill(a, only, out);
}

/* --- the same again is copied --- */

static struct pci_cached *cached(struct ft_attrib *a, char what, const char *bdf, bool *hit)
{
	struct pci_cached *c;
	char key[17];
	unsigned int hash;

	ft_fmt(key, "%c%.15s", what, bdf);
	HASH_VALUE(key, strlen(key), hash);
	c = &a->pci_cache[hash % PCI_CACHE];
	*hit = !strcmp(c->key, key) && c->at == a->learned;
	if (*hit)
		return c;
	ft_strcpy(c->key, key, sizeof(c->key));
	c->at = a->learned;
	c->attr = (struct ft_attr){};
	return c;
}

void ft_attrib_link_attr(struct ft_attrib *a, const char *bdf, struct ft_attr *out)
{
	const struct ft_attrib_link *l = ft_attrib_link(a, bdf);
	struct pci_cached *c;
	bool hit;

	*out = (struct ft_attr){};
	if (!l)
		return;
	c = cached(a, 'L', l->key, &hit);
	if (!hit)
		link_fill(a, l, &c->attr);
	*out = c->attr;
}

static void device_attr(struct ft_attrib *a, const char *bdf, bool gpu, struct ft_attr *out)
{
	struct pci_cached *c;
	bool hit;

	c = cached(a, gpu ? 'G' : 'D', bdf, &hit);
	if (!hit)
		device_fill(a, bdf, gpu, NULL, &c->attr);
	*out = c->attr;
}

/* --- events --- */

static bool address(const struct ft_field *f, const struct ft_hdr *ev, char out[17])
{
	const char *s;
	size_t len;

	out[0] = 0;
	if (!f || f->type != FT_T_c16)
		return false;
	s = ft_field_text(f, ev, &len);
	snprintf(out, 17, "%.*s", (int)len, s);
	return out[0] != 0;
}

/* What the kernel log tells of an old process may be of one that had its pid before. */
static struct proc *named_by_driver(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_gpu_xid *e = (const void *)ev;
	struct proc *p;

	if (ev->kind != FT_KIND_gpu_xid || e->of_pid == FT_NONE_U32 || !e->of_pid)
		return NULL;
	p = proc_find(a, e->of_pid, 0);
	return p && e->before == 1 && p->start_ns > ev->ts_ns ? NULL : p;
}

bool pci_fill(struct ft_attrib *a, const struct ft_hdr *ev, struct ft_attr *out)
{
	const struct places *pl = &a->places[ev->kind];
	bool gpu = ev->kind == FT_KIND_gpu_xid || ev->kind == FT_KIND_gpu_clocks ||
		   ev->kind == FT_KIND_gpu_nvlink;
	uint32_t how = out->how;
	uint8_t severity = out->severity;
	struct proc *p;
	char bdf[17];

	if (address(pl->bdf, ev, bdf)) {
		p = named_by_driver(a, ev);
		if (p)
			device_fill(a, bdf, gpu, p, out);
		else
			device_attr(a, bdf, gpu, out);
	} else if ((address(pl->port, ev, bdf) && ft_attrib_link(a, bdf)) ||
		   address(pl->device, ev, bdf)) {
		ft_attrib_link_attr(a, bdf, out);
	} else {
		return false;
	}
	out->how |= how;
	out->severity = severity;
	return true;
}

/* --- Xid --- */

/* https://docs.nvidia.com/deploy/xid-errors: those that training nodes see. */
static const struct {
	uint32_t xid;
	enum { HARDWARE, APPLICATION, RECORD } of;
	const char *text;
} xids[] = {
	{ 13, APPLICATION, "graphics engine exception" },
	{ 31, APPLICATION, "GPU memory page fault" },
	{ 32, HARDWARE, "invalid or corrupted push buffer: PCIe or driver" },
	{ 43, APPLICATION, "GPU stopped processing" },
	{ 45, APPLICATION, "preemptive cleanup after another error" },
	{ 48, HARDWARE, "double bit ECC error" },
	{ 61, HARDWARE, "internal micro-controller breakpoint" },
	{ 62, HARDWARE, "internal micro-controller halt" },
	{ 63, RECORD, "ECC page retirement or row remapping recorded" },
	{ 64, HARDWARE, "ECC page retirement or row remapping failed" },
	{ 69, APPLICATION, "graphics engine class error" },
	{ 74, HARDWARE, "NVLink error" },
	{ 79, HARDWARE, "GPU has fallen off the bus" },
	{ 92, HARDWARE, "high rate of single bit ECC errors" },
	{ 94, HARDWARE, "contained ECC error" },
	{ 95, HARDWARE, "uncontained ECC error" },
	{ 109, APPLICATION, "context switch timeout" },
	{ 119, HARDWARE, "GSP firmware does not answer" },
	{ 120, HARDWARE, "GSP firmware error" },
	{ 121, HARDWARE, "C2C link error" },
	{ 140, HARDWARE, "ECC error that was not recovered" },
	{ 154, RECORD, "recovery action of the GPU changed" },
};

const char *ft_xid_text(uint32_t xid)
{
	for (size_t i = 0; i < ARRAY_SIZE(xids); i++)
		if (xids[i].xid == xid)
			return xids[i].text;
	return NULL;
}

static bool xid_is(uint32_t xid, int of)
{
	for (size_t i = 0; i < ARRAY_SIZE(xids); i++)
		if (xids[i].xid == xid)
			return (int)xids[i].of == of;
	return false;
}

bool ft_xid_is_application(uint32_t xid)
{
	return xid_is(xid, APPLICATION);
}

bool ft_xid_is_record(uint32_t xid)
{
	return xid_is(xid, RECORD);
}

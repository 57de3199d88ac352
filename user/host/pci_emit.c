// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The PCI tree as records. */
#include "host/pci.h"

static bool asleep(const struct ft_pci_dev *d)
{
	return d && d->error == -EHOSTDOWN;
}

/* One line for each GPU or NIC that the link serves: a switch's uplink carries several. */
static void emit_hop(const struct ft_pci *p, const struct ft_pci_hop *hop,
		     const struct ft_pci_dev *serves, uint64_t ts_ns, ft_sink_fn sink, void *ctx)
{
	struct ft_ev_inv_pci *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_inv_pci, ts_ns);
	e->now__gen = hop->now.gen;
	e->now__width = hop->now.width;
	e->possible__gen = hop->possible.gen;
	e->possible__width = hop->possible.width;
	e->numa = hop->device->numa;
	e->serves_id = (uint32_t)serves->vendor << 16 | serves->device;
	e->os_aer = ft_pci_os_aer(p, hop->port);
	e->asleep = asleep(hop->port) || asleep(hop->device);
	if (hop->port) {
		e->target_gen = hop->port->target_gen;
		e->active = ft_pci_hop_tells_active(hop) ? hop->port->active : FT_NONE_U8;
		e->dpc = hop->port->dpc;
	}
	ft_rec_str(&rec, &e->port, hop->port ? hop->port->bdf : "");
	ft_rec_str(&rec, &e->device, hop->device->bdf);
	ft_rec_str(&rec, &e->serves, serves->bdf);
	ft_rec_str(&rec, &e->slot, hop->device->slot);
	sink(ctx, &rec.h);
}

static void emit_gpu(const struct ft_pci_dev *d, uint64_t ts_ns, ft_sink_fn sink, void *ctx)
{
	struct ft_ev_inv_gpu *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_inv_gpu, ts_ns);
	e->index = d->gpu_index;
	e->numa = d->numa;
	ft_rec_str(&rec, &e->bdf, d->bdf);
	ft_rec_str(&rec, &e->name, d->gpu_name);
	ft_rec_str(&rec, &e->uuid, d->gpu_uuid);
	sink(ctx, &rec.h);
}

static void emit_missing(const struct ft_pci_dev *d, const char *of, int error, uint64_t ts_ns,
			 ft_sink_fn sink, void *ctx)
{
	struct ft_ev_inv_host *e;
	struct ft_rec rec;
	char what[96];

	e = ft_rec_new(&rec, FT_KIND_inv_host, ts_ns);
	e->error = error;
	ft_fmt(what, "%s of %s", of, d->bdf);
	ft_rec_str(&rec, &e->what, what);
	ft_rec_str(&rec, &e->reason,
		   error == -EHOSTDOWN	 ? "asleep: a read would wake it up"
		   : error == -ENODEV	 ? "gone from the bus: reads give all ones"
		   : error == -ETIMEDOUT ? "no answer in time"
		   : error == -EBUSY
			   ? "not asked: too many earlier reads are still without an answer"
		   : error == -ENOENT ? "its driver is not loaded"
				      : strerror(-error));
	sink(ctx, &rec.h);
}

void ft_pci_emit_dev(const struct ft_pci *p, const struct ft_pci_dev *d, uint64_t ts_ns,
		     ft_sink_fn sink, void *ctx)
{
	struct ft_pci_hop hops[FT_PCI_HOPS];
	size_t n = d->role == FT_PCI_OTHER ? 0 : ft_pci_path(p, d, hops, FT_PCI_HOPS);

	if (d->role == FT_PCI_GPU)
		emit_gpu(d, ts_ns, sink, ctx);
	for (size_t i = 0; i < n; i++)
		emit_hop(p, &hops[i], d, ts_ns, sink, ctx);
	/* A virtual function has that of its physical one. */
	if ((d->gone || d->error) && d->physfn < 0)
		emit_missing(d, "PCIe link", d->gone ? -ENODEV : d->error, ts_ns, sink, ctx);
	if (d->gpu_error)
		emit_missing(d, "GPU index and model", d->gpu_error, ts_ns, sink, ctx);
}

void ft_pci_emit(const struct ft_pci *p, uint64_t ts_ns, ft_sink_fn sink, void *ctx)
{
	/* Hundreds of virtual functions come last: for them there may be no room. */
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < p->n; i++)
			if ((p->v[i].physfn >= 0) == pass)
				ft_pci_emit_dev(p, &p->v[i], ts_ns, sink, ctx);
}

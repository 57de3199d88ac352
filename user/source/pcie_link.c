// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "source/pcie_link.h"

bool pcie_link_of(const struct ft_pci *p, const struct ft_pci_dev *d, struct pcie_link *out)
{
	const struct ft_pci_dev *upper;
	struct ft_pci_hop hop;

	if (d->physfn >= 0 || !ft_pci_hop(p, d, &hop) || (hop.port && ft_pci_hop_hides(&hop)))
		return false;
	upper = hop.port ? hop.port : hop.device;
	*out = (struct pcie_link){ .cap = upper->cap,
				   .tells_active = ft_pci_hop_tells_active(&hop),
				   .sleeps = upper->error == -EHOSTDOWN,
				   .possible = hop.possible,
				   .target_gen = upper->target_gen,
				   .now = { FT_NONE_U32, FT_NONE_U32 } };
	ft_strcpy(out->device, d->bdf, sizeof(out->device));
	ft_strcpy(out->slot, d->slot, sizeof(out->slot));
	if (!hop.port)
		return true;
	ft_strcpy(out->port, hop.port->bdf, sizeof(out->port));
	if (hop.port->parent < 0)
		return true;
	/* A switch's lower port: its upper one hangs on the link above. */
	d = &p->v[hop.port->parent];
	if (d->parent >= 0)
		ft_strcpy(out->above, p->v[d->parent].bdf, sizeof(out->above));
	return true;
}

/* --- records --- */
void pcie_gone_emit(const char *port, const char *device, unsigned int how, bool before,
		    uint64_t ts_ns, const struct ft_emit *emit)
{
	struct ft_ev_pcie_gone *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_pcie_gone, ts_ns);
	e->how_seen = how;
	e->before = before;
	ft_strcpy(e->port, port, sizeof(e->port));
	ft_strcpy(e->device, device, sizeof(e->device));
	ft_emit(emit, &rec);
}

void pcie_unseen_emit(const char *what, int error, const char *why, const struct ft_emit *emit)
{
	struct ft_ev_inv_host *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_inv_host, ft_mono_ns());
	e->error = error;
	ft_rec_str(&rec, &e->what, what);
	ft_rec_str(&rec, &e->reason, why);
	ft_emit(emit, &rec);
}

/* Unknown stays unknown; no link carries 0. */
static uint32_t gbps(struct ft_pci_link l)
{
	double gbytes = ft_pci_gbytes(l);

	return gbytes > 0 ? (uint32_t)(gbytes * 8 + 0.5) : l.width == 0 ? 0 : FT_NONE_U32;
}

static void emit_link(const struct pcie_link *l, struct ft_pci_link from, unsigned int reason,
		      uint64_t transitions, uint64_t ts_ns, const struct ft_emit *emit)
{
	/* What came back after it was taken out may be another device. */
	const struct ft_pci_link unknown = { FT_NONE_U32, FT_NONE_U32 };
	const struct ft_pci_link possible = l->absent ? unknown : l->possible;
	struct ft_ev_pcie_link *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_pcie_link, ts_ns);
	e->from__gen = from.gen;
	e->from__width = from.width;
	e->from__gbps = gbps(from);
	e->to__gen = l->now.gen;
	e->to__width = l->now.width;
	e->to__gbps = gbps(l->now);
	e->possible__gen = possible.gen;
	e->possible__width = possible.width;
	e->possible__gbps = gbps(possible);
	e->target_gen = l->target_gen;
	if (l->cap) {
		e->link_status = l->status;
		e->training = !!(l->status & FT_PCI_LNKSTA_LT);
		e->lbms = !!(l->status & FT_PCI_LNKSTA_LBMS);
		e->labs = !!(l->status & FT_PCI_LNKSTA_LABS);
	}
	e->reason = reason;
	e->before = reason == PCIE_REASON_ATTACH;
	e->exact = 0;
	e->transitions_total = l->transitions;
	if (reason != PCIE_REASON_ATTACH) {
		e->transitions = transitions;
		e->in_state_ns = ts_ns - l->since_ns;
	}
	ft_strcpy(e->port, l->port, sizeof(e->port));
	ft_strcpy(e->device, l->device, sizeof(e->device));
	ft_rec_str(&rec, &e->slot, l->slot);
	ft_emit(emit, &rec);
}

/* --- looks --- */
static struct ft_pci_link decode(const struct pcie_link *l, uint16_t status)
{
	struct ft_pci_link now = ft_pci_lnksta(status);

	/* Without a link the registers keep what was, or say what could be. */
	if (l->tells_active && !(status & FT_PCI_LNKSTA_DLLLA))
		now.width = 0;
	if (!now.width)
		now.gen = FT_NONE_U32;
	/* Who answers has a link: its own register hides it. */
	if (!now.width && !l->port[0])
		now.width = FT_NONE_U32;
	return now;
}

static bool is_below(struct ft_pci_link now, struct ft_pci_link possible)
{
	double all = ft_pci_gbytes(possible);

	return all > 0 &&
	       (now.width == 0 || (gbps(now) != FT_NONE_U32 && ft_pci_gbytes(now) < all));
}

/* It does not answer: whose registers were read. */
static void ones(struct pcie_link *l, uint64_t ts_ns, const struct ft_emit *emit)
{
	bool before = !l->known && !l->gone;

	if (!l->gone)
		pcie_gone_emit(l->above, pcie_link_upper(l), PCIE_GONE_ONES, before, ts_ns, emit);
	l->gone = true;
}

static void first_look(struct pcie_link *l, const struct pcie_msg *m, const struct ft_emit *emit)
{
	l->known = true;
	l->status = m->status;
	l->since_ns = m->ts_ns;
	l->now = decode(l, m->status);
	if (is_below(l->now, l->possible))
		emit_link(l, (struct ft_pci_link){ FT_NONE_U32, FT_NONE_U32 }, PCIE_REASON_ATTACH,
			  0, m->ts_ns, emit);
	if (l->now.width == 0)
		pcie_gone_emit(l->port, l->device, PCIE_GONE_NO_LINK, true, m->ts_ns, emit);
}

/*
 * Changes that there were at least. LBMS and LABS stay set until somebody clears them (the kernel
 * from 6.13 on, nobody before): one that is new is a change that came and went between two looks. A
 * training is one too, if nothing else told so.
 */
static unsigned int count(struct pcie_link *l, struct ft_pci_link to, uint16_t status)
{
	const uint16_t flags = FT_PCI_LNKSTA_LBMS | FT_PCI_LNKSTA_LABS;
	bool training = status & FT_PCI_LNKSTA_LT, trained = l->status & FT_PCI_LNKSTA_LT;
	unsigned int n = to.gen != l->now.gen || to.width != l->now.width ||
			 (status & ~l->status & flags) || (trained && !training && !l->retrained);

	l->retrained = training && (n || (trained && l->retrained));
	return n;
}

static void next_look(struct pcie_link *l, const struct pcie_msg *m, const struct ft_emit *emit)
{
	const struct ft_pci_link from = l->now, to = decode(l, m->status);
	const unsigned int n = count(l, to, m->status);
	const bool training = (l->status ^ m->status) & FT_PCI_LNKSTA_LT;

	l->status = m->status;
	l->now = to;
	l->transitions += n;
	if (!n && !training)
		return;
	emit_link(l, from, PCIE_REASON_POLL, n, m->ts_ns, emit);
	if (from.gen != to.gen || from.width != to.width)
		l->since_ns = m->ts_ns;
	if (from.width && !to.width)
		pcie_gone_emit(l->port, l->device, PCIE_GONE_NO_LINK, false, m->ts_ns, emit);
	else if (!from.width && to.width)
		pcie_gone_emit(l->port, l->device, PCIE_GONE_ANSWERS, false, m->ts_ns, emit);
}

void pcie_link_status(struct pcie_link *l, const struct pcie_msg *m, const struct ft_emit *emit)
{
	if (m->status == PCIE_STATUS_ONES) {
		ones(l, m->ts_ns, emit);
		return;
	}
	if (m->control2)
		l->target_gen = ft_pci_target(m->control2);
	if (l->gone)
		pcie_gone_emit(l->above, pcie_link_upper(l), PCIE_GONE_ANSWERS, false, m->ts_ns,
			       emit);
	l->gone = false;
	if (l->known)
		next_look(l, m, emit);
	else
		first_look(l, m, emit);
}

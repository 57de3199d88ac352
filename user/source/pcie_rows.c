// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What of the PCIe links is not seen: rows of the probe table, and inv.host. */
#include "source/pcie.h"

#define NAMED_MAX 3

static size_t by_sysfs(const struct ft_pcie_src *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nlinks; i++)
		n += !s->links[i].cap && !s->links[i].sleeps;
	return n;
}

/* Why the registers of the first of them are not read. */
static int sysfs_error(const struct ft_pcie_src *s)
{
	for (size_t i = 0; i < s->nlinks; i++) {
		const struct ft_pci_dev *d = ft_pci_find(s->tree, pcie_link_upper(&s->links[i]));

		if (d && !s->links[i].cap && d->config_error)
			return d->config_error;
	}
	return -ENODATA;
}

static const char *sysfs_reason(int error)
{
	return error == -EPERM || error == -EACCES ? "needs CAP_SYS_ADMIN" : strerror(-error);
}

static void set(struct ft_probe *row, enum ft_probe_state state, int error)
{
	row->state = state;
	row->error = error;
	row->reason[0] = 0;
}

static void poll_failed(const struct ft_pcie_src *s, struct ft_probe *row)
{
	ft_fmt(row->reason, "%s",
	       s->poll_error == -EBUSY ? "too many earlier reads are still without an answer"
				       : strerror(-s->poll_error));
}

static void poll_row_set(struct ft_pcie_src *s, struct ft_probe *row)
{
	size_t n = by_sysfs(s);

	set(row,
	    s->poll_error ? FT_PROBE_OFF
	    : s->nlinks	  ? FT_PROBE_ON
			  : FT_PROBE_UNNEEDED,
	    s->poll_error);
	if (s->poll_error)
		poll_failed(s, row);
	else if (!s->nlinks)
		ft_fmt(row->reason, "no PCIe link to a GPU or NIC is seen from here");
	else if (n)
		ft_fmt(row->reason, "%zu of %zu links by speed and width alone, LBMS unseen: %s", n,
		       s->nlinks, sysfs_reason(sysfs_error(s)));
}

static void counter_row_set(struct ft_pcie_src *s, struct ft_probe *row)
{
	size_t all = s->naers / PCIE_AER_CLASSES, there = s->nfiles / PCIE_AER_CLASSES;

	set(row,
	    s->poll_error ? FT_PROBE_OFF
	    : there	  ? FT_PROBE_ON
	    : all	  ? FT_PROBE_OFF
			  : FT_PROBE_UNNEEDED,
	    s->poll_error);
	if (s->poll_error)
		poll_failed(s, row);
	else if (!all)
		ft_fmt(row->reason, "no PCIe link to a GPU or NIC is seen from here");
	else if (s->file_error)
		ft_fmt(row->reason, "%zu of %zu devices not read: %s", all - there, all,
		       strerror(-s->file_error));
	else if (there < all)
		ft_fmt(row->reason,
		       "the kernel has no AER for %zu of %zu devices: firmware first, or off",
		       all - there, all);
	if (!there && all && !s->poll_error)
		row->error = s->file_error ? s->file_error : -ENOENT;
}

/* Without a link to a GPU or NIC nothing is missed; a card may come later. */
static void kernel_row_set(struct ft_pcie_src *s, struct ft_probe *row)
{
	if (row->error)
		row->state = s->nlinks ? FT_PROBE_OFF : FT_PROBE_UNNEEDED;
}

void pcie_rows_set(struct ft_pcie_src *s)
{
	for (size_t i = 0; i < s->nrows; i++) {
		struct ft_probe *row = &s->rows[i];

		if (!strcmp(row->object, "pcie"))
			kernel_row_set(s, row);
		else if (!strcmp(row->program, "pcie_poll"))
			poll_row_set(s, row);
		else if (!strcmp(row->program, "pcie_counters"))
			counter_row_set(s, row);
	}
}

static const struct ft_pci_dev *top_of(const struct ft_pci *p, const char *port)
{
	const struct ft_pci_dev *d = ft_pci_find(p, port);

	for (int n = 0; d && d->parent >= 0 && n < 32; n++)
		d = &p->v[d->parent];
	return d;
}

static bool is_first_below(const struct ft_pcie_src *s, size_t i, const struct ft_pci_dev *top)
{
	for (size_t k = 0; k < i; k++)
		if (top_of(s->tree, s->links[k].port) == top)
			return false;
	return true;
}

/* Root ports whose errors the firmware keeps to itself, or nobody looks at. */
static void blind_aer(const struct ft_pcie_src *s)
{
	_cleanup_buf_ struct ft_buf what = {};
	size_t n = 0;

	for (size_t i = 0; i < s->nlinks; i++) {
		const struct ft_pci_dev *top = top_of(s->tree, s->links[i].port);

		if (!top || top->aer != 0 || !is_first_below(s, i, top) || n++ >= NAMED_MAX)
			continue;
		ft_buf_printf(&what, "%s%s", n > 1 ? ", " : "AER below ", top->bdf);
	}
	if (n > NAMED_MAX)
		ft_buf_printf(&what, " and %zu more", n - NAMED_MAX);
	if (n && !what.err)
		pcie_unseen_emit(what.s, -EOPNOTSUPP,
				 "the kernel has no AER service there: firmware first, or off",
				 &s->emit);
}

static void blind_registers(const struct ft_pcie_src *s)
{
	size_t n = by_sysfs(s);
	char what[96], why[96];

	if (!n)
		return;
	ft_fmt(what, "LBMS, LABS, training and target speed of %zu PCIe link%s", n,
	       ft_plural(n, "s"));
	ft_fmt(why, "config not read: %s", sysfs_reason(sysfs_error(s)));
	pcie_unseen_emit(what, sysfs_error(s), why, &s->emit);
}

static void blind_hidden(const struct ft_pcie_src *s)
{
	struct ft_pci_hop hop;
	char what[96];

	for (size_t i = 0; i < s->tree->n; i++) {
		const struct ft_pci_dev *d = &s->tree->v[i];

		if (!d->on_path || !ft_pci_hop(s->tree, d, &hop) || !ft_pci_hop_hides(&hop))
			continue;
		ft_fmt(what, "PCIe link of %s", d->bdf);
		pcie_unseen_emit(what, -ENODATA,
				 "its registers say 0 lanes: a virtual function, as it seems",
				 &s->emit);
	}
}

void pcie_blind_emit(const struct ft_pcie_src *s)
{
	blind_hidden(s);
	blind_aer(s);
	blind_registers(s);
}

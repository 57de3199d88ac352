// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Records of what lines of the kernel log say. */
#include "source/aer.h"
#include "source/klog.h"

bool klog_same(const struct ft_klog_fact *a, const struct ft_klog_fact *b)
{
	return a->kind == b->kind && a->what == b->what && a->status == b->status &&
	       a->xid == b->xid && a->pid == b->pid && !strcmp(a->bdf, b->bdf) &&
	       !strcmp(a->driver, b->driver) && !strcmp(a->slot, b->slot) &&
	       !strcmp(a->text, b->text);
}

static void rec_aer(const struct ft_klog_fact *f, uint64_t ts_ns, bool before, struct ft_rec *rec)
{
	struct ft_ev_pcie_aer *e = ft_rec_new(rec, FT_KIND_pcie_aer, ts_ns);

	e->status = f->status;
	e->aer_class = f->what;
	e->before = before;
	ft_strcpy(e->device, f->bdf, sizeof(e->device));
	if (f->text[0])
		ft_rec_strs_add(rec, &e->errors, f->text);
	ft_aer_names(rec, &e->errors, f->what, f->status);
}

static void rec_xid(const struct ft_klog_fact *f, uint64_t ts_ns, bool before, struct ft_rec *rec)
{
	struct ft_ev_gpu_xid *e = ft_rec_new(rec, FT_KIND_gpu_xid, ts_ns);

	e->xid = f->xid;
	e->of_pid = f->pid;
	e->before = before;
	ft_strcpy(e->bdf, f->bdf, sizeof(e->bdf));
	ft_rec_str(rec, &e->text, f->text);
}

static void rec_log(const struct ft_klog_fact *f, uint64_t ts_ns, bool before, struct ft_rec *rec)
{
	struct ft_ev_dev_log *e = ft_rec_new(rec, FT_KIND_dev_log, ts_ns);

	e->what = f->what;
	e->before = before;
	ft_strcpy(e->bdf, f->bdf, sizeof(e->bdf));
	ft_rec_str(rec, &e->driver, f->driver);
	ft_rec_str(rec, &e->text, f->text);
}

static void rec_recovery(const struct ft_klog_fact *f, uint64_t ts_ns, bool before,
			 struct ft_rec *rec)
{
	struct ft_ev_pcie_recovery *e = ft_rec_new(rec, FT_KIND_pcie_recovery, ts_ns);

	e->result = f->what;
	e->before = before;
	e->status = f->status;
	ft_strcpy(e->device, f->bdf, sizeof(e->device));
}

static void rec_slot(const struct ft_klog_fact *f, uint64_t ts_ns, bool before, const char *below,
		     struct ft_rec *rec)
{
	struct ft_ev_pcie_hotplug *e = ft_rec_new(rec, FT_KIND_pcie_hotplug, ts_ns);

	e->event = f->what;
	e->before = before;
	ft_strcpy(e->port, f->bdf, sizeof(e->port));
	ft_strcpy(e->device, below, sizeof(e->device));
	ft_rec_str(rec, &e->slot, f->slot);
}

void klog_rec(const struct ft_klog_fact *f, uint64_t ts_ns, bool before, const char *below,
	      struct ft_rec *rec)
{
	if (f->kind == FT_KIND_pcie_aer)
		rec_aer(f, ts_ns, before, rec);
	else if (f->kind == FT_KIND_gpu_xid)
		rec_xid(f, ts_ns, before, rec);
	else if (f->kind == FT_KIND_pcie_recovery)
		rec_recovery(f, ts_ns, before, rec);
	else if (f->kind == FT_KIND_pcie_hotplug)
		rec_slot(f, ts_ns, before, below, rec);
	else
		rec_log(f, ts_ns, before, rec);
	if (before)
		rec->h.flags |= FT_REC_BEFORE;
}

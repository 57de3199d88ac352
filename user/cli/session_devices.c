// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The devices of the node in a session, whoever uses them: PCIe links, the kernel log, GPUs. */
#include "cli/session_parts.h"
#include "host/nvml.h"

#define ANSWER_MS 200  /* a device that does not answer reads in time is named */
#define NVML_MS	  2000 /* it asks each GPU, and wakes those up that sleep */

static void to_record(void *ctx, struct ft_hdr *ev)
{
	session_record(ctx, ev, ev->size);
}

static void gpus_watch(struct session *s)
{
	_cleanup_(ft_nvml_freep) struct ft_nvml *nv = NULL;
	int err;

	if (!ft_nvml_wanted("", s->pci))
		return;
	err = ft_nvml_read(NULL, NVML_MS, &nv);
	ft_nvml_emit(nv, err, "", ft_mono_ns(), to_record, s);
}

void session_devices_watch(struct session *s)
{
	struct ft_pcie_opts opts = { .root = "", .interval_ms = s->opts->pcie_interval_ms };
	int err = ft_pci_read("", ANSWER_MS, &s->pci);

	if (err) {
		session_unseen(s, "the PCI devices", err);
		return;
	}
	ft_pci_emit(s->pci, ft_mono_ns(), to_record, s);
	err = ft_pcie_src_new(&s->pcie, s->bpf, s->loop, &s->emit, s->pci, &opts);
	if (err)
		session_unseen(s, "PCIe links", err);
	err = ft_gpu_src_new(&s->gpus, s->bpf, s->loop, &s->emit, s->pci);
	if (err)
		session_unseen(s, "the state of GPUs", err);
	gpus_watch(s);
}

void session_log_watch(struct session *s)
{
	int err = s->pci ? ft_klog_src_new(&s->klog, s->bpf, s->loop, &s->emit, s->pci, "") : 0;

	if (err)
		session_unseen(s, "the kernel log", err);
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What the driver's management library (NVML) tells of NVIDIA GPUs: which processes run on which,
 * asked once, and (nvml_state.h) their state.
 */
#ifndef FT_HOST_NVML_H
#define FT_HOST_NVML_H

#include "event/event.h"

struct ft_pci;
struct ft_pci_dev;

struct ft_nvml_gpu {
	char bdf[16];	/* as the kernel writes it, "" unknown */
	char uuid[96];	/* "" unknown */
	int32_t minor;	/* of /dev/nvidiaN, FT_NONE_S32 unknown */
	int error;	/* why its processes are unknown, 0: they are known */
	uint32_t *pids; /* as NVML gives them, without 0 */
	size_t npids;
};

struct ft_nvml {
	size_t n;
	struct ft_nvml_gpu *v; /* in NVML's order */
};

/* Number nr of the NVIDIA GPUs on the bus, NULL: there are no more. pci may be NULL. */
const struct ft_pci_dev *ft_nvml_pci(const struct ft_pci *pci, size_t nr);

/*
 * Whether to ask: an NVIDIA GPU is on the bus of this machine, or the environment variable FT_NVML
 * names a library. pci may be NULL. Of a captured machine (root) only the latter can be asked.
 */
bool ft_nvml_wanted(const char *root, const struct ft_pci *pci);

/*
 * Opens the library (NULL: FT_NVML, else the driver's own) and asks each GPU, all in a worker: a
 * sick GPU can hold NVML for ever. 0, with an `error` at each GPU that did not answer; or -ENOENT
 * (no such library), -ENOSYS (not NVML, or too old), -ETIMEDOUT and -EBUSY (ft_worker_call),
 * -ENODEV (no driver), -EPROTO (library and driver differ), -EACCES, -EIO, -ENOMEM.
 */
int ft_nvml_read(const char *library, int timeout_ms, struct ft_nvml **out);
void ft_nvml_free(struct ft_nvml *nv);
static inline void ft_nvml_freep(struct ft_nvml **nv)
{
	ft_nvml_free(*nv);
}

/* Why NVML or a GPU of its did not answer, in words. */
const char *ft_nvml_reason(int err);

/* The GPUs that a process runs on, at most max. Returns their number. */
size_t ft_nvml_gpus(const struct ft_nvml *nv, uint32_t pid, const struct ft_nvml_gpu **out,
		    size_t max);

/*
 * inv.gpu_proc of each process and GPU, inv.host of each GPU that did not answer; nv NULL: inv.host
 * for err, what ft_nvml_read() gave. Processes that /proc below root does not know are left out:
 * NVML numbers them by the pid namespace of the host.
 */
void ft_nvml_emit(const struct ft_nvml *nv, int err, const char *root, uint64_t ts_ns,
		  ft_sink_fn sink, void *ctx);

#endif

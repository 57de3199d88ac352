/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What differs between kernels, and nowhere else: types named by the release that made them
 * (`x___7_0`), arguments that came or went. Fields are found by name in the running kernel's BTF;
 * what only a prototype tells is a flag of the configuration.
 */
#ifndef FT_COMPAT_BPF_H
#define FT_COMPAT_BPF_H

#include "include/maps.bpf.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Packet header of aer_event up to 6.8. Can go when 6.8 does. */
struct aer_header_log_regs {
	unsigned int dw0, dw1, dw2, dw3;
};

/* The same from 6.12 on (seen; not in 6.8). The array has 14 words in 6.17, the first 4 mean the same. */
struct pcie_tlp_log___6_12 {
	u32 dw[4];
};

/* With links in flit mode, whose packets have another first word (seen in 7.3, not in 6.12). */
struct pcie_tlp_log___7_0 {
	_Bool flit;
};

#pragma clang attribute pop

/* The first four words of the header that aer_event has a pointer to. */
static __always_inline void compat_tlp_words(__u32 dw[4], void *log)
{
	if (bpf_core_type_exists(struct pcie_tlp_log___6_12)) {
		struct pcie_tlp_log___6_12 *l = log;

		bpf_core_read(dw, 4 * sizeof(*dw), &l->dw);
	} else if (bpf_core_type_exists(struct aer_header_log_regs)) {
		struct aer_header_log_regs *l = log;

		bpf_core_read(dw, 4 * sizeof(*dw), &l->dw0);
	}
}

static __always_inline bool compat_tlp_is_flit(void *log)
{
	struct pcie_tlp_log___7_0 *l = log;

	return bpf_core_field_exists(l->flit) && BPF_CORE_READ(l, flit);
}

/* aer_event names the bus from 7.0 on ("PCIe", "CXL"); NULL before. */
static __always_inline const char *compat_aer_bus(unsigned long long *ctx)
{
	return cfg.aer_bus_type ? (const char *)ctx[5] : NULL;
}

/* Whether an advisory non-fatal error is told twice: by what it was, too (7.3). */
static __always_inline bool compat_aer_tells_advisory(void)
{
	return cfg.aer_tells_advisory;
}

/*
 * pcie_update_link_speed(bus, linksta) up to 6.12; from 6.13 on it reads Link Status itself and the
 * second argument is gone, or a reason (7.0). -1: not to be had.
 */
static __always_inline int compat_link_status(unsigned long long arg1)
{
	return cfg.link_status_arg ? (__u16)arg1 : -1;
}

#endif

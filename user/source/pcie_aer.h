/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The kernel's AER counters of a device: /sys/bus/pci/devices/BDF/aer_dev_*. Main loop only. */
#ifndef FT_SOURCE_PCIE_AER_H
#define FT_SOURCE_PCIE_AER_H

#include "source/source.h"

#define PCIE_AER_NAMES	 32 /* one a status bit */
#define PCIE_AER_CLASSES 3

/* One file: the errors of one class of one device. */
struct pcie_aer {
	char device[16];
	uint8_t aer_class; /* of NAMES in events.def */
	bool before;	   /* was there at the attach: its first values are from before */
	bool known;	   /* was read once */
	size_t n;
	struct {
		char name[24];
		uint64_t value;
	} v[PCIE_AER_NAMES];
};

void pcie_aer_path(const struct pcie_aer *a, char out[128]);
/* Reads it and emits pcie.counter of what grew. */
void pcie_aer_read(struct pcie_aer *a, const char *root, uint64_t ts_ns,
		   const struct ft_emit *emit);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Reads the PCI tree anew in a thread: devices that do not answer take their deadline each. */
#ifndef FT_SOURCE_PCIE_SCAN_H
#define FT_SOURCE_PCIE_SCAN_H

#include "host/pci.h"

struct pcie_scan;
/* When it is done a PCIE_SCANNED message comes through the pipe, unless that is full. */
int pcie_scan_start(struct pcie_scan **out, const char *root, int pipe);
bool pcie_scan_done(const struct pcie_scan *s);
/* Once, when it is done: the tree, or negative errno; *s is freed. */
int pcie_scan_take(struct pcie_scan **s, struct ft_pci **out);
/* Not wanted any more, done or not. */
void pcie_scan_drop(struct pcie_scan **s);

#endif

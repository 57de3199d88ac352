/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the files that read the PCI tree share. */
#ifndef FT_HOST_PCI_PARTS_H
#define FT_HOST_PCI_PARTS_H

#include "host/pci.h"

/* Which services of the ports the kernel runs. */
void pci_services_read(struct ft_pci *p, const char *root);
/* Names of the slots that devices are in. */
void pci_slots_read(struct ft_pci *p, const char *root);
/* Registers of the upper end of a link: they wait for it, in a worker with a deadline. */
void pci_config_read(const char *root, int timeout_ms, struct ft_pci_dev *d);

#endif

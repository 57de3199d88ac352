/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Numbers of PCIe's Advanced Error Reporting and of packet headers as texts. */
#ifndef FT_SOURCE_AER_H
#define FT_SOURCE_AER_H

#include "event/event.h"

/*
 * Adds the kernel's short names of status bits ("RxErr"), as the files aer_dev_* have them, to a
 * field of names; "bit 6" for a bit that has none, nothing where the class or the status is unknown:
 * without the class a bit has two meanings. aer_class: of AER (0 non-fatal, 1 fatal, 2 correctable).
 */
void ft_aer_names(struct ft_rec *rec, struct ft_str *field, uint8_t aer_class, uint32_t status);

/*
 * Completes a pcie.aer record of the kernel's side: names of the status bits, the bus, and what the
 * packet's header says (type, requester, address).
 */
void ft_aer_texts(struct ft_rec *rec);

/* Whether the error left its device inaccessible: a pcie.gone record in *out then. */
bool ft_aer_gone(const struct ft_rec *rec, struct ft_rec *out);

#endif

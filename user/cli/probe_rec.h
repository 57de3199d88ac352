/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#ifndef FT_CLI_PROBE_REC_H
#define FT_CLI_PROBE_REC_H

#include "source/source.h"

/* A row of the probe table as an event. */
void ft_probe_record(struct ft_rec *rec, const struct ft_probe *p);

#endif

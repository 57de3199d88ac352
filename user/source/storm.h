/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the kernel side counted instead of sending, and what it lost. */
#ifndef FT_SOURCE_STORM_H
#define FT_SOURCE_STORM_H

#include "source/source.h"

struct ft_storm;
int ft_storm_new(struct ft_storm **out, int agg_fd, int counts_fd);
void ft_storm_free(struct ft_storm *s);
/* Emits one record per key and kind for what was added since the last call. */
void ft_storm_read(struct ft_storm *s, const struct ft_emit *emit);
/* Emits how many packets were dropped in the ordinary course since the last call, none included. */
void ft_storm_ordinary(struct ft_storm *s, const struct ft_emit *emit);

#endif

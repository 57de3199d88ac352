/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Records of what lines of the kernel log say. */
#ifndef FT_SOURCE_KLOG_H
#define FT_SOURCE_KLOG_H

#include "host/klog.h"

/* Whether two lines say the same, whenever they did. */
bool klog_same(const struct ft_klog_fact *a, const struct ft_klog_fact *b);

/*
 * The record of a fact with part FT_KLOG_WHOLE. `below`: the device below the port of a slot, ""
 * unknown.
 */
void klog_rec(const struct ft_klog_fact *f, uint64_t ts_ns, bool before, const char *below,
	      struct ft_rec *rec);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Records of what lines of the kernel log say, and its clock. */
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

/*
 * Both clocks at one moment. The log's is CLOCK_MONOTONIC without its adjustment: they differ by
 * some milliseconds from boot on, and by what NTP has corrected since (20 ppm are 1.7 s a day). The
 * difference is taken to have grown evenly, so that what is left is less than a second for a line of
 * any age, unless the clock was slewed by more than that in short time.
 */
struct klog_clock {
	uint64_t log_ns, mono_ns; /* 0: not read, the log's times are taken as they are */
};

/* Reads both within microseconds. -EACCES without the right to use perf, or another errno. */
int klog_clock_read(struct klog_clock *out);
/* CLOCK_MONOTONIC of a time of the log. */
uint64_t klog_clock_mono(const struct klog_clock *c, uint64_t usec);

#endif

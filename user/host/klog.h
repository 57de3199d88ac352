/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Lines of the kernel log that tell of GPUs, NICs and PCIe links, in the words of each driver. */
#ifndef FT_HOST_KLOG_H
#define FT_HOST_KLOG_H

#include "event/event.h"

#define FT_KLOG_LINE	  8192 /* bytes of the longest record of /dev/kmsg */
#define FT_KLOG_TEXT	  256  /* of a line's text that is kept */
#define FT_KLOG_LINK_DOWN 4    /* log_what of a NIC without link, which rtnetlink tells too */

/* What befell a slot, of NAMES(hotplug) in events.def. */
enum ft_klog_slot {
	FT_KLOG_SLOT_UP,
	FT_KLOG_SLOT_DOWN,
	FT_KLOG_SLOT_PRESENT,
	FT_KLOG_SLOT_ABSENT,
};

/* What a line is about besides a record of its own. */
enum ft_klog_part {
	FT_KLOG_WHOLE,	   /* the fact is complete */
	FT_KLOG_AER_CLASS, /* severity of the error that the device's next line has the status of */
};

/* Which devices are believed to be meant when the line's device is not there (any more). */
enum ft_klog_of { FT_KLOG_OF_ANY, FT_KLOG_OF_KNOWN /* a GPU or NIC, by its driver */ };

/* What one line says. Past the ends of its texts all is zero. */
struct ft_klog_fact {
	uint64_t seq;  /* number of the line since boot */
	uint64_t usec; /* its time by the log's clock */
	uint16_t kind; /* enum ft_kind; 0: nothing of interest here, only seq and usec are set */
	uint8_t part, of;
	uint8_t what;	 /* aer_class, hotplug, recovery or log_what, FT_NONE_U8 unknown */
	uint32_t status; /* of AER or DPC, FT_NONE_U32 unknown */
	uint32_t xid, pid;
	char bdf[16]; /* always with domain and function */
	char driver[16], slot[16];
	char text[FT_KLOG_TEXT];
};

/*
 * Reads one record of /dev/kmsg ("prio,seq,usec,flags;text\n KEY=value\n"). Only the kernel's own
 * lines can say something: whoever may write to /dev/kmsg cannot forge one. Opens nothing. 0 or
 * -EBADMSG.
 */
int ft_klog_parse(const char *line, size_t len, struct ft_klog_fact *out);

#endif

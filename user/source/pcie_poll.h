/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The thread that looks at Link Status, and what it tells the main loop. It judges nothing: a value
 * that is another one than before is a message in a pipe.
 */
#ifndef FT_SOURCE_PCIE_POLL_H
#define FT_SOURCE_PCIE_POLL_H

#include "base/base.h"

enum pcie_what {
	PCIE_STATUS,  /* Link Status is another one, or read for the first time */
	PCIE_ASLEEP,  /* suspended: not read from now on */
	PCIE_AWAKE,   /* read again */
	PCIE_ERROR,   /* the files cannot be read any more; they are left alone */
	PCIE_COUNTER, /* the text of a file of AER counters is another one */
	PCIE_SCANNED, /* of pcie_scan.h: the tree was read */
};

struct pcie_msg {
	uint64_t ts_ns;	 /* of the read, monotonic */
	uint32_t number; /* of the poll that it comes from */
	int32_t error;
	uint16_t index; /* of the link, or of the file, in the order of their adding */
	uint16_t status;
	uint16_t control2; /* Link Control 2 as it was right after, 0 not read */
	uint16_t what;
};

#define PCIE_STATUS_ONES 0xffff
/* What makes a change: not the reference clock, nor what is undefined. */
#define PCIE_STATUS_BITS                                                                           \
	(FT_PCI_LNKSTA_SPEED | FT_PCI_LNKSTA_WIDTH | FT_PCI_LNKSTA_LT | FT_PCI_LNKSTA_DLLLA |      \
	 FT_PCI_LNKSTA_LBMS | FT_PCI_LNKSTA_LABS)
#define PCIE_STATUS_NONE 0xffffffffu /* not read yet */

struct pcie_watch {
	const char *upper; /* the end whose registers are read: the port */
	const char *below; /* the other end, "" unknown */
	uint16_t cap; /* offset of its PCI Express capability; 0: by sysfs, speed and width alone */
	uint32_t last; /* Link Status as it is known, PCIE_STATUS_NONE */
};

/* FNV-1a */
#define PCIE_HASH_BASIS 0xcbf29ce484222325ull
static inline uint64_t pcie_hash(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *c = data;

	while (len--)
		hash = (hash ^ *c++) * 0x100000001b3ull;
	return hash;
}

struct pcie_poll;
/* Messages go to the pipe, which may be closed at the other end. */
int pcie_poll_new(struct pcie_poll **out, const char *root, unsigned int interval_ms, int pipe,
		  uint32_t number);
/* Opens the files of one more link; reads none. Index or negative errno. */
int pcie_poll_link(struct pcie_poll *p, const struct pcie_watch *w);
/* A file of counters, looked at once a second. Index or negative errno. */
int pcie_poll_file(struct pcie_poll *p, const char *path);
int pcie_poll_start(struct pcie_poll *p);
/* Ends it without waiting: a thread that is in a read goes on alone and frees it later. */
void pcie_poll_drop(struct pcie_poll *p);
/* The same, but waits a moment for the thread. */
void pcie_poll_end(struct pcie_poll *p);

#define PCIE_POLL_STUCK_NS (2 * NSEC_PER_SEC)
/* Upper end of a link at which a look lasts for that long already, NULL none. */
const char *pcie_poll_stuck(const struct pcie_poll *p, uint64_t now_ns, uint64_t for_ns);
/* Asks the thread to end, without waiting; whether it has. */
void pcie_poll_leave(struct pcie_poll *p);
bool pcie_poll_has_left(const struct pcie_poll *p);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What is known of a link, and the records that a look at it gives. Main loop only. */
#ifndef FT_SOURCE_PCIE_LINK_H
#define FT_SOURCE_PCIE_LINK_H

#include "host/pci.h"
#include "source/pcie_poll.h"
#include "source/source.h"

/* Of NAMES in events.def. */
enum {
	PCIE_REASON_BUS_ADDED = 1,
	PCIE_REASON_HOT_PLUG = 4,
	PCIE_REASON_POLL = 5,
	PCIE_REASON_ATTACH = 6,
};
enum { PCIE_GONE_ONES = 0, PCIE_GONE_REMOVED = 1, PCIE_GONE_ANSWERS = 3, PCIE_GONE_NO_LINK = 4 };
enum { PCIE_DEVICE_ADDED = 4 };

struct pcie_link {
	char port[16];	 /* "": not seen from here; the device's own registers are read */
	char device[16]; /* the other end: its first function on the way to a GPU or NIC */
	char above[16];	 /* upstream end of the link that the port itself hangs on, "" none */
	char slot[32];
	uint16_t cap;	   /* 0: by sysfs */
	bool tells_active; /* DLLLA can be trusted */
	bool sleeps;	   /* it slept when the tree was read: its registers are not known */
	struct ft_pci_link possible;
	uint32_t target_gen;
	/* state */
	bool known;  /* was read once */
	bool gone;   /* all ones */
	bool absent; /* the device was taken out of the tree */
	bool unread; /* named as not read: it hangs, or its files are not there */
	bool stuck;  /* a read of it does not come back: it is left alone */
	bool told_sleep;
	bool retrained; /* this training is counted already */
	uint16_t status;
	struct ft_pci_link now; /* width 0: no link */
	uint64_t since_ns;	/* first look at this state */
	uint64_t transitions;	/* since the attach */
};

static inline const char *pcie_link_upper(const struct pcie_link *l)
{
	return l->port[0] ? l->port : l->device;
}

/* The link above a device; false when there is none, or nothing true can be read of it. */
bool pcie_link_of(const struct ft_pci *p, const struct ft_pci_dev *d, struct pcie_link *out);
/* A look at it: emits pcie.link and pcie.gone of what is new. */
void pcie_link_status(struct pcie_link *l, const struct pcie_msg *m, const struct ft_emit *emit);
void pcie_gone_emit(const char *port, const char *device, unsigned int how, bool before,
		    uint64_t ts_ns, const struct ft_emit *emit);
/* inv.host: what is not known, and why. */
void pcie_unseen_emit(const char *what, int error, const char *why, const struct ft_emit *emit);

#endif

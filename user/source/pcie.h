/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Inside of the pcie source: what its files share. */
#ifndef FT_SOURCE_PCIE_H
#define FT_SOURCE_PCIE_H

#include "source/pcie_aer.h"
#include "source/pcie_link.h"
#include "source/pcie_poll.h"
#include "source/pcie_scan.h"
#include "source/source.h"

#define PCIE_LINKS_MAX 1024
#define PCIE_FILES_MAX 4096
#define PCIE_STUCK_MAX 8

struct ft_pcie_src {
	struct ft_loop *loop;
	struct ft_emit emit;
	struct ft_probe *rows; /* the probe table, may be NULL */
	size_t nrows;
	char *root;
	unsigned int interval_ms;
	int pipe[2];
	struct ft_pci *tree; /* as it was told */
	struct pcie_link *links;
	struct pcie_aer *aers;
	size_t nlinks, naers, nfiles; /* nfiles: of naers, those that are there */
	int file_error;		      /* of those that are there and cannot be opened, 0 none */
	struct pcie_poll *poll;
	uint32_t number;		  /* of the poll */
	uint16_t link_of[PCIE_LINKS_MAX]; /* by index in the poll */
	uint16_t aer_of[PCIE_FILES_MAX];
	int poll_error;
	struct { /* threads that hang in a read */
		struct pcie_poll *poll;
		char upper[16];
	} stuck[PCIE_STUCK_MAX];
	struct pcie_scan *scan; /* under way, or NULL */
	uint64_t scan_due_ns, scanned_ns, bus_hash;
	bool attached; /* what is new now was not there at the attach */
	bool own;      /* the records that come by are ours */
};

/* --- pcie_tree.c --- */
uint64_t pcie_bus_hash(const char *root);
struct pcie_link *pcie_link_find(struct pcie_link *v, size_t n, const char *upper);
/* Takes the tree: its links and counters, with what was seen of them before. */
int pcie_tree_take(struct ft_pcie_src *s, struct ft_pci *p);
/* The tree is to be read anew at that time, but once a second at most. */
void pcie_scan_want(struct ft_pcie_src *s, uint64_t ns);
/* Starts that, when it is time. */
void pcie_scan_due(struct ft_pcie_src *s, uint64_t now);
/* It is read: tells what came and went. */
int pcie_tree_scanned(struct ft_pcie_src *s);

/* --- pcie_rows.c: what cannot be seen --- */
/* After each change of what is looked at. */
void pcie_rows_set(struct ft_pcie_src *s);
/* At the attach: inv.host of what the machine does not let us see. */
void pcie_blind_emit(const struct ft_pcie_src *s);

#endif

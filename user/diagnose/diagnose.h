/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Diagnosis: attributed events join into incidents on the graph of processes, connections and
 * interfaces; the verdict names the cause. Opens nothing and reads no clock: time is that of the
 * events.
 */
#ifndef FT_DIAGNOSE_DIAGNOSE_H
#define FT_DIAGNOSE_DIAGNOSE_H

#include "attrib/attrib.h"
#include "event/event.h"

struct ft_diag;

struct ft_diag_opts {
	const struct ft_clock
		*clock; /* for since_ns in CLOCK_REALTIME; must live as long as the diagnosis */
	/* Who uses which PCIe link and GPU, as of the latest event; NULL: not known. */
	struct ft_attrib *attrib;
	/* An incident was opened, changed or closed; ev is of kind incident. May be NULL. */
	void (*sink)(void *ctx, const struct ft_hdr *ev, const struct ft_attr *attr);
	void *ctx;
};

int ft_diag_new(struct ft_diag **out, const struct ft_diag_opts *opts);
void ft_diag_free(struct ft_diag *d);
/*
 * Events in order of time, with what attribution said. Its own kinds (incident, verdict,
 * heartbeat) are ignored.
 */
void ft_diag_event(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
/* How much attribution had no room for, in all: the verdict names it. */
void ft_diag_unfit(struct ft_diag *d, uint64_t n);
/* Lets time pass without an event: opens what was held back, closes what has settled. */
void ft_diag_advance(struct ft_diag *d, uint64_t now_ns);
/*
 * The answer as of now: cause, since when, who pays, evidence, what was ruled out and what not
 * seen.
 */
void ft_diag_verdict(struct ft_diag *d, uint64_t now_ns, bool final, struct ft_rec *out,
		     struct ft_attr *attr);
/* One line: all is well, or what is open. */
void ft_diag_heartbeat(struct ft_diag *d, uint64_t now_ns, struct ft_rec *out,
		       struct ft_attr *attr);

#endif

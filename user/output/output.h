/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Outputs: each takes attributed events and writes them to a file descriptor. */
#ifndef FT_OUTPUT_OUTPUT_H
#define FT_OUTPUT_OUTPUT_H

#include "attrib/attrib.h"
#include "event/event.h"

struct ft_out;
struct ft_out_ops {
	int (*event)(struct ft_out *o, const struct ft_hdr *ev, const struct ft_attr *attr);
	int (*flush)(struct ft_out *o, uint64_t now_ns);
	void (*free)(struct ft_out *o);
};
struct ft_out {
	const struct ft_out_ops *ops;
};

struct ft_out_opts {
	int fd;
	const char *host;	      /* name of the node, NULL unknown */
	const struct ft_clock *clock; /* must live as long as the output */
	/* text only */
	struct ft_attrib *attrib; /* for the job table; NULL: no table */
	int verbose;		  /* -1: incidents and verdict; 0: what matters; 1: all */
	bool color;
	bool interactive; /* Ctrl-C ends it: say so in the header */
	bool full;	  /* lines are not cut to the terminal's width: it is none */
};

int ft_out_text(struct ft_out **out, const struct ft_out_opts *opts);
int ft_out_json(struct ft_out **out, const struct ft_out_opts *opts);

/*
 * Negative errno when it could not be written: -EPIPE when the reader has gone. The output stays
 * unusable then.
 */
static inline int ft_out_event(struct ft_out *o, const struct ft_hdr *ev,
			       const struct ft_attr *attr)
{
	return o->ops->event(o, ev, attr);
}

/*
 * Writes what is held: call it when nothing more comes for now, at least once a second. The text
 * output shows the header and the job table when the inventory is complete: two flushes 100 ms
 * apart without more of it, or the first line to show; repeated events of one line are folded
 * until a second has passed.
 */
static inline int ft_out_flush(struct ft_out *o, uint64_t now_ns)
{
	return o->ops->flush(o, now_ns);
}

static inline void ft_out_free(struct ft_out *o)
{
	if (o)
		o->ops->free(o);
}

/* --- pieces of the text output, also for other commands; all text in them is escaped --- */
struct ft_style {
	bool color, full;
	const struct ft_clock *clock;
};
/* The table of ranks with their GPUs and NICs: "job" and "RANK GPU .." lines. */
void ft_text_job(struct ft_buf *b, struct ft_attrib *a, const struct ft_style *style, bool all);
/* One line per event, without time; "" for kinds that are not shown at this verbosity. */
void ft_text_line(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
/* The VERDICT block. */
void ft_text_verdict(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr,
		     const struct ft_style *style);

#endif

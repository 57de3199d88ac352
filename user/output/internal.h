/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the files of this room share. */
#ifndef FT_OUTPUT_INTERNAL_H
#define FT_OUTPUT_INTERNAL_H

#include "output/output.h"

#define WIDTH 100 /* columns */

/* out_write.c: a buffered file descriptor; an error stays. */
struct writer {
	int fd, err;
	struct ft_buf buf;
};
int writer_flush(struct writer *w);
/* Flushes when much is held. */
int writer_commit(struct writer *w);

/* out_pcie.c: lines of PCIe links, GPUs and the kernel log */
void line_aer(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_pcie_link(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_hotplug(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_recovery(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_gone(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_counter(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_xid(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_clocks(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_nvlink(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void line_log(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);

/* out_words.c */
size_t text_width(const char *s, size_t len);
/* Cuts the text added since `from` to so many columns; what is cut ends in "..". */
void text_cut(struct ft_buf *b, size_t from, size_t columns);
/* The same to the terminal's width, where there is a terminal. */
void text_fit(struct ft_buf *b, size_t from, const struct ft_style *style);
/* A str field, escaped. */
void text_str(struct ft_buf *b, const struct ft_hdr *ev, struct ft_str s);
void text_chars(struct ft_buf *b, const char *s, size_t size);
/* "0-7", "1,5", "?" */
void text_numbers(struct ft_buf *b, const struct ft_attr_rank *r, size_t n);
void text_ranks(struct ft_buf *b, const struct ft_attr_rank *r, size_t n, bool shared);
/* "rank 1", "pid 77 (python)", "?" */
void text_who(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr);
void text_addr(struct ft_buf *b, const uint8_t ip[16], uint16_t port);
/* 03:11:58, or 03:11:58.482 */
void text_time(struct ft_buf *b, uint64_t real_ns, bool ms);
/* "2026-11-29 " of a time that is more than 12 hours back, else nothing. */
void text_day(struct ft_buf *b, uint64_t real_ns, uint64_t now_ns);
/* 12 segs -> "12", 1234567 -> "1,234,567" */
void text_count(struct ft_buf *b, uint64_t n);
/* Breaks what was added since `from` into lines of the terminal's width, indented from the second. */
void text_continue(struct ft_buf *b, size_t from, size_t indent);
/* Adds "label  text", continued below at the same column. */
void text_wrapped(struct ft_buf *b, const char *label, const char *text, size_t len);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Uprobes: one program on many places of one file, in one process. */
#ifndef FT_SOURCE_UPROBE_H
#define FT_SOURCE_UPROBE_H

#include "base/base.h"
#include "source/source.h"

/* expected_attach_type of programs for uprobe_multi links (6.6+); not in linux/bpf.h of 6.1 */
#define FT_BPF_TRACE_UPROBE_MULTI 48

struct ft_uprobe_set {
	uint32_t pid; /* process */
	int fd;	      /* the file; its inode counts, not its name */
	uint32_t n;
	const uint64_t *offsets, *cookies;
	bool ret;   /* at the return */
	bool multi; /* the program was loaded for uprobe_multi */
};

struct ft_uprobe_links {
	uint32_t n;
	int *fds; /* closing them detaches */
};

/*
 * Attaches a program to all places or to none. Takes the target's mmap_lock: call it from a worker.
 * 0 or negative errno. *no_cookies is set where the kernel has none (before 5.15).
 */
int ft_uprobe_attach(int prog_fd, const struct ft_uprobe_set *set, struct ft_uprobe_links *out,
		     bool *no_cookies);
/* Takes as long as the kernel needs to wait for the probes' users: milliseconds up to seconds. */
void ft_uprobe_detach(struct ft_uprobe_links *links);

/*
 * Whether this kind of probe works here and is harmless: "uprobe.multi", "uretprobe.multi",
 * "uprobe", "uretprobe". A throw-away child under a strict seccomp filter runs into such probes at
 * the first question; later ones are answered from memory. 0, or negative errno and the reason.
 */
int ft_uprobe_usable(const char *attach, char *reason, size_t size);

/*
 * Removes the probes of the trials, in the background. To be called some 10 ms before others are
 * attached: the lock that both take (dup_mmap_sem) waits for a grace period when it was not taken
 * for the length of one.
 */
void ft_uprobe_trials_end(void);

/*
 * Decides about the rows of the probe table whose attach is "uprobe.multi/..", "uretprobe/.." and
 * so on, before their object is loaded: what does not work here is noted, and of the variants
 * `x_multi` and `x` the second is not needed where the first works. A program for ".multi" must
 * be loaded with expected_attach_type FT_BPF_TRACE_UPROBE_MULTI.
 */
void ft_uprobe_resolve(struct ft_probe *probes, size_t n);
bool ft_uprobe_row(const struct ft_probe *p);
bool ft_uprobe_row_multi(const struct ft_probe *p);

#endif

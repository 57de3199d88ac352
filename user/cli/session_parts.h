/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Inside of a session: what its files share. */
#ifndef FT_CLI_SESSION_PARTS_H
#define FT_CLI_SESSION_PARTS_H

#include "attrib/attrib.h"
#include "cli/session.h"
#include "cli/target.h"
#include "diagnose/diagnose.h"
#include "host/pci.h"
#include "output/output.h"
#include "source/source.h"

#define FT_LINGER_LOOK_NS (50 * NSEC_PER_MSEC)

struct session {
	const struct ft_trace_opts *opts;
	struct ft_loop *loop;
	struct ft_order *order;
	struct ft_emit emit;
	struct ft_bpf *bpf;
	struct ft_nccl_src *nccl;
	struct ft_link_src *links;
	struct ft_attrib *attrib;
	struct ft_diag *diag;
	struct ft_out *out;
	struct ft_pci *pci;
	struct ft_clock clock;
	char host[256];
	uint64_t start_ns, gone_ns;
	int order_timer, end_timer, sigfd;
	unsigned int ticks;
	size_t targets;	  /* processes at the attach */
	size_t with_nccl; /* of these, those that have an NCCL library mapped */
	char others[128]; /* pids of untraced processes that have one, when none of ours has */
	char cgroup[512]; /* what --cgroup was found to mean */
	bool started;
	pid_t child; /* -- CMD */
	int child_status, go_fd;
	int write_error;
};

/* A record of any source: into the order queue, and what it means for the sources. */
void session_record(void *ctx, const void *rec, size_t len);
/* When the last process may be gone. */
void session_end_look(void *ctx);

/* --- session_watch.c: the processes that are traced --- */
/*
 * Starts the command held, resolves the target and adds its processes. 0 or the program's exit
 * status.
 */
int session_targets(struct session *s, struct ft_pidset *set);
/* Inventory, interfaces and NCCL of the target, or of the node without one. */
void session_watch(struct session *s, const struct ft_pidset *set);
/* --cgroup: processes that were moved in; forks are followed by the kernel. */
void session_joined(struct session *s);
/* Lets the command run. */
void session_child_go(struct session *s);
void session_child_reap(struct session *s);
void session_proc_started(struct session *s, const struct ft_ev_proc_start *e);
void session_proc_ended(struct session *s, uint32_t pid);
/* -a: a process was found to use NCCL. */
void session_nccl_found(void *ctx, uint32_t pid);
/* Processes that were ending while they were added, once more a second later. */
void session_procs_prune(struct session *s);

/* --- session_head.c: the first line and the probe table --- */
void session_head(struct session *s);

#endif

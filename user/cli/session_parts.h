/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Inside of a session: what its files share. */
#ifndef FT_CLI_SESSION_PARTS_H
#define FT_CLI_SESSION_PARTS_H

#include <sys/resource.h>

#include "attrib/attrib.h"
#include "cli/session.h"
#include "cli/target.h"
#include "cli/target_cgroup.h"
#include "diagnose/diagnose.h"
#include "host/pci.h"
#include "output/output.h"
#include "source/source.h"

#define FT_LINGER_LOOK_NS (50 * NSEC_PER_MSEC)

/* A process that is still to be looked at. */
struct ft_look {
	uint32_t pid;
	bool facts; /* not only NCCL */
};

struct ft_looks {
	struct ft_look *v;
	size_t n, cap;
};

struct session {
	const struct ft_trace_opts *opts;
	struct ft_loop *loop;
	struct ft_order *order;
	struct ft_emit emit;
	struct ft_bpf *bpf;
	struct ft_nccl_src *nccl;
	struct ft_link_src *links;
	struct ft_pcie_src *pcie; /* NULL where the tree was not read */
	struct ft_klog_src *klog;
	struct ft_gpu_src *gpus;
	struct ft_attrib *attrib;
	struct ft_diag *diag;
	struct ft_out *out;
	struct ft_pci *pci;
	struct ft_clock clock;
	char host[256];
	uint64_t start_ns, gone_ns;
	uint64_t armed_ns; /* when order_timer fires, UINT64_MAX: it is off */
	int order_timer, end_timer, look_timer, sigfd;
	struct ft_probe *told;	/* the probe table as the output has it, NULL: not at all */
	struct ft_looks looks;	/* processes to look at */
	uint64_t look_until_ns; /* of this pass */
	bool seed;		/* processes were added: their open sockets are not listed yet */
	int seed_error, joined_error;
	unsigned int ticks;
	size_t targets;	     /* processes at the attach */
	size_t nccl_unknown; /* of the targets, those that could not be looked through */
	size_t with_nccl;    /* of these, those that have an NCCL library mapped */
	char others[128];    /* pids of untraced processes that have one, when none of ours has */
	int others_error;    /* not all of them were asked */
	struct ft_cgroup_dirs cgroup; /* what --cgroup was found to mean */
	bool started, lost;	      /* lost: records, since the last tick */
	unsigned int ends_due;	      /* so many ticks more it is asked who is gone */
	struct ft_procs_gone {	      /* without an end that was told, at the last tick */
		struct ft_hdr *v;     /* pid, start and name */
		size_t n;
	} gone;
	pid_t child;	     /* -- CMD */
	struct rlimit files; /* the command gets what we got */
	int child_status, go_fd;
	int write_error;
};

/* A record of any source: into the order queue, and what it means for the sources. */
void session_record(void *ctx, const void *rec, size_t len);
void session_verdict(struct session *s, bool final);
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
/* The only sign of a process that moves to another network namespace and executes nothing there. */
void session_sock_seen(struct session *s, const struct ft_ev_tcp_state *e);
/* -a: a process was found to use NCCL. */
void session_nccl_found(void *ctx, uint32_t pid);
/* Processes that were ending while they were added, once more a second later. */
void session_procs_prune(struct session *s);
/* Names those that are stopped now: no event says so. */
void session_stopped(struct session *s);
/* After records were lost: who started or ended meanwhile, by the kernel's own list. */
void session_resync(struct session *s);
/* In the ticks after a loss: the ends that attribution never heard of. */
void session_ends_tell(struct session *s);

/* --- session_look.c: what is asked of traced processes --- */
/* facts: also inventory and interfaces, not only NCCL. */
void session_look_add(struct session *s, uint32_t pid, bool facts);
void session_look_del(struct session *s, uint32_t pid);
/* One pass over those that were added, with a budget of time. Drains the ring: not for its records. */
void session_look(void *ctx);
void session_netns_watch(struct session *s, uint32_t pid);
/* Lists the open sockets of traced processes. */
void session_seed(struct session *s);
/* Names what cannot be seen, in the output and the verdict. */
void session_unseen(struct session *s, const char *what, int err);

/* --- session_devices.c: GPUs, NICs and links of the node, whoever uses them --- */
void session_devices_watch(struct session *s);
/* After the inventory: its lines of before the attach are about what that names. */
void session_log_watch(struct session *s);

/* --- session_signal.c --- */
int session_signals(struct session *s);
/* The signal that asked for the end, 0: none yet. */
int session_end_asked(void);
/* In a child, before it executes something. */
void session_signals_default(void);

/* --- session_head.c: the first line and the probe table --- */
void session_head(struct session *s);
/* The rows of the probe table that are not what the output says. */
void session_probes(struct session *s);

#endif

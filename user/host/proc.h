/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Processes as /proc below a root directory shows them ("" is this machine). */
#ifndef FT_HOST_PROC_H
#define FT_HOST_PROC_H

#include "event/event.h"

struct ft_pci;

/* --- what /proc/PID/stat tells: never blocks on the process --- */
struct ft_proc_stat {
	uint32_t pid, ppid, threads;
	uint64_t start_ns;  /* boot time clock, in steps of the kernel's tick (10 ms) */
	uint64_t layout[3]; /* stack, arguments, environment; 0 where we may not see them */
	bool kthread;
	char state; /* 'R', 'S', 'D', 'Z' ... */
	char comm[16];
};

/* A thread id resolves to its process. -ESRCH: no such process. */
int ft_proc_tgid(const char *root, uint32_t tid, uint32_t *tgid);
int ft_proc_stat_read(const char *root, uint32_t pid, struct ft_proc_stat *out);
/* It has ended: a main thread that has may leave others that go on. */
bool ft_proc_has_ended(const struct ft_proc_stat *st);

/* All processes, one pass, sorted by pid. */
struct ft_proc_table {
	struct ft_proc_stat *v;
	size_t n;
};
int ft_proc_table_read(const char *root, struct ft_proc_table *out);
void ft_proc_table_free(struct ft_proc_table *t);
const struct ft_proc_stat *ft_proc_table_find(const struct ft_proc_table *t, uint32_t pid);
/*
 * Sets below[i] for the process `pid` and all that descend from it. -ESRCH when the table lacks it.
 */
int ft_proc_table_below(const struct ft_proc_table *t, uint32_t pid, bool *below);

/* --- control group --- */
struct ft_cgroup {
	char path[512];
	char container[72]; /* 64 hex digits: docker, containerd, CRI-O, podman */
	char pod[40];	    /* Kubernetes pod uid, with dashes */
	char job[24];	    /* Slurm job id */
	char step[24];	    /* Slurm step: number, batch, extern */
};
/* text: /proc/PID/cgroup, v1, v2 or both. */
void ft_cgroup_parse(const char *text, struct ft_cgroup *out);

/* --- environment --- */
struct ft_env_rank {
	int32_t rank, world, local; /* FT_NONE_S32 unknown */
	char by[32];		    /* the variable that gave the rank */
};
/*
 * Rank by the launcher's variables. env: `len` bytes of NAME=value, each terminated by a NUL. The
 * first launcher whose variables are there decides; values that contradict each other leave the
 * rank unknown. direct: the process is the task of slurmstepd itself, so that SLURM_PROCID is its
 * rank.
 */
void ft_env_rank_find(const char *env, size_t len, bool direct, struct ft_env_rank *out);
/* Whether these arguments (NUL-separated) are those of torchrun, mpirun or another launcher. */
bool ft_proc_is_launcher(const char *args, size_t len);
/* Whether it is the name of a shell, of timeout, or the like: they pass a rank on and are none. */
bool ft_proc_is_wrapper(const char *comm);
/* Whether nothing but shells and wrappers stands between slurmstepd and the process. */
bool ft_proc_slurm_direct(const char *root, uint32_t pid);

/* --- what the process itself must be asked for: can block, so it is read by a worker --- */
#define FT_PROC_GPUS 32
enum ft_proc_part {
	FT_PROC_EXE,
	FT_PROC_ARGS,
	FT_PROC_ENV,
	FT_PROC_FILES,
	FT_PROC_MAPS,
	FT_PROC_PARTS
};

struct ft_proc_args {
	size_t len;    /* NUL-separated, terminated */
	bool not_rank; /* a launcher or a shell: its environment is meant for others */
	char text[1024];
};

struct ft_proc_env {
	struct ft_env_rank rank;
	bool cut; /* longer than what we read */
	char cuda_visible[128], slurm_job[24];
};

struct ft_proc_files {
	uint8_t nvidia[256 / 8]; /* minors of open /dev/nvidiaN */
	size_t ngpus;		 /* GPUs found by sysfs */
	char gpus[FT_PROC_GPUS][16];
};

struct ft_proc_facts {
	struct ft_proc_stat st;
	uint32_t ns_pid, netns; /* FT_NONE_U32 unknown */
	struct ft_cgroup cgroup;
	int errors[FT_PROC_PARTS]; /* negative errno of what was not read */
	bool helper;		   /* set by ft_proc_mark_helpers() */
	char exe[512];
	struct ft_proc_args args;
	struct ft_proc_env env;
	struct ft_proc_files files;
	/* libnccl.so* or librccl.so* is mapped; FT_NONE_U8: not asked, or unknown. */
	uint8_t nccl;
};

#define FT_PROC_WANT_NCCL 1 /* look through the mappings for an NCCL library by its file name */

/*
 * Facts of one process. The parts that did not answer within timeout_ms, or may not be read, are
 * noted in `errors`; only -ESRCH, -ENOMEM and an unreadable /proc fail as a whole. pid: a process,
 * not a thread.
 */
int ft_proc_facts_read(const char *root, uint32_t pid, unsigned int want, int timeout_ms,
		       struct ft_proc_facts **out);
/*
 * Marks those that were forked from a rank and did not exec: data loader workers inherit library,
 * environment and device files. A heuristic: an observed init call overrules it.
 */
void ft_proc_mark_helpers(struct ft_proc_facts *const *facts, size_t n);

/* inv.proc of the facts. pci may be NULL: then open /dev/nvidiaN stay without address. */
void ft_proc_rec(const struct ft_proc_facts *f, const struct ft_pci *pci, uint64_t ts_ns,
		 struct ft_rec *out);
/* inv.host for a part that is missing; false when nothing is. */
bool ft_proc_missing_rec(const struct ft_proc_facts *f, enum ft_proc_part part, uint64_t ts_ns,
			 struct ft_rec *out);
/* Addresses of the GPUs whose device files are open. Returns their number, at most FT_PROC_GPUS. */
size_t ft_proc_gpus(const struct ft_proc_facts *f, const struct ft_pci *pci, char (*bdfs)[16]);

/*
 * Facts of several processes: inv.proc of each, inv.host of what is missing. Those that are gone
 * are left out.
 */
int ft_proc_inventory(const char *root, const uint32_t *pids, size_t n, unsigned int want,
		      int timeout_ms, const struct ft_pci *pci, ft_sink_fn sink, void *ctx);
/*
 * The same, and asks more(ctx) after each process: false ends it early. Returns how many of the
 * pids were looked at, or negative errno.
 */
ssize_t ft_proc_inventory_while(const char *root, const uint32_t *pids, size_t n, int timeout_ms,
				const struct ft_pci *pci, ft_sink_fn sink, bool (*more)(void *ctx),
				void *ctx);

#endif

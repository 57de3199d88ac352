// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The traced processes of a session: found at the attach, started and ended later. */
#include <sys/wait.h>
#include <fcntl.h>
#include <signal.h>

#include "cli/session_parts.h"
#include "host/fs.h"
#include "host/nvml.h"
#include "host/proc.h"

#define ANSWER_MS 200  /* a process that does not answer /proc reads in time is named */
#define NVML_MS	  2000 /* it asks each GPU, and wakes those up that sleep */

static void to_record(void *ctx, struct ft_hdr *ev)
{
	session_record(ctx, ev, ev->size);
}

static void netns_watch(struct session *s, uint32_t pid)
{
	uint32_t netns;
	char path[64];

	ft_fmt(path, "/proc/%u/ns/net", pid);
	if (ft_link_inode("", path, &netns))
		return; /* ended meanwhile, or named by the inventory as unreadable */
	ft_bpf_netns_add(s->bpf, netns);
	ft_link_src_add(s->links, pid, netns);
}

/* What the processes are, and all that is watched for their sake. */
static void procs_watch(struct session *s, const uint32_t *pids, size_t n)
{
	ft_proc_inventory("", pids, n, 0, ANSWER_MS, s->pci, to_record, s);
	for (size_t i = 0; i < n; i++) {
		netns_watch(s, pids[i]);
		s->with_nccl += ft_nccl_src_add(s->nccl, pids[i]) > 0;
	}
}

/* A fork has its parent's namespace and, until it executes something, its parent's facts. */
void session_proc_started(struct session *s, const struct ft_ev_proc_start *e)
{
	if (e->exec)
		procs_watch(s, &e->h.pid, 1);
	else
		ft_nccl_src_add(s->nccl, e->h.pid);
}

void session_proc_ended(struct session *s, uint32_t pid)
{
	ft_nccl_src_del(s->nccl, pid);
	/* With -a more may come; without a target none was there. */
	if (!s->opts->all)
		ft_loop_timer_set(s->end_timer, ft_mono_ns() + FT_LINGER_LOOK_NS);
}

/* A process was found to use NCCL: with -a it is traced, else only named. */
void session_nccl_found(void *ctx, uint32_t pid)
{
	struct session *s = ctx;
	struct ft_proc_stat st;
	size_t len = strlen(s->others);

	if (!s->opts->all) {
		snprintf(s->others + len, sizeof(s->others) - len, "%s%u", len ? ", " : "", pid);
		return;
	}

	if (ft_proc_stat_read("", pid, &st) || ft_bpf_proc_add(s->bpf, pid, st.start_ns, 0))
		return;
	procs_watch(s, &pid, 1);
	ft_bpf_seed_sockets(s->bpf);
}

static bool proc_ended_already(uint32_t pid, struct ft_proc_stat *st)
{
	return ft_proc_stat_read("", pid, st) || ft_proc_has_ended(st);
}

/*
 * The start time tells the process from a later one with its number. The kernel removes the entry
 * at the end of the process: one that ended just before the entry was made would stay for ever.
 */
static int proc_add(struct session *s, uint32_t pid)
{
	struct ft_proc_stat st;
	int err;

	if (proc_ended_already(pid, &st))
		return 0;
	err = ft_bpf_proc_add(s->bpf, pid, st.start_ns, 0);
	if (!err && proc_ended_already(pid, &st))
		ft_bpf_proc_del(s->bpf, pid);
	return err;
}

/* One that was ending while it was added, once more a second later. */
void session_procs_prune(struct session *s)
{
	struct ft_proc_stat st;
	uint32_t pid = 0, next;

	for (bool more = ft_bpf_proc_next(s->bpf, &pid); more; pid = next) {
		next = pid;
		more = ft_bpf_proc_next(s->bpf, &next);
		if (proc_ended_already(pid, &st))
			ft_bpf_proc_del(s->bpf, pid);
	}
	if (!s->opts->all && s->targets)
		session_end_look(s);
}

static bool is_asked_for(struct session *s, uint32_t pid)
{
	uint32_t tgid;

	for (size_t i = 0; i < s->opts->npids; i++)
		if (!ft_proc_tgid("", s->opts->pids[i], &tgid) && tgid == pid)
			return true;
	return false;
}

/*
 * The tracer itself, and what it was started through (sudo, timeout) below a process that was asked
 * for: they wait for the tracer, so a session that waited for them would never end.
 */
static void leave_out_self(struct session *s, struct ft_pidset *set)
{
	struct ft_proc_stat st = { .pid = getpid() };

	ft_pidset_del(set, st.pid);
	if (!s->opts->npids || ft_proc_stat_read("", st.pid, &st))
		return;
	while (!ft_proc_stat_read("", st.ppid, &st) && !is_asked_for(s, st.pid))
		ft_pidset_del(set, st.pid);
}

/* The command is started held: it executes when everything is attached. */
static int child_start(struct session *s)
{
	int go[2];

	if (pipe2(go, O_CLOEXEC) || (s->child = fork()) < 0) {
		ft_err("cannot start %s: %s", s->opts->cmd[0], strerror(errno));
		return FT_EXIT_INTERNAL;
	}
	if (!s->child) {
		sigset_t none;
		char c;

		close(go[1]);
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_DFL);
		if (read(go[0], &c, 1) != 1)
			_exit(FT_EXIT_INTERNAL);
		execvp(s->opts->cmd[0], s->opts->cmd);
		ft_err("cannot run %s: %s", s->opts->cmd[0], strerror(errno));
		_exit(errno == ENOENT ? 127 : 126);
	}
	close(go[0]);
	s->go_fd = go[1];
	return 0;
}

void session_child_go(struct session *s)
{
	if (s->go_fd < 0)
		return;
	if (write(s->go_fd, "g", 1) != 1)
		ft_warn("cannot start %s: %s", s->opts->cmd[0], strerror(errno));
	close(s->go_fd);
	s->go_fd = -1;
}

/*
 * Adds the target's processes until a look finds no new one: those that fork meanwhile are followed
 * by the kernel.
 */
static int targets_add(struct session *s, struct ft_pidset *set)
{
	uint32_t child = s->child;
	struct ft_target_opts t = {
		.pids = s->child ? &child : s->opts->pids,
		.npids = s->child ? 1 : s->opts->npids,
		.cgroup = s->opts->cgroup,
		.no_children = s->opts->no_children,
	};
	char why[512] = "";
	uint32_t pid = 0;
	size_t known;

	do {
		int err;

		known = set->n;
		err = ft_target_resolve("", &t, set, why, sizeof(why));
		if (err) {
			ft_err("%s", why);
			return err == -ENOMEM ? FT_EXIT_INTERNAL : FT_EXIT_NOTARGET;
		}
		leave_out_self(s, set);
		for (size_t i = 0; i < set->n && !err; i++)
			err = proc_add(s, set->pids[i]);
		if (err) {
			ft_err("cannot trace more than %u processes", FT_MAX_PROCS);
			return FT_EXIT_INTERNAL;
		}
	} while (set->n != known);
	if (!ft_bpf_proc_next(s->bpf, &pid)) {
		ft_err(set->n ? "the process ended during the attach"
			      : "nothing but the tracer itself is there to trace");
		return FT_EXIT_NOTARGET;
	}
	ft_strcpy(s->cgroup, set->cgroup, sizeof(s->cgroup));
	if (set->note[0])
		ft_warn("%s", set->note);
	return 0;
}

static void gpus_watch(struct session *s)
{
	_cleanup_(ft_nvml_freep) struct ft_nvml *nv = NULL;
	int err;

	if (!ft_nvml_wanted("", s->pci))
		return;
	err = ft_nvml_read(NULL, NVML_MS, &nv);
	ft_nvml_emit(nv, err, "", ft_mono_ns(), to_record, s);
}

/* Without a target the node itself is watched: the job may be gone already. */
void session_watch(struct session *s, const struct ft_pidset *set)
{
	ft_pci_read("", ANSWER_MS, &s->pci);
	if (s->pci)
		ft_pci_emit(s->pci, ft_mono_ns(), to_record, s);
	gpus_watch(s);
	procs_watch(s, set->pids, set->n);
	if (!set->n)
		netns_watch(s, getpid());
	if (s->opts->all || (set->n && !s->with_nccl && !s->opts->cmd))
		ft_nccl_src_find(s->nccl);
}

void session_child_reap(struct session *s)
{
	int status;

	if (s->child > 0 && waitpid(s->child, &status, WNOHANG) == s->child) {
		s->child_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						      : WEXITSTATUS(status);
		s->child = 0;
	}
}

int session_targets(struct session *s, struct ft_pidset *set)
{
	int status = s->opts->cmd ? child_start(s) : 0;

	if (!status && (s->opts->npids || s->opts->cgroup || s->opts->cmd))
		status = targets_add(s, set);
	return status;
}

void session_joined(struct session *s)
{
	_cleanup_(ft_pidset_free) struct ft_pidset set = {};
	struct ft_target_opts t = { .cgroup = s->cgroup };
	char why[512];
	bool joined = false;

	/* It is gone when its last process is. */
	if (!s->cgroup[0] || ft_target_resolve("", &t, &set, why, sizeof(why)))
		return;
	leave_out_self(s, &set);
	for (size_t i = 0; i < set.n; i++) {
		if (ft_bpf_proc_has(s->bpf, set.pids[i]) || proc_add(s, set.pids[i]))
			continue;
		procs_watch(s, &set.pids[i], 1);
		joined = true;
	}
	if (joined)
		ft_bpf_seed_sockets(s->bpf);
}

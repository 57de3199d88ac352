// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The traced processes of a session: found at the attach, started and ended later. */
#include <sys/wait.h>
#include <fcntl.h>
#include <signal.h>

#include "cli/session_parts.h"
#include "host/fs.h"
#include "host/proc.h"

/* A fork has its parent's namespace and, until it executes something, its parent's facts. */
void session_proc_started(struct session *s, const struct ft_ev_proc_start *e)
{
	session_look_add(s, e->h.pid, e->exec);
}

void session_proc_ended(struct session *s, uint32_t pid)
{
	session_look_del(s, pid);
	ft_nccl_src_del(s->nccl, pid);
	/* With -a more may come; without a target none was there. */
	if (!s->opts->all)
		ft_loop_timer_set(s->end_timer, ft_mono_ns() + FT_LINGER_LOOK_NS);
}

void session_sock_seen(struct session *s, const struct ft_ev_tcp_state *e)
{
	if (!ft_bpf_netns_has(s->bpf, e->netns))
		session_netns_watch(s, e->h.pid);
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
	err = ft_bpf_proc_add(s->bpf, pid, st.start_ns);
	if (!err && proc_ended_already(pid, &st))
		ft_bpf_proc_del(s->bpf, pid);
	return err;
}

/* Whole numbers only: half of one would be another process. */
static void other_add(struct session *s, uint32_t pid)
{
	static const char more[] = ", ...";
	size_t len = strlen(s->others);
	char text[16];

	ft_fmt(text, "%s%u", len ? ", " : "", pid);
	if (len + strlen(text) + sizeof(more) <= sizeof(s->others))
		strcpy(s->others + len, text);
	else if (len < sizeof(more) || strcmp(s->others + len - strlen(more), more) != 0)
		strcpy(s->others + len, more);
}

/* A process was found to use NCCL: with -a it is traced, else only named. */
void session_nccl_found(void *ctx, uint32_t pid)
{
	struct session *s = ctx;
	char what[64];
	int err;

	if (!s->opts->all) {
		other_add(s, pid);
		return;
	}
	err = proc_add(s, pid);
	if (err) {
		ft_fmt(what, "process %u, which uses NCCL", pid);
		session_unseen(s, what, err);
	}
	if (!ft_bpf_proc_has(s->bpf, pid))
		return;
	session_look_add(s, pid, true);
	s->seed = true;
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
}

#define STOPPED_NAMED 4

void session_stopped(struct session *s)
{
	_cleanup_buf_ struct ft_buf who = {};
	struct ft_ev_inv_host *e;
	struct ft_proc_stat st;
	struct ft_rec rec;
	size_t n = 0;

	for (uint32_t pid = 0; ft_bpf_proc_next(s->bpf, &pid);) {
		/* 't': by a debugger */
		if (ft_proc_stat_read("", pid, &st) || (st.state != 'T' && st.state != 't'))
			continue;
		if (n++ < STOPPED_NAMED)
			ft_buf_printf(&who, "%s%u (%s)", n > 1 ? ", " : "pid ", pid, st.comm);
	}
	if (!n)
		return;
	if (n > STOPPED_NAMED)
		ft_buf_printf(&who, " and %zu more", n - STOPPED_NAMED);
	e = ft_rec_new(&rec, FT_KIND_inv_host, ft_mono_ns());
	ft_rec_str(&rec, &e->what,
		   "stopped at the end of the trace (state T: SIGSTOP or a debugger)");
	ft_rec_str(&rec, &e->reason, who.s ? who.s : "");
	ft_emit(&s->emit, &rec);
}

void session_resync(struct session *s)
{
	uint32_t pid = 0;

	s->lost = false;
	ft_nccl_src_prune(s->nccl);
	/* A walk starts again when its place is deleted: in a storm of forks without end. */
	for (int n = 0; n < FT_MAX_PROCS && ft_bpf_proc_next(s->bpf, &pid); n++)
		if (!ft_nccl_src_has(s->nccl, pid))
			session_look_add(s, pid, true);
}

struct ended {
	struct session *s;
	struct ft_procs_gone now;
};

static void ended_collect(void *ctx, const struct ft_attrib_proc *p)
{
	struct ended *e = ctx;
	struct ft_hdr *v;

	if (!p->alive || ft_bpf_proc_has(e->s->bpf, p->pid))
		return;
	v = reallocarray(e->now.v, e->now.n + 1, sizeof(*v));
	if (!v)
		return; /* again at the next loss */
	e->now.v = v;
	v[e->now.n] = (struct ft_hdr){ .pid = p->pid, .start_ns = p->start_ns };
	ft_strcpy(v[e->now.n++].task, p->task, sizeof(v->task));
}

static bool was_gone(const struct ft_procs_gone *g, const struct ft_hdr *p)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->v[i].pid == p->pid && g->v[i].start_ns == p->start_ns)
			return true;
	return false;
}

/*
 * The end of a process whose record was lost: how it ended is not known. The record may also be on
 * its way: that of one that was missed a tick ago is not.
 */
void session_ends_tell(struct session *s)
{
	struct ended e = { .s = s };
	struct ft_rec rec;

	ft_attrib_each(s->attrib, ended_collect, &e);
	for (size_t i = 0; i < e.now.n; i++) {
		if (!was_gone(&s->gone, &e.now.v[i]))
			continue;
		ft_rec_new(&rec, FT_KIND_proc_exit, ft_mono_ns());
		rec.h.pid = e.now.v[i].pid;
		rec.h.start_ns = e.now.v[i].start_ns;
		memcpy(rec.h.task, e.now.v[i].task, sizeof(rec.h.task));
		ft_emit(&s->emit, &rec);
	}
	free(s->gone.v);
	s->gone = e.now;
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
	if (s->gpus)
		ft_pidset_del(set, ft_gpu_src_pid(s->gpus));
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
		char c;

		close(go[1]);
		session_signals_default();
		setrlimit(RLIMIT_NOFILE, &s->files);
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

static void child_reap(struct session *s, int flags)
{
	int status;

	if (s->child > 0 && waitpid(s->child, &status, flags) == s->child) {
		s->child_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						      : WEXITSTATUS(status);
		s->child = 0;
	}
}

void session_child_reap(struct session *s)
{
	child_reap(s, WNOHANG);
}

void session_child_go(struct session *s)
{
	if (s->go_fd < 0)
		return;
	/* Who asked for the end before the start does not want it started. */
	if (session_end_asked()) {
		kill(s->child, session_end_asked());
		child_reap(s, 0);
	} else if (write(s->go_fd, "g", 1) != 1)
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
			return ft_target_failed(err);
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
	if (set->cgroup[0] && ft_cgroup_open("", set->cgroup, &s->cgroup))
		ft_warn("processes that join cgroup %s later are not traced", set->cgroup);
	if (set->note[0])
		ft_warn("%s", set->note);
	return 0;
}

/* Without a target the node itself is watched: the job may be gone already. */
void session_watch(struct session *s, const struct ft_pidset *set)
{
	session_devices_watch(s);
	for (size_t i = 0; i < set->n; i++)
		session_look_add(s, set->pids[i], true);
	session_look(s);
	if (!set->n)
		session_netns_watch(s, getpid());
	if (s->opts->all || !set->n || (!s->with_nccl && !s->opts->cmd && !s->looks.n))
		s->others_error = ft_nccl_src_find(s->nccl);
	if (s->opts->all)
		session_look(s);
	session_log_watch(s);
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
	int err = ft_cgroup_members("", &s->cgroup, &set);

	leave_out_self(s, &set);
	for (size_t i = 0; i < set.n && !err; i++) {
		if (ft_bpf_proc_has(s->bpf, set.pids[i]))
			continue;
		err = proc_add(s, set.pids[i]);
		if (err || !ft_bpf_proc_has(s->bpf, set.pids[i]))
			continue; /* it has ended */
		session_look_add(s, set.pids[i], true);
		s->seed = true;
	}
	if (err && err != s->joined_error)
		session_unseen(s, "processes that join the cgroup", err);
	s->joined_error = err;
}

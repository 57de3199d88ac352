// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * One tracing session. Records flow in one direction: sources -> order -> attribution -> diagnosis -> output.
 */
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <signal.h>

#include "attrib/attrib.h"
#include "cli/cli.h"
#include "cli/probe_rec.h"
#include "cli/session.h"
#include "cli/target.h"
#include "diagnose/diagnose.h"
#include "host/fs.h"
#include "host/pci.h"
#include "host/proc.h"
#include "output/output.h"
#include "source/source.h"

#define MAX_HELD       262144		   /* records in the order queue */
#define ANSWER_MS      200		   /* a process that does not answer /proc reads in time is named */
#define LINGER_NS      (2 * NSEC_PER_SEC)  /* after the last process its sockets may still retransmit */
#define LINGER_LOOK_NS (50 * NSEC_PER_MSEC)
#define CLOCK_STEP_NS  (10 * NSEC_PER_MSEC)
#define HEARTBEAT_S    60

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
	size_t targets; /* processes at the attach */
	bool started;
	pid_t child; /* -- CMD */
	int child_status, go_fd;
	int write_error;
};

/* --- right side: ordered records --- */

static void print(void *ctx, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct session *s = ctx;

	if (!s->write_error)
		s->write_error = ft_out_event(s->out, ev, attr);
	if (s->write_error)
		ft_loop_stop(s->loop);
}

static void on_ordered(void *ctx, struct ft_hdr *ev)
{
	struct session *s = ctx;
	struct ft_attr attr;

	ft_attrib_event(s->attrib, ev, &attr);
	print(s, ev, &attr);
	ft_diag_event(s->diag, ev, &attr);
}

static void flush(struct session *s)
{
	int err = ft_out_flush(s->out, ft_mono_ns());

	if (err && !s->write_error)
		s->write_error = err;
	if (s->write_error)
		ft_loop_stop(s->loop);
}

static void print_verdict(struct session *s, bool final)
{
	struct ft_attr attr;
	struct ft_rec rec;

	ft_diag_verdict(s->diag, ft_mono_ns(), final, &rec, &attr);
	print(s, &rec.h, &attr);
	flush(s);
}

static void print_heartbeat(struct session *s)
{
	struct ft_attr attr;
	struct ft_rec rec;

	ft_diag_heartbeat(s->diag, ft_mono_ns(), &rec, &attr);
	print(s, &rec.h, &attr);
}

/* --- left side: what a record makes the sources do --- */

static void on_record(void *ctx, const void *rec, size_t len);

static void to_record(void *ctx, struct ft_hdr *ev)
{
	on_record(ctx, ev, ev->size);
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
		ft_nccl_src_add(s->nccl, pids[i]);
	}
}

/* A fork has its parent's namespace and, until it executes something, its parent's facts. */
static void proc_started(struct session *s, const struct ft_ev_proc_start *e)
{
	if (e->exec)
		procs_watch(s, &e->h.pid, 1);
	else
		ft_nccl_src_add(s->nccl, e->h.pid);
}

static void proc_ended(struct session *s, uint32_t pid)
{
	ft_nccl_src_del(s->nccl, pid);
	/* With -a more may come; without a target none was there. */
	if (!s->opts->all)
		ft_loop_timer_set(s->end_timer, ft_mono_ns() + LINGER_LOOK_NS);
}

/* -a: a process was found to use NCCL. */
static void nccl_found(void *ctx, uint32_t pid)
{
	struct session *s = ctx;
	struct ft_proc_stat st;

	if (ft_proc_stat_read("", pid, &st) || ft_bpf_proc_add(s->bpf, pid, st.start_ns, 0))
		return;
	procs_watch(s, &pid, 1);
	ft_bpf_seed_sockets(s->bpf);
}

static void on_record(void *ctx, const void *rec, size_t len)
{
	struct session *s = ctx;
	const struct ft_hdr *h = rec;
	int err = ft_order_push(s->order, rec, len);

	if (err) {
		ft_warn("a record of kind %u was refused: %s", h->kind, strerror(-err));
		return;
	}
	if (h->kind == FT_KIND_proc_start)
		proc_started(s, rec);
	else if (h->kind == FT_KIND_proc_exit)
		proc_ended(s, h->pid);
	/* The session's own line comes first: until it is made the others wait. */
	if (!s->started)
		return;
	ft_order_advance(s->order, ft_mono_ns());
	if (ft_order_due(s->order) != UINT64_MAX)
		ft_loop_timer_set(s->order_timer, ft_order_due(s->order));
}

static void on_order_due(void *ctx)
{
	struct session *s = ctx;

	ft_order_advance(s->order, ft_mono_ns());
	if (ft_order_due(s->order) != UINT64_MAX)
		ft_loop_timer_set(s->order_timer, ft_order_due(s->order));
	flush(s);
}

/* --- time --- */

static void check_clock(struct session *s)
{
	int64_t offset = ft_clock_offset(), step = offset - s->clock.offset_ns;
	struct ft_ev_clock_step *e;
	struct ft_rec rec;

	if (llabs(step) >= (int64_t)CLOCK_STEP_NS) {
		e = ft_rec_new(&rec, FT_KIND_clock_step, ft_mono_ns());
		e->step_ns = step;
		ft_emit(&s->emit, &rec);
	}
	s->clock.offset_ns = offset;
}

/* After the last process: until its sockets are closed, for what they still send again. */
static void on_end_look(void *ctx)
{
	struct session *s = ctx;
	uint64_t now = ft_mono_ns();
	uint32_t pid = 0;

	if (ft_bpf_proc_next(s->bpf, &pid)) {
		s->gone_ns = 0;
		return;
	}
	if (!s->gone_ns)
		s->gone_ns = now;
	else if (now - s->gone_ns >= LINGER_NS || !ft_bpf_sockets(s->bpf))
		ft_loop_stop(s->loop);
	ft_loop_timer_set(s->end_timer, now + LINGER_LOOK_NS);
}

static bool proc_ended_already(uint32_t pid, struct ft_proc_stat *st)
{
	return ft_proc_stat_read("", pid, st) || st->state == 'Z' || st->state == 'X';
}

/*
 * The start time tells the process from a later one with its number. The kernel removes the entry at the end of
 * the process: one that ended just before the entry was made would stay for ever.
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
static void procs_prune(struct session *s)
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
		on_end_look(s);
}

static void on_tick(void *ctx)
{
	struct session *s = ctx;

	if (s->ticks++ == 0)
		procs_prune(s);
	ft_bpf_tick(s->bpf);
	ft_nccl_src_tick(s->nccl);
	check_clock(s);
	ft_diag_advance(s->diag, ft_mono_ns() - FT_HOLD_NS);
	if (s->ticks % HEARTBEAT_S == 0)
		print_heartbeat(s);
	flush(s);
}

static void on_end(void *ctx)
{
	ft_loop_stop(((struct session *)ctx)->loop);
}

static void reap_child(struct session *s)
{
	int status;

	if (s->child > 0 && waitpid(s->child, &status, WNOHANG) == s->child) {
		s->child_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
		s->child = 0;
	}
}

static void on_signal(void *ctx)
{
	struct session *s = ctx;
	struct signalfd_siginfo si;

	while (read(s->sigfd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			reap_child(s);
		else if (si.ssi_signo == SIGUSR1)
			print_verdict(s, false);
		else
			ft_loop_stop(s->loop);
	}
}

/* --- start --- */

static int signals_open(struct session *s)
{
	static const int watched[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		sigaddset(&set, watched[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->sigfd < 0 ? -errno : ft_loop_add(s->loop, s->sigfd, on_signal, s);
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

static void child_go(struct session *s)
{
	if (s->go_fd < 0)
		return;
	if (write(s->go_fd, "g", 1) != 1)
		ft_warn("cannot start %s: %s", s->opts->cmd[0], strerror(errno));
	close(s->go_fd);
	s->go_fd = -1;
}

/* Adds the target's processes until a look finds no new one: those that fork meanwhile are followed by the kernel. */
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
		for (size_t i = 0; i < set->n && !err; i++)
			err = proc_add(s, set->pids[i]);
		if (err) {
			ft_err("cannot trace more than %u processes", FT_MAX_PROCS);
			return FT_EXIT_INTERNAL;
		}
	} while (set->n != known);
	if (!ft_bpf_proc_next(s->bpf, &pid)) {
		ft_err("the process ended during the attach");
		return FT_EXIT_NOTARGET;
	}
	if (set->note[0])
		ft_warn("%s", set->note);
	return 0;
}

/* Without a target the node itself is watched: the job may be gone already. */
static void targets_watch(struct session *s, const struct ft_pidset *set)
{
	ft_pci_read("", ANSWER_MS, &s->pci);
	if (s->pci)
		ft_pci_emit(s->pci, ft_mono_ns(), to_record, s);
	procs_watch(s, set->pids, set->n);
	if (!set->n)
		netns_watch(s, getpid());
	if (s->opts->all)
		ft_nccl_src_find(s->nccl);
}

static void target_text(const struct session *s, char *out, size_t size)
{
	const struct ft_trace_opts *o = s->opts;
	size_t len = 0;

	if (o->cgroup)
		snprintf(out, size, "--cgroup %s", o->cgroup);
	else if (o->cmd)
		snprintf(out, size, "-- %s", o->cmd[0]);
	else
		snprintf(out, size, "%s", o->all ? "-a" : o->npids ? "-p " : "");
	for (size_t i = 0; i < o->npids && len + 16 < size; i++) {
		len = strlen(out);
		snprintf(out + len, size - len, "%s%u", i ? "," : "", o->pids[i]);
	}
}

/* What cannot be seen: each program that is not attached, and what this version does not watch. */
static void add_blind(struct ft_rec *rec, struct ft_str *list, const struct ft_probe *p, size_t n)
{
	char text[400];

	for (size_t i = 0; i < n; i++) {
		if (p[i].state != FT_PROBE_OFF || !p[i].error)
			continue;
		ft_fmt(text, "%s (%s)", p[i].hides, p[i].reason);
		ft_rec_strs_add(rec, list, text);
	}
	ft_rec_strs_add(rec, list, "PCIe links and AER, RDMA queue pairs, NVLink, GPU state (not watched by this version)");
}

static void emit_session(struct session *s)
{
	char target[256];
	struct ft_ev_session *e;
	struct utsname u;
	struct ft_rec rec;
	struct ft_probe *p;
	size_t n;

	uname(&u);
	e = ft_rec_new(&rec, FT_KIND_session, s->start_ns);
	e->overhead_ns = ft_mono_ns() - s->start_ns;
	e->targets = s->targets;
	ft_rec_str(&rec, &e->version, FT_VERSION);
	ft_rec_str(&rec, &e->kernel, u.release);
	target_text(s, target, sizeof(target));
	ft_rec_str(&rec, &e->target, target);
	p = ft_bpf_probes(s->bpf, &n);
	add_blind(&rec, &e->blind, p, n);
	ft_emit(&s->emit, &rec);
	for (size_t i = 0; i < n; i++) {
		ft_probe_record(&rec, &p[i]);
		ft_emit(&s->emit, &rec);
	}
}

/* The right side: attribution, diagnosis, output. */
static int pipeline_open(struct session *s)
{
	const char *no_color = getenv("NO_COLOR");
	struct ft_diag_opts diag = { .clock = &s->clock, .sink = print, .ctx = s };
	struct ft_out_opts out = {
		.fd = STDOUT_FILENO,
		.host = s->host,
		.clock = &s->clock,
		.verbose = ft_verbose,
		.color = !s->opts->no_color && !(no_color && *no_color) && isatty(STDOUT_FILENO),
		.interactive = isatty(STDIN_FILENO),
	};
	int err = ft_attrib_new(&s->attrib);

	out.attrib = s->attrib;
	if (!err)
		err = ft_diag_new(&s->diag, &diag);
	if (!err)
		err = s->opts->json ? ft_out_json(&s->out, &out) : ft_out_text(&s->out, &out);
	if (!err)
		err = ft_order_new(&s->order, FT_HOLD_NS, MAX_HELD, on_ordered, s);
	return err;
}

static int session_open(struct session *s)
{
	struct ft_bpf_opts bpf_opts = { s->opts->all, s->opts->no_children, s->opts->collectives, 0 };
	struct ft_nccl_opts nccl_opts = {
		.all = s->opts->all, .collectives = s->opts->collectives, .found = nccl_found, .ctx = s
	};
	struct ft_probe *row;
	int err = ft_loop_new(&s->loop);

	if (!err)
		err = pipeline_open(s);
	if (!err)
		err = signals_open(s);
	if (!err) {
		s->order_timer = ft_loop_timer(s->loop, on_order_due, s);
		s->end_timer = ft_loop_timer(s->loop, on_end_look, s);
		err = MIN(s->order_timer, s->end_timer) < 0 ? -EMFILE : 0;
	}
	if (err) {
		ft_err("cannot start: %s", strerror(-err));
		return FT_EXIT_INTERNAL;
	}
	err = ft_bpf_open(&s->bpf, &bpf_opts, s->loop, &s->emit);
	if (err)
		return ft_bpf_failed(err);
	err = ft_link_src_new(&s->links, s->loop, &s->emit);
	row = ft_bpf_probe(s->bpf, "", "rtnetlink");
	if (!err && row)
		row->state = FT_PROBE_ON;
	if (!err)
		err = ft_nccl_src_new(&s->nccl, s->bpf, s->loop, &s->emit, &nccl_opts);
	if (err)
		ft_err("cannot start the sources: %s", strerror(-err));
	return err ? FT_EXIT_INTERNAL : 0;
}

static int session_attach(struct session *s)
{
	_cleanup_(ft_pidset_free) struct ft_pidset set = {};
	int status = 0;

	if (s->opts->npids || s->opts->cgroup) {
		status = targets_add(s, &set);
	} else if (s->opts->cmd) {
		status = child_start(s);
		if (!status)
			status = targets_add(s, &set);
	}
	if (status)
		return status;
	targets_watch(s, &set);
	ft_bpf_ready(s->bpf);
	ft_bpf_seed_sockets(s->bpf);
	ft_bpf_drain(s->bpf);
	s->targets = set.n;
	emit_session(s);
	s->started = true;
	on_order_due(s);
	child_go(s);
	return 0;
}

static void session_finish(struct session *s)
{
	ft_bpf_drain(s->bpf);
	ft_bpf_tick(s->bpf);
	ft_nccl_src_tick(s->nccl);
	ft_bpf_drain(s->bpf);
	ft_order_advance(s->order, UINT64_MAX);
	print_verdict(s, true);
}

static void session_close(struct session *s)
{
	ft_nccl_src_free(s->nccl);
	ft_link_src_free(s->links);
	ft_bpf_free(s->bpf);
	ft_order_free(s->order);
	ft_diag_free(s->diag);
	ft_attrib_free(s->attrib);
	ft_out_free(s->out);
	ft_pci_free(s->pci);
	ft_loop_free(s->loop);
	if (s->sigfd >= 0)
		close(s->sigfd);
	if (s->go_fd >= 0)
		close(s->go_fd);
}

static int session_loop(struct session *s)
{
	if (s->opts->seconds > 0)
		ft_loop_timer_set(ft_loop_timer(s->loop, on_end, s),
				  ft_mono_ns() + s->opts->seconds * NSEC_PER_SEC);
	ft_loop_every(s->loop, 1000, on_tick, s);
	ft_loop_run(s->loop);
	session_finish(s);
	if (s->write_error && s->write_error != -EPIPE) {
		ft_err("cannot write the output: %s", strerror(-s->write_error));
		return FT_EXIT_INTERNAL;
	}
	reap_child(s);
	return s->opts->cmd && !s->child ? s->child_status : FT_EXIT_OK;
}

int ft_session_run(const struct ft_trace_opts *opts)
{
	struct session s = { .opts = opts, .sigfd = -1, .go_fd = -1, .start_ns = ft_mono_ns() };
	int status;

	s.emit = (struct ft_emit){ on_record, &s };
	s.clock.offset_ns = ft_clock_offset();
	gethostname(s.host, sizeof(s.host) - 1);
	status = session_open(&s);
	if (!status)
		status = session_attach(&s);
	if (!status) {
		status = session_loop(&s);
	}
	session_close(&s);
	return status;
}

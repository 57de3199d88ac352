// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * One tracing session. Records flow in one direction: sources -> order -> attribution -> diagnosis
 * -> output.
 */
#include "cli/cli.h"
#include "cli/session_parts.h"
#include "host/fs.h"

#define MAX_HELD      262144		 /* records in the order queue */
#define LINGER_NS     (2 * NSEC_PER_SEC) /* after the last process its sockets may still retransmit */
#define PID_NS_FIRST  0xeffffffcu	 /* include/linux/proc_ns.h, since 3.8 */
#define CLOCK_STEP_NS (10 * NSEC_PER_MSEC)
#define HEARTBEAT_S   60
#define ORDER_NS      (10 * NSEC_PER_MSEC) /* at least, between two looks at the order queue */

/* --- right side: ordered records --- */

static void print(void *ctx, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct session *s = ctx;

	if (!s->write_error)
		s->write_error = ft_out_event(s->out, ev, attr);
	if (s->write_error)
		ft_loop_stop(s->loop);
}

static void hand_on(struct session *s, const struct ft_hdr *ev)
{
	struct ft_attr attr;

	ft_attrib_event(s->attrib, ev, &attr);
	print(s, ev, &attr);
	ft_diag_event(s->diag, ev, &attr);
}

static void on_ordered(void *ctx, struct ft_hdr *ev)
{
	hand_on(ctx, ev);
}

static void flush(struct session *s)
{
	int err = ft_out_flush(s->out, ft_mono_ns());

	if (err && !s->write_error)
		s->write_error = err;
	if (s->write_error)
		ft_loop_stop(s->loop);
}

void session_verdict(struct session *s, bool final)
{
	struct ft_attr attr;
	struct ft_rec rec;

	ft_diag_unfit(s->diag, ft_attrib_unfit(s->attrib));
	ft_diag_verdict(s->diag, ft_mono_ns(), final, &rec, &attr);
	print(s, &rec.h, &attr);
	flush(s);
}

static void print_heartbeat(struct session *s)
{
	struct ft_attr attr;
	struct ft_rec rec;

	ft_diag_unfit(s->diag, ft_attrib_unfit(s->attrib));
	ft_diag_heartbeat(s->diag, ft_mono_ns(), &rec, &attr);
	print(s, &rec.h, &attr);
}

/* --- left side: what a record makes the sources do --- */

/* Not for each record: setting a timer costs more than the record does. */
static void order_arm(struct session *s)
{
	uint64_t due = ft_order_due(s->order);

	if (due >= s->armed_ns)
		return;
	due = MAX(due, ft_mono_ns() + ORDER_NS);
	if (due >= s->armed_ns)
		return;
	ft_loop_timer_set(s->order_timer, due);
	s->armed_ns = due;
}

void session_record(void *ctx, const void *rec, size_t len)
{
	struct session *s = ctx;
	const struct ft_hdr *h = rec;
	int err = 0;

	/* The session's own line comes first: what the kernel log has is older. */
	if (h->kind == FT_KIND_session)
		hand_on(s, h);
	else
		err = ft_order_push(s->order, rec, len);
	if (err) {
		ft_warn("a record of kind %u was refused: %s", h->kind, strerror(-err));
		return;
	}
	if (h->kind == FT_KIND_proc_start)
		session_proc_started(s, rec);
	else if (h->kind == FT_KIND_proc_exit)
		session_proc_ended(s, h->pid);
	else if (h->kind == FT_KIND_tcp_state)
		session_sock_seen(s, rec);
	else if (h->kind == FT_KIND_lost)
		s->lost = true;
	if (s->pcie)
		ft_pcie_src_note(s->pcie, h);
	/* Until the session's own line is made the others wait. */
	if (s->started)
		order_arm(s);
}

/* Not every record wakes us: what is in the ring comes first, so that none of it is late. */
static uint64_t order_advance(struct session *s)
{
	uint64_t now = ft_mono_ns();

	ft_bpf_drain(s->bpf);
	ft_order_advance(s->order, now);
	return now;
}

static void on_order_due(void *ctx)
{
	struct session *s = ctx;

	s->armed_ns = UINT64_MAX;
	order_advance(s);
	order_arm(s);
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
void session_end_look(void *ctx)
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
	ft_loop_timer_set(s->end_timer, now + FT_LINGER_LOOK_NS);
}

static void on_tick(void *ctx)
{
	struct session *s = ctx;
	uint64_t now;

	if (s->ticks++ == 0)
		session_procs_prune(s);
	session_joined(s);
	ft_bpf_tick(s->bpf);
	if (s->lost) {
		session_resync(s);
		s->ends_due = 3;
	}
	if (s->ends_due) {
		s->ends_due--;
		session_ends_tell(s);
	}
	ft_nccl_src_tick(s->nccl);
	if (s->pcie)
		ft_pcie_src_tick(s->pcie);
	/* The record of the last end may be lost. */
	if (!s->opts->all && s->targets)
		session_end_look(s);
	check_clock(s);
	session_probes(s);
	/* Nothing that is older may come to the diagnosis later. */
	now = order_advance(s);
	ft_diag_advance(s->diag, now - FT_HOLD_NS);
	if (s->ticks % HEARTBEAT_S == 0) {
		ft_bpf_ordinary(s->bpf);
		print_heartbeat(s);
	}
	flush(s);
}

static void on_end(void *ctx)
{
	ft_loop_stop(((struct session *)ctx)->loop);
}

/* --- start --- */

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
		.full = !isatty(STDOUT_FILENO),
	};
	int err = ft_attrib_new(&s->attrib);

	out.attrib = diag.attrib = s->attrib;
	if (!err)
		err = ft_diag_new(&s->diag, &diag);
	if (!err)
		err = s->opts->json ? ft_out_json(&s->out, &out) : ft_out_text(&s->out, &out);
	if (!err)
		err = ft_order_new(&s->order, FT_HOLD_NS, MAX_HELD, on_ordered, s);
	return err;
}

/*
 * The kernel side knows processes by their numbers in the first pid namespace, /proc and fork()
 * tell ours: in another one they would be other processes.
 */
static int pid_ns_check(const struct ft_trace_opts *o)
{
	bool targets = o->npids || o->cgroup || o->all || o->cmd;
	uint32_t ns;

	if (!targets || ft_link_inode("", "/proc/self/ns/pid", &ns) || ns == PID_NS_FIRST)
		return 0;
	ft_err("in a pid namespace of its own it cannot tell processes: run it on the host, or in a "
	       "container that shares the host's (docker --pid=host, Kubernetes hostPID)");
	return FT_EXIT_UNAVAILABLE;
}

/* Links of each rank, sockets in each network namespace: more files than the usual 1024. */
static void files_allow(struct session *s)
{
	struct rlimit all;

	getrlimit(RLIMIT_NOFILE, &s->files);
	all = (struct rlimit){ s->files.rlim_max, s->files.rlim_max };
	setrlimit(RLIMIT_NOFILE, &all);
}

static int session_open(struct session *s)
{
	struct ft_bpf_opts bpf_opts = { s->opts->all, s->opts->no_children, s->opts->collectives,
					0 };
	struct ft_nccl_opts nccl_opts = { .all = s->opts->all,
					  .collectives = s->opts->collectives,
					  .found = session_nccl_found,
					  .ctx = s };
	int err = ft_loop_new(&s->loop);

	if (!err)
		err = pipeline_open(s);
	if (!err)
		err = session_signals(s);
	if (!err) {
		s->order_timer = ft_loop_timer(s->loop, on_order_due, s);
		s->end_timer = ft_loop_timer(s->loop, session_end_look, s);
		s->look_timer = ft_loop_timer(s->loop, session_look, s);
		err = MIN(MIN(s->order_timer, s->end_timer), s->look_timer);
		err = MIN(err, 0);
	}
	if (err) {
		ft_err("cannot start: %s", strerror(-err));
		return FT_EXIT_INTERNAL;
	}
	err = ft_bpf_open(&s->bpf, &bpf_opts, s->loop, &s->emit);
	if (err)
		return ft_bpf_failed(err);
	ft_perm_explain(s->bpf);
	err = ft_link_src_new(&s->links, s->loop, &s->emit);
	if (!err) {
		ft_link_src_row(s->links, ft_bpf_probe(s->bpf, "", "rtnetlink"));
		err = ft_nccl_src_new(&s->nccl, s->bpf, s->loop, &s->emit, &nccl_opts);
	}
	if (err)
		ft_err("cannot start the sources: %s", strerror(-err));
	return err ? FT_EXIT_INTERNAL : 0;
}

static int session_attach(struct session *s)
{
	_cleanup_(ft_pidset_free) struct ft_pidset set = {};
	int status = session_targets(s, &set);

	if (status)
		return status;
	session_watch(s, &set);
	ft_klog_src_drain(s->klog);
	ft_bpf_ready(s->bpf);
	session_seed(s);
	ft_bpf_drain(s->bpf);
	s->targets = set.n;
	session_head(s);
	s->started = true;
	on_order_due(s);
	session_child_go(s);
	return 0;
}

static void session_finish(struct session *s)
{
	session_stopped(s);
	ft_bpf_stop(s->bpf);
	ft_klog_src_drain(s->klog);
	ft_bpf_tick(s->bpf);
	ft_nccl_src_tick(s->nccl);
	ft_bpf_ordinary(s->bpf);
	ft_bpf_drain(s->bpf);
	ft_order_advance(s->order, UINT64_MAX);
	session_verdict(s, true);
}

static void session_close(struct session *s)
{
	ft_nccl_src_free(s->nccl);
	ft_link_src_free(s->links);
	ft_gpu_src_free(s->gpus);
	ft_klog_src_free(s->klog);
	ft_pcie_src_free(s->pcie);
	ft_bpf_free(s->bpf);
	ft_order_free(s->order);
	ft_diag_free(s->diag);
	ft_attrib_free(s->attrib);
	ft_out_free(s->out);
	ft_pci_free(s->pci);
	free(s->looks.v);
	free(s->gone.v);
	free(s->told);
	ft_loop_free(s->loop);
	if (s->sigfd >= 0)
		close(s->sigfd);
	if (s->go_fd >= 0)
		close(s->go_fd);
}

static int timers_start(struct session *s)
{
	int err = ft_loop_every(s->loop, 1000, on_tick, s), end;

	if (err || !(s->opts->seconds > 0))
		return err;
	end = ft_loop_timer(s->loop, on_end, s);
	return end < 0 ? end
		       : ft_loop_timer_set(end, ft_mono_ns() + s->opts->seconds * NSEC_PER_SEC);
}

static int session_loop(struct session *s)
{
	int err = timers_start(s);

	if (!err)
		err = ft_loop_run(s->loop);
	if (err) {
		ft_err("cannot go on: %s", strerror(-err));
		return FT_EXIT_INTERNAL;
	}
	session_finish(s);
	if (s->write_error && s->write_error != -EPIPE) {
		ft_err("cannot write the output: %s", strerror(-s->write_error));
		return FT_EXIT_INTERNAL;
	}
	session_child_reap(s);
	return s->opts->cmd && !s->child ? s->child_status : FT_EXIT_OK;
}

int ft_session_run(const struct ft_trace_opts *opts)
{
	struct session s = { .opts = opts, .sigfd = -1, .go_fd = -1, .start_ns = ft_mono_ns() };
	int status;

	s.emit = (struct ft_emit){ session_record, &s };
	s.clock.offset_ns = ft_clock_offset();
	s.armed_ns = UINT64_MAX;
	gethostname(s.host, sizeof(s.host) - 1);
	files_allow(&s);
	status = pid_ns_check(opts);
	if (!status)
		status = session_open(&s);
	if (!status)
		status = session_attach(&s);
	if (!status) {
		status = session_loop(&s);
	}
	session_close(&s);
	return status;
}

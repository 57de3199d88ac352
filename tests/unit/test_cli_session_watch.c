// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Which processes a session traces: real children, a table of the test's in the kernel's place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cli/session_watch.c"

#define MAX_PROCS 16

/* --- the neighbours --- */
static struct {
	uint32_t procs[MAX_PROCS], looks[MAX_PROCS];
	size_t nprocs, nlooks;
	uint32_t with_nccl_src;
	unsigned int pruned, unseen, netns;
	int add_error, end_asked;
	uint64_t end_timer_ns;
	bool has_netns;
} w;

static size_t find(uint32_t pid)
{
	size_t i = 0;

	while (i < w.nprocs && w.procs[i] != pid)
		i++;
	return i;
}

void session_devices_watch(struct session *s)
{
	(void)s;
}

void session_log_watch(struct session *s)
{
	(void)s;
}

pid_t ft_gpu_src_pid(const struct ft_gpu_src *s)
{
	(void)s;
	return 0;
}

bool ft_bpf_proc_has(struct ft_bpf *b, uint32_t pid)
{
	(void)b;
	return find(pid) < w.nprocs;
}

int ft_bpf_proc_add(struct ft_bpf *b, uint32_t pid, uint64_t start_ns)
{
	struct ft_proc_stat st;

	(void)b;
	if (w.add_error)
		return w.add_error;
	assert_int_equal(ft_proc_stat_read("", pid, &st), 0);
	assert_true(st.start_ns == start_ns);
	if (find(pid) == w.nprocs)
		w.procs[w.nprocs++] = pid;
	return 0;
}

void ft_bpf_proc_del(struct ft_bpf *b, uint32_t pid)
{
	size_t i = find(pid);

	(void)b;
	w.nprocs--;
	memmove(&w.procs[i], &w.procs[i + 1], (w.nprocs - i) * sizeof(pid));
}

/* As a hash map walks: from the start again where the place is gone. */
bool ft_bpf_proc_next(struct ft_bpf *b, uint32_t *pid)
{
	size_t i = *pid ? find(*pid) : w.nprocs;

	(void)b;
	i = i == w.nprocs ? 0 : i + 1;
	if (i >= w.nprocs)
		return false;
	*pid = w.procs[i];
	return true;
}

bool ft_bpf_netns_has(struct ft_bpf *b, uint32_t netns)
{
	(void)b;
	(void)netns;
	return w.has_netns;
}

bool ft_nccl_src_has(struct ft_nccl_src *s, uint32_t pid)
{
	(void)s;
	return pid == w.with_nccl_src;
}

void ft_nccl_src_del(struct ft_nccl_src *s, uint32_t pid)
{
	(void)s;
	(void)pid;
}

void ft_nccl_src_prune(struct ft_nccl_src *s)
{
	(void)s;
	w.pruned++;
}

int ft_nccl_src_find(struct ft_nccl_src *s)
{
	(void)s;
	return 0;
}

int ft_klog_src_new(struct ft_klog_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_pci *pci, const char *root)
{
	(void)out;
	(void)bpf;
	(void)loop;
	(void)emit;
	(void)pci;
	(void)root;
	return 0;
}

int ft_loop_timer_set(int timer, uint64_t mono_ns)
{
	(void)timer;
	w.end_timer_ns = mono_ns;
	return 0;
}

void session_look_add(struct session *s, uint32_t pid, bool facts)
{
	(void)s;
	(void)facts;
	w.looks[w.nlooks++] = pid;
}

void session_look_del(struct session *s, uint32_t pid)
{
	(void)s;
	(void)pid;
}

void session_look(void *ctx)
{
	(void)ctx;
}

void session_netns_watch(struct session *s, uint32_t pid)
{
	(void)s;
	(void)pid;
	w.netns++;
}

void session_unseen(struct session *s, const char *what, int err)
{
	(void)s;
	(void)what;
	(void)err;
	w.unseen++;
}

void session_record(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
}

int session_end_asked(void)
{
	return w.end_asked;
}

void session_signals_default(void)
{
}

/* --- processes --- */
static pid_t children[3];

static struct ft_trace_opts opts;
static struct session session;

static int set_up(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	opts = (struct ft_trace_opts){};
	session = (struct session){ .opts = &opts, .go_fd = -1 };
	for (size_t i = 0; i < ARRAY_SIZE(children); i++) {
		children[i] = fork();
		if (!children[i]) {
			pause();
			_exit(0);
		}
	}
	return 0;
}

static void end(pid_t *child)
{
	if (*child > 0) {
		kill(*child, SIGKILL);
		waitpid(*child, NULL, 0);
	}
	*child = 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(children); i++)
		end(&children[i]);
	return 0;
}

/* Has ended, and is not reaped: a zombie. */
static void make_zombie(pid_t child)
{
	siginfo_t si;

	kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, child, &si, WEXITED | WNOWAIT), 0);
}

static void test_targets(void **state)
{
	_cleanup_(ft_pidset_free) struct ft_pidset set = {};
	uint32_t pids[] = { children[0], children[1] };

	(void)state;
	opts.pids = pids;
	opts.npids = 2;
	assert_int_equal(session_targets(&session, &set), 0);
	assert_int_equal(w.nprocs, 2);
	assert_true(ft_bpf_proc_has(NULL, children[0]) && ft_bpf_proc_has(NULL, children[1]));
}

/* The tracer is below what was asked for, as in a job script: all of it but the tracer. */
static void test_not_self(void **state)
{
	_cleanup_(ft_pidset_free) struct ft_pidset set = {}, alone = {};
	uint32_t self = getpid();

	(void)state;
	opts.pids = &self;
	opts.npids = 1;
	assert_int_equal(session_targets(&session, &set), 0);
	assert_int_equal(w.nprocs, ARRAY_SIZE(children));
	assert_false(ft_bpf_proc_has(NULL, self));
	/* nothing else there */
	opts.no_children = true;
	w.nprocs = 0;
	assert_int_equal(session_targets(&session, &alone), FT_EXIT_NOTARGET);
}

static void test_too_many(void **state)
{
	_cleanup_(ft_pidset_free) struct ft_pidset set = {};
	uint32_t pid = children[0];

	(void)state;
	opts.pids = &pid;
	opts.npids = 1;
	w.add_error = -E2BIG;
	assert_int_equal(session_targets(&session, &set), FT_EXIT_INTERNAL);
}

static void test_prune(void **state)
{
	(void)state;
	for (w.nprocs = 0; w.nprocs < 3; w.nprocs++)
		w.procs[w.nprocs] = children[w.nprocs];
	make_zombie(children[0]);
	end(&children[2]);
	session_procs_prune(&session);
	assert_int_equal(w.nprocs, 1);
	assert_int_equal(w.procs[0], children[1]);
}

/* Records were lost: who is in the kernel's table and not looked at yet is looked at now. */
static void test_resync(void **state)
{
	(void)state;
	w.procs[0] = 11;
	w.procs[1] = 12;
	w.procs[2] = 13;
	w.nprocs = 3;
	w.with_nccl_src = 12;
	session.lost = true;
	session_resync(&session);
	assert_false(session.lost);
	assert_int_equal(w.pruned, 1);
	assert_int_equal(w.nlooks, 2);
	assert_true(w.looks[0] == 11 && w.looks[1] == 13);
}

/* Without -a those that use NCCL are named, whole numbers only, as many as fit. */
static void test_others(void **state)
{
	char expected[128] = "";

	(void)state;
	for (uint32_t pid = 4000000; pid < 4000040; pid++)
		session_nccl_found(&session, pid);
	for (uint32_t pid = 4000000; pid < 4000013; pid++)
		snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%s%u",
			 expected[0] ? ", " : "", pid);
	strcat(expected, ", ...");
	assert_string_equal(session.others, expected);
	assert_int_equal(w.nprocs, 0);
}

static void test_all(void **state)
{
	(void)state;
	opts.all = true;
	session_nccl_found(&session, children[0]);
	assert_int_equal(w.nprocs, 1);
	assert_int_equal(w.looks[0], children[0]);
	assert_true(session.seed);
	/* one that ended meanwhile is nothing to tell of, one that finds no room is */
	make_zombie(children[1]);
	session_nccl_found(&session, children[1]);
	assert_true(w.nprocs == 1 && !w.unseen);
	w.add_error = -E2BIG;
	session_nccl_found(&session, children[2]);
	assert_true(w.nprocs == 1 && w.unseen == 1 && w.nlooks == 1);
}

/* A process moves into the cgroup: traced once, and the tracer itself never. */
static void test_joined(void **state)
{
	char dir[] = "/tmp/ft_cgroup.XXXXXX", path[64];
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	ft_fmt(path, "%s/cgroup.procs", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "%d\n%d\n", getpid(), children[0]);
	fclose(f);
	session.cgroup.n = 1;
	ft_strcpy(session.cgroup.v[0], dir, sizeof(session.cgroup.v[0]));
	for (int i = 0; i < 2; i++)
		session_joined(&session);
	assert_true(w.nprocs == 1 && w.nlooks == 1);
	assert_int_equal(w.procs[0], children[0]);
	assert_true(session.seed);
	unlink(path);
	rmdir(dir);
}

static void test_ended(void **state)
{
	uint64_t before = ft_mono_ns();
	struct ft_ev_tcp_state e = { .netns = 5 };

	(void)state;
	session_proc_ended(&session, 11);
	assert_in_range(w.end_timer_ns, before + 50 * NSEC_PER_MSEC, before + 5 * NSEC_PER_SEC);
	/* with -a others may come */
	w.end_timer_ns = 0;
	opts.all = true;
	session_proc_ended(&session, 11);
	assert_int_equal(w.end_timer_ns, 0);
	/* a namespace is new by its first socket */
	session_sock_seen(&session, &e);
	w.has_netns = true;
	session_sock_seen(&session, &e);
	assert_int_equal(w.netns, 1);
}

/* --- a command of ours --- */
static int command(const char *script)
{
	_cleanup_(ft_pidset_free) struct ft_pidset set = {};
	siginfo_t si;

	opts.cmd = (char *[]){ (char *)"sh", (char *)"-c", (char *)script, NULL };
	getrlimit(RLIMIT_NOFILE, &session.files);
	assert_int_equal(session_targets(&session, &set), 0);
	assert_int_equal(w.procs[find(session.child)], session.child);
	session_child_go(&session);
	if (session.child)
		assert_int_equal(waitid(P_PID, session.child, &si, WEXITED | WNOWAIT), 0);
	session_child_reap(&session);
	assert_int_equal(session.child, 0);
	assert_int_equal(session.go_fd, -1);
	return session.child_status;
}

static void test_command(void **state)
{
	(void)state;
	assert_int_equal(command("exit 5"), 5);
	assert_int_equal(command("kill -KILL $$"), 128 + SIGKILL);
}

/* It waits until all is attached, and never starts when the end was asked for before. */
static void test_command_held(void **state)
{
	char path[] = "/tmp/ft_started.XXXXXX", script[64];

	(void)state;
	close(mkstemp(path));
	unlink(path);
	ft_fmt(script, "touch %s", path);
	w.end_asked = SIGTERM;
	assert_int_equal(command(script), 128 + SIGTERM);
	assert_int_equal(access(path, F_OK), -1);
	w.end_asked = 0;
	assert_int_equal(command(script), 0);
	assert_int_equal(access(path, F_OK), 0);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_targets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_not_self, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_too_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_prune, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_resync, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_all, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_joined, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_ended, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_command, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_command_held, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

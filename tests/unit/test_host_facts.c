// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include "fixtures/machine.h"
#include "host/pci.h"
#include "host/proc.h"

#define ANSWER_MS 2000

static int hgx(void **state)
{
	if (machine_new(state))
		return -1;
	machine_hgx();
	return 0;
}

static struct ft_proc_facts *facts(uint32_t pid)
{
	struct ft_proc_facts *f = NULL;

	assert_int_equal(ft_proc_facts_read(machine_root, pid, FT_PROC_WANT_NCCL, ANSWER_MS, &f),
			 0);
	return f;
}

static void test_rank(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *pci = NULL;
	_cleanup_free_ struct ft_proc_facts *f = facts(1004);
	char bdfs[FT_PROC_GPUS][16];

	(void)state;
	assert_int_equal(f->st.ppid, 1000);
	assert_string_equal(f->exe, "/usr/bin/python3.11");
	assert_int_equal(f->env.rank.rank, 11);
	assert_int_equal(f->env.rank.world, 64);
	assert_int_equal(f->env.rank.local, 3);
	assert_string_equal(f->env.rank.by, "RANK");
	assert_string_equal(f->env.cuda_visible, "0,1,2,3,4,5,6,7");
	assert_string_equal(f->cgroup.job, "88123");
	assert_int_equal(f->nccl, 1);
	assert_int_equal(f->netns, 4026531840u);
	assert_int_equal(f->ns_pid, 1004);
	for (int i = 0; i < FT_PROC_PARTS; i++)
		assert_int_equal(f->errors[i], 0);

	/* CUDA opens all: all are named, the caller says "one of" */
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &pci), 0);
	assert_int_equal(ft_proc_gpus(f, pci, bdfs), 8);
	assert_string_equal(bdfs[3], "0000:43:00.0");
	assert_int_equal(ft_proc_gpus(f, NULL, bdfs), 0);
}

/*
 * torchrun has SLURM_PROCID in its environment and is slurmstepd's child: a launcher has no rank
 * all the same.
 */
static void test_launcher(void **state)
{
	_cleanup_free_ struct ft_proc_facts *f = facts(1000);

	(void)state;
	assert_true(f->args.not_rank);
	assert_int_equal(f->env.rank.rank, FT_NONE_S32);
	assert_int_equal(f->nccl, 0);
}

static void test_srun_rank(void **state)
{
	_cleanup_free_ struct ft_proc_facts *task, *below;
	const char *env = "SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_JOB_ID=99";

	(void)state;
	put_proc(&(struct proc_spec){ 3000, 900, "trainer", "/opt/trainer", "./trainer", env,
				      .inner = 0 });
	put_proc(&(struct proc_spec){ 3001, 900, "python", "/usr/bin/python3.11",
				      "python launch.py", env, .inner = 0 });
	put_proc(&(struct proc_spec){ 3002, 3001, "trainer", "/opt/trainer", "./trainer", env,
				      .inner = 0 });
	task = facts(3000);
	below = facts(3002);
	assert_int_equal(task->env.rank.rank, 5);
	assert_int_equal(task->env.rank.local, 1);
	assert_string_equal(task->cgroup.job, "99"); /* no cgroup of Slurm's: by the environment */
	assert_int_equal(below->env.rank.rank, FT_NONE_S32);
}

static void test_helpers(void **state)
{
	struct ft_proc_facts *f[5] = { facts(1001), facts(1100), facts(1101), facts(1000), NULL };

	(void)state;
	/* the same arguments, but executed anew: another layout */
	put_proc(&(struct proc_spec){ 3100, 1001, "python", "/usr/bin/python3.11",
				      "/usr/bin/python3 -u train.py", "RANK=8 WORLD_SIZE=64",
				      .layout = 999 });
	f[4] = facts(3100);
	ft_proc_mark_helpers(f, 5);
	assert_false(f[0]->helper);
	assert_true(f[1]->helper);
	assert_true(f[2]->helper);
	assert_false(f[3]->helper);
	assert_false(f[4]->helper);
	/* without the layout the arguments decide */
	for (int i = 0; i < 5; i++) {
		memset(f[i]->st.layout, 0, sizeof(f[i]->st.layout));
		f[i]->helper = false;
	}
	ft_proc_mark_helpers(f, 5);
	assert_true(f[1]->helper);
	assert_true(f[4]->helper);
	assert_false(f[0]->helper);
	for (int i = 0; i < 5; i++)
		free(f[i]);
}

static void test_big_environment(void **state)
{
	_cleanup_free_ struct ft_proc_facts *f = NULL;
	_cleanup_free_ char *env = malloc(600000);

	(void)state;
	memset(env, 'x', 600000);
	memcpy(env, "RANK=3", 7);
	memcpy(env + 7, "WORLD_SIZE=4", 13);
	memcpy(env + (256 << 10) - 9, "\0LOCAL_RANK=1", 14);
	put_bytes("/proc/1001/environ", env, 600000);
	f = facts(1001);
	assert_true(f->env.cut);
	assert_int_equal(f->env.rank.rank, 3);
	assert_int_equal(f->env.rank.local, FT_NONE_S32); /* cut in the middle */
}

static void test_amd(void **state)
{
	_cleanup_free_ struct ft_proc_facts *f = NULL;
	char bdfs[FT_PROC_GPUS][16];

	(void)state;
	put("/sys/devices/pci0000:00/0000:00:01.1/0000:05:00.0/drm/renderD128/dev", "226:128\n");
	put_link("/sys/class/drm/renderD128/device",
		 "../../../devices/pci0000:00/0000:00:01.1/0000:05:00.0");
	put_proc(&(struct proc_spec){ 60, 1, "trainer", .inner = 0 });
	put_fd(60, 3, "/dev/dri/renderD128");
	put_fd(60, 4, "/dev/dri/renderD128");
	put_fd(60, 5, "/dev/dri/renderD199");
	put_fd(60, 6, "/dev/nvidia-uvm");
	put_fd(60, 7, "/tmp/dev/nvidia3");
	f = facts(60);
	assert_int_equal(ft_proc_gpus(f, NULL, bdfs), 1);
	assert_string_equal(bdfs[0], "0000:05:00.0");
	assert_int_equal(f->files.nvidia[0], 0);
}

static int records, missing;
static char what[64];

static void count(void *ctx, struct ft_hdr *ev)
{
	const struct ft_ev_inv_proc *p = (const void *)ev;
	const struct ft_ev_inv_host *h = (const void *)ev;

	(void)ctx;
	assert_int_equal(ft_rec_check(ev, ev->size), 0);
	if (ev->kind == FT_KIND_inv_proc && ev->pid == 1001) {
		char exe[64];

		assert_int_equal(ev->start_ns, (12345 + 1001) * 10000000ull);
		assert_int_equal(p->env_rank, 8);
		assert_int_equal(p->env_world, 64);
		assert_int_equal(p->threads, 4);
		assert_string_equal(ft_str_copy(ev, p->exe, exe, sizeof(exe)),
				    "/usr/bin/python3.11");
		assert_memory_equal((const char *)ev + p->args.off,
				    "/usr/bin/python3\0-u\0train.py", p->args.len);
		assert_int_equal(p->gpu_files.len, 8 * 13);
	}
	if (ev->kind == FT_KIND_inv_host) {
		assert_int_equal(h->error, -ETIMEDOUT);
		ft_str_copy(ev, h->what, what, sizeof(what));
		missing++;
	} else {
		records++;
	}
}

static void test_inventory(void **state)
{
	const uint32_t pids[] = { 1000, 1001, 1100, 4711 };
	_cleanup_(ft_pci_freep) struct ft_pci *pci = NULL;

	(void)state;
	records = missing = 0;
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &pci), 0);
	assert_int_equal(ft_proc_inventory(machine_root, pids, 4, 0, ANSWER_MS, pci, count, NULL),
			 0);
	assert_int_equal(records, 3);
	assert_int_equal(missing, 0);
}

/* --- the same with a question after each process --- */
struct until {
	size_t asked, stop_after; /* 0: never */
	size_t records;		  /* they come after the last question */
	uint32_t pids[8];
	bool helper[8];
};

static bool until_stop(void *ctx)
{
	struct until *u = ctx;

	assert_int_equal(u->records, 0);
	return ++u->asked != u->stop_after;
}

static void until_record(void *ctx, struct ft_hdr *ev)
{
	struct until *u = ctx;

	assert_int_equal(ev->kind, FT_KIND_inv_proc);
	assert_true(u->records < ARRAY_SIZE(u->pids));
	u->pids[u->records] = ev->pid;
	u->helper[u->records++] = ((const struct ft_ev_inv_proc *)ev)->helper;
}

static ssize_t inventory_until(struct until *u, const uint32_t *pids, size_t n)
{
	return ft_proc_inventory_while(machine_root, pids, n, ANSWER_MS, NULL, until_record,
				       until_stop, u);
}

static void test_inventory_while(void **state)
{
	/* rank 8 and a worker of its, then one that is gone, then rank 9 */
	const uint32_t pids[] = { 1001, 1100, 4711, 1002 };
	struct until all = {}, two = { .stop_after = 2 }, gone = { .stop_after = 3 };

	(void)state;
	assert_int_equal(inventory_until(&all, pids, 4), 4);
	assert_int_equal(all.asked, 4);
	assert_int_equal(all.records, 3);
	assert_int_equal(all.pids[2], 1002);
	/* ended early: what was read is told, and judged among itself */
	assert_int_equal(inventory_until(&two, pids, 4), 2);
	assert_int_equal(two.asked, 2);
	assert_int_equal(two.records, 2);
	assert_true(two.pids[0] == 1001 && two.pids[1] == 1100);
	assert_true(!two.helper[0] && two.helper[1]);
	/* the one that is gone was looked at, too: it must not come again */
	assert_int_equal(inventory_until(&gone, pids, 4), 3);
	assert_int_equal(gone.records, 2);
	memset(&all, 0, sizeof(all));
	assert_int_equal(inventory_until(&all, pids, 0), 0);
	assert_true(!all.asked && !all.records);
}

/* Lets the reads of a pipe end, and waits until the last reader has closed it. */
static void let_end(const char *pipe)
{
	struct pollfd watch = { inotify_init1(IN_CLOEXEC), POLLIN, 0 };
	char events[4096];
	int fd = -1;

	assert_true(inotify_add_watch(watch.fd, pipe, IN_CLOSE_NOWRITE) >= 0);
	close(open(pipe, O_WRONLY));
	while ((fd = open(pipe, O_WRONLY | O_NONBLOCK)) >= 0) {
		close(fd);
		assert_int_equal(poll(&watch, 1, 10000), 1);
		assert_true(read(watch.fd, events, sizeof(events)) > 0);
	}
	assert_int_equal(errno, ENXIO);
	close(watch.fd);
}

/*
 * A process that holds its memory lock: the read waits for ever. A pipe without writer stands for
 * it.
 */
static void test_no_answer(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *pci = NULL;
	const uint32_t pid = 1001;
	struct ft_proc_facts *f = NULL;
	char path[128];
	uint64_t begin = ft_mono_ns();

	(void)state;
	ft_fmt(path, "%s/proc/1001/maps", machine_root);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(ft_proc_facts_read(machine_root, pid, FT_PROC_WANT_NCCL, 100, &f), 0);
	assert_true(ft_mono_ns() - begin < 1500 * NSEC_PER_MSEC);
	/* what was answered before is there */
	assert_int_equal(f->env.rank.rank, 8);
	assert_int_equal(f->errors[FT_PROC_MAPS], -ETIMEDOUT);
	assert_int_equal(f->errors[FT_PROC_FILES], 0);
	assert_int_equal(f->nccl, FT_NONE_U8);
	free(f);

	records = missing = 0;
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &pci), 0);
	assert_int_equal(ft_proc_inventory(machine_root, &pid, 1, FT_PROC_WANT_NCCL, 100, pci,
					   count, NULL),
			 0);
	assert_int_equal(records, 1);
	assert_int_equal(missing, 1);
	assert_string_equal(what, "/proc/1001/maps");
	let_end(path);
}

static void test_gone(void **state)
{
	struct ft_proc_facts *f = NULL;

	(void)state;
	assert_int_equal(ft_proc_facts_read(machine_root, 4711, 0, ANSWER_MS, &f), -ESRCH);
	assert_null(f);
}

static void test_kthread(void **state)
{
	_cleanup_free_ struct ft_proc_facts *f = facts(2);

	(void)state;
	assert_true(f->st.kthread);
	assert_int_equal(f->nccl, FT_NONE_U8);
}

/* --- live: a rank (ourselves, executed anew with its variables) and a worker forked from it --- */
static char self[PATH_MAX];

static void test_live(void **state)
{
	struct ft_proc_facts *f[2] = {};
	int up[2], status;
	pid_t rank, worker = 0;

	(void)state;
	assert_int_equal(pipe(up), 0);
	rank = fork();
	if (!rank) {
		char fd[16];

		ft_fmt(fd, "%d", up[1]);
		setenv("RANK", "2", 1);
		setenv("WORLD_SIZE", "4", 1);
		execl(self, "a rank", "--rank", fd, NULL);
		_exit(1);
	}
	close(up[1]);
	assert_int_equal(read(up[0], &worker, sizeof(worker)), sizeof(worker));
	close(up[0]);
	assert_int_equal(ft_proc_facts_read("", rank, FT_PROC_WANT_NCCL, ANSWER_MS, &f[0]), 0);
	assert_int_equal(ft_proc_facts_read("", worker, FT_PROC_WANT_NCCL, ANSWER_MS, &f[1]), 0);
	ft_proc_mark_helpers(f, 2);
	assert_int_equal(f[0]->env.rank.rank, 2);
	assert_int_equal(f[0]->env.rank.world, 4);
	assert_string_equal(f[0]->args.text, "a rank");
	assert_int_not_equal(f[0]->netns, FT_NONE_U32);
	assert_int_equal(f[0]->nccl, 0);
	assert_false(f[0]->helper);
	assert_true(f[1]->helper);
	for (int i = 0; i < 2; i++)
		free(f[i]);
	kill(worker, SIGKILL);
	kill(rank, SIGKILL);
	waitpid(rank, &status, 0);
}

static int be_rank(int fd)
{
	pid_t worker = fork();

	if (worker && write(fd, &worker, sizeof(worker)) != sizeof(worker))
		return 1;
	pause();
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_rank, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_launcher, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_srun_rank, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_helpers, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_big_environment, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_amd, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_inventory, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_inventory_while, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_no_answer, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_gone, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_kthread, hgx, machine_free),
		cmocka_unit_test(test_live),
	};

	if (argc == 3 && !strcmp(argv[1], "--rank"))
		return be_rank(atoi(argv[2]));
	if (!realpath(argv[0], self))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

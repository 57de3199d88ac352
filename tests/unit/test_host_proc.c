// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "fixtures/machine.h"
#include "host/proc.h"

static int job(void **state)
{
	if (machine_new(state))
		return -1;
	put_job();
	return 0;
}

static void test_stat(void **state)
{
	struct ft_proc_stat st = { .pid = 5 };

	(void)state;
	assert_int_equal(ft_proc_stat_read(machine_root, 4711, &st), -ESRCH);
	put("/proc/50/stat", "50 (no end");
	assert_int_equal(ft_proc_stat_read(machine_root, 50, &st), -EBADMSG);
	put("/proc/50/stat", "50 (short) S 1 2 3\n");
	assert_int_equal(ft_proc_stat_read(machine_root, 50, &st), -EBADMSG);
	assert_int_equal(st.pid, 5);

	put_proc(&(struct proc_spec){ 51, 1, "a) S 9 (b", .inner = 0 });
	assert_int_equal(ft_proc_stat_read(machine_root, 51, &st), 0);
	assert_string_equal(st.comm, "a) S 9 (b");
	assert_int_equal(st.ppid, 1);
	assert_int_equal(st.threads, 4);
	assert_false(st.kthread);
	assert_int_equal(st.start_ns, (12345 + 51) * 10000000ull);
	assert_int_equal(ft_proc_stat_read(machine_root, 2, &st), 0);
	assert_true(st.kthread);
}

static void test_below(void **state)
{
	_cleanup_(ft_proc_table_free) struct ft_proc_table t = {};
	bool below[64];
	size_t n = 0;

	(void)state;
	/* pids wrap: a child with a smaller number than its parent */
	put_proc(&(struct proc_spec){ 20, 1115, "late", .inner = 0 });
	assert_int_equal(ft_proc_table_read(machine_root, &t), 0);
	assert_int_equal(t.n, 4 + 8 + 16 + 1);
	assert_int_equal(ft_proc_table_below(&t, 1000, below), 0);
	for (size_t i = 0; i < t.n; i++)
		n += below[i];
	assert_int_equal(n, 1 + 8 + 16 + 1);
	assert_true(below[ft_proc_table_find(&t, 20) - t.v]);
	assert_false(below[ft_proc_table_find(&t, 900) - t.v]);
	assert_int_equal(ft_proc_table_below(&t, 4711, below), -ESRCH);
	assert_null(ft_proc_table_find(&t, 4711));
}

/* --- this process --- */
static void *thread(void *arg)
{
	uint32_t tgid = 0;

	(void)arg;
	assert_int_equal(ft_proc_tgid("", syscall(SYS_gettid), &tgid), 0);
	assert_int_equal(tgid, getpid());
	return NULL;
}

static void test_live_thread(void **state)
{
	pthread_t t;
	uint32_t tgid = 3;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, thread, NULL), 0);
	pthread_join(t, NULL);
	assert_int_equal(ft_proc_tgid("", 0x7ffffff0, &tgid), -ESRCH);
	assert_int_equal(tgid, 3);
}

static void test_live_stat(void **state)
{
	_cleanup_(ft_proc_table_free) struct ft_proc_table t = {};
	struct ft_proc_stat st;
	struct timespec now;
	bool *below;
	pid_t child = fork();

	(void)state;
	if (!child)
		pause();
	clock_gettime(CLOCK_BOOTTIME, &now);
	assert_int_equal(ft_proc_stat_read("", child, &st), 0);
	assert_int_equal(st.ppid, getpid());
	assert_true(now.tv_sec * NSEC_PER_SEC + now.tv_nsec - st.start_ns < 5 * NSEC_PER_SEC);
	assert_int_equal(ft_proc_table_read("", &t), 0);
	below = calloc(t.n, sizeof(*below));
	assert_int_equal(ft_proc_table_below(&t, getpid(), below), 0);
	assert_true(below[ft_proc_table_find(&t, child) - t.v]);
	assert_true(below[ft_proc_table_find(&t, getpid()) - t.v]);
	assert_false(below[ft_proc_table_find(&t, getppid()) - t.v]);
	free(below);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_stat, job, machine_free),
		cmocka_unit_test_setup_teardown(test_below, job, machine_free),
		cmocka_unit_test(test_live_thread),
		cmocka_unit_test(test_live_stat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

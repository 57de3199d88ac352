// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The once-a-second look at a cgroup that was found before; the search is in test_cli_target.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "cli/target_cgroup.h"
#include "fixtures/machine.h"

#define V2  "/sys/fs/cgroup/unified"
#define MEM "/sys/fs/cgroup/memory"
#define SET "/sys/fs/cgroup/cpuset"
#define JOB "/slurm/uid_0/job_88123"

#define SET_(name) _cleanup_(ft_pidset_free) struct ft_pidset name = {}

static struct ft_cgroup_dirs dirs;

static int set_up(void **state)
{
	if (machine_new(state))
		return -1;
	put("/proc/self/mounts",
	    "proc /proc proc rw 0 0\ncgroup " MEM " cgroup rw,memory 0 0\n"
	    "cgroup " SET " cgroup rw,cpuset 0 0\ncgroup2 " V2 " cgroup2 rw 0 0\n");
	put_procs(MEM JOB, "1000\n");
	put_procs(MEM JOB "/step_0", "");
	put_procs(MEM JOB "/step_0/task_0", "1002\n1001\n");
	put_procs(MEM "/slurm/uid_0/job_881234", "1100\n");
	put_procs(SET JOB, "1001\n1003\n");
	memset(&dirs, 0, sizeof(dirs));
	return ft_cgroup_open(machine_root, JOB, &dirs);
}

static void assert_members(const uint32_t *pids, size_t n)
{
	SET_(set);

	assert_int_equal(ft_cgroup_members(machine_root, &dirs, &set), 0);
	assert_int_equal(set.n, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(set.pids[i], pids[i]);
}

#define MEMBERS(...)                                                                               \
	assert_members((const uint32_t[]){ __VA_ARGS__ },                                          \
		       ARRAY_SIZE(((const uint32_t[]){ __VA_ARGS__ })))

static void test_open(void **state)
{
	struct ft_cgroup_dirs none = {};

	(void)state;
	assert_int_equal(dirs.n, 2);
	assert_string_equal(dirs.v[0], MEM JOB);
	assert_string_equal(dirs.v[1], SET JOB);
	assert_int_equal(ft_cgroup_open(machine_root, "/slurm/uid_0/job_7", &none), 0);
	assert_int_equal(none.n, 0);
	put("/proc/self/mounts", "proc /proc proc rw 0 0\n");
	assert_int_equal(ft_cgroup_open(machine_root, JOB, &none), -ENOENT);
}

/* More hierarchies than there is room for: the first ones. */
static void test_open_bound(void **state)
{
	struct ft_cgroup_dirs many = {};
	char mounts[4096] = "", path[128];

	(void)state;
	for (int i = 0; i < FT_CGROUP_DIRS + 4; i++) {
		ft_fmt(path, "/cg/h%d", i);
		snprintf(mounts + strlen(mounts), sizeof(mounts) - strlen(mounts),
			 "cgroup %s cgroup rw 0 0\n", path);
		ft_fmt(path, "/cg/h%d" JOB, i);
		put_procs(path, "1\n");
	}
	put("/proc/self/mounts", "%s", mounts);
	assert_int_equal(ft_cgroup_open(machine_root, JOB, &many), 0);
	assert_int_equal(many.n, FT_CGROUP_DIRS);
	assert_string_equal(many.v[FT_CGROUP_DIRS - 1], "/cg/h15" JOB);
}

/* Of all hierarchies and all below, each once, sorted; no neighbour's. */
static void test_members(void **state)
{
	(void)state;
	/* none of them has a /proc entry: one that has ended but was not reaped counts, too */
	MEMBERS(1000, 1001, 1002, 1003);
	put_procs(MEM JOB "/step_0", "0\n1004\n\n-1\n12x\n4294967297\n");
	MEMBERS(1000, 1001, 1002, 1003, 1004);
	put_procs(MEM JOB "/step_1/user", "1005\n");
	MEMBERS(1000, 1001, 1002, 1003, 1004, 1005);
	put_procs(MEM JOB "/step_0/task_0", "");
	MEMBERS(1000, 1001, 1003, 1004, 1005);
}

/* What was in the set stays: the caller's processes may have moved out. */
static void test_adds(void **state)
{
	SET_(set);

	(void)state;
	assert_int_equal(ft_pidset_add(&set, 77), 0);
	assert_int_equal(ft_cgroup_members(machine_root, &dirs, &set), 0);
	assert_int_equal(set.n, 5);
	assert_int_equal(set.pids[0], 77);
}

/* The kernel refuses cgroup.procs of a threaded cgroup: its threads stand for their process. */
static void test_threaded(void **state)
{
	char path[512];

	(void)state;
	ft_fmt(path, "%s" MEM JOB "/threads/cgroup.procs", machine_root);
	put(MEM JOB "/threads/cgroup.threads", "5005\n5006\n5007\n");
	assert_int_equal(mkdir(path, 0755), 0);
	put("/proc/5005/status", "Name:\tx\nTgid:\t1050\nPid:\t5005\n");
	put("/proc/5006/status", "Name:\tx\nTgid:\t1050\nPid:\t5006\n");
	/* 5007 has ended: whose it was, nobody can say */
	MEMBERS(1000, 1001, 1002, 1003, 1050);
}

/* Neither out of the hierarchy nor round in circles. */
static void test_links(void **state)
{
	(void)state;
	put_link(MEM JOB "/round", ".");
	put_link(MEM JOB "/out", "../job_881234");
	put_procs(MEM JOB "/.hidden", "1099\n");
	MEMBERS(1000, 1001, 1002, 1003);
}

/* The job ends: that is no error and nobody is left. */
static void test_removed(void **state)
{
	SET_(set);
	char cmd[256];

	(void)state;
	ft_fmt(cmd, "rm -r %s" MEM JOB " %s" SET JOB, machine_root, machine_root);
	assert_int_equal(system(cmd), 0);
	assert_int_equal(ft_cgroup_members(machine_root, &dirs, &set), 0);
	assert_int_equal(set.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_open, set_up, machine_free),
		cmocka_unit_test_setup_teardown(test_open_bound, set_up, machine_free),
		cmocka_unit_test_setup_teardown(test_members, set_up, machine_free),
		cmocka_unit_test_setup_teardown(test_adds, set_up, machine_free),
		cmocka_unit_test_setup_teardown(test_threaded, set_up, machine_free),
		cmocka_unit_test_setup_teardown(test_links, set_up, machine_free),
		cmocka_unit_test_setup_teardown(test_removed, set_up, machine_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

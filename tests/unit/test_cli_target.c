// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sys/wait.h>

#include "cli/target.h"
#include "fixtures/machine.h"

#define ID   "3f2a91c04d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8"
#define ID2  "3f2bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define UID  "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
#define UID_ "0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0"
#define V2   "/sys/fs/cgroup/unified"
#define MEM  "/sys/fs/cgroup/memory"
#define SET  "/sys/fs/cgroup/cpuset"
#define POD  V2 "/kubepods.slice/kubepods-pod" UID_ ".slice"

static char why[512];

static int job(void **state)
{
	if (machine_new(state))
		return -1;
	put_job();
	return 0;
}

static int resolve_pid(uint32_t pid, bool no_children, struct ft_pidset *set)
{
	const struct ft_target_opts o = { &pid, 1, NULL, no_children, false };

	return ft_target_resolve(machine_root, &o, set, why, sizeof(why));
}

static int resolve_cgroup(const char *name, struct ft_pidset *set)
{
	const struct ft_target_opts o = { .cgroup = name };

	return ft_target_resolve(machine_root, &o, set, why, sizeof(why));
}

#define SET_(name) _cleanup_(ft_pidset_free) struct ft_pidset name = {}

static void test_pid(void **state)
{
	SET_(set);
	SET_(one);
	SET_(thread);

	(void)state;
	/* torchrun: itself, 8 ranks, 16 workers */
	assert_int_equal(resolve_pid(1000, false, &set), 0);
	assert_int_equal(set.n, 25);
	assert_true(ft_pidset_has(&set, 1115));
	assert_false(ft_pidset_has(&set, 900));
	assert_string_equal(set.note, "");
	for (size_t i = 1; i < set.n; i++)
		assert_true(set.pids[i - 1] < set.pids[i]);

	assert_int_equal(resolve_pid(1000, true, &one), 0);
	assert_int_equal(one.n, 1);

	/* a thread of rank 8 */
	put("/proc/5005/status", "Name:\tx\nTgid:\t1001\nPid:\t5005\n");
	assert_int_equal(resolve_pid(5005, true, &thread), 0);
	assert_int_equal(thread.pids[0], 1001);
}

/* A second look adds what came meanwhile and keeps the rest. */
static void test_again(void **state)
{
	SET_(set);

	(void)state;
	assert_int_equal(resolve_pid(1001, false, &set), 0);
	assert_int_equal(set.n, 3);
	put_proc(&(struct proc_spec){ 1200, 1001, "python", .inner = 0 });
	assert_int_equal(resolve_pid(1001, false, &set), 0);
	assert_int_equal(set.n, 4);
}

static void test_refused(void **state)
{
	SET_(set);

	(void)state;
	put_proc(&(struct proc_spec){ 70, 1, "dead", .state = "Z" });
	assert_int_equal(resolve_pid(4711, false, &set), -ESRCH);
	assert_string_equal(why, "no process 4711");
	assert_int_equal(resolve_pid(2, false, &set), -EINVAL);
	assert_string_equal(why, "pid 2 is a kernel thread (kthreadd): it cannot be part of a job");
	assert_int_equal(resolve_pid(70, false, &set), -ESRCH);
	assert_string_equal(why,
			    "process 70 (dead) has ended and waits for its parent 1 to notice");
	assert_int_equal(set.n, 0);
	assert_null(set.pids);
}

static void test_inner_pid(void **state)
{
	SET_(set);
	SET_(own);

	(void)state;
	put_proc(&(struct proc_spec){ 6000, 1, "python",
				      .cgroup = "/system.slice/docker-" ID ".scope", .inner = 7 });
	assert_int_equal(resolve_pid(7, false, &set), -ESRCH);
	assert_string_equal(
		why,
		"no process 7 on this machine; it is what a container calls process 6000 (python, "
		"container 3f2a91c04d5e)");
	/* 7 exists here, too, and has no NCCL: traced all the same, but said */
	put_proc(&(struct proc_spec){ 7, 1, "cron", .inner = 0 });
	assert_int_equal(resolve_pid(7, false, &set), 0);
	assert_int_equal(set.n, 1);
	assert_string_equal(
		set.note,
		"process 7 has no NCCL library; 7 is also what a container calls process 6000 "
		"(python, container 3f2a91c04d5e)");
	/* with NCCL it is what was meant */
	put_maps_nccl(7);
	assert_int_equal(resolve_pid(7, false, &own), 0);
	assert_string_equal(own.note, "");
}

static void test_all(void **state)
{
	const struct ft_target_opts o = { .all = true };
	SET_(set);

	(void)state;
	assert_int_equal(ft_target_resolve(machine_root, &o, &set, why, sizeof(why)), 0);
	assert_int_equal(set.n, 24);
	assert_false(ft_pidset_has(&set, 1000));
}

/* --- srun --- */
#define BATCH "/system.slice/slurmstepd.scope/job_88123/step_batch/user/task_0"

/* A batch script with its own slurmstepd, and srun with its fork, on the job's first node. */
static void put_batch(void)
{
	put_proc(&(struct proc_spec){ 800, 1, "slurmstepd", .inner = 0 });
	put_proc(&(struct proc_spec){ 801, 800, "bash", .env = "SLURM_JOB_ID=88123",
				      .cgroup = BATCH });
	put_proc(&(struct proc_spec){ 802, 801, "srun", .env = "SLURM_JOB_ID=88123",
				      .cgroup = BATCH });
	put_proc(&(struct proc_spec){ 803, 802, "srun", .env = "SLURM_JOB_ID=88123",
				      .cgroup = BATCH });
}

static void test_srun(void **state)
{
	SET_(srun);
	SET_(script);
	SET_(alone);

	(void)state;
	put_batch();
	assert_int_equal(resolve_pid(802, false, &srun), 0);
	assert_int_equal(srun.n, 2 + 25); /* srun's two, torchrun, 8 ranks, 16 workers */
	assert_true(ft_pidset_has(&srun, 1001));
	assert_false(ft_pidset_has(&srun, 900)); /* slurmstepd */
	assert_false(ft_pidset_has(&srun, 801)); /* the script */
	assert_string_equal(
		srun.note,
		"process 802 is srun, its tasks are slurmstepd's: added the 25 processes "
		"of job 88123 on this node");
	/* the same from the script that runs srun */
	assert_int_equal(resolve_pid(801, false, &script), 0);
	assert_int_equal(script.n, 3 + 25);
	assert_int_equal(resolve_pid(802, true, &alone), 0);
	assert_int_equal(alone.n, 1);
	assert_string_equal(alone.note, "");
}

/* Its own allocation is not in its environment; what it starts has it. The name may be another. */
static void test_srun_child(void **state)
{
	SET_(set);
	SET_(unknown);

	(void)state;
	put_proc(&(struct proc_spec){ 70, 1, "worker-main", "/opt/slurm/bin/srun", .inner = 0 });
	assert_int_equal(resolve_pid(70, false, &unknown), 0);
	assert_int_equal(unknown.n, 1);
	assert_non_null(strstr(unknown.note, "its job id is not in its environment"));
	put_proc(&(struct proc_spec){ 71, 70, "helper", .env = "SLURM_JOB_ID=88123" });
	assert_int_equal(resolve_pid(70, false, &set), 0);
	assert_int_equal(set.n, 2 + 25);
}

static void test_srun_elsewhere(void **state)
{
	SET_(set);

	(void)state;
	put_proc(&(struct proc_spec){ 70, 1, "srun", .env = "SLURM_JOB_ID=4242" });
	assert_int_equal(resolve_pid(70, false, &set), 0);
	assert_int_equal(set.n, 1);
	assert_string_equal(set.note,
			    "process 70 is srun of job 4242, whose tasks run on other nodes, "
			    "none on this one: trace there, with --cgroup job_4242");
}

/* Without Slurm's cgroups the environment below a slurmstepd says it; two steps are named. */
static void test_srun_no_cgroup(void **state)
{
	SET_(set);

	(void)state;
	put_batch();
	put_proc(&(struct proc_spec){ 60, 1, "slurmstepd", .inner = 0 });
	put_proc(&(struct proc_spec){ 61, 60, "bash", .env = "SLURM_JOB_ID=99" });
	put_proc(&(struct proc_spec){ 62, 61, "python", .env = "SLURM_JOB_ID=99" });
	put_proc(&(struct proc_spec){ 63, 1, "python", .env = "SLURM_JOB_ID=99" }); /* of no step */
	put_proc(&(struct proc_spec){ 70, 1, "srun", .env = "SLURM_JOB_ID=99" });
	assert_int_equal(resolve_pid(70, false, &set), 0);
	assert_int_equal(set.n, 3);
	assert_true(ft_pidset_has(&set, 61));
	assert_true(ft_pidset_has(&set, 62));
}

static void test_srun_steps(void **state)
{
	SET_(set);

	(void)state;
	put_batch();
	put_proc(&(struct proc_spec){
		60, 1, "python",
		.cgroup = "/system.slice/slurmstepd.scope/job_88123/step_1/user/task_0" });
	put_proc(&(struct proc_spec){
		61, 1, "bash",
		.cgroup =
			"/system.slice/slurmstepd.scope/job_88123/step_extern/user/task_special" });
	assert_int_equal(resolve_pid(802, false, &set), 0);
	assert_int_equal(set.n, 2 + 26);
	assert_false(ft_pidset_has(&set, 61));
	assert_non_null(strstr(set.note, "of several steps"));
}

/* --- cgroups --- */
static int cgroups(void **state)
{
	if (job(state))
		return -1;
	put("/proc/self/mounts",
	    "proc /proc proc rw 0 0\ncgroup " MEM " cgroup rw,memory 0 0\ncgroup " SET
	    " cgroup rw,cpuset 0 0\ncgroup2 " V2 " cgroup2 rw 0 0\n");
	put_procs(V2, "1\n");
	put_procs(MEM, "1\n2\n");
	put_procs(SET, "1\n");
	put_procs(MEM "/slurm/uid_0/job_88123", "");
	put_procs(MEM "/slurm/uid_0/job_88123/step_0", "900\n");
	put_procs(MEM "/slurm/uid_0/job_88123/step_0/task_0", "1000\n1001\n0\n");
	put_procs(SET "/slurm/uid_0/job_88123/step_0/task_0", "1001\n1002\n");
	put_procs(SET "/slurm/uid_0/job_88123", "");
	put_procs(MEM "/slurm/uid_0/job_881234", "1100\n");
	put_procs(V2 "/system.slice/docker-" ID ".scope", "1003\n");
	put_procs(V2 "/system.slice/docker-" ID ".scope/inner", "1004\n");
	put_procs(V2 "/system.slice/docker-" ID2 ".scope", "1005\n");
	put_procs(POD, "");
	put_procs(POD "/crio-" ID2 "0.scope", "1006\n");
	put_procs(POD "/crio-conmon-" ID2 "0.scope", "1\n");
	put_procs(V2 "/empty.slice", "");
	return 0;
}

static void test_cgroup_part(void **state)
{
	SET_(slurm);
	SET_(docker);
	SET_(pod);

	(void)state;
	/* in two v1 hierarchies, and not job_881234 */
	assert_int_equal(resolve_cgroup("job_88123", &slurm), 0);
	assert_int_equal(slurm.n, 4);
	assert_true(ft_pidset_has(&slurm, 900));
	assert_true(ft_pidset_has(&slurm, 1002));
	assert_false(ft_pidset_has(&slurm, 1100));
	assert_int_equal(slurm.cgroup_id, 0);
	assert_string_equal(slurm.cgroup, "/slurm/uid_0/job_88123");

	assert_int_equal(resolve_cgroup("3f2a91c04d5e", &docker), 0);
	assert_int_equal(docker.n, 2);
	assert_int_not_equal(docker.cgroup_id, 0);
	assert_string_equal(docker.cgroup, "/system.slice/docker-" ID ".scope");

	/* as Kubernetes writes it; systemd has _ for - */
	assert_int_equal(resolve_cgroup(UID, &pod), 0);
	assert_int_equal(pod.n, 2); /* the pod's conmon is below the pod, too */
	assert_true(ft_pidset_has(&pod, 1006));
}

static void test_cgroup_monitor(void **state)
{
	SET_(set);

	(void)state;
	/* conmon's own cgroup has the container's id and is not the container */
	assert_int_equal(resolve_cgroup(ID2 "0", &set), 0);
	assert_int_equal(set.n, 1);
	assert_int_equal(set.pids[0], 1006);
}

static void test_cgroup_path(void **state)
{
	SET_(a);
	SET_(b);
	SET_(c);

	(void)state;
	assert_int_equal(resolve_cgroup(MEM "/slurm/uid_0/job_88123/step_0/task_0", &a), 0);
	assert_int_equal(a.n, 2);
	/* as /proc/PID/cgroup shows it, in every hierarchy that has it */
	assert_int_equal(resolve_cgroup("/slurm/uid_0/job_88123", &b), 0);
	assert_int_equal(b.n, 4);
	assert_int_equal(resolve_cgroup("uid_0/job_88123", &c), 0);
	assert_int_equal(c.n, 4);
}

static void test_cgroup_refused(void **state)
{
	SET_(set);

	(void)state;
	assert_int_equal(resolve_cgroup("3f2", &set), -EEXIST);
	assert_non_null(strstr(why, "cgroups match \"3f2\""));
	assert_non_null(strstr(why, "docker-" ID));
	assert_int_equal(resolve_cgroup("job_7", &set), -ENOENT);
	assert_string_equal(
		why, "no cgroup matches \"job_7\" in any of the 3 hierarchies of this machine");
	assert_int_equal(resolve_cgroup("/none/such", &set), -ENOENT);
	assert_int_equal(resolve_cgroup("empty.slice", &set), -ESRCH);
	assert_string_equal(why, "cgroup empty.slice has no processes (has the job ended?)");
	assert_int_equal(resolve_cgroup("", &set), -ENOENT);
	put("/proc/self/mounts", "proc /proc proc rw 0 0\n");
	assert_int_equal(resolve_cgroup("job_88123", &set), -ENOENT);
	assert_int_equal(set.n, 0);
}

/* --- live --- */
static void test_live(void **state)
{
	SET_(set);
	pid_t child = fork();
	uint32_t self = getpid();
	const struct ft_target_opts o = { &self, 1, NULL, false, false };

	(void)state;
	if (!child)
		pause();
	assert_int_equal(ft_target_resolve("", &o, &set, why, sizeof(why)), 0);
	assert_true(ft_pidset_has(&set, self));
	assert_true(ft_pidset_has(&set, child));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_pid, job, machine_free),
		cmocka_unit_test_setup_teardown(test_again, job, machine_free),
		cmocka_unit_test_setup_teardown(test_refused, job, machine_free),
		cmocka_unit_test_setup_teardown(test_inner_pid, job, machine_free),
		cmocka_unit_test_setup_teardown(test_all, job, machine_free),
		cmocka_unit_test_setup_teardown(test_srun, job, machine_free),
		cmocka_unit_test_setup_teardown(test_srun_child, job, machine_free),
		cmocka_unit_test_setup_teardown(test_srun_elsewhere, job, machine_free),
		cmocka_unit_test_setup_teardown(test_srun_no_cgroup, job, machine_free),
		cmocka_unit_test_setup_teardown(test_srun_steps, job, machine_free),
		cmocka_unit_test_setup_teardown(test_cgroup_part, cgroups, machine_free),
		cmocka_unit_test_setup_teardown(test_cgroup_monitor, cgroups, machine_free),
		cmocka_unit_test_setup_teardown(test_cgroup_path, cgroups, machine_free),
		cmocka_unit_test_setup_teardown(test_cgroup_refused, cgroups, machine_free),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

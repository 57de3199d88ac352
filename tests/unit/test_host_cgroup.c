// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "host/proc.h"

#define ID   "3f2a91c04d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8"
#define ID2  "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define UID  "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
#define UID_ "0f1e2d3c_4b5a_6978_8796_a5b4c3d2e1f0"

static void test_paths(void **state)
{
	static const struct {
		const char *text, *container, *pod, *job, *step;
	} rows[] = {
		{ "", "", "", "", "" },
		{ "0::/\n", "", "", "", "" },
		{ "0::/user.slice/user-0.slice/session-1.scope\n", "", "", "", "" },
		/* docker: v2 by systemd, v1 */
		{ "0::/system.slice/docker-" ID ".scope\n", ID, "", "", "" },
		{ "12:memory:/docker/" ID "\n1:name=systemd:/docker/" ID "\n", ID, "", "", "" },
		/* docker in docker: the inner one */
		{ "0::/docker/" ID2 "/docker/" ID "\n", ID, "", "", "" },
		/*
		 * Kubernetes: containerd and CRI-O by systemd, cgroupfs, one component with colons
		 */
		{ "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
		  ".slice/cri-containerd-" ID ".scope\n",
		  ID, UID, "", "" },
		{ "0::/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope/container\n", ID,
		  UID, "", "" },
		{ "4:memory:/kubepods/besteffort/pod" UID "/" ID "\n", ID, UID, "", "" },
		{ "0::/kubepods-besteffort-pod" UID_ ".slice:cri-containerd:" ID "\n", ID, UID, "",
		  "" },
		/* a static pod's hash */
		{ "0::/kubepods/pod0123456789abcdef0123456789abcdef/" ID "\n", ID,
		  "0123456789abcdef0123456789abcdef", "", "" },
		{ "0::/machine.slice/libpod-" ID ".scope\n", ID, "", "", "" },
		/* Slurm v2, v1, batch step */
		{ "0::/system.slice/slurmstepd.scope/job_88123/step_0/user/task_3\n", "", "",
		  "88123", "0" },
		{ "5:cpuset:/slurm/uid_1000/job_88123/step_batch\n0::/system.slice/slurmd.service\n",
		  "", "", "88123", "batch" },
		{ "0::/system.slice/n17_slurmstepd.scope/job_7/step_extern\n", "", "", "7",
		  "extern" },
		/* look-alikes */
		{ "0::/job_backup/step_1\n", "", "", "", "" },
		{ "0::/x/" ID "0\n", "", "", "", "" },
		{ "0::/podman-pod" UID "\n", "", "", "", "" },
		{ "garbage\n\n:\n", "", "", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ft_cgroup cg;

		ft_cgroup_parse(rows[i].text, &cg);
		if (strcmp(cg.container, rows[i].container) || strcmp(cg.pod, rows[i].pod) ||
		    strcmp(cg.job, rows[i].job) || strcmp(cg.step, rows[i].step))
			fail_msg("%s: container %s, pod %s, job %s, step %s", rows[i].text,
				 cg.container, cg.pod, cg.job, cg.step);
	}
}

static void test_deepest(void **state)
{
	struct ft_cgroup cg;

	(void)state;
	ft_cgroup_parse("13:rdma:/\n12:memory:/a/b\n1:name=systemd:/a\n0::/a\n", &cg);
	assert_string_equal(cg.path, "/a/b");
	/* a colon in the path */
	ft_cgroup_parse("0::/a:b/c\n", &cg);
	assert_string_equal(cg.path, "/a:b/c");
	ft_cgroup_parse("0::/no-newline", &cg);
	assert_string_equal(cg.path, "/no-newline");
}

static void test_long(void **state)
{
	char text[2048] = "0::/";
	struct ft_cgroup cg;

	(void)state;
	memset(text + 4, 'x', 2000);
	ft_cgroup_parse(text, &cg);
	assert_int_equal(strlen(cg.path), sizeof(cg.path) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_deepest),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

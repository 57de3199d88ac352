// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "nvml_lib.h"

static char output[65536];
static int status;

static int hgx(void **state)
{
	if (machine_new(state))
		return -1;
	machine_hgx();
	return 0;
}

/* Runs the command in a child: argp ends the process by itself. */
static void topo(const char *option, const char *value)
{
	char *argv[] = { "topo", "--root", machine_root, (char *)option, (char *)value, NULL };
	int out[2], argc = option ? value ? 5 : 4 : 3;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	fflush(NULL);
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (!pid) {
		dup2(out[1], 1);
		dup2(out[1], 2);
		close(out[0]);
		argv[argc] = NULL;
		exit(ft_cmd_topo(argc, argv));
	}
	close(out[1]);
	while ((n = read(out[0], output + len, sizeof(output) - len - 1)) > 0)
		len += n;
	output[len] = 0;
	close(out[0]);
	waitpid(pid, &status, 0);
	status = WEXITSTATUS(status);
}

static void assert_line(const char *line)
{
	if (!strstr(output, line))
		fail_msg("no \"%s\" in\n%s", line, output);
}

static void test_text(void **state)
{
	(void)state;
	topo(NULL, NULL);
	assert_int_equal(status, 0);
	assert_line("  0   0000:13:00.0  0     Gen5 x16 / Gen5 x16      NVIDIA H100 80GB HBM3\n");
	assert_line("  3   0000:43:00.0  0     Gen3 x8 / Gen5 x16       NVIDIA H100 80GB HBM3\n");
	assert_line("  5   0000:63:00.0  1     Gen4 x16 / Gen4 x16      NVIDIA H100 80GB HBM3\n");
	assert_line("  6   0000:73:00.0  1     does not answer          NVIDIA H100 80GB HBM3\n");
	assert_line(
		"mlx5_4      eth4          0000:54:00.0  1     400G  up    Gen5 x16 / Gen5 x16      mlx5_core\n");
	assert_line(
		"  0000:42:00.0 -> 0000:43:00.0  Gen3 x8 instead of Gen5 x16, 7.9 instead of 63.0 GB/s\n");
	assert_line(
		"  0000:30:01.0 -> 0000:31:00.0  Gen4 x16 instead of Gen5 x16, 31.5 instead of 63.0 GB/s\n");
	assert_null(
		strstr(output, "0000:62:00.0 ->")); /* a Gen5 card in a Gen4 port is as it can be */
	assert_line("An idle GPU lowers its link's speed");
	assert_line(
		"11 of 64      one of 8         1004        -  yes   /usr/bin/python3 -u train.py\n");
	assert_line("and 16 helpers, forked from these ranks\n");
	assert_line("NUMA 1: cpus 56-111\n");
	assert_line(
		"not read: PCIe link of 0000:73:00.0: gone from the bus: reads give all ones\n");
	assert_line("not read: PCIe link of 0000:84:00.0: asleep: a read would wake it up\n");
	for (char *save, *line = strtok_r(output, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		assert_true(strlen(line) <= 100);
}

static void test_json(void **state)
{
	int kinds[3] = {};

	(void)state;
	topo("--json", NULL);
	assert_int_equal(status, 0);
	for (char *save, *line = strtok_r(output, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		json_t *o = json_loads(line, 0, NULL);
		const char *kind = json_string_value(json_object_get(o, "kind"));

		assert_non_null(kind);
		kinds[0] += !strcmp(kind, "inv.gpu");
		kinds[1] += !strcmp(kind, "inv.netdev");
		kinds[2] += !strcmp(kind, "inv.proc");
		json_decref(o);
	}
	assert_int_equal(kinds[0], 8);
	assert_int_equal(kinds[1], 10);
	assert_int_equal(kinds[2], 24);
}

static void test_target(void **state)
{
	(void)state;
	topo("-p", "1000");
	assert_int_equal(status, 0);
	/* the launcher has no rank */
	assert_line(
		"-             -                1000        -  no    /usr/bin/python3 /usr/bin/torchrun");
	topo("-p", "4711");
	assert_int_equal(status, FT_EXIT_NOTARGET);
	assert_line("no process 4711");
	topo("-p", "abc");
	assert_int_equal(status, FT_EXIT_USAGE);
	/* A mistyped directory is no machine without devices. */
	topo("--root=/nonexistent", NULL);
	assert_int_equal(status, FT_EXIT_NOTARGET);
	assert_line("--root /nonexistent: No such file or directory");
	topo("--root=/etc", NULL);
	assert_int_equal(status, FT_EXIT_NOTARGET);
	assert_line("--root /etc: no captured machine");
	topo("--nonsense", NULL);
	assert_int_equal(status, FT_EXIT_USAGE);
}

/* NVML knows which of the open GPUs is used. */
static void test_nvml(void **state)
{
	(void)state;
	setenv("FT_NVML", nvml_build("nvml.so", ""), 1);
	topo(NULL, NULL);
	assert_line("RANK (env)    GPU (NVML)        PID  IN CONT  NCCL  COMMAND\n");
	assert_line("8 of 64       2                1001        -  yes   ");
	assert_line("9 of 64       2,0              1002        -  yes   ");
	assert_line("10 of 64      one of 8         1003        -  yes   ");
	topo("--json", NULL);
	assert_line("\"kind\":\"inv.gpu_proc\"");
	setenv("FT_NVML", "/none.so", 1);
	topo(NULL, NULL);
	assert_line("8 of 64       one of 8         1001");
	assert_line("not read: processes on the GPUs (NVML): no libnvidia-ml.so.1");
	unsetenv("FT_NVML");
}

/* Nothing there: said in words, never as 0. */
static void test_empty(void **state)
{
	(void)state;
	put("/sys/kernel/none", "%s", "");
	topo(NULL, NULL);
	assert_int_equal(status, 0);
	assert_line("GPUs: none of NVIDIA or AMD on the PCI bus of this machine\n");
	assert_line("none with a PCI address or an RDMA port\n");
	assert_line("processes: none has a library named libnccl.so* mapped");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_text, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_json, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_target, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_nvml, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_empty, machine_new, machine_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

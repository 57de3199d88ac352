// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The command line of a session: what the session is given, and what never becomes one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/wait.h>

#include "cli/cli.h"
#include "cli/session.h"

#define MAX_ARGS 16

static struct ft_trace_opts got;
static uint32_t pids[8];
static char *words[MAX_ARGS];
static int sessions;

int ft_session_run(const struct ft_trace_opts *opts)
{
	got = *opts;
	for (size_t i = 0; i < opts->npids; i++)
		pids[i] = opts->pids[i];
	sessions++;
	return 42;
}

/* A line of words separated by blanks, the program's name not among them. */
static int run(const char *line)
{
	static char text[512];
	int argc = 1;

	ft_fmt(text, "%s", line);
	words[0] = (char *)"fabrictrace";
	for (char *save, *w = strtok_r(text, " ", &save); w; w = strtok_r(NULL, " ", &save))
		words[argc++] = w;
	words[argc] = NULL;
	sessions = 0;
	ft_verbose = 0;
	return ft_cmd_trace(argc, words);
}

static void test_pids(void **state)
{
	(void)state;
	assert_int_equal(run("-p 17"), 42);
	assert_true(got.npids == 1 && pids[0] == 17 && !got.no_children && !got.all);
	assert_true(!got.cgroup && !got.cmd && !got.json && !got.collectives && !got.no_color);
	assert_true(got.seconds == 0);
	run("-p 17,2147483647 -p 3 --no-children");
	assert_int_equal(got.npids, 3);
	assert_true(pids[0] == 17 && pids[1] == INT32_MAX && pids[2] == 3 && got.no_children);
}

static void test_options(void **state)
{
	(void)state;
	run("--cgroup job_88123 -d 0.5 --json --no-color --collectives");
	assert_string_equal(got.cgroup, "job_88123");
	assert_true(got.seconds == 0.5 && got.json && got.no_color && got.collectives);
	run("-a -v -v");
	assert_true(got.all && ft_verbose == 2);
	run("-q");
	assert_true(!got.all && ft_verbose == -1);
	assert_int_equal(sessions, 1);
}

/* What is behind -- is the command's own, whatever it looks like. */
static void test_command(void **state)
{
	(void)state;
	run("-d 5 -- mpirun -p 4 --json -- x");
	assert_true(got.npids == 0 && !got.json && got.seconds == 5);
	assert_string_equal(got.cmd[0], "mpirun");
	assert_string_equal(got.cmd[1], "-p");
	assert_string_equal(got.cmd[4], "--");
	assert_string_equal(got.cmd[5], "x");
	assert_null(got.cmd[6]);
}

/* In a child, since argp exits. Its words are dropped. */
static int refused(const char *line)
{
	pid_t pid = fork();
	int status, null;

	if (!pid) {
		null = open("/dev/null", O_WRONLY);
		dup2(null, STDERR_FILENO);
		run(line);
		_exit(sessions ? 1 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_refused(void **state)
{
	static const char *const lines[] = {
		"-p 0",		 "-p -1",
		"-p 12x",	 "-p ,",
		"-p 2147483648", "-p 99999999999999999999",
		"-d 0 -a",	 "-d -1 -a",
		"-d nan -a",	 "-d inf -a",
		"-d 1s -a",	 "-d 1e10 -a",
		"-p 1 -a",	 "-p 1 --cgroup x",
		"-a -- cmd",	 "--cgroup x -- cmd",
		"--no-children", "--no-children --cgroup x",
		"cmd",		 "-p 1 cmd",
		"cmd -- x",	 "--cgroup=",
		"--nonsense",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (refused(lines[i]) != FT_EXIT_USAGE)
			fail_msg("fabrictrace %s is taken", lines[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pids),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_command),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

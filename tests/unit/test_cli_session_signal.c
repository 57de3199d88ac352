// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Signals, sent for real to a child for each test; the clock is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sys/wait.h>

#define ft_mono_ns clock_ns
#include "cli/session_signal.c"
#undef ft_mono_ns

#define EXPECT(x)                                                                                  \
	do {                                                                                       \
		if (!(x))                                                                          \
			_exit(100);                                                                \
	} while (0)

static struct session s;
static uint64_t now_ns = NSEC_PER_SEC;
static int verdicts, reaped;

uint64_t clock_ns(void)
{
	return now_ns;
}

void session_verdict(struct session *session, bool final)
{
	EXPECT(session == &s && !final);
	verdicts++;
	ft_loop_stop(s.loop);
}

void session_child_reap(struct session *session)
{
	EXPECT(session == &s);
	if (waitpid(s.child, NULL, WNOHANG) == s.child)
		reaped++;
	ft_loop_stop(s.loop);
}

static void start(void)
{
	EXPECT(!ft_loop_new(&s.loop));
	EXPECT(!session_signals(&s));
	EXPECT(!session_end_asked());
}

/* The wait status of a child that runs fn. */
static int child_status(void (*fn)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (!pid) {
		alarm(20);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void child_ends(void)
{
	start();
	raise(SIGTERM);
	EXPECT(session_end_asked() == SIGTERM);
	EXPECT(!ft_loop_run(s.loop)); /* returns: it was asked before it ran */
	/* timeout(1) sends it again at once, and the first one counts */
	raise(SIGINT);
	EXPECT(session_end_asked() == SIGTERM);
	EXPECT(!verdicts);
}

static void child_ends_at_once(void)
{
	start();
	raise(SIGINT);
	now_ns += NSEC_PER_SEC + 1;
	raise(SIGTERM);
}

static void child_ignored(void)
{
	signal(SIGHUP, SIG_IGN); /* nohup */
	start();
	raise(SIGHUP);
	raise(SIGPIPE);
	EXPECT(!session_end_asked());
}

static void child_hangs_up(void)
{
	start();
	raise(SIGHUP);
	EXPECT(session_end_asked() == SIGHUP);
}

static void child_verdict(void)
{
	start();
	raise(SIGUSR1);
	EXPECT(!ft_loop_run(s.loop));
	EXPECT(verdicts == 1 && !session_end_asked());
}

static void child_command_ends(void)
{
	start();
	s.child = fork();
	if (!s.child)
		_exit(3);
	EXPECT(!ft_loop_run(s.loop));
	EXPECT(reaped == 1 && !verdicts && !session_end_asked());
}

/* What a command gets is what we got, not what we made of it. */
static void child_command_starts(void)
{
	sigset_t mask;

	signal(SIGHUP, SIG_IGN);
	start();
	session_signals_default();
	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int sig = 1; sig < 32; sig++)
		EXPECT(sigismember(&mask, sig) == 0);
	EXPECT(signal(SIGINT, SIG_DFL) == SIG_DFL);
	EXPECT(signal(SIGTERM, SIG_DFL) == SIG_DFL);
	EXPECT(signal(SIGPIPE, SIG_DFL) == SIG_DFL);
	EXPECT(signal(SIGHUP, SIG_DFL) == SIG_IGN);
}

static void test_end(void **state)
{
	int status;

	(void)state;
	assert_int_equal(child_status(child_ends), 0);
	assert_int_equal(child_status(child_hangs_up), 0);
	status = child_status(child_ends_at_once);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void test_ignored(void **state)
{
	(void)state;
	assert_int_equal(child_status(child_ignored), 0);
}

static void test_verdict(void **state)
{
	(void)state;
	assert_int_equal(child_status(child_verdict), 0);
}

static void test_command(void **state)
{
	(void)state;
	assert_int_equal(child_status(child_command_ends), 0);
	assert_int_equal(child_status(child_command_starts), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_ignored),
		cmocka_unit_test(test_verdict),
		cmocka_unit_test(test_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

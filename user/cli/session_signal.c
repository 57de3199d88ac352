// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Signals: the first that asks for the end brings the verdict, SIGUSR1 prints it and goes on. */
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <signal.h>

#include "cli/session_parts.h"

#define AGAIN_NS NSEC_PER_SEC /* timeout(1) and others send a signal twice in a row */

static const int ends[] = { SIGINT, SIGTERM, SIGHUP };

static struct {
	int fd;
	volatile sig_atomic_t signal;
	volatile uint64_t since_ns;
} asked = { .fd = -1 };

/*
 * A handler, not the signalfd: while nobody reads our output the main loop is blocked and reads
 * nothing. Whoever asks again a second later gets the end at once, without the verdict.
 */
static void on_end_asked(int sig)
{
	const uint64_t one = 1;
	int saved = errno;
	ssize_t n;

	if (!asked.signal) {
		asked.since_ns = ft_mono_ns();
		asked.signal = sig;
	} else if (ft_mono_ns() - asked.since_ns > AGAIN_NS) {
		signal(sig, SIG_DFL);
		raise(sig);
	}
	n = write(asked.fd, &one, sizeof(one));
	(void)n;
	errno = saved;
}

int session_end_asked(void)
{
	return asked.signal;
}

void session_signals_default(void)
{
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (signal(ends[i], SIG_DFL) == SIG_IGN)
			signal(ends[i], SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void on_asked(void *ctx)
{
	ft_loop_stop(((struct session *)ctx)->loop);
}

static void on_signal(void *ctx)
{
	struct session *s = ctx;
	struct signalfd_siginfo si;

	while (read(s->sigfd, &si, sizeof(si)) == sizeof(si)) {
		if (si.ssi_signo == SIGCHLD)
			session_child_reap(s);
		else
			session_verdict(s, false);
	}
}

static int ends_open(struct session *s)
{
	struct sigaction on = { .sa_handler = on_end_asked, .sa_flags = SA_RESTART }, old;

	asked.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (asked.fd < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		/* nohup means it */
		if (!sigaction(ends[i], NULL, &old) && ends[i] == SIGHUP &&
		    old.sa_handler == SIG_IGN)
			continue;
		sigaction(ends[i], &on, NULL);
	}
	return ft_loop_add(s->loop, asked.fd, on_asked, s);
}

int session_signals(struct session *s)
{
	sigset_t set;
	int err;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	s->sigfd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	err = s->sigfd < 0 ? -errno : ft_loop_add(s->loop, s->sigfd, on_signal, s);
	return err ? err : ends_open(s);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/loop.h"

struct handler {
	struct handler *next;
	int fd;
	bool timer, dead;
	ft_loop_fn fn;
	void *ctx;
};

struct ft_loop {
	int epfd;
	bool stop;
	struct handler *handlers;
};

int ft_loop_new(struct ft_loop **out)
{
	struct ft_loop *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (l->epfd < 0) {
		free(l);
		return -errno;
	}
	*out = l;
	return 0;
}

/*
 * Frees what ft_loop_del() marked; a handler may delete itself or others while events are handled.
 */
static void reap(struct ft_loop *l, bool all)
{
	for (struct handler **p = &l->handlers; *p;) {
		struct handler *h = *p;

		if (!all && !h->dead) {
			p = &h->next;
			continue;
		}
		*p = h->next;
		if (h->timer)
			close(h->fd);
		free(h);
	}
}

void ft_loop_free(struct ft_loop *l)
{
	if (!l)
		return;
	reap(l, true);
	close(l->epfd);
	free(l);
}

static int add(struct ft_loop *l, int fd, bool timer, ft_loop_fn fn, void *ctx)
{
	struct handler *h = calloc(1, sizeof(*h));
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = h };

	if (!h)
		return -ENOMEM;
	*h = (struct handler){ .next = l->handlers, .fd = fd, .timer = timer, .fn = fn, .ctx = ctx };
	if (epoll_ctl(l->epfd, EPOLL_CTL_ADD, fd, &ev)) {
		free(h);
		return -errno;
	}
	l->handlers = h;
	return 0;
}

int ft_loop_add(struct ft_loop *l, int fd, ft_loop_fn fn, void *ctx)
{
	return add(l, fd, false, fn, ctx);
}

void ft_loop_del(struct ft_loop *l, int fd)
{
	for (struct handler *h = l->handlers; h; h = h->next) {
		if (h->fd != fd || h->dead)
			continue;
		epoll_ctl(l->epfd, EPOLL_CTL_DEL, fd, NULL);
		h->dead = true;
	}
}

int ft_loop_timer(struct ft_loop *l, ft_loop_fn fn, void *ctx)
{
	_cleanup_close_ int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	int err;

	if (fd < 0)
		return -errno;
	err = add(l, fd, true, fn, ctx);
	return err ? err : ft_take_fd(fd);
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){ .tv_sec = ns / NSEC_PER_SEC, .tv_nsec = ns % NSEC_PER_SEC };
}

int ft_loop_timer_set(int timer, uint64_t mono_ns)
{
	struct itimerspec its = { .it_value = timespec_of(MAX(mono_ns, 1ull)) };

	return timerfd_settime(timer, TFD_TIMER_ABSTIME, &its, NULL) ? -errno : 0;
}

int ft_loop_every(struct ft_loop *l, unsigned int period_ms, ft_loop_fn fn, void *ctx)
{
	struct timespec t = timespec_of(period_ms * NSEC_PER_MSEC);
	struct itimerspec its = { .it_interval = t, .it_value = t };
	int timer = ft_loop_timer(l, fn, ctx);

	if (timer < 0)
		return timer;
	return timerfd_settime(timer, 0, &its, NULL) ? -errno : 0;
}

void ft_loop_stop(struct ft_loop *l)
{
	l->stop = true;
}

int ft_loop_run(struct ft_loop *l)
{
	struct epoll_event ev[32];

	for (l->stop = false; !l->stop;) {
		int n = epoll_wait(l->epfd, ev, ARRAY_SIZE(ev), -1);

		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n; i++) {
			struct handler *h = ev[i].data.ptr;
			uint64_t ticks;

			if (h->dead)
				continue;
			if (h->timer && read(h->fd, &ticks, sizeof(ticks)) < 0)
				continue;
			h->fn(h->ctx);
		}
		reap(l, false);
	}
	return 0;
}

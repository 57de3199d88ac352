// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "base/base.h"

struct job {
	int (*fn)(void *);
	void (*release)(void *);
	void *arg;
	int result;
	bool done, abandoned;
	pthread_mutex_t lock;
	pthread_cond_t cond;
};

static int stuck; /* threads that went past their deadline and still run */

static void job_free(struct job *j)
{
	pthread_cond_destroy(&j->cond);
	pthread_mutex_destroy(&j->lock);
	free(j);
}

static void *job_run(void *p)
{
	struct job *j = p;
	int result = j->fn(j->arg);
	bool abandoned;

	pthread_mutex_lock(&j->lock);
	j->result = result;
	j->done = true;
	abandoned = j->abandoned;
	pthread_cond_signal(&j->cond);
	pthread_mutex_unlock(&j->lock);
	if (abandoned) {
		if (j->release)
			j->release(j->arg);
		__atomic_sub_fetch(&stuck, 1, __ATOMIC_RELAXED);
		job_free(j);
	}
	return NULL;
}

int ft_thread_start(void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	/* Signals belong to the main loop. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 << 10);
	err = pthread_create(&thread, &attr, fn, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -err;
}

static int job_wait(struct job *j, int timeout_ms, bool *free_it)
{
	struct timespec t;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += timeout_ms / 1000;
	t.tv_nsec += (timeout_ms % 1000) * NSEC_PER_MSEC;
	if (t.tv_nsec >= (long)NSEC_PER_SEC) {
		t.tv_sec++;
		t.tv_nsec -= NSEC_PER_SEC;
	}
	pthread_mutex_lock(&j->lock);
	while (!j->done && !err)
		err = pthread_cond_timedwait(&j->cond, &j->lock, &t);
	*free_it = j->done;
	j->abandoned = !j->done;
	if (j->abandoned)
		__atomic_add_fetch(&stuck, 1, __ATOMIC_RELAXED);
	err = j->done ? j->result : -ETIMEDOUT;
	pthread_mutex_unlock(&j->lock);
	return err;
}

int ft_worker_call(int (*fn)(void *), void (*release)(void *), void *arg, int timeout_ms)
{
	pthread_condattr_t attr;
	struct job *j;
	bool free_it;
	int err;

	if (__atomic_load_n(&stuck, __ATOMIC_RELAXED) >= FT_WORKERS_STUCK)
		return -EBUSY;
	j = calloc(1, sizeof(*j));
	if (!j)
		return -ENOMEM;
	*j = (struct job){ .fn = fn, .release = release, .arg = arg };
	pthread_mutex_init(&j->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&j->cond, &attr);
	pthread_condattr_destroy(&attr);
	err = ft_thread_start(job_run, j);
	if (err) {
		job_free(j);
		return err;
	}
	err = job_wait(j, timeout_ms, &free_it);
	if (free_it)
		job_free(j);
	return err;
}

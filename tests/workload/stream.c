/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * What a CUDA stream does for the real library: work runs in order, after the call returned. A
 * stream is an opaque pointer; NULL is the default stream of the calling thread's device. Streams
 * live until the process ends.
 */
#include <string.h>

#include "comm.h"

#define QUEUE_MAX 1024		/* then a call blocks, as a launch does when CUDA's queue is full */

struct work {
	struct work *next;
	struct ncclComm *comm;
	uint64_t ticket;
	size_t n;
	struct task tasks[];
};

struct stream {
	struct stream *next;
	void *handle;
	int device;			/* of the default stream, else -1 */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct work *first;
	struct work **last;
	uint64_t submitted;
	uint64_t done;
};

static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stream *streams;

static void work_run(struct work *w)
{
	int err = 0;

	comm_turn(w->comm, w->ticket);
	if (w->comm->result == ncclSuccess && !w->comm->revoked)
		err = tasks_run(w->comm, w->tasks, w->n);
	if (err)
		comm_fail(w->comm, result_of(err));
	comm_turn_done(w->comm);
}

static void *stream_main(void *arg)
{
	struct stream *s = arg;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		struct work *w = s->first;

		if (!w) {
			pthread_cond_wait(&s->changed, &s->lock);
			continue;
		}
		s->first = w->next;
		if (!s->first)
			s->last = &s->first;
		pthread_mutex_unlock(&s->lock);
		work_run(w);
		free(w);
		pthread_mutex_lock(&s->lock);
		s->done++;
		pthread_cond_broadcast(&s->changed);
	}
	return NULL;
}

static struct stream *stream_new(void *handle, int device)
{
	struct stream *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->handle = handle;
	s->device = device;
	s->last = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	if (thread_start(NULL, stream_main, s)) {
		free(s);
		return NULL;
	}
	s->next = streams;
	streams = s;
	return s;
}

static struct stream *stream_get(void *handle, int device)
{
	struct stream *s;

	device = handle ? -1 : device;
	pthread_mutex_lock(&streams_lock);
	for (s = streams; s && (s->handle != handle || s->device != device); s = s->next)
		;
	if (!s)
		s = stream_new(handle, device);
	pthread_mutex_unlock(&streams_lock);
	return s;
}

/* Puts tasks on the stream as one unit; *ticket + 1 is what comm_drain waits for. */
int stream_submit(struct ncclComm *comm, void *stream, struct task *tasks, size_t n,
		  uint64_t *ticket)
{
	struct stream *s = stream_get(stream, comm->cudaDev);
	struct work *w = malloc(sizeof(*w) + n * sizeof(*tasks));

	if (!s || !w) {
		free(w);
		return -ENOMEM;
	}
	*w = (struct work){ .comm = comm, .n = n };
	memcpy(w->tasks, tasks, n * sizeof(*tasks));
	pthread_mutex_lock(&s->lock);
	while (s->submitted - s->done >= QUEUE_MAX)
		pthread_cond_wait(&s->changed, &s->lock);
	w->ticket = *ticket = comm_ticket(comm);
	*s->last = w;
	s->last = &w->next;
	s->submitted++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* NULL: the default stream of this thread's device, of all devices if it chose none. */
void stream_sync(void *stream)
{
	int device = thread_device(-1);
	struct stream *s;
	uint64_t until;

	pthread_mutex_lock(&streams_lock);
	s = streams;
	pthread_mutex_unlock(&streams_lock);
	for (; s; s = s->next) {
		if (s->handle != stream || (!stream && device >= 0 && s->device != device))
			continue;
		pthread_mutex_lock(&s->lock);
		until = s->submitted;
		while (s->done < until)
			pthread_cond_wait(&s->changed, &s->lock);
		pthread_mutex_unlock(&s->lock);
	}
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Groups: every call is in one, of its own or of the program. At the end of the outermost, inits
 * run in a thread each (one thread may hold all ranks), then the operations are put on their
 * streams, fused by communicator and stream.
 */
#include <string.h>

#include "comm.h"

struct entry {
	struct ncclComm *comm;
	void *stream;
	struct task task;
	bool taken;
	uint64_t ticket;
};

struct job {
	struct init *init;
	pthread_t thread;
	bool started;
	int err;
};

static __thread struct group {
	int depth;
	ncclResult_t error;
	struct entry *entries;
	size_t n, cap;
	struct job *jobs;
	size_t njobs, jobs_cap;
} group;

void group_begin(void)
{
	group.depth++;
}

/* An error inside a group is also the result of its end, and then nothing of it runs. */
ncclResult_t group_fail(ncclResult_t result)
{
	if (group.error == ncclSuccess)
		group.error = result;
	return result;
}

static void *grow(void *array, size_t n, size_t *cap, size_t size)
{
	void *p;

	if (n < *cap)
		return array;
	p = realloc(array, (n + 16) * 2 * size);
	if (p)
		*cap = (n + 16) * 2;
	return p;
}

ncclResult_t group_add_task(struct ncclComm *comm, void *stream, const struct task *task)
{
	struct entry *p = grow(group.entries, group.n, &group.cap, sizeof(*p));

	if (!p)
		return group_fail(ncclSystemError);
	group.entries = p;
	p[group.n++] = (struct entry){ .comm = comm, .stream = stream, .task = *task };
	return ncclSuccess;
}

ncclResult_t group_add_init(struct init *init)
{
	struct job *p = grow(group.jobs, group.njobs, &group.jobs_cap, sizeof(*p));

	if (!p) {
		init_free(init);
		return group_fail(ncclSystemError);
	}
	group.jobs = p;
	p[group.njobs++] = (struct job){ .init = init };
	return ncclSuccess;
}

static void *job_main(void *arg)
{
	struct job *job = arg;

	job->err = init_run(job->init);
	return NULL;
}

/* A non-blocking init goes on after the call; its thread is joined by the destroy. */
static void *background_main(void *arg)
{
	struct init *init = arg;

	init_run(init);
	init_free(init);
	return NULL;
}

static int background_start(struct init *init)
{
	struct ncclComm *comm = init->comm;
	int err = thread_start(&comm->init_thread, background_main, init);

	comm->init_pending = !err;
	if (err)
		init_free(init);
	return err;
}

static ncclResult_t jobs_run(struct job *jobs, size_t n)
{
	ncclResult_t result = ncclSuccess;
	bool alone = n == 1;

	for (size_t i = 0; i < n; i++)
		if (jobs[i].init->parent)
			jobs[i].init->ticket = comm_ticket(jobs[i].init->parent);
	for (size_t i = 0; i < n; i++) {
		struct init *init = jobs[i].init;

		if (init->comm && !init->comm->blocking) {
			jobs[i].init = NULL;
			jobs[i].err = background_start(init);
			result = ncclInProgress;
		} else if (alone || thread_start(&jobs[i].thread, job_main, &jobs[i])) {
			job_main(&jobs[i]);
		} else {
			jobs[i].started = true;
		}
	}
	for (size_t i = 0; i < n; i++) {
		if (jobs[i].started)
			pthread_join(jobs[i].thread, NULL);
		if (jobs[i].init)
			init_free(jobs[i].init);
		if (jobs[i].err)
			result = result_of(jobs[i].err);
	}
	return result;
}

/* Everything of the group that goes to the same place as entry i, as one unit of work. */
static int entries_launch(struct group *g, size_t i, struct task *scratch)
{
	struct entry *first = &g->entries[i];
	size_t n = 0;

	for (size_t j = i; j < g->n; j++) {
		struct entry *e = &g->entries[j];

		if (e->taken || e->comm != first->comm || e->stream != first->stream)
			continue;
		e->taken = true;
		scratch[n++] = e->task;
		if (e->task.op < OP_SEQUENCED)
			e->comm->seqNumber[e->task.op]++;
	}
	first->comm->opCount++;
	return stream_submit(first->comm, first->stream, scratch, n, &first->ticket);
}

/* FT_NCCL_BLOCKING=1: the call ends with the operation, for tests of durations. */
static bool blocking_calls(void)
{
	static _Atomic int state;	/* 0: not yet known */
	const char *env;

	if (!state) {
		env = getenv("FT_NCCL_BLOCKING");
		state = env && *env == '1' ? 1 : -1;
	}
	return state > 0;
}

static ncclResult_t entries_run(struct group *g)
{
	struct task *scratch = calloc(g->n, sizeof(*scratch));
	int err = scratch ? 0 : -ENOMEM;

	for (size_t i = 0; i < g->n && !err; i++)
		if (!g->entries[i].taken)
			err = entries_launch(g, i, scratch);
	for (size_t i = 0; i < g->n && !err && blocking_calls(); i++)
		comm_drain(g->entries[i].comm, g->entries[i].ticket ? g->entries[i].ticket + 1 : 1);
	free(scratch);
	return result_of(err);
}

static void jobs_drop(struct job *jobs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (jobs[i].init->comm) {
			*jobs[i].init->newcomm = NULL;
			comm_free(jobs[i].init->comm);
		}
		init_free(jobs[i].init);
	}
}

ncclResult_t group_end(void)
{
	struct group g;
	ncclResult_t result;

	if (!group.depth) {
		WARN("ncclGroupEnd: not in a group call.");
		return ncclInvalidUsage;
	}
	if (--group.depth)
		return ncclSuccess;
	g = group;
	memset(&group, 0, sizeof(group));
	result = g.error;
	if (result != ncclSuccess)
		jobs_drop(g.jobs, g.njobs);
	else if (g.njobs)
		result = jobs_run(g.jobs, g.njobs);
	if (g.n && (result == ncclSuccess || result == ncclInProgress)) {
		ncclResult_t launch = entries_run(&g);

		result = launch == ncclSuccess ? result : launch;
	}
	free(g.entries);
	free(g.jobs);
	return result;
}

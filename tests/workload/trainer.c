/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * A training job for tests and demonstrations: steps of compute and collectives on one or more
 * ranks, faults at chosen steps, results verified. One line of JSON per rank at the end; exit
 * status 0 only if everything that was looked at is right.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "trainer.h"

#define STEP_TIMES_MAX (1 << 20)

/* One operation of a step; receive buffers are separate since all are under way together. */
struct slot {
	int op;
	size_t count;			/* floats of the whole buffer */
	float *recv;
};

struct rank {
	int rank;
	ncclComm_t comm;
	ncclComm_t sub;			/* of --split */
	int sub_rank, sub_nranks;
	cudaStream_t stream;
	float *send;			/* as large as the largest slot */
	struct slot slots[SLOTS_MAX * SLOTS_MAX + 1];	/* the last: of sub */
	int nslots;
	float stop[2];			/* --seconds: rank 0's word, and what came of it */
	uint64_t bytes;
	bool verified;
};

/* A thread that drives one rank, or all of the process (--init all, group). */
struct driver {
	struct rank *ranks;
	int n;
	pthread_t thread;
	pid_t *helpers;
	double *ms;
	int steps;
	double began, ended;
	char error[256];
};

static struct options opts;
static ncclUniqueId unique_id;

static double clock_ms(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

double now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

void sleep_ms(double ms)
{
	struct timespec t = { ms / 1e3, fmod(ms, 1e3) * 1e6 };

	while (ms > 0 && nanosleep(&t, &t) && errno == EINTR)
		;
}

static int fail(struct driver *d, const char *what, ncclResult_t result)
{
	const char *text = nccl.ncclGetErrorString(result);
	const char *last = nccl.ncclGetLastError ? nccl.ncclGetLastError(NULL) : "";

	snprintf(d->error, sizeof(d->error), "%s: %d %s; %s", what, result, text, last);
	fprintf(stderr, "trainer: rank %d: %s\n", d->ranks[0].rank, d->error);
	return -EIO;
}

/* JSON's null where nothing was looked at: that is not a success. */
static const char *verified_text(const struct rank *r, bool failed)
{
	if (!failed && !opts.verify_every)
		return "null";
	return r->verified && !failed ? "true" : "false";
}

/* Small integers: their sums are exact in any order. */
static float pattern(int rank, size_t i, int step)
{
	return (float)((rank * 7 + i * 3 + step * 11) % 61);
}

static float pattern_sum(int nranks, size_t i, int step)
{
	float sum = 0;

	for (int r = 0; r < nranks; r++)
		sum += pattern(r, i, step);
	return sum;
}

/* The part of the buffer that one rank of n has. */
static size_t share(const struct slot *s, int n)
{
	return s->count / n;
}

static ncclResult_t do_allreduce(struct rank *r, struct slot *s)
{
	return nccl.ncclAllReduce(r->send, s->recv, s->count, ncclFloat32, ncclSum, r->comm,
				  r->stream);
}

static ncclResult_t do_allgather(struct rank *r, struct slot *s)
{
	return nccl.ncclAllGather(r->send, s->recv, share(s, opts.nranks), ncclFloat32, r->comm,
				  r->stream);
}

static ncclResult_t do_reducescatter(struct rank *r, struct slot *s)
{
	return nccl.ncclReduceScatter(r->send, s->recv, share(s, opts.nranks), ncclFloat32,
				      ncclSum, r->comm, r->stream);
}

static ncclResult_t do_broadcast(struct rank *r, struct slot *s)
{
	return nccl.ncclBroadcast(r->send, s->recv, s->count, ncclFloat32, 0, r->comm, r->stream);
}

static ncclResult_t do_reduce(struct rank *r, struct slot *s)
{
	return nccl.ncclReduce(r->send, s->recv, s->count, ncclFloat32, ncclSum, 0, r->comm,
			       r->stream);
}

static ncclResult_t do_sendrecv(struct rank *r, struct slot *s)
{
	int next = (r->rank + 1) % opts.nranks, prev = (r->rank + opts.nranks - 1) % opts.nranks;
	ncclResult_t a, b, c;

	nccl.ncclGroupStart();
	a = nccl.ncclSend(r->send, s->count, ncclFloat32, next, r->comm, r->stream);
	b = nccl.ncclRecv(s->recv, s->count, ncclFloat32, prev, r->comm, r->stream);
	c = nccl.ncclGroupEnd();
	return a != ncclSuccess ? a : b != ncclSuccess ? b : c;
}

static ncclResult_t do_alltoall(struct rank *r, struct slot *s)
{
	return nccl.ncclAlltoAll(r->send, s->recv, share(s, opts.nranks), ncclFloat32, r->comm,
				 r->stream);
}

static float want_sum(const struct rank *r, const struct slot *s, size_t i, int step)
{
	(void)r, (void)s;
	return pattern_sum(opts.nranks, i, step);
}

static float want_allgather(const struct rank *r, const struct slot *s, size_t i, int step)
{
	size_t n = share(s, opts.nranks);

	(void)r;
	return pattern(i / n, i % n, step);
}

static float want_reducescatter(const struct rank *r, const struct slot *s, size_t i, int step)
{
	return pattern_sum(opts.nranks, r->rank * share(s, opts.nranks) + i, step);
}

static float want_broadcast(const struct rank *r, const struct slot *s, size_t i, int step)
{
	(void)r, (void)s;
	return pattern(0, i, step);
}

static float want_sendrecv(const struct rank *r, const struct slot *s, size_t i, int step)
{
	(void)s;
	return pattern((r->rank + opts.nranks - 1) % opts.nranks, i, step);
}

static float want_alltoall(const struct rank *r, const struct slot *s, size_t i, int step)
{
	size_t n = share(s, opts.nranks);

	return pattern(i / n, r->rank * n + i % n, step);
}

enum extent { WHOLE, SHARES, SHARE, ROOT };

/* In the order of train_op_names. */
static const struct train_op {
	ncclResult_t (*run)(struct rank *r, struct slot *s);
	float (*want)(const struct rank *r, const struct slot *s, size_t i, int step);
	enum extent extent;		/* of the result */
} train_ops[] = {
	{ do_allreduce, want_sum, WHOLE },
	{ do_allgather, want_allgather, SHARES },
	{ do_reducescatter, want_reducescatter, SHARE },
	{ do_broadcast, want_broadcast, WHOLE },
	{ do_reduce, want_sum, ROOT },
	{ do_sendrecv, want_sendrecv, WHOLE },
	{ do_alltoall, want_alltoall, SHARES },
};

static size_t result_count(const struct rank *r, const struct slot *s)
{
	size_t n = share(s, opts.nranks);
	const size_t counts[] = { [WHOLE] = s->count, [SHARES] = n * opts.nranks, [SHARE] = n,
				  [ROOT] = r->rank ? 0 : s->count };

	return counts[train_ops[s->op].extent];
}

static bool slot_verify(struct rank *r, const struct slot *s, int step)
{
	size_t n = result_count(r, s);

	for (size_t i = 0; i < n; i++) {
		float want = train_ops[s->op].want(r, s, i, step);

		if (s->recv[i] == want)
			continue;
		fprintf(stderr, "trainer: rank %d step %d: %s of %zu: [%zu] is %g, not %g\n",
			r->rank, step, train_op_names[s->op], s->count, i, s->recv[i], want);
		return false;
	}
	return true;
}

/* The members of a colour are its ranks in order: rank = color + i * split. */
static bool sub_verify(struct rank *r, const struct slot *s, int step)
{
	for (size_t i = 0; i < s->count; i++) {
		float want = 0;

		for (int m = r->rank % opts.split; m < opts.nranks; m += opts.split)
			want += pattern(m, i, step);
		if (s->recv[i] == want)
			continue;
		fprintf(stderr, "trainer: rank %d step %d: split allreduce: [%zu] is %g, not %g\n",
			r->rank, step, i, s->recv[i], want);
		return false;
	}
	return true;
}

static bool verify_now(int step)
{
	return opts.verify_every && step % opts.verify_every == 0;
}

static void step_fill(struct rank *r, int step)
{
	size_t n = 0;

	for (int i = 0; i < r->nslots; i++)
		n = r->slots[i].count > n ? r->slots[i].count : n;
	for (size_t i = 0; i < n; i++)
		r->send[i] = pattern(r->rank, i, step);
}

static void step_verify(struct rank *r, int step)
{
	for (int i = 0; i < r->nslots; i++)
		r->verified &= slot_verify(r, &r->slots[i], step);
	if (opts.split)
		r->verified &= sub_verify(r, &r->slots[r->nslots], step);
}

static void fault_stall(struct rank *r)
{
	(void)r;
	do
		sleep_ms(opts.stall_s ? opts.stall_s * 1e3 : 3600e3);
	while (!opts.stall_s);
}

static void fault_exit(struct rank *r)
{
	(void)r;
	_exit(opts.exit_code);
}

static void fault_signal(struct rank *r)
{
	(void)r;
	kill(getpid(), opts.signal);
}

static void fault_warn(struct rank *r)
{
	if (opts.warn_text && nccl.ftWarn)
		nccl.ftWarn(opts.warn_text);
	else
		nccl.ncclAllReduce(r->send, r->send, 1, 99, ncclSum, r->comm, r->stream);
}

static void (*const faults[FAULT_KINDS])(struct rank *r) = {
	[FAULT_STALL] = fault_stall,	[FAULT_EXIT] = fault_exit,
	[FAULT_SIGNAL] = fault_signal,	[FAULT_WARN] = fault_warn,
};

/* What the rank does before its collectives: its work, and what goes wrong. */
static void step_compute(struct driver *d, int step)
{
	double ms = opts.compute_ms;

	for (int i = 0; i < d->n; i++) {
		struct rank *r = &d->ranks[i];

		if (opts.delay_ms && step >= opts.delay_from)
			ms += opts.delay_ms[r->rank];
		for (int k = 0; k < FAULT_KINDS; k++)
			if (opts.faults[k].at == step && opts.faults[k].rank == r->rank)
				faults[k](r);
		if (verify_now(step))
			step_fill(r, step);
	}
	sleep_ms(ms);
}

static ncclResult_t each_rank(struct driver *d, ncclResult_t (*fn)(struct rank *, struct slot *),
			      int slot)
{
	ncclResult_t end, result = ncclSuccess;

	if (d->n > 1)
		nccl.ncclGroupStart();
	for (int i = 0; i < d->n && result == ncclSuccess; i++)
		result = fn(&d->ranks[i], &d->ranks[i].slots[slot]);
	end = d->n > 1 ? nccl.ncclGroupEnd() : ncclSuccess;
	return result != ncclSuccess ? result : end;
}

static ncclResult_t do_sub(struct rank *r, struct slot *s)
{
	return nccl.ncclAllReduce(r->send, s->recv, s->count, ncclFloat32, ncclSum, r->sub,
				  r->stream);
}

static ncclResult_t do_stop(struct rank *r, struct slot *s)
{
	(void)s;
	return nccl.ncclBroadcast(&r->stop[0], &r->stop[1], 1, ncclFloat32, 0, r->comm, r->stream);
}

static uint64_t step_bytes(const struct rank *r)
{
	uint64_t bytes = 0;

	for (int i = 0; i < r->nslots + !!opts.split; i++)
		bytes += r->slots[i].count * sizeof(float);
	return bytes;
}

static ncclResult_t step_enqueue(struct driver *d, int step)
{
	ncclResult_t end, result = ncclSuccess;

	if (opts.group)
		nccl.ncclGroupStart();
	for (int i = 0; i < d->ranks[0].nslots && result == ncclSuccess; i++)
		result = each_rank(d, train_ops[d->ranks[0].slots[i].op].run, i);
	if (result == ncclSuccess && opts.split)
		result = each_rank(d, do_sub, d->ranks[0].nslots);
	end = opts.group ? nccl.ncclGroupEnd() : ncclSuccess;
	result = result != ncclSuccess ? result : end;
	for (int i = 0; i < d->n; i++)
		d->ranks[i].bytes += step_bytes(&d->ranks[i]);
	if (result != ncclSuccess || !opts.seconds)
		return result;
	for (int i = 0; i < d->n; i++)
		d->ranks[i].stop[0] = now_ms() - d->began >= opts.seconds * 1e3 ? step : -1;
	return each_rank(d, do_stop, 0);
}

static int step_sync(struct driver *d)
{
	ncclResult_t result = ncclSuccess;

	for (int i = 0; i < d->n; i++)
		nccl.ftStreamSynchronize(d->ranks[i].stream);
	for (int i = 0; i < d->n; i++) {
		nccl.ncclCommGetAsyncError(d->ranks[i].comm, &result);
		if (result == ncclSuccess && d->ranks[i].sub)
			nccl.ncclCommGetAsyncError(d->ranks[i].sub, &result);
		if (result != ncclSuccess)
			return fail(d, "asynchronous error", result);
	}
	return 0;
}

/* 1: the last step. */
static int step_run(struct driver *d, int step)
{
	bool last = !opts.seconds && step == opts.steps - 1, stop = false;
	double start = now_ms();
	ncclResult_t result;
	int err;

	step_compute(d, step);
	result = step_enqueue(d, step);
	if (result != ncclSuccess)
		return fail(d, "collective", result);
	if (opts.seconds || last || verify_now(step) || step % opts.sync_every == 0) {
		err = step_sync(d);
		if (err)
			return err;
		stop = opts.seconds && d->ranks[0].stop[1] == step;
	}
	d->ms[step % STEP_TIMES_MAX] = now_ms() - start;
	for (int i = 0; i < d->n && verify_now(step); i++)
		step_verify(&d->ranks[i], step);
	if (opts.print_step)
		printf("step %d rank %d t %.6f ms %.3f\n", step, d->ranks[0].rank,
		       clock_ms(CLOCK_REALTIME) / 1e3, d->ms[step % STEP_TIMES_MAX]);
	return last || stop;
}

static void hold(bool at_init)
{
	while (opts.start_file && opts.hold_init == at_init && access(opts.start_file, F_OK))
		sleep_ms(20);
}

static ncclResult_t init_one(struct rank *r)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	if (opts.init == INIT_CONFIG)
		return nccl.ncclCommInitRankConfig(&r->comm, opts.nranks, unique_id, r->rank,
						   &config);
	if (opts.init == INIT_SCALABLE)
		return nccl.ncclCommInitRankScalable(&r->comm, opts.nranks, r->rank, 1, &unique_id,
						     &config);
	return nccl.ncclCommInitRank(&r->comm, opts.nranks, unique_id, r->rank);
}

static ncclResult_t init_all(struct driver *d)
{
	ncclComm_t *comms = calloc(d->n, sizeof(*comms));
	ncclResult_t result = comms ? nccl.ncclCommInitAll(comms, d->n, NULL) : ncclSystemError;

	for (int i = 0; i < d->n && comms; i++)
		d->ranks[i].comm = comms[i];
	free(comms);
	return result;
}

/* Each rank of the process has a device of its own, as with cudaSetDevice. */
static void device_choose(const struct rank *r)
{
	const char *local = getenv("LOCAL_RANK");

	if (nccl.ftSetDevice)
		nccl.ftSetDevice((local ? atoi(local) * opts.threads : opts.rank) + r->rank -
				 opts.rank);
}

static ncclResult_t driver_init(struct driver *d)
{
	ncclResult_t end, result = ncclSuccess;

	if (opts.init == INIT_ALL)
		return init_all(d);
	if (opts.init == INIT_GROUP)
		nccl.ncclGroupStart();
	for (int i = 0; i < d->n && result == ncclSuccess; i++) {
		device_choose(&d->ranks[i]);
		result = init_one(&d->ranks[i]);
	}
	end = opts.init == INIT_GROUP ? nccl.ncclGroupEnd() : ncclSuccess;
	return result != ncclSuccess ? result : end;
}

static ncclResult_t driver_split(struct driver *d)
{
	ncclResult_t end, result = ncclSuccess;

	nccl.ncclGroupStart();
	for (int i = 0; i < d->n && result == ncclSuccess; i++) {
		struct rank *r = &d->ranks[i];

		result = nccl.ncclCommSplit(r->comm, r->rank % opts.split, r->rank, &r->sub, NULL);
	}
	end = nccl.ncclGroupEnd();
	return result != ncclSuccess ? result : end;
}

static int slot_add(struct slot *s, int op, size_t bytes)
{
	*s = (struct slot){ .op = op, .count = bytes / sizeof(float) };
	s->recv = calloc(s->count + 1, sizeof(float));
	return s->recv ? 0 : -ENOMEM;
}

static int rank_setup(struct rank *r, int number)
{
	size_t largest = 0;
	int err = 0;

	r->rank = number;
	r->verified = true;
	r->stop[1] = -1;
	/* Not the default stream: each rank of a process is to be waited for on its own. */
	r->stream = (cudaStream_t)(uintptr_t)(number + 1);
	for (int i = 0; i < opts.nsizes; i++)
		largest = opts.sizes[i] > largest ? opts.sizes[i] : largest;
	r->send = calloc(largest / sizeof(float) + 1, sizeof(float));
	for (int i = 0; i < opts.nops; i++)
		for (int j = 0; j < opts.nsizes; j++)
			err |= slot_add(&r->slots[r->nslots++], opts.ops[i], opts.sizes[j]);
	if (opts.split)
		err |= slot_add(&r->slots[r->nslots], 0, opts.sizes[0]);
	return err || !r->send ? -ENOMEM : 0;
}

static void rank_free(struct rank *r)
{
	for (int i = 0; i < r->nslots + !!opts.split; i++)
		free(r->slots[i].recv);
	free(r->send);
}

/* Like a data loader's worker: has all that its parent has, uses none of it. */
static void __attribute__((noreturn)) helper_main(pid_t parent)
{
	prctl(PR_SET_NAME, "pt_data_worker");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	for (;;) {
		for (volatile int i = 0; i < 100000; i++)
			;
		usleep(20000);
	}
}

static void helpers_start(struct driver *d)
{
	pid_t parent = getpid();
	int n = opts.helpers * d->n;

	d->helpers = calloc(n + 1, sizeof(*d->helpers));
	for (int i = 0; i < n && d->helpers; i++) {
		d->helpers[i] = fork();
		if (!d->helpers[i])
			helper_main(parent);
	}
}

static void helpers_stop(struct driver *d)
{
	for (int i = 0; d->helpers && i < opts.helpers * d->n; i++) {
		if (d->helpers[i] <= 0)
			continue;
		kill(d->helpers[i], SIGKILL);
		waitpid(d->helpers[i], NULL, 0);
	}
	free(d->helpers);
}

static int cmp_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void json_print(struct driver *d)
{
	int n = d->steps < STEP_TIMES_MAX ? d->steps : STEP_TIMES_MAX;
	double median = 0, p99 = 0;

	if (n) {
		qsort(d->ms, n, sizeof(*d->ms), cmp_double);
		median = d->ms[(n - 1) / 2];
		p99 = d->ms[(int)ceil(n * 0.99) - 1];
	}
	for (char *p = d->error; *p; p++)
		if (*p == '"' || *p == '\\' || (unsigned char)*p < 32)
			*p = '\'';
	for (int i = 0; i < d->n; i++) {
		const struct rank *r = &d->ranks[i];

		printf("{\"rank\":%d,\"nranks\":%d,\"pid\":%d,\"steps\":%d,\"bytes\":%llu,"
		       "\"seconds\":%.6f,\"step_ms_median\":%.3f,\"step_ms_p99\":%.3f,"
		       "\"verified\":%s,\"error\":%s%s%s}\n",
		       r->rank, opts.nranks, getpid(), d->steps, (unsigned long long)r->bytes,
		       (d->ended - d->began) / 1e3, median, p99,
		       verified_text(r, *d->error), *d->error ? "\"" : "",
		       *d->error ? d->error : "null", *d->error ? "\"" : "");
	}
}

static int driver_train(struct driver *d)
{
	double start = now_ms();
	ncclResult_t result = driver_init(d);
	int r = 0;

	if (result == ncclSuccess && opts.split)
		result = driver_split(d);
	if (result != ncclSuccess)
		return fail(d, "init", result);
	if (opts.print_step)
		printf("init rank %d nranks %d ms %.3f\n", d->ranks[0].rank, opts.nranks,
		       now_ms() - start);
	helpers_start(d);
	hold(false);
	d->began = now_ms();
	while (!r) {
		r = step_run(d, d->steps);
		d->steps += r >= 0;
	}
	d->ended = now_ms();
	return r < 0 ? r : 0;
}

static void comm_end(ncclComm_t comm, bool failed)
{
	if (comm && failed)
		nccl.ncclCommAbort(comm);
	else if (comm)
		nccl.ncclCommDestroy(comm);
}

static void *driver_main(void *arg)
{
	struct driver *d = arg;
	int err = driver_train(d);

	for (int i = 0; i < d->n; i++) {
		comm_end(d->ranks[i].sub, err);
		comm_end(d->ranks[i].comm, err);
	}
	helpers_stop(d);
	json_print(d);
	return NULL;
}

/* For a real libnccl on a machine without GPUs as well: only what needs no stand-in for CUDA. */
static int init_only(struct rank *r)
{
	struct driver d = { .ranks = r, .n = 1 };
	ncclResult_t result;
	int version = 0;

	nccl.ncclGetVersion(&version);
	result = driver_init(&d);
	printf("{\"rank\":%d,\"nranks\":%d,\"pid\":%d,\"version\":%d,\"result\":%d,"
	       "\"text\":\"%s\"}\n", r->rank, opts.nranks, getpid(), version, result,
	       nccl.ncclGetErrorString(result));
	if (result == ncclSuccess)
		nccl.ncclCommDestroy(r->comm);
	return 0;
}

/* Alone when all ranks are here; --init-only does not insist on company either. */
static int id_get(void)
{
	bool alone = opts.threads >= opts.nranks || (opts.init_only && !getenv("MASTER_PORT"));
	ncclResult_t result;

	if (opts.init == INIT_ALL)
		return 0;
	if (opts.rank && !alone)
		return id_fetch(&unique_id);
	result = nccl.ncclGetUniqueId(&unique_id);
	if (result != ncclSuccess) {
		fprintf(stderr, "trainer: ncclGetUniqueId: %s\n", nccl.ncclGetErrorString(result));
		return opts.init_only ? 0 : -EIO;
	}
	return alone ? 0 : id_serve(&unique_id);
}

static int drivers_run(struct rank *ranks)
{
	bool one = opts.init == INIT_ALL || opts.init == INIT_GROUP;
	int n = one ? 1 : opts.threads, bad = 0;
	struct driver *d = calloc(n, sizeof(*d));

	if (!d)
		return -ENOMEM;
	for (int i = 0; i < n; i++) {
		d[i].ranks = &ranks[i];
		d[i].n = one ? opts.threads : 1;
		d[i].ms = malloc(STEP_TIMES_MAX * sizeof(*d[i].ms));
		if (i && (!d[i].ms || pthread_create(&d[i].thread, NULL, driver_main, &d[i])))
			return -ENOMEM;
	}
	driver_main(&d[0]);
	for (int i = 0; i < n; i++) {
		if (i)
			pthread_join(d[i].thread, NULL);
		bad += !!*d[i].error;
		free(d[i].ms);
	}
	free(d);
	return bad ? -EIO : 0;
}

static int run(void)
{
	struct rank *ranks = calloc(opts.threads, sizeof(*ranks));
	int err = ranks ? 0 : -ENOMEM;

	for (int i = 0; i < opts.threads && !err; i++)
		err = rank_setup(&ranks[i], opts.rank + i);
	if (!err)
		err = id_get();
	if (!err)
		err = opts.init_only ? init_only(ranks) : drivers_run(ranks);
	for (int i = 0; i < opts.threads && ranks; i++) {
		err = err || !ranks[i].verified ? -EIO : 0;
		rank_free(&ranks[i]);
	}
	free(ranks);
	return err;
}

int main(int argc, char **argv)
{
	if (options_parse(&opts, argc, argv)) {
		fprintf(stderr, "trainer: ranks, threads or steps out of range: see --help\n");
		return 64;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (nccl_late) {
		sleep_ms(opts.library_after_ms);
		if (nccl_load(opts.library))
			return 1;
	}
	hold(true);
	if (!opts.init_only && !nccl.ftStreamSynchronize) {
		fprintf(stderr, "trainer: this libnccl needs CUDA: only --init-only works\n");
		return 69;
	}
	return run() ? 1 : 0;
}

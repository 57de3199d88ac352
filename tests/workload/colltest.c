/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Tests of the test libnccl by its public interface, in TAP: every collective with every type and
 * operation, splits, groups, errors. Ranks are threads here; processes are test.sh's part.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl.h"

#define RANKS 3
/* Not a multiple of the ranks, and more than one chunk for the wide types. */
#define COUNT 70001

struct ctx {
	int rank;
	ncclComm_t comm;
	cudaStream_t stream;
	bool ok;
	int (*fn)(struct ctx *c);
	pthread_t thread;
};

static ncclUniqueId id;
static int test_number, test_failures;

static void report(bool ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++test_number, name);
	test_failures += !ok;
}

#define CHECK(cond)									\
	do {										\
		if (!(cond)) {								\
			printf("# %s:%d: %s\n", __FILE__, __LINE__, #cond);		\
			return -1;							\
		}									\
	} while (0)

static double half_get(uint16_t h)
{
	int exp = h >> 10 & 31, man = h & 0x3ff;
	double v = exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24);

	return h & 0x8000 ? -v : v;
}

static double bf16_get(uint16_t h)
{
	uint32_t bits = (uint32_t)h << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

/* Small positive integers, exact in each type. */
static uint16_t half_put(double v)
{
	int exp;
	double m = frexp(v, &exp);

	return v ? (exp + 14) << 10 | ((int)(m * 2048) & 0x3ff) : 0;
}

static uint16_t bf16_put(double v)
{
	float f = v;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits >> 16;
}

#define TYPE(id, T)									\
	static double id##_get(const void *p, size_t i) { return ((const T *)p)[i]; }	\
	static void id##_put(void *p, size_t i, double v) { ((T *)p)[i] = v; }
TYPE(i8, int8_t)
TYPE(u8, uint8_t)
TYPE(i32, int32_t)
TYPE(u32, uint32_t)
TYPE(i64, int64_t)
TYPE(u64, uint64_t)
TYPE(f32, float)
TYPE(f64, double)

static double f16_at(const void *p, size_t i)
{
	return half_get(((const uint16_t *)p)[i]);
}

static void f16_set(void *p, size_t i, double v)
{
	((uint16_t *)p)[i] = half_put(v);
}

static double b16_at(const void *p, size_t i)
{
	return bf16_get(((const uint16_t *)p)[i]);
}

static void b16_set(void *p, size_t i, double v)
{
	((uint16_t *)p)[i] = bf16_put(v);
}

static const struct type {
	size_t size;
	double (*get)(const void *p, size_t i);
	void (*put)(void *p, size_t i, double v);
	bool integer;
} types[] = {
	[ncclInt8] = { 1, i8_get, i8_put, true },
	[ncclUint8] = { 1, u8_get, u8_put, true },
	[ncclInt32] = { 4, i32_get, i32_put, true },
	[ncclUint32] = { 4, u32_get, u32_put, true },
	[ncclInt64] = { 8, i64_get, i64_put, true },
	[ncclUint64] = { 8, u64_get, u64_put, true },
	[ncclFloat16] = { 2, f16_at, f16_set, false },
	[ncclFloat32] = { 4, f32_get, f32_put, false },
	[ncclFloat64] = { 8, f64_get, f64_put, false },
	[ncclBfloat16] = { 2, b16_at, b16_set, false },
};

/* At most 5: the product of three fits a signed byte. */
static double value(int rank, size_t i)
{
	return (rank + i) % 5 + 1;
}

static double reduced(size_t i, ncclRedOp_t op, bool integer)
{
	double v = value(0, i);

	for (int r = 1; r < RANKS; r++) {
		double x = value(r, i);
		const double next[] = {
			[ncclSum] = v + x, [ncclProd] = v * x, [ncclMax] = fmax(v, x),
			[ncclMin] = fmin(v, x), [ncclAvg] = v + x,
		};

		v = next[op];
	}
	if (op == ncclAvg)
		v = integer ? floor(v / RANKS) : v / RANKS;
	return v;
}

static bool same(double got, double want)
{
	return fabs(got - want) <= fabs(want) / 100;
}

struct bufs {
	const struct type *t;
	char *send, *recv;
};

static void bufs_fill(const struct bufs *b, int rank, size_t n)
{
	for (size_t i = 0; i < n; i++)
		b->t->put(b->send, i, value(rank, i));
	memset(b->recv, 0, n * b->t->size);
}

static int reductions(struct ctx *c, const struct bufs *b, ncclDataType_t dtype, ncclRedOp_t op)
{
	const struct type *t = b->t;

	bufs_fill(b, c->rank, COUNT * RANKS);
	CHECK(!ncclAllReduce(b->send, b->recv, COUNT, dtype, op, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < COUNT; i++)
		CHECK(same(t->get(b->recv, i), reduced(i, op, t->integer)));
	memset(b->recv, 0, COUNT * t->size);
	CHECK(!ncclReduce(b->send, b->recv, COUNT, dtype, op, 1, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < COUNT && c->rank == 1; i++)
		CHECK(same(t->get(b->recv, i), reduced(i, op, t->integer)));
	CHECK(!ncclReduceScatter(b->send, b->recv, COUNT, dtype, op, c->comm, c->stream));
	/* In place, too, and behind the others on the same stream. */
	CHECK(!ncclAllReduce(b->send, b->send, COUNT * RANKS, dtype, op, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < COUNT; i++)
		CHECK(same(t->get(b->recv, i),
			   reduced(c->rank * (size_t)COUNT + i, op, t->integer)));
	for (size_t i = 0; i < COUNT * RANKS; i++)
		CHECK(same(t->get(b->send, i), reduced(i, op, t->integer)));
	return 0;
}

static int test_reductions(struct ctx *c)
{
	struct bufs b = { .send = malloc(COUNT * RANKS * 8), .recv = malloc(COUNT * RANKS * 8) };
	int err = b.send && b.recv ? 0 : -1;

	for (int d = ncclInt8; d <= ncclBfloat16 && !err; d++) {
		b.t = &types[d];
		for (int op = ncclSum; op <= ncclAvg && !err; op++)
			err = reductions(c, &b, d, op);
		if (err)
			printf("# type %d\n", d);
	}
	free(b.send);
	free(b.recv);
	return err;
}

static int moves(struct ctx *c, const struct bufs *b)
{
	uint32_t *send = (void *)b->send, *recv = (void *)b->recv;
	size_t n = COUNT;

	for (size_t i = 0; i < n * RANKS; i++)
		send[i] = c->rank << 24 | i;
	CHECK(!ncclAllGather(send, recv, n, ncclUint32, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < n * RANKS; i++)
		CHECK(recv[i] == (i / n << 24 | i % n));
	CHECK(!ncclAlltoAll(send, recv, n, ncclUint32, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < n * RANKS; i++)
		CHECK(recv[i] == (i / n << 24 | (c->rank * n + i % n)));
	CHECK(!ncclGather(send, recv, n, ncclUint32, 2, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < n * RANKS && c->rank == 2; i++)
		CHECK(recv[i] == (i / n << 24 | i % n));
	CHECK(!ncclScatter(send, recv, n, ncclUint32, 1, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < n; i++)
		CHECK(recv[i] == (1 << 24 | (c->rank * n + i)));
	for (int root = 0; root < RANKS; root++) {
		CHECK(!ncclBroadcast(send, recv, n, ncclUint32, root, c->comm, c->stream));
		ftStreamSynchronize(c->stream);
		for (size_t i = 0; i < n; i++)
			CHECK(recv[i] == ((uint32_t)root << 24 | i));
	}
	CHECK(!ncclBcast(send, n, ncclUint32, 1, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	for (size_t i = 0; i < n; i++)
		CHECK(send[i] == (1 << 24 | i));
	return 0;
}

static int test_moves(struct ctx *c)
{
	struct bufs b = { .send = malloc(COUNT * RANKS * 4), .recv = malloc(COUNT * RANKS * 4) };
	int err = moves(c, &b);

	free(b.send);
	free(b.recv);
	return err;
}

/* A group of sends and receives in no helpful order, one to itself, fused with a collective. */
static int test_group(struct ctx *c)
{
	enum { N = 300000 };
	int next = (c->rank + 1) % RANKS, prev = (c->rank + RANKS - 1) % RANKS;
	int *send = malloc(N * sizeof(int)), *recv = calloc(3 * N, sizeof(int)), sum[2] = { 1, 0 };
	bool ok = true;

	for (int i = 0; i < N; i++)
		send[i] = c->rank * N + i;
	ncclGroupStart();
	ok &= !ncclRecv(recv, N, ncclInt32, next, c->comm, c->stream);
	ok &= !ncclRecv(recv + N, N, ncclInt32, prev, c->comm, c->stream);
	ok &= !ncclAllReduce(&sum[0], &sum[1], 1, ncclInt32, ncclSum, c->comm, c->stream);
	ok &= !ncclSend(send, N, ncclInt32, c->rank, c->comm, c->stream);
	ok &= !ncclRecv(recv + 2 * N, N, ncclInt32, c->rank, c->comm, c->stream);
	ok &= !ncclSend(send, N / 2, ncclInt32, next, c->comm, c->stream);
	ok &= !ncclSend(send + N / 2, N / 2, ncclInt32, next, c->comm, c->stream);
	ok &= !ncclSend(send, N, ncclInt32, prev, c->comm, c->stream);
	ok &= !ncclGroupEnd();
	ftStreamSynchronize(c->stream);
	for (int i = 0; i < N; i++)
		ok &= recv[i] == next * N + i && recv[N + i] == prev * N + i &&
		      recv[2 * N + i] == c->rank * N + i;
	ok &= sum[1] == RANKS;
	free(send);
	free(recv);
	return ok ? 0 : -1;
}

/* {0, 2} in reverse order and {1}; then two streams whose order is that of the calls. */
static int test_split(struct ctx *c)
{
	ncclComm_t sub = NULL, none = c->comm;
	int n, rank, sum = -1, in = c->rank, again[2] = { 0 };

	CHECK(!ncclCommSplit(c->comm, c->rank % 2, -c->rank, &sub, NULL));
	CHECK(!ncclCommCount(sub, &n) && n == (c->rank % 2 ? 1 : 2));
	CHECK(!ncclCommUserRank(sub, &rank) && rank == (c->rank == 0));
	CHECK(!ncclAllReduce(&in, &sum, 1, ncclInt32, ncclSum, sub, c->stream));
	CHECK(!ncclAllReduce(&in, &again[0], 1, ncclInt32, ncclSum, c->comm, c->stream + 100));
	CHECK(!ncclAllReduce(&in, &again[1], 1, ncclInt32, ncclMax, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	CHECK(sum == (c->rank % 2 ? 1 : 2) && again[0] == 3 && again[1] == 2);
	CHECK(!ncclCommSplit(c->comm, c->rank == 1 ? NCCL_SPLIT_NOCOLOR : 0, 0, &none, NULL));
	CHECK(!none == (c->rank == 1));
	CHECK(!ncclCommDestroy(sub) && !ncclCommDestroy(none));
	return 0;
}

static int test_accessors(struct ctx *c)
{
	int v;

	CHECK(!ncclCommCount(c->comm, &v) && v == RANKS);
	CHECK(!ncclCommUserRank(c->comm, &v) && v == c->rank);
	CHECK(!ncclCommCuDevice(c->comm, &v) && v == c->rank);
	CHECK(!ncclGetVersion(&v) && v == 22809);
	/* As a tracer reads them from outside. */
	CHECK(*(int *)((char *)c->comm + 1066192) == c->rank);
	CHECK(*(int *)((char *)c->comm + 1066196) == RANKS);
	CHECK(*(uint64_t *)(void *)c->comm == 0x0280028002800280ull);
	return 0;
}

static int test_errors(struct ctx *c)
{
	float x = 0;

	CHECK(ncclAllReduce(&x, &x, 1, 99, ncclSum, c->comm, c->stream) == ncclInvalidArgument);
	CHECK(ncclAllReduce(&x, &x, 1, ncclFloat32, 9, c->comm, c->stream) == ncclInvalidArgument);
	CHECK(ncclAllReduce(&x, &x, 1, ncclFloat8e4m3, ncclSum, c->comm, c->stream) ==
	      ncclInvalidArgument);
	CHECK(ncclBroadcast(&x, &x, 1, ncclFloat32, RANKS, c->comm, c->stream) ==
	      ncclInvalidArgument);
	CHECK(ncclAllReduce(NULL, &x, 1, ncclFloat32, ncclSum, c->comm, c->stream) ==
	      ncclInvalidArgument);
	CHECK(ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, NULL, c->stream) ==
	      ncclInvalidArgument);
	CHECK(ncclGroupEnd() == ncclInvalidUsage);
	/* Nothing of a group with an error runs: the others do not join this one. */
	ncclGroupStart();
	CHECK(!ncclAllReduce(&x, &x, 1, ncclFloat32, ncclSum, c->comm, c->stream));
	CHECK(ncclSend(&x, 1, ncclFloat32, -1, c->comm, c->stream) == ncclInvalidArgument);
	CHECK(ncclGroupEnd() == ncclInvalidArgument);
	CHECK(!ncclAllReduce(&x, &x, 0, ncclFloat32, ncclSum, c->comm, c->stream));
	ftStreamSynchronize(c->stream);
	return 0;
}

/* The last two ranks leave the first out, whose communicator was revoked under a collective. */
static int test_shrink(struct ctx *c)
{
	ncclComm_t small = NULL;
	int excl = 0, n, in = 1, out = 0;
	ncclResult_t result;

	if (!c->rank)
		return 0;
	CHECK(!ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, c->comm, c->stream));
	usleep(50000);
	CHECK(!ncclCommRevoke(c->comm, 0));
	ftStreamSynchronize(c->stream);
	CHECK(!ncclCommGetAsyncError(c->comm, &result) && result != ncclSuccess);
	CHECK(ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, c->comm, c->stream) != ncclSuccess);
	CHECK(!ncclCommShrink(c->comm, &excl, 1, &small, NULL, NCCL_SHRINK_ABORT));
	CHECK(!ncclCommCount(small, &n) && n == RANKS - 1);
	CHECK(!ncclAllReduce(&in, &out, 1, ncclInt32, ncclSum, small, c->stream));
	ftStreamSynchronize(c->stream);
	CHECK(out == RANKS - 1);
	return ncclCommDestroy(small);
}

static void *rank_main(void *arg)
{
	struct ctx *c = arg;

	c->ok = !c->fn(c);
	return NULL;
}

static void on_all(struct ctx *ctx, int (*fn)(struct ctx *c), const char *name)
{
	bool ok = true;

	for (int i = 0; i < RANKS; i++) {
		ctx[i].fn = fn;
		pthread_create(&ctx[i].thread, NULL, rank_main, &ctx[i]);
	}
	for (int i = 0; i < RANKS; i++) {
		pthread_join(ctx[i].thread, NULL);
		ok &= ctx[i].ok;
	}
	report(ok, name);
}

static int init_rank(struct ctx *c)
{
	c->stream = (cudaStream_t)(uintptr_t)(c->rank + 1);
	ftSetDevice(c->rank);
	return ncclCommInitRank(&c->comm, RANKS, id, c->rank);
}

/* One thread, the default stream, calls that return before the ranks have met. */
static int test_init_all(void)
{
	ncclComm_t comms[RANKS];
	int in[RANKS] = { 1, 2, 3 }, out[RANKS] = { 0 };

	CHECK(!ncclCommInitAll(comms, RANKS, NULL));
	for (int i = 0; i < RANKS; i++)
		CHECK(!ncclAllReduce(&in[i], &out[i], 1, ncclInt32, ncclSum, comms[i], NULL));
	ftStreamSynchronize(NULL);
	for (int i = 0; i < RANKS; i++)
		CHECK(out[i] == 6 && !ncclCommDestroy(comms[i]));
	return 0;
}

static int test_group_init(void)
{
	ncclComm_t comms[2];
	int dup[2] = { 0, 0 };

	CHECK(!ncclGetUniqueId(&id));
	ncclGroupStart();
	for (int i = 0; i < 2; i++)
		CHECK(!ncclCommInitRank(&comms[i], 2, id, i) && comms[i]);
	CHECK(!ncclGroupEnd());
	CHECK(!ncclCommDestroy(comms[0]) && !ncclCommDestroy(comms[1]));
	CHECK(ncclCommInitAll(comms, 2, dup) == ncclInvalidUsage && !comms[0] && !comms[1]);
	CHECK(strstr(ncclGetLastError(NULL), "Duplicate GPU"));
	CHECK(ncclCommInitRank(&comms[0], 2, id, 2) == ncclInvalidArgument);
	return 0;
}

/* An init whose peer never comes: in progress, and ended by the abort. */
static int test_nonblocking(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER, bad = { .size = 3 };
	ncclResult_t result;
	ncclComm_t comm;
	int rank;

	config.blocking = 0;
	CHECK(!ncclGetUniqueId(&id));
	CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &bad) == ncclInvalidArgument);
	CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress && comm);
	CHECK(!ncclCommGetAsyncError(comm, &result) && result == ncclInProgress);
	CHECK(!ncclCommUserRank(comm, &rank) && rank == -1);
	CHECK(ncclAllReduce(&rank, &rank, 1, ncclInt32, ncclSum, comm, NULL) ==
	      ncclInvalidArgument);
	CHECK(!ncclCommAbort(comm));
	return 0;
}

/* A collective that one rank never joins ends by the abort as well. */
static int test_abort(void)
{
	ncclComm_t comms[2];
	int x = 1;

	CHECK(!ncclCommInitAll(comms, 2, NULL));
	CHECK(!ncclAllReduce(&x, &x, 1, ncclInt32, ncclSum, comms[0], NULL));
	usleep(20000);
	CHECK(!ncclCommAbort(comms[0]) && !ncclCommDestroy(comms[1]));
	return 0;
}

int main(void)
{
	struct ctx ctx[RANKS] = { { .rank = 0 }, { .rank = 1 }, { .rank = 2 } };

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..12\n");
	report(!ncclGetUniqueId(&id), "unique id");
	on_all(ctx, init_rank, "init by rank, in threads");
	on_all(ctx, test_accessors, "accessors and memory layout");
	on_all(ctx, test_reductions, "reductions: 10 types, 5 operations, 3 collectives, in place");
	on_all(ctx, test_moves, "all-gather, all-to-all, gather, scatter, broadcast");
	on_all(ctx, test_group, "group of sends, receives and a collective");
	on_all(ctx, test_split, "split, two streams");
	on_all(ctx, test_errors, "errors");
	on_all(ctx, test_shrink, "revoke and shrink");
	for (int i = 0; i < RANKS; i++)
		ncclCommDestroy(ctx[i].comm);
	report(!test_init_all(), "init all from one thread, default stream");
	report(!test_group_init(), "init in a group, duplicate device");
	report(!test_nonblocking() && !test_abort(), "non-blocking init, abort");
	return !!test_failures;
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The collectives, on the ring rank -> rank + 1: all-reduce in 2(n-1) steps of 1/n of the data,
 * all-gather and reduce-scatter in n-1, broadcast and reduce as a chain of chunks. What is not a
 * ring is made of sends and receives that progress together.
 */
#define _GNU_SOURCE
#include <string.h>

#include "comm.h"

const char *const op_names[OP_COUNT] = {
	[OP_BROADCAST] = "Broadcast",	[OP_REDUCE] = "Reduce",
	[OP_ALLGATHER] = "AllGather",	[OP_REDUCESCATTER] = "ReduceScatter",
	[OP_ALLREDUCE] = "AllReduce",	[OP_SEND] = "Send",
	[OP_RECV] = "Recv",		[OP_ALLTOALL] = "AlltoAll",
	[OP_GATHER] = "Gather",		[OP_SCATTER] = "Scatter",
};

static size_t task_bytes(const struct task *t)
{
	return t->count * dtypes[t->dtype].size;
}

static void copy(void *to, const void *from, size_t len)
{
	if (len && to != from)
		memmove(to, from, len);
}

static int tmp_get(struct ncclComm *c, size_t len)
{
	char *p;

	if (c->tmp_cap >= len)
		return 0;
	p = realloc(c->tmp, len);
	if (!p)
		return -ENOMEM;
	c->tmp = p;
	c->tmp_cap = len;
	return 0;
}

static struct xfer ring_send(struct ncclComm *c, const void *buf, size_t len)
{
	struct conn *conn = conn_get(c, true, CONN_RING, (c->rank + 1) % c->nRanks);

	return (struct xfer){ .conn = conn, .buf = (char *)buf, .len = len };
}

/* src given: what arrives is reduced with it. */
static struct xfer ring_recv(struct ncclComm *c, const struct task *t, void *buf, size_t len,
			     const void *src)
{
	struct conn *conn = conn_get(c, false, CONN_RING, (c->rank + c->nRanks - 1) % c->nRanks);

	return (struct xfer){
		.conn = conn, .buf = buf, .len = len, .src = src,
		.fold = src ? fold_get(t->dtype, t->redop) : NULL,
		.size = src ? dtypes[t->dtype].size : 0,
	};
}

static void average(const struct ncclComm *c, const struct task *t, void *buf, size_t len)
{
	if (t->redop == ncclAvg)
		dtypes[t->dtype].div(buf, len / dtypes[t->dtype].size, c->nRanks);
}

/* Byte offset of the i-th of n segments of whole elements. */
static size_t segment(const struct ncclComm *c, const struct task *t, int i)
{
	return t->count * i / c->nRanks * dtypes[t->dtype].size;
}

static int allreduce(struct ncclComm *c, const struct task *t)
{
	const char *send = t->send;
	char *recv = t->recv;
	int n = c->nRanks, err = 0;

	for (int s = 0; s < 2 * (n - 1) && !err; s++) {
		bool reduces = s < n - 1;
		/* The second round begins with the segment that the first one completed here. */
		int out = (c->rank + 2 * n - s) % n, in = (out + n - 1) % n;
		size_t o = segment(c, t, out), i = segment(c, t, in);
		struct xfer x[] = {
			ring_send(c, (s ? recv : send) + o, segment(c, t, out + 1) - o),
			ring_recv(c, t, recv + i, segment(c, t, in + 1) - i,
				  reduces ? send + i : NULL),
		};

		err = progress(c, x, 2);
		if (s == n - 2)
			average(c, t, recv + i, segment(c, t, in + 1) - i);
	}
	return err;
}

static int allgather(struct ncclComm *c, const struct task *t)
{
	size_t bytes = task_bytes(t);
	char *recv = t->recv;
	int n = c->nRanks, err = 0;

	copy(recv + c->rank * bytes, t->send, bytes);
	for (int s = 0; s < n - 1 && !err; s++) {
		int out = (c->rank + n - s) % n, in = (out + n - 1) % n;
		struct xfer x[] = { ring_send(c, recv + out * bytes, bytes),
				    ring_recv(c, t, recv + in * bytes, bytes, NULL) };

		err = progress(c, x, 2);
	}
	return err;
}

/* buf: nRanks blocks of size bytes, of which the own one is filled in. */
int bytes_allgather(struct ncclComm *comm, void *buf, size_t size)
{
	struct task t = { .op = OP_ALLGATHER, .send = (char *)buf + comm->rank * size, .recv = buf,
			  .count = size, .dtype = ncclUint8 };

	return allgather(comm, &t);
}

static int reducescatter(struct ncclComm *c, const struct task *t)
{
	size_t bytes = task_bytes(t);
	const char *send = t->send;
	int n = c->nRanks, err = tmp_get(c, 2 * bytes);

	for (int s = 0; s < n - 1 && !err; s++) {
		int out = (c->rank + 2 * n - 1 - s) % n, in = (out + n - 1) % n;
		char *to = s == n - 2 ? t->recv : c->tmp + (s & 1) * bytes;
		const char *from = s ? c->tmp + (~s & 1) * bytes : send + out * bytes;
		struct xfer x[] = { ring_send(c, from, bytes),
				    ring_recv(c, t, to, bytes, send + in * bytes) };

		err = progress(c, x, 2);
	}
	average(c, t, t->recv, err ? 0 : bytes);
	return err;
}

/* A rank in the middle passes each chunk on while it receives the next. */
static int chain_middle(struct ncclComm *c, const struct task *t)
{
	bool reduces = t->op == OP_REDUCE;
	size_t bytes = task_bytes(t), sent = 0, got = 0;
	int err = reduces ? tmp_get(c, 2 * CHUNK) : 0;

	for (int k = 0; sent < bytes && !err; k++) {
		size_t in = min_size(bytes - got, CHUNK), out = got - sent;
		char *to = reduces ? c->tmp + (k & 1) * CHUNK : (char *)t->recv + got;
		char *from = reduces ? c->tmp + (~k & 1) * CHUNK : (char *)t->recv + sent;
		struct xfer x[] = {
			ring_send(c, from, out),
			ring_recv(c, t, to, in, reduces ? (const char *)t->send + got : NULL),
		};

		err = progress(c, x, 2);
		sent += out;
		got += in;
	}
	return err;
}

static int broadcast(struct ncclComm *c, const struct task *t)
{
	int at = (c->rank - t->root + c->nRanks) % c->nRanks;
	size_t bytes = task_bytes(t);
	struct xfer x;

	if (at && at < c->nRanks - 1)
		return chain_middle(c, t);
	x = at ? ring_recv(c, t, t->recv, bytes, NULL) : ring_send(c, t->send, bytes);
	if (!at)
		copy(t->recv, t->send, bytes);
	return progress(c, &x, 1);
}

static int reduce(struct ncclComm *c, const struct task *t)
{
	int at = (c->rank - t->root - 1 + 2 * c->nRanks) % c->nRanks, err;
	size_t bytes = task_bytes(t);
	struct xfer x;

	if (at && at < c->nRanks - 1)
		return chain_middle(c, t);
	x = at ? ring_recv(c, t, t->recv, bytes, t->send) : ring_send(c, t->send, bytes);
	err = progress(c, &x, 1);
	if (at && !err)
		average(c, t, t->recv, bytes);
	return err;
}

static int (*const rings[OP_SEQUENCED])(struct ncclComm *c, const struct task *t) = {
	[OP_BROADCAST] = broadcast,	[OP_REDUCE] = reduce,
	[OP_ALLGATHER] = allgather,	[OP_REDUCESCATTER] = reducescatter,
	[OP_ALLREDUCE] = allreduce,
};

/* The sends and receives of one group; those to the own rank are matched in order. */
struct batch {
	struct ncclComm *comm;
	struct xfer *xfers;
	size_t n;
	struct xfer *self[2];		/* [out] */
	size_t nself[2];
};

static void batch_add(struct batch *b, bool out, int peer, const void *buf, size_t len)
{
	struct xfer x = { .conn = conn_get(b->comm, out, CONN_P2P, peer), .buf = (char *)buf,
			  .len = len };

	if (peer == b->comm->rank)
		b->self[out][b->nself[out]++] = x;
	else
		b->xfers[b->n++] = x;
}

static void batch_expand(struct batch *b, const struct task *t)
{
	bool at_root = b->comm->rank == t->root;
	bool scatters = t->op == OP_ALLTOALL || (t->op == OP_SCATTER && at_root);
	bool gathers = t->op == OP_ALLTOALL || (t->op == OP_GATHER && at_root);
	size_t bytes = task_bytes(t);

	for (int i = 0; i < b->comm->nRanks; i++) {
		if (scatters)
			batch_add(b, true, i, (const char *)t->send + i * bytes, bytes);
		if (gathers)
			batch_add(b, false, i, (char *)t->recv + i * bytes, bytes);
	}
	if (t->op == OP_SEND || t->op == OP_GATHER)
		batch_add(b, true, t->root, t->send, bytes);
	if (t->op == OP_RECV || t->op == OP_SCATTER)
		batch_add(b, false, t->root, t->recv, bytes);
}

static int batch_self(const struct batch *b)
{
	if (b->nself[0] != b->nself[1]) {
		WARN("Trying to send to self without a matching recv (%zu sends, %zu recvs)",
		     b->nself[1], b->nself[0]);
		return -EEXIST;
	}
	for (size_t i = 0; i < b->nself[0]; i++)
		copy(b->self[0][i].buf, b->self[1][i].buf,
		     min_size(b->self[0][i].len, b->self[1][i].len));
	return 0;
}

static int batch_run(struct ncclComm *c, const struct task *tasks, size_t n)
{
	size_t max = 0;
	struct batch b = { .comm = c };
	int err;

	for (size_t i = 0; i < n; i++)
		max += tasks[i].op < OP_SEQUENCED ? 0 : 2ul * c->nRanks + 1;
	if (!max)
		return 0;
	b.xfers = calloc(3 * max, sizeof(*b.xfers));
	if (!b.xfers)
		return -ENOMEM;
	b.self[0] = b.xfers + max;
	b.self[1] = b.xfers + 2 * max;
	for (size_t i = 0; i < n; i++)
		if (tasks[i].op >= OP_SEQUENCED)
			batch_expand(&b, &tasks[i]);
	err = batch_self(&b);
	if (!err)
		err = progress(c, b.xfers, b.n);
	free(b.xfers);
	return err;
}

static int ring_run(struct ncclComm *c, const struct task *t)
{
	if (!t->count)
		return 0;
	if (c->nRanks > 1)
		return rings[t->op](c, t);
	copy(t->recv, t->send, task_bytes(t));
	return 0;
}

int tasks_run(struct ncclComm *comm, const struct task *tasks, size_t n)
{
	int err = 0;

	debug_device = comm->cudaDev;
	for (size_t i = 0; i < n && !err; i++)
		if (tasks[i].op < OP_SEQUENCED)
			err = ring_run(comm, &tasks[i]);
	return err ? err : batch_run(comm, tasks, n);
}

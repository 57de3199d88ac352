/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The exported functions: argument checks, then a task or an init for the group. */
#define _GNU_SOURCE
#include <string.h>

#include "comm.h"

/*
 * As NCCL builds them: ncclX is weak, so that an interposer may replace it, and pncclX is global
 * at the same address.
 */
#define NCCL_API(ret, func, ...)							\
	__attribute__((visibility("default"), alias(#func))) ret p##func(__VA_ARGS__);	\
	__attribute__((visibility("default"), weak)) ret func(__VA_ARGS__)

#define FT_API __attribute__((visibility("default")))

static bool __attribute__((noinline)) comm_valid(const struct ncclComm *comm, const char *fn)
{
	if (!comm) {
		WARN("%s : comm argument is NULL", fn);
		return false;
	}
	if (comm->startMagic != COMM_MAGIC || comm->endMagic != COMM_MAGIC) {
		WARN("Error: corrupted comm object detected");
		return false;
	}
	return true;
}

static ncclResult_t comm_ready(const struct ncclComm *comm, const char *fn)
{
	int result;

	if (!comm_valid(comm, fn))
		return ncclInvalidArgument;
	result = comm->result;
	if (result == ncclInProgress) {
		WARN("Attempt to use communicator before the previous operation returned "
		     "ncclSuccess");
		return ncclInvalidArgument;
	}
	if (result == ncclSuccess && comm->revoked) {
		WARN("%s : communicator was revoked", fn);
		return ncclInvalidUsage;
	}
	return result;
}

static bool ptr_valid(const void *ptr, const char *fn, const char *what)
{
	if (!ptr)
		WARN("%s : %s argument is NULL", fn, what);
	return ptr;
}

enum { REDUCES = 1, ROOTED = 2, SENDS = 4, RECVS = 8 };

static const unsigned char op_flags[OP_COUNT] = {
	[OP_BROADCAST] = ROOTED,	[OP_REDUCE] = REDUCES | ROOTED,
	[OP_ALLGATHER] = SENDS | RECVS,	[OP_REDUCESCATTER] = REDUCES | SENDS | RECVS,
	[OP_ALLREDUCE] = REDUCES | SENDS | RECVS,
	[OP_SEND] = ROOTED | SENDS,	[OP_RECV] = ROOTED | RECVS,
	[OP_ALLTOALL] = SENDS | RECVS,	[OP_GATHER] = ROOTED | SENDS,
	[OP_SCATTER] = ROOTED | RECVS,
};

static ncclResult_t task_check(const struct ncclComm *comm, const struct task *t)
{
	unsigned int flags = op_flags[t->op];
	const char *name = op_names[t->op];
	ncclResult_t result = comm_ready(comm, name);

	if (result != ncclSuccess)
		return result;
	if ((unsigned int)t->dtype >= ncclNumTypes) {
		WARN("%s : invalid type %d", name, t->dtype);
		return ncclInvalidArgument;
	}
	if (flags & REDUCES && ((unsigned int)t->redop >= ncclNumOps ||
				!fold_get(t->dtype, t->redop))) {
		WARN("%s : invalid reduction operation %d", name, t->redop);
		return ncclInvalidArgument;
	}
	if (flags & ROOTED && (t->root < 0 || t->root >= comm->nRanks)) {
		WARN("%s : invalid root %d (root should be in the 0..%d range)", name, t->root,
		     comm->nRanks);
		return ncclInvalidArgument;
	}
	if (t->count && ((flags & SENDS && !ptr_valid(t->send, name, "sendbuff")) ||
			 (flags & RECVS && !ptr_valid(t->recv, name, "recvbuff"))))
		return ncclInvalidArgument;
	return ncclSuccess;
}

static ncclResult_t enqueue(struct ncclComm *comm, void *stream, const struct task *t)
{
	ncclResult_t end, result;

	group_begin();
	result = task_check(comm, t);
	if (result != ncclSuccess)
		group_fail(result);
	else
		result = group_add_task(comm, stream, t);
	end = group_end();
	return result != ncclSuccess ? result : end;
}

NCCL_API(ncclResult_t, ncclAllReduce, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_ALLREDUCE, send, recv, count, dtype, op, 0 };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclReduceScatter, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_REDUCESCATTER, send, recv, count, dtype, op, 0 };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclAllGather, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_ALLGATHER, send, recv, count, dtype, ncclSum, 0 };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclBroadcast, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_BROADCAST, send, recv, count, dtype, ncclSum, root };

	return enqueue(comm, stream, &t);
}

/* Through the exported function, as in NCCL: a probe on both sees this call twice. */
NCCL_API(ncclResult_t, ncclBcast, void *buf, size_t count, ncclDataType_t dtype, int root,
	 ncclComm_t comm, cudaStream_t stream)
{
	return ncclBroadcast(buf, buf, count, dtype, root, comm, stream);
}

NCCL_API(ncclResult_t, ncclReduce, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_REDUCE, send, recv, count, dtype, op, root };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclSend, const void *send, size_t count, ncclDataType_t dtype, int peer,
	 ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_SEND, send, NULL, count, dtype, ncclSum, peer };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclRecv, void *recv, size_t count, ncclDataType_t dtype, int peer,
	 ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_RECV, NULL, recv, count, dtype, ncclSum, peer };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclAlltoAll, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_ALLTOALL, send, recv, count, dtype, ncclSum, 0 };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclGather, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_GATHER, send, recv, count, dtype, ncclSum, root };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclScatter, const void *send, void *recv, size_t count,
	 ncclDataType_t dtype, int root, ncclComm_t comm, cudaStream_t stream)
{
	struct task t = { OP_SCATTER, send, recv, count, dtype, ncclSum, root };

	return enqueue(comm, stream, &t);
}

NCCL_API(ncclResult_t, ncclGroupStart, void)
{
	group_begin();
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclGroupEnd, void)
{
	return group_end();
}

static bool config_valid(const ncclConfig_t *config)
{
	if (!config || (config->magic == NCCL_CONFIG_MAGIC && config->size >= 24))
		return true;
	WARN("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
	return false;
}

static int config_blocking(const ncclConfig_t *config, int fallback)
{
	const char *env = getenv("NCCL_COMM_BLOCKING");

	if (env)
		return *env != '0';
	if (config && config->blocking != NCCL_CONFIG_UNDEF_INT)
		return config->blocking;
	return fallback;
}

/* Makes the communicator and its init; *newcomm is set before the init has run, as in NCCL. */
static ncclResult_t init_start(struct init proto, int device, int blocking, bool member)
{
	struct init *init = malloc(sizeof(*init));

	if (!init)
		return group_fail(ncclSystemError);
	*init = proto;
	if (member)
		init->comm = comm_alloc(device, blocking);
	if (member && !init->comm) {
		init_free(init);
		return group_fail(ncclSystemError);
	}
	*init->newcomm = init->comm;
	return group_add_init(init);
}

static ncclResult_t init_rank(const char *fn, ncclComm_t *newcomm, int nranks,
			      const ncclUniqueId *id, int rank, const ncclConfig_t *config,
			      int device)
{
	struct init init = { .fn = fn, .newcomm = newcomm, .nranks = nranks, .rank = rank };
	ncclResult_t end, result = ncclInvalidArgument;

	group_begin();
	if (!ptr_valid(newcomm, fn, "newcomm") || !config_valid(config)) {
		group_fail(result);
	} else if (nranks < 1 || rank < 0 || rank >= nranks) {
		WARN("Invalid rank requested : %d/%d", rank, nranks);
		group_fail(result);
	} else {
		init.id = *id;
		result = init_start(init, device, config_blocking(config, 1), true);
	}
	end = group_end();
	return result != ncclSuccess ? result : end;
}

/* What cudaGetDevice would say: ftSetDevice, else LOCAL_RANK, else the rank. */
static int current_device(int rank)
{
	const char *local = getenv("LOCAL_RANK");

	return thread_device(local ? atoi(local) : rank);
}

NCCL_API(ncclResult_t, ncclCommInitRank, ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank)
{
	return init_rank("ncclCommInitRank", newcomm, nranks, &id, rank, NULL,
			 current_device(rank));
}

NCCL_API(ncclResult_t, ncclCommInitRankConfig, ncclComm_t *newcomm, int nranks, ncclUniqueId id,
	 int rank, ncclConfig_t *config)
{
	return init_rank("ncclCommInitRankConfig", newcomm, nranks, &id, rank, config,
			 current_device(rank));
}

/* All ranks meet at the first root. */
NCCL_API(ncclResult_t, ncclCommInitRankScalable, ncclComm_t *newcomm, int nranks, int myrank,
	 int nid, ncclUniqueId *ids, ncclConfig_t *config)
{
	if (!ptr_valid(ids, "ncclCommInitRankScalable", "commIds") || nid < 1)
		return ncclInvalidArgument;
	return init_rank("ncclCommInitRankScalable", newcomm, nranks, ids, myrank, config,
			 current_device(myrank));
}

NCCL_API(ncclResult_t, ncclCommInitAll, ncclComm_t *comms, int ndev, const int *devlist)
{
	ncclResult_t end, result = ncclSuccess;
	ncclUniqueId id;
	int err;

	if (!ptr_valid(comms, "ncclCommInitAll", "comms") || ndev < 1)
		return ncclInvalidArgument;
	err = unique_id_get(&id);
	if (err)
		return result_of(err);
	group_begin();
	for (int i = 0; i < ndev && result == ncclSuccess; i++)
		result = init_rank("ncclCommInitAll", &comms[i], ndev, &id, i, NULL,
				   devlist ? devlist[i] : i);
	end = group_end();
	return result != ncclSuccess ? result : end;
}

NCCL_API(ncclResult_t, ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
	 ncclConfig_t *config)
{
	struct init init = { .fn = "ncclCommSplit", .parent = comm, .newcomm = newcomm,
			     .color = color, .key = key };
	ncclResult_t end, result;

	group_begin();
	result = comm_ready(comm, init.fn);
	if (result == ncclSuccess && (!ptr_valid(newcomm, init.fn, "newcomm") ||
				      !config_valid(config) || color < NCCL_SPLIT_NOCOLOR))
		result = ncclInvalidArgument;
	if (result == ncclSuccess)
		result = init_start(init, comm->cudaDev, config_blocking(config, comm->blocking),
				    color != NCCL_SPLIT_NOCOLOR);
	else
		group_fail(result);
	end = group_end();
	return result != ncclSuccess ? result : end;
}

/* Called by the ranks that stay. NCCL_SHRINK_ABORT: also from a communicator with an error. */
NCCL_API(ncclResult_t, ncclCommShrink, ncclComm_t comm, int *excl, int nexcl, ncclComm_t *newcomm,
	 ncclConfig_t *config, int flags)
{
	struct init init = { .fn = "ncclCommShrink", .parent = comm, .newcomm = newcomm,
			     .nexcl = nexcl };
	ncclResult_t end, result = ncclInvalidArgument;

	group_begin();
	if (comm_valid(comm, init.fn) && ptr_valid(newcomm, init.fn, "newcomm") &&
	    ptr_valid(excl, init.fn, "excludeRanksList") && nexcl > 0 && config_valid(config))
		result = flags & NCCL_SHRINK_ABORT ? ncclSuccess : comm_ready(comm, init.fn);
	if (result == ncclSuccess) {
		if (flags & NCCL_SHRINK_ABORT)
			comm_cancel(comm);
		init.key = comm->rank;
		init.excl = malloc(nexcl * sizeof(*excl));
		if (init.excl)
			memcpy(init.excl, excl, nexcl * sizeof(*excl));
		result = init.excl ? init_start(init, comm->cudaDev,
						config_blocking(config, comm->blocking), true) :
				     group_fail(ncclSystemError);
	} else {
		group_fail(result);
	}
	end = group_end();
	return result != ncclSuccess ? result : end;
}

/* Ends a pending init, then everything on the streams. */
static ncclResult_t comm_end(struct ncclComm *comm, const char *fn, bool abort)
{
	if (!comm)
		return ncclSuccess;
	if (!comm_valid(comm, fn))
		return ncclInvalidArgument;
	if (abort)
		comm_cancel(comm);
	if (comm->init_pending)
		pthread_join(comm->init_thread, NULL);
	comm_drain(comm, comm->issued);
	comm->startMagic = comm->endMagic = 0;
	comm_free(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommFinalize, ncclComm_t comm)
{
	ncclResult_t result = comm_ready(comm, "ncclCommFinalize");

	if (result != ncclSuccess)
		return result;
	comm_drain(comm, comm->issued);
	return comm->result;
}

NCCL_API(ncclResult_t, ncclCommDestroy, ncclComm_t comm)
{
	return comm_end(comm, "ncclCommDestroy", false);
}

NCCL_API(ncclResult_t, ncclCommAbort, ncclComm_t comm)
{
	return comm_end(comm, "ncclCommAbort", true);
}

NCCL_API(ncclResult_t, ncclCommRevoke, ncclComm_t comm, int flags)
{
	(void)flags;
	if (!comm_valid(comm, "ncclCommRevoke"))
		return ncclInvalidArgument;
	comm_cancel(comm);
	return ncclSuccess;
}

NCCL_API(ncclResult_t, ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t *result)
{
	if (!comm_valid(comm, "ncclGetAsyncError") ||
	    !ptr_valid(result, "ncclGetAsyncError", "asyncError"))
		return ncclInvalidArgument;
	*result = comm->result;
	return ncclSuccess;
}

static ncclResult_t __attribute__((noinline, cold)) accessor_fail(const struct ncclComm *comm,
								  const int *out, const char *fn)
{
	if (comm_valid(comm, fn))
		ptr_valid(out, fn, "result");
	return ncclInvalidArgument;
}

/*
 * One load at a constant offset and one store, as in the real library: that is how a tracer finds
 * the field. So nothing else of the communicator at a large offset is looked at here.
 */
#define ACCESSOR(fn, comm, field, out)						\
	do {									\
		if (!(comm) || (comm)->startMagic != COMM_MAGIC || !(out))	\
			return accessor_fail(comm, out, fn);			\
		*(out) = (comm)->field;						\
		return ncclSuccess;						\
	} while (0)

NCCL_API(ncclResult_t, ncclCommCount, const ncclComm_t comm, int *count)
{
	ACCESSOR("CommCount", comm, nRanks, count);
}

NCCL_API(ncclResult_t, ncclCommCuDevice, const ncclComm_t comm, int *device)
{
	ACCESSOR("CommCuDevice", comm, cudaDev, device);
}

NCCL_API(ncclResult_t, ncclCommUserRank, const ncclComm_t comm, int *rank)
{
	ACCESSOR("CommUserRank", comm, rank, rank);
}

NCCL_API(ncclResult_t, ncclGetUniqueId, ncclUniqueId *id)
{
	int err;

	if (!ptr_valid(id, "GetUniqueId", "out"))
		return ncclInvalidArgument;
	err = unique_id_get(id);
	if (err)
		WARN("Bootstrap : no address to listen on : %s", strerror(-err));
	return result_of(err);
}

NCCL_API(ncclResult_t, ncclGetVersion, int *version)
{
	if (!version)
		return ncclInvalidArgument;
	*version = NCCL_VERSION_CODE;
	return ncclSuccess;
}

NCCL_API(const char *, ncclGetErrorString, ncclResult_t result)
{
	static const char *const texts[ncclNumResults] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		"internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};

	return (unsigned int)result < ncclNumResults ? texts[result] : "unknown result code";
}

NCCL_API(const char *, ncclGetLastError, ncclComm_t comm)
{
	(void)comm;
	return ncclLastError;
}

FT_API void ftSetDevice(int device)
{
	thread_device_set(device);
}

FT_API void ftStreamSynchronize(cudaStream_t stream)
{
	stream_sync(stream);
}

/* A warning of any text, on the way of the library's own. */
FT_API void ftWarn(const char *text)
{
	WARN("%s", text);
}

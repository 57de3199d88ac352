/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The part of NCCL 2.28's binary interface that a training job uses. */
#ifndef FT_WORKLOAD_NCCL_H
#define FT_WORKLOAD_NCCL_H

#include <limits.h>
#include <stddef.h>

#define NCCL_VERSION_CODE 22809
#define NCCL_VERSION_STRING "NCCL version 2.28.9+cuda13.0"
#define NCCL_UNIQUE_ID_BYTES 128
#define NCCL_SPLIT_NOCOLOR (-1)
#define NCCL_SHRINK_DEFAULT 0
#define NCCL_SHRINK_ABORT 1
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_CONFIG_UNDEF_INT INT_MIN

typedef struct ncclComm *ncclComm_t;
typedef void *cudaStream_t;

typedef struct {
	char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclRemoteError = 6,
	ncclInProgress = 7,
	ncclNumResults
} ncclResult_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat16 = 6,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
	ncclBfloat16 = 9,
	ncclFloat8e4m3 = 10,
	ncclFloat8e5m2 = 11,
	ncclNumTypes
} ncclDataType_t;

typedef enum {
	ncclSum = 0,
	ncclProd = 1,
	ncclMax = 2,
	ncclMin = 3,
	ncclAvg = 4,
	ncclNumOps
} ncclRedOp_t;

typedef struct {
	size_t size;
	unsigned int magic;
	unsigned int version;
	int blocking;
	int cgaClusterSize;
	int minCTAs;
	int maxCTAs;
	const char *netName;
	int splitShare;
	int trafficClass;
	const char *commName;
	int collnetEnable;
	int CTAPolicy;
	int shrinkShare;
	int nvlsCTAs;
	int nChannelsPerNetPeer;
	int nvlinkCentricSched;
} ncclConfig_t;

_Static_assert(offsetof(ncclConfig_t, netName) == 32, "ncclConfig_t.netName");
_Static_assert(offsetof(ncclConfig_t, trafficClass) == 44, "ncclConfig_t.trafficClass");
_Static_assert(offsetof(ncclConfig_t, commName) == 48, "ncclConfig_t.commName");

#define NCCL_CONFIG_INITIALIZER {						\
	.size = sizeof(ncclConfig_t), .magic = NCCL_CONFIG_MAGIC,		\
	.version = NCCL_VERSION_CODE, .blocking = NCCL_CONFIG_UNDEF_INT,	\
	.cgaClusterSize = NCCL_CONFIG_UNDEF_INT, .minCTAs = NCCL_CONFIG_UNDEF_INT, \
	.maxCTAs = NCCL_CONFIG_UNDEF_INT, .splitShare = NCCL_CONFIG_UNDEF_INT,	\
	.trafficClass = NCCL_CONFIG_UNDEF_INT, .collnetEnable = NCCL_CONFIG_UNDEF_INT, \
	.CTAPolicy = NCCL_CONFIG_UNDEF_INT, .shrinkShare = NCCL_CONFIG_UNDEF_INT, \
	.nvlsCTAs = NCCL_CONFIG_UNDEF_INT,					\
	.nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT,				\
	.nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT }

/*
 * X(return type, name, arguments): every function of the library. The program's table of pointers
 * is made from it too, so that it can be filled by the linker or by dlsym.
 */
#define NCCL_FUNCTIONS(X)									\
	X(ncclResult_t, ncclGetVersion, (int *version))						\
	X(ncclResult_t, ncclGetUniqueId, (ncclUniqueId *id))					\
	X(const char *, ncclGetErrorString, (ncclResult_t result))				\
	X(const char *, ncclGetLastError, (ncclComm_t comm))					\
	X(ncclResult_t, ncclCommInitRank,							\
	  (ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank))				\
	X(ncclResult_t, ncclCommInitRankConfig,							\
	  (ncclComm_t *newcomm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config))	\
	X(ncclResult_t, ncclCommInitRankScalable,						\
	  (ncclComm_t *newcomm, int nranks, int myrank, int nid, ncclUniqueId *ids,		\
	   ncclConfig_t *config))								\
	X(ncclResult_t, ncclCommInitAll, (ncclComm_t *comms, int ndev, const int *devlist))	\
	X(ncclResult_t, ncclCommSplit,								\
	  (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config))	\
	X(ncclResult_t, ncclCommShrink,								\
	  (ncclComm_t comm, int *excl, int nexcl, ncclComm_t *newcomm, ncclConfig_t *config,	\
	   int flags))										\
	X(ncclResult_t, ncclCommFinalize, (ncclComm_t comm))					\
	X(ncclResult_t, ncclCommDestroy, (ncclComm_t comm))					\
	X(ncclResult_t, ncclCommAbort, (ncclComm_t comm))					\
	X(ncclResult_t, ncclCommRevoke, (ncclComm_t comm, int flags))				\
	X(ncclResult_t, ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *result))		\
	X(ncclResult_t, ncclCommCount, (const ncclComm_t comm, int *count))			\
	X(ncclResult_t, ncclCommCuDevice, (const ncclComm_t comm, int *device))			\
	X(ncclResult_t, ncclCommUserRank, (const ncclComm_t comm, int *rank))			\
	X(ncclResult_t, ncclAllReduce,								\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op,	\
	   ncclComm_t comm, cudaStream_t stream))						\
	X(ncclResult_t, ncclReduceScatter,							\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op,	\
	   ncclComm_t comm, cudaStream_t stream))						\
	X(ncclResult_t, ncclAllGather,								\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,	\
	   cudaStream_t stream))								\
	X(ncclResult_t, ncclBroadcast,								\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,		\
	   ncclComm_t comm, cudaStream_t stream))						\
	X(ncclResult_t, ncclBcast,								\
	  (void *buf, size_t count, ncclDataType_t dtype, int root, ncclComm_t comm,		\
	   cudaStream_t stream))								\
	X(ncclResult_t, ncclReduce,								\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclRedOp_t op,	\
	   int root, ncclComm_t comm, cudaStream_t stream))					\
	X(ncclResult_t, ncclSend,								\
	  (const void *send, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,	\
	   cudaStream_t stream))								\
	X(ncclResult_t, ncclRecv,								\
	  (void *recv, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,		\
	   cudaStream_t stream))								\
	X(ncclResult_t, ncclAlltoAll,								\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, ncclComm_t comm,	\
	   cudaStream_t stream))								\
	X(ncclResult_t, ncclGather,								\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,		\
	   ncclComm_t comm, cudaStream_t stream))						\
	X(ncclResult_t, ncclScatter,								\
	  (const void *send, void *recv, size_t count, ncclDataType_t dtype, int root,		\
	   ncclComm_t comm, cudaStream_t stream))						\
	X(ncclResult_t, ncclGroupStart, (void))							\
	X(ncclResult_t, ncclGroupEnd, (void))

/* What stands in for the CUDA calls of a real job; a real libnccl does not have these. */
#define FT_NCCL_FUNCTIONS(X)							\
	X(void, ftSetDevice, (int device))					\
	X(void, ftStreamSynchronize, (cudaStream_t stream))			\
	X(void, ftWarn, (const char *text))

#define NCCL_DECLARE(ret, name, args) ret name args;
NCCL_FUNCTIONS(NCCL_DECLARE)
FT_NCCL_FUNCTIONS(NCCL_DECLARE)

#endif

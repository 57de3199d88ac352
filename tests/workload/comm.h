/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Inside of the test libnccl: what its files share. Internal functions return 0 or -errno; only
 * api.c and group.c speak ncclResult_t.
 *
 *   api.c -> group.c -> stream.c (one worker thread per stream) -> coll.c -> xfer.c (sockets)
 *            group.c -> comm.c (init, split) -> boot.c (unique id, rendezvous) -> net.c
 */
#ifndef FT_WORKLOAD_COMM_H
#define FT_WORKLOAD_COMM_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "nccl.h"

#define COMM_MAGIC 0x0280028002800280ull
#define CHUNK (256 * 1024)	/* what is received before it is reduced: fits the L2 cache */

/* debug.c. The values and the symbol are those of NCCL: tracers put a probe on it. */
enum log_level { LOG_NONE, LOG_VERSION, LOG_WARN, LOG_INFO, LOG_ABORT, LOG_TRACE };

extern char ncclLastError[1024];
extern int debug_level;
extern __thread int debug_device;

void ncclDebugLog(int level, unsigned long flags, const char *filefunc, int line, const char *fmt,
		  ...) __asm__("_Z12ncclDebugLog17ncclDebugLogLevelmPKciS1_z")
	__attribute__((format(printf, 5, 6), noinline));

#define WARN(...) ncclDebugLog(LOG_WARN, ~0ul, __FILE__, __LINE__, __VA_ARGS__)
/* As from 2.28: a call of ncclDebugLog for INFO is made only when the level asks for it. */
#define INFO(...)								\
	do {									\
		if (debug_level >= LOG_INFO)					\
			ncclDebugLog(LOG_INFO, 1, __func__, __LINE__, __VA_ARGS__); \
	} while (0)

/* net.c: sockets and threads. abort_fd makes a wait end with -ECANCELED; -1 for none. */
#define ADDR_LEN 32
const char *addr_str(char *buf, const struct sockaddr_in *addr);
int local_addr(struct sockaddr_in *addr);
int net_listen(const struct sockaddr_in *at, struct sockaddr_in *bound);
int net_connect(const struct sockaddr_in *to, int abort_fd);
int net_wait(int fd, short events, int abort_fd, int timeout_ms);
int net_send(int fd, const void *buf, size_t len);
int net_recv(int fd, void *buf, size_t len, int abort_fd, int timeout_ms);
int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg);

/* reduce.c: dst[i] = a[i] op b[i]; dst may be a or b. */
typedef void (*fold_fn)(void *dst, const void *a, const void *b, size_t n);

struct dtype {
	const char *name;
	size_t size;
	fold_fn fold[ncclAvg];			/* NULL: moves, but does not reduce */
	void (*div)(void *dst, size_t n, int by);
};

extern const struct dtype dtypes[ncclNumTypes];
fold_fn fold_get(ncclDataType_t dtype, ncclRedOp_t op);

/* The first five in the order of ncclComm.seqNumber. */
enum op {
	OP_BROADCAST, OP_REDUCE, OP_ALLGATHER, OP_REDUCESCATTER, OP_ALLREDUCE, OP_SEQUENCED,
	OP_SEND = OP_SEQUENCED, OP_RECV, OP_ALLTOALL, OP_GATHER, OP_SCATTER, OP_COUNT
};

struct task {
	enum op op;
	const void *send;
	void *recv;
	size_t count;
	ncclDataType_t dtype;
	ncclRedOp_t redop;
	int root;			/* or the peer */
};

/* Sockets carry data in one direction. Each kind is a stream of its own, so that a collective and
 * a send that the program issued in another order cannot eat each other's bytes. */
enum conn_kind { CONN_RING, CONN_P2P, CONN_ADMIN, CONN_KINDS };

struct conn {
	int fd;				/* -1 until first used */
	bool out;
	enum conn_kind kind;
	int peer;
	struct sockaddr_in addr;
	unsigned int pass;		/* of progress(): keeps transfers on one socket in order */
};

/* What every rank knows of every other; sent as it is during bootstrap. */
struct peer {
	struct sockaddr_in addr;
	uint64_t host_hash;
	uint64_t process;		/* no two processes of a job have the same */
	int32_t dev;
	int32_t pad;
};

/*
 * The layout of NCCL 2.28.7 and 2.28.9 up to seqNumber, so that readers of a process's memory find
 * each field where the real library has it; behind that our own state.
 */
#define COMM_R 1066192		/* offset of rank */

struct ncclComm {
	uint64_t startMagic;
	char gap0[COMM_R - 16];
	uint64_t commHash;
	int rank;			/* -1 until the init is complete */
	int nRanks;
	int cudaDev;
	int nvmlDev;
	char gap1[16];
	int64_t busId;
	char gap2[140];
	int node;
	int nNodes;
	int localRank;
	int localRanks;
	char gap3[92];
	uint64_t opCount;
	char gap4[9240];
	uint64_t seqNumber[OP_SEQUENCED];

	_Atomic int result;		/* ncclResult_t: the asynchronous error */
	atomic_bool revoked;
	int blocking;
	int abort_fd;			/* eventfd: readable from the abort on */
	int listen_fd;
	struct sockaddr_in listen_addr;
	struct peer *peers;		/* [nRanks] */
	struct conn *conns;		/* [2][CONN_KINDS][nRanks] */
	unsigned int pass;
	struct pollfd *pfds;
	size_t pfds_cap;
	char *chunk;			/* CHUNK bytes: what is to be reduced */
	char *tmp;			/* partial results that have no place in a user's buffer */
	size_t tmp_cap;
	unsigned int children;

	/* Work on one communicator runs in the order of its calls, also over several streams. */
	pthread_mutex_t lock;
	pthread_cond_t turn;
	uint64_t issued;
	uint64_t done;

	pthread_t init_thread;		/* of a non-blocking init */
	bool init_pending;
	uint64_t endMagic;
};

_Static_assert(offsetof(struct ncclComm, commHash) == COMM_R - 8, "commHash");
_Static_assert(offsetof(struct ncclComm, rank) == COMM_R, "rank");
_Static_assert(offsetof(struct ncclComm, nvmlDev) == COMM_R + 12, "nvmlDev");
_Static_assert(offsetof(struct ncclComm, busId) == COMM_R + 32, "busId");
_Static_assert(offsetof(struct ncclComm, node) == 1066372, "node");
_Static_assert(offsetof(struct ncclComm, opCount) == 1066480, "opCount");
_Static_assert(offsetof(struct ncclComm, seqNumber) == 1075728, "seqNumber");

/* xfer.c */
struct xfer {
	struct conn *conn;
	char *buf;
	size_t len;
	size_t done;
	/* A receive with fold: buf[i] = what arrived op src[i], size bytes each. */
	fold_fn fold;
	const char *src;
	size_t size;
	size_t held;			/* bytes that wait in comm->chunk */
};

struct conn *conn_get(struct ncclComm *comm, bool out, enum conn_kind kind, int peer);
int conns_alloc(struct ncclComm *comm);
void conns_shutdown(struct ncclComm *comm);
void conns_free(struct ncclComm *comm);
int ring_connect(struct ncclComm *comm);
int progress(struct ncclComm *comm, struct xfer *xfers, size_t n);

/* coll.c: runs what one group (or one call) put on one communicator and stream. */
int tasks_run(struct ncclComm *comm, const struct task *tasks, size_t n);
int bytes_allgather(struct ncclComm *comm, void *buf, size_t size);
extern const char *const op_names[OP_COUNT];

/* boot.c */
int unique_id_get(ncclUniqueId *id);
int bootstrap(struct ncclComm *comm, const ncclUniqueId *id, int nranks, int rank);
uint64_t hash_bytes(const void *data, size_t len, uint64_t seed);

/* comm.c */
struct init {
	const char *fn;			/* for messages */
	struct ncclComm *comm;		/* NULL: a split without colour */
	struct ncclComm *parent;	/* NULL: an init from a unique id */
	ncclComm_t *newcomm;
	ncclUniqueId id;
	int nranks;
	int rank;
	int color;
	int key;
	int *excl;			/* shrink: [nexcl] */
	int nexcl;
	uint64_t ticket;
};

struct ncclComm *comm_alloc(int device, int blocking);
void comm_free(struct ncclComm *comm);
int init_run(struct init *init);
void init_free(struct init *init);
uint64_t comm_ticket(struct ncclComm *comm);
void comm_turn(struct ncclComm *comm, uint64_t ticket);
void comm_turn_done(struct ncclComm *comm);
void comm_drain(struct ncclComm *comm, uint64_t ticket);
void comm_cancel(struct ncclComm *comm);
void comm_fail(struct ncclComm *comm, ncclResult_t result);
int thread_device(int fallback);
void thread_device_set(int device);
ncclResult_t result_of(int err);

/* stream.c */
int stream_submit(struct ncclComm *comm, void *stream, struct task *tasks, size_t n,
		  uint64_t *ticket);
void stream_sync(void *stream);

/* group.c */
void group_begin(void);
ncclResult_t group_fail(ncclResult_t result);
ncclResult_t group_end(void);
ncclResult_t group_add_task(struct ncclComm *comm, void *stream, const struct task *task);
ncclResult_t group_add_init(struct init *init);

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

#endif

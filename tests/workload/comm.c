/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The life of a communicator: allocation, init, split, turns, cancellation. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm.h"

#define PAGE 4096ul
/* malloc's header: the real library allocates with malloc, so the magic is not at offset 0. */
#define HEADER 16ul
#define MAPPED ((sizeof(struct ncclComm) + HEADER + PAGE - 1) / PAGE * PAGE)

/* As in NCCL from 2.24 on: found by their symbols. Empty places are NULL. */
struct ncclComm **ncclComms;
int nNcclComms;

static pthread_mutex_t comms_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int device_set = -1;

int thread_device(int fallback)
{
	return device_set >= 0 ? device_set : fallback;
}

void thread_device_set(int device)
{
	device_set = device;
}

ncclResult_t result_of(int err)
{
	static const struct {
		int err;
		ncclResult_t result;
	} table[] = {
		{ 0, ncclSuccess },		{ -ECONNRESET, ncclRemoteError },
		{ -EPIPE, ncclRemoteError },	{ -ECONNREFUSED, ncclRemoteError },
		{ -EEXIST, ncclInvalidUsage },	{ -EINVAL, ncclInvalidArgument },
		{ -ECANCELED, ncclInternalError },
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].err == err)
			return table[i].result;
	return ncclSystemError;
}

/* FT_NCCL_BUSID: a list of PCI addresses by device, 0000:1b:00.0,...; else made up. */
static int64_t bus_id(int device)
{
	const char *p = getenv("FT_NCCL_BUSID");
	unsigned int dom, bus, dev, fn;

	for (int i = 0; p && i < device; i++) {
		p = strchr(p, ',');
		p = p ? p + 1 : NULL;
	}
	if (p && sscanf(p, "%x:%x:%x.%x", &dom, &bus, &dev, &fn) == 4)
		return (int64_t)dom << 20 | bus << 12 | dev << 4 | fn;
	return (int64_t)((0x1b + 0x10 * device) & 0xff) << 12;
}

static int comms_add(struct ncclComm *comm)
{
	int i, n;

	pthread_mutex_lock(&comms_lock);
	for (i = 0; i < nNcclComms && ncclComms[i]; i++)
		;
	if (i == nNcclComms) {
		struct ncclComm **p = realloc(ncclComms, (i + 8) * sizeof(*p));

		if (!p) {
			pthread_mutex_unlock(&comms_lock);
			return -ENOMEM;
		}
		memset(p + i, 0, 8 * sizeof(*p));
		ncclComms = p;
		n = i + 8;
		nNcclComms = n;
	}
	ncclComms[i] = comm;
	pthread_mutex_unlock(&comms_lock);
	return 0;
}

static void comms_del(const struct ncclComm *comm)
{
	pthread_mutex_lock(&comms_lock);
	for (int i = 0; i < nNcclComms; i++)
		if (ncclComms[i] == comm)
			ncclComms[i] = NULL;
	pthread_mutex_unlock(&comms_lock);
}

/* A mapping of its own, fenced by guard pages since the kernel joins neighbouring ones. */
static struct ncclComm *comm_map(void)
{
	char *p = mmap(NULL, MAPPED + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	if (mprotect(p + PAGE, MAPPED, PROT_READ | PROT_WRITE)) {
		munmap(p, MAPPED + 2 * PAGE);
		return NULL;
	}
	return (void *)(p + PAGE + HEADER);
}

struct ncclComm *comm_alloc(int device, int blocking)
{
	struct ncclComm *comm = comm_map();
	struct sockaddr_in at;

	if (!comm)
		return NULL;
	comm->rank = -1;
	comm->cudaDev = comm->nvmlDev = device;
	comm->busId = bus_id(device);
	comm->blocking = blocking;
	comm->result = blocking ? ncclSuccess : ncclInProgress;
	pthread_mutex_init(&comm->lock, NULL);
	pthread_cond_init(&comm->turn, NULL);
	comm->listen_fd = -1;
	comm->abort_fd = eventfd(0, EFD_NONBLOCK);
	comm->chunk = malloc(CHUNK);
	if (!local_addr(&at))
		comm->listen_fd = net_listen(&at, &comm->listen_addr);
	comm->startMagic = comm->endMagic = COMM_MAGIC;
	if (comm->abort_fd < 0 || comm->listen_fd < 0 || !comm->chunk || comms_add(comm)) {
		WARN("No memory, descriptors or address for a communicator : %s", strerror(errno));
		comm_free(comm);
		return NULL;
	}
	return comm;
}

void comm_free(struct ncclComm *comm)
{
	comms_del(comm);
	conns_free(comm);
	if (comm->listen_fd >= 0)
		close(comm->listen_fd);
	if (comm->abort_fd >= 0)
		close(comm->abort_fd);
	free(comm->peers);
	free(comm->pfds);
	free(comm->chunk);
	free(comm->tmp);
	pthread_cond_destroy(&comm->turn);
	pthread_mutex_destroy(&comm->lock);
	munmap((char *)comm - HEADER - PAGE, MAPPED + 2 * PAGE);
}

/* A place in the order of work on comm; each is to be followed by comm_turn, comm_turn_done. */
uint64_t comm_ticket(struct ncclComm *comm)
{
	uint64_t ticket;

	pthread_mutex_lock(&comm->lock);
	ticket = comm->issued++;
	pthread_mutex_unlock(&comm->lock);
	return ticket;
}

void comm_turn(struct ncclComm *comm, uint64_t ticket)
{
	pthread_mutex_lock(&comm->lock);
	while (comm->done != ticket)
		pthread_cond_wait(&comm->turn, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
}

void comm_turn_done(struct ncclComm *comm)
{
	pthread_mutex_lock(&comm->lock);
	comm->done++;
	pthread_cond_broadcast(&comm->turn);
	pthread_mutex_unlock(&comm->lock);
}

/* Waits for all work before ticket. */
void comm_drain(struct ncclComm *comm, uint64_t ticket)
{
	pthread_mutex_lock(&comm->lock);
	while (comm->done < ticket)
		pthread_cond_wait(&comm->turn, &comm->lock);
	pthread_mutex_unlock(&comm->lock);
}

/* Ends what runs or waits on comm; from any thread. */
void comm_cancel(struct ncclComm *comm)
{
	uint64_t one = 1;

	comm->revoked = true;
	if (write(comm->abort_fd, &one, sizeof(one)) != sizeof(one))
		WARN("Abort of comm %p failed : %s", (void *)comm, strerror(errno));
}

/* The first error stays. By the thread whose turn it is. */
void comm_fail(struct ncclComm *comm, ncclResult_t result)
{
	int old = ncclSuccess;

	atomic_compare_exchange_strong(&comm->result, &old, result);
	conns_shutdown(comm);
}

struct member {
	int color;
	int key;
	int rank;
	struct peer peer;
};

static int member_cmp(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->color != y->color)
		return x->color < y->color ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->rank - y->rank;
}

static bool excluded(const struct init *init, int rank)
{
	for (int i = 0; i < init->nexcl; i++)
		if (init->excl[i] == rank)
			return true;
	return false;
}

/* Survivors only, over sockets of their own: those of the collectives may be broken. */
static int members_exchange(const struct init *init, struct member *m)
{
	struct ncclComm *parent = init->parent;
	size_t n = 0, max = 2ul * parent->nRanks;
	struct xfer *x;
	uint64_t drop;
	int err;

	if (!init->excl)
		return bytes_allgather(parent, m, sizeof(*m));
	while (read(parent->abort_fd, &drop, sizeof(drop)) > 0)
		;
	x = calloc(max, sizeof(*x));
	if (!x)
		return -ENOMEM;
	for (int i = 0; i < parent->nRanks; i++) {
		if (i == parent->rank || excluded(init, i))
			continue;
		x[n++] = (struct xfer){ .conn = conn_get(parent, true, CONN_ADMIN, i),
					.buf = (char *)&m[parent->rank], .len = sizeof(*m) };
		x[n++] = (struct xfer){ .conn = conn_get(parent, false, CONN_ADMIN, i),
					.buf = (char *)&m[i], .len = sizeof(*m) };
	}
	err = progress(parent, x, n);
	free(x);
	return err;
}

/* The members of our colour, in order of key, become the peers of the new communicator. */
static int members_adopt(struct init *init, struct member *m)
{
	struct ncclComm *comm = init->comm, *parent = init->parent;
	int first = 0, n = parent->nRanks, me = parent->rank;

	for (int i = 0; i < n; i++)
		if (excluded(init, i))
			m[i].color = NCCL_SPLIT_NOCOLOR;
	qsort(m, n, sizeof(*m), member_cmp);
	while (m[first].color != init->color)
		first++;
	for (init->nranks = 0; first + init->nranks < n; init->nranks++) {
		if (m[first + init->nranks].color != init->color)
			break;
		if (m[first + init->nranks].rank == me)
			init->rank = init->nranks;
	}
	comm->peers = calloc(init->nranks, sizeof(*comm->peers));
	if (!comm->peers)
		return -ENOMEM;
	for (int i = 0; i < init->nranks; i++)
		comm->peers[i] = m[first + i].peer;
	comm->nRanks = init->nranks;
	comm->commHash = hash_bytes(&m[first].peer, sizeof(m[first].peer),
				    parent->commHash + parent->children);
	return 0;
}

static int split_run(struct init *init)
{
	struct ncclComm *parent = init->parent;
	struct member *m = calloc(parent->nRanks, sizeof(*m)), *self = m + parent->rank;
	int err = -ENOMEM;

	comm_turn(parent, init->ticket);
	if (m) {
		parent->children++;
		*self = (struct member){ init->color, init->key, parent->rank,
					 parent->peers[parent->rank] };
		if (init->comm)
			self->peer.addr = init->comm->listen_addr;
		err = members_exchange(init, m);
		if (err)
			comm_fail(parent, result_of(err));
	}
	comm_turn_done(parent);
	if (!err && init->comm)
		err = members_adopt(init, m);
	if (!err && init->comm) {
		INFO("%s comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx parent %p "
		     "splitCount %d color %d key %d - Init START", init->fn, (void *)init->comm,
		     init->rank, init->nranks, init->comm->cudaDev, init->comm->nvmlDev,
		     init->comm->busId, (void *)parent, parent->children, init->color, init->key);
		err = bootstrap(init->comm, NULL, init->nranks, init->rank);
	}
	free(m);
	return err;
}

/* Runs to the end, in whichever thread. A failed blocking init leaves no communicator. */
int init_run(struct init *init)
{
	struct ncclComm *comm = init->comm;
	int err;

	if (init->parent)
		err = split_run(init);
	else
		err = bootstrap(comm, &init->id, init->nranks, init->rank);
	if (!comm)
		return err;
	if (err)
		comm->rank = -1;
	comm->result = result_of(err);
	if (err && comm->blocking) {
		*init->newcomm = NULL;
		comm_free(comm);
	}
	return err;
}

void init_free(struct init *init)
{
	free(init->excl);
	free(init);
}

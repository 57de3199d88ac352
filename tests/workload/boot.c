/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Bootstrap: the unique id holds the address of a root thread in the process that made it; every
 * rank brings its own address there and gets those of all.
 */
#define _GNU_SOURCE
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm.h"

#define HELLO_TIMEOUT_MS 5000

struct handle {
	uint64_t magic;
	struct sockaddr_in addr;
};

_Static_assert(sizeof(struct handle) <= sizeof(ncclUniqueId), "handle fits the unique id");

struct join {
	uint64_t magic;
	int32_t nranks;
	int32_t rank;
	struct peer self;
};

struct root {
	int fd;
	struct handle handle;
};

/* FNV-1a, then mixed: the low bits of an id differ little. */
uint64_t hash_bytes(const void *data, size_t len, uint64_t seed)
{
	const unsigned char *p = data;
	uint64_t h = 0xcbf29ce484222325ull ^ seed;

	for (size_t i = 0; i < len; i++)
		h = (h ^ p[i]) * 0x100000001b3ull;
	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
	h = (h ^ h >> 27) * 0x94d049bb133111ebull;
	return h ^ h >> 31;
}

/* NCCL_HOSTID, else the name. */
static uint64_t host_hash(void)
{
	const char *id = getenv("NCCL_HOSTID");
	char name[256] = "";

	if (id)
		return hash_bytes(id, strlen(id), 0);
	gethostname(name, sizeof(name) - 1);
	return hash_bytes(name, strlen(name), 0);
}

static uint64_t process_salt;

static void process_salt_init(void)
{
	if (getrandom(&process_salt, sizeof(process_salt), 0) != sizeof(process_salt))
		process_salt = (uintptr_t)&process_salt;
}

/* Not the pid alone: containers of one host share those. */
static uint64_t process_hash(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, process_salt_init);
	return process_salt + getpid();
}

/* One rank's registration, or -errno for what is no rank of ours (it is dropped). */
static int root_accept(const struct root *root, struct join *join)
{
	int err, fd;

	err = net_wait(root->fd, POLLIN, -1, -1);
	if (err)
		return err;
	fd = accept4(root->fd, NULL, NULL, SOCK_NONBLOCK);
	if (fd < 0)
		return -errno;
	err = net_recv(fd, join, sizeof(*join), -1, HELLO_TIMEOUT_MS);
	if (!err && (join->magic != root->handle.magic || join->nranks < 1 || join->rank < 0 ||
		     join->rank >= join->nranks))
		err = -EPROTO;
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

/* Collects nranks registrations, then tells all. A rank that never comes keeps all waiting. */
static void *root_main(void *arg)
{
	struct root *root = arg;
	struct peer *peers = NULL;
	int *fds = NULL, nranks = 0, have = 0;
	struct join join;

	while (!nranks || have < nranks) {
		int fd = root_accept(root, &join);

		if (fd < 0)
			continue;
		if (!nranks) {
			nranks = join.nranks;
			peers = calloc(nranks, sizeof(*peers));
			fds = calloc(nranks, sizeof(*fds));
			if (!peers || !fds)
				break;
		}
		if (join.nranks != nranks || fds[join.rank]) {
			WARN("Bootstrap Root : rank %d of %d: %s", join.rank, join.nranks,
			     join.nranks != nranks ? "mismatch in rank count from procs" :
						     "rank has already checked in");
			close(fd);
			continue;
		}
		fds[join.rank] = fd;
		peers[join.rank] = join.self;
		have++;
	}
	for (int i = 0; i < nranks && fds; i++) {
		if (have == nranks)
			net_send(fds[i], peers, nranks * sizeof(*peers));
		if (fds[i])
			close(fds[i]);
	}
	close(root->fd);
	free(root);
	free(peers);
	free(fds);
	return NULL;
}

int unique_id_get(ncclUniqueId *id)
{
	struct handle handle = { 0 };
	struct sockaddr_in at;
	struct root *root;
	int err, fd;

	err = local_addr(&at);
	if (err)
		return err;
	fd = net_listen(&at, &handle.addr);
	if (fd < 0)
		return fd;
	root = malloc(sizeof(*root));
	if (!root || getrandom(&handle.magic, sizeof(handle.magic), 0) != sizeof(handle.magic)) {
		err = -ENOMEM;
		goto fail;
	}
	*root = (struct root){ fd, handle };
	err = thread_start(NULL, root_main, root);
	if (err)
		goto fail;
	memset(id, 0, sizeof(*id));
	memcpy(id, &handle, sizeof(handle));
	return 0;
fail:
	free(root);
	close(fd);
	return err;
}

/* node numbers in the order of the first rank on each host. */
static void topology_set(struct ncclComm *comm, int rank)
{
	const struct peer *p = comm->peers;

	comm->nNodes = comm->localRanks = 0;
	for (int i = 0; i < comm->nRanks; i++) {
		int first = 0;

		while (p[first].host_hash != p[i].host_hash)
			first++;
		comm->nNodes += first == i;
		if (p[i].host_hash != p[rank].host_hash)
			continue;
		if (first == i)
			comm->node = comm->nNodes - 1;
		comm->localRank = i == rank ? comm->localRanks : comm->localRank;
		comm->localRanks++;
	}
}

/*
 * As NCCL: two ranks of one communicator on one GPU would wait for each other for ever. Any such
 * pair fails all ranks: the others would wait for the two.
 */
static int duplicates_check(const struct ncclComm *comm)
{
	const struct peer *p = comm->peers;

	for (int i = 0; i < comm->nRanks; i++) {
		for (int j = 0; j < i; j++) {
			if (p[i].process != p[j].process || p[i].dev != p[j].dev)
				continue;
			WARN("Duplicate GPU detected : rank %d and rank %d both on CUDA device %x",
			     j, i, p[i].dev);
			return -EEXIST;
		}
	}
	return 0;
}

/* Brings our address to the root, gets those of all. */
static int comm_join(struct ncclComm *comm, const struct handle *handle, int rank)
{
	struct join join = {
		.magic = handle->magic, .nranks = comm->nRanks, .rank = rank,
		.self = { comm->listen_addr, host_hash(), process_hash(), comm->cudaDev, 0 },
	};
	int err, fd = net_connect(&handle->addr, comm->abort_fd);

	if (fd < 0)
		return fd;
	err = net_send(fd, &join, sizeof(join));
	if (!err)
		err = net_recv(fd, comm->peers, comm->nRanks * sizeof(*comm->peers),
			       comm->abort_fd, -1);
	close(fd);
	return err;
}

/* Joins the others of the unique id, or (id NULL) those that comm->peers already holds. */
int bootstrap(struct ncclComm *comm, const ncclUniqueId *id, int nranks, int rank)
{
	struct handle handle;
	char addr[ADDR_LEN];
	int err;

	debug_device = comm->cudaDev;
	if (id) {
		memcpy(&handle, id, sizeof(handle));
		comm->nRanks = nranks;
		comm->commHash = hash_bytes(id, sizeof(*id), 0);
		if (!rank && debug_level >= LOG_VERSION)
			ncclDebugLog(LOG_VERSION, ~0ul, __func__, __LINE__, NCCL_VERSION_STRING);
		INFO("ncclCommInitRank comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx "
		     "commId 0x%lx - Init START", (void *)comm, rank, nranks, comm->cudaDev,
		     comm->nvmlDev, comm->busId, comm->commHash);
		comm->peers = calloc(nranks, sizeof(*comm->peers));
		err = comm->peers ? comm_join(comm, &handle, rank) : -ENOMEM;
		if (err) {
			WARN("Bootstrap with root %s failed : %s", addr_str(addr, &handle.addr),
			     strerror(-err));
			return err;
		}
	}
	err = conns_alloc(comm);
	if (!err)
		err = duplicates_check(comm);
	if (err)
		return err;
	topology_set(comm, rank);
	comm->rank = rank;
	err = ring_connect(comm);
	if (err)
		return err;
	INFO("ncclCommInitRank comm %p rank %d nranks %d cudaDev %d nvmlDev %d busId %lx "
	     "commId 0x%lx - Init COMPLETE", (void *)comm, rank, nranks, comm->cudaDev,
	     comm->nvmlDev, comm->busId, comm->commHash);
	return 0;
}

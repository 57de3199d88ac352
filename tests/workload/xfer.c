/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Transfers over the sockets of a communicator. Everything that one step of a collective or one
 * group of sends and receives needs is driven together, full duplex: no order of the peers can
 * make it deadlock. Only the thread whose turn it is (comm_turn) comes here.
 */
#define _GNU_SOURCE
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm.h"

#define HELLO_TIMEOUT_MS 5000

/* The first bytes on a socket: whose it is. */
struct hello {
	uint64_t comm_hash;
	uint32_t kind;
	uint32_t rank;
};

struct conn *conn_get(struct ncclComm *comm, bool out, enum conn_kind kind, int peer)
{
	return &comm->conns[((size_t)out * CONN_KINDS + kind) * comm->nRanks + peer];
}

int conns_alloc(struct ncclComm *comm)
{
	size_t n = 2ul * CONN_KINDS * comm->nRanks;

	comm->conns = calloc(n, sizeof(*comm->conns));
	if (!comm->conns)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		comm->conns[i] = (struct conn){
			.fd = -1,
			.out = i / comm->nRanks / CONN_KINDS,
			.kind = i / comm->nRanks % CONN_KINDS,
			.peer = i % comm->nRanks,
		};
	}
	return 0;
}

/* So that the neighbours learn of our failure as well; the numbers stay ours until conns_free. */
void conns_shutdown(struct ncclComm *comm)
{
	for (size_t i = 0; comm->conns && i < 2ul * CONN_KINDS * comm->nRanks; i++)
		if (comm->conns[i].fd >= 0)
			shutdown(comm->conns[i].fd, SHUT_RDWR);
}

void conns_free(struct ncclComm *comm)
{
	for (size_t i = 0; comm->conns && i < 2ul * CONN_KINDS * comm->nRanks; i++)
		if (comm->conns[i].fd >= 0)
			close(comm->conns[i].fd);
	free(comm->conns);
	comm->conns = NULL;
}

static int conn_fail(const struct conn *conn, int err)
{
	char addr[ADDR_LEN];

	if (err == -EPIPE || err == -ECONNRESET || err == -ECONNREFUSED)
		WARN("socketProgress: Connection closed by remote peer %s",
		     addr_str(addr, &conn->addr));
	else if (err != -ECANCELED)
		WARN("socketProgress: Call to %s %s failed : %s",
		     conn->out ? "send to" : "recv from", addr_str(addr, &conn->addr),
		     strerror(-err));
	return err;
}

static int conn_open(struct ncclComm *comm, struct conn *conn)
{
	struct hello hello = { comm->commHash, conn->kind, comm->rank };
	int err, fd;

	conn->addr = comm->peers[conn->peer].addr;
	fd = net_connect(&conn->addr, comm->abort_fd);
	if (fd < 0)
		return fd;
	err = net_send(fd, &hello, sizeof(hello));
	if (err) {
		close(fd);
		return err;
	}
	conn->fd = fd;
	INFO("Channel 00/0 : %d[%d] -> %d[%d] [send] via NET/Socket/0", comm->rank, comm->nvmlDev,
	     conn->peer, comm->peers[conn->peer].dev);
	return 0;
}

/* Takes one waiting connection, which may be of another peer or kind. 1 taken, 0 none there. */
static int conn_accept(struct ncclComm *comm)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	struct hello hello;
	struct conn *conn;
	int one = 1, fd = accept4(comm->listen_fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK);

	if (fd < 0)
		return errno == EAGAIN || errno == ECONNABORTED || errno == EINTR ? 0 : -errno;
	/* Whatever does not introduce itself as one of us (a port scan) is dropped. */
	if (net_recv(fd, &hello, sizeof(hello), comm->abort_fd, HELLO_TIMEOUT_MS) ||
	    hello.comm_hash != comm->commHash || hello.kind >= CONN_KINDS ||
	    hello.rank >= (uint32_t)comm->nRanks) {
		close(fd);
		return 1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	conn = conn_get(comm, false, hello.kind, hello.rank);
	if (conn->fd >= 0)
		close(conn->fd);
	conn->fd = fd;
	conn->addr = from;
	return 1;
}

int ring_connect(struct ncclComm *comm)
{
	int n = comm->nRanks, err;
	struct conn *out = conn_get(comm, true, CONN_RING, (comm->rank + 1) % n);
	struct conn *in = conn_get(comm, false, CONN_RING, (comm->rank + n - 1) % n);

	if (n == 1)
		return 0;
	err = conn_open(comm, out);
	if (err)
		return conn_fail(out, err);
	while (in->fd < 0) {
		err = net_wait(comm->listen_fd, POLLIN, comm->abort_fd, -1);
		if (!err)
			err = conn_accept(comm);
		if (err < 0)
			return err;
	}
	INFO("Connected all rings");
	return 0;
}

/* Reduces what waits in the chunk buffer: whole elements, since both sizes are multiples. */
static void xfer_fold(struct ncclComm *comm, struct xfer *x)
{
	x->fold(x->buf + x->done, comm->chunk, x->src + x->done, x->held / x->size);
	x->done += x->held;
	x->held = 0;
}

static ssize_t xfer_io(struct ncclComm *comm, struct xfer *x)
{
	size_t left = x->len - x->done;

	if (x->conn->out)
		return send(x->conn->fd, x->buf + x->done, min_size(left, CHUNK),
			    MSG_NOSIGNAL | MSG_DONTWAIT);
	if (x->fold)
		return recv(x->conn->fd, comm->chunk + x->held,
			    min_size(left, CHUNK) - x->held, MSG_DONTWAIT);
	return recv(x->conn->fd, x->buf + x->done, left, MSG_DONTWAIT);
}

/* 1 moved, 0 would block, -errno. */
static int xfer_advance(struct ncclComm *comm, struct xfer *x)
{
	ssize_t n;
	int err;

	if (x->conn->fd < 0 && x->conn->out) {
		err = conn_open(comm, x->conn);
		return err ? err : 1;
	}
	if (x->conn->fd < 0)
		return conn_accept(comm);
	n = xfer_io(comm, x);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (!n)
		return -ECONNRESET;
	if (!x->fold) {
		x->done += n;
		return 1;
	}
	x->held += n;
	if (x->held == min_size(x->len - x->done, CHUNK))
		xfer_fold(comm, x);
	return 1;
}

static int xfers_wait(struct ncclComm *comm, struct xfer **active, size_t n)
{
	if (comm->pfds_cap < n + 1) {
		struct pollfd *p = realloc(comm->pfds, (n + 1) * sizeof(*p));

		if (!p)
			return -ENOMEM;
		comm->pfds = p;
		comm->pfds_cap = n + 1;
	}
	comm->pfds[n] = (struct pollfd){ .fd = comm->abort_fd, .events = POLLIN };
	for (size_t i = 0; i < n; i++) {
		const struct conn *conn = active[i]->conn;

		comm->pfds[i] = (struct pollfd){
			.fd = conn->fd < 0 ? comm->listen_fd : conn->fd,
			.events = conn->out ? POLLOUT : POLLIN,
		};
	}
	if (poll(comm->pfds, n + 1, -1) < 0)
		return errno == EINTR ? 0 : -errno;
	return comm->pfds[n].revents ? -ECANCELED : 0;
}

/*
 * Runs all transfers to their end. Those on one socket go one after the other in the order given;
 * at most one receive may have a fold. -ECONNRESET or -EPIPE: a peer is gone; -ECANCELED: abort.
 */
int progress(struct ncclComm *comm, struct xfer *xfers, size_t n)
{
	struct xfer **active = calloc(n + 1, sizeof(*active));
	int err = active ? 0 : -ENOMEM;

	while (!err) {
		size_t pending = 0;
		bool moved = false;

		comm->pass++;
		for (size_t i = 0; i < n; i++) {
			struct xfer *x = &xfers[i];

			if (x->done == x->len || x->conn->pass == comm->pass)
				continue;
			err = xfer_advance(comm, x);
			if (err < 0) {
				conn_fail(x->conn, err);
				goto out;
			}
			moved |= err;
			err = 0;
			x->conn->pass = comm->pass;
			active[pending++] = x;
		}
		if (!pending)
			break;
		if (!moved)
			err = xfers_wait(comm, active, pending);
	}
out:
	free(active);
	return err;
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Sockets, and the choice of the address that other ranks are told. IPv4 only. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "comm.h"

/* As NCCL prints an address: 10.0.0.1<45678>. buf holds ADDR_LEN bytes. */
const char *addr_str(char *buf, const struct sockaddr_in *addr)
{
	char ip[INET_ADDRSTRLEN] = "?";

	inet_ntop(AF_INET, &addr->sin_addr, ip, sizeof(ip));
	snprintf(buf, ADDR_LEN, "%s<%u>", ip, ntohs(addr->sin_port));
	return buf;
}

/* NCCL_SOCKET_IFNAME: prefixes, `=` for exact names, `^` in front for all but these. */
static bool ifname_matches(const char *spec, const char *name)
{
	bool negate = *spec == '^', exact, hit = false;

	spec += negate;
	exact = *spec == '=';
	spec += exact;
	while (*spec && !hit) {
		size_t len = strcspn(spec, ",");

		hit = len && !strncmp(spec, name, len) && (!exact || !name[len]);
		spec += len + (spec[len] == ',');
	}
	return hit != negate;
}

/* FT_NCCL_ADDR, else the first address that NCCL_SOCKET_IFNAME allows, else not the loopback. */
int local_addr(struct sockaddr_in *addr)
{
	const char *literal = getenv("FT_NCCL_ADDR"), *spec = getenv("NCCL_SOCKET_IFNAME");
	struct sockaddr_in found = { .sin_family = AF_INET };
	struct ifaddrs *list, *i;

	found.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (literal) {
		if (inet_pton(AF_INET, literal, &found.sin_addr) != 1)
			return -EINVAL;
		*addr = found;
		return 0;
	}
	if (getifaddrs(&list))
		return -errno;
	for (i = list; i; i = i->ifa_next) {
		if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || !(i->ifa_flags & IFF_UP))
			continue;
		if (spec ? !ifname_matches(spec, i->ifa_name) : !!(i->ifa_flags & IFF_LOOPBACK))
			continue;
		found.sin_addr = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr;
		break;
	}
	freeifaddrs(list);
	if (!i && spec)
		return -ENODEV;
	*addr = found;
	return 0;
}

/* A non-blocking listener on a port of the kernel's choice; bound gets its address. */
int net_listen(const struct sockaddr_in *at, struct sockaddr_in *bound)
{
	socklen_t len = sizeof(*bound);
	int err, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) || listen(fd, 4096) ||
	    getsockname(fd, (struct sockaddr *)bound, &len)) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

/* 0 when events are there, -ETIMEDOUT, or -ECANCELED when abort_fd became readable. */
int net_wait(int fd, short events, int abort_fd, int timeout_ms)
{
	struct pollfd p[2] = { { .fd = fd, .events = events },
			       { .fd = abort_fd, .events = POLLIN } };
	int n;

	do {
		n = poll(p, 2, timeout_ms);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (p[1].revents)
		return -ECANCELED;
	return n ? 0 : -ETIMEDOUT;
}

int net_connect(const struct sockaddr_in *to, int abort_fd)
{
	int one = 1, err = 0, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(err);

	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)to, sizeof(*to))) {
		err = -errno;
		if (err == -EINPROGRESS || err == -EINTR) {
			err = net_wait(fd, POLLOUT, abort_fd, -1);
			if (!err && getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len))
				err = -errno;
			else if (err > 0)
				err = -err;
		}
	}
	if (err) {
		close(fd);
		return err;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

int net_send(int fd, const void *buf, size_t len)
{
	const char *p = buf;
	ssize_t n;
	int err;

	while (len) {
		n = send(fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EAGAIN) {
			err = net_wait(fd, POLLOUT, -1, -1);
			if (err)
				return err;
		} else if (n < 0 && errno != EINTR) {
			return -errno;
		} else if (n > 0) {
			p += n;
			len -= n;
		}
	}
	return 0;
}

/* -ECONNRESET also for an orderly end before len bytes. */
int net_recv(int fd, void *buf, size_t len, int abort_fd, int timeout_ms)
{
	char *p = buf;
	ssize_t n;
	int err;

	while (len) {
		err = net_wait(fd, POLLIN, abort_fd, timeout_ms);
		if (err)
			return err;
		n = recv(fd, p, len, MSG_DONTWAIT);
		if (!n)
			return -ECONNRESET;
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (n > 0) {
			p += n;
			len -= n;
		}
	}
	return 0;
}

/* The program's signals are not for the library's threads. NULL thread: detached. */
int thread_start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	pthread_t id;
	int err;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&id, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		return -err;
	if (thread)
		*thread = id;
	else
		pthread_detach(id);
	return 0;
}

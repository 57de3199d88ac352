// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Two ends of a burst of small UDP packets.
 *   udp_burst RANK ADDR0 ADDR1 PORT COUNT DIR
 * Rank 0 waits for DIR/go, sends COUNT packets to ADDR1 and makes DIR/sent; rank 1 only holds the
 * socket that they are meant for. Both end when DIR/stop exists.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCH 64

static void path_of(char *path, size_t size, const char *dir, const char *name)
{
	if ((size_t)snprintf(path, size, "%s/%s", dir, name) >= size)
		errx(1, "%s: name too long", dir);
}

static void wait_for(const char *dir, const char *name)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
	char path[4096];

	path_of(path, sizeof(path), dir, name);
	while (access(path, F_OK))
		nanosleep(&pause, NULL);
}

static void make_file(const char *dir, const char *name)
{
	char path[4096];
	int fd;

	path_of(path, sizeof(path), dir, name);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		err(1, "%s", path);
	close(fd);
}

static struct sockaddr_in address(const char *text, const char *port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };

	addr.sin_port = htons(atoi(port));
	if (inet_pton(AF_INET, text, &addr.sin_addr) != 1)
		errx(1, "%s: not an IPv4 address", text);
	return addr;
}

/* A connected socket: both ends have the same 5-tuple, turned round. */
static int open_socket(const char *own, const char *peer, const char *port)
{
	struct sockaddr_in from = address(own, port), to = address(peer, port);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof(from)) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)))
		err(1, "%s to %s port %s", own, peer, port);
	return fd;
}

static void send_burst(int fd, long count)
{
	char byte[32] = "burst";
	struct iovec iov = { .iov_base = byte, .iov_len = sizeof(byte) };
	struct mmsghdr msgs[BATCH] = { 0 };
	int n;

	for (n = 0; n < BATCH; n++) {
		msgs[n].msg_hdr.msg_iov = &iov;
		msgs[n].msg_hdr.msg_iovlen = 1;
	}
	while (count > 0) {
		n = sendmmsg(fd, msgs, count < BATCH ? count : BATCH, 0);
		if (n < 0) {
			/* EPERM: an output rule dropped the first of them, so it counts as sent. */
			if (errno != EPERM)
				err(1, "sendmmsg");
			n = 1;
		}
		count -= n;
	}
}

int main(int argc, char **argv)
{
	int rank, fd;

	if (argc != 7)
		errx(64, "usage: udp_burst RANK ADDR0 ADDR1 PORT COUNT DIR");
	rank = atoi(argv[1]);
	fd = open_socket(argv[2 + rank], argv[3 - rank], argv[4]);
	if (rank == 0) {
		wait_for(argv[6], "go");
		send_burst(fd, atol(argv[5]));
		make_file(argv[6], "sent");
	}
	wait_for(argv[6], "stop");
	return 0;
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* How the processes of a job get one unique id: from rank 0, at the address torchrun would set. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "trainer.h"

#define FETCH_MS 60000

static struct {
	int fd;
	ncclUniqueId id;
} server;

static int master_addr(struct sockaddr_in *addr)
{
	const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *list;

	if (!port) {
		fprintf(stderr, "trainer: MASTER_PORT is not set: several processes meet there\n");
		return -EINVAL;
	}
	if (getaddrinfo(host ? host : "127.0.0.1", port, &hints, &list))
		return -EHOSTUNREACH;
	memcpy(addr, list->ai_addr, sizeof(*addr));
	freeaddrinfo(list);
	return 0;
}

static void *serve_main(void *arg)
{
	(void)arg;
	for (;;) {
		int fd = accept(server.fd, NULL, NULL);

		if (fd < 0)
			continue;
		if (send(fd, &server.id, sizeof(server.id), MSG_NOSIGNAL) < 0)
			fprintf(stderr, "trainer: unique id not sent: %s\n", strerror(errno));
		close(fd);
	}
	return NULL;
}

/* Serves as long as the process lives: it cannot know how many processes there are. */
int id_serve(const ncclUniqueId *id)
{
	struct sockaddr_in addr;
	pthread_t thread;
	int one = 1, err = master_addr(&addr);

	if (err)
		return err;
	server.id = *id;
	server.fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(server.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (server.fd < 0 || bind(server.fd, (struct sockaddr *)&addr, sizeof(addr)) ||
	    listen(server.fd, 4096)) {
		err = -errno;
		fprintf(stderr, "trainer: cannot listen at MASTER_ADDR, MASTER_PORT: %s\n",
			strerror(errno));
		return err;
	}
	return -pthread_create(&thread, NULL, serve_main, NULL);
}

int id_fetch(ncclUniqueId *id)
{
	double until = now_ms() + FETCH_MS;
	struct sockaddr_in addr;
	int err = master_addr(&addr);

	if (err)
		return err;
	do {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		bool ok = fd >= 0 && !connect(fd, (struct sockaddr *)&addr, sizeof(addr)) &&
			  recv(fd, id, sizeof(*id), MSG_WAITALL) == sizeof(*id);

		if (fd >= 0)
			close(fd);
		if (ok)
			return 0;
		sleep_ms(20);
	} while (now_ms() < until);
	fprintf(stderr, "trainer: no unique id from rank 0 at MASTER_ADDR, MASTER_PORT\n");
	return -ETIMEDOUT;
}

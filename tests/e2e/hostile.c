// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Processes that are not what a tracer expects:
 *   leader             the main thread ends, another one goes on and ends the process with status 3
 *   moves FILE         once FILE exists it goes to a network namespace of its own, and listens
 *   files LIB N DIR    N executable files are mapped, then LIB
 *   storm LIB N FILE   N threads call ncclGroupStart and ncclGroupEnd while FILE exists; prints how
 *                      often
 */
#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS_MAX 16

static int (*group_start)(void), (*group_end)(void);
static volatile int stop;

static void *end_later(void *arg)
{
	(void)arg;
	sleep(2);
	exit(3);
}

static void leader(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_later, NULL))
		err(1, "thread");
	pthread_exit(NULL);
}

static void wait_for(const char *file)
{
	while (access(file, F_OK))
		usleep(10000);
}

static void moves(const char *file)
{
	int fd;

	wait_for(file);
	if (unshare(CLONE_NEWNET))
		err(1, "unshare");
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || listen(fd, 1))
		err(1, "listen");
	sleep(1);
}

static void map_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0755);

	if (fd < 0 || mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		err(1, "%s", path);
	close(fd);
}

static void files(const char *lib, int n, const char *dir)
{
	char path[256];

	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/%d", dir, i);
		map_file(path);
	}
	map_file(lib);
	puts("mapped");
	fflush(stdout);
	sleep(60);
}

static void *call(void *arg)
{
	long *calls = arg;

	while (!stop) {
		group_start();
		group_end();
		*calls += 2;
	}
	return NULL;
}

static void storm(const char *lib, int n, const char *file)
{
	void *handle = dlopen(lib, RTLD_NOW);
	pthread_t threads[THREADS_MAX];
	long calls[THREADS_MAX] = { 0 }, sum = 0;

	if (!handle || n > THREADS_MAX)
		errx(1, "%s", dlerror());
	group_start = (int (*)(void))dlsym(handle, "ncclGroupStart");
	group_end = (int (*)(void))dlsym(handle, "ncclGroupEnd");
	puts("loaded");
	fflush(stdout);
	/* Not before the tracer is there. */
	wait_for(file);
	for (int i = 0; i < n; i++)
		pthread_create(&threads[i], NULL, call, &calls[i]);
	while (!access(file, F_OK))
		usleep(10000);
	stop = 1;
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		sum += calls[i];
	}
	printf("calls %ld\n", sum);
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "leader"))
		leader();
	else if (argc > 2 && !strcmp(argv[1], "moves"))
		moves(argv[2]);
	else if (argc > 4 && !strcmp(argv[1], "files"))
		files(argv[2], atoi(argv[3]), argv[4]);
	else if (argc > 4 && !strcmp(argv[1], "storm"))
		storm(argv[2], atoi(argv[3]), argv[4]);
	else
		errx(64, "usage: hostile leader | moves FILE | files LIB N DIR | storm LIB N FILE");
	return 0;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Calls the init functions of a given libnccl as rank 2 of 4 and prints what they return. Without a
 * GPU they reach their code with all arguments and then fail.
 *   nccl_init LIBRARY [DIR]    with DIR: makes DIR/loaded and waits for DIR/go before the calls
 */
#include <dlfcn.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

struct unique_id {
	char bytes[128];
};

typedef int (*get_id_fn)(struct unique_id *);
typedef int (*init_fn)(void **, int, struct unique_id, int);
typedef int (*init_config_fn)(void **, int, struct unique_id, int, void *);

static void *symbol(void *library, const char *name)
{
	void *address = dlsym(library, name);

	if (!address)
		errx(1, "%s: %s", name, dlerror());
	return address;
}

static void hold(const char *dir)
{
	const struct timespec pause = { .tv_nsec = 10 * 1000 * 1000 };
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/loaded", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		err(1, "%s", path);
	close(fd);
	snprintf(path, sizeof(path), "%s/go", dir);
	while (access(path, F_OK))
		nanosleep(&pause, NULL);
}

int main(int argc, char **argv)
{
	struct unique_id id = { { 0 } };
	void *library, *comm = NULL;

	if (argc < 2 || argc > 3)
		errx(64, "usage: nccl_init LIBRARY [DIR]");
	library = dlopen(argv[1], RTLD_NOW);
	if (!library)
		errx(1, "%s", dlerror());
	if (argc == 3)
		hold(argv[2]);
	printf("ncclGetUniqueId %d\n", ((get_id_fn)symbol(library, "ncclGetUniqueId"))(&id));
	printf("ncclCommInitRank %d\n",
	       ((init_fn)symbol(library, "ncclCommInitRank"))(&comm, 4, id, 2));
	printf("ncclCommInitRankConfig %d\n",
	       ((init_config_fn)symbol(library, "ncclCommInitRankConfig"))(&comm, 4, id, 2, NULL));
	return 0;
}

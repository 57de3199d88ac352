/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* For `trainer-dl`: the table as dlsym fills it; what an older library lacks stays NULL. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "trainer.h"

struct nccl nccl;
const bool nccl_late = true;

static void symbol_get(void *lib, const char *name, void *slot)
{
	void *p = dlsym(lib, name);

	memcpy(slot, &p, sizeof(p));
}

#define NCCL_DLSYM(ret, name, args) symbol_get(lib, #name, &nccl.name);

/* By its full name: a sanitizer's dlopen does not look at our RUNPATH. */
static const char *beside_program(char *buf, size_t size)
{
	ssize_t n = readlink("/proc/self/exe", buf, size - sizeof("/libnccl.so.2"));
	char *slash;

	buf[n > 0 ? n : 0] = '\0';
	slash = strrchr(buf, '/');
	strcpy(slash ? slash : buf, "/libnccl.so.2");
	return buf;
}

int nccl_load(const char *path)
{
	char buf[PATH_MAX];
	void *lib;

	path = path ? path : beside_program(buf, sizeof(buf));
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "trainer: %s\n", dlerror());
		return -ENOENT;
	}
	NCCL_FUNCTIONS(NCCL_DLSYM)
	FT_NCCL_FUNCTIONS(NCCL_DLSYM)
	if (!nccl.ncclCommInitRank) {
		fprintf(stderr, "trainer: %s: not a libnccl\n", path);
		return -ENOEXEC;
	}
	return 0;
}

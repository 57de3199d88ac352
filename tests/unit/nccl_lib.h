/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Small shared objects made by the compiler while the test runs, in a directory of their own. */
#ifndef NCCL_LIB_H
#define NCCL_LIB_H

#include <dlfcn.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
/* after the four above */
#include <cmocka.h>

#include "nccl/nccl.h"

#define REAL_NCCL "/usr/local/cuda-13.0/lib/libnccl.so.2"

static char lib_dir[] = "/tmp/ft-nccl-XXXXXX";

static inline int lib_dir_make(void **state)
{
	(void)state;
	return mkdtemp(lib_dir) ? 0 : -1;
}

static inline int lib_dir_remove(void **state)
{
	char cmd[128];

	(void)state;
	ft_fmt(cmd, "rm -rf %s", lib_dir);
	return system(cmd);
}

/* As NVIDIA builds it: pncclX global, ncclX weak at the same address. */
#define LIB_BOTH(name)                                                                             \
	"int pnccl" name "(int x) { return x + sizeof(\"" name "\"); }\n"                          \
	"int nccl" name "(int x) __attribute__((weak, alias(\"pnccl" name "\")));\n"
/* As a library between the program and NCCL does. */
#define LIB_ONLY(name) "int nccl" name "(int x) { return x; }\n"
#define LIB_VERSION                                                                                \
	"const char *tell(void) { return \"NCCL version 2.99.1+cuda99.0\"; }\n"                    \
	"const char *format(void) { return \"NCCL version %d.%d\"; }\n"

/* Compiles; returns the path, in a static buffer. */
static inline const char *lib_make(const char *name, const char *source, const char *flags)
{
	static char path[96];
	char cmd[512], src[128];
	FILE *f;

	ft_fmt(path, "%s/%s", lib_dir, name);
	ft_fmt(src, "%s.c", path);
	f = fopen(src, "we");
	assert_non_null(f);
	fputs(source, f);
	fclose(f);
	ft_fmt(cmd, "${CC:-cc} -O1 -w -shared -fPIC %s -o '%s' '%s'", flags, path, src);
	assert_int_equal(system(cmd), 0);
	return path;
}

static inline int lib_read(const char *path, struct ft_nccl_image *img)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return ft_nccl_image_read(fd, img);
}

#endif

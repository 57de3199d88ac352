/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Builds the NVML stand-in below machine_root. */
#ifndef FT_TEST_NVML_LIB_H
#define FT_TEST_NVML_LIB_H

#include "fixtures/machine.h"

/* Its path; tests run in the repository's root. NULL: the compiler failed. */
static inline const char *nvml_build(const char *name, const char *flags)
{
	static char path[128];
	char cmd[512];

	ft_fmt(path, "%s/%s", machine_root, name);
	ft_fmt(cmd, "${CC:-cc} -shared -fPIC %s -o %s tests/unit/fixtures/nvml_stub.c", flags,
	       path);
	return system(cmd) ? NULL : path;
}

/* The GPUs of the stand-in from now on: one a line, see nvml_stub.c. Never half written. */
__printf(1, 2) static inline void nvml_gpus(const char *fmt, ...)
{
	char text[4096], from[128], to[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ft_fmt(from, "%s/gpus.new", machine_root);
	ft_fmt(to, "%s/gpus", machine_root);
	put("/gpus.new", "%s", text);
	if (rename(from, to))
		abort();
	setenv("NVML_STUB_STATE", to, 1);
}

#endif

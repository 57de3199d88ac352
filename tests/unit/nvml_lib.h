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

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* For `trainer`: the table as the linker fills it. Weak: a real libnccl has no ft functions. */
#include <errno.h>

#include "trainer.h"

#pragma weak ftSetDevice
#pragma weak ftStreamSynchronize
#pragma weak ftWarn

#define NCCL_LINKED(ret, name, args) .name = name,
struct nccl nccl = { NCCL_FUNCTIONS(NCCL_LINKED) FT_NCCL_FUNCTIONS(NCCL_LINKED) };

const bool nccl_late;

int nccl_load(const char *path)
{
	(void)path;
	return -ENOTSUP;
}

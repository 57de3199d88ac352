// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Clock limits and NVLinks of GPUs, by NVML. */
#include "source/source.h"

struct ft_gpu_src {
	struct ft_loop *loop;
	struct ft_emit emit;
};

int ft_gpu_src_new(struct ft_gpu_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		   const struct ft_emit *emit, const struct ft_pci *pci)
{
	struct ft_gpu_src *s = calloc(1, sizeof(*s));

	(void)bpf;
	(void)pci;
	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->emit = *emit;
	*out = s;
	return 0;
}

void ft_gpu_src_free(struct ft_gpu_src *s)
{
	free(s);
}

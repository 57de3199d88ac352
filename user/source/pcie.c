// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Link Status and AER counters of the links on the way to GPUs and NICs. */
#include "source/source.h"

struct ft_pcie_src {
	struct ft_loop *loop;
	struct ft_emit emit;
};

int ft_pcie_src_new(struct ft_pcie_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_pci *pci,
		    const struct ft_pcie_opts *opts)
{
	struct ft_pcie_src *s = calloc(1, sizeof(*s));

	(void)bpf;
	(void)pci;
	(void)opts;
	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->emit = *emit;
	*out = s;
	return 0;
}

void ft_pcie_src_free(struct ft_pcie_src *s)
{
	free(s);
}

void ft_pcie_src_note(struct ft_pcie_src *s, const struct ft_hdr *ev)
{
	(void)s;
	(void)ev;
}

void ft_pcie_src_tick(struct ft_pcie_src *s)
{
	(void)s;
}

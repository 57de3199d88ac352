// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "nccl/nccl.h"

const struct ft_nccl_func ft_nccl_funcs[FT_NCCL_NFNS] = {
#define FN(nr, sym, opnr, class, ...) [nr] = { .name = #sym, .op = opnr, .cls = FT_NCCL_##class },
	FT_NCCL_FNS
#undef FN
};

static uint64_t slot_start(unsigned int slot)
{
	unsigned int log = FT_NCCL_LOG_MIN + slot / FT_NCCL_SUB;

	return (1ull << log) + ((uint64_t)(slot % FT_NCCL_SUB) << (log - 3));
}

uint64_t ft_nccl_quantile(const uint32_t slots[FT_NCCL_SLOTS], double q)
{
	uint64_t total = 0, below = 0;
	double want;

	for (int i = 0; i < FT_NCCL_SLOTS; i++)
		total += slots[i];
	if (!total)
		return UINT64_MAX;
	want = q * total;
	for (int i = 0; i < FT_NCCL_SLOTS; i++) {
		uint64_t from = slot_start(i), to = slot_start(i + 1);

		/* Evenly spread within a slot. The first also holds what is shorter than all. */
		if (slots[i] && below + slots[i] >= want)
			return from + (to - from) * ((want - below) / slots[i]);
		below += slots[i];
	}
	return slot_start(FT_NCCL_SLOTS);
}

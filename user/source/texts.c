// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Numbers that BPF programs send become texts here: drop and reset reasons, errors of AER. */
#include "source/aer.h"
#include "source/loader.h"

static void drop_texts(struct ft_kernel *kernel, struct ft_rec *rec)
{
	struct ft_ev_net_drop *e = (void *)rec->buf;
	const char *reason = ft_kernel_drop_reason(kernel, e->reason_nr);

	if (reason)
		ft_rec_str(rec, &e->reason, reason);
	ft_rec_str(rec, &e->symbol, ft_kernel_symbol(kernel, e->location));
}

static void reset_texts(struct ft_kernel *kernel, struct ft_rec *rec)
{
	struct ft_ev_tcp_reset *e = (void *)rec->buf;
	const char *reason = ft_kernel_reset_reason(kernel, e->reason_nr);

	if (reason)
		ft_rec_str(rec, &e->reason, reason);
}

static void aer_texts(struct ft_kernel *kernel, struct ft_rec *rec)
{
	(void)kernel;
	ft_aer_texts(rec);
}

static const struct {
	enum ft_kind kind;
	size_t size;
	void (*texts)(struct ft_kernel *kernel, struct ft_rec *rec);
} table[] = {
	{ FT_KIND_net_drop, sizeof(struct ft_ev_net_drop), drop_texts },
	{ FT_KIND_tcp_reset, sizeof(struct ft_ev_tcp_reset), reset_texts },
	{ FT_KIND_pcie_aer, sizeof(struct ft_ev_pcie_aer), aer_texts },
};

void ft_kernel_texts(struct ft_kernel *kernel, const void *buf, size_t len,
		     const struct ft_emit *emit)
{
	const struct ft_hdr *h = buf;
	struct ft_rec rec, gone;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (h->kind != table[i].kind || len != table[i].size)
			continue;
		memcpy(rec.buf, buf, len);
		rec.h.size = len;
		table[i].texts(kernel, &rec);
		ft_emit(emit, &rec);
		if (rec.h.kind == FT_KIND_pcie_aer && ft_aer_gone(&rec, &gone))
			ft_emit(emit, &gone);
		return;
	}
	emit->fn(emit->ctx, buf, len);
}

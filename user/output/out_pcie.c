// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Lines of PCIe links, GPUs and the kernel log. */
#include "host/pci.h"
#include "output/internal.h"

static void before(struct ft_buf *b, uint8_t flag)
{
	if (flag == 1)
		ft_buf_puts(b, "before the attach: ");
}

/* "rank 11 GPU 3", "ranks 0-3 4 GPUs", "mlx5_3", as far as known. */
static void who(struct ft_buf *b, const struct ft_attr *attr)
{
	size_t from = b->len;

	if (attr->nranks)
		text_ranks(b, attr->ranks, attr->nranks, attr->shared);
	if (attr->nranks && attr->truncated && attr->ranks_all > attr->nranks)
		ft_buf_printf(b, " (%d of %u)", attr->nranks, attr->ranks_all);
	if (attr->ngpus == 1 && attr->gpus[0].index >= 0)
		ft_buf_printf(b, "%sGPU %d", b->len > from ? " " : "", attr->gpus[0].index);
	else if (attr->ngpus)
		ft_buf_printf(b, "%s%d GPU%s", b->len > from ? " " : "", attr->ngpus,
			      ft_plural(attr->ngpus, "s"));
	if (attr->nnics > 1) {
		ft_buf_printf(b, "%s%d NICs", b->len > from ? " " : "", attr->nnics);
	} else if (attr->nnics) {
		const struct ft_attr_nic *n = &attr->nics[0];

		ft_buf_puts(b, b->len > from ? " " : "");
		if (n->ibdev[0] || n->netdev[0])
			text_chars(b, n->ibdev[0] ? n->ibdev : n->netdev, 32);
		else
			ft_buf_puts(b, "NIC");
	}
	if (b->len > from)
		ft_buf_puts(b, "  ");
}

/* "0000:40:01.0 -> 41:00.0": the domain is told once. */
static void ends(struct ft_buf *b, const char port[16], const char device[16])
{
	const char *colon = memchr(port, ':', 16);
	size_t domain = colon ? colon - port + 1 : 0;

	if (!port[0]) {
		text_chars(b, device, 16);
		return;
	}
	text_chars(b, port, 16);
	if (!device[0])
		return;
	if (strncmp(port, device, domain) != 0)
		domain = 0;
	ft_buf_puts(b, " -> ");
	text_chars(b, device + domain, 16 - domain);
}

static void list(struct ft_buf *b, const struct ft_hdr *ev, struct ft_str l, const char *sep,
		 uint32_t count)
{
	size_t len;
	const char *s = ft_str_get(ev, l, &len);

	for (size_t i = 0, n; i < len; i += n + 1) {
		n = strnlen(s + i, len - i);
		ft_buf_puts(b, i ? sep : "");
		ft_buf_escape(b, s + i, n);
		if (count > 1)
			ft_buf_printf(b, " x%u", count);
	}
}

void line_aer(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_aer *e = (const void *)ev;

	before(b, e->before);
	who(b, attr);
	text_chars(b, e->device, 16);
	ft_buf_puts(b, "  ");
	if (e->advisory == 1)
		ft_buf_puts(b, "advisory  ");
	else if (e->aer_class != 2)
		ft_buf_printf(b, "%s  ", e->aer_class == 1 ? "FATAL" : "NOT CORRECTED");
	if (e->errors.len)
		list(b, ev, e->errors, " ", ev->count);
	else
		ft_buf_printf(b, "errors x%u", ev->count);
	if (e->tlp__type.len && !(ev->flags & FT_REC_AGG)) {
		ft_buf_puts(b, "  ");
		text_str(b, ev, e->tlp__type);
		ft_buf_puts(b, " of ");
		text_str(b, ev, e->tlp__requester);
	}
}

static void state(struct ft_buf *b, struct ft_pci_link l)
{
	char name[32];

	ft_buf_puts(b, l.width ? ft_pci_link_text(l, name) : "no link");
}

void line_pcie_link(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_link *e = (const void *)ev;
	const struct ft_pci_link from = { e->from__gen, e->from__width };
	const struct ft_pci_link to = { e->to__gen, e->to__width };
	double a = ft_pci_gbytes(from), z = ft_pci_gbytes(to);
	bool many = e->transitions != FT_NONE_U64 && e->transitions > 1;

	before(b, e->before);
	who(b, attr);
	ends(b, e->port, e->device);
	ft_buf_puts(b, "  ");
	if (many)
		ft_buf_printf(b, "%s%llu changes, now ", e->exact == 1 ? "" : "at least ",
			      (unsigned long long)e->transitions);
	else if (from.width != FT_NONE_U32) {
		state(b, from);
		ft_buf_puts(b, " -> ");
	}
	state(b, to);
	if (a > 0 && z > 0 && a != z && !many)
		ft_buf_printf(b, ", %.1f -> %.1f GB/s", a, z);
	if (e->training == 1)
		ft_buf_puts(b, "  training");
	if (e->lbms == 1 || e->labs == 1)
		ft_buf_printf(b, "  %s", e->labs == 1 ? "LABS" : "LBMS");
}

void line_hotplug(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_hotplug *e = (const void *)ev;

	before(b, e->before);
	who(b, attr);
	ends(b, e->port, e->device);
	ft_buf_printf(b, "  %s", ft_name_of(&ft_format_hotplug, e->event));
	if (e->slot.len) {
		ft_buf_puts(b, ", slot ");
		text_str(b, ev, e->slot);
	}
}

void line_recovery(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_recovery *e = (const void *)ev;

	before(b, e->before);
	who(b, attr);
	text_chars(b, e->device, 16);
	ft_buf_printf(b, "  %s", ft_name_of(&ft_format_recovery, e->result));
}

void line_gone(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_gone *e = (const void *)ev;

	before(b, e->before);
	who(b, attr);
	ends(b, e->port, e->device);
	ft_buf_printf(b, "  %s%s",
		      e->how_seen == 3 ? "" : "GONE: ", ft_name_of(&ft_format_gone, e->how_seen));
}

void line_counter(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_pcie_counter *e = (const void *)ev;

	before(b, e->before);
	who(b, attr);
	text_chars(b, e->device, 16);
	ft_buf_printf(b,
		      "  counter of %s errors: ", ft_name_of(&ft_format_aer_class, e->aer_class));
	text_chars(b, e->error, 16);
	if (e->delta != FT_NONE_U64)
		ft_buf_printf(b, " +%llu", (unsigned long long)e->delta);
}

void line_xid(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_gpu_xid *e = (const void *)ev;
	const char *meaning = ft_xid_text(e->xid);

	before(b, e->before);
	who(b, attr);
	text_chars(b, e->bdf, 16);
	ft_buf_printf(b, "  Xid %u", e->xid);
	if (meaning)
		ft_buf_printf(b, " (%s%s)", meaning,
			      ft_xid_is_application(e->xid) ? ": application" : "");
	ft_buf_puts(b, "  ");
	text_str(b, ev, e->text);
}

void line_clocks(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_gpu_clocks *e = (const void *)ev;

	who(b, attr);
	if (e->pstate != FT_NONE_U8)
		ft_buf_printf(b, "P%u  ", e->pstate);
	if (e->sm_mhz != FT_NONE_U32)
		ft_buf_printf(b, "%u MHz  ", e->sm_mhz);
	if (e->names.len)
		list(b, ev, e->names, ", ", 1);
	else
		ft_buf_puts(b, "no limit");
	if (e->temperature != FT_NONE_U32)
		ft_buf_printf(b, "  %u C", e->temperature);
	if (e->power_mw != FT_NONE_U32 && e->power_limit_mw != FT_NONE_U32)
		ft_buf_printf(b, "  %u of %u W", e->power_mw / 1000, e->power_limit_mw / 1000);
}

void line_nvlink(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_gpu_nvlink *e = (const void *)ev;

	before(b, e->before);
	who(b, attr);
	ft_buf_printf(b, "NVLink %u", e->link);
	if (e->active == 0)
		ft_buf_puts(b, "  DOWN");
	if (e->delta != FT_NONE_U64 && e->delta) {
		ft_buf_printf(b, "  +%llu ", (unsigned long long)e->delta);
		text_str(b, ev, e->error);
	}
}

void line_log(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_dev_log *e = (const void *)ev;

	before(b, e->before);
	who(b, attr);
	text_chars(b, e->bdf, 16);
	ft_buf_puts(b, "  ");
	text_str(b, ev, e->text);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* One event, one line: "SOURCE who what". */
#include <string.h>

#include "output/internal.h"

static void ifname(struct ft_buf *b, const char *name)
{
	if (!name[0])
		return;
	ft_buf_puts(b, "  ");
	text_chars(b, name, 16);
}

/* "rank 1 -> 2", "rank 1 -> 10.0.0.3:4791": from the event's source to its destination. */
static void ends(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr,
		 const uint8_t *daddr, uint16_t dport)
{
	if (attr->npeers && attr->nranks) {
		bool back = attr->peer_sends;

		ft_buf_puts(b, "rank ");
		text_numbers(b, back ? attr->peers : attr->ranks,
			     back ? attr->npeers : attr->nranks);
		ft_buf_puts(b, " -> ");
		text_numbers(b, back ? attr->ranks : attr->peers,
			     back ? attr->nranks : attr->npeers);
		ft_buf_puts(b, attr->shared && attr->nranks > 1 ? "?" : "");
		return;
	}
	text_who(b, ev, attr);
	ft_buf_puts(b, " -> ");
	text_addr(b, daddr, dport);
}

static void line_retransmit(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_retransmit *e = (const void *)ev;

	ends(b, ev, attr, e->daddr, e->dport);
	ifname(b, e->ifname);
	ft_buf_puts(b, "  retransmitted ");
	text_count(b, e->segs == FT_NONE_U64 ? ev->count : e->segs);
	ft_buf_puts(b, e->segs == 1 ? " seg" : " segs");
	if (e->syn == 1)
		ft_buf_puts(b, " (SYN)");
}

static void line_late(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_late *e = (const void *)ev;

	ends(b, ev, attr, e->daddr, e->dport);
	ifname(b, e->ifname);
	ft_buf_puts(b, "  late, not lost: ");
	text_count(b, e->segs);
	ft_buf_puts(b, e->segs == 1 ? " seg" : " segs");
}

static void line_stall(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_stall *e = (const void *)ev;

	ends(b, ev, attr, e->daddr, e->dport);
	ifname(b, e->ifname);
	if (e->timeouts)
		ft_buf_printf(b, "  stands still: %u timeouts in a row, %u seg%s unacknowledged",
			      e->timeouts, e->unacked_segs, e->unacked_segs == 1 ? "" : "s");
	else
		ft_buf_puts(b, "  goes on again");
}

static void line_reset(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_reset *e = (const void *)ev;

	ends(b, ev, attr, e->daddr, e->dport);
	ifname(b, e->ifname);
	ft_buf_printf(b, "  reset %s",
		      e->direction == 0	  ? "by the peer"
		      : e->direction == 1 ? "by this end"
					  : "");
	if (ft_value_name(&ft_format_tcp_state, e->tcp_state) && !(ev->flags & FT_REC_AGG))
		ft_buf_printf(b, " in %s", ft_name_of(&ft_format_tcp_state, e->tcp_state));
	if (e->reason.len) {
		ft_buf_puts(b, "  ");
		text_str(b, ev, e->reason);
	}
}

static void line_state(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_state *e = (const void *)ev;

	ends(b, ev, attr, e->daddr, e->dport);
	ifname(b, e->ifname);
	ft_buf_printf(b, "  %s -> %s", ft_name_of(&ft_format_tcp_state, e->from),
		      ft_name_of(&ft_format_tcp_state, e->to));
}

static void line_drop(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_drop *e = (const void *)ev;

	if (attr->npeers)
		ends(b, ev, attr, e->daddr, e->dport);
	else
		text_who(b, ev, attr);
	ifname(b, e->ifname);
	ft_buf_puts(b, "  dropped ");
	text_count(b, ev->count);
	ft_buf_printf(b, " %s packet%s",
		      e->ingress == 1	? "received"
		      : e->ingress == 0 ? "sent"
					: "",
		      ev->count > 1 ? "s" : "");
	if (e->reason.len) {
		ft_buf_puts(b, "  ");
		text_str(b, ev, e->reason);
	}
	if (e->symbol.len && !e->reason.len) {
		ft_buf_puts(b, " in ");
		text_str(b, ev, e->symbol);
	}
}

static void line_link(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_link *e = (const void *)ev;

	if (attr->nranks)
		text_who(b, ev, attr);
	ifname(b, e->ifname);
	ft_buf_printf(b, "  carrier %s",
		      e->carrier == 0	? "LOST"
		      : e->carrier == 1 ? "up"
					: "unknown");
	if (e->speed_mbps != FT_NONE_U32)
		ft_buf_printf(b, ", %u Mbit/s", e->speed_mbps);
	if (e->carrier_down_delta != FT_NONE_U32 && e->carrier_down_delta)
		ft_buf_printf(b, ", lost %u time%s", e->carrier_down_delta,
			      ft_plural(e->carrier_down_delta, "s"));
}

static void line_tx_timeout(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_tx_timeout *e = (const void *)ev;

	if (attr->nranks)
		text_who(b, ev, attr);
	ifname(b, e->ifname);
	ft_buf_puts(b, "  transmit queue HUNG");
	if (e->queue != FT_NONE_S32)
		ft_buf_printf(b, " (queue %d)", e->queue);
}

static void line_start(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_proc_start *e = (const void *)ev;

	(void)attr;
	ft_buf_printf(b, "pid %u ", ev->pid);
	text_chars(b, ev->task, sizeof(ev->task));
	ft_buf_puts(b, e->exec == 1 ? "  executed " : "  forked");
	if (e->exec == 1)
		text_str(b, ev, e->exe);
	else if (e->ppid != FT_NONE_U32)
		ft_buf_printf(b, " by %u", e->ppid);
}

static void line_exit(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_proc_exit *e = (const void *)ev;

	text_who(b, ev, attr);
	if (attr->nranks)
		ft_buf_printf(b, "  pid %u", ev->pid);
	if (e->signal != FT_NONE_S32 && e->signal)
		ft_buf_printf(b, "  KILLED by signal %d (%s)", e->signal, strsignal(e->signal));
	else if (e->exit_code != FT_NONE_S32)
		ft_buf_printf(b, "  ended with status %d", e->exit_code);
	else
		ft_buf_puts(b, "  ended");
}

static void line_comm(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_nccl_comm *e = (const void *)ev;

	text_who(b, ev, attr);
	ft_buf_printf(b, "  %s", ft_name_of(&ft_format_nccl_op, e->op));
	if (e->rank >= 0 && e->nranks >= 0)
		ft_buf_printf(b, "  rank %d of %d", e->rank, e->nranks);
	if (e->result != FT_NONE_S32 && e->result != 0)
		ft_buf_printf(b, "  %s", ft_name_of(&ft_format_nccl_result, e->result));
}

static void line_lost(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_lost *e = (const void *)ev;

	(void)attr;
	text_count(b, e->records == FT_NONE_U64 ? ev->count : e->records);
	ft_buf_printf(b, " event%s of kind ",
		      ft_plural(e->records == FT_NONE_U64 ? ev->count : e->records, "s"));
	text_str(b, ev, e->of);
	ft_buf_puts(b, " lost: ");
	text_str(b, ev, e->reason);
}

/* A closed port, a duplicate: no fault, so they are only counted. */
static void line_ordinary(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_ordinary *e = (const void *)ev;

	(void)attr;
	if (e->packets == FT_NONE_U64)
		ft_buf_puts(b, "an unknown number of");
	else
		text_count(b, e->packets);
	ft_buf_printf(b, " packet%s dropped in the ordinary course", ft_plural(e->packets, "s"));
}

static void line_clock(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_clock_step *e = (const void *)ev;

	(void)attr;
	ft_buf_printf(b, "the clock was stepped by %.3f s: times above are in the old one",
		      e->step_ns / 1e9);
}

static void line_lib(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_nccl_lib *e = (const void *)ev;

	text_who(b, ev, attr);
	ft_buf_puts(b, "  NCCL ");
	text_str(b, ev, e->version);
	ft_buf_puts(b, " in ");
	text_str(b, ev, e->path);
	if (e->reason.len) {
		ft_buf_puts(b, "  not probed: ");
		text_str(b, ev, e->reason);
	}
}

/* The object comes first: the line may be cut. */
static void line_incident(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_incident *e = (const void *)ev;
	size_t len, object_len;
	const char *text = ft_str_get(ev, e->text, &len),
		   *object = ft_str_get(ev, e->cause__object, &object_len);

	(void)attr;
	ft_buf_printf(b, "#%u %s", e->id, e->open == 1 ? "" : "closed ");
	text_str(b, ev, e->cause__kind);
	ft_buf_puts(b, "  ");
	ft_buf_escape(b, object, object_len);
	if (e->open == 1)
		ft_buf_printf(b, "  confidence %s",
			      ft_name_of(&ft_format_confidence, e->confidence));
	if (len > object_len && !memcmp(text, object, object_len))
		ft_buf_escape(b, text + object_len, len - object_len);
}

static void line_heartbeat(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_heartbeat *e = (const void *)ev;

	(void)attr;
	ft_buf_puts(b, e->open ? "open  " : "ok    ");
	text_str(b, ev, e->text);
}

static const struct {
	uint16_t kind;
	const char *source;
	void (*fn)(struct ft_buf *, const struct ft_hdr *, const struct ft_attr *);
} lines[] = {
	{ FT_KIND_tcp_retransmit, "TCP", line_retransmit },
	{ FT_KIND_tcp_late, "TCP", line_late },
	{ FT_KIND_tcp_stall, "TCP", line_stall },
	{ FT_KIND_tcp_reset, "TCP", line_reset },
	{ FT_KIND_tcp_state, "TCP", line_state },
	{ FT_KIND_net_drop, "NET", line_drop },
	{ FT_KIND_net_link, "NET", line_link },
	{ FT_KIND_net_tx_timeout, "NET", line_tx_timeout },
	{ FT_KIND_net_ordinary, "NET", line_ordinary },
	{ FT_KIND_proc_start, "PROC", line_start },
	{ FT_KIND_proc_exit, "PROC", line_exit },
	{ FT_KIND_nccl_comm, "NCCL", line_comm },
	{ FT_KIND_nccl_lib, "NCCL", line_lib },
	{ FT_KIND_lost, "LOST", line_lost },
	{ FT_KIND_clock_step, "TIME", line_clock },
	{ FT_KIND_pcie_aer, "PCIe", line_aer },
	{ FT_KIND_pcie_link, "PCIe", line_pcie_link },
	{ FT_KIND_pcie_hotplug, "PCIe", line_hotplug },
	{ FT_KIND_pcie_recovery, "PCIe", line_recovery },
	{ FT_KIND_pcie_gone, "PCIe", line_gone },
	{ FT_KIND_pcie_counter, "PCIe", line_counter },
	{ FT_KIND_gpu_xid, "GPU", line_xid },
	{ FT_KIND_gpu_clocks, "GPU", line_clocks },
	{ FT_KIND_gpu_nvlink, "GPU", line_nvlink },
	{ FT_KIND_dev_log, "LOG", line_log },
	{ FT_KIND_incident, "FOUND", line_incident },
	{ FT_KIND_heartbeat, "", line_heartbeat },
};

/* A kind without words of its own: its fields as in JSON. */
static void line_fields(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	_cleanup_buf_ struct ft_buf data = {};

	text_who(b, ev, attr);
	ft_json_data(&data, ev);
	ft_buf_puts(b, "  ");
	ft_buf_add(b, data.s ? data.s : "", data.len);
}

void ft_text_line(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		if (lines[i].kind != ev->kind)
			continue;
		ft_buf_printf(b, lines[i].source[0] ? "%-5s" : "%s", lines[i].source);
		if (lines[i].source[0])
			ft_buf_puts(b, " ");
		lines[i].fn(b, ev, attr);
		return;
	}
	ft_buf_printf(b, "%s ", ft_kind(ev->kind)->name);
	line_fields(b, ev, attr);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What the kernel's own BTF and symbol table tell: tracepoint layouts, drop reasons, functions. */
#include <bpf/btf.h>

#include "source/loader.h"

/*
 * Drops that are the protocol's ordinary course: a closed port, a duplicate, a frame for somebody
 * else. By name, since the numbers differ by kernel. What is not here is a fault.
 */
static const char *const ordinary[] = {
	"NOT_DROPPED_YET",
	"CONSUMED",
	"NO_SOCKET",
	"SOCKET_CLOSE",
	"SOCKET_FILTER",
	"UNIX_DISCONNECT",
	"UNIX_SKIP_OOB",
	"OTHERHOST",
	"UNICAST_IN_L2_MULTICAST",
	"TCP_OLD_DATA",
	"TCP_OFOMERGE",
	"TCP_OLD_SEQUENCE",
	"TCP_RESET",
	"TCP_CLOSE",
	"TCP_OLD_ACK",
	"TCP_TOO_OLD_ACK",
	"TCP_ABORT_ON_DATA",
	"TCP_RFC7323_PAWS_ACK",
	"TCP_RFC7323_TW_PAWS",
	"TCP_FASTOPEN",
	"UNHANDLED_PROTO",
	"IPV6DISABLED",
	"IPV6_NDISC_NS_OTHERHOST",
	"TAP_FILTER",
	"TAP_TXFILTER",
	"DUP_FRAG",
	"QUEUE_PURGE",
	"PACKET_SOCK_ERROR",
	"MAC_IEEE_MAC_CONTROL",
	"BRIDGE_INGRESS_STP_STATE",
	"LOCAL_MAC",
};

struct symbol {
	uint64_t addr;
	char name[64];
};

struct ft_kernel {
	char (*reasons)[32]; /* by number */
	size_t nreasons;
	struct symbol cache[64];
	size_t ncached;
};

/* SKB_DROP_REASON_X and, for the first two, SKB_X. */
static const char *short_reason(const char *name)
{
	static const char *const prefixes[] = { "SKB_DROP_REASON_", "SKB_" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return name + strlen(prefixes[i]);
	return name;
}

static int enum_values(const struct btf *btf, const char *name, const struct btf_enum **out)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_ENUM);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, id) : NULL;

	if (!t)
		return 0;
	*out = btf_enum(t);
	return btf_vlen(t);
}

/* Arguments of a tracepoint, 0 when this kernel has none of that name. */
static int tracepoint_args(const struct btf *btf, const char *tp)
{
	char name[128];
	const struct btf_type *t;
	int id;

	ft_fmt(name, "btf_trace_%s", tp);
	id = btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
	if (id <= 0)
		return 0;
	t = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
	if (t && btf_is_ptr(t))
		t = btf__type_by_id(btf, t->type);
	return t && btf_is_func_proto(t) ? btf_vlen(t) - 1 : 0;
}

bool ft_target_exists(const struct btf *btf, const char *attach)
{
	char name[128];

	if (!strncmp(attach, "tp_btf/", 7))
		return tracepoint_args(btf, attach + 7) > 0;
	if (!strncmp(attach, "iter/", 5)) {
		ft_fmt(name, "bpf_iter_%s", attach + 5);
		return btf__find_by_name_kind(btf, name, BTF_KIND_FUNC) > 0;
	}
	return true;
}

static void drop_classes(const struct btf *btf, struct ft_cfg *cfg)
{
	const struct btf_enum *e = NULL;
	int n = enum_values(btf, "skb_drop_reason", &e);

	for (int i = 0; i < n; i++) {
		const char *name = short_reason(btf__name_by_offset(btf, e[i].name_off));

		if (e[i].val < 0 || (size_t)e[i].val >= sizeof(cfg->drop_class))
			continue;
		/* What most drivers give, and consumed packets of rxe. */
		if (!strcmp(name, "NOT_SPECIFIED"))
			cfg->drop_class[e[i].val] = FT_DROP_UNNAMED;
		for (size_t k = 0; k < ARRAY_SIZE(ordinary); k++)
			if (!strcmp(name, ordinary[k]))
				cfg->drop_class[e[i].val] = FT_DROP_ORDINARY;
	}
}

void ft_features(const struct btf *btf, struct ft_cfg *cfg)
{
	const struct btf_enum *e;

	/*
	 * The reason came in 5.17 and was taken to 5.15 stable: the prototype tells, not the
	 * version.
	 */
	cfg->skb_has_reason = tracepoint_args(btf, "kfree_skb") >= 3 &&
			      enum_values(btf, "skb_drop_reason", &e) > 0;
	cfg->retransmit_err = tracepoint_args(btf, "tcp_retransmit_skb") >= 3;
	cfg->reset_reason = tracepoint_args(btf, "tcp_send_reset") >= 3;
	cfg->storm_window_ns = NSEC_PER_SEC;
	cfg->storm_records = FT_STORM_RECORDS;
	cfg->self = getpid();
	drop_classes(btf, cfg);
}

int ft_kernel_new(struct ft_kernel **out, const struct btf *btf)
{
	const struct btf_enum *e = NULL;
	int count = enum_values(btf, "skb_drop_reason", &e);
	struct ft_kernel *n = calloc(1, sizeof(*n));

	if (!n)
		return -ENOMEM;
	n->nreasons = count;
	n->reasons = calloc(count + 1, sizeof(*n->reasons));
	if (!n->reasons) {
		free(n);
		return -ENOMEM;
	}
	for (int i = 0; i < count; i++)
		if (e[i].val >= 0 && e[i].val < count)
			ft_fmt(n->reasons[e[i].val], "%s",
			       short_reason(btf__name_by_offset(btf, e[i].name_off)));
	*out = n;
	return 0;
}

void ft_kernel_free(struct ft_kernel *n)
{
	if (!n)
		return;
	free(n->reasons);
	free(n);
}

const char *ft_kernel_drop_reason(const struct ft_kernel *n, uint32_t reason)
{
	return reason < n->nreasons && n->reasons[reason][0] ? n->reasons[reason] : NULL;
}

/* One pass over the symbol table: few places drop packets, so a table in memory would not pay. */
static void symbol_find(struct symbol *s)
{
	_cleanup_file_ FILE *f = fopen("/proc/kallsyms", "re");
	unsigned long long addr, best = 0;
	char line[512], type, name[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx %c %255s", &addr, &type, name) != 3 || (type | 32) != 't')
			continue;
		if (addr <= s->addr && addr > best) {
			best = addr;
			ft_strcpy(s->name, name, sizeof(s->name));
		}
	}
}

const char *ft_kernel_symbol(struct ft_kernel *n, uint64_t addr)
{
	struct symbol *s;

	for (size_t i = 0; i < n->ncached; i++)
		if (n->cache[i].addr == addr)
			return n->cache[i].name;
	if (n->ncached == ARRAY_SIZE(n->cache))
		return "";
	s = &n->cache[n->ncached++];
	*s = (struct symbol){ .addr = addr };
	symbol_find(s);
	return s->name;
}

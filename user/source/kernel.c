// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What the kernel's own BTF and symbol table tell: tracepoint layouts, drop reasons, functions. */
#include <bpf/btf.h>
#include <dirent.h>

#include "source/loader.h"

#define FT_SUBSYS_SHIFT 16 /* SKB_DROP_REASON_SUBSYS_SHIFT */

struct symbol {
	uint64_t addr;
	char name[64];
};

/* The numbers of an enum and their names. */
struct name {
	uint32_t value;
	char text[64];
};

struct names {
	struct name *v;
	size_t n;
};

struct ft_kernel {
	struct names drops, resets, subsys_drops;
	bool subsys_read;
	struct symbol cache[64];
	size_t ncached;
};

/* SKB_DROP_REASON_X and, for the first two, SKB_X; a subsystem's reasons have its own prefix. */
static const char *short_reason(const char *name)
{
	static const char *const prefixes[] = { "SKB_DROP_REASON_", "SKB_", "SK_RST_REASON_" };

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

static int tracepoint_id(const struct btf *btf, const char *tp)
{
	char name[128];

	ft_fmt(name, "btf_trace_%s", tp);
	return btf__find_by_name_kind(btf, name, BTF_KIND_TYPEDEF);
}

/* Arguments of a tracepoint, 0 when this kernel has none of that name. */
static int tracepoint_args(const struct btf *btf, const char *tp)
{
	const struct btf_type *t;
	int id = tracepoint_id(btf, tp);

	if (id <= 0)
		return 0;
	t = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
	if (t && btf_is_ptr(t))
		t = btf__type_by_id(btf, t->type);
	return t && btf_is_func_proto(t) ? btf_vlen(t) - 1 : 0;
}

int ft_target_id(const struct btf *btf, const char *attach)
{
	static const struct {
		const char *kind, *prefix; /* of the type's name */
		uint32_t btf_kind;
	} targets[] = {
		{ "tp_btf/", "btf_trace_", BTF_KIND_TYPEDEF },
		{ "iter/", "bpf_iter_", BTF_KIND_FUNC },
		{ "fentry/", "", BTF_KIND_FUNC },
		{ "fexit/", "", BTF_KIND_FUNC },
		{ "kprobe/", "", BTF_KIND_FUNC },
	};
	char name[128];

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		size_t len = strlen(targets[i].kind);
		int id;

		if (strncmp(attach, targets[i].kind, len) != 0)
			continue;
		ft_fmt(name, "%s%s", targets[i].prefix, attach + len);
		id = btf__find_by_name_kind(btf, name, targets[i].btf_kind);
		return id > 0 ? id : -ENOENT;
	}
	return 0;
}

/* Whether Link Status is an argument of pcie_update_link_speed: from 7.0 on that is a reason. */
static bool link_status_is_arg(const struct btf *btf)
{
	int id = btf__find_by_name_kind(btf, "pcie_update_link_speed", BTF_KIND_FUNC);
	const struct btf_type *proto = id > 0 ? btf__type_by_id(btf, id) : NULL;

	proto = proto ? btf__type_by_id(btf, proto->type) : NULL;
	return proto && btf_vlen(proto) == 2 &&
	       btf__resolve_size(btf, btf_params(proto)[1].type) == sizeof(uint16_t);
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
		if (ft_drop_is(name) == FT_DROP_IS_ORDINARY)
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
	cfg->aer_bus_type = tracepoint_args(btf, "aer_event") >= 6;
	cfg->aer_tells_advisory = ft_target_id(btf, "fentry/aer_get_uncor_info") > 0;
	cfg->link_status_arg = link_status_is_arg(btf);
	cfg->storm_window_ns = NSEC_PER_SEC;
	cfg->storm_records = FT_STORM_RECORDS;
	cfg->self = getpid();
	drop_classes(btf, cfg);
}

/* Adds the values from `from` on. */
static int names_add(struct names *names, const struct btf *btf, const struct btf_type *t,
		     uint32_t from)
{
	const struct btf_enum *e = btf_enum(t);
	struct name *v = reallocarray(names->v, names->n + btf_vlen(t) + 1, sizeof(*v));

	if (!v)
		return -ENOMEM;
	names->v = v;
	for (int i = 0; i < btf_vlen(t); i++) {
		if ((uint32_t)e[i].val < from)
			continue;
		v[names->n].value = e[i].val;
		ft_fmt(v[names->n].text, "%s",
		       short_reason(btf__name_by_offset(btf, e[i].name_off)));
		names->n++;
	}
	return 0;
}

static int names_of(struct names *names, const struct btf *btf, const char *name)
{
	int id = btf__find_by_name_kind(btf, name, BTF_KIND_ENUM);

	return id > 0 ? names_add(names, btf, btf__type_by_id(btf, id), 0) : 0;
}

static const char *names_find(const struct names *names, uint32_t value)
{
	for (size_t i = 0; i < names->n; i++)
		if (names->v[i].value == value)
			return names->v[i].text;
	return NULL;
}

int ft_kernel_new(struct ft_kernel **out, const struct btf *btf)
{
	struct ft_kernel *n = calloc(1, sizeof(*n));
	int err = n ? names_of(&n->drops, btf, "skb_drop_reason") : -ENOMEM;

	if (!err)
		err = names_of(&n->resets, btf, "sk_rst_reason");
	if (err) {
		ft_kernel_free(n);
		return err;
	}
	*out = n;
	return 0;
}

void ft_kernel_free(struct ft_kernel *n)
{
	if (!n)
		return;
	free(n->drops.v);
	free(n->resets.v);
	free(n->subsys_drops.v);
	free(n);
}

/*
 * Since 6.4 subsystems have reasons of their own, with their number in the upper half: enums like
 * mac80211_drop_reason, in the BTF of the kernel or of their module.
 */
int ft_kernel_subsys_drops(struct ft_kernel *n, const struct btf *btf, uint32_t first_type)
{
	static const char suffix[] = "_drop_reason";
	int err = 0;

	for (uint32_t id = first_type; id < btf__type_cnt(btf) && !err; id++) {
		const struct btf_type *t = btf__type_by_id(btf, id);
		const char *name = btf_is_enum(t) ? btf__name_by_offset(btf, t->name_off) : "";
		size_t len = strlen(name);

		if (len >= sizeof(suffix) && !strcmp(name + len - sizeof(suffix) + 1, suffix))
			err = names_add(&n->subsys_drops, btf, t, 1 << FT_SUBSYS_SHIFT);
	}
	return err;
}

/* When the first such drop comes: parsing all modules' types takes some 20 ms. */
static void subsys_read(struct ft_kernel *n)
{
	struct btf *vmlinux = btf__load_vmlinux_btf(), *btf;
	DIR *dir = opendir("/sys/kernel/btf");
	const struct dirent *d;

	n->subsys_read = true;
	if (vmlinux)
		ft_kernel_subsys_drops(n, vmlinux, 1);
	while (vmlinux && dir && (d = readdir(dir))) {
		if (d->d_name[0] == '.' || !strcmp(d->d_name, "vmlinux"))
			continue;
		btf = btf__load_module_btf(d->d_name, vmlinux);
		if (!btf)
			continue;
		ft_kernel_subsys_drops(n, btf, btf__type_cnt(vmlinux));
		btf__free(btf);
	}
	if (dir)
		closedir(dir);
	btf__free(vmlinux);
}

const char *ft_kernel_drop_reason(struct ft_kernel *n, uint32_t reason)
{
	if (reason >> FT_SUBSYS_SHIFT == 0 || reason == FT_NONE_U32)
		return names_find(&n->drops, reason);
	if (!n->subsys_read)
		subsys_read(n);
	return names_find(&n->subsys_drops, reason);
}

const char *ft_kernel_reset_reason(const struct ft_kernel *n, uint32_t reason)
{
	return names_find(&n->resets, reason);
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

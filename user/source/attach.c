// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "source/attach.h"
#include "source/loader.h"

/* Attach kinds whose target is a type of the kernel. */
static const struct traced_kind {
	const char *prefix;
	enum bpf_attach_type type;
} traced[] = {
	{ "tp_btf/", BPF_TRACE_RAW_TP },
	{ "iter/", BPF_TRACE_ITER },
	{ "fentry/", BPF_TRACE_FENTRY },
	{ "fexit/", BPF_TRACE_FEXIT },
};

static bool is_kind(const struct ft_probe *p, const char *prefix)
{
	return !strncmp(p->attach, prefix, strlen(prefix));
}

static const struct traced_kind *traced_kind(const struct ft_probe *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(traced); i++)
		if (is_kind(p, traced[i].prefix))
			return &traced[i];
	return NULL;
}

static const char *target(const struct ft_probe *p)
{
	return strchr(p->attach, '/') + 1;
}

/* `type` is the one of the target. */
static int prepare_load(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long type)
{
	opts->attach_btf_id = type;
	return bpf_program__set_type(prog, BPF_PROG_TYPE_TRACING);
}

/*
 * For each object with a program of type tracing libbpf parses the kernel's BTF (5 to 10 ms) to
 * find the program's target, which is known here: until it is loaded a program has another type.
 */
static int target_handler(const struct ft_probe *p, const struct traced_kind *kind, int type)
{
	DECLARE_LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .cookie = type,
			    .prog_prepare_load_fn = prepare_load);

	return libbpf_register_prog_handler(p->attach, BPF_PROG_TYPE_RAW_TRACEPOINT, kind->type,
					    &opts);
}

static void row_off(struct ft_probe *p, int err, const char *reason)
{
	p->state = FT_PROBE_OFF;
	p->error = err;
	ft_strcpy(p->reason, reason, sizeof(p->reason));
}

/* Type of the row's target, 0 when it has none; what is missing is noted. */
static int row_resolve(struct ft_probe *p, const struct btf *btf)
{
	int type = ft_target_id(btf, p->attach);
	char text[160];

	if (p->with && ft_target_id(btf, p->with) < 0) {
		p->state = FT_PROBE_UNNEEDED;
		ft_fmt(p->reason, "this kernel has no %s", strchr(p->with, '/') + 1);
	} else if (type < 0) {
		ft_fmt(text, "this kernel has no %s", target(p));
		row_off(p, -ENOENT, text);
	}
	return MAX(type, 0);
}

int *ft_attach_resolve(struct ft_probe *probes, size_t n, const struct btf *btf)
{
	int *handlers = calloc(n, sizeof(*handlers));

	for (size_t i = 0; i < n; i++) {
		const struct traced_kind *kind = traced_kind(&probes[i]);
		int type = row_resolve(&probes[i], btf);

		if (kind && type > 0 && handlers)
			handlers[i] = target_handler(&probes[i], kind, type);
	}
	return handlers;
}

void ft_attach_resolved_free(int *handlers, size_t n)
{
	for (size_t i = 0; handlers && i < n; i++)
		if (handlers[i] > 0)
			libbpf_unregister_prog_handler(handlers[i]);
	free(handlers);
}

bool ft_attach_same_kind(const struct ft_probe *a, const struct ft_probe *b)
{
	bool both = is_kind(b, "fentry/") || is_kind(b, "fexit/");

	return (is_kind(a, "fentry/") || is_kind(a, "fexit/")) && both;
}

struct ft_probe *ft_attach_better(struct ft_probe *probes, size_t n, const struct ft_probe *p)
{
	for (size_t i = 0; p->instead_of && i < n; i++)
		if (!strcmp(probes[i].object, p->object) &&
		    !strcmp(probes[i].program, p->instead_of))
			return &probes[i];
	return NULL;
}

static struct bpf_link *attach_iter(const struct bpf_program *prog, int map_fd)
{
	union bpf_iter_link_info what = { .map.map_fd = map_fd };
	DECLARE_LIBBPF_OPTS(bpf_iter_attach_opts, opts);

	if (map_fd >= 0) {
		opts.link_info = &what;
		opts.link_info_len = sizeof(what);
	}
	return bpf_program__attach_iter(prog, &opts);
}

static const char *attach_reason(const struct ft_probe *p)
{
	if (errno == EPERM)
		return "attach not permitted";
	/* The perf unit and the tracefs file of kprobes are missing, or the function is inlined. */
	if (is_kind(p, "kprobe/") && (errno == ENOENT || errno == ENODEV))
		return "this kernel has no kprobes, or none on this function";
	return strerror(errno);
}

struct bpf_link *ft_attach(struct ft_probe *p, const struct bpf_program *prog, int map_fd)
{
	struct bpf_link *link;

	if (is_kind(p, "iter/"))
		link = attach_iter(prog, map_fd);
	else if (is_kind(p, "kprobe/"))
		link = bpf_program__attach_kprobe(prog, false, target(p));
	else
		link = bpf_program__attach_trace(prog);
	if (!link)
		row_off(p, -errno, attach_reason(p));
	else
		p->state = FT_PROBE_ON;
	return link;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* fabrictrace probes: the probe table as this machine fills it. */
#include <argp.h>

#include "cli/cli.h"
#include "cli/probe_rec.h"
#include "source/source.h"

struct opts {
	bool json;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct opts *o = state->input;

	if (key == 'j')
		o->json = true;
	else if (key == 'v')
		ft_verbose++;
	else if (key == ARGP_KEY_ARG)
		argp_error(state, "unexpected argument \"%s\"", arg);
	else
		return ARGP_ERR_UNKNOWN;
	return 0;
}

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "one JSON line per program", 0 },
	{ "verbose", 'v', NULL, 0, "also what each one is for, and the kernel's own words", 0 },
	{},
};

void ft_probe_record(struct ft_rec *rec, const struct ft_probe *p)
{
	struct ft_ev_probe *e = ft_rec_new(rec, FT_KIND_probe, ft_mono_ns());

	e->state = p->state;
	e->required = p->required;
	if (p->error)
		e->error = p->error;
	ft_rec_str(rec, &e->source, p->object);
	ft_rec_str(rec, &e->program, p->program);
	ft_rec_str(rec, &e->attach, p->attach);
	ft_rec_str(rec, &e->cost, p->cost);
	ft_rec_str(rec, &e->reason, p->reason);
	ft_rec_str(rec, &e->hides, p->hides);
	ft_rec_str(rec, &e->gives, p->what);
}

static void print_json(const struct ft_probe *p)
{
	struct ft_clock clock = { ft_clock_offset() };
	_cleanup_buf_ struct ft_buf b = {};
	char host[256] = "";
	struct ft_rec rec;

	gethostname(host, sizeof(host) - 1);
	ft_probe_record(&rec, p);
	ft_json_event(&b, &rec.h, NULL, host, &clock);
	printf("%s\n", b.s ? b.s : "");
}

/* The target; where that alone does not tell also how it is attached, entry or return. */
static void target_name(const struct ft_probe *p, char *out, size_t size)
{
	const char *slash = strchr(p->attach, '/');

	if (slash && (strchr(slash, ' ') || strstr(p->attach, "entry/") ||
		      strstr(p->attach, "exit/") || strstr(p->attach, "probe/")))
		snprintf(out, size, "%s, %.*s", slash + 1, (int)(slash - p->attach), p->attach);
	else
		snprintf(out, size, "%s", slash ? slash + 1 : p->attach);
}

static const char *const states[] = {
	[FT_PROBE_OFF] = "OFF", [FT_PROBE_ON] = "ok", [FT_PROBE_UNNEEDED] = "-"
};

#define ROW "%-8s %-45s %-14s %s\n"

static void print_text(const struct ft_probe *p)
{
	char target[64];

	target_name(p, target, sizeof(target));
	printf(ROW, p->object[0] ? p->object : "poller", target, p->what, states[p->state]);
	if (p->state == FT_PROBE_OFF)
		printf("%9swhy:    %s\n", "", p->reason[0] ? p->reason : "not loaded");
	if ((p->state == FT_PROBE_OFF || ft_verbose > 0) && p->hides[0])
		printf("%9s%s %s\n", "",
		       p->state == FT_PROBE_OFF ? "unseen:" : "unseen without it:", p->hides);
}

static void print_capability(struct ft_buf *b, const char *name, const char *hides)
{
	(void)b;
	printf("%s is missing\n%9sunseen: %s\n", name, "", hides);
}

static void no_capability(struct ft_buf *b, const char *name, const char *hides)
{
	(void)b;
	(void)name;
	(void)hides;
}

static void no_event(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
}

/* Without a job there is nothing to put a uprobe on, or to listen to. */
static void mark_unneeded(struct ft_probe *p)
{
	if (p->state != FT_PROBE_OFF || p->error)
		return;
	p->state = FT_PROBE_UNNEEDED;
	ft_strcpy(p->reason, "no job is traced now", sizeof(p->reason));
}

static void print_end(const size_t count[ARRAY_SIZE(states)], size_t n)
{
	ft_perm_missing(NULL, false, print_capability);
	if (count[FT_PROBE_UNNEEDED])
		printf("- not in use: needs a job (-p), or another program does its work\n");
	printf("%zu programs: %zu attached, %zu not in use, %zu not attached\n", n,
	       count[FT_PROBE_ON], count[FT_PROBE_UNNEEDED], count[FT_PROBE_OFF]);
}

static void print_all(struct ft_probe *p, size_t n, bool json)
{
	size_t count[ARRAY_SIZE(states)] = {};

	if (!json)
		printf(ROW, "SOURCE", "TARGET", "GIVES", "STATE");
	for (size_t i = 0; i < n; i++) {
		mark_unneeded(&p[i]);
		count[p[i].state]++;
		(json ? print_json : print_text)(&p[i]);
	}
	if (!json)
		print_end(count, n);
}

/* Nothing could be loaded: the table says what is not seen, and why. */
static void print_refused(int err, bool json)
{
	size_t n = 0;
	_cleanup_free_ struct ft_probe *p = ft_probe_table(&n);

	for (size_t i = 0; p && i < n; i++) {
		p[i].error = err;
		ft_fmt(p[i].reason, "not permitted: needs CAP_BPF and CAP_PERFMON");
	}
	if (p)
		print_all(p, n, json);
}

static int show(bool json)
{
	struct ft_emit emit = { no_event, NULL };
	struct ft_bpf_opts bpf_opts = {};
	struct ft_loop *loop = NULL;
	struct ft_bpf *bpf = NULL;
	int err = ft_loop_new(&loop);
	struct ft_probe *p;
	size_t n;

	if (!err)
		err = ft_bpf_open(&bpf, &bpf_opts, loop, &emit);
	if (!err) {
		ft_perm_explain(bpf);
		p = ft_bpf_probes(bpf, &n);
		print_all(p, n, json);
		ft_bpf_free(bpf);
	}
	ft_loop_free(loop);
	if (!err)
		return FT_EXIT_OK;
	if ((err == -EPERM || err == -EACCES) && ft_perm_missing(NULL, true, no_capability))
		print_refused(err, json);
	fflush(stdout);
	return ft_bpf_failed(err);
}

int ft_cmd_probes(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		NULL,
		"Shows each program of the tracer, whether this kernel takes it, and what is not seen without it.",
		ft_help_too,
		NULL,
		NULL
	};
	struct opts o = {};

	argp_err_exit_status = FT_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return FT_EXIT_USAGE;
	return show(o.json);
}

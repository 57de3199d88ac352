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
	{ "verbose", 'v', NULL, 0, "with the kernel's own words", 0 },
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

static void print_text(const struct ft_probe *p)
{
	const char *target = strchr(p->attach, '/') ? strchr(p->attach, '/') + 1 : p->attach;

	static const char *const states[] = { "OFF", "ok", "-" };

	printf("%-8s %-30s %-15s %s\n", p->object[0] ? p->object : "poller", target, p->what,
	       states[p->state]);
	if (p->state == FT_PROBE_OFF)
		printf("%9swhy:    %s\n%9sunseen: %s\n", "",
		       p->reason[0] ? p->reason : "not loaded", "", p->hides);
}

static void print_capability(struct ft_buf *b, const char *name, const char *hides)
{
	(void)b;
	printf("%s is missing\n%9sunseen: %s\n", name, "", hides);
}

static void no_event(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
}

int ft_cmd_probes(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		NULL,
		"Shows each program of the tracer, whether this kernel takes it, and what is not seen without it.",
		NULL,
		NULL,
		NULL
	};
	struct ft_emit emit = { no_event, NULL };
	struct ft_bpf_opts bpf_opts = {};
	struct ft_loop *loop = NULL;
	struct ft_bpf *bpf = NULL;
	struct opts o = {};
	struct ft_probe *p;
	int err, off = 0;
	size_t n;

	argp_err_exit_status = FT_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, 0, NULL, &o))
		return FT_EXIT_USAGE;
	err = ft_loop_new(&loop);
	if (!err)
		err = ft_bpf_open(&bpf, &bpf_opts, loop, &emit);
	if (err) {
		ft_loop_free(loop);
		return ft_bpf_failed(err);
	}
	if (!o.json)
		printf("%-8s %-30s %-15s %s\n", "SOURCE", "TARGET", "GIVES", "STATE");
	ft_perm_explain(bpf);
	p = ft_bpf_probes(bpf, &n);
	for (size_t i = 0; i < n; i++) {
		/* Without a job there is nothing to put a uprobe on, or to listen to. */
		if (p[i].state == FT_PROBE_OFF && !p[i].error) {
			p[i].state = FT_PROBE_UNNEEDED;
			ft_strcpy(p[i].reason, "no job is traced now", sizeof(p[i].reason));
		}
		off += p[i].state == FT_PROBE_OFF;
		(o.json ? print_json : print_text)(&p[i]);
	}
	if (!o.json) {
		ft_perm_missing(NULL, false, print_capability);
		printf("%zu programs, %d not attached\n", n, off);
	}
	ft_bpf_free(bpf);
	ft_loop_free(loop);
	return FT_EXIT_OK;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* fabrictrace trace: the command line of a session. */
#include <argp.h>

#include "cli/cli.h"
#include "cli/session.h"

enum {
	OPT_CGROUP = 0x100,
	OPT_NO_CHILDREN,
	OPT_JSON,
	OPT_NO_COLOR,
	OPT_COLLECTIVES,
	OPT_PCIE_INTERVAL
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to trace (nothing: this node's links, GPUs and kernel log):", 1 },
	{ "pid", 'p', "PID[,PID...]", 0, "these processes and their descendants, now and later",
	  1 },
	{ "no-children", OPT_NO_CHILDREN, NULL, 0, "with -p: without descendants", 1 },
	{ "cgroup", OPT_CGROUP, "PATH", 0,
	  "the processes of a cgroup: its path, or a part of it that only one has "
	  "(container id, pod uid, job_88123)",
	  1 },
	{ "all", 'a', NULL, 0, "every process that has an NCCL library mapped, now or later", 1 },
	{ NULL, 0, NULL, 0, "How long and how:", 2 },
	{ "duration", 'd', "SECONDS", 0, "end after so long", 2 },
	{ "collectives", OPT_COLLECTIVES, NULL, 0,
	  "one record per NCCL call (see OVERHEAD in the man page)", 2 },
	{ "pcie-interval", OPT_PCIE_INTERVAL, "MS", 0,
	  "look at the state of PCIe links every MS milliseconds (default 100)", 2 },
	{ NULL, 0, NULL, 0, "Output:", 3 },
	{ "json", OPT_JSON, NULL, 0, "one JSON object per line (fabrictrace schema describes them)",
	  3 },
	{ "quiet", 'q', NULL, 0, "only findings and the verdict", 3 },
	{ "verbose", 'v', NULL, 0, "every event, and what the kernel said", 3 },
	{ "no-color", OPT_NO_COLOR, NULL, 0,
	  "plain text (also with NO_COLOR set, or when not to a terminal)", 3 },
	{},
};

static void parse_pids(struct argp_state *state, struct ft_trace_opts *o, char *arg)
{
	for (char *save, *s = strtok_r(arg, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		uint32_t *pids = reallocarray(o->pids, o->npids + 1, sizeof(*pids));
		uint64_t pid;

		if (!pids)
			argp_failure(state, FT_EXIT_INTERNAL, ENOMEM, "reading -p");
		o->pids = pids;
		if (ft_parse_u64(s, &pid) || !pid || pid > INT32_MAX)
			argp_error(state, "-p: \"%s\" is not a process id", s);
		else
			o->pids[o->npids++] = pid;
	}
	if (!o->npids)
		argp_error(state, "-p: no process id given");
}

static void parse_seconds(struct argp_state *state, struct ft_trace_opts *o, const char *arg)
{
	char *end;

	o->seconds = strtod(arg, &end);
	if (end == arg || *end || !(o->seconds > 0) || o->seconds > 1e9)
		argp_error(state, "-d: \"%s\" is not a number of seconds above 0", arg);
}

static void parse_interval(struct argp_state *state, struct ft_trace_opts *o, const char *arg)
{
	uint64_t ms;

	if (ft_parse_u64(arg, &ms) || ms < 10 || ms > 60000)
		argp_error(state,
			   "--pcie-interval: \"%s\" is not a number of milliseconds "
			   "from 10 to 60000",
			   arg);
	else
		o->pcie_interval_ms = ms;
}

static void check(struct argp_state *state, const struct ft_trace_opts *o)
{
	int targets = (o->npids > 0) + (o->cgroup != NULL) + o->all + (o->cmd != NULL);

	if (state->quoted && !o->cmd)
		argp_error(state, "no command after --");
	if (targets > 1)
		argp_error(state, "give one of -p, --cgroup, -a and -- CMD");
	if (o->no_children && !o->npids)
		argp_error(state, "--no-children goes with -p");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct ft_trace_opts *o = state->input;

	switch (key) {
	case 'p':
		parse_pids(state, o, arg);
		break;
	case 'd':
		parse_seconds(state, o, arg);
		break;
	case 'a':
		o->all = true;
		break;
	case 'q':
		ft_verbose = -1;
		break;
	case 'v':
		ft_verbose++;
		break;
	case OPT_CGROUP:
		if (!*arg)
			argp_error(state, "--cgroup: no path given");
		o->cgroup = arg;
		break;
	case OPT_NO_CHILDREN:
		o->no_children = true;
		break;
	case OPT_JSON:
		o->json = true;
		break;
	case OPT_NO_COLOR:
		o->no_color = true;
		break;
	case OPT_PCIE_INTERVAL:
		parse_interval(state, o, arg);
		break;
	case OPT_COLLECTIVES:
		o->collectives = true;
		break;
	case ARGP_KEY_ARG:
		/* argp hands over the first word after --; a word before it is a mistake */
		if (!state->quoted || state->next - 1 < state->quoted)
			argp_error(
				state,
				"unexpected argument \"%s\": a process is given with -p, a command after --",
				arg);
		o->cmd = state->argv + state->next - 1;
		state->next = state->argc;
		break;
	case ARGP_KEY_END:
		check(state, o);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int ft_cmd_trace(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		"[-- CMD [ARG...]]",
		"Attaches to a running job without restarting it and names the link, NIC, GPU or process at fault, "
		"and the NCCL ranks that pay for it.\v"
		"Ctrl-C, SIGTERM and SIGHUP end with the verdict; SIGUSR1 prints it and goes on.",
		ft_help_too,
		NULL,
		NULL
	};
	struct ft_trace_opts o = {};
	int status;

	argp_err_exit_status = FT_EXIT_USAGE;
	if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o))
		return FT_EXIT_USAGE;
	status = ft_session_run(&o);
	free(o.pids);
	return status;
}

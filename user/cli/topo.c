// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* fabrictrace topo: processes, ranks, GPUs, NICs, the PCIe paths between them and NUMA nodes. */
#include <argp.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "cli/cli.h"
#include "cli/topo.h"

#define ANSWER_MS 500
#define NVML_MS	  3000 /* it wakes GPUs up */

enum { OPT_CGROUP = 0x100, OPT_NO_CHILDREN, OPT_JSON, OPT_ROOT };

static const struct argp_option options[] = {
	{ "pid", 'p', "PID[,PID...]", 0,
	  "these processes and their descendants (default: all with an NCCL library)", 0 },
	{ "no-children", OPT_NO_CHILDREN, NULL, 0, "with -p: without descendants", 0 },
	{ "cgroup", OPT_CGROUP, "PATH", 0,
	  "the processes of a cgroup: its path, or a part that only one has", 0 },
	{ "verbose", 'v', NULL, 0, "also the helpers that ranks have forked", 0 },
	{ "json", OPT_JSON, NULL, 0, "the inv.* lines of fabrictrace schema", 0 },
	{ "root", OPT_ROOT, "DIR", 0, "a captured machine: /sys and /proc below DIR", 0 },
	{},
};

static void parse_pids(struct argp_state *state, struct topo *t, char *arg)
{
	for (char *save, *s = strtok_r(arg, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		uint32_t *pids = reallocarray(t->pids, t->npids + 1, sizeof(*pids));
		uint64_t pid;

		if (!pids)
			argp_failure(state, FT_EXIT_INTERNAL, ENOMEM, "reading -p");
		t->pids = pids;
		if (ft_parse_u64(s, &pid) || !pid || pid > INT32_MAX)
			argp_error(state, "-p: \"%s\" is not a process id", s);
		t->pids[t->npids++] = pid;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct topo *t = state->input;

	switch (key) {
	case 'p':
		parse_pids(state, t, arg);
		return 0;
	case OPT_NO_CHILDREN:
		t->no_children = true;
		return 0;
	case OPT_CGROUP:
		t->cgroup = arg;
		return 0;
	case 'v':
		ft_verbose = 1;
		return 0;
	case OPT_JSON:
		t->json = true;
		return 0;
	case OPT_ROOT:
		t->root = strcmp(arg, "/") != 0 ? arg : "";
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "unexpected argument \"%s\"", arg);
		return 0;
	case ARGP_KEY_END:
		if (t->npids && t->cgroup)
			argp_error(state, "give one of -p and --cgroup");
		t->all = !t->npids && !t->cgroup;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

/* --- collecting --- */
static int find_procs(struct topo *t)
{
	const struct ft_target_opts opts = { t->pids, t->npids, t->cgroup, t->no_children, t->all };
	char why[512];
	int err = ft_target_resolve(t->root, &opts, &t->set, why, sizeof(why));

	/* A captured machine may come without processes. */
	if (err && t->all && t->root[0])
		return 0;
	if (err) {
		ft_err("%s", why);
		return ft_target_failed(err);
	}
	if (t->set.note[0])
		ft_warn("%s", t->set.note);
	t->procs = calloc(t->set.n + 1, sizeof(*t->procs));
	for (size_t i = 0; t->procs && i < t->set.n; i++)
		if (!ft_proc_facts_read(t->root, t->set.pids[i], FT_PROC_WANT_NCCL, ANSWER_MS,
					&t->procs[t->nprocs]))
			t->nprocs++;
	ft_proc_mark_helpers(t->procs, t->nprocs);
	return 0;
}

static bool is_dir(const char *root, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	ft_fmt(path, "%s%s", root, name);
	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* A mistyped directory would be a machine without anything in it. */
static int root_check(const char *root)
{
	if (!root[0] || is_dir(root, "/sys") || is_dir(root, "/proc"))
		return 0;
	if (is_dir(root, ""))
		ft_err("--root %s: no captured machine: neither sys nor proc is in it", root);
	else
		ft_err("--root %s: %s", root,
		       access(root, F_OK) ? strerror(errno) : "no directory");
	return FT_EXIT_NOTARGET;
}

static int collect(struct topo *t)
{
	struct utsname u;
	int err = root_check(t->root);

	if (err)
		return err;
	uname(&u);
	ft_strcpy(t->host, u.nodename, sizeof(t->host));
	ft_fmt(t->kernel, "%s %s", u.sysname, u.release);
	if (t->root[0]) {
		ft_strcpy(t->host, t->root, sizeof(t->host));
		ft_strcpy(t->kernel, "captured", sizeof(t->kernel));
	}
	err = ft_pci_read(t->root, ANSWER_MS, &t->pci);
	if (!err && ft_nvml_wanted(t->root, t->pci))
		t->nvml_error = ft_nvml_read(NULL, NVML_MS, &t->nvml);
	if (!err)
		err = ft_net_read(t->root, ANSWER_MS, &t->net);
	if (!err)
		return find_procs(t);
	ft_err("cannot read %s/sys: %s", t->root, strerror(-err));
	return FT_EXIT_UNAVAILABLE;
}

static void topo_free(struct topo *t)
{
	for (size_t i = 0; i < t->nprocs; i++)
		free(t->procs[i]);
	free(t->procs);
	free(t->pids);
	ft_pidset_free(&t->set);
	ft_pci_free(t->pci);
	ft_net_free(t->net);
	ft_nvml_free(t->nvml);
}

bool topo_unread_rec(const struct topo *t, struct ft_rec *out)
{
	struct ft_ev_inv_host *e;
	char what[96];

	if (!t->set.unread)
		return false;
	e = ft_rec_new(out, FT_KIND_inv_host, ft_mono_ns());
	ft_fmt(what, "the mappings of %zu process%s, which may have NCCL", t->set.unread,
	       ft_plural(t->set.unread, "es"));
	ft_rec_str(out, &e->what, what);
	ft_rec_str(out, &e->reason,
		   geteuid() ? "not permitted: run as root"
			     : "not permitted, or no answer in time");
	return true;
}

/* --- JSON --- */
struct printer {
	const struct topo *t;
	struct ft_clock clock;
	struct ft_buf line;
};

static void print_json(void *ctx, struct ft_hdr *ev)
{
	struct printer *p = ctx;

	ft_buf_reset(&p->line);
	ft_json_event(&p->line, ev, NULL, p->t->host, &p->clock);
	if (!p->line.err)
		puts(p->line.s);
}

static void show_json(const struct topo *t)
{
	struct printer p = { .t = t, .clock = { ft_clock_offset() } };
	uint64_t now = ft_mono_ns();
	struct ft_rec rec;

	ft_pci_emit(t->pci, now, print_json, &p);
	ft_nvml_emit(t->nvml, t->nvml_error, t->root, now, print_json, &p);
	ft_net_emit(t->net, now, print_json, &p);
	if (topo_unread_rec(t, &rec))
		print_json(&p, &rec.h);
	for (size_t i = 0; i < t->nprocs; i++) {
		ft_proc_rec(t->procs[i], t->pci, now, &rec);
		print_json(&p, &rec.h);
		for (int part = 0; part < FT_PROC_PARTS; part++)
			if (ft_proc_missing_rec(t->procs[i], part, now, &rec))
				print_json(&p, &rec.h);
	}
	ft_buf_free(&p.line);
}

int ft_cmd_topo(int argc, char **argv)
{
	static const struct argp argp = {
		options,
		parse,
		NULL,
		"Shows a job's processes and ranks, and this machine's GPUs, NICs and PCIe paths.",
		ft_help_too,
		NULL,
		NULL,
	};
	_cleanup_(topo_free) struct topo t = { .root = "" };
	int status;

	argp_err_exit_status = FT_EXIT_USAGE;
	argp_parse(&argp, argc, argv, 0, NULL, &t);
	status = collect(&t);
	if (status)
		return status;
	(t.json ? show_json : topo_text)(&t);
	return FT_EXIT_OK;
}

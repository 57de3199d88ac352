// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The first line of a session, and the probe table behind it. */
#include <sys/utsname.h>

#include "cli/probe_rec.h"
#include "cli/session_parts.h"

#define TARGET_MAX 512 /* the record has more to hold */

static void target_none(const struct session *s, struct ft_buf *b)
{
	ft_buf_puts(b, "none: only this node's devices are watched; give -p, --cgroup or -a");
	if (s->others[0])
		ft_buf_printf(b, " (these have an NCCL library: pid %s)", s->others);
}

/* So that it can be given again: the cgroup that was found, not the part of it that was asked for. */
static void target_text(const struct session *s, struct ft_buf *b)
{
	const struct ft_trace_opts *o = s->opts;

	if (o->cgroup)
		ft_buf_printf(b, "--cgroup %s", s->cgroup.n ? s->cgroup.v[0] : o->cgroup);
	else if (o->all)
		ft_buf_puts(b, "-a");
	else if (o->cmd)
		ft_buf_puts(b, "--");
	else if (!o->npids)
		target_none(s, b);
	for (size_t i = 0; i < o->npids; i++)
		ft_buf_printf(b, "%s%u", i ? "," : "-p ", o->pids[i]);
	for (char **arg = o->cmd; arg && *arg; arg++)
		ft_buf_printf(b, " %s", *arg);
}

/* Several programs may give the same. */
static bool is_told(const struct ft_probe *p, size_t i)
{
	for (size_t j = 0; j < i; j++)
		if (p[j].state == FT_PROBE_OFF && p[j].error && !strcmp(p[j].hides, p[i].hides))
			return true;
	return false;
}

/* What cannot be seen: each program that is not attached, and what this version does not watch. */
static void add_blind(struct session *s, struct ft_rec *rec, struct ft_str *list)
{
	size_t n;
	const struct ft_probe *p = ft_bpf_probes(s->bpf, &n);
	char text[400];

	if (s->targets && !s->with_nccl && !s->opts->cmd && !s->looks.n) {
		ft_fmt(text, "NCCL calls (%s has an NCCL library mapped%s%s)",
		       s->nccl_unknown ? "not every process let us look; none that did"
				       : "no traced process",
		       s->others[0]	 ? "; these have one: pid "
		       : s->others_error ? "; not all others answered in time"
					 : ", nor has any other",
		       s->others);
		ft_rec_strs_add(rec, list, text);
	}
	for (size_t i = 0; i < n; i++) {
		if (p[i].state != FT_PROBE_OFF || !p[i].error || !p[i].hides[0] || is_told(p, i))
			continue;
		ft_fmt(text, "%s (%s)", p[i].hides, p[i].reason);
		ft_rec_strs_add(rec, list, text);
	}
	ft_rec_strs_add(rec, list, "RDMA queue pairs (not watched by this version)");
}

void session_probes(struct session *s)
{
	size_t n;
	const struct ft_probe *p = ft_bpf_probes(s->bpf, &n);
	struct ft_probe *told = s->told;
	struct ft_rec rec;

	if (!told)
		s->told = calloc(n, sizeof(*p));
	for (size_t i = 0; i < n; i++) {
		if (told && told[i].state == p[i].state && told[i].error == p[i].error &&
		    !strcmp(told[i].reason, p[i].reason))
			continue;
		ft_probe_record(&rec, &p[i]);
		ft_emit(&s->emit, &rec);
		if (s->told)
			s->told[i] = p[i];
	}
}

void session_head(struct session *s)
{
	_cleanup_buf_ struct ft_buf target = {};
	struct ft_ev_session *e;
	struct utsname u;
	struct ft_rec rec;

	uname(&u);
	e = ft_rec_new(&rec, FT_KIND_session, s->start_ns);
	e->overhead_ns = ft_mono_ns() - s->start_ns;
	e->targets = s->targets;
	ft_rec_str(&rec, &e->version, FT_VERSION);
	ft_rec_str(&rec, &e->kernel, u.release);
	target_text(s, &target);
	if (target.len > TARGET_MAX)
		strcpy(target.s + TARGET_MAX - 3, "...");
	ft_rec_str(&rec, &e->target, target.s ? target.s : "");
	add_blind(s, &rec, &e->blind);
	ft_emit(&s->emit, &rec);
	session_probes(s);
}

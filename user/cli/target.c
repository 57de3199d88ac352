// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <signal.h>

#include "cli/target.h"
#include "cli/target_cgroup.h"
#include "cli/target_slurm.h"
#include "host/fs.h"
#include "host/proc.h"

#define ANSWER_MS 200
#define SCAN_MAX  64 /* descendants that are looked through for NCCL before we leave it open */

void ft_pidset_free(struct ft_pidset *set)
{
	free(set->pids);
	*set = (struct ft_pidset){};
}

/* Place of the first pid that is not smaller. */
static size_t place(const struct ft_pidset *set, uint32_t pid)
{
	size_t lo = 0, hi = set->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (set->pids[mid] < pid)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool ft_pidset_has(const struct ft_pidset *set, uint32_t pid)
{
	size_t i = place(set, pid);

	return i < set->n && set->pids[i] == pid;
}

int ft_pidset_add(struct ft_pidset *set, uint32_t pid)
{
	size_t i = place(set, pid);
	uint32_t *pids;

	if (i < set->n && set->pids[i] == pid)
		return 0;
	pids = reallocarray(set->pids, set->n + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	memmove(pids + i + 1, pids + i, (set->n - i) * sizeof(*pids));
	pids[i] = pid;
	set->pids = pids;
	set->n++;
	return 0;
}

void ft_pidset_del(struct ft_pidset *set, uint32_t pid)
{
	size_t i = place(set, pid);

	if (!ft_pidset_has(set, pid))
		return;
	set->n--;
	memmove(set->pids + i, set->pids + i + 1, (set->n - i) * sizeof(*set->pids));
}

/* --- a container's own number for a process, given by mistake --- */
static uint32_t inner_pid(const char *root, uint32_t pid)
{
	_cleanup_free_ char *status = NULL;
	char path[64], value[256], *tab;
	uint64_t v;

	ft_fmt(path, "/proc/%u/status", pid);
	if (ft_head_read(root, path, 16384, &status) < 0 ||
	    !ft_line_value(status, "NSpid", value, sizeof(value)))
		return 0;
	/* One pid per namespace, the innermost last. */
	tab = strrchr(value, '\t');
	return tab && !ft_parse_u64(tab + 1, &v) ? v : 0;
}

/* Of each process of the table its number in its own pid namespace, 0: it has no other one. */
static uint32_t *inner_pids(const char *root, const struct ft_proc_table *t)
{
	uint32_t *inner = calloc(t->n + 1, sizeof(*inner));

	for (size_t i = 0; inner && i < t->n; i++)
		if (!t->v[i].kthread)
			inner[i] = inner_pid(root, t->v[i].pid);
	return inner;
}

/*
 * Appends "process 48213 (python, container 3f2a91c04d5e)" for each process that a container calls
 * `pid`.
 */
static int name_inner(const char *root, const struct ft_proc_table *t, const uint32_t *inner,
		      uint32_t pid, struct ft_buf *b)
{
	int n = 0;

	for (size_t i = 0; inner && i < t->n; i++) {
		_cleanup_free_ char *text = NULL;
		struct ft_cgroup cg = {};
		char path[64];

		if (inner[i] != pid || t->v[i].pid == pid || n++ >= 3)
			continue;
		ft_fmt(path, "/proc/%u/cgroup", t->v[i].pid);
		if (ft_head_read(root, path, 16384, &text) >= 0)
			ft_cgroup_parse(text, &cg);
		ft_buf_printf(b, "%sprocess %u (%s", n > 1 ? ", " : "", t->v[i].pid, t->v[i].comm);
		if (cg.container[0])
			ft_buf_printf(b, ", container %.12s", cg.container);
		ft_buf_puts(b, ")");
	}
	if (n > 3)
		ft_buf_printf(b, " and %d more", n - 3);
	return n;
}

/* *unread grows when that cannot be told. */
static bool has_nccl(const char *root, uint32_t pid, size_t *unread)
{
	struct ft_proc_facts *f;
	bool yes;

	if (ft_proc_facts_read(root, pid, FT_PROC_WANT_NCCL, ANSWER_MS, &f))
		return false;
	yes = f->nccl == 1;
	*unread += f->nccl == FT_NONE_U8 && f->errors[FT_PROC_MAPS] &&
		   f->errors[FT_PROC_MAPS] != -ENOENT && f->errors[FT_PROC_MAPS] != -ESRCH;
	free(f);
	return yes;
}

static void note_inner(const char *root, const struct ft_proc_table *t, const uint32_t *inner,
		       uint32_t pid, const bool *below, struct ft_pidset *set)
{
	_cleanup_buf_ struct ft_buf who = {};
	size_t unread = 0;
	int scanned = 0;

	if (!name_inner(root, t, inner, pid, &who))
		return;
	for (size_t i = 0; i < t->n && scanned < SCAN_MAX; i++) {
		if (!below[i])
			continue;
		scanned++;
		if (has_nccl(root, t->v[i].pid, &unread))
			return;
	}
	ft_fmt(set->note, "process %u has no NCCL library; %u is also what a container calls %s",
	       pid, pid, who.s ? who.s : "");
}

/* --- -p --- */

/* It is there, yet not in /proc: that was mounted with hidepid=. */
static bool is_hidden(const char *root, uint32_t pid)
{
	return !root[0] && kill(pid, 0) && errno == EPERM;
}

static int refuse(const char *root, const struct ft_proc_table *t, uint32_t pid, int why, char *err,
		  size_t size)
{
	const struct ft_proc_stat *st = ft_proc_table_find(t, pid);
	_cleanup_free_ uint32_t *inner = st ? NULL : inner_pids(root, t);
	_cleanup_buf_ struct ft_buf who = {};

	if (!st && is_hidden(root, pid)) {
		snprintf(err, size, "/proc hides process %u (hidepid): needs CAP_SYS_PTRACE", pid);
		return -EPERM;
	}
	if (why == -EINVAL)
		snprintf(err, size, "pid %u is a kernel thread (%s): it cannot be part of a job",
			 pid, st->comm);
	else if (st)
		snprintf(err, size,
			 "process %u (%s) has ended and waits for its parent %u to notice", pid,
			 st->comm, st->ppid);
	else if (name_inner(root, t, inner, pid, &who))
		snprintf(err, size,
			 "no process %u on this machine; it is what a container calls %s", pid,
			 who.s);
	else
		snprintf(err, size, "no process %u", pid);
	return why;
}

/* inner: NULL except at the first look, which says what looks like a mistake. */
static int add_pid(const char *root, const struct ft_proc_table *t, const uint32_t *inner,
		   uint32_t pid, bool no_children, struct ft_pidset *set, char *err, size_t size)
{
	_cleanup_free_ bool *below = calloc(t->n + 1, sizeof(*below));
	const struct ft_proc_stat *st;
	int rc;

	if (!below)
		return -ENOMEM;
	if (ft_proc_tgid(root, pid, &pid))
		return refuse(root, t, pid, -ESRCH, err, size);
	st = ft_proc_table_find(t, pid);
	if (!st || ft_proc_has_ended(st))
		return refuse(root, t, pid, -ESRCH, err, size);
	if (st->kthread)
		return refuse(root, t, pid, -EINVAL, err, size);
	rc = ft_pidset_add(set, pid);
	ft_proc_table_below(t, pid, below);
	for (size_t i = 0; !rc && !no_children && i < t->n; i++)
		if (below[i] && !t->v[i].kthread && !ft_proc_has_ended(&t->v[i]))
			rc = ft_pidset_add(set, t->v[i].pid);
	if (!rc)
		note_inner(root, t, inner, pid, below, set);
	if (!rc && !no_children)
		rc = ft_target_srun(root, t, below, set);
	return rc;
}

static int add_all(const char *root, const struct ft_proc_table *t, struct ft_pidset *set)
{
	int err = 0;

	set->unread = 0;
	for (size_t i = 0; !err && i < t->n; i++)
		if (!t->v[i].kthread && !ft_proc_has_ended(&t->v[i]) &&
		    has_nccl(root, t->v[i].pid, &set->unread))
			err = ft_pidset_add(set, t->v[i].pid);
	return err;
}

static int copy_set(struct ft_pidset *dst, const struct ft_pidset *src)
{
	*dst = *src;
	dst->pids = NULL;
	if (!src->n)
		return 0;
	dst->pids = reallocarray(NULL, src->n, sizeof(*src->pids));
	if (!dst->pids)
		return -ENOMEM;
	memcpy(dst->pids, src->pids, src->n * sizeof(*src->pids));
	return 0;
}

int ft_target_resolve(const char *root, const struct ft_target_opts *opts, struct ft_pidset *set,
		      char *err, size_t size)
{
	_cleanup_(ft_proc_table_free) struct ft_proc_table t = {};
	_cleanup_(ft_pidset_free) struct ft_pidset new = {};
	_cleanup_free_ uint32_t *inner = NULL;
	int rc = copy_set(&new, set);

	err[0] = 0;
	if (!rc)
		rc = ft_proc_table_read(root, &t);
	if (!rc && !t.n)
		rc = -ENOENT; /* no /proc is mounted there */
	if (!rc && opts->npids && !set->n)
		inner = inner_pids(root, &t);
	for (size_t i = 0; !rc && i < opts->npids; i++)
		rc = add_pid(root, &t, inner, opts->pids[i], opts->no_children, &new, err, size);
	if (!rc && opts->cgroup)
		rc = ft_target_cgroup(root, opts->cgroup, &t, &new, err, size);
	if (!rc && opts->all)
		rc = add_all(root, &t, &new);
	if (rc) {
		if (!err[0])
			snprintf(err, size, "cannot list the processes in %s/proc: %s", root,
				 strerror(-rc));
		return rc;
	}
	ft_pidset_free(set);
	*set = new;
	new = (struct ft_pidset){};
	return 0;
}

int ft_target_failed(int err)
{
	return err == -ENOMEM  ? FT_EXIT_INTERNAL
	       : err == -EPERM ? FT_EXIT_NOPERM
			       : FT_EXIT_NOTARGET;
}

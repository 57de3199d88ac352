// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Processes, known by (pid, start time). */
#include "attrib/internal.h"

/* Both times are of the same clock, one from BPF in ns, the other from /proc in ticks. */
bool proc_same_start(uint64_t a, uint64_t b)
{
	return !a || !b || (a > b ? a - b : b - a) <= START_SLACK_NS;
}

static struct proc *proc_top(struct ft_attrib *a, uint32_t pid)
{
	struct proc *p;

	HASH_FIND(hh, a->procs, &pid, sizeof(pid), p);
	return p;
}

struct proc *proc_find(struct ft_attrib *a, uint32_t pid, uint64_t start_ns)
{
	struct proc *p = proc_top(a, pid);

	while (p && !proc_same_start(p->start_ns, start_ns))
		p = p->older;
	return p;
}

static void proc_free(struct proc *p)
{
	if (!p)
		return;
	proc_free(p->older);
	comms_free(p);
	free(p);
}

static void proc_drop(struct ft_attrib *a, struct proc *p)
{
	HASH_DEL(a->procs, p);
	proc_free(p);
}

void proc_free_all(struct ft_attrib *a)
{
	struct proc *p, *next;

	HASH_ITER(hh, a->procs, p, next)
		proc_drop(a, p);
}

static struct proc *proc_new(struct ft_attrib *a, uint32_t pid, uint64_t start_ns)
{
	struct proc *top = proc_top(a, pid), *p;

	if (!top && HASH_COUNT(a->procs) >= PROCS_MAX) {
		a->unfit++;
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		a->unfit++;
		return NULL;
	}
	*p = (struct proc){ .pid = pid,
			    .start_ns = start_ns,
			    .nccl = -1,
			    .env_rank = -1,
			    .env_world = -1,
			    .env_local_rank = -1 };
	if (top) {
		HASH_DEL(a->procs, top);
		proc_free(top->older);
		top->older = NULL;
		top->exited = true;
	}
	HASH_ADD(hh, a->procs, pid, sizeof(p->pid), p);
	if (!p->hh.tbl) {
		proc_free(top);
		free(p);
		a->unfit++;
		return NULL;
	}
	p->older = top;
	gpu_uses_take(a, p);
	return p;
}

static void copy_task(struct proc *p, const struct ft_hdr *ev)
{
	ft_fmt(p->task, "%.*s", (int)sizeof(ev->task), ev->task);
}

/*
 * The event's process, made when it is new. NULL: no pid, no room, or older than the one that has
 * the pid now.
 */
struct proc *proc_learn(struct ft_attrib *a, const struct ft_hdr *ev)
{
	struct proc *p, *top;

	if (!ev->pid)
		return NULL;
	p = proc_find(a, ev->pid, ev->start_ns);
	top = proc_top(a, ev->pid);
	if (!p && (!top || top->start_ns < ev->start_ns))
		p = proc_new(a, ev->pid, ev->start_ns);
	if (!p)
		return NULL;
	if (!p->start_ns)
		p->start_ns = ev->start_ns;
	if (!p->task[0])
		copy_task(p, ev);
	return p;
}

/*
 * Can its forks be helpers: it is a rank itself, or the environment makes it one and NCCL is
 * loaded.
 */
bool proc_is_rank(const struct proc *p)
{
	return p->comms || (p->env_rank >= 0 && p->nccl == 1 && !p->helper);
}

static int s32_or_none(int32_t v)
{
	return v == FT_NONE_S32 || v < 0 ? -1 : v;
}

static void copy_gpus(struct proc *p, const struct ft_ev_inv_proc *e)
{
	const char *s = (const char *)e + e->gpu_files.off;

	p->ngpus = 0;
	p->gpus_cut = false;
	for (size_t i = 0, n; i < e->gpu_files.len; i += n + 1) {
		char *dst = p->gpus[p->ngpus];

		n = strnlen(s + i, e->gpu_files.len - i);
		if (p->ngpus == FT_ATTR_MAX) {
			p->gpus_cut = true;
			break;
		}
		ft_fmt(p->gpus[p->ngpus], "%.*s", (int)n, s + i);
		if (*dst)
			p->ngpus++;
	}
	qsort(p->gpus, p->ngpus, sizeof(p->gpus[0]), (int (*)(const void *, const void *))strcmp);
}

void proc_inventory(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_inv_proc *e = (const void *)ev;
	struct proc *p = proc_learn(a, ev);
	struct proc *parent;

	if (!p)
		return;
	p->ppid = e->ppid == FT_NONE_U32 ? p->ppid : e->ppid;
	p->netns = e->netns == FT_NONE_U32 ? p->netns : e->netns;
	p->env_rank = s32_or_none(e->env_rank);
	p->env_world = s32_or_none(e->env_world);
	p->env_local_rank = s32_or_none(e->env_local_rank);
	/*
	 * The inventory knows NCCL by its file name; nccl.lib also where it is linked into
	 * another library.
	 */
	if (e->nccl != FT_NONE_U8 && p->nccl != 1)
		p->nccl = e->nccl;
	if (e->helper != FT_NONE_U8)
		p->helper = e->helper && !p->comms;
	parent = p->helper ? proc_find(a, p->ppid, 0) : NULL;
	if (parent && !p->rank_pid)
		p->rank_pid = parent->helper ? parent->rank_pid : parent->pid;
	ft_str_copy(ev, e->exe, p->exe, sizeof(p->exe));
	ft_str_copy(ev, e->container, p->container, sizeof(p->container));
	ft_str_copy(ev, e->pod, p->pod, sizeof(p->pod));
	ft_str_copy(ev, e->job, p->job, sizeof(p->job));
	ft_str_copy(ev, e->env_by, p->env_by, sizeof(p->env_by));
	ft_str_copy(ev, e->cuda_visible, p->cuda_visible, sizeof(p->cuda_visible));
	copy_gpus(p, e);
}

/* A fork has what its parent has, but is a helper when the parent is a rank. */
static void inherit(struct proc *p, const struct proc *parent)
{
	p->netns = parent->netns;
	p->nccl = parent->nccl;
	p->env_rank = parent->env_rank;
	p->env_world = parent->env_world;
	p->env_local_rank = parent->env_local_rank;
	p->helper = parent->helper || proc_is_rank(parent);
	if (p->helper)
		p->rank_pid = parent->helper ? parent->rank_pid : parent->pid;
	memcpy(p->exe, parent->exe, sizeof(p->exe));
	memcpy(p->container, parent->container, sizeof(p->container));
	memcpy(p->pod, parent->pod, sizeof(p->pod));
	memcpy(p->job, parent->job, sizeof(p->job));
	memcpy(p->env_by, parent->env_by, sizeof(p->env_by));
	memcpy(p->cuda_visible, parent->cuda_visible, sizeof(p->cuda_visible));
}

/* After an exec the environment and the libraries are new: unknown until inv.proc tells. */
static void forget_image(struct proc *p)
{
	comms_free(p);
	p->helper = false;
	p->rank_pid = 0;
	p->forked_ns = 0;
	p->nccl = -1;
	p->env_rank = p->env_world = p->env_local_rank = -1;
	p->ngpus = 0;
	p->nused = 0;
	p->nown = 0;
	p->cuda_visible[0] = 0;
}

void proc_started(struct ft_attrib *a, const struct ft_hdr *ev)
{
	const struct ft_ev_proc_start *e = (const void *)ev;
	struct proc *old = proc_find(a, ev->pid, ev->start_ns), *p, *parent;

	/*
	 * A fork with the pid of a process that ended is a new process even when no start time
	 * tells.
	 */
	if (old && old->exited && e->exec == 0)
		proc_new(a, ev->pid, ev->start_ns);
	p = proc_learn(a, ev);
	if (!p)
		return;
	copy_task(p, ev);
	if (e->ppid != FT_NONE_U32)
		p->ppid = e->ppid;
	if (e->exec == 1) {
		forget_image(p);
		ft_str_copy(ev, e->exe, p->exe, sizeof(p->exe));
	} else if (p != old || !old) {
		p->forked_ns = ev->ts_ns;
		parent = proc_find(a, p->ppid, 0);
		if (!parent)
			return;
		inherit(p, parent);
		parent->forks++;
	}
}

/* Ended processes stay for late events, up to a bound. */
void proc_exited(struct ft_attrib *a, const struct ft_hdr *ev)
{
	struct proc *p = proc_find(a, ev->pid, ev->start_ns), *oldest;
	uint32_t *slot = &a->exited[a->nexited % EXITED_MAX];

	if (!p || p->exited)
		return;
	p->exited = true;
	oldest = a->nexited >= EXITED_MAX ? proc_top(a, *slot) : NULL;
	*slot = p->pid;
	a->nexited++;
	if (oldest && oldest != p && oldest->exited)
		proc_drop(a, oldest);
}

void proc_library(struct ft_attrib *a, const struct ft_hdr *ev)
{
	struct proc *p = proc_learn(a, ev);

	if (p)
		p->nccl = 1;
}

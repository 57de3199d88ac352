// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* srun only asks for a job's tasks: they are children of slurmstepd, on this node or on others. */
#include "cli/target_slurm.h"
#include "cli/target_cgroup.h"
#include "host/fs.h"

#define ANSWER_MS 200
#define LIST_MAX  16384

static bool is_srun(const char *root, const struct ft_proc_stat *st)
{
	char path[64], exe[64];

	ft_fmt(path, "/proc/%u/exe", st->pid);
	return !strcmp(st->comm, "srun") ||
	       (!ft_link_base(root, path, exe, sizeof(exe)) && !strcmp(exe, "srun"));
}

/*
 * The environment that a process was started with names its allocation, which for an srun in a
 * batch script is also that of its cgroup; an srun that made its allocation has it nowhere but in
 * what it starts.
 */
static void job_by_env(const char *root, uint32_t pid, char job[24])
{
	struct ft_proc_facts *f;

	if (ft_proc_facts_read(root, pid, 0, ANSWER_MS, &f))
		return;
	ft_strcpy(job, f->env.slurm_job[0] ? f->env.slurm_job : f->cgroup.job, 24);
	free(f);
}

static void job_of_srun(const char *root, const struct ft_proc_table *t, uint32_t pid, char job[24])
{
	job_by_env(root, pid, job);
	for (size_t i = 0; !job[0] && i < t->n; i++)
		if (t->v[i].ppid == pid)
			job_by_env(root, t->v[i].pid, job);
}

/* The slurmstepd that started a process, 0: none did. */
static uint32_t stepd_of(const struct ft_proc_table *t, const struct ft_proc_stat *st)
{
	for (int depth = 0; st && depth < 64; depth++) {
		st = ft_proc_table_find(t, st->ppid);
		if (st && !strcmp(st->comm, "slurmstepd"))
			return st->pid;
	}
	return 0;
}

struct tasks {
	const char *root;
	const struct ft_proc_table *t;
	const char *job;
	uint32_t own_stepd; /* of the batch script that srun is part of */
	size_t n;
	char step[24]; /* of the first */
	bool steps;    /* there are several */
};

/* Scripts and shells of the job: steps batch, extern and interactive are not srun's. */
static bool is_task_step(const char *step)
{
	return step[0] && !step[strspn(step, "0123456789")];
}

/* By its cgroup; where Slurm makes none, by the environment below a slurmstepd. */
static bool is_task(const struct tasks *k, const struct ft_proc_stat *st, struct ft_cgroup *cg)
{
	uint32_t stepd = stepd_of(k->t, st);
	_cleanup_free_ char *text = NULL;
	char path[64], job[24] = "";

	if (st->kthread || ft_proc_has_ended(st) || !strcmp(st->comm, "slurmstepd") ||
	    (stepd && stepd == k->own_stepd))
		return false;
	ft_fmt(path, "/proc/%u/cgroup", st->pid);
	if (ft_head_read(k->root, path, LIST_MAX, &text) >= 0)
		ft_cgroup_parse(text, cg);
	if (cg->job[0])
		return !strcmp(cg->job, k->job) && is_task_step(cg->step);
	if (stepd)
		job_by_env(k->root, st->pid, job);
	return job[0] && !strcmp(job, k->job);
}

static int tasks_add(struct tasks *k, struct ft_pidset *set)
{
	int err = 0;

	for (size_t i = 0; !err && i < k->t->n; i++) {
		struct ft_cgroup cg = {};

		if (!is_task(k, &k->t->v[i], &cg))
			continue;
		if (!k->n++)
			ft_strcpy(k->step, cg.step, sizeof(k->step));
		k->steps |= strcmp(k->step, cg.step) != 0;
		err = ft_pidset_add(set, k->t->v[i].pid);
	}
	return err;
}

static void note_tasks(const struct tasks *k, uint32_t pid, struct ft_pidset *set)
{
	if (!k->job[0])
		ft_fmt(set->note,
		       "process %u is srun, and its job id is not in its environment: its tasks are "
		       "not its children (--cgroup job_ID finds them)",
		       pid);
	else if (!k->n)
		ft_fmt(set->note,
		       "process %u is srun of job %s, whose tasks run on other nodes, none on this "
		       "one: trace there, with --cgroup job_%s",
		       pid, k->job, k->job);
	else
		ft_fmt(set->note,
		       "process %u is srun, its tasks are slurmstepd's: added the %zu processes of "
		       "job %s on this node%s",
		       pid, k->n, k->job,
		       k->steps ? ", of several steps (--cgroup PATH for one)" : "");
}

static int add_tasks_of(const char *root, const struct ft_proc_table *t,
			const struct ft_proc_stat *srun, struct ft_pidset *set)
{
	char job[24] = "";
	struct tasks k = { .root = root, .t = t, .job = job, .own_stepd = stepd_of(t, srun) };
	int err = 0;

	job_of_srun(root, t, srun->pid, job);
	if (job[0])
		err = tasks_add(&k, set);
	if (!err)
		note_tasks(&k, srun->pid, set);
	return err;
}

int ft_target_srun(const char *root, const struct ft_proc_table *t, const bool *below,
		   struct ft_pidset *set)
{
	int err = 0;

	for (size_t i = 0; !err && i < t->n; i++) {
		const struct ft_proc_stat *parent;

		if (!below[i] || ft_proc_has_ended(&t->v[i]) || !is_srun(root, &t->v[i]))
			continue;
		/* it forks one of its own for its input and output */
		parent = ft_proc_table_find(t, t->v[i].ppid);
		if (!parent || !below[parent - t->v] || !is_srun(root, parent))
			err = add_tasks_of(root, t, &t->v[i], set);
	}
	return err;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What a process must be asked for. Reading its arguments, environment or mappings takes its memory
 * lock, which a sick process can hold for ever: a worker reads, part by part, and the caller takes
 * what is there in time.
 */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>

#include "host/fs.h"
#include "host/pci.h"
#include "host/proc.h"

#define ENV_MAX	 (256u << 10)
#define LIST_MAX 16384

struct reader {
	int refs;	   /* the thread's and the caller's */
	unsigned int done; /* parts that are complete; the rest belongs to the thread */
	unsigned int want;
	char *root;
	struct ft_proc_facts f;
};

static int read_exe(struct reader *r, const char *path)
{
	return ft_link_read(r->root, path, r->f.exe, sizeof(r->f.exe));
}

static int read_args(struct reader *r, const char *path)
{
	struct ft_proc_args *a = &r->f.args;
	_cleanup_free_ char *text = NULL;
	ssize_t n = ft_head_read(r->root, path, sizeof(a->text) - 1, &text);

	if (n < 0)
		return n;
	memcpy(a->text, text, n + 1);
	a->len = n;
	a->not_rank = ft_proc_is_launcher(a->text, n) || ft_proc_is_wrapper(r->f.st.comm);
	return 0;
}

static void env_copy(const char *env, size_t len, const char *name, char *out, size_t size)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < len; i += strlen(env + i) + 1)
		if (!strncmp(env + i, name, n) && env[i + n] == '=')
			ft_strcpy(out, env + i + n + 1, size);
}

static int read_env(struct reader *r, const char *path)
{
	struct ft_proc_env *e = &r->f.env;
	_cleanup_free_ char *env = NULL;
	ssize_t n = ft_head_read(r->root, path, ENV_MAX, &env);

	if (n < 0)
		return n;
	e->cut = n == ENV_MAX;
	/* The last variable of a cut environment may be half of itself. */
	while (e->cut && n && env[n - 1])
		env[--n] = 0;
	if (!r->f.args.not_rank)
		ft_env_rank_find(env, n, ft_proc_slurm_direct(r->root, r->f.st.pid), &e->rank);
	env_copy(env, n, "CUDA_VISIBLE_DEVICES", e->cuda_visible, sizeof(e->cuda_visible));
	env_copy(env, n, "SLURM_JOB_ID", e->slurm_job, sizeof(e->slurm_job));
	/* A rank may stand in the rest. */
	return e->cut && e->rank.rank < 0 ? -EFBIG : 0;
}

static void gpu_add(struct ft_proc_files *f, const char *bdf)
{
	for (size_t i = 0; i < f->ngpus; i++)
		if (!strcmp(f->gpus[i], bdf))
			return;
	if (f->ngpus < FT_PROC_GPUS)
		ft_strcpy(f->gpus[f->ngpus++], bdf, sizeof(f->gpus[0]));
}

static void file_seen(struct reader *r, const char *target)
{
	char path[64], bdf[16];
	unsigned int nr;
	int end = 0;

	if (sscanf(target, "/dev/nvidia%3u%n", &nr, &end) == 1 && !target[end] && nr < 256)
		r->f.files.nvidia[nr / 8] |= 1 << nr % 8;
	else if (sscanf(target, "/dev/dri/renderD%4u%n", &nr, &end) == 1 && !target[end]) {
		ft_fmt(path, "/sys/class/drm/renderD%u/device", nr);
		if (!ft_bdf_of(r->root, path, bdf))
			gpu_add(&r->f.files, bdf);
	}
}

static int read_files(struct reader *r, const char *path)
{
	char full[PATH_MAX], target[64];
	struct dirent *d;
	DIR *dir;

	ft_fmt(full, "%s%s", r->root, path);
	dir = opendir(full);
	if (!dir)
		return -errno;
	while ((d = readdir(dir))) {
		ssize_t n = readlinkat(dirfd(dir), d->d_name, target, sizeof(target) - 1);

		target[MAX(n, 0)] = 0;
		if (!strncmp(target, "/dev/", 5))
			file_seen(r, target);
	}
	closedir(dir);
	return 0;
}

static int read_maps(struct reader *r, const char *path)
{
	_cleanup_file_ FILE *f = NULL;
	char full[PATH_MAX], line[PATH_MAX + 128];

	if (!(r->want & FT_PROC_WANT_NCCL))
		return 0;
	ft_fmt(full, "%s%s", r->root, path);
	f = fopen(full, "re");
	if (!f)
		return -errno;
	setvbuf(f, NULL, _IOFBF, 65536);
	while (fgets(line, sizeof(line), f)) {
		const char *slash = strrchr(line, '/');

		if (!slash || (strncmp(slash, "/libnccl.so", 11) != 0 &&
			       strncmp(slash, "/librccl.so", 11) != 0))
			continue;
		r->f.nccl = 1;
		return 0;
	}
	r->f.nccl = 0;
	return ferror(f) ? -EIO : 0;
}

#define MEMBER(m) offsetof(struct ft_proc_facts, m), sizeof(((struct ft_proc_facts *)0)->m)
static const struct part {
	const char *file;
	int (*read)(struct reader *r, const char *path);
	size_t off, size;
} parts[FT_PROC_PARTS] = {
	[FT_PROC_EXE] = { "exe", read_exe, MEMBER(exe) },
	[FT_PROC_ARGS] = { "cmdline", read_args, MEMBER(args) },
	[FT_PROC_ENV] = { "environ", read_env, MEMBER(env) },
	[FT_PROC_FILES] = { "fd", read_files, MEMBER(files) },
	[FT_PROC_MAPS] = { "maps", read_maps, MEMBER(nccl) },
};

static void reader_put(void *arg)
{
	struct reader *r = arg;

	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL))
		return;
	free(r->root);
	free(r);
}

static int reader_run(void *arg)
{
	struct reader *r = arg;
	char path[64];

	for (unsigned int i = 0; i < FT_PROC_PARTS; i++) {
		ft_fmt(path, "/proc/%u/%s", r->f.st.pid, parts[i].file);
		r->f.errors[i] = parts[i].read(r, path);
		__atomic_store_n(&r->done, i + 1, __ATOMIC_RELEASE);
	}
	return 0;
}

/* --- the parts that the process is not asked for --- */
static int read_shallow(const char *root, uint32_t pid, struct ft_proc_facts *f)
{
	_cleanup_free_ char *status = NULL, *cgroup = NULL;
	char path[64], value[256], *last;
	uint64_t v;
	int err = ft_proc_stat_read(root, pid, &f->st);

	if (err)
		return err;
	ft_fmt(path, "/proc/%u/status", pid);
	if (ft_head_read(root, path, LIST_MAX, &status) >= 0 &&
	    ft_line_value(status, "NSpid", value, sizeof(value))) {
		/* One pid per namespace, the innermost last. */
		last = strrchr(value, '\t');
		if (!ft_parse_u64(last ? last + 1 : value, &v))
			f->ns_pid = v;
	}
	ft_fmt(path, "/proc/%u/cgroup", pid);
	if (ft_head_read(root, path, LIST_MAX, &cgroup) >= 0)
		ft_cgroup_parse(cgroup, &f->cgroup);
	ft_fmt(path, "/proc/%u/ns/net", pid);
	ft_link_inode(root, path, &f->netns);
	return 0;
}

static struct ft_proc_facts facts_unknown(void)
{
	const struct ft_env_rank none = { FT_NONE_S32, FT_NONE_S32, FT_NONE_S32, "" };

	return (struct ft_proc_facts){
		.ns_pid = FT_NONE_U32,
		.netns = FT_NONE_U32,
		.nccl = FT_NONE_U8,
		.env.rank = none,
	};
}

static struct reader *reader_new(const char *root, unsigned int want,
				 const struct ft_proc_facts *shallow)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct reader){ .refs = 2, .want = want, .root = strdup(root), .f = *shallow };
	if (!r->root)
		r = (free(r), NULL);
	return r;
}

/* Takes over what the thread has finished. */
static void take_parts(struct ft_proc_facts *f, struct reader *r, int err)
{
	unsigned int done = __atomic_load_n(&r->done, __ATOMIC_ACQUIRE);

	for (unsigned int i = 0; i < FT_PROC_PARTS; i++) {
		if (i >= done) {
			f->errors[i] = err ? err : -EIO;
			continue;
		}
		f->errors[i] = r->f.errors[i];
		memcpy((char *)f + parts[i].off, (char *)&r->f + parts[i].off, parts[i].size);
	}
}

int ft_proc_facts_read(const char *root, uint32_t pid, unsigned int want, int timeout_ms,
		       struct ft_proc_facts **out)
{
	_cleanup_free_ struct ft_proc_facts *f = malloc(sizeof(*f));
	struct reader *r;
	int err;

	if (!f)
		return -ENOMEM;
	*f = facts_unknown();
	err = read_shallow(root, pid, f);
	if (err)
		return err;
	if (!f->st.kthread) {
		r = reader_new(root, want, f);
		if (!r)
			return -ENOMEM;
		err = ft_worker_call(reader_run, reader_put, r, timeout_ms);
		take_parts(f, r, err);
		if (err != -ETIMEDOUT)
			reader_put(r); /* the thread's own reference */
		reader_put(r);
	}
	if (!f->cgroup.job[0])
		ft_strcpy(f->cgroup.job, f->env.slurm_job, sizeof(f->cgroup.job));
	*out = ft_take_ptr(f);
	return 0;
}

/* --- helpers --- */
static bool is_fork_of(const struct ft_proc_facts *child, const struct ft_proc_facts *parent)
{
	static const uint64_t hidden[ARRAY_SIZE(child->st.layout)];
	const struct ft_env_rank *a = &child->env.rank, *b = &parent->env.rank;

	if (a->rank < 0 || a->rank != b->rank || !child->exe[0] ||
	    strcmp(child->exe, parent->exe) != 0)
		return false;
	/*
	 * exec lays the memory out anew, at random places; fork keeps it. Better than the
	 * arguments, which setproctitle() rewrites.
	 */
	if (memcmp(child->st.layout, hidden, sizeof(hidden)) != 0)
		return !memcmp(child->st.layout, parent->st.layout, sizeof(hidden));
	return child->args.len == parent->args.len &&
	       !memcmp(child->args.text, parent->args.text, child->args.len);
}

void ft_proc_mark_helpers(struct ft_proc_facts *const *facts, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n && !facts[i]->helper; k++)
			facts[i]->helper = facts[k]->st.pid == facts[i]->st.ppid &&
					   is_fork_of(facts[i], facts[k]);
}

/* --- records --- */
size_t ft_proc_gpus(const struct ft_proc_facts *f, const struct ft_pci *pci, char (*bdfs)[16])
{
	size_t n = f->files.ngpus;

	memcpy(bdfs, f->files.gpus, n * sizeof(*bdfs));
	for (int minor = 0; pci && minor < 256 && n < FT_PROC_GPUS; minor++) {
		const struct ft_pci_dev *d;
		bool seen = false;

		if (!(f->files.nvidia[minor / 8] & 1 << minor % 8))
			continue;
		d = ft_pci_gpu(pci, minor);
		for (size_t i = 0; d && i < n; i++)
			seen |= !strcmp(bdfs[i], d->bdf);
		if (d && !seen)
			ft_strcpy(bdfs[n++], d->bdf, sizeof(*bdfs));
	}
	return n;
}

static void add_args(struct ft_rec *rec, struct ft_str *field, const struct ft_proc_args *a)
{
	size_t used = 0;

	/* As in proc.start: 512 bytes. */
	for (size_t i = 0; i < a->len && used < 512; i += strlen(a->text + i) + 1) {
		char word[513];

		ft_strcpy(word, a->text + i, sizeof(word) - used);
		used += strlen(word) + 1;
		ft_rec_strs_add(rec, field, word);
	}
}

void ft_proc_rec(const struct ft_proc_facts *f, const struct ft_pci *pci, uint64_t ts_ns,
		 struct ft_rec *out)
{
	struct ft_ev_inv_proc *e = ft_rec_new(out, FT_KIND_inv_proc, ts_ns);
	char bdfs[FT_PROC_GPUS][16];
	size_t n = ft_proc_gpus(f, pci, bdfs);

	e->h.pid = e->h.tid = f->st.pid;
	e->h.start_ns = f->st.start_ns;
	ft_strcpy(e->h.task, f->st.comm, sizeof(e->h.task));
	e->ppid = f->st.ppid;
	e->ns_pid = f->ns_pid;
	e->netns = f->netns;
	e->env_rank = f->env.rank.rank;
	e->env_world = f->env.rank.world;
	e->env_local_rank = f->env.rank.local;
	e->nccl = f->nccl;
	e->helper = f->helper;
	e->threads = MIN(f->st.threads, FT_NONE_U16 - 1);
	ft_rec_str(out, &e->env_by, f->env.rank.by);
	ft_rec_str(out, &e->container, f->cgroup.container);
	ft_rec_str(out, &e->pod, f->cgroup.pod);
	ft_rec_str(out, &e->job, f->cgroup.job);
	for (size_t i = 0; i < n; i++)
		ft_rec_strs_add(out, &e->gpu_files, bdfs[i]);
	ft_rec_str(out, &e->cuda_visible, f->env.cuda_visible);
	ft_rec_str(out, &e->exe, f->exe);
	add_args(out, &e->args, &f->args);
	ft_rec_str(out, &e->cgroup, f->cgroup.path);
}

bool ft_proc_missing_rec(const struct ft_proc_facts *f, enum ft_proc_part part, uint64_t ts_ns,
			 struct ft_rec *out)
{
	struct ft_ev_inv_host *e;
	int err = f->errors[part];
	const char *reason;
	char what[64];

	/*
	 * A process that is ending has no memory and no files any more; that is its state, no gap
	 * in our view.
	 */
	if (!err || err == -ENOENT || err == -ESRCH)
		return false;
	reason = err == -ETIMEDOUT ? "no answer in time: something holds the process's memory lock"
		 : err == -EBUSY   ? "not asked: too many earlier reads are still without an answer"
		 : err == -EFBIG   ? "only its first 256 KiB were read"
		 : err == -EACCES || err == -EPERM ? "not permitted: needs CAP_SYS_PTRACE"
						   : strerror(-err);
	e = ft_rec_new(out, FT_KIND_inv_host, ts_ns);
	e->h.pid = e->h.tid = f->st.pid;
	e->h.start_ns = f->st.start_ns;
	ft_strcpy(e->h.task, f->st.comm, sizeof(e->h.task));
	e->error = err;
	ft_fmt(what, "/proc/%u/%s", f->st.pid, parts[part].file);
	ft_rec_str(out, &e->what, what);
	ft_rec_str(out, &e->reason, reason);
	return true;
}

static void emit_facts(const struct ft_proc_facts *f, const struct ft_pci *pci, ft_sink_fn sink,
		       void *ctx)
{
	uint64_t now = ft_mono_ns();
	struct ft_rec rec;

	ft_proc_rec(f, pci, now, &rec);
	sink(ctx, &rec.h);
	for (int part = 0; part < FT_PROC_PARTS; part++)
		if (ft_proc_missing_rec(f, part, now, &rec))
			sink(ctx, &rec.h);
}

static ssize_t inventory(const char *root, const uint32_t *pids, size_t n, unsigned int want,
			 int timeout_ms, const struct ft_pci *pci, ft_sink_fn sink,
			 bool (*more)(void *), void *ctx)
{
	_cleanup_free_ struct ft_proc_facts **facts = calloc(MAX(n, (size_t)1), sizeof(*facts));
	size_t got = 0, done = 0;
	int err = facts ? 0 : -ENOMEM;

	while (!err && done < n) {
		err = ft_proc_facts_read(root, pids[done++], want, timeout_ms, &facts[got]);
		got += !err;
		if (err == -ESRCH)
			err = 0;
		if (more && !more(ctx))
			break;
	}
	if (!err)
		ft_proc_mark_helpers(facts, got);
	for (size_t i = 0; i < got; i++) {
		if (!err)
			emit_facts(facts[i], pci, sink, ctx);
		free(facts[i]);
	}
	return err ? err : (ssize_t)done;
}

int ft_proc_inventory(const char *root, const uint32_t *pids, size_t n, unsigned int want,
		      int timeout_ms, const struct ft_pci *pci, ft_sink_fn sink, void *ctx)
{
	return MIN(inventory(root, pids, n, want, timeout_ms, pci, sink, NULL, ctx), 0);
}

ssize_t ft_proc_inventory_while(const char *root, const uint32_t *pids, size_t n, int timeout_ms,
				const struct ft_pci *pci, ft_sink_fn sink, bool (*more)(void *ctx),
				void *ctx)
{
	return inventory(root, pids, n, 0, timeout_ms, pci, sink, more, ctx);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * NCCL in traced processes. Each process gets probes of its own, restricted to it: an untraced
 * process with the same library never runs into them, and two overlay mounts of one file, on which
 * a probe for all processes would fire twice, are two processes' business. That holds with -a too.
 * Whatever touches a process (its maps, its files, its text) runs in a worker with a deadline.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <uthash.h>

#include "nccl/nccl.h"
#include "source/mmap2.h"
#include "source/nccl_attach.h"
#include "source/nccl_stats.h"
#include "source/source.h"
#include "source/uprobe.h"

#define ANSWER_MS   1000 /* a process that does not let its maps be read for so long is named */
#define DETACH_MS   5000
#define DETACHERS   4	 /* threads; each waits for the kernel's grace periods by itself */
#define PENDING_MAX 1024 /* new mappings of one wake-up */
#define REST_MAX_S  16	 /* a process that did not answer is asked after 1, 2, 4 .. s again */
#define RESCAN_NS   (NSEC_PER_SEC / 2) /* of one tick: the main loop waits so long */
/* A mere note who has NCCL: neither complete nor worth a wait. */
#define NOTE_NS	   (300 * NSEC_PER_MSEC)
#define NOTE_FOUND 4
/* Without mmap2 events: mappings are looked through each second for so long, then every 16th. */
#define RESCAN_YOUNG_NS (60 * NSEC_PER_SEC)

struct proc {
	uint32_t pid;
	uint32_t nlibs;
	struct ft_nccl_probed libs[FT_NCCL_LIBS_MAX];
	char task[16];
	uint64_t added_ns, rest_until_ns;
	int retries;
	int *refs; /* more than 1: a request is still without an answer */
	bool has_nccl, due;
	UT_hash_handle hh;
};

/* A row of the probe table, and what became of its probes. */
struct row {
	struct ft_probe *probe; /* NULL: not loaded */
	uint32_t tried, failed; /* libraries */
};

struct pending {
	uint32_t pid;
	struct ft_map *map;
};

struct ft_nccl_src {
	struct ft_bpf *bpf;
	const struct ft_emit *emit;
	struct ft_nccl_opts opts;
	struct ft_nccl_cache *cache;
	struct ft_nccl_stats *stats;
	struct ft_mmap2 *mmap2;
	struct proc *procs;
	struct row enter, ret;
	int enter_fd, ret_fd, ips_fd;
	uint32_t npending;
	struct pending pending[PENDING_MAX];
	bool rescan; /* events of new mappings were lost */
	uint32_t tick, found;
};

/* --- the loop's side --- */

/* -ENOENT: there is none; -EMFILE and the like. */
static int program_dup(int fd)
{
	int own = fd < 0 ? -ENOENT : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return own < 0 && fd >= 0 ? -errno : own;
}

static struct ft_nccl_request *request_new(struct ft_nccl_src *s, uint32_t pid, struct proc *p)
{
	struct ft_nccl_request *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->pid = pid;
	r->cache = ft_nccl_cache_ref(s->cache);
	r->enter_fd = r->ret_fd = -ENOENT;
	r->collectives = s->opts.collectives;
	if (!p)
		return r;
	/* Own ones: a stuck worker may outlive the session's. */
	r->enter_fd = program_dup(s->enter_fd);
	r->ret_fd = program_dup(s->ret_fd);
	r->enter_multi = s->enter.probe && strstr(s->enter.probe->attach, ".multi");
	r->ret_multi = s->ret.probe && strstr(s->ret.probe->attach, ".multi");
	r->refs = p->refs;
	__atomic_add_fetch(p->refs, 1, __ATOMIC_RELAXED);
	r->nknown = p->nlibs;
	for (uint32_t i = 0; i < p->nlibs; i++) {
		r->known[i] = p->libs[i];
		r->known[i].enter = r->known[i].ret = (struct ft_uprobe_links){};
	}
	return r;
}

static uint64_t start_of(struct ft_nccl_src *s, uint32_t pid)
{
	struct ft_proc p;
	int fd = ft_bpf_map_fd(s->bpf, "nccl", "ft_procs");

	return fd < 0 || bpf_map_lookup_elem(fd, &pid, &p) ? 0 : p.start_ns;
}

static void emit_lib(struct ft_nccl_src *s, uint32_t pid, const char *task,
		     const struct ft_nccl_lib *lib, uint32_t symbols, int err, const char *reason)
{
	struct ft_rec rec;
	struct ft_ev_nccl_lib *e = ft_rec_new(&rec, FT_KIND_nccl_lib, ft_mono_ns());

	e->h.pid = pid;
	e->h.start_ns = start_of(s, pid);
	ft_strcpy(e->h.task, task, sizeof(e->h.task));
	e->symbols = symbols;
	if (err)
		e->error = err;
	if (lib) {
		e->dev_ino = ((uint64_t)lib->major << 52 | (uint64_t)lib->minor << 32) ^ lib->ino;
		ft_rec_str(&rec, &e->path, lib->path);
		if (lib->image.version[0])
			ft_rec_str(&rec, &e->version, lib->image.version);
	}
	if (reason)
		ft_rec_str(&rec, &e->reason, reason);
	ft_emit(s->emit, &rec);
}

/* Before 5.15 probes carry no cookie: the program finds it by the address that was hit. */
static void add_ips(struct ft_nccl_src *s, uint32_t pid, const struct ft_nccl_lib *lib,
		    const struct ft_nccl_result *res)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < lib->image.nsyms && n < res->nprobes; i++) {
		const struct ft_nccl_sym *sym = &lib->image.syms[i];
		struct ft_nccl_ip key = { .ip = lib->start + sym->offset - lib->pgoff,
					  .tgid = pid };

		if ((res->cookies[n] & FT_NCCL_COOKIE_FN) != sym->fn)
			continue;
		bpf_map_update_elem(s->ips_fd, &key, &res->cookies[n], BPF_ANY);
		n++;
	}
}

/* Attached once is not attached everywhere: what failed stays in the reason. */
static void row_result(struct row *r, int err)
{
	struct ft_probe *p = r->probe;

	if (!p)
		return;
	r->tried++;
	if (err) {
		r->failed++;
		p->error = err;
	}
	p->state = r->failed == r->tried ? FT_PROBE_OFF : FT_PROBE_ON;
	if (p->state == FT_PROBE_OFF)
		ft_fmt(p->reason, "attach: %s", strerror(-p->error));
	else if (r->failed)
		ft_fmt(p->reason, "%u of %u libraries not probed: %s", r->failed, r->tried,
		       strerror(-p->error));
	else
		p->reason[0] = 0;
}

/* Takes a library and its probes over from the worker, and tells of it. */
static void take_lib(struct ft_nccl_src *s, struct proc *p, struct ft_nccl_lib *lib,
		     struct ft_nccl_result *res)
{
	char reason[200] = "";
	int err = lib->error;

	if (err)
		ft_fmt(reason, "cannot read it: %s", strerror(-err));
	else if (s->enter_fd < 0) {
		err = s->enter.probe ? s->enter.probe->error : -ENOENT;
		ft_fmt(reason, "no probes: %s",
		       s->enter.probe ? s->enter.probe->reason : "not loaded");
	} else if (res->enter_error) {
		err = res->enter_error;
		ft_fmt(reason, "cannot attach probes: %s", strerror(-err));
	}
	if (s->enter_fd >= 0)
		row_result(&s->enter, lib->error ?: res->enter_error);
	if (res->lib.ret.n || res->ret_error)
		row_result(&s->ret, res->ret_error);
	if (res->no_cookies)
		add_ips(s, p->pid, lib, res);
	emit_lib(s, p->pid, p->task, lib, res->nprobes, err, err ? reason : NULL);
	if (p->nlibs == FT_NCCL_LIBS_MAX)
		return;
	p->libs[p->nlibs++] = res->lib;
	res->lib.enter = res->lib.ret = (struct ft_uprobe_links){};
}

/* One file below two mounts: said once, by the mapping that has no probes of its own. */
static void note_twin(struct ft_nccl_src *s, struct proc *p, const struct ft_nccl_lib *lib,
		      const struct ft_nccl_result *res)
{
	for (uint32_t i = 0; i < p->nlibs; i++)
		if (p->libs[i].major == res->lib.major && p->libs[i].minor == res->lib.minor &&
		    p->libs[i].ino == res->lib.ino)
			return;
	emit_lib(s, p->pid, p->task, lib, 0, -EEXIST,
		 "the same file as another mapping of this process: probed there");
	if (p->nlibs < FT_NCCL_LIBS_MAX)
		p->libs[p->nlibs++] = res->lib;
}

/*
 * Not to be asked now; a later look sees all that is mapped then. own: requests of it that are made
 * but do not run: any other is stuck, and one stuck thread for a process is enough.
 */
static bool resting(const struct proc *p, int own)
{
	return ft_mono_ns() < p->rest_until_ns ||
	       __atomic_load_n(p->refs, __ATOMIC_ACQUIRE) > 1 + own;
}

static void no_answer(struct ft_nccl_src *s, struct proc *p, int err)
{
	uint64_t rest_s = MIN(1u << MIN(p->retries, 8), REST_MAX_S);
	char reason[200];

	p->rest_until_ns = ft_mono_ns() + rest_s * NSEC_PER_SEC;
	/* It will be asked again; said the first time only. */
	if (p->retries++)
		return;
	if (err == -ETIMEDOUT)
		ft_fmt(reason, "process %u did not let its mappings be read within %d ms: %s",
		       p->pid, ANSWER_MS, strerror(-err));
	else if (err == -E2BIG)
		ft_fmt(reason, "process %u has more mapped files than are looked through", p->pid);
	else
		ft_fmt(reason, "the mappings of process %u cannot be read: %s", p->pid,
		       strerror(-err));
	emit_lib(s, p->pid, p->task, NULL, 0, err, reason);
}

/* Runs the request, which is consumed. 1: has NCCL, 0: not seen, negative errno. */
static int request_do(struct ft_nccl_src *s, struct proc *p, struct ft_nccl_request *r)
{
	bool all = !r->nmaps;
	int err = ft_worker_call(ft_nccl_request_run, ft_nccl_request_free, r, ANSWER_MS);

	if (err == -ETIMEDOUT) {
		no_answer(s, p, err);
		return err;
	}
	if (!err && r->scan.task[0])
		ft_strcpy(p->task, r->scan.task, sizeof(p->task));
	/* Too many files for one look: what was found until then holds. */
	for (uint32_t i = 0; (!err || err == -E2BIG) && i < r->scan.nlibs; i++) {
		if (r->results[i].known)
			note_twin(s, p, &r->scan.libs[i], &r->results[i]);
		else
			take_lib(s, p, &r->scan.libs[i], &r->results[i]);
	}
	if (err && err != -ESRCH)
		no_answer(s, p, err);
	if (!err && all) {
		p->retries = 0;
		p->has_nccl = r->scan.nlibs;
	}
	if (!err && r->scan.nlibs)
		p->has_nccl = true;
	ft_nccl_request_free(r);
	return err ?: p->has_nccl;
}

static struct proc *proc_find(struct ft_nccl_src *s, uint32_t pid)
{
	struct proc *p;

	HASH_FIND(hh, s->procs, &pid, sizeof(pid), p);
	return p;
}

static int proc_scan(struct ft_nccl_src *s, struct proc *p)
{
	struct ft_nccl_request *r;

	if (resting(p, 0))
		return -EAGAIN;
	p->due = false;
	r = request_new(s, p->pid, p);
	return r ? request_do(s, p, r) : -ENOMEM;
}

static void proc_free(struct proc *p)
{
	ft_nccl_refs_put(p->refs);
	free(p);
}

static struct proc *proc_new(struct ft_nccl_src *s, uint32_t pid)
{
	struct proc *p = calloc(1, sizeof(*p));

	if (p)
		p->refs = malloc(sizeof(*p->refs));
	if (!p || !p->refs) {
		free(p);
		return NULL;
	}
	*p->refs = 1;
	p->pid = pid;
	p->added_ns = ft_mono_ns();
	HASH_ADD(hh, s->procs, pid, sizeof(p->pid), p);
	return p;
}

int ft_nccl_src_add(struct ft_nccl_src *s, uint32_t pid)
{
	struct proc *p = proc_find(s, pid);
	int err;

	if (!p)
		p = proc_new(s, pid);
	if (!p)
		return -ENOMEM;
	err = proc_scan(s, p);
	if (err == -ESRCH)
		ft_nccl_src_del(s, pid);
	return err;
}

/* --- counters --- */

static void name_of(void *ctx, uint32_t pid, char task[16])
{
	struct proc *p = proc_find(ctx, pid);

	if (p)
		ft_strcpy(task, p->task, 16);
}

static void stats_read(struct ft_nccl_src *s)
{
	if (s->stats)
		ft_nccl_stats_read(s->stats, ft_mono_ns(), name_of, s);
}

/* --- detaching --- */

struct detach {
	uint32_t n, cap;
	struct ft_uprobe_links *links;
};

static void detach_add(struct detach *d, struct ft_uprobe_links *links)
{
	if (!links->n)
		return;
	if (d->n == d->cap) {
		uint32_t cap = d->cap ? d->cap * 2 : 16;
		void *more = realloc(d->links, cap * sizeof(*d->links));

		if (!more) {
			ft_uprobe_detach(links);
			return;
		}
		d->links = more;
		d->cap = cap;
	}
	d->links[d->n++] = *links;
	*links = (struct ft_uprobe_links){};
}

static void detach_proc(struct detach *d, struct proc *p)
{
	for (uint32_t i = 0; i < p->nlibs; i++) {
		detach_add(d, &p->libs[i].enter);
		detach_add(d, &p->libs[i].ret);
	}
}

static void detach_free(void *arg)
{
	struct detach *d = arg;

	for (uint32_t i = 0; i < d->n; i++)
		ft_uprobe_detach(&d->links[i]);
	free(d->links);
	free(d);
}

static void *detach_thread(void *arg)
{
	detach_free(arg);
	return NULL;
}

/* Nobody waits for it: closing a link waits for a grace period of the kernel. */
static bool detach_start(struct detach *d, pthread_t *thread)
{
	if (!pthread_create(thread, NULL, detach_thread, d))
		return true;
	detach_free(d);
	return false;
}

void ft_nccl_src_del(struct ft_nccl_src *s, uint32_t pid)
{
	struct proc *p = proc_find(s, pid);
	struct detach *d = calloc(1, sizeof(*d));
	pthread_t thread;

	if (!p || !d) {
		free(d);
		return;
	}
	stats_read(s);
	if (s->stats)
		ft_nccl_stats_drop(s->stats, pid);
	detach_proc(d, p);
	HASH_DEL(s->procs, p);
	proc_free(p);
	if (!d->n)
		detach_free(d);
	else if (detach_start(d, &thread))
		pthread_detach(thread);
}

bool ft_nccl_src_has(struct ft_nccl_src *s, uint32_t pid)
{
	return proc_find(s, pid);
}

void ft_nccl_src_prune(struct ft_nccl_src *s)
{
	struct proc *p, *tmp;

	HASH_ITER(hh, s->procs, p, tmp)
		if (!ft_bpf_proc_has(s->bpf, p->pid))
			ft_nccl_src_del(s, p->pid);
}

/* All probes, shared out among a few threads so that their waits overlap. */
static void detach_all(struct ft_nccl_src *s)
{
	struct detach *d[DETACHERS] = {};
	pthread_t threads[DETACHERS];
	struct timespec until;
	struct proc *p, *tmp;
	uint32_t n = 0;

	HASH_ITER(hh, s->procs, p, tmp) {
		uint32_t i = n++ % DETACHERS;

		if (!d[i])
			d[i] = calloc(1, sizeof(*d[i]));
		if (d[i])
			detach_proc(d[i], p);
		HASH_DEL(s->procs, p);
		proc_free(p);
	}
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += DETACH_MS / 1000;
	for (uint32_t i = 0; i < DETACHERS; i++)
		if (d[i] && !detach_start(d[i], &threads[i]))
			d[i] = NULL;
	for (uint32_t i = 0; i < DETACHERS; i++)
		if (d[i] && pthread_timedjoin_np(threads[i], NULL, &until))
			pthread_detach(threads[i]);
}

/* --- mappings that come later --- */

/* Whether a process has NCCL that nobody asked about yet; it is not probed by this. */
static int tell_if_nccl(struct ft_nccl_src *s, struct ft_nccl_request *r, int timeout_ms)
{
	uint32_t pid = r->pid;
	int err = ft_worker_call(ft_nccl_request_run, ft_nccl_request_free, r, timeout_ms);
	bool has = !err && r->scan.nlibs;

	if (err != -ETIMEDOUT)
		ft_nccl_request_free(r);
	s->found += has;
	if (has && s->opts.found && !proc_find(s, pid))
		s->opts.found(s->opts.ctx, pid);
	return err;
}

static void on_mapped(void *ctx, uint32_t pid, const struct ft_map *m)
{
	struct ft_nccl_src *s = ctx;
	struct ft_map *copy;

	if ((!proc_find(s, pid) && !s->opts.all) || pid == (uint32_t)getpid() ||
	    ft_nccl_cache_skip(s->cache, m))
		return;
	copy = s->npending < PENDING_MAX ? malloc(sizeof(*copy)) : NULL;
	if (!copy) {
		s->rescan = true;
		return;
	}
	*copy = *m;
	s->pending[s->npending++] = (struct pending){ pid, copy };
}

static void on_lost(void *ctx, uint64_t records)
{
	struct ft_nccl_src *s = ctx;

	(void)records;
	s->rescan = true;
}

/* Moves what is pending for the process of the last entry into one request. */
static struct ft_nccl_request *take_pending(struct ft_nccl_src *s, struct proc **p)
{
	uint32_t pid = s->pending[s->npending - 1].pid, left = 0;
	struct ft_nccl_request *r;

	*p = proc_find(s, pid);
	r = request_new(s, pid, *p);
	if (r)
		r->maps = calloc(s->npending, sizeof(*r->maps));
	for (uint32_t i = 0; i < s->npending; i++) {
		struct pending *e = &s->pending[i];

		if (e->pid != pid)
			s->pending[left++] = *e;
		else if (r && r->maps)
			r->maps[r->nmaps++] = e->map;
		else
			free(e->map);
	}
	s->npending = left;
	if (r && !r->nmaps) {
		ft_nccl_request_free(r);
		r = NULL;
	}
	return r;
}

static void on_idle(void *ctx)
{
	struct ft_nccl_src *s = ctx;

	while (s->npending) {
		struct proc *p;
		struct ft_nccl_request *r = take_pending(s, &p);

		if (!r)
			s->rescan = true;
		else if (!p)
			tell_if_nccl(s, r, ANSWER_MS);
		else if (!resting(p, 1))
			request_do(s, p, r);
		else {
			p->due = true;
			ft_nccl_request_free(r);
		}
	}
}

int ft_nccl_src_find(struct ft_nccl_src *s)
{
	uint64_t until = s->opts.all ? UINT64_MAX : ft_mono_ns() + NOTE_NS;
	DIR *dir = opendir("/proc");
	struct dirent *e;
	int err = 0;

	if (!dir)
		return -errno;
	s->found = 0;
	while ((e = readdir(dir)) && (s->opts.all || s->found < NOTE_FOUND)) {
		struct ft_nccl_request *r;
		uint64_t pid, now = ft_mono_ns();

		if (now + NSEC_PER_MSEC > until) {
			err = -ETIMEDOUT;
			break;
		}

		if (ft_parse_u64(e->d_name, &pid) || (pid_t)pid == getpid() || proc_find(s, pid))
			continue;
		r = request_new(s, pid, NULL);
		if (r &&
		    tell_if_nccl(s, r, MIN((until - now) / NSEC_PER_MSEC, ANSWER_MS)) == -ETIMEDOUT)
			err = -ETIMEDOUT;
	}
	closedir(dir);
	return err;
}

/*
 * Looks through mappings again: where an answer is due, where events were lost, and, without
 * events, often while a process is young and seldom later.
 */
static void rescan(struct ft_nccl_src *s)
{
	uint64_t now = ft_mono_ns();
	bool all = s->rescan, seldom = !(s->tick % 16);
	struct proc *p, *tmp;

	s->rescan = false;
	if (s->opts.all && (all || (!s->mmap2 && seldom)))
		ft_nccl_src_find(s);
	HASH_ITER(hh, s->procs, p, tmp) {
		bool young = now < p->added_ns + RESCAN_YOUNG_NS;

		p->due |= all || p->retries || (!s->mmap2 && (young || seldom));
	}
	/* Those that do not answer rest for longer than a tick, so the others have their turn. */
	HASH_ITER(hh, s->procs, p, tmp) {
		if (ft_mono_ns() - now >= RESCAN_NS)
			break;
		if (p->due && proc_scan(s, p) == -ESRCH)
			ft_nccl_src_del(s, p->pid);
	}
}

void ft_nccl_src_tick(struct ft_nccl_src *s)
{
	s->tick++;
	rescan(s);
	stats_read(s);
}

/* --- the source --- */

/* The variant that is loaded; NULL: none, then *row is the one that says why. */
static int program_of(struct ft_nccl_src *s, const char *const names[2], struct ft_probe **row)
{
	for (int i = 0; i < 2; i++) {
		struct ft_probe *p = ft_bpf_probe(s->bpf, "nccl", names[i]);
		struct bpf_program *prog = ft_bpf_program(s->bpf, "nccl", names[i]);
		int fd = prog ? bpf_program__fd(prog) : -1;

		if (!p || p->state == FT_PROBE_UNNEEDED)
			continue;
		*row = p;
		if (fd < 0 || p->error)
			continue;
		p->state = FT_PROBE_UNNEEDED;
		ft_strcpy(p->reason, "no traced process has an NCCL library mapped",
			  sizeof(p->reason));
		return fd;
	}
	return -ENOENT;
}

static void mmap2_start(struct ft_nccl_src *s, struct ft_loop *loop)
{
	struct ft_mmap2_ops ops = {
		.mapped = on_mapped, .lost = on_lost, .idle = on_idle, .ctx = s
	};
	struct ft_probe *row = ft_bpf_probe(s->bpf, "", "mmap2");
	int err = ft_mmap2_new(&s->mmap2, loop, &ops);

	if (err)
		ft_info("new mappings: perf events: %s; looking through /proc instead",
			strerror(-err));
	if (!row)
		return;
	row->state = err ? FT_PROBE_OFF : FT_PROBE_ON;
	row->error = err;
	if (err)
		ft_fmt(row->reason, "perf_event_open: %s%s", strerror(-err),
		       err == -EACCES || err == -EPERM ? " (needs CAP_PERFMON)" : "");
}

int ft_nccl_src_new(struct ft_nccl_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_nccl_opts *opts)
{
	static const char *const enter[2] = { "nccl_enter_multi", "nccl_enter" };
	static const char *const ret[2] = { "nccl_return_multi", "nccl_return" };
	struct ft_nccl_src *s = calloc(1, sizeof(*s));
	int err, stats_fd;

	if (!s)
		return -ENOMEM;
	s->bpf = bpf;
	s->emit = emit;
	s->opts = *opts;
	s->enter_fd = program_of(s, enter, &s->enter.probe);
	s->ret_fd = program_of(s, ret, &s->ret.probe);
	s->ips_fd = ft_bpf_map_fd(bpf, "nccl", "nccl_ips");
	stats_fd = ft_bpf_map_fd(bpf, "nccl", "nccl_stats");
	err = ft_nccl_cache_new(&s->cache);
	if (!err && stats_fd >= 0)
		err = ft_nccl_stats_new(&s->stats, stats_fd,
					ft_bpf_map_fd(bpf, "nccl", "nccl_other"), emit);
	if (err) {
		ft_nccl_src_free(s);
		return err;
	}
	mmap2_start(s, loop);
	*out = s;
	return 0;
}

void ft_nccl_src_free(struct ft_nccl_src *s)
{
	if (!s)
		return;
	ft_mmap2_free(s->mmap2);
	for (uint32_t i = 0; i < s->npending; i++)
		free(s->pending[i].map);
	detach_all(s);
	ft_nccl_stats_free(s->stats);
	ft_nccl_cache_unref(s->cache);
	free(s);
}

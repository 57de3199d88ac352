// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Which processes run on which GPU: asked once, in a worker. */
#include <pthread.h>

#include "host/nvml.h"
#include "host/nvml_lib.h"
#include "host/pci.h"
#include "host/proc.h"

#define PIDS_MAX 65536
#define TRIES	 8 /* processes come while we ask */

/* Some releases of 535 wrote this much for each process: the room that the library gets. */
#define PROCESS_ROOM 32

/* --- asking, in the worker --- */
struct reader {
	int refs; /* the thread's and the caller's */
	char *library;
	struct nvml_lib lib;
	size_t known, done; /* GPUs counted; GPUs complete, the rest belongs to the thread */
	struct ft_nvml_gpu *v;
	int result;
};

static void gpus_free(struct ft_nvml_gpu *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i].pids);
	free(v);
}

static void reader_put(void *arg)
{
	struct reader *r = arg;

	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL))
		return;
	gpus_free(r->v, r->known);
	free(r->library);
	free(r);
}

static bool runs_on(const struct ft_nvml_gpu *g, uint32_t pid)
{
	for (size_t i = 0; i < g->npids; i++)
		if (g->pids[i] == pid)
			return true;
	return false;
}

static int pids_copy(struct ft_nvml_gpu *g, const struct nvml_process_info *v, size_t n)
{
	g->pids = n ? calloc(n, sizeof(*g->pids)) : NULL;
	if (n && !g->pids)
		return -ENOMEM;
	/* 0: not visible from here. MIG lists a process once for each instance. */
	for (size_t i = 0; i < n; i++)
		if (v[i].pid && !runs_on(g, v[i].pid))
			g->pids[g->npids++] = v[i].pid;
	return 0;
}

static int read_pids(struct reader *r, nvml_device_t dev, struct ft_nvml_gpu *g)
{
	size_t room = 64;

	for (int try = 0; try < TRIES && room <= PIDS_MAX; try++) {
		_cleanup_free_ void *v = calloc(room, PROCESS_ROOM);
		unsigned int n = room;
		int status;

		if (!v)
			return -ENOMEM;
		status = r->lib.processes(dev, &n, v);
		if (status == NVML_SUCCESS)
			return pids_copy(g, v, MIN(n, room));
		if (status != NVML_ERROR_INSUFFICIENT_SIZE)
			return nvml_error(status);
		room = MAX((size_t)n, room) * 2;
	}
	return -E2BIG;
}

static int read_gpu(struct reader *r, unsigned int nr, struct ft_nvml_gpu *g)
{
	struct nvml_pci_info pci = {};
	unsigned int minor;
	nvml_device_t dev;
	int status = r->lib.handle(nr, &dev);

	if (status == NVML_SUCCESS)
		status = r->lib.pci_info(dev, &pci);
	if (status != NVML_SUCCESS)
		return nvml_error(status);
	nvml_bdf(pci.bus_id, g->bdf);
	if (r->lib.minor && r->lib.minor(dev, &minor) == NVML_SUCCESS && minor < GPUS_MAX)
		g->minor = minor;
	if (r->lib.uuid && r->lib.uuid(dev, g->uuid, sizeof(g->uuid)) != NVML_SUCCESS)
		g->uuid[0] = 0;
	return read_pids(r, dev, g);
}

static int read_gpus(struct reader *r)
{
	unsigned int n = 0;
	int err = nvml_error(r->lib.count(&n));

	n = MIN(n, (unsigned int)GPUS_MAX);
	if (err || !n)
		return err;
	r->v = calloc(n, sizeof(*r->v));
	if (!r->v)
		return -ENOMEM;
	for (unsigned int i = 0; i < n; i++)
		r->v[i].minor = FT_NONE_S32;
	__atomic_store_n(&r->known, n, __ATOMIC_RELEASE);
	for (unsigned int i = 0; i < n; i++) {
		r->v[i].error = read_gpu(r, i, &r->v[i]);
		__atomic_store_n(&r->done, i + 1, __ATOMIC_RELEASE);
	}
	return 0;
}

static void *reader_thread(void *arg)
{
	struct reader *r = arg;

	r->result = nvml_open(r->library, &r->lib);
	if (!r->result)
		r->result = nvml_error(r->lib.init());
	if (!r->result) {
		r->result = read_gpus(r);
		r->lib.shutdown();
	}
	return NULL;
}

/* A library that we do not know gets a stack of usual size, more than a worker has. */
static int reader_run(void *arg)
{
	struct reader *r = arg;
	pthread_t thread;
	int err = pthread_create(&thread, NULL, reader_thread, r);

	if (err)
		r->result = -err;
	else
		pthread_join(thread, NULL);
	return 0; /* only the deadline gives -ETIMEDOUT, whatever NVML says */
}

/* --- the caller's side --- */
const struct ft_pci_dev *ft_nvml_pci(const struct ft_pci *pci, size_t nr)
{
	for (size_t i = 0; pci && i < pci->n; i++)
		if (pci->v[i].role == FT_PCI_GPU && pci->v[i].vendor == VENDOR_NVIDIA && !nr--)
			return &pci->v[i];
	return NULL;
}

bool ft_nvml_wanted(const char *root, const struct ft_pci *pci)
{
	return nvml_named() || (!root[0] && ft_nvml_pci(pci, 0));
}

static struct reader *reader_new(const char *library)
{
	struct reader *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->refs = 2;
	r->library = strdup(library);
	if (!r->library)
		r = (free(r), NULL);
	return r;
}

/* Takes over what the thread has finished; the other GPUs did not answer. */
static int take(struct reader *r, struct ft_nvml **out)
{
	size_t done = __atomic_load_n(&r->done, __ATOMIC_ACQUIRE);
	size_t n = __atomic_load_n(&r->known, __ATOMIC_ACQUIRE);
	struct ft_nvml *nv = calloc(1, sizeof(*nv));

	if (nv)
		nv->v = calloc(MAX(n, (size_t)1), sizeof(*nv->v));
	if (!nv || !nv->v) {
		free(nv);
		return -ENOMEM;
	}
	nv->n = n;
	for (size_t i = 0; i < n; i++) {
		nv->v[i] = (struct ft_nvml_gpu){ .minor = FT_NONE_S32, .error = -ETIMEDOUT };
		if (i >= done)
			continue;
		nv->v[i] = r->v[i];
		r->v[i].pids = NULL;
	}
	*out = nv;
	return 0;
}

int ft_nvml_read(const char *library, int timeout_ms, struct ft_nvml **out)
{
	const char *named = library ? library : nvml_named();
	struct reader *r = reader_new(named ? named : NVML_LIBRARY);
	bool late;
	int err;

	if (!r)
		return -ENOMEM;
	err = ft_worker_call(reader_run, reader_put, r, timeout_ms);
	late = err == -ETIMEDOUT;
	if (!err)
		err = r->result;
	if (!err || (late && __atomic_load_n(&r->known, __ATOMIC_ACQUIRE)))
		err = take(r, out);
	if (!late)
		reader_put(r); /* the thread's own reference */
	reader_put(r);
	return err;
}

void ft_nvml_free(struct ft_nvml *nv)
{
	if (!nv)
		return;
	gpus_free(nv->v, nv->n);
	free(nv);
}

size_t ft_nvml_gpus(const struct ft_nvml *nv, uint32_t pid, const struct ft_nvml_gpu **out,
		    size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < nv->n && n < max; i++)
		if (runs_on(&nv->v[i], pid))
			out[n++] = &nv->v[i];
	return n;
}

/* --- records --- */
static void emit_missing(const char *what, int err, uint64_t ts_ns, ft_sink_fn sink, void *ctx)
{
	struct ft_ev_inv_host *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_inv_host, ts_ns);
	e->error = err;
	ft_rec_str(&rec, &e->what, what);
	ft_rec_str(&rec, &e->reason, ft_nvml_reason(err));
	sink(ctx, &rec.h);
}

static void emit_proc(const struct ft_nvml_gpu *g, const struct ft_proc_stat *st, uint64_t ts_ns,
		      ft_sink_fn sink, void *ctx)
{
	struct ft_ev_inv_gpu_proc *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_inv_gpu_proc, ts_ns);
	e->h.pid = e->h.tid = st->pid;
	e->h.start_ns = st->start_ns;
	ft_strcpy(e->h.task, st->comm, sizeof(e->h.task));
	e->index = g->minor;
	ft_rec_str(&rec, &e->bdf, g->bdf);
	sink(ctx, &rec.h);
}

void ft_nvml_emit(const struct ft_nvml *nv, int err, const char *root, uint64_t ts_ns,
		  ft_sink_fn sink, void *ctx)
{
	struct ft_proc_stat st;
	char what[64];

	if (!nv && err)
		emit_missing("processes on the GPUs (NVML)", err, ts_ns, sink, ctx);
	for (size_t i = 0; nv && i < nv->n; i++) {
		const struct ft_nvml_gpu *g = &nv->v[i];

		if (g->bdf[0])
			ft_fmt(what, "processes on GPU %s (NVML)", g->bdf);
		else
			ft_fmt(what, "processes on GPU number %zu of NVML", i);
		if (g->error)
			emit_missing(what, g->error, ts_ns, sink, ctx);
		for (size_t k = 0; g->bdf[0] && k < g->npids; k++)
			if (!ft_proc_stat_read(root, g->pids[k], &st) && !st.kthread)
				emit_proc(g, &st, ts_ns, sink, ctx);
	}
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Loads each source's object on its own, attaches what this kernel takes, and notes for every row
 * of the probe table why it is not attached.
 */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#include "source/attach.h"
#include "source/core_btf.h"
#include "source/loader.h"
#include "source/storm.h"
#include "source/uprobe.h"

#define MAX_SHARED 16
#define DRAIN_MAX  8192 /* records in a row, then signals and timers have their turn */

/* The objects travel inside the program. */
#define OBJECT(name) extern const char _binary_##name##_bpf_o_start[], _binary_##name##_bpf_o_end[];
#define OBJECTS	     OBJECT(proc) OBJECT(tcp) OBJECT(net) OBJECT(pcie) OBJECT(nccl)
OBJECTS
#undef OBJECT

struct object {
	const char *name, *start, *end;
	struct bpf_object *obj;
};

struct shared_map {
	char name[16];
	int fd;
};

struct ft_bpf {
	struct ft_bpf_opts opts;
	struct ft_cfg cfg;
	struct ft_loop *loop;
	const struct ft_emit *emit;
	struct ft_kernel *kernel;
	struct ft_probe *probes;
	size_t nprobes, nlinks;
	struct bpf_link **links; /* by row */
	uint64_t *misses;	 /* by row */
	int *handlers;		 /* by row, of libbpf; 0: none */
	char core_path[32];	 /* what the objects are relocated against */
	bool maps_allocate;	 /* hash maps may take elements as they need them: 6.1+ */
	int core_fd;
	pthread_mutex_t lock; /* of shared: objects are loaded side by side */
	sem_t shared_made;
	bool no_kernel; /* its BTF could not be read: nothing to load */
	struct shared_map shared[MAX_SHARED];
	size_t nshared;
	int look_timer;
	uint64_t look_ns; /* 0: no look is due before the next tick */
	struct ring_buffer *ring;
	unsigned int drained; /* records of this turn */
	struct ft_storm *storm;
	struct object objects[5];
};

#define NCCL 4 /* the last object */

/* --- libbpf's messages: the last ones explain a failure --- */

/* Of the object that this thread loads. */
static _Thread_local char log_prog[64];

static int log_line(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[1024];
	const char *p, *q;

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	p = strstr(line, "prog '");
	q = p ? strchr(p + 6, '\'') : NULL;
	/* The name of the program that failed comes only in this text, libbpf 1.1. */
	if (q && (strstr(line, "load failed") || strstr(line, "failed to load")))
		ft_fmt(log_prog, "%.*s", (int)(q - p - 6), p + 6);
	ft_info("libbpf: %.*s", (int)strcspn(line, "\n"), line);
	return 0;
}

static void probe_off(struct ft_probe *p, int err, const char *reason)
{
	p->state = FT_PROBE_OFF;
	p->error = err;
	ft_strcpy(p->reason, reason, sizeof(p->reason));
}

static const char *load_reason(int err)
{
	static _Thread_local char text[128];

	if (err == -EPERM)
		return "not permitted: needs CAP_BPF and CAP_PERFMON, or the kernel is locked down";
	if (err == -EACCES || err == -E2BIG || err == -EINVAL || err == -ENOTSUP)
		ft_fmt(text, "the kernel's verifier refused it (%s); -v shows its log",
		       strerror(-err));
	else
		ft_fmt(text, "load failed: %s", strerror(-err));
	return text;
}

/* --- objects --- */

static int share_maps_locked(struct ft_bpf *b, struct bpf_object *obj, bool loaded)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, obj) {
		const char *name = bpf_map__name(map);
		struct shared_map *s = NULL;

		if (strncmp(name, "ft_", 3) != 0)
			continue;
		for (size_t i = 0; i < b->nshared; i++)
			if (!strcmp(b->shared[i].name, name))
				s = &b->shared[i];
		if (!loaded && s) {
			int err = bpf_map__reuse_fd(map, s->fd);

			if (err)
				return err;
		} else if (loaded && !s && b->nshared < MAX_SHARED) {
			s = &b->shared[b->nshared++];
			ft_strcpy(s->name, name, sizeof(s->name));
			s->fd = bpf_map__fd(map);
		}
	}
	return 0;
}

static int share_maps(struct ft_bpf *b, struct bpf_object *obj, bool loaded)
{
	int err;

	pthread_mutex_lock(&b->lock);
	err = share_maps_locked(b, obj, loaded);
	pthread_mutex_unlock(&b->lock);
	return err;
}

static int shared_fd(struct ft_bpf *b, const char *name)
{
	for (size_t i = 0; i < b->nshared; i++)
		if (!strcmp(b->shared[i].name, name))
			return b->shared[i].fd;
	return -ENOENT;
}

/*
 * Before 6.1 hash maps took elements from the general allocator, which programs of probes should not:
 * the kernel warned in its log, with a trace of the stack.
 */
static void maps_preallocate(struct bpf_object *obj)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, obj)
		if (bpf_map__type(map) == BPF_MAP_TYPE_HASH)
			bpf_map__set_map_flags(map, bpf_map__map_flags(map) & ~BPF_F_NO_PREALLOC);
}

static int object_prepare(struct ft_bpf *b, struct object *o)
{
	DECLARE_LIBBPF_OPTS(bpf_object_open_opts, opts,
			    .btf_custom_path = b->core_path[0] ? b->core_path : NULL);
	struct bpf_map *map;
	int err;

	o->obj = bpf_object__open_mem(o->start, o->end - o->start, &opts);
	if (!o->obj)
		return -errno;
	map = bpf_object__find_map_by_name(o->obj, ".rodata.cfg");
	err = map ? bpf_map__set_initial_value(map, &b->cfg, sizeof(b->cfg)) : -EBADMSG;
	if (err)
		return err;
	if (!b->maps_allocate)
		maps_preallocate(o->obj);
	map = bpf_object__find_map_by_name(o->obj, "ft_ring");
	if (map && b->opts.ring_bytes)
		bpf_map__set_max_entries(map, b->opts.ring_bytes);
	for (size_t i = 0; i < b->nprobes; i++) {
		struct ft_probe *p = &b->probes[i];
		struct bpf_program *prog;

		if (strcmp(p->object, o->name) != 0)
			continue;
		prog = bpf_object__find_program_by_name(o->obj, p->program);
		if (!prog)
			continue;
		bpf_program__set_autoload(prog, !p->error && p->state != FT_PROBE_UNNEEDED);
		if (ft_uprobe_row_multi(p))
			bpf_program__set_expected_attach_type(prog, FT_BPF_TRACE_UPROBE_MULTI);
	}
	return share_maps(b, o->obj, false);
}

static void object_drop(struct object *o)
{
	bpf_object__close(o->obj);
	o->obj = NULL;
}

/* A lockdown refuses all of a kind: each try would load the whole object again. */
static void program_refused(struct ft_bpf *b, struct ft_probe *p, int err)
{
	for (size_t i = 0; i < b->nprobes && err == -EPERM; i++) {
		struct ft_probe *other = &b->probes[i];

		if (other != p && !other->error && other->state != FT_PROBE_UNNEEDED &&
		    !strcmp(other->object, p->object) && ft_attach_same_kind(other, p))
			probe_off(other, err, load_reason(err));
	}
	probe_off(p, err, load_reason(err));
}

/* Loads; a program that the kernel refuses is left out and the rest is tried again. */
static int object_load(struct ft_bpf *b, struct object *o)
{
	for (;;) {
		struct ft_probe *p;
		int err = object_prepare(b, o);

		log_prog[0] = 0;
		if (!err)
			err = bpf_object__load(o->obj);
		if (!err)
			return share_maps(b, o->obj, true);
		object_drop(o);
		p = log_prog[0] ? ft_bpf_probe(b, o->name, log_prog) : NULL;
		if (!p || p->error || p->required) {
			for (size_t i = 0; i < b->nprobes; i++)
				if (!strcmp(b->probes[i].object, o->name) && !b->probes[i].error)
					probe_off(&b->probes[i], err, load_reason(err));
			return err;
		}
		program_refused(b, p, err);
	}
}

/* A variant is taken where the better one is not to be had, which then hides nothing any more. */
static bool variant_wanted(struct ft_bpf *b, struct ft_probe *p)
{
	struct ft_probe *better = ft_attach_better(b->probes, b->nprobes, p);

	if (p->state == FT_PROBE_UNNEEDED)
		return false;
	if (!better)
		return true;
	if (better->state == FT_PROBE_OFF) {
		better->hides = "";
		return true;
	}
	p->state = FT_PROBE_UNNEEDED;
	p->error = 0;
	ft_fmt(p->reason, "%s is used", better->program);
	return false;
}

static void probe_attach(struct ft_bpf *b, size_t i)
{
	struct ft_probe *p = &b->probes[i];
	const struct bpf_program *prog = ft_bpf_program(b, p->object, p->program);

	if (!variant_wanted(b, p) || p->error || !prog || ft_uprobe_row(p))
		return;
	b->links[i] = ft_attach(p, prog, p->map ? shared_fd(b, p->map) : -ENOENT);
}

/* A variable in a section of its own is a map of one value. */
static int variable_set(struct ft_bpf *b, const char *object, const char *section, uint32_t value)
{
	int fd = ft_bpf_map_fd(b, object, section);
	uint32_t zero = 0;

	return fd < 0 ? fd : bpf_map_update_elem(fd, &zero, &value, BPF_ANY);
}

/* --- looks at sockets --- */

static int iter_run(struct ft_bpf *b, const char *program)
{
	struct ft_probe *p = ft_bpf_probe(b, "tcp", program);
	_cleanup_close_ int fd = -1;
	char buf[64];
	ssize_t n;

	if (!p || p->state != FT_PROBE_ON)
		return -ENOENT;
	fd = bpf_iter_create(bpf_link__fd(b->links[p - b->probes]));
	if (fd < 0)
		return -errno;
	do {
		n = read(fd, buf, sizeof(buf));
	} while (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)));
	return n < 0 ? -errno : 0;
}

/* The probe table says why there is no such look. */
static void look_at_sockets(void *ctx)
{
	struct ft_bpf *b = ctx;

	b->look_ns = 0;
	iter_run(b, "sock_look");
}

/* The receiver tells within a round trip whether what was sent again had been lost. */
static void look_soon(struct ft_bpf *b)
{
	if (b->look_ns)
		return;
	b->look_ns = ft_mono_ns() + FT_LOOK_NS;
	ft_loop_timer_set(b->look_timer, b->look_ns);
}

/* --- records from the ring --- */

static void emit_raw(void *ctx, const void *rec, size_t len)
{
	struct ft_bpf *b = ctx;
	const struct ft_hdr *h = rec;

	if (h->kind == FT_KIND_tcp_retransmit)
		look_soon(b);
	ft_kernel_texts(b->kernel, rec, len, b->emit);
}

static int ring_record(void *ctx, void *data, size_t len)
{
	struct ft_bpf *b = ctx;

	emit_raw(b, data, len);
	/* Consumed, too: libbpf goes on behind this record. */
	return ++b->drained < DRAIN_MAX ? 0 : -EAGAIN;
}

static bool drain(struct ft_bpf *b)
{
	b->drained = 0;
	return b->ring && ring_buffer__consume(b->ring) == -EAGAIN;
}

void ft_bpf_drain(struct ft_bpf *b)
{
	drain(b);
}

void ft_bpf_stop(struct ft_bpf *b)
{
	look_at_sockets(b);
	for (size_t i = 0; i < ARRAY_SIZE(b->objects); i++)
		variable_set(b, b->objects[i].name, ".data.ready", 0);
	while (drain(b))
		;
}

static void ring_ready(void *ctx)
{
	ft_bpf_drain(ctx);
}

static int ring_open(struct ft_bpf *b, int load_err)
{
	int fd = shared_fd(b, "ft_ring"), err;

	/* No object could be loaded. -ENOTSUP would mean that there is no BTF. */
	if (fd < 0)
		return load_err == -ENOTSUP ? -EINVAL : load_err ?: -EPERM;
	b->ring = ring_buffer__new(fd, ring_record, b, NULL);
	if (!b->ring)
		return -errno;
	b->look_timer = ft_loop_timer(b->loop, look_at_sockets, b);
	if (b->look_timer < 0)
		return b->look_timer;
	err = ft_loop_add(b->loop, ring_buffer__epoll_fd(b->ring), ring_ready, b);
	if (!err && b->opts.collectives)
		err = ft_loop_every(b->loop, FT_DRAIN_MS, ring_ready, b);
	return err;
}

/* --- the whole --- */

static int core_names(struct ft_bpf *b, struct ft_core_names **names)
{
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(b->objects) && !err; i++) {
		struct object *o = &b->objects[i];
		struct bpf_object *obj = bpf_object__open_mem(o->start, o->end - o->start, NULL);

		err = obj ? ft_core_names_add(names, bpf_object__btf(obj)) : -errno;
		bpf_object__close(obj);
	}
	return err;
}

/* Leaves the types that the objects name where libbpf reads them; without, it takes all. */
static void core_write(struct ft_bpf *b, const struct btf *btf)
{
	struct ft_core_names *names = NULL;
	struct btf *few = NULL;
	const void *data = NULL;
	uint32_t size = 0;

	if (!core_names(b, &names) && !ft_core_btf_new(&few, btf, names))
		data = btf__raw_data(few, &size);
	if (data)
		b->core_fd = memfd_create("fabrictrace BTF", MFD_CLOEXEC);
	if (b->core_fd >= 0 && write(b->core_fd, data, size) == (ssize_t)size)
		ft_fmt(b->core_path, "/proc/self/fd/%d", b->core_fd);
	btf__free(few);
	ft_core_names_free(names);
}

/* What this kernel's BTF tells; it is large and not kept. */
static int kernel_read(struct ft_bpf *b)
{
	struct btf *btf = ft_core_btf_kernel();
	int err;

	if (!btf)
		return -ENOTSUP;
	err = ft_kernel_new(&b->kernel, btf);
	if (!err) {
		ft_features(btf, &b->cfg);
		b->maps_allocate = btf__find_by_name_kind(btf, "bpf_mem_alloc", BTF_KIND_STRUCT) >
				   0;
		b->cfg.all_procs = b->opts.all_procs;
		b->cfg.follow = !b->opts.no_follow;
		b->cfg.collectives = b->opts.collectives;
		core_write(b, btf);
		b->handlers = ft_attach_resolve(b->probes, b->nprobes, btf);
	}
	btf__free(btf);
	return err;
}

/*
 * Beside the other objects: the trials of uprobes wait for the kernel most of the time, and the
 * verifier takes as long for this object as for half of the others.
 */
static void *load_nccl(void *ctx)
{
	struct ft_bpf *b = ctx;

	ft_uprobe_resolve(b->probes, b->nprobes);
	TEMP_FAILURE_RETRY(sem_wait(&b->shared_made));
	if (!b->no_kernel)
		object_load(b, &b->objects[NCCL]);
	return NULL;
}

/* The first object that loads makes the maps that all share. */
static int load_others(struct ft_bpf *b)
{
	int load_err = 0;
	size_t i = 0;

	while (!b->nshared && i < NCCL)
		load_err = object_load(b, &b->objects[i++]) ?: load_err;
	sem_post(&b->shared_made);
	while (i < NCCL)
		load_err = object_load(b, &b->objects[i++]) ?: load_err;
	return load_err;
}

static int bpf_load_all(struct ft_bpf *b)
{
	pthread_t thread;
	bool beside = !pthread_create(&thread, NULL, load_nccl, b);
	int load_err = 0, err = kernel_read(b);

	b->no_kernel = err;
	if (err)
		sem_post(&b->shared_made);
	else
		load_err = load_others(b);
	if (beside)
		pthread_join(thread, NULL);
	else
		load_nccl(b);
	ft_uprobe_trials_end();
	ft_attach_resolved_free(b->handlers, b->nprobes);
	b->handlers = NULL;
	if (err)
		return err;
	b->links = calloc(b->nprobes, sizeof(*b->links));
	b->misses = calloc(b->nprobes, sizeof(*b->misses));
	if (!b->links || !b->misses)
		return -ENOMEM;
	return ring_open(b, load_err);
}

static void bpf_attach_all(struct ft_bpf *b)
{
	for (size_t i = 0; i < b->nprobes; i++)
		probe_attach(b, i);
}

int ft_bpf_open(struct ft_bpf **out, const struct ft_bpf_opts *opts, struct ft_loop *loop,
		const struct ft_emit *emit)
{
	struct ft_bpf *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	*b = (struct ft_bpf){
		.opts = *opts,
		.loop = loop,
		.emit = emit,
		.core_fd = -1,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	sem_init(&b->shared_made, 0, 0);
	libbpf_set_print(log_line);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
#define OBJECT(n) { #n, _binary_##n##_bpf_o_start, _binary_##n##_bpf_o_end, NULL },
	memcpy(b->objects, (struct object[]){ OBJECTS }, sizeof(b->objects));
#undef OBJECT
	b->probes = ft_probe_table(&b->nprobes);
	err = b->probes ? bpf_load_all(b) : -ENOMEM;
	if (!err)
		err = ft_storm_new(&b->storm, shared_fd(b, "ft_agg"), shared_fd(b, "ft_counts"));
	if (err) {
		ft_bpf_free(b);
		return err;
	}
	bpf_attach_all(b);
	*out = b;
	return 0;
}

void ft_bpf_detach(struct ft_bpf *b)
{
	for (size_t i = 0; b->links && i < b->nprobes; i++) {
		bpf_link__destroy(b->links[i]);
		b->links[i] = NULL;
	}
}

void ft_bpf_free(struct ft_bpf *b)
{
	if (!b)
		return;
	ft_bpf_detach(b);
	free(b->links);
	free(b->misses);
	if (b->ring)
		ft_loop_del(b->loop, ring_buffer__epoll_fd(b->ring));
	ring_buffer__free(b->ring);
	ft_storm_free(b->storm);
	for (size_t i = 0; i < ARRAY_SIZE(b->objects); i++)
		object_drop(&b->objects[i]);
	ft_closep(&b->core_fd);
	ft_kernel_free(b->kernel);
	free(b->probes);
	free(b);
}

static uint32_t variable_get(struct ft_bpf *b, const char *object, const char *section)
{
	int fd = ft_bpf_map_fd(b, object, section);
	uint32_t zero = 0, value = 0;

	if (fd >= 0)
		bpf_map_lookup_elem(fd, &zero, &value);
	return value;
}

void ft_bpf_ready(struct ft_bpf *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->objects); i++)
		variable_set(b, b->objects[i].name, ".data.ready", 1);
}

/*
 * A program that is running on a CPU is not entered there again: the kernel counts what it skips.
 * Retransmissions are differences of the socket's own count: a later run has what one missed.
 */
static void read_misses(struct ft_bpf *b)
{
	for (size_t i = 0; i < b->nprobes; i++) {
		const struct ft_probe *p = &b->probes[i];
		struct bpf_program *prog = ft_bpf_program(b, p->object, p->program);
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);

		if (p->state != FT_PROBE_ON || p->heals || !prog ||
		    bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len))
			continue;
		/* A socket may have no owner now: as for those that were open before. */
		if (info.recursion_misses != b->misses[i] && !strcmp(p->what, "tcp.state"))
			variable_set(b, p->object, ".data.unconfirmed", 1);
		ft_lost_emit(p->what, &b->misses[i], info.recursion_misses,
			     "at most: the program was running on that CPU already", b->emit);
	}
}

void ft_bpf_tick(struct ft_bpf *b)
{
	struct ft_emit emit = { emit_raw, b };

	if (variable_get(b, "tcp", ".data.unconfirmed")) {
		variable_set(b, "tcp", ".data.unconfirmed", 0);
		ft_bpf_seed_sockets(b);
	}
	look_at_sockets(b);
	ft_storm_read(b->storm, &emit);
	read_misses(b);
}

void ft_bpf_ordinary(struct ft_bpf *b)
{
	struct ft_probe *p = ft_bpf_probe(b, "net", "net_drop");

	if (p && p->state == FT_PROBE_ON)
		ft_storm_ordinary(b->storm, b->emit);
}

int ft_bpf_proc_add(struct ft_bpf *b, uint32_t pid, uint64_t start_ns)
{
	struct ft_proc p = { .start_ns = start_ns };

	return bpf_map_update_elem(shared_fd(b, "ft_procs"), &pid, &p, BPF_ANY);
}

bool ft_bpf_proc_has(struct ft_bpf *b, uint32_t pid)
{
	struct ft_proc p;

	return !bpf_map_lookup_elem(shared_fd(b, "ft_procs"), &pid, &p);
}

void ft_bpf_proc_del(struct ft_bpf *b, uint32_t pid)
{
	bpf_map_delete_elem(shared_fd(b, "ft_procs"), &pid);
}

bool ft_bpf_proc_next(struct ft_bpf *b, uint32_t *pid)
{
	return !bpf_map_get_next_key(shared_fd(b, "ft_procs"), *pid ? pid : NULL, pid);
}

int ft_bpf_netns_add(struct ft_bpf *b, uint32_t netns)
{
	uint8_t one = 1;

	return bpf_map_update_elem(shared_fd(b, "ft_netns"), &netns, &one, BPF_ANY);
}

bool ft_bpf_netns_has(struct ft_bpf *b, uint32_t netns)
{
	uint8_t one;

	return !bpf_map_lookup_elem(shared_fd(b, "ft_netns"), &netns, &one);
}

int ft_bpf_seed_sockets(struct ft_bpf *b)
{
	return iter_run(b, "sock_iter");
}

struct bpf_program *ft_bpf_program(struct ft_bpf *b, const char *object, const char *program)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->objects); i++)
		if (b->objects[i].obj && !strcmp(b->objects[i].name, object))
			return bpf_object__find_program_by_name(b->objects[i].obj, program);
	return NULL;
}

int ft_bpf_map_fd(struct ft_bpf *b, const char *object, const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->objects); i++)
		if (b->objects[i].obj && !strcmp(b->objects[i].name, object))
			return bpf_object__find_map_fd_by_name(b->objects[i].obj, name);
	return -ENOENT;
}

struct ft_probe *ft_bpf_probes(struct ft_bpf *b, size_t *n)
{
	*n = b->nprobes;
	return b->probes;
}

struct ft_probe *ft_bpf_probe(struct ft_bpf *b, const char *object, const char *program)
{
	for (size_t i = 0; i < b->nprobes; i++)
		if (!strcmp(b->probes[i].object, object) && !strcmp(b->probes[i].program, program))
			return &b->probes[i];
	return NULL;
}

bool ft_bpf_sockets(struct ft_bpf *b)
{
	int fd = shared_fd(b, "ft_tuples");
	struct ft_tuple t, *prev = NULL;

	/* Listeners and UDP sockets send nothing by themselves. */
	for (int i = 0; i < 4096 && !bpf_map_get_next_key(fd, prev, &t); i++, prev = &t)
		if (t.rport)
			return true;
	return false;
}

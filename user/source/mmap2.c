// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * PERF_RECORD_MMAP2 of a software event that counts nothing, on each CPU: the kernel tells of every
 * file mapped executable, in any process, as it happens. A library that is loaded later, or by a
 * process that starts later, is found so without looking through /proc again and again.
 */
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>

#include "source/mmap2.h"

#define RING_BYTES 65536u
#define RECORD_MAX 65536u /* header.size has 16 bits */

struct cpu {
	struct ft_mmap2 *owner;
	int fd;
	struct perf_event_mmap_page *page;
};

struct ft_mmap2 {
	struct ft_loop *loop;
	struct ft_mmap2_ops ops;
	size_t page_size;
	struct ft_map map; /* of the record being handed on */
	union {
		struct perf_event_header header;
		char bytes[RECORD_MAX];
	} record;
	unsigned int ncpus;
	struct cpu cpus[];
};

/* uapi/linux/perf_event.h, PERF_RECORD_MMAP2 without build id */
struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t major, minor;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	char filename[];
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

static void handle_mmap2(struct ft_mmap2 *m, const struct mmap2_record *r)
{
	size_t len = r->header.size - sizeof(*r);

	if (r->header.size <= sizeof(*r) || !(r->prot & PROT_EXEC) || !r->ino ||
	    r->filename[0] != '/')
		return;
	m->map.start = r->addr;
	m->map.end = r->addr + r->len;
	m->map.pgoff = r->pgoff;
	m->map.ino = r->ino;
	m->map.major = r->major;
	m->map.minor = r->minor;
	m->map.exec = true;
	m->map.deleted = false;
	len = MIN(strnlen(r->filename, len), sizeof(m->map.path) - 1);
	memcpy(m->map.path, r->filename, len);
	m->map.path[len] = 0;
	m->ops.mapped(m->ops.ctx, r->pid, &m->map);
}

static void handle_record(struct ft_mmap2 *m)
{
	const struct perf_event_header *h = &m->record.header;

	if (h->type == PERF_RECORD_MMAP2)
		handle_mmap2(m, (const void *)h);
	else if (h->type == PERF_RECORD_LOST && h->size >= sizeof(struct lost_record))
		m->ops.lost(m->ops.ctx, ((const struct lost_record *)h)->lost);
}

/* Bytes [pos, pos + len) of the ring, which wraps. */
static void ring_copy(struct cpu *c, uint64_t pos, void *to, size_t len)
{
	const char *data = (const char *)c->page + c->owner->page_size;
	size_t at = pos % RING_BYTES, first = MIN(len, RING_BYTES - at);

	memcpy(to, data + at, first);
	memcpy((char *)to + first, data, len - first);
}

static void drain(void *ctx)
{
	struct cpu *c = ctx;
	struct ft_mmap2 *m = c->owner;
	uint64_t head = __atomic_load_n(&c->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = c->page->data_tail;

	while (head - tail >= sizeof(m->record.header)) {
		ring_copy(c, tail, &m->record.header, sizeof(m->record.header));
		if (m->record.header.size < sizeof(m->record.header) ||
		    m->record.header.size > head - tail) {
			tail = head;
			m->ops.lost(m->ops.ctx, 1);
			break;
		}
		ring_copy(c, tail, m->record.bytes, m->record.header.size);
		tail += m->record.header.size;
		__atomic_store_n(&c->page->data_tail, tail, __ATOMIC_RELEASE);
		handle_record(m);
	}
	__atomic_store_n(&c->page->data_tail, tail, __ATOMIC_RELEASE);
	m->ops.idle(m->ops.ctx);
}

static int cpu_open(struct ft_mmap2 *m, int nr)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* executable mappings; mmap_data would be the others */
		.mmap2 = 1,
		/* wakeup_events counts samples only; a mapping should wake at once */
		.watermark = 1,
		.wakeup_watermark = 1,
		.disabled = 1,
	};
	struct cpu *c = &m->cpus[m->ncpus];
	void *page;
	int err;

	c->fd = syscall(SYS_perf_event_open, &attr, -1, nr, -1, PERF_FLAG_FD_CLOEXEC);
	if (c->fd < 0)
		return errno == ENODEV ? 0 : -errno; /* offline */
	page = mmap(NULL, m->page_size + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, c->fd, 0);
	if (page == MAP_FAILED) {
		err = -errno;
		close(c->fd);
		return err;
	}
	c->page = page;
	c->owner = m;
	m->ncpus++;
	err = ft_loop_add(m->loop, c->fd, drain, c);
	if (!err && ioctl(c->fd, PERF_EVENT_IOC_ENABLE, 0))
		err = -errno;
	return err;
}

int ft_mmap2_new(struct ft_mmap2 **out, struct ft_loop *loop, const struct ft_mmap2_ops *ops)
{
	int n = get_nprocs_conf(), err = 0;
	struct ft_mmap2 *m = calloc(1, sizeof(*m) + n * sizeof(m->cpus[0]));

	if (!m)
		return -ENOMEM;
	m->loop = loop;
	m->ops = *ops;
	m->page_size = sysconf(_SC_PAGESIZE);
	for (int i = 0; i < n && !err; i++)
		err = cpu_open(m, i);
	if (!err && !m->ncpus)
		err = -ENODEV;
	if (err) {
		ft_mmap2_free(m);
		return err;
	}
	*out = m;
	return 0;
}

void ft_mmap2_free(struct ft_mmap2 *m)
{
	if (!m)
		return;
	for (unsigned int i = 0; i < m->ncpus; i++) {
		ft_loop_del(m->loop, m->cpus[i].fd);
		munmap(m->cpus[i].page, m->page_size + RING_BYTES);
		close(m->cpus[i].fd);
	}
	free(m);
}

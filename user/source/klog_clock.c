// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The clock of the kernel log against CLOCK_MONOTONIC. The log has local_clock(), which no system
 * call reads; but perf stamps its records with it (5.10 to 7.3), and renaming a thread makes one.
 */
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "source/klog.h"

#define TRIES 3 /* the narrowest counts: between the two readings another thread may run */

struct ring {
	int fd;
	size_t page;
	struct perf_event_mmap_page *map;
};

static int ring_open(struct ring *r)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.comm = 1,
		.exclude_kernel = 1,
	};
	int err;

	r->page = sysconf(_SC_PAGESIZE);
	r->fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (r->fd < 0)
		return -errno;
	r->map = mmap(NULL, 2 * r->page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
	if (r->map != MAP_FAILED)
		return 0;
	err = -errno;
	close(r->fd);
	return err;
}

static void ring_close(struct ring *r)
{
	munmap(r->map, 2 * r->page);
	close(r->fd);
}

/* Stamp of the last record, which ends with it. */
static int stamp(struct ring *r, uint64_t *ns)
{
	uint64_t head = __atomic_load_n(&r->map->data_head, __ATOMIC_ACQUIRE);

	if (head < sizeof(*ns) || head > r->page)
		return -ENODATA;
	memcpy(ns, (const char *)r->map + r->page + head - sizeof(*ns), sizeof(*ns));
	return 0;
}

int klog_clock_read(struct klog_clock *out)
{
	struct klog_clock c = {};
	uint64_t width = UINT64_MAX;
	struct ring r;
	char name[16];
	int err = ring_open(&r);

	if (err)
		return err;
	prctl(PR_GET_NAME, name);
	for (int i = 0; i < TRIES && !err; i++) {
		uint64_t from = ft_mono_ns(), to, log_ns;

		prctl(PR_SET_NAME, name);
		to = ft_mono_ns();
		err = stamp(&r, &log_ns);
		if (err || to - from >= width)
			continue;
		width = to - from;
		c = (struct klog_clock){ .log_ns = log_ns, .mono_ns = from + width / 2 };
	}
	ring_close(&r);
	if (!err && !c.log_ns)
		err = -ENODATA;
	if (!err)
		*out = c;
	return err;
}

uint64_t klog_clock_mono(const struct klog_clock *c, uint64_t usec)
{
	uint64_t ns = usec > UINT64_MAX / 1000 ? UINT64_MAX : usec * 1000;

	if (!c->log_ns)
		return ns;
	return (unsigned __int128)ns * c->mono_ns / c->log_ns;
}

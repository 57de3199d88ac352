// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The kernel log, from its beginning: what the drivers say of GPUs, NICs and the links to them, and
 * what befell these before the attach. Each read() of /dev/kmsg gives one line and never blocks.
 */
#include <fcntl.h>
#include <limits.h>

#include "source/klog.h"
#include "source/source.h"

#define LINES_MAX   1000000 /* at the start: more than any log has, unless it grows all the while */
#define TAKE_MAX    256	    /* lines in a row, then others have their turn */
#define SINGLE_MAX  8	    /* records of one device and kind in a second, the rest is counted */
#define HELD_MAX    64	    /* different ones that are counted in a second */
#define USEC	    1000000
#define CLOCK_EVERY (60 * NSEC_PER_SEC) /* the log's clock drifts */

static const uint16_t kinds[] = { FT_KIND_pcie_aer, FT_KIND_pcie_hotplug, FT_KIND_pcie_recovery,
				  FT_KIND_gpu_xid, FT_KIND_dev_log };
#define NKINDS ARRAY_SIZE(kinds)

struct rate {
	uint64_t second; /* of the log's clock */
	unsigned int n;
};

struct dev {
	char bdf[16], below[16]; /* below: a device below this port, "" none */
	bool wanted;
	uint8_t aer_class; /* of the line before the one with the status */
	struct rate rate[NKINDS];
};

/* Lines that say the same, of one second. */
struct held {
	struct ft_klog_fact fact;
	uint64_t first_usec, last_usec;
	uint32_t n;
};

struct ft_klog_src {
	struct ft_loop *loop;
	struct ft_emit emit;
	struct ft_bpf *bpf;
	struct ft_probe *row; /* may be NULL */
	int fd, timer;	      /* -1: not open */
	bool following;	      /* what comes now is from after the attach */
	bool began;
	struct klog_clock clock;
	uint64_t clock_at_ns; /* when it was read, 0 never */
	uint64_t next_seq;
	uint64_t second; /* of the held ones, by the log's clock */
	size_t nheld;
	struct held held[HELD_MAX];
	uint64_t dropped[NKINDS], dropped_total[NKINDS], lines_lost;
	size_t ndevs;
	struct dev unknown; /* all that are not in the tree (any more) */
	struct dev *devs;   /* sorted by address */
};

/* --- time --- */
/* CLOCK_MONOTONIC of a line, never in the future. */
static uint64_t line_ns(struct ft_klog_src *s, uint64_t usec)
{
	uint64_t now = ft_mono_ns();

	if (!s->clock_at_ns || now - s->clock_at_ns > CLOCK_EVERY) {
		(void)klog_clock_read(&s->clock); /* else as it was, or unadjusted */
		s->clock_at_ns = now;
	}
	return MIN(klog_clock_mono(&s->clock, usec), now);
}

/* --- devices --- */
static int by_bdf(const void *key, const void *dev)
{
	return strcmp(key, ((const struct dev *)dev)->bdf);
}

static struct dev *dev_find(struct ft_klog_src *s, const char *bdf)
{
	return bsearch(bdf, s->devs, s->ndevs, sizeof(*s->devs), by_bdf);
}

/* Whom the line is about; NULL: no device of interest. */
static struct dev *dev_of(struct ft_klog_src *s, const struct ft_klog_fact *f)
{
	struct dev *d = dev_find(s, f->bdf);

	if (d)
		return d->wanted ? d : NULL;
	return f->of == FT_KLOG_OF_KNOWN ? &s->unknown : NULL;
}

static int cmp_dev(const void *a, const void *b)
{
	return strcmp(((const struct dev *)a)->bdf, ((const struct dev *)b)->bdf);
}

/*
 * GPUs, NICs and the ports above them; also a port with nothing below it: that may be what its log
 * lines are about.
 */
static int devs_take(struct ft_klog_src *s, const struct ft_pci *pci)
{
	s->devs = calloc(pci->n + 1, sizeof(*s->devs));
	if (!s->devs)
		return -ENOMEM;
	for (size_t i = 0; i < pci->n; i++) {
		struct dev *d = &s->devs[i];

		ft_strcpy(d->bdf, pci->v[i].bdf, sizeof(d->bdf));
		d->aer_class = FT_NONE_U8;
		d->wanted = pci->v[i].on_path;
	}
	for (size_t i = 0; i < pci->n; i++) {
		struct dev *up = pci->v[i].parent < 0 ? NULL : &s->devs[pci->v[i].parent];

		if (up && !up->below[0])
			ft_strcpy(up->below, pci->v[i].bdf, sizeof(up->below));
	}
	for (size_t i = 0; i < pci->n; i++)
		s->devs[i].wanted |= pci->v[i].class >> 8 == 0x0604 && !s->devs[i].below[0];
	s->ndevs = pci->n;
	qsort(s->devs, s->ndevs, sizeof(*s->devs), cmp_dev);
	s->unknown.aer_class = FT_NONE_U8;
	return 0;
}

/* --- records --- */
static size_t kind_index(uint16_t kind)
{
	size_t i = 0;

	while (i < NKINDS - 1 && kinds[i] != kind)
		i++;
	return i;
}

static void emit_lost(struct ft_klog_src *s, const char *of, uint64_t n, uint64_t total,
		      const char *reason)
{
	struct ft_ev_lost *e;
	struct ft_rec rec;

	e = ft_rec_new(&rec, FT_KIND_lost, ft_mono_ns());
	e->records = n;
	e->total = total;
	ft_rec_str(&rec, &e->of, of);
	ft_rec_str(&rec, &e->reason, reason);
	ft_emit(&s->emit, &rec);
}

/*
 * The log is a ring: what befell the devices before its first line is not known. On a node that is
 * up for long that is so as a rule: the row tells from when on it is.
 */
static void note_begin(struct ft_klog_src *s, const struct ft_klog_fact *first)
{
	unsigned long long age_s = (ft_mono_ns() - line_ns(s, first->usec)) / NSEC_PER_SEC;

	if (first->seq && s->row)
		ft_fmt(s->row->reason, "begins %llu h %02llu min ago: older lines are overwritten",
		       age_s / 3600, age_s / 60 % 60);
}

static void send_one(struct ft_klog_src *s, const struct ft_klog_fact *f)
{
	const struct dev *d = dev_find(s, f->bdf);
	struct ft_rec rec;

	klog_rec(f, line_ns(s, f->usec), !s->following, d ? d->below : "", &rec);
	ft_emit(&s->emit, &rec);
}

static void send_held(struct ft_klog_src *s, const struct held *h)
{
	const struct dev *d = dev_find(s, h->fact.bdf);
	struct ft_rec rec;

	klog_rec(&h->fact, s->following ? ft_mono_ns() : line_ns(s, h->last_usec), !s->following,
		 d ? d->below : "", &rec);
	rec.h.count = h->n;
	rec.h.first_ns = line_ns(s, h->first_usec);
	rec.h.last_ns = line_ns(s, h->last_usec);
	rec.h.flags |= FT_REC_AGG;
	ft_emit(&s->emit, &rec);
}

static void flush(struct ft_klog_src *s)
{
	for (size_t i = 0; i < s->nheld; i++) {
		if (s->held[i].n > 1)
			send_held(s, &s->held[i]);
		else
			send_one(s, &s->held[i].fact);
	}
	s->nheld = 0;
	for (size_t i = 0; i < NKINDS; i++) {
		if (!s->dropped[i])
			continue;
		s->dropped_total[i] += s->dropped[i];
		emit_lost(s, ft_kind(kinds[i])->name, s->dropped[i], s->dropped_total[i],
			  "more different lines of the kernel log in a second than are kept");
		s->dropped[i] = 0;
	}
}

static void hold(struct ft_klog_src *s, const struct ft_klog_fact *f)
{
	struct held *h = s->held;

	while (h < s->held + s->nheld && !klog_same(&h->fact, f))
		h++;
	if (h == s->held + HELD_MAX) {
		s->dropped[kind_index(f->kind)]++;
		return;
	}
	if (h == s->held + s->nheld) {
		*h = (struct held){ .fact = *f, .first_usec = f->usec };
		if (!s->nheld++ && s->following)
			ft_loop_timer_set(s->timer, ft_mono_ns() + NSEC_PER_SEC);
	}
	h->last_usec = f->usec;
	h->n++;
}

/* A device that repeats itself fills the log, not the output. */
static void take(struct ft_klog_src *s, struct dev *d, const struct ft_klog_fact *f)
{
	struct rate *r = &d->rate[kind_index(f->kind)];
	uint64_t second = f->usec / USEC;

	if (second != s->second)
		flush(s);
	s->second = second;
	if (r->second != second)
		*r = (struct rate){ .second = second };
	if (r->n++ < SINGLE_MAX)
		send_one(s, f);
	else
		hold(s, f);
}

/* --- lines --- */
/*
 * Programs whose events have such lines for their second account. `what` is the value of the fact,
 * ANY for all. Before 7.0 no program tells "card present".
 */
#define ANY 255
static const struct {
	uint16_t kind;
	uint8_t what;
	const char *object, *program; /* or its variant "_kprobe" */
} otherwise[] = {
	{ FT_KIND_pcie_aer, ANY, "pcie", "aer_event" },
	{ FT_KIND_pcie_hotplug, ANY, "pcie", "hp_event" },
	{ FT_KIND_pcie_hotplug, FT_KLOG_SLOT_UP, "pcie", "hp_changed" },
	{ FT_KIND_pcie_hotplug, FT_KLOG_SLOT_DOWN, "pcie", "hp_change" },
	{ FT_KIND_pcie_hotplug, FT_KLOG_SLOT_ABSENT, "pcie", "hp_change" },
	{ FT_KIND_pcie_recovery, 0, "pcie", "dpc_error" },
	{ FT_KIND_pcie_recovery, 2, "pcie", "recovered" },
	{ FT_KIND_pcie_recovery, 3, "pcie", "recovered" },
	{ FT_KIND_dev_log, FT_KLOG_LINK_DOWN, "", "rtnetlink" },
};

static bool is_variant(const char *name, const char *of)
{
	size_t len = strlen(of);

	return !strncmp(name, of, len) && (!name[len] || !strcmp(name + len, "_kprobe"));
}

static bool is_on(struct ft_bpf *bpf, const char *object, const char *program)
{
	size_t n;
	const struct ft_probe *p = ft_bpf_probes(bpf, &n);

	for (size_t i = 0; i < n; i++)
		if (p[i].state == FT_PROBE_ON && !strcmp(p[i].object, object) &&
		    is_variant(p[i].program, program))
			return true;
	return false;
}

static bool told_otherwise(struct ft_klog_src *s, const struct ft_klog_fact *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(otherwise) && s->bpf && s->following; i++)
		if (otherwise[i].kind == f->kind &&
		    (otherwise[i].what == ANY || otherwise[i].what == f->what) &&
		    is_on(s->bpf, otherwise[i].object, otherwise[i].program))
			return true;
	return false;
}

static void count_lines(struct ft_klog_src *s, const struct ft_klog_fact *f)
{
	if (!s->began)
		note_begin(s, f);
	else if (f->seq > s->next_seq) {
		s->lines_lost += f->seq - s->next_seq;
		emit_lost(s, "dev.log", f->seq - s->next_seq, s->lines_lost,
			  "lines of the kernel log: overwritten before they were read");
	}
	s->began = true;
	s->next_seq = f->seq + 1;
}

static void on_line(struct ft_klog_src *s, const char *line, size_t len)
{
	struct ft_klog_fact f;
	struct dev *d;

	if (ft_klog_parse(line, len, &f))
		return;
	count_lines(s, &f);
	d = f.kind ? dev_of(s, &f) : NULL;
	if (!d)
		return;
	if (f.part == FT_KLOG_AER_CLASS) {
		d->aer_class = f.what;
		return;
	}
	if (f.kind == FT_KIND_pcie_aer && f.what == FT_NONE_U8) {
		f.what = d->aer_class;
		d->aer_class = FT_NONE_U8;
	}
	if (!told_otherwise(s, &f))
		take(s, d, &f);
}

/* false: no line now. */
static bool read_line(struct ft_klog_src *s)
{
	char line[FT_KLOG_LINE];
	ssize_t n = read(s->fd, line, sizeof(line));

	if (n > 0)
		on_line(s, line, n);
	/* EPIPE: the next line to be read was overwritten; numbers tell how many were. */
	return n > 0 || (n < 0 && (errno == EPIPE || errno == EINTR));
}

static void on_readable(void *ctx)
{
	struct ft_klog_src *s = ctx;

	for (int i = 0; i < TAKE_MAX && read_line(s);)
		i++;
}

static void on_timer(void *ctx)
{
	flush(ctx);
}

void ft_klog_src_drain(struct ft_klog_src *s)
{
	if (!s || s->fd < 0)
		return;
	for (int i = 0; i < LINES_MAX && read_line(s);)
		i++;
	flush(s);
	s->following = true;
}

/* --- start --- */
static int log_open(struct ft_klog_src *s, const char *root)
{
	char path[PATH_MAX];
	int err;

	ft_fmt(path, "%s/dev/kmsg", root);
	s->fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (s->fd < 0)
		return -errno;
	s->timer = ft_loop_timer(s->loop, on_timer, s);
	err = s->timer < 0 ? s->timer : ft_loop_add(s->loop, s->fd, on_readable, s);
	if (err) {
		close(s->fd);
		s->fd = -1;
	}
	return err;
}

static void row_result(struct ft_probe *row, int err)
{
	row->error = err;
	row->state = err ? FT_PROBE_OFF : FT_PROBE_ON;
	if (!err)
		row->reason[0] = 0;
	else if (err == -EPERM || err == -EACCES)
		ft_strcpy(row->reason, "not permitted: needs CAP_SYSLOG", sizeof(row->reason));
	else
		ft_fmt(row->reason, "/dev/kmsg: %s", strerror(-err));
}

int ft_klog_src_new(struct ft_klog_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		    const struct ft_emit *emit, const struct ft_pci *pci, const char *root)
{
	struct ft_klog_src *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct ft_klog_src){ .loop = loop, .emit = *emit, .bpf = bpf, .fd = -1, .timer = -1 };
	s->row = bpf ? ft_bpf_probe(bpf, "", "kmsg") : NULL;
	err = devs_take(s, pci);
	if (!err)
		err = log_open(s, root);
	if (s->row)
		row_result(s->row, err);
	if (err && !s->row) {
		ft_klog_src_free(s);
		return err;
	}
	if (!err)
		ft_klog_src_drain(s);
	s->following = false;
	*out = s;
	return 0;
}

void ft_klog_src_free(struct ft_klog_src *s)
{
	if (!s)
		return;
	if (s->fd >= 0) {
		ft_loop_del(s->loop, s->fd);
		close(s->fd);
	}
	if (s->timer >= 0)
		ft_loop_del(s->loop, s->timer);
	free(s->devs);
	free(s);
}

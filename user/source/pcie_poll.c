// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>

#include "host/pci.h"
#include "source/pcie_poll.h"

#define END_MS	 200 /* the end of the session waits so long for the thread */
#define TEXT_MAX 2048

/* File descriptors; -1: not there. */
struct end {
	char upper[16];
	int config, speed, width;
	int control, power; /* of the upper end: whether it may sleep, whether it does */
	int below_control, below_power; /* of the other end */
	uint16_t cap;
	bool may_sleep, asleep, lost;
	uint32_t last;
	uint64_t look_ns; /* begin of the look that is under way, 0: none; for the main loop */
};

struct file {
	int fd;
	uint64_t hash;
};

struct pcie_poll {
	char *root;
	unsigned int interval_ms;
	int pipe;
	uint32_t number;
	struct end *ends;
	struct file *files;
	size_t nends, nfiles;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	bool started, stop, left;
	bool alone; /* nobody waits for the thread: it frees all this */
};

/* --- what it opens --- */
static int open_at(const struct pcie_poll *p, const char *bdf, const char *name)
{
	char path[PATH_MAX];

	ft_fmt(path, "%s" FT_PCI_DIR "/%s/%s", p->root, bdf, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

static void end_close(struct end *e)
{
	ft_closep(&e->config);
	ft_closep(&e->speed);
	ft_closep(&e->width);
	ft_closep(&e->control);
	ft_closep(&e->power);
	ft_closep(&e->below_control);
	ft_closep(&e->below_power);
}

/* Room for one more; arrays double. */
static void *grow(void *v, size_t n, size_t size)
{
	if (n & (n - 1))
		return v;
	return reallocarray(v, MAX(2 * n, (size_t)1), size);
}

int pcie_poll_link(struct pcie_poll *p, const struct pcie_watch *w)
{
	struct end *ends = grow(p->ends, p->nends, sizeof(*ends)), e;
	int err = 0;

	if (!ends)
		return -ENOMEM;
	p->ends = ends;
	e = (struct end){ .config = -1,
			  .speed = -1,
			  .width = -1,
			  .control = -1,
			  .power = -1,
			  .below_control = -1,
			  .below_power = -1,
			  .cap = w->cap,
			  .last = w->last };
	ft_strcpy(e.upper, w->upper, sizeof(e.upper));
	if (w->cap)
		err = (e.config = open_at(p, w->upper, "config")) < 0 ? -errno : 0;
	else if ((e.speed = open_at(p, w->upper, "current_link_speed")) < 0 ||
		 (e.width = open_at(p, w->upper, "current_link_width")) < 0)
		err = -errno;
	if (err) {
		end_close(&e);
		return err;
	}
	e.control = open_at(p, w->upper, "power/control");
	e.power = open_at(p, w->upper, "power/runtime_status");
	if (w->below[0]) {
		e.below_control = open_at(p, w->below, "power/control");
		e.below_power = open_at(p, w->below, "power/runtime_status");
	}
	p->ends[p->nends] = e;
	return p->nends++;
}

int pcie_poll_file(struct pcie_poll *p, const char *path)
{
	struct file *files = grow(p->files, p->nfiles, sizeof(*files));
	char full[PATH_MAX];
	int fd;

	if (!files)
		return -ENOMEM;
	p->files = files;
	ft_fmt(full, "%s%s", p->root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	p->files[p->nfiles] = (struct file){ .fd = fd };
	return p->nfiles++;
}

static void poll_free(struct pcie_poll *p)
{
	for (size_t i = 0; i < p->nends; i++)
		end_close(&p->ends[i]);
	for (size_t i = 0; i < p->nfiles; i++)
		close(p->files[i].fd);
	free(p->ends);
	free(p->files);
	free(p->root);
	ft_closep(&p->pipe);
	pthread_cond_destroy(&p->cond);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

int pcie_poll_new(struct pcie_poll **out, const char *root, unsigned int interval_ms, int pipe,
		  uint32_t number)
{
	struct pcie_poll *p = calloc(1, sizeof(*p));
	pthread_condattr_t attr;

	if (!p)
		return -ENOMEM;
	*p = (struct pcie_poll){ .interval_ms = interval_ms, .number = number };
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->cond, &attr);
	pthread_condattr_destroy(&attr);
	p->root = strdup(root);
	/* Its own: a thread that hangs outlives the main loop's. */
	p->pipe = fcntl(pipe, F_DUPFD_CLOEXEC, 3);
	if (!p->root || p->pipe < 0) {
		int err = p->root ? -errno : -ENOMEM;

		poll_free(p);
		return err;
	}
	*out = p;
	return 0;
}

/* --- the thread --- */
/* A message that does not fit is not told: the same difference is there at the next look. */
static bool tell(const struct pcie_poll *p, struct pcie_msg *m, enum pcie_what what)
{
	m->ts_ns = ft_mono_ns();
	m->number = p->number;
	m->what = what;
	return write(p->pipe, m, sizeof(*m)) == sizeof(*m);
}

/* First word of a small file; "" when it cannot be read. */
static const char *word(int fd, char out[32])
{
	ssize_t n = fd < 0 ? 0 : pread(fd, out, 31, 0);

	out[MAX(n, (ssize_t)0)] = 0;
	out[strcspn(out, "\n")] = 0;
	return out;
}

/* The kernel's own note: it asks no device. */
static bool sleeps(int fd)
{
	char text[32];

	word(fd, text);
	return !strncmp(text, "suspend", 7) || !strcmp(text, "resuming");
}

/* Live reads too, each of the whole register. As a Link Status without its flags. */
static int read_sysfs(const struct end *e, uint16_t *out)
{
	char speed[32], width[32];
	uint32_t gen;
	uint64_t n;

	errno = 0;
	if (!word(e->speed, speed)[0] && errno == ENODEV)
		return -ENODEV;
	/* No number: the kernel gave up on the device (-EINVAL). */
	gen = ft_pci_gen(speed);
	if (ft_parse_u64(word(e->width, width), &n) || n >= 63)
		*out = PCIE_STATUS_ONES;
	else
		*out = (gen == FT_NONE_U32 ? 0 : gen) | n << 4;
	return 0;
}

static int read_status(const struct end *e, uint16_t *out)
{
	ssize_t n;

	if (!e->cap)
		return read_sysfs(e, out);
	/* One word, at its natural place: one read of the register. */
	n = pread(e->config, out, sizeof(*out), e->cap + FT_PCI_LNKSTA);
	return n == sizeof(*out) ? 0 : n < 0 ? -errno : -EPERM;
}

/*
 * "on": it never sleeps, and need not be asked before each look. Nor does a port above a device that
 * never does.
 */
static bool may_sleep(const struct end *e)
{
	char text[32];

	return !strcmp(word(e->control, text), "auto") &&
	       strcmp(word(e->below_control, text), "on") != 0;
}

static bool is_news(const struct end *e, uint16_t status)
{
	if (e->last == PCIE_STATUS_NONE || status == PCIE_STATUS_ONES ||
	    e->last == PCIE_STATUS_ONES)
		return e->last != status;
	return (e->last ^ status) & PCIE_STATUS_BITS;
}

/* With a change the limit is read that may have commanded it. */
static void tell_status(struct pcie_poll *p, struct end *e, uint16_t status)
{
	struct pcie_msg m = { .index = e - p->ends, .status = status };

	if (e->cap && status != PCIE_STATUS_ONES &&
	    pread(e->config, &m.control2, sizeof(m.control2), e->cap + FT_PCI_LNKCTL2) !=
		    sizeof(m.control2))
		m.control2 = 0;
	if (tell(p, &m, PCIE_STATUS))
		e->last = status;
}

/*
 * A read wakes a port up that sleeps. A device that sleeps deeply (D3cold) has no link: that is no
 * change either.
 */
static void look(struct pcie_poll *p, struct end *e)
{
	struct pcie_msg m = { .index = e - p->ends };
	bool asleep = e->may_sleep && sleeps(e->power), news = false;
	uint16_t status;

	if (!asleep) {
		m.error = read_status(e, &status);
		news = !m.error && is_news(e, status);
		asleep = (news || m.error) && sleeps(e->below_power);
	}
	if (asleep != e->asleep && tell(p, &m, asleep ? PCIE_ASLEEP : PCIE_AWAKE))
		e->asleep = asleep;
	if (asleep)
		return;
	if (m.error)
		e->lost = tell(p, &m, PCIE_ERROR);
	else if (news)
		tell_status(p, e, status);
	/* What kept the port awake may have gone. */
	if (news)
		e->may_sleep = may_sleep(e);
}

/* Kept by the kernel: no device is asked. */
static void look_at_file(struct pcie_poll *p, struct file *f)
{
	struct pcie_msg m = { .index = f - p->files };
	uint64_t hash;
	char text[TEXT_MAX];
	ssize_t n = pread(f->fd, text, sizeof(text), 0);

	if (n <= 0)
		return;
	hash = pcie_hash(PCIE_HASH_BASIS, text, n);
	if (hash != f->hash && tell(p, &m, PCIE_COUNTER))
		f->hash = hash;
}

static void each_second(struct pcie_poll *p)
{
	for (size_t i = 0; i < p->nfiles; i++)
		look_at_file(p, &p->files[i]);
}

/* Who may sleep is set once by most: one of them is asked again each time. */
static void turn(struct pcie_poll *p, size_t n)
{
	for (size_t i = 0; i < p->nends; i++)
		if (!n || n % p->nends == i)
			p->ends[i].may_sleep = may_sleep(&p->ends[i]);
	for (size_t i = 0; i < p->nends; i++) {
		struct end *e = &p->ends[i];

		if (e->lost)
			continue;
		__atomic_store_n(&e->look_ns, ft_mono_ns(), __ATOMIC_RELAXED);
		look(p, e);
		__atomic_store_n(&e->look_ns, 0, __ATOMIC_RELAXED);
	}
}

/* false: it shall end. */
static bool wait_until(struct pcie_poll *p, uint64_t ns)
{
	const struct timespec t = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };
	bool stop;

	pthread_mutex_lock(&p->lock);
	while (!p->stop && !pthread_cond_timedwait(&p->cond, &p->lock, &t))
		;
	stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return !stop;
}

static void *poll_run(void *arg)
{
	struct pcie_poll *p = arg;
	const uint64_t interval = p->interval_ms * NSEC_PER_MSEC;
	uint64_t now = ft_mono_ns(), next = now, second = now;
	size_t n = 0;
	bool alone;

	while (wait_until(p, MIN(next, second))) {
		now = ft_mono_ns();
		if (now >= second) {
			each_second(p);
			second = MAX(second + NSEC_PER_SEC, now);
		}
		if (now >= next) {
			turn(p, n++);
			next = MAX(next + interval, now);
		}
	}
	pthread_mutex_lock(&p->lock);
	__atomic_store_n(&p->left, true, __ATOMIC_RELEASE);
	alone = p->alone;
	pthread_cond_broadcast(&p->cond);
	pthread_mutex_unlock(&p->lock);
	if (alone)
		poll_free(p);
	return NULL;
}

/* --- the main loop's side --- */
int pcie_poll_start(struct pcie_poll *p)
{
	int err = ft_thread_start(poll_run, p);

	p->started = !err;
	return err;
}

void pcie_poll_leave(struct pcie_poll *p)
{
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->cond);
	pthread_mutex_unlock(&p->lock);
}

bool pcie_poll_has_left(const struct pcie_poll *p)
{
	return __atomic_load_n(&p->left, __ATOMIC_ACQUIRE);
}

void pcie_poll_drop(struct pcie_poll *p)
{
	bool left;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	left = p->left || !p->started;
	p->alone = !left;
	pthread_cond_broadcast(&p->cond);
	pthread_mutex_unlock(&p->lock);
	if (left)
		poll_free(p);
}

void pcie_poll_end(struct pcie_poll *p)
{
	uint64_t ns = ft_mono_ns() + END_MS * NSEC_PER_MSEC;
	const struct timespec t = { ns / NSEC_PER_SEC, ns % NSEC_PER_SEC };

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	/* One that was asked long ago hangs. */
	if (p->started && !p->stop) {
		p->stop = true;
		pthread_cond_broadcast(&p->cond);
		while (!p->left && !pthread_cond_timedwait(&p->cond, &p->lock, &t))
			;
	}
	pthread_mutex_unlock(&p->lock);
	pcie_poll_drop(p);
}

const char *pcie_poll_stuck(const struct pcie_poll *p, uint64_t now_ns, uint64_t for_ns)
{
	for (size_t i = 0; i < p->nends; i++) {
		uint64_t ns = __atomic_load_n(&p->ends[i].look_ns, __ATOMIC_RELAXED);

		if (ns && now_ns >= ns + for_ns)
			return p->ends[i].upper;
	}
	return NULL;
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Two links made of files: a GPU at Gen5 x16 and a NIC at Gen4 x8, each below a root port of Gen5 x16
 * with AER. Reads of the ports' config are counted, and can be made to hang.
 */
#ifndef FT_TEST_PCIE_H
#define FT_TEST_PCIE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "fixtures/machine.h"
#include "source/pcie.h"

#define GPU_PORT "0000:00:01.0"
#define GPU	 "0000:01:00.0"
#define NIC_PORT "0000:00:02.0"
#define NIC	 "0000:02:00.0"
#define PORTS	 2

static const char *const port_names[PORTS] = { GPU_PORT, NIC_PORT };

/* Link Status as the registers have it; the link is up. */
#define GEN5_X16 0x2105
#define GEN4_X8	 0x2084
#define GEN3_X8	 0x2083
#define GEN1_X16 0x2101
#define LT	 FT_PCI_LNKSTA_LT
#define LBMS	 FT_PCI_LNKSTA_LBMS
#define LABS	 FT_PCI_LNKSTA_LABS
#define NO_LINK	 0x0011

/* --- the machine --- */
static inline void pci_path(const char *bdf, const char *name, char out[PATH_MAX])
{
	snprintf(out, PATH_MAX, "%s" FT_PCI_DIR "/%s/%s", machine_root, bdf, name);
}

/* Changes bytes of a file that is open elsewhere, at once. */
static inline void poke(const char *bdf, const char *name, off_t off, const void *data, size_t len)
{
	char path[PATH_MAX];
	int fd;

	pci_path(bdf, name, path);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, data, len, off), len);
	close(fd);
}

static inline void set_status(const char *port, uint16_t status)
{
	poke(port, "config", CONFIG_LNKSTA, &status, sizeof(status));
}

static inline void set_target(const char *port, uint16_t target)
{
	poke(port, "config", CONFIG_LNKCTL2, &target, sizeof(target));
}

static inline void set_text(const char *bdf, const char *name, const char *text)
{
	poke(bdf, name, 0, text, strlen(text));
}

static inline void put_power(const char *bdf, const char *control, const char *status)
{
	char path[128];

	ft_fmt(path, FT_PCI_DIR "/%s/power/control", bdf);
	/* room for the longest, so that a shorter one can be written over it */
	put(path, "%s\n         ", control);
	ft_fmt(path, FT_PCI_DIR "/%s/power/runtime_status", bdf);
	put(path, "%s\n         ", status);
}

static inline void put_aer(const char *bdf, unsigned int rx, unsigned int poison)
{
	char path[128];

	ft_fmt(path, FT_PCI_DIR "/%s/aer_dev_correctable", bdf);
	put(path, "RxErr %09u\nBadTLP 0\nTOTAL_ERR_COR %u\n", rx, rx);
	ft_fmt(path, FT_PCI_DIR "/%s/aer_dev_nonfatal", bdf);
	put(path, "Undefined 0\nPoisonTLPBlocked %09u\nTOTAL_ERR_NONFATAL %u\n", poison, poison);
	ft_fmt(path, FT_PCI_DIR "/%s/aer_dev_fatal", bdf);
	put(path, "Undefined 0\nDLP 0\nTOTAL_ERR_FATAL 0\n");
}

static inline void put_gpu(void)
{
	put_pci(&(struct pci_spec){ "pci0000:00/" GPU_PORT "/" GPU, 0x030200, 0x10de, 0x2330, 0,
				    GEN5, "16", GEN5, "16" });
	put_power(GPU, "on", "active");
	put_aer(GPU, 0, 0);
}

static inline int two_links(void **state)
{
	if (machine_new(state))
		return -1;
	put_pci(&(struct pci_spec){ "pci0000:00/" GPU_PORT, 0x060400, 0x8086, 0x352a, 0, GEN5, "16",
				    GEN5, "16" });
	put_pci(&(struct pci_spec){ "pci0000:00/" NIC_PORT, 0x060400, 0x8086, 0x352a, 0, GEN4, "8",
				    GEN5, "16" });
	put_pci(&(struct pci_spec){ "pci0000:00/" NIC_PORT "/" NIC, 0x020000, 0x15b3, 0x1021, 0,
				    GEN4, "8", GEN4, "8" });
	put_gpu();
	put_config(GPU_PORT, GEN5_X16, 5);
	put_config(NIC_PORT, GEN4_X8, 5);
	put_power(GPU_PORT, "auto", "active");
	put_power(NIC_PORT, "on", "active");
	put_power(NIC, "on", "active");
	for (int i = 0; i < PORTS; i++) {
		char name[64];

		put_aer(port_names[i], 0, 0);
		ft_fmt(name, "%s:pcie002", port_names[i]);
		put_service(name, "aer");
	}
	put_aer(NIC, 0, 0);
	put("/sys/bus/pci/slots/5/address", "0000:01:00\n");
	return 0;
}

/* --- reads of config --- */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	ino_t ino[PORTS];
	unsigned int n[PORTS]; /* of Link Status */
	unsigned int other;    /* of anything else in there */
	bool hang[PORTS];
} reads = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static inline void reads_watch(void)
{
	for (int i = 0; i < PORTS; i++) {
		char path[PATH_MAX];
		struct stat st;

		pci_path(port_names[i], "config", path);
		reads.ino[i] = stat(path, &st) ? 0 : st.st_ino;
		reads.n[i] = 0;
		reads.hang[i] = false;
	}
	reads.other = 0;
}

static inline void reads_hang(int port, bool hang)
{
	pthread_mutex_lock(&reads.lock);
	reads.hang[port] = hang;
	pthread_cond_broadcast(&reads.cond);
	pthread_mutex_unlock(&reads.lock);
}

static inline unsigned int reads_of(int port)
{
	unsigned int n;

	pthread_mutex_lock(&reads.lock);
	n = port < PORTS ? reads.n[port] : reads.other;
	pthread_mutex_unlock(&reads.lock);
	return n;
}
#define OTHER_READS PORTS

/* Stands in for libc's. */
ssize_t pread(int fd, void *buf, size_t size, off_t off)
{
	struct stat st;

	pthread_mutex_lock(&reads.lock);
	for (int i = 0; i < PORTS && !fstat(fd, &st); i++) {
		if (!reads.ino[i] || st.st_ino != reads.ino[i])
			continue;
		if (off == CONFIG_LNKSTA && size == 2)
			reads.n[i]++;
		else
			reads.other++;
		while (reads.hang[i])
			pthread_cond_wait(&reads.cond, &reads.lock);
	}
	pthread_mutex_unlock(&reads.lock);
	return syscall(SYS_pread64, fd, buf, size, off);
}

/* --- the source --- */
#define SEEN_MAX 256
static struct ft_rec seen[SEEN_MAX];
static size_t nseen;
static struct ft_loop *loop;
static struct ft_pcie_src *src;

static inline void keep(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	assert_int_equal(ft_rec_check(rec, len), 0);
	assert_true(nseen < SEEN_MAX);
	memcpy(&seen[nseen++], rec, len);
}

static inline void src_start(unsigned int interval_ms)
{
	const struct ft_pcie_opts opts = { machine_root, interval_ms };
	const struct ft_emit emit = { keep, NULL };
	struct ft_pci *p = NULL;

	nseen = 0;
	assert_int_equal(ft_loop_new(&loop), 0);
	assert_int_equal(ft_pci_read(machine_root, 2000, &p), 0);
	reads_watch();
	assert_int_equal(ft_pcie_src_new(&src, NULL, loop, &emit, p, &opts), 0);
	ft_pci_free(p);
}

static inline void src_end(void)
{
	ft_pcie_src_free(src);
	ft_loop_free(loop);
}

static inline void stop(void *ctx)
{
	ft_loop_stop(ctx);
}

static inline void run_ms(unsigned int ms)
{
	int timer = ft_loop_timer(loop, stop, loop);

	assert_true(timer >= 0);
	assert_int_equal(ft_loop_timer_set(timer, ft_mono_ns() + ms * NSEC_PER_MSEC), 0);
	assert_int_equal(ft_loop_run(loop), 0);
}

/* The nth record of a kind. */
static inline const void *nth(enum ft_kind kind, size_t n)
{
	for (size_t i = 0; i < nseen; i++)
		if (seen[i].h.kind == kind && !n--)
			return &seen[i];
	return NULL;
}

/* The nth record of a kind, waited for; with ticks now and then, as a session does. */
static inline const void *expect(enum ft_kind kind, size_t n)
{
	for (int i = 0; i < 1000 && !nth(kind, n); i++) {
		run_ms(10);
		if (i % 10 == 9)
			ft_pcie_src_tick(src);
	}
	if (!nth(kind, n))
		fail_msg("no record %zu of kind %d", n, kind);
	return nth(kind, n);
}

/* So many looks at a link have been made since; with ticks now and then. */
static inline void looks_at(int port, unsigned int n)
{
	const unsigned int until = reads_of(port) + n;

	for (int i = 0; i < 1000 && reads_of(port) < until; i++) {
		run_ms(5);
		if (i % 100 == 99)
			ft_pcie_src_tick(src);
	}
	assert_true(reads_of(port) >= until);
	run_ms(5);
}

/* So many looks at each. */
static inline void looks(unsigned int n)
{
	looks_at(0, n);
	looks_at(1, n);
}

static inline bool text_has(const struct ft_hdr *ev, struct ft_str s, const char *part)
{
	char text[256];

	return strstr(ft_str_copy(ev, s, text, sizeof(text)), part);
}

#endif

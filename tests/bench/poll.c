// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * What polling links costs: LINKS links made of files in memory, looked at for SECONDS. Prints the
 * CPU seconds: of the source, and of a loop that does the reads of Link Status and nothing else.
 *
 *   poll LINKS INTERVAL-MS SECONDS [counters]    with the AER counters of both ends
 */
#include <err.h>
#include <fcntl.h>
#include <time.h>

#include "../unit/fixtures/machine.h"
#include "source/source.h"

#define LINKS_MAX 128

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void put_counters(const char *bdf)
{
	static const char *const classes[] = { "correctable", "nonfatal", "fatal" };
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		ft_fmt(path, FT_PCI_DIR "/%s/aer_dev_%s", bdf, classes[i]);
		put(path, "RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\nNonFatalErr 0\n"
			  "CorrIntErr 0\nHeaderOF 0\nTOTAL_ERR_COR 0\n");
	}
}

/* A GPU that never sleeps, below a root port that may; that is the kernel's default. */
static void put_link_at(unsigned int i, bool counters)
{
	char port[32], chain[96], path[128], gpu[16];

	ft_fmt(port, "0000:%02x:00.0", 2 * i);
	ft_fmt(gpu, "0000:%02x:00.0", 2 * i + 1);
	ft_fmt(chain, "pci0000:%02x/%s", 2 * i, port);
	put_pci(&(struct pci_spec){ chain, 0x060400, 0x8086, 0x352a, 0, GEN5, "16", GEN5, "16" });
	ft_fmt(chain, "pci0000:%02x/%s/%s", 2 * i, port, gpu);
	put_pci(&(struct pci_spec){ chain, 0x030200, 0x10de, 0x2330, 0, GEN5, "16", GEN5, "16" });
	put_config(port, 0x2105, 5);
	ft_fmt(path, FT_PCI_DIR "/%s/power/control", port);
	put(path, "auto\n");
	ft_fmt(path, FT_PCI_DIR "/%s/power/control", gpu);
	put(path, "on\n");
	if (counters) {
		put_counters(port);
		put_counters(gpu);
	}
}

static void dropped(void *ctx, const void *rec, size_t len)
{
	(void)rec;
	(void)len;
	++*(unsigned int *)ctx;
}

static void stop(void *ctx)
{
	ft_loop_stop(ctx);
}

static double poll_cpu_s(const struct ft_pci *p, unsigned int interval_ms, unsigned int seconds)
{
	const struct ft_pcie_opts opts = { machine_root, interval_ms };
	unsigned int records = 0;
	const struct ft_emit emit = { dropped, &records };
	struct ft_pcie_src *src;
	struct ft_loop *loop;
	double before;

	if (ft_loop_new(&loop) || ft_pcie_src_new(&src, NULL, loop, &emit, p, &opts) ||
	    ft_loop_every(loop, 1000, stop, loop) || ft_loop_run(loop))
		errx(1, "cannot poll");
	before = cpu_s();
	for (unsigned int i = 0; i < seconds; i++) {
		ft_loop_run(loop);
		ft_pcie_src_tick(src);
	}
	before = cpu_s() - before;
	ft_pcie_src_free(src);
	ft_loop_free(loop);
	if (records)
		errx(1, "%u records of links that did not change", records);
	return before;
}

/* The reads alone, at the same pace: what none that polls can do without. */
static double reads_cpu_s(unsigned int links, unsigned int interval_ms, unsigned int seconds)
{
	const struct timespec pause = { 0, interval_ms * NSEC_PER_MSEC };
	int fds[LINKS_MAX];
	char path[PATH_MAX];
	uint16_t status;
	double before;

	for (unsigned int i = 0; i < links; i++) {
		ft_fmt(path, "%s" FT_PCI_DIR "/0000:%02x:00.0/config", machine_root, 2 * i);
		fds[i] = open(path, O_RDONLY | O_CLOEXEC);
	}
	before = cpu_s();
	for (unsigned int n = 0; n < seconds * 1000 / interval_ms; n++) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		for (unsigned int i = 0; i < links; i++)
			if (pread(fds[i], &status, sizeof(status), CONFIG_LNKSTA) != sizeof(status))
				errx(1, "cannot read");
	}
	before = cpu_s() - before;
	for (unsigned int i = 0; i < links; i++)
		close(fds[i]);
	return before;
}

int main(int argc, char **argv)
{
	unsigned int links = argc > 3 ? atoi(argv[1]) : 0;
	struct ft_pci *p;
	double ours, reads;

	if (!links || links > LINKS_MAX)
		errx(64, "usage: poll LINKS INTERVAL-MS SECONDS [counters]");
	ft_fmt(machine_root, "/dev/shm/ft_poll.XXXXXX");
	if (!mkdtemp(machine_root))
		err(1, "/dev/shm");
	for (unsigned int i = 0; i < links; i++)
		put_link_at(i, argc > 4);
	if (ft_pci_read(machine_root, 1000, &p))
		errx(1, "cannot read %s", machine_root);
	ours = poll_cpu_s(p, atoi(argv[2]), atoi(argv[3]));
	reads = reads_cpu_s(links, atoi(argv[2]), atoi(argv[3]));
	ft_pci_free(p);
	machine_free(NULL);
	printf("%.6f %.6f\n", ours, reads);
	return 0;
}

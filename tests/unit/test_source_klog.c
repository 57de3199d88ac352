// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The kernel log as a source: a FIFO in packet mode stands in for /dev/kmsg, one line per read().
 * What is before the attach, whom it concerns, floods, gaps; and lines that this test itself writes
 * to the real log, which must not be believed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <limits.h>

#include "fixtures/machine.h"
#include "source/klog.h"
#include "source/source.h"
#include "klog_fixture.h"

static struct ft_rec seen[256];
static size_t nseen;
static struct ft_loop *loop;
static struct ft_pci *pci;
static struct ft_klog_src *src;
static int fifo = -1;
static unsigned int seq;

static void keep(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	assert_int_equal(ft_rec_check(rec, len), 0);
	if (nseen < ARRAY_SIZE(seen))
		memcpy(&seen[nseen++], rec, len);
}

static const struct ft_emit emit = { keep, NULL };

/* --- the probe table, without a kernel side --- */
enum { KMSG, RTNETLINK, AER, HOTPLUG, HOTPLUG_KPROBE, HOTPLUG_UP, HOTPLUG_ALL, NROWS };
static struct ft_probe table[NROWS];
static bool no_table;
#define BPF ((struct ft_bpf *)&table)

struct ft_probe *ft_bpf_probes(struct ft_bpf *b, size_t *n)
{
	assert_ptr_equal(b, BPF);
	*n = NROWS;
	return table;
}

struct ft_probe *ft_bpf_probe(struct ft_bpf *b, const char *object, const char *program)
{
	assert_ptr_equal(b, BPF);
	for (size_t i = 0; i < NROWS; i++)
		if (!strcmp(table[i].object, object) && !strcmp(table[i].program, program))
			return no_table ? NULL : &table[i];
	return NULL;
}

static void table_new(void)
{
	static const struct ft_probe rows[NROWS] = {
		[KMSG] = { .object = "", .program = "kmsg" },
		[RTNETLINK] = { .object = "", .program = "rtnetlink" },
		[AER] = { .object = "pcie", .program = "aer_event" },
		[HOTPLUG] = { .object = "pcie", .program = "hp_change" },
		[HOTPLUG_KPROBE] = { .object = "pcie", .program = "hp_change_kprobe" },
		[HOTPLUG_UP] = { .object = "pcie", .program = "hp_changed" },
		[HOTPLUG_ALL] = { .object = "pcie", .program = "hp_event" },
	};

	memcpy(table, rows, sizeof(rows));
	no_table = false;
}

static int setup(void **state)
{
	static const struct pci_spec others[] = {
		{ .chain = "pci0000:d0/0000:d0:01.0", .class = 0x060400 },
		{ .chain = "pci0000:d0/0000:d0:02.0", .class = 0x060400 },
		{ .chain = "pci0000:d0/0000:d0:01.0/0000:d1:00.0", .class = 0x010802 },
	};
	char path[PATH_MAX];

	if (machine_new(state))
		return -1;
	put_pair(0);
	put_pair(1);
	/* a disk in its slot, and an empty slot */
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		put_pci(&others[i]);
	put("/dev/null", "%s", "");
	ft_fmt(path, "%s/dev/kmsg", machine_root);
	if (mkfifo(path, 0600))
		return -1;
	fifo = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (fifo < 0 || fcntl(fifo, F_SETFL, O_NONBLOCK | O_DIRECT) ||
	    fcntl(fifo, F_SETPIPE_SZ, 1 << 20) < 0)
		return -1;
	nseen = seq = 0;
	table_new();
	src = NULL;
	return ft_loop_new(&loop) || ft_pci_read(machine_root, 2000, &pci);
}

static int teardown(void **state)
{
	ft_klog_src_free(src);
	ft_loop_free(loop);
	ft_pci_free(pci);
	close(fifo);
	return machine_free(state);
}

static void line_at(uint64_t usec, const char *text)
{
	char plain[512], line[600];

	ft_fmt(plain, "3,%u,%llu,-;%s\n", seq++, (unsigned long long)usec, text);
	klog_tagged(plain, line, sizeof(line));
	assert_int_equal(write(fifo, line, strlen(line)), strlen(line));
}

static void start(void)
{
	assert_int_equal(ft_klog_src_new(&src, NULL, loop, &emit, pci, machine_root), 0);
}

static const void *nth(size_t i, enum ft_kind kind)
{
	assert_true(i < nseen);
	assert_int_equal(seen[i].h.kind, kind);
	return &seen[i];
}

/* That time of the log, by our own reading of its clock. */
static void assert_mono(uint64_t ns, uint64_t usec)
{
	struct klog_clock c = {};
	uint64_t want;

	(void)klog_clock_read(&c);
	want = klog_clock_mono(&c, usec);
	assert_in_range(ns, want - 10000, want + 10000);
}

/* --- what came before --- */
static void test_before(void **state)
{
	const struct ft_ev_pcie_aer *aer;
	const struct ft_ev_gpu_xid *xid;

	(void)state;
	line_at(5000000, "pcieport 0000:10:01.0: AER: Corrected error received: 0000:13:00.0");
	line_at(5000001,
		"nvidia 0000:13:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)");
	line_at(5000002,
		"nvidia 0000:13:00.0:   device [10de:2330] error status/mask=00000001/00002000");
	line_at(5000003, "nvidia 0000:13:00.0:    [ 0] RxErr                  (First)");
	line_at(6000000, "NVRM: Xid (PCI:0000:13:00): 79, pid=12, GPU has fallen off the bus.");
	start();
	assert_int_equal(nseen, 2);
	aer = nth(0, FT_KIND_pcie_aer);
	assert_string_equal(aer->device, "0000:13:00.0");
	assert_int_equal(aer->status, 1);
	assert_int_equal(aer->aer_class, 2);
	assert_int_equal(aer->before, 1);
	assert_true(aer->h.flags & FT_REC_BEFORE);
	assert_mono(aer->h.ts_ns, 5000002);
	assert_int_equal(aer->h.count, 1);
	xid = nth(1, FT_KIND_gpu_xid);
	assert_int_equal(xid->before, 1);
	assert_int_equal(xid->of_pid, 12);
	assert_mono(xid->h.ts_ns, 6000000);
}

/* Up to the first drain a line is from before; then it is not, nor dated into the future. */
static void test_after(void **state)
{
	const struct ft_ev_gpu_xid *xid;
	uint64_t future = (ft_mono_ns() / 1000) + 3600 * 1000000ull, now;

	(void)state;
	start();
	line_at(7000000, "NVRM: Xid (PCI:0000:13:00): 13, a");
	ft_klog_src_drain(src);
	line_at(8000000, "NVRM: Xid (PCI:0000:13:00): 13, b");
	line_at(future, "NVRM: Xid (PCI:0000:13:00): 13, c");
	now = ft_mono_ns();
	ft_klog_src_drain(src);
	assert_int_equal(nseen, 3);
	xid = nth(0, FT_KIND_gpu_xid);
	assert_int_equal(xid->before, 1);
	xid = nth(1, FT_KIND_gpu_xid);
	assert_int_equal(xid->before, 0);
	assert_false(xid->h.flags & FT_REC_BEFORE);
	assert_mono(xid->h.ts_ns, 8000000);
	xid = nth(2, FT_KIND_gpu_xid);
	assert_in_range(xid->h.ts_ns, now, ft_mono_ns());
}

/* Followed by the loop, as it comes. */
static void stop_loop(void *ctx, const void *rec, size_t len)
{
	keep(ctx, rec, len);
	ft_loop_stop(loop);
}

static void test_followed(void **state)
{
	const struct ft_emit stop = { stop_loop, NULL };
	const struct ft_ev_pcie_hotplug *e;

	(void)state;
	assert_int_equal(ft_klog_src_new(&src, NULL, loop, &stop, pci, machine_root), 0);
	ft_klog_src_drain(src);
	line_at(9000000, "pcieport 0000:10:01.0: pciehp: Slot(5): Link Down");
	assert_int_equal(ft_loop_run(loop), 0);
	assert_int_equal(nseen, 1);
	e = nth(0, FT_KIND_pcie_hotplug);
	assert_int_equal(e->event, 1);
	assert_int_equal(e->before, 0);
	assert_string_equal(e->port, "0000:10:01.0");
}

/* --- whom it concerns --- */
static void test_devices(void **state)
{
	(void)state;
	/* a GPU and a NIC that are gone: their drivers know what they were */
	line_at(1, "NVRM: Xid (PCI:0000:f0:00): 79, GPU has fallen off the bus.");
	line_at(2, "mlx5_core 0000:f1:00.0: poll_health:801:(pid 0): device's health compromised");
	/* others that are gone */
	line_at(3, "nvme 0000:f2:00.0: AER: can't recover (no error_detected callback)");
	line_at(4, "pcieport 0000:f3:00.0: pciehp: Slot(5): Link Down");
	line_at(5, "nvme 0000:f2:00.0:   device [1234:5678] error status/mask=00000001/00002000");
	/* there, but neither GPU, NIC, nor above one: the slot of a disk, and an empty slot */
	line_at(6, "nvme 0000:d1:00.0: AER: can't recover (no error_detected callback)");
	line_at(7, "pcieport 0000:d0:01.0: pciehp: Slot(6): Link Down");
	line_at(8, "pcieport 0000:d0:02.0: pciehp: Slot(7): Link Down");
	/* a port on the way */
	line_at(9, "pcieport 0000:12:00.0: pciehp: Slot(5): Link Down");
	start();
	assert_int_equal(nseen, 4);
	nth(0, FT_KIND_gpu_xid);
	nth(1, FT_KIND_dev_log);
	assert_string_equal(((const struct ft_ev_pcie_hotplug *)nth(2, FT_KIND_pcie_hotplug))->port,
			    "0000:d0:02.0");
	assert_string_equal(
		((const struct ft_ev_pcie_hotplug *)nth(2, FT_KIND_pcie_hotplug))->device, "");
	assert_string_equal(((const struct ft_ev_pcie_hotplug *)nth(3, FT_KIND_pcie_hotplug))->port,
			    "0000:12:00.0");
	assert_string_equal(
		((const struct ft_ev_pcie_hotplug *)nth(3, FT_KIND_pcie_hotplug))->device,
		"0000:13:00.0");
}

/* The class is that of the same device's line before, also when others come between. */
static void test_aer_mixed(void **state)
{
	const struct ft_ev_pcie_aer *e;

	(void)state;
	line_at(1, "a 0000:13:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (x)");
	line_at(2, "b 0000:14:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=T, (x)");
	line_at(3, "a 0000:13:00.0:   device [10de:2330] error status/mask=00001000/00000000");
	line_at(4, "b 0000:14:00.0:   device [15b3:1021] error status/mask=00001000/00000000");
	line_at(5, "b 0000:14:00.0:   device [15b3:1021] error status/mask=00001000/00000000");
	start();
	assert_int_equal(nseen, 3);
	e = nth(0, FT_KIND_pcie_aer);
	assert_int_equal(e->aer_class, 2);
	e = nth(1, FT_KIND_pcie_aer);
	assert_int_equal(e->aer_class, 0);
	/* the class was used up: unknown, not the last one */
	e = nth(2, FT_KIND_pcie_aer);
	assert_int_equal(e->aer_class, FT_NONE_U8);
	assert_int_equal(e->status, 0x1000);
}

/* --- floods --- */
static uint64_t sum_of(enum ft_kind kind)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < nseen; i++)
		if (seen[i].h.kind == kind)
			sum += seen[i].h.count;
	return sum;
}

/* One read of the whole: eight, and one that stands for the rest, with its times. */
static void test_flood_same(void **state)
{
	const struct ft_ev_dev_log *e;

	(void)state;
	for (int i = 0; i < 200; i++)
		line_at(10000000 + i, "mlx5_core 0000:f1:00.0: Link down");
	line_at(11000000, "mlx5_core 0000:f1:00.0: Link down");
	start();
	assert_int_equal(nseen, 10);
	assert_int_equal(sum_of(FT_KIND_dev_log), 201);
	e = nth(8, FT_KIND_dev_log);
	assert_int_equal(e->h.count, 192);
	assert_true(e->h.flags & FT_REC_AGG);
	assert_mono(e->h.first_ns, 10000008);
	assert_mono(e->h.last_ns, 10000199);
	assert_int_equal(e->h.ts_ns, e->h.last_ns);
	assert_int_equal(e->before, 1);
	e = nth(9, FT_KIND_dev_log);
	assert_int_equal(e->h.count, 1);
}

/* All different: what is not kept is counted, not forgotten. */
static void test_flood_different(void **state)
{
	const struct ft_ev_lost *lost;
	char text[96], of[32];

	(void)state;
	for (int i = 0; i < 200; i++) {
		ft_fmt(text, "NVRM: Xid (PCI:0000:13:00): 31, pid=%d, MMU Fault", i + 1);
		line_at(20000000 + i, text);
	}
	/* of another device: has its own share */
	line_at(20000999, "NVRM: Xid (PCI:0000:23:00): 79, GPU has fallen off the bus.");
	start();
	assert_int_equal(sum_of(FT_KIND_gpu_xid), 8 + 64 + 1);
	assert_int_equal(nseen, 8 + 64 + 1 + 1);
	lost = nth(nseen - 1, FT_KIND_lost);
	assert_int_equal(lost->records, 200 - 8 - 64);
	assert_int_equal(lost->total, 200 - 8 - 64);
	assert_string_equal(ft_str_copy(&lost->h, lost->of, of, sizeof(of)), "gpu.xid");
}

/* While following, what is held back comes within about a second without a further line. */
static void test_flood_followed(void **state)
{
	const struct ft_emit stop = { stop_loop, NULL };
	uint64_t sum = 0;

	(void)state;
	assert_int_equal(ft_klog_src_new(&src, NULL, loop, &stop, pci, machine_root), 0);
	ft_klog_src_drain(src);
	for (int i = 0; i < 100; i++)
		line_at(10000000 + i,
			"mlx5_core 0000:f1:00.0: reached... device's health compromised");
	while (sum < 100) {
		assert_int_equal(ft_loop_run(loop), 0);
		sum = sum_of(FT_KIND_dev_log);
	}
	assert_int_equal(sum, 100);
	assert_int_equal(nseen, 9);
	/* the reading of the count is now; it covers what was before */
	assert_true(seen[8].h.ts_ns > seen[8].h.last_ns);
}

/* --- the log itself --- */
/* Numbers tell what was overwritten: before the first line, and while it was read. */
static void test_gaps(void **state)
{
	const struct ft_ev_lost *lost;
	char text[64];

	(void)state;
	seq = 17;
	line_at(1000000, "x");
	seq += 5;
	line_at(2000000, "y");
	line_at(3000000, "z");
	assert_int_equal(ft_klog_src_new(&src, BPF, loop, &emit, pci, machine_root), 0);
	assert_int_equal(table[KMSG].state, FT_PROBE_ON);
	ft_fmt(text, "begins %llu h ",
	       (unsigned long long)(ft_mono_ns() / NSEC_PER_SEC - 1) / 3600);
	assert_memory_equal(table[KMSG].reason, text, strlen(text));
	assert_int_equal(nseen, 1);
	lost = nth(0, FT_KIND_lost);
	assert_int_equal(lost->records, 5);
	ft_klog_src_drain(src);
	seq += 2;
	line_at(4000000, "z");
	ft_klog_src_drain(src);
	lost = nth(1, FT_KIND_lost);
	assert_int_equal(lost->records, 2);
	assert_int_equal(lost->total, 7);
}

static void test_complete(void **state)
{
	(void)state;
	line_at(1000000, "x");
	assert_int_equal(ft_klog_src_new(&src, BPF, loop, &emit, pci, machine_root), 0);
	assert_int_equal(table[KMSG].state, FT_PROBE_ON);
	assert_string_equal(table[KMSG].reason, "");
	assert_int_equal(nseen, 0);
}

/* The row tells why there is no log; without one the call does. */
static void test_absent(void **state)
{
	struct ft_probe *row = &table[KMSG];

	(void)state;
	assert_int_equal(ft_klog_src_new(&src, BPF, loop, &emit, pci, "/nowhere"), 0);
	ft_klog_src_drain(src);
	assert_int_equal(row->state, FT_PROBE_OFF);
	assert_int_equal(row->error, -ENOENT);
	assert_string_equal(row->reason, "/dev/kmsg: No such file or directory");
	ft_klog_src_free(src);
	src = NULL;
	no_table = true;
	assert_int_equal(ft_klog_src_new(&src, BPF, loop, &emit, pci, "/nowhere"), -ENOENT);
	assert_int_equal(ft_klog_src_new(&src, NULL, loop, &emit, pci, "/nowhere"), -ENOENT);
	assert_null(src);
	ft_klog_src_drain(NULL);
}

/* --- the kernel's own events --- */
static void lines_of_all(void)
{
	line_at(8000000,
		"a 0000:13:00.0:   device [10de:2330] error status/mask=00000001/00000000");
	line_at(8000001, "pcieport 0000:12:00.0: pciehp: Slot(5): Link Down");
	line_at(8000002, "mlx5_core 0000:14:00.0 eth0: Link down");
	line_at(8000003, "pcieport 0000:12:00.0: AER: device recovery failed");
	line_at(8000004, "NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus.");
}

/* What the kernel side tells after the attach is not told again; what it does not tell, is. */
static void test_once(void **state)
{
	(void)state;
	table[AER].state = table[RTNETLINK].state = FT_PROBE_ON;
	lines_of_all();
	assert_int_equal(ft_klog_src_new(&src, BPF, loop, &emit, pci, machine_root), 0);
	ft_klog_src_drain(src);
	assert_int_equal(nseen, 5);
	nseen = 0;
	lines_of_all();
	ft_klog_src_drain(src);
	assert_int_equal(nseen, 3);
	nth(0, FT_KIND_pcie_hotplug);
	nth(1, FT_KIND_pcie_recovery);
	nth(2, FT_KIND_gpu_xid);
	/* another program is attached, and one is not any more */
	table[HOTPLUG].state = FT_PROBE_ON;
	table[AER].state = FT_PROBE_OFF;
	nseen = 0;
	lines_of_all();
	ft_klog_src_drain(src);
	assert_int_equal(nseen, 3);
	nth(0, FT_KIND_pcie_aer);
	nth(1, FT_KIND_pcie_recovery);
}

/* The events of a slot that are told, as bits, with that program attached. */
static unsigned int slot_told(int row)
{
	static const char *const words[] = { "Link Up", "Link Down", "Card present",
					     "Card not present" };
	unsigned int told = 0;

	for (int i = HOTPLUG; i <= HOTPLUG_ALL; i++)
		table[i].state = i == row ? FT_PROBE_ON : FT_PROBE_OFF;
	nseen = 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		char text[96];

		ft_fmt(text, "pcieport 0000:12:00.0: pciehp: Slot(5): %s", words[i]);
		line_at(8000000, text);
	}
	ft_klog_src_drain(src);
	for (size_t i = 0; i < nseen; i++)
		told |= 1u
			<< ((const struct ft_ev_pcie_hotplug *)nth(i, FT_KIND_pcie_hotplug))->event;
	return told;
}

/* Each program of the kernel side has its own events: of the others the log tells. */
static void test_slots_once(void **state)
{
	(void)state;
	assert_int_equal(ft_klog_src_new(&src, BPF, loop, &emit, pci, machine_root), 0);
	ft_klog_src_drain(src);
	assert_int_equal(slot_told(-1), 0xf);
	assert_int_equal(slot_told(HOTPLUG), 1 << FT_KLOG_SLOT_UP | 1 << FT_KLOG_SLOT_PRESENT);
	assert_int_equal(slot_told(HOTPLUG_KPROBE),
			 1 << FT_KLOG_SLOT_UP | 1 << FT_KLOG_SLOT_PRESENT);
	assert_int_equal(slot_told(HOTPLUG_UP), 0xf & ~(1 << FT_KLOG_SLOT_UP));
	assert_int_equal(slot_told(HOTPLUG_ALL), 0);
}

/* Whoever may write to /dev/kmsg gets facility 1, whatever is asked for: never believed. */
static void test_forged(void **state)
{
	static const char *const lines[] = {
		"<3>NVRM: Xid (PCI:0000:13:00): 79, pid=1, ft-forged\n",
		"<0>NVRM: GPU 0000:13:00.0: ft-forged has fallen off the bus.\n",
		"<3>mlx5_core 0000:14:00.0: ft-forged: device's health compromised\n",
		"pcieport 0000:12:00.0: pciehp: Slot(ft-forged): Link Down\n DEVICE=+pci:0000:12:00.0\n",
	};
	int fd = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	_cleanup_buf_ struct ft_buf json = {};

	(void)state;
	if (fd < 0)
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_int_equal(write(fd, lines[i], strlen(lines[i])), strlen(lines[i]));
	close(fd);
	assert_int_equal(ft_klog_src_new(&src, NULL, loop, &emit, pci, ""), 0);
	ft_klog_src_drain(src);
	for (size_t i = 0; i < nseen; i++)
		ft_json_data(&json, &seen[i].h);
	if (json.s && strstr(json.s, "ft-forged"))
		fail_msg("believed: %s", json.s);
}

/* --- its clock --- */
/* A line that is written now has the time of now. */
static void test_clock(void **state)
{
	static const char text[] = "ft-clock: a test of fabrictrace\n";
	_cleanup_close_ int in = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC), out = -1;
	struct klog_clock c = { 1, 2 };
	struct ft_klog_fact f = {};
	uint64_t from, to, ns;
	char line[FT_KLOG_LINE + 1] = "";

	(void)state;
	out = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	if (in < 0 || out < 0 || klog_clock_read(&c))
		skip();
	lseek(in, 0, SEEK_END);
	from = ft_mono_ns();
	assert_int_equal(write(out, text, strlen(text)), strlen(text));
	to = ft_mono_ns();
	while (!strstr(line, "ft-clock")) {
		ssize_t n = read(in, line, FT_KLOG_LINE);

		assert_true(n > 0 || errno == EPIPE);
		line[MAX(n, 0)] = 0;
		assert_int_equal(ft_klog_parse(line, strlen(line), &f), 0);
	}
	ns = klog_clock_mono(&c, f.usec);
	assert_in_range(ns, from - NSEC_PER_MSEC, to + NSEC_PER_MSEC);
}

static void test_clock_mono(void **state)
{
	struct klog_clock c = { .log_ns = 1000 * NSEC_PER_SEC, .mono_ns = 1001 * NSEC_PER_SEC };

	(void)state;
	assert_int_equal(klog_clock_mono(&c, 1000000000), 1001 * NSEC_PER_SEC);
	assert_int_equal(klog_clock_mono(&c, 500000000), 500500 * NSEC_PER_MSEC);
	assert_int_equal(klog_clock_mono(&c, 0), 0);
	c = (struct klog_clock){};
	assert_int_equal(klog_clock_mono(&c, 500000000), 500 * NSEC_PER_SEC);
	assert_int_equal(klog_clock_mono(&c, UINT64_MAX), UINT64_MAX);
}

/* --- records --- */
static void assert_json(const struct ft_klog_fact *f, bool before, const char *below,
			const char *want)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_rec rec;

	klog_rec(f, 7, before, below, &rec);
	assert_int_equal(ft_rec_check(&rec, rec.h.size), 0);
	assert_int_equal(!!(rec.h.flags & FT_REC_BEFORE), before);
	ft_json_data(&b, &rec.h);
	if (!strstr(b.s, want))
		fail_msg("%s\nis not in %s", want, b.s);
}

static void test_records(void **state)
{
	struct ft_klog_fact f = {
		.kind = FT_KIND_pcie_aer, .what = 2, .status = 0x1041, .bdf = "0000:01:00.0"
	};

	(void)state;
	assert_json(&f, true, "", "\"errors\":[\"RxErr\",\"BadTLP\",\"Timeout\"]");
	assert_json(&f, true, "", "\"aer_class\":\"correctable\",\"before\":true");
	f.what = 0;
	assert_json(&f, false, "", "\"errors\":[\"Undefined\",\"bit 6\",\"TLP\"]");
	f.what = FT_NONE_U8;
	assert_json(&f, false, "", "\"errors\":[]");
	f = (struct ft_klog_fact){ .kind = FT_KIND_pcie_aer, .what = 1, .status = FT_NONE_U32 };
	ft_strcpy(f.text, "Inaccessible", sizeof(f.text));
	assert_json(&f, true, "", "\"errors\":[\"Inaccessible\"]");
	assert_json(&f, true, "", "\"status\":null");
	f = (struct ft_klog_fact){ .kind = FT_KIND_pcie_hotplug, .what = 1, .slot = "5" };
	assert_json(&f, true, "0000:41:00.0", "\"event\":\"link down\",\"before\":true");
	assert_json(&f, true, "0000:41:00.0", "\"device\":\"0000:41:00.0\",\"slot\":\"5\"");
	f = (struct ft_klog_fact){ .kind = FT_KIND_pcie_recovery, .status = 0x1f07 };
	assert_json(&f, true, "", "\"result\":\"contained by DPC\"");
	f = (struct ft_klog_fact){ .kind = FT_KIND_gpu_xid, .xid = 79, .pid = FT_NONE_U32 };
	assert_json(&f, true, "", "\"xid\":79,\"of_pid\":null");
	f = (struct ft_klog_fact){ .kind = FT_KIND_dev_log, .what = 2, .driver = "mlx5_core" };
	assert_json(&f, true, "", "\"what\":\"insufficient power\"");
	/* the kernel escapes them itself; nobody relies on that */
	ft_strcpy(f.text, "\x1b[2J\r\n\xff", sizeof(f.text));
	assert_json(&f, true, "", "\"text\":\"\\u001b[2J\\u000d\\u000a\\ufffd\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_before, setup, teardown),
		cmocka_unit_test_setup_teardown(test_after, setup, teardown),
		cmocka_unit_test_setup_teardown(test_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_devices, setup, teardown),
		cmocka_unit_test_setup_teardown(test_aer_mixed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood_same, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood_different, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flood_followed, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gaps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_complete, setup, teardown),
		cmocka_unit_test_setup_teardown(test_absent, setup, teardown),
		cmocka_unit_test_setup_teardown(test_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_slots_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_clock_mono),
		cmocka_unit_test(test_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

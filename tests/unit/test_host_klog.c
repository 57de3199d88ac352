// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Lines of /dev/kmsg in the spellings of the drivers and kernels, and lines that only look so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "host/klog.h"
#include "klog_fixture.h"

#define NONE	 FT_NONE_U32
#define PCI(bdf) "\n SUBSYSTEM=pci\n DEVICE=+pci:" bdf "\n"

enum { NONFATAL, FATAL, CORRECTABLE, NO_CLASS = FT_NONE_U8 };

static const struct {
	const char *line;
	uint16_t kind; /* 0: says nothing */
	uint8_t what, part;
	const char *bdf;
	uint32_t status, xid, pid;
	const char *text; /* NULL: not looked at */
} rows[] = {
	/* NVIDIA: kernel_rc.c, with and without process, MIG, and before "PCI:" */
	{ "3,1,2,-;NVRM: Xid (PCI:0000:41:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n",
	  FT_KIND_gpu_xid, 0, 0, "0000:41:00.0", NONE, 79, 1234,
	  "pid=1234, name=python, GPU has fallen off the bus." },
	{ "3,1,2,-;NVRM: Xid (PCI:0000:3B:00): 48, pid='<unknown>', name=<unknown>, DBE\n",
	  FT_KIND_gpu_xid, 0, 0, "0000:3b:00.0", NONE, 48, NONE, NULL },
	{ "4,1,2,-;NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.\n", FT_KIND_gpu_xid,
	  0, 0, "0000:41:00.0", NONE, 79, NONE, "GPU has fallen off the bus." },
	{ "3,1,2,-;NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:02): 94, pid=7194, Contained: CE\n",
	  FT_KIND_gpu_xid, 0, 0, "0000:01:00.0", NONE, 94, 7194, NULL },
	{ "3,1,2,-;NVRM: Xid (0000:af:00): 48, Ch 8\n", FT_KIND_gpu_xid, 0, 0, "0000:af:00.0", NONE,
	  48, NONE, "Ch 8" },
	{ "3,1,2,-;NVRM: Xid (PCI:10000:01:00): 31, pid='77', name=a, MMU Fault\n", FT_KIND_gpu_xid,
	  0, 0, "10000:01:00.0", NONE, 31, 77, NULL },
	{ "3,1,2,-;NVRM: GPU 0000:41:00.0: GPU has fallen off the bus.\n", FT_KIND_dev_log, 0, 0,
	  "0000:41:00.0", NONE, NONE, NONE, "GPU 0000:41:00.0: GPU has fallen off the bus." },
	{ "3,1,2,-;NVRM: The NVIDIA GPU 0000:0e:00.0\\x0aNVRM: (PCI ID: 10de:2330) installed in this "
	  "system has\\x0aNVRM: fallen off the bus and is not responding to commands.\n",
	  FT_KIND_dev_log, 0, 0, "0000:0e:00.0", NONE, NONE, NONE, NULL },
	{ "3,1,2,-;NVRM: GPU at PCI:0000:41:00 has fallen off the bus\n", FT_KIND_dev_log, 0, 0,
	  "0000:41:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;NVRM: GPU at PCI:0000:41:00: GPU-e11dfcca-7c93-959a-b8fd-5cfe0839b163\n", 0, 0,
	  0, "", 0, 0, 0, NULL },
	{ "3,1,2,-;nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 20009, Non-fatal, Link 28 RX Short\n",
	  FT_KIND_dev_log, 5, 0, "0000:06:00.0", NONE, NONE, NONE, NULL },
	/* mlx5: 5.10 with pid, later ones */
	{ "3,1,2,-;mlx5_core 0000:0d:00.0: poll_health:801:(pid 0): device's health compromised - "
	  "reached miss count" PCI("0000:0d:00.0"),
	  FT_KIND_dev_log, 1, 0, "0000:0d:00.0", NONE, NONE, NONE, NULL },
	{ "3,1,2,-;mlx5_core 0000:0d:00.0: print_health_info:431:(pid 0): Health issue observed, "
	  "firmware internal error, severity(3) ERROR:\n",
	  FT_KIND_dev_log, 1, 0, "0000:0d:00.0", NONE, NONE, NONE, NULL },
	{ "3,1,2,-;mlx5_core 0000:0d:00.0: print_health_info:435:(pid 0): assert_var[0] 0x0521945b\n",
	  0, 0, 0, "", 0, 0, 0, NULL },
	{ "3,1,2,-;mlx5_core 0000:0d:00.0: print_health_info:450:(pid 0): synd 0x1: firmware internal "
	  "error\n",
	  FT_KIND_dev_log, 1, 0, "0000:0d:00.0", NONE, NONE, NONE, NULL },
	{ "3,1,2,-;mlx5_core 0000:0d:00.0: print_health_info:451:(pid 0): ext_synd 0x8d19\n", 0, 0,
	  0, "", 0, 0, 0, NULL },
	{ "3,1,2,-;mlx5_core 0000:0d:00.0: poll_health:770:(pid 0): Fatal error 3 detected\n",
	  FT_KIND_dev_log, 1, 0, "0000:0d:00.0", NONE, NONE, NONE, NULL },
	{ "3,1,2,-;mlx5_core 0000:0d:00.0: x:7:(pid 9): Fatal error during resize\n", 0, 0, 0, "",
	  0, 0, 0, NULL },
	{ "4,1,2,-;mlx5_core 0000:5c:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient "
	  "power on the PCIe slot (27W).\n",
	  FT_KIND_dev_log, 2, 0, "0000:5c:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;mlx5_core 0000:5c:00.0: mlx5_pcie_event:304:(pid 1): PCIe slot advertised "
	  "sufficient power (75W).\n",
	  0, 0, 0, "", 0, 0, 0, NULL },
	{ "3,1,2,-;mlx5_core 0000:5c:00.0: port_module:251:(pid 0): Port module event[error]: module "
	  "0, Cable error, High Temperature\n",
	  FT_KIND_dev_log, 5, 0, "0000:5c:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;mlx5_core 0000:42:00.0 eth2: Link down" PCI("0000:42:00.0"), FT_KIND_dev_log, 4,
	  0, "0000:42:00.0", NONE, NONE, NONE, "Link down" },
	{ "6,1,2,-;mlx5_core 0000:42:00.0 eth2: Link up\n", 0, 0, 0, "", 0, 0, 0, NULL },
	{ "3,1,2,-;bnxt_en 0000:42:00.0 eth0: NIC Link is Down\n", FT_KIND_dev_log, 4, 0,
	  "0000:42:00.0", NONE, NONE, NONE, NULL },
	/* PCI core */
	{ "6,1,2,-;pci 0000:05:00.0: 4.000 Gb/s available PCIe bandwidth, limited by 5.0 GT/s PCIe "
	  "x1 link at 0000:00:1c.1 (capable of 7.876 Gb/s with 8.0 GT/s PCIe x1 link)\n",
	  FT_KIND_dev_log, 3, 0, "0000:05:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;mlx5_core 0000:42:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 "
	  "link)\n",
	  0, 0, 0, "", 0, 0, 0, NULL },
	{ "3,1,2,-;nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device "
	  "inaccessible\n",
	  FT_KIND_dev_log, 0, 0, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:00:01.1: broken device, retraining non-functional downstream link "
	  "at 2.5GT/s\n",
	  FT_KIND_dev_log, 5, 0, "0000:00:01.1", NONE, NONE, NONE, NULL },
	/* AER up to 6.6 and later; the middle line is the same in all */
	{ "6,1,2,-;pcieport 0000:00:01.0: AER: Corrected error received: 0000:01:00.0\n",
	  FT_KIND_pcie_aer, CORRECTABLE, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE,
	  NULL },
	{ "6,1,2,-;pcieport 0000:00:01.0: AER: Multiple Uncorrected (Non-Fatal) error received: "
	  "0000:01:00.0\n",
	  FT_KIND_pcie_aer, NONFATAL, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:00:01.0: AER: Uncorrectable (Fatal) error message received from "
	  "0000:01:00.0\n",
	  FT_KIND_pcie_aer, FATAL, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:00:01.0: AER: Correctable error message received from 0000:02:00.0 "
	  "(no details found)\n",
	  FT_KIND_pcie_aer, CORRECTABLE, FT_KLOG_WHOLE, "0000:02:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:00:1c.5: AER: found no error details for 0000:02:00.0\n",
	  FT_KIND_pcie_aer, NO_CLASS, FT_KLOG_WHOLE, "0000:02:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:00:1c.5: AER: can't find device of ID02e5\n", FT_KIND_pcie_aer,
	  NO_CLASS, FT_KLOG_WHOLE, "0000:02:1c.5", NONE, NONE, NONE, NULL },
	{ "4,1,2,-;e1000e 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, "
	  "(Receiver ID)" PCI("0000:01:00.0"),
	  FT_KIND_pcie_aer, CORRECTABLE, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE,
	  NULL },
	{ "3,1,2,-;mlx5_core 0000:01:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), "
	  "type=Transaction Layer, (Receiver ID)\n",
	  FT_KIND_pcie_aer, NONFATAL, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "3,1,2,-;cxl_pci 0000:01:00.0: AER: CXL Bus Error: severity=Uncorrectable (Fatal), "
	  "type=Transaction Layer, (Receiver ID)\n",
	  FT_KIND_pcie_aer, FATAL, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "3,1,2,-;nvidia 0000:01:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), "
	  "type=Inaccessible, (Unregistered Agent ID)\n",
	  FT_KIND_pcie_aer, FATAL, FT_KLOG_WHOLE, "0000:01:00.0", NONE, NONE, NONE,
	  "Inaccessible" },
	{ "4,1,2,-;pcieport 0000:00:01.0:   device [8086:2030] error status/mask=00001041/00002001" PCI(
		  "0000:00:01.0"),
	  FT_KIND_pcie_aer, NO_CLASS, FT_KLOG_WHOLE, "0000:00:01.0", 0x1040, NONE, NONE, NULL },
	{ "4,1,2,-;pcieport 0000:00:01.0:    [ 0] RxErr                 \n", 0, 0, 0, "", 0, 0, 0,
	  NULL },
	{ "3,1,2,-;pcieport 0000:00:1d.0: AER:   TLP Header: 34000000 05000010 00000000 88458845\n",
	  0, 0, 0, "", 0, 0, 0, NULL },
	{ "6,1,2,-;pcieport 0000:a9:10.0: AER: device recovery successful\n", FT_KIND_pcie_recovery,
	  2, 0, "0000:a9:10.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:a9:10.0: AER: device recovery failed\n", FT_KIND_pcie_recovery, 3,
	  0, "0000:a9:10.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;nvidia 0000:01:00.0: AER: can't recover (no error_detected callback)\n",
	  FT_KIND_pcie_recovery, 3, 0, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:64:02.0: DPC: containment event, status:0x1f07 source:0x0000\n",
	  FT_KIND_pcie_recovery, 0, 0, "0000:64:02.0", 0x1f07, NONE, NONE, NULL },
	{ "4,1,2,-;pcieport 0000:00:01.0: DPC: containment event, status:0x0009: unmasked "
	  "uncorrectable error detected\n",
	  FT_KIND_pcie_recovery, 0, 0, "0000:00:01.0", 0x9, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(5): Link Up\n", FT_KIND_pcie_hotplug, 0, 0,
	  "0000:40:01.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(5): Link Down\n", FT_KIND_pcie_hotplug, 1, 0,
	  "0000:40:01.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(0-2): Card present\n", FT_KIND_pcie_hotplug,
	  2, 0, "0000:40:01.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(5): Card not present\n",
	  FT_KIND_pcie_hotplug, 3, 0, "0000:40:01.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(5): Link Down/Up ignored (recovered by DPC)\n",
	  0, 0, 0, "", 0, 0, 0, NULL },
	/* 7.3, as a guest printed it */
	{ "6,1,2,-;pcieport 0000:00:03.0: AER: Multiple Uncorrectable (Non-Fatal) Error message "
	  "received from 0000:01:00.0" PCI("0000:00:03.0"),
	  FT_KIND_pcie_aer, NONFATAL, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "4,1,2,-;virtio-pci 0000:01:00.0: PCIe Bus Error: severity=Correctable" PCI(
		  "0000:01:00.0"),
	  FT_KIND_pcie_aer, CORRECTABLE, FT_KLOG_AER_CLASS, "0000:01:00.0", NONE, NONE, NONE,
	  NULL },
	{ "3,1,2,-;virtio-pci 0000:01:00.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal) "
	  "(Inaccessible)" PCI("0000:01:00.0"),
	  FT_KIND_pcie_aer, FATAL, FT_KLOG_WHOLE, "0000:01:00.0", NONE, NONE, NONE,
	  "Inaccessible" },
	{ "6,1,2,-;virtio-pci 0000:01:00.0: AER: can't recover (state transition 1 -> 3 invalid)\n",
	  FT_KIND_pcie_recovery, 3, 0, "0000:01:00.0", NONE, NONE, NONE, NULL },
	{ "6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(5): Link Down/Up ignored\n", 0, 0, 0, "", 0,
	  0, 0, NULL },
	/* firmware first */
	{ "3,1,2,-;nvidia 0000:01:00.0: AER: aer_status: 0x00000041, aer_mask: 0x00002001\n",
	  FT_KIND_pcie_aer, NO_CLASS, FT_KLOG_WHOLE, "0000:01:00.0", 0x40, NONE, NONE, NULL },
	/* kernels with CONFIG_PRINTK_CALLER, and continuation lines */
	{ "3,1,2,c,caller=T99;NVRM: Xid (PCI:0000:41:00): 13, Graphics\n", FT_KIND_gpu_xid, 0, 0,
	  "0000:41:00.0", NONE, 13, NONE, NULL },
};

static void check_row(size_t i)
{
	struct ft_klog_fact f;
	char line[1024];

	klog_tagged(rows[i].line, line, sizeof(line));
	assert_int_equal(ft_klog_parse(line, strlen(line), &f), 0);
	if (f.kind != rows[i].kind || f.what != rows[i].what || f.part != rows[i].part ||
	    strcmp(f.bdf, rows[i].bdf) || f.status != rows[i].status || f.xid != rows[i].xid ||
	    f.pid != rows[i].pid)
		fail_msg("%s -> kind %u what %u part %u bdf %s status %x xid %u pid %u",
			 rows[i].line, f.kind, f.what, f.part, f.bdf, f.status, f.xid, f.pid);
	assert_int_equal(f.seq, 1);
	assert_int_equal(f.usec, 2);
	if (rows[i].text)
		assert_string_equal(f.text, rows[i].text);
}

static void test_spellings(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		check_row(i);
}

/* The same lines with every other facility: user space can write those. */
static void test_facility(void **state)
{
	char line[1024];
	struct ft_klog_fact f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (int facility = 1; facility < 32; facility++) {
			ft_fmt(line, "%d%s", facility << 3 | (rows[i].line[0] - '0'),
			       rows[i].line + 1);
			assert_int_equal(ft_klog_parse(line, strlen(line), &f), 0);
			assert_int_equal(f.kind, 0);
			assert_int_equal(f.seq, 1);
		}
	}
}

/* Kernel lines that carry texts of others, and lines that are cut, swollen or upside down. */
static void test_hostile(void **state)
{
	static const char *const lines[] = {
		/* names of processes and files that imitate a driver, as a fault of theirs is told */
		"6,1,2,-;NVRM: x[77]: segfault at 0 ip 0 sp 0 error 6 in Xid (PCI:0000:41:00): 79, pid=7, "
		"GPU has fallen off the bus.[116a,1]",
		"6,1,2,-;x 0000:41:00.0:[77]: segfault at 0 in Card (config space inaccessible)[0+1]",
		"6,1,2,-;x 0000:41:00.0:[77]: segfault at 0 in AER: device recovery failed[0+1]",
		"6,1,2,-;ice 0:41:0.0:[77]: segfault at 0 in Critical FW error[0+1]",
		"6,1,2,-;NVRM: GPU 0:4:0[77]: segfault at 0 in fallen off the bus[0+1]",
		"6,1,2,-;NVRM: Xid (PCI:[77]: segfault at 0 ip 0 sp 0 error 4 in a[0+1000]",
		"6,1,2,-;NVRM: GPU 0000:[77]: segfault at 0 ip 0 in 0000:41:00.0 fallen off the bus",
		"6,1,2,-;mlx5_core 0000:[77]: segfault at 0 ip 0 in 0000:42:00.0: Link down[0+1]",
		"6,1,2,-;x[77]: segfault in NVRM: Xid (PCI:0000:41:00): 79, pid=1[0+1]",
		"6,1,2,-;audit: comm=\"pcieport 0000:00:01.0: AER: device recovery failed\"",
		"6,1,2,-;x 0000:00:01.0",
		"6,1,2,-;x 0000:00:01.0:",
		"6,1,2,-; 0000:00:01.0: AER: device recovery failed",
		"6,1,2,-;a-driver-with-a-long-name 0000:00:01.0: AER: device recovery failed",
		/* addresses that are none */
		"3,1,2,-;NVRM: Xid (PCI:0000:41): 79, a",
		"3,1,2,-;NVRM: Xid (PCI:0000:41:20): 79, a",
		"3,1,2,-;NVRM: Xid (PCI:0000:41:00.8): 79, a",
		"3,1,2,-;NVRM: Xid (PCI:000000000:41:00): 79, a",
		"3,1,2,-;NVRM: Xid (PCI:1000000:41:00): 79, a",
		"3,1,2,-;NVRM: Xid (PCI:0000:041:00): 79, a",
		"3,1,2,-;NVRM: Xid (PCI:0000:41:00",
		"3,1,2,-;NVRM: Xid (PCI:0000:41:00): ",
		"3,1,2,-;NVRM: Xid (PCI:0000:41:00): 4294967295, a",
		"3,1,2,-;NVRM: Xid (PCI:0000:41:00): 99999999999999999999999, a",
		"3,1,2,-;NVRM: Xid (",
		"4,1,2,-;pcieport 0000:00:01.0:   device [8086:2030] error status/mask=",
		"4,1,2,-;pcieport 0000:00:01.0:   device [8086:2030] error status/mask=1",
		"4,1,2,-;pcieport 0000:00:01.0:   device [8086:2030] error status/mask=1/",
		"6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(",
		"6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(5",
		"6,1,2,-;pcieport 0000:40:01.0: pciehp: Slot(5): ",
		"6,1,2,-;pcieport 0000:40:01.0: DPC: containment event, status:0x",
		"6,1,2,-;pcieport 0000:40:01.0: AER: Corrected error received: ",
		"6,1,2,-;",
		"6,1,2,;",
	};
	static const char *const bad[] = {
		"",
		"6",
		"6,",
		"6,1",
		"6,1,",
		"6,1,2",
		"6,1,2,",
		"6,1,2,-",
		"6,1,2,-\n",
		";;;;",
		"-1,1,2,-;",
		"6,-1,2,-;",
		",,,;",
		"6 1 2 -;",
		"6,1,2;a,-",
		"6,18446744073709551616,2,-;a",
		"6,1,99999999999999999999,-;a",
	};
	struct ft_klog_fact f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		assert_int_equal(ft_klog_parse(lines[i], strlen(lines[i]), &f), 0);
		if (f.kind)
			fail_msg("%s -> kind %u bdf %s", lines[i], f.kind, f.bdf);
	}
	memset(&f, 0x55, sizeof(f));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(ft_klog_parse(bad[i], strlen(bad[i]), &f), -EBADMSG);
		assert_int_equal(f.kind, 0x5555); /* untouched */
	}
}

/* Every beginning of every line, without a byte behind it. */
static void test_cut(void **state)
{
	struct ft_klog_fact f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t n = 0; n <= strlen(rows[i].line); n++) {
			char *part = malloc(n ? n : 1);

			memcpy(part, rows[i].line, n);
			(void)ft_klog_parse(part, n, &f);
			free(part);
		}
	}
}

/* The device is the one that the kernel names; without it the line may be of anybody. */
static void test_device(void **state)
{
	static const struct {
		const char *line, *bdf;
	} tags[] = {
		{ "6,1,2,-;mlx5_core 0000:42:00.0: Link down\n SUBSYSTEM=pci\n DEVICE=+pci:0000:43:00.1\n",
		  "0000:43:00.1" },
		{ "6,1,2,-;mlx5_core 0000:42:00.0: Link down\n DEVICE=+pci:0000:43:00.1",
		  "0000:43:00.1" },
		{ "6,1,2,-;mlx5_core 0000:42:00.0: Link down\n DEVICE=n3\n", "" },
		{ "6,1,2,-;mlx5_core 0000:42:00.0: Link down\n DEVICE=+pci:0000:43:00.1x\n", "" },
		{ "6,1,2,-;mlx5_core 0000:42:00.0: Link down\nDEVICE=+pci:0000:43:00.1\n", "" },
		{ "6,1,2,-;mlx5_core 0000:42:00.0: Link down DEVICE=+pci:0000:43:00.1\n", "" },
	};
	struct ft_klog_fact f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(tags); i++) {
		assert_int_equal(ft_klog_parse(tags[i].line, strlen(tags[i].line), &f), 0);
		assert_int_equal(f.kind, tags[i].bdf[0] ? FT_KIND_dev_log : 0);
		assert_string_equal(f.bdf, tags[i].bdf);
	}
}

/* The longest line that the kernel gives: the text is cut, the device is not lost. */
static void test_long(void **state)
{
	static const char head[] = "3,1,2,-;NVRM: Xid (PCI:0000:41:00): 31, pid=5, ";
	static char line[FT_KLOG_LINE];
	struct ft_klog_fact f;

	(void)state;
	memset(line, 'x', sizeof(line));
	memcpy(line, head, strlen(head));
	assert_int_equal(ft_klog_parse(line, sizeof(line), &f), 0);
	assert_int_equal(f.xid, 31);
	assert_int_equal(strlen(f.text), FT_KLOG_TEXT - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spellings), cmocka_unit_test(test_facility),
		cmocka_unit_test(test_hostile),	  cmocka_unit_test(test_cut),
		cmocka_unit_test(test_device),	  cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

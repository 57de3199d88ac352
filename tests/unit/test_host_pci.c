// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fixtures/machine.h"
#include "host/pci.h"

#define ANSWER_MS 2000

static int hgx(void **state)
{
	if (machine_new(state))
		return -1;
	machine_hgx();
	return 0;
}

static void assert_link(struct ft_pci_link l, uint32_t gen, uint32_t width)
{
	assert_int_equal(l.gen, gen);
	assert_int_equal(l.width, width);
}

static void test_gen(void **state)
{
	static const struct {
		const char *text;
		uint32_t gen;
	} rows[] = {
		{ "2.5 GT/s PCIe", 1 },
		{ "5.0 GT/s PCIe", 2 },
		{ "5 GT/s", 2 },
		{ "8.0 GT/s PCIe", 3 },
		{ "8 GT/s", 3 },
		{ "16.0 GT/s PCIe\n", 4 },
		{ "32.0 GT/s PCIe", 5 },
		{ "64.0 GT/s PCIe", 6 },
		{ "Unknown", FT_NONE_U32 },
		{ "Unknown speed", FT_NONE_U32 },
		{ "", FT_NONE_U32 },
		{ "25 GT/s", FT_NONE_U32 },
		{ "0 GT/s", FT_NONE_U32 },
		{ "5.01 GT/s", FT_NONE_U32 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(ft_pci_gen(rows[i].text), rows[i].gen);
}

static void test_gbytes(void **state)
{
	const struct ft_pci_link none = { FT_NONE_U32, 16 };
	char text[32];

	(void)state;
	assert_int_equal(ft_pci_gbytes((struct ft_pci_link){ 5, 16 }) * 10, 630);
	assert_int_equal(ft_pci_gbytes((struct ft_pci_link){ 3, 8 }) * 10, 78);
	assert_int_equal(ft_pci_gbytes((struct ft_pci_link){ 1, 1 }) * 100, 25);
	assert_true(ft_pci_gbytes(none) == 0);
	assert_string_equal(ft_pci_link_text(none, text), "Gen? x16");
	assert_string_equal(ft_pci_link_text((struct ft_pci_link){ FT_NONE_U32, FT_NONE_U32 },
					     text),
			    "unknown");
	assert_string_equal(ft_pci_link_text((struct ft_pci_link){ 5, 16 }, text), "Gen5 x16");
}

static const struct ft_pci_dev *dev(const struct ft_pci *p, const char *bdf)
{
	const struct ft_pci_dev *d = ft_pci_find(p, bdf);

	assert_non_null(d);
	return d;
}

static void test_tree(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;
	int gpus = 0, nics = 0;

	(void)state;
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);
	for (size_t i = 0; i < p->n; i++) {
		gpus += p->v[i].role == FT_PCI_GPU;
		nics += p->v[i].role == FT_PCI_NIC;
	}
	assert_int_equal(gpus, 8);
	assert_int_equal(nics, 9);
	assert_int_equal(dev(p, "0000:01:00.0")->role, FT_PCI_OTHER);
	assert_false(dev(p, "0000:00:1c.0")->on_path);
	assert_int_equal(dev(p, "0000:43:00.0")->depth, 3);
	assert_string_equal(p->v[dev(p, "0000:43:00.0")->parent].bdf, "0000:42:00.0");
	assert_int_equal(dev(p, "0000:83:00.0")->numa, 1);
	assert_null(ft_pci_find(p, "0000:ff:00.0"));
	assert_ptr_equal(ft_pci_gpu(p, 3), dev(p, "0000:43:00.0"));
	assert_string_equal(ft_pci_gpu(p, 3)->gpu_name, "NVIDIA H100 80GB HBM3");
	assert_string_equal(ft_pci_gpu(p, 3)->gpu_uuid, "GPU-00000003-aaaa-bbbb-cccc-dddddddddddd");
	assert_null(ft_pci_gpu(p, FT_NONE_S32));
}

static void test_paths(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;
	struct ft_pci_hop hops[FT_PCI_HOPS];
	struct ft_pci_path sum;

	(void)state;
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);

	/* healthy: two links, the one inside the switch is none */
	assert_int_equal(ft_pci_path(p, ft_pci_gpu(p, 0), hops, FT_PCI_HOPS), 2);
	assert_string_equal(hops[0].port->bdf, "0000:12:00.0");
	assert_string_equal(hops[0].device->bdf, "0000:13:00.0");
	assert_string_equal(hops[1].port->bdf, "0000:10:01.0");
	assert_string_equal(hops[1].device->bdf, "0000:11:00.0");
	ft_pci_path_sum(p, ft_pci_gpu(p, 0), &sum);
	assert_link(sum.now, 5, 16);
	assert_link(sum.possible, 5, 16);
	assert_false(sum.below);

	/* Gen3 x8 on a Gen5 x16 path */
	ft_pci_path_sum(p, ft_pci_gpu(p, 3), &sum);
	assert_link(sum.now, 3, 8);
	assert_link(sum.possible, 5, 16);
	assert_true(sum.below);
	assert_string_equal(sum.slowest.device->bdf, "0000:43:00.0");

	/* A Gen5 card in a Gen4 port runs as it can. */
	ft_pci_path_sum(p, ft_pci_gpu(p, 5), &sum);
	assert_link(sum.now, 4, 16);
	assert_link(sum.possible, 4, 16);
	assert_false(sum.below);

	/* The switch's uplink limits both GPU 2 and NIC 2. */
	ft_pci_path_sum(p, ft_pci_gpu(p, 2), &sum);
	assert_link(sum.now, 4, 16);
	assert_string_equal(sum.slowest.device->bdf, "0000:31:00.0");
	assert_true(sum.below);
	ft_pci_path_sum(p, dev(p, "0000:34:00.0"), &sum);
	assert_string_equal(sum.slowest.device->bdf, "0000:31:00.0");
}

static void test_unknown(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;
	struct ft_pci_path sum;

	(void)state;
	put("/sys/bus/pci/devices/0000:14:00.1/power/runtime_status", "suspended\n");
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);

	/* All ones: gone, not Gen6 x63. */
	assert_true(ft_pci_gpu(p, 6)->gone);
	ft_pci_path_sum(p, ft_pci_gpu(p, 6), &sum);
	assert_link(sum.now, FT_NONE_U32, FT_NONE_U32);
	assert_link(sum.possible, FT_NONE_U32, FT_NONE_U32);
	assert_false(sum.below);

	/* Asleep: not woken up for our sake. */
	assert_int_equal(dev(p, "0000:84:00.0")->error, -EHOSTDOWN);

	/* A virtual function has its physical function's link, and is not asked for one. */
	assert_int_equal(dev(p, "0000:14:00.1")->error, 0);
	ft_pci_path_sum(p, dev(p, "0000:14:00.1"), &sum);
	assert_link(sum.now, 5, 16);
}

static int pci_lines, gpu_lines, host_lines;
static char serves_31[256], last_serves[16];

static void count(void *ctx, struct ft_hdr *ev)
{
	const struct ft_ev_inv_pci *e = (const void *)ev;
	char bdf[16];

	(void)ctx;
	assert_int_equal(ft_rec_check(ev, ev->size), 0);
	pci_lines += ev->kind == FT_KIND_inv_pci;
	gpu_lines += ev->kind == FT_KIND_inv_gpu;
	host_lines += ev->kind == FT_KIND_inv_host;
	if (ev->kind == FT_KIND_inv_pci)
		ft_str_copy(ev, e->serves, last_serves, sizeof(last_serves));
	if (ev->kind == FT_KIND_inv_pci && ft_str_is(ev, e->device, "0000:31:00.0")) {
		assert_true(ft_str_is(ev, e->port, "0000:30:01.0"));
		assert_int_equal(e->now__gen, 4);
		assert_int_equal(e->possible__gen, 5);
		strcat(strcat(serves_31, ft_str_copy(ev, e->serves, bdf, sizeof(bdf))), " ");
	}
}

static void test_emit(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;

	(void)state;
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);
	ft_pci_emit(p, 1, count, NULL);
	assert_int_equal(pci_lines,
			 2 * 17); /* two links for each of 8 GPUs, 8 NICs, 1 virtual function */
	/* which is the last, so that it takes nobody's place */
	assert_string_equal(last_serves, "0000:14:00.1");
	assert_int_equal(gpu_lines, 8);
	assert_int_equal(host_lines, 2); /* GPU 6 gone, NIC 7 asleep */
	assert_string_equal(serves_31, "0000:33:00.0 0000:34:00.0 ");
}

/*
 * In a virtual machine the GPU stands on the root bus, its port out of sight: what is possible is
 * unknown.
 */
static void test_guest(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;
	struct ft_pci_path sum;

	(void)state;
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:05.0", 0x030200, 0x10de, 0x2330, -1, GEN4,
				    "16", GEN5, "16" });
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:03.0", 0x020000, 0x1af4, 0x1000, -1,
				    .speed = NULL });
	put_pci(&(struct pci_spec){ "pci10000:e0/10000:e0:06.0", 0x060400, 0x8086, 1, -1, GEN4, "4",
				    GEN4, "4" });
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);
	ft_pci_path_sum(p, dev(p, "0000:00:05.0"), &sum);
	assert_int_equal(sum.hops, 1);
	assert_link(sum.now, 4, 16);
	assert_link(sum.possible, FT_NONE_U32, FT_NONE_U32);
	assert_false(sum.below);
	assert_int_equal(dev(p, "0000:00:05.0")->numa, FT_NONE_S32);
	assert_int_equal(dev(p, "0000:00:05.0")->gpu_index, FT_NONE_S32);
	assert_int_equal(dev(p, "0000:00:05.0")->gpu_error, -ENOENT);
	ft_pci_path_sum(p, dev(p, "0000:00:03.0"), &sum);
	assert_int_equal(sum.hops, 0);
	assert_non_null(ft_pci_find(p, "10000:e0:06.0"));
}

static void test_amd(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;
	char path[64];

	(void)state;
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:01.1", 0x060400, 0x1022, 1, 0, GEN5, "16",
				    GEN5, "16" });
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:01.1/0000:05:00.0", 0x120000, 0x1002,
				    0x74a1, 0, GEN5, "16", GEN5, "16" });
	ft_fmt(path, "/sys/bus/pci/devices/0000:05:00.0/product_name");
	put(path, "AMD Instinct MI300X\n");
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);
	assert_int_equal(dev(p, "0000:05:00.0")->role, FT_PCI_GPU);
	assert_string_equal(dev(p, "0000:05:00.0")->gpu_name, "AMD Instinct MI300X");
	assert_int_equal(dev(p, "0000:05:00.0")->gpu_index, FT_NONE_S32);
}

static void test_no_pci(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;

	(void)state;
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);
	assert_int_equal(p->n, 0);
	assert_null(ft_pci_find(p, "0000:00:00.0"));
}

static struct ft_rec last_pci[2];
static size_t npci;

static void keep_pci(void *ctx, struct ft_hdr *ev)
{
	(void)ctx;
	assert_int_equal(ft_rec_check(ev, ev->size), 0);
	if (ev->kind == FT_KIND_inv_pci && npci < ARRAY_SIZE(last_pci))
		memcpy(&last_pci[npci++], ev, ev->size);
}

/* What the port's registers, the kernel's services and the slots say. */
static void test_ports(void **state)
{
	const struct ft_ev_inv_pci *e = (const void *)&last_pci[0];
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;
	char slot[32];

	(void)state;
	put_config("0000:42:00.0", 0x2083, 3); /* GPU 3's, Gen3 x8, up, limited to it */
	put_config("0000:40:01.0", 0x6105, 5);
	put_service("0000:40:01.0:pcie002", "aer");
	put_service("0000:42:00.0:pcie208", "dpc");
	put_link("/sys/bus/pci_express/devices/0000:10:01.0:pcie002/firmware_node", "offered");
	put("/sys/bus/pci/slots/7-1/address", "0000:43:00\n");
	put("/sys/bus/pci/slots/8/address", "0000:14\n");
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);
	assert_int_equal(dev(p, "0000:42:00.0")->cap, CONFIG_EXPRESS);
	assert_int_equal(dev(p, "0000:42:00.0")->config_error, 0);
	assert_int_equal(dev(p, "0000:12:00.0")->config_error, -ENOENT);
	assert_string_equal(dev(p, "0000:14:00.1")->slot, "8");
	assert_int_equal(ft_pci_os_aer(p, dev(p, "0000:42:00.0")), 1);
	/* offered, but no driver took it */
	assert_int_equal(ft_pci_os_aer(p, dev(p, "0000:12:00.0")), 0);
	npci = 0;
	ft_pci_emit_dev(p, dev(p, "0000:43:00.0"), 1, keep_pci, NULL);
	assert_int_equal(npci, 2);
	assert_int_equal(e->target_gen, 3);
	assert_int_equal(e->active, 1);
	assert_int_equal(e->os_aer, 1);
	assert_int_equal(e->dpc, 1);
	assert_int_equal(e->asleep, 0);
	assert_string_equal(ft_str_copy(&e->h, e->slot, slot, sizeof(slot)), "7-1");
	/* NIC 7 sleeps; nothing was read of its port's config */
	npci = 0;
	ft_pci_emit_dev(p, dev(p, "0000:84:00.0"), 1, keep_pci, NULL);
	assert_int_equal(e->asleep, 1);
	assert_int_equal(e->target_gen, FT_NONE_U32);
	assert_int_equal(e->active, FT_NONE_U8);
	assert_int_equal(e->os_aer, 0);
}

/* Config as it is without CAP_SYS_ADMIN, of a port that is gone, and of one with a loop in it. */
static void test_config(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;
	uint8_t ones[256], loop[256] = { [0x06] = 0x10, [0x34] = 0x40, [0x41] = 0x40 };

	(void)state;
	memset(ones, 0xff, sizeof(ones));
	put_config("0000:12:00.0", 0x2105, 5);
	put_bytes("/sys/bus/pci/devices/0000:42:00.0/config", loop, 64);
	put_bytes("/sys/bus/pci/devices/0000:40:01.0/config", ones, sizeof(ones));
	put_bytes("/sys/bus/pci/devices/0000:30:01.0/config", loop, sizeof(loop));
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &p), 0);
	assert_int_equal(dev(p, "0000:12:00.0")->cap, CONFIG_EXPRESS);
	assert_int_equal(dev(p, "0000:42:00.0")->config_error, -EPERM);
	assert_int_equal(dev(p, "0000:40:01.0")->config_error, -ENODEV);
	assert_int_equal(dev(p, "0000:30:01.0")->config_error, -ENOENT);
	assert_int_equal(dev(p, "0000:30:01.0")->cap, 0);
	/* no port services in this kernel: unknown, not "no" */
	assert_int_equal(ft_pci_os_aer(p, dev(p, "0000:12:00.0")), FT_NONE_U8);
}

static void test_live(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *p = NULL;

	(void)state;
	assert_int_equal(ft_pci_read("", ANSWER_MS, &p), 0);
	ft_pci_emit(p, 1, count, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gen),
		cmocka_unit_test(test_gbytes),
		cmocka_unit_test_setup_teardown(test_tree, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_paths, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_unknown, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_emit, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_ports, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_config, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_guest, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_amd, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_no_pci, machine_new, machine_free),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

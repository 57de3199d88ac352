// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What comes and goes on the bus, AER counters, and what cannot be seen. */
#include "pcie_fixture.h"

#define FAST_MS 10

/* --- come and go --- */
static void take_out(const char *bdf)
{
	char path[PATH_MAX];

	ft_fmt(path, "%s" FT_PCI_DIR "/%s", machine_root, bdf);
	assert_int_equal(unlink(path), 0);
}

static const struct ft_ev_inv_pci *inv_pci(size_t n)
{
	return expect(FT_KIND_inv_pci, n);
}

/* The GPU is taken out and another one comes, which can do less. */
static void test_hot_plug(void **state)
{
	const struct ft_ev_pcie_hotplug *h;
	const struct ft_ev_pcie_gone *g;
	const struct ft_ev_pcie_link *l;
	const struct ft_ev_inv_pci *e;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	set_status(GPU_PORT, NO_LINK);
	take_out(GPU);
	g = expect(FT_KIND_pcie_gone, 1);
	assert_int_equal(g->how_seen, PCIE_GONE_REMOVED);
	assert_string_equal(g->device, GPU);
	assert_string_equal(g->port, GPU_PORT);
	looks(2);

	/* the link is there before the kernel has found what is behind it */
	set_status(GPU_PORT, GEN3_X8);
	l = expect(FT_KIND_pcie_link, 1);
	assert_int_equal(l->from__width, 0);
	assert_int_equal(l->to__gen, 3);
	assert_int_equal(l->possible__gen, FT_NONE_U32);
	put_pci(&(struct pci_spec){ "pci0000:00/" GPU_PORT "/" GPU, 0x030200, 0x10de, 0x2331, 0,
				    GEN3, "8", GEN3, "16" });
	e = inv_pci(0);
	assert_true(ft_str_is(&e->h, e->serves, GPU));
	assert_int_equal(e->possible__gen, 3);
	assert_int_equal(e->now__width, 8);
	expect(FT_KIND_inv_gpu, 0);
	h = expect(FT_KIND_pcie_hotplug, 0);
	assert_int_equal(h->event, PCIE_DEVICE_ADDED);
	assert_string_equal(h->device, GPU);
	assert_string_equal(h->port, GPU_PORT);
	assert_true(ft_str_is(&h->h, h->slot, "5"));
	looks(2);
	set_status(GPU_PORT, GEN1_X16);
	l = expect(FT_KIND_pcie_link, 2);
	assert_int_equal(l->from__gen, 3);
	assert_int_equal(l->possible__gen, 3);
	assert_int_equal(l->transitions_total, 3); /* the count goes on */
	src_end();
}

static void put_function(const char *bdf, const char *physfn)
{
	char text[64];

	ft_fmt(text, "pci0000:00/" NIC_PORT "/%s", bdf);
	put_pci(&(struct pci_spec){ text, 0x020000, 0x15b3, 0x101e, 0, GEN4, "8", GEN4, "8" });
	ft_fmt(text, FT_PCI_DIR "/%s/physfn", bdf);
	if (physfn)
		put_link(text, physfn);
}

/* The tree was read and taken once more. */
static void rescan(void)
{
	const uint64_t before = src->scanned_ns;

	for (int i = 0; i < 1000 && (src->scanned_ns == before || src->scan); i++) {
		run_ms(10);
		ft_pcie_src_tick(src);
	}
	assert_true(src->scanned_ns != before && !src->scan);
}

/* Virtual functions and the second port of a card come and go, the card stays: no hot plug. */
static void test_functions(void **state)
{
	(void)state;
	src_start(FAST_MS);
	put_function("0000:02:00.1", NULL);
	put_function("0000:02:00.2", "../" NIC);
	rescan();
	assert_non_null(ft_pci_find(src->tree, "0000:02:00.2"));
	assert_int_equal(ft_pci_find(src->tree, "0000:02:00.2")->physfn,
			 ft_pci_find(src->tree, NIC) - src->tree->v);
	take_out("0000:02:00.1");
	take_out("0000:02:00.2");
	rescan();
	assert_null(ft_pci_find(src->tree, "0000:02:00.2"));
	assert_null(nth(FT_KIND_pcie_hotplug, 0));
	assert_null(nth(FT_KIND_pcie_gone, 0));
	/* but with its card a function is gone, a virtual one with its physical one */
	put_function("0000:02:00.1", NULL);
	put_function("0000:02:00.2", "../" NIC);
	rescan();
	take_out(NIC);
	take_out("0000:02:00.1");
	take_out("0000:02:00.2");
	rescan();
	assert_int_equal(((const struct ft_ev_pcie_gone *)nth(FT_KIND_pcie_gone, 1))->how_seen,
			 PCIE_GONE_REMOVED);
	assert_null(nth(FT_KIND_pcie_gone, 2));
	src_end();
}

/* A link whose port nobody cared for until a GPU came. */
static void test_new_port(void **state)
{
	const struct ft_ev_pcie_link *l;

	(void)state;
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:03.0", 0x060400, 0x8086, 0x352a, 0, GEN5,
				    "16", GEN5, "16" });
	put_config("0000:00:03.0", GEN5_X16, 5);
	src_start(FAST_MS);
	looks(2);
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:03.0/0000:03:00.0", 0x030200, 0x10de,
				    0x2330, 0, GEN5, "16", GEN5, "16" });
	expect(FT_KIND_inv_pci, 0);
	assert_null(nth(FT_KIND_inv_pci, 1)); /* of what is new alone */
	looks(2);
	set_status("0000:00:03.0", GEN3_X8);
	l = expect(FT_KIND_pcie_link, 0);
	assert_string_equal(l->device, "0000:03:00.0");
	src_end();
}

/* A record of the kernel side makes it look without a tick; its own ones do not. */
static void test_note(void **state)
{
	struct ft_ev_pcie_link *l;
	struct ft_rec rec;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	l = ft_rec_new(&rec, FT_KIND_pcie_link, 1);
	l->reason = PCIE_REASON_POLL;
	ft_pcie_src_note(src, &rec.h);
	assert_true(src->scan_due_ns == UINT64_MAX);
	l->reason = PCIE_REASON_HOT_PLUG;
	ft_pcie_src_note(src, &rec.h);
	assert_int_equal(src->scan_due_ns, 0);
	src_end();
}

/* --- counters --- */
static const struct ft_ev_pcie_counter *counter(size_t n, const char *device, const char *error,
						unsigned int delta, unsigned int total)
{
	const struct ft_ev_pcie_counter *e = expect(FT_KIND_pcie_counter, n);
	char name[17] = "";

	memcpy(name, e->error, sizeof(e->error));
	assert_string_equal(name, error);
	assert_string_equal(e->device, device);
	assert_int_equal(e->delta, delta);
	assert_int_equal(e->total, total);
	return e;
}

static void test_counters(void **state)
{
	const struct ft_ev_pcie_counter *e;

	(void)state;
	put_aer(GPU_PORT, 212, 0);
	src_start(FAST_MS);
	e = counter(0, GPU_PORT, "RxErr", 212, 212);
	assert_int_equal(e->before, 1);
	assert_int_equal(e->aer_class, 2);
	set_text(GPU, "aer_dev_correctable", "RxErr 000000007\n");
	e = counter(1, GPU, "RxErr", 7, 7);
	assert_int_equal(e->before, 0);
	set_text(GPU_PORT, "aer_dev_correctable", "RxErr 000000300\n");
	counter(2, GPU_PORT, "RxErr", 88, 300);
	set_text(GPU, "aer_dev_nonfatal", "Undefined 0\nPoisonTLPBlocked 000000001\n");
	e = counter(3, GPU, "PoisonTLPBlocked", 1, 1);
	assert_int_equal(e->aer_class, 0);
	run_ms(1200);
	assert_null(nth(FT_KIND_pcie_counter, 4));
	src_end();
}

/* Each second, however seldom links are looked at. */
static void test_counters_alone(void **state)
{
	unsigned int n;

	(void)state;
	src_start(60000);
	looks_at(0, 1);
	n = reads_of(0);
	set_text(GPU, "aer_dev_correctable", "RxErr 000000007\n");
	counter(0, GPU, "RxErr", 7, 7);
	assert_int_equal(reads_of(0), n);
	src_end();
}

/* --- what cannot be seen --- */
static struct ft_probe rows[3];

static void rows_start(void)
{
	rows[0] = (struct ft_probe){ .object = "", .program = "pcie_poll" };
	rows[1] = (struct ft_probe){ .object = "", .program = "pcie_counters" };
	rows[2] = (struct ft_probe){ .object = "pcie", .program = "a", .error = -ENOENT };
	src_start(FAST_MS);
	src->rows = rows;
	src->nrows = 3;
	pcie_rows_set(src);
}

static void test_rows(void **state)
{
	(void)state;
	rows_start();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rows[i].state, FT_PROBE_ON);
		assert_string_equal(rows[i].reason, "");
	}
	assert_int_equal(rows[2].state, FT_PROBE_OFF);
	assert_null(nth(FT_KIND_inv_host, 0));
	src_end();
}

static void test_no_links(void **state)
{
	(void)state;
	/* as in a virtual machine */
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:03.0", 0x020000, 0x1af4, 0x1000, -1,
				    .speed = NULL });
	rows_start();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rows[i].state, FT_PROBE_UNNEEDED);
		assert_non_null(strstr(rows[i].reason, "no PCIe link"));
	}
	assert_int_equal(rows[2].state, FT_PROBE_UNNEEDED);
	src_end();
}

/* Without CAP_SYS_ADMIN config ends after 64 bytes. */
static void test_by_sysfs(void **state)
{
	const struct ft_ev_pcie_link *l;
	const struct ft_ev_inv_host *e;
	char path[PATH_MAX];

	(void)state;
	for (int i = 0; i < PORTS; i++) {
		pci_path(port_names[i], "config", path);
		assert_int_equal(truncate(path, 64), 0);
	}
	rows_start();
	assert_int_equal(rows[0].state, FT_PROBE_ON);
	assert_non_null(strstr(rows[0].reason, "2 of 2 links"));
	assert_non_null(strstr(rows[0].reason, "LBMS unseen"));
	assert_non_null(strstr(rows[0].reason, "CAP_SYS_ADMIN"));
	e = expect(FT_KIND_inv_host, 0);
	assert_true(text_has(&e->h, e->what, "LBMS, LABS, training"));
	run_ms(5 * FAST_MS);
	set_text(GPU_PORT, "current_link_speed", "8.0 GT/s PCIe\n");
	l = expect(FT_KIND_pcie_link, 0);
	assert_int_equal(l->to__gen, 3);
	assert_int_equal(l->to__width, 16);
	assert_int_equal(l->link_status, FT_NONE_U32);
	assert_int_equal(l->lbms, FT_NONE_U8);
	assert_int_equal(l->training, FT_NONE_U8);
	/* all ones, in its words */
	set_text(GPU_PORT, "current_link_width", "63\n");
	assert_int_equal(((const struct ft_ev_pcie_gone *)expect(FT_KIND_pcie_gone, 0))->how_seen,
			 PCIE_GONE_ONES);
	src_end();
}

static void assert_hidden(const char *device)
{
	const struct ft_ev_inv_host *e = nth(FT_KIND_inv_host, 0);

	assert_non_null(e);
	assert_true(text_has(&e->h, e->what, device));
	assert_true(text_has(&e->h, e->reason, "0 lanes"));
}

/* A virtual function in a virtual machine: its Link Status is 0, and it is not gone. */
static void test_hidden(void **state)
{
	(void)state;
	put_pci(&(struct pci_spec){ "pci0000:00/0000:00:05.0", 0x020000, 0x15b3, 0x101e, -1,
				    "Unknown", "0", GEN4, "16" });
	put_config("0000:00:05.0", 0, 0);
	rows_start();
	assert_hidden("0000:00:05.0");
	run_ms(10 * FAST_MS);
	assert_int_equal(src->nlinks, 1);
	assert_int_equal(src->links[0].known, true);
	assert_int_equal(src->links[0].now.width, FT_NONE_U32);
	assert_int_equal(nseen, 1);
	set_status("0000:00:05.0", 0xffff);
	assert_int_equal(((const struct ft_ev_pcie_gone *)expect(FT_KIND_pcie_gone, 0))->how_seen,
			 PCIE_GONE_ONES);
	src_end();
}

/* The same below a port that is emulated: what that says of the link is made up. */
static void test_hidden_below(void **state)
{
	(void)state;
	set_text(NIC, "current_link_width", "0\n");
	set_text(NIC, "current_link_speed", "Unknown     ");
	set_status(NIC_PORT, GEN1_X16);
	rows_start();
	assert_hidden(NIC);
	run_ms(10 * FAST_MS);
	assert_int_equal(src->nlinks, 1);
	assert_string_equal(src->links[0].device, GPU);
	assert_null(nth(FT_KIND_pcie_link, 0));
	assert_null(nth(FT_KIND_pcie_gone, 0));
	src_end();
}

/* Firmware first: no AER service, and counters that stay 0 or are not there. */
static void test_firmware_first(void **state)
{
	const struct ft_ev_inv_host *e;
	char path[PATH_MAX];

	(void)state;
	pci_path(NIC, "aer_dev_correctable", path);
	assert_int_equal(unlink(path), 0);
	pci_path(NIC, "aer_dev_nonfatal", path);
	assert_int_equal(unlink(path), 0);
	pci_path(NIC, "aer_dev_fatal", path);
	assert_int_equal(unlink(path), 0);
	ft_fmt(path, "%s/sys/bus/pci_express/devices/" NIC_PORT ":pcie002/driver", machine_root);
	assert_int_equal(unlink(path), 0);
	rows_start();
	assert_int_equal(rows[1].state, FT_PROBE_ON);
	assert_non_null(strstr(rows[1].reason, "no AER for 1 of 4 devices"));
	e = nth(FT_KIND_inv_host, 0);
	assert_non_null(e);
	assert_true(text_has(&e->h, e->what, "AER below " NIC_PORT));
	assert_false(text_has(&e->h, e->what, GPU_PORT));
	assert_true(text_has(&e->h, e->reason, "firmware first"));
	src_end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hot_plug, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_functions, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_new_port, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_note, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_counters, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_counters_alone, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_rows, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_no_links, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_hidden, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_hidden_below, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_by_sysfs, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_firmware_first, two_links, machine_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

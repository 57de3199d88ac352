// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "host/fs.h"
#include "pcie_fixture.h"

#define FAST_MS 10

static const struct ft_ev_pcie_link *link_change(size_t n, unsigned int from_gen,
						 unsigned int from_width, unsigned int to_gen,
						 unsigned int to_width)
{
	const struct ft_ev_pcie_link *e = expect(FT_KIND_pcie_link, n);

	assert_int_equal(e->from__gen, from_gen);
	assert_int_equal(e->from__width, from_width);
	assert_int_equal(e->to__gen, to_gen);
	assert_int_equal(e->to__width, to_width);
	return e;
}

/* Links that are as they should be give no line. */
static void test_quiet(void **state)
{
	(void)state;
	src_start(FAST_MS);
	looks(20);
	ft_pcie_src_tick(src);
	assert_int_equal(nseen, 0);
	src_end();
}

/* Gen5 x16 -> Gen3 x8 within two intervals by the time of the line, and back. */
static void test_downgrade(void **state)
{
	const struct ft_ev_pcie_link *e;
	uint64_t ns;

	(void)state;
	src_start(0);
	looks(2);
	ns = ft_mono_ns();
	set_status(GPU_PORT, GEN3_X8);
	e = link_change(0, 5, 16, 3, 8);
	assert_in_range(e->h.ts_ns, ns, ns + 200 * NSEC_PER_MSEC);
	assert_int_equal(e->from__gbps, 504);
	assert_int_equal(e->to__gbps, 63);
	assert_int_equal(e->possible__gen, 5);
	assert_int_equal(e->possible__width, 16);
	assert_int_equal(e->possible__gbps, 504);
	assert_int_equal(e->target_gen, 5);
	assert_int_equal(e->reason, PCIE_REASON_POLL);
	assert_int_equal(e->exact, 0);
	assert_int_equal(e->before, 0);
	assert_int_equal(e->transitions, 1);
	assert_int_equal(e->transitions_total, 1);
	assert_in_range(e->in_state_ns, 1, 10 * NSEC_PER_SEC);
	assert_int_equal(e->link_status, GEN3_X8);
	assert_string_equal(e->port, GPU_PORT);
	assert_string_equal(e->device, GPU);
	assert_true(ft_str_is(&e->h, e->slot, "5"));
	ns = e->h.ts_ns;
	set_target(GPU_PORT, 4);
	set_status(GPU_PORT, 0x2104);
	e = link_change(1, 3, 8, 4, 16);
	assert_int_equal(e->target_gen, 4); /* commanded */
	assert_int_equal(e->transitions_total, 2);
	assert_int_equal(e->in_state_ns, e->h.ts_ns - ns);
	assert_null(nth(FT_KIND_pcie_gone, 0));
	src_end();
}

/* LBMS that is new is a change that came and went between two looks; it stays set. */
static void test_flags(void **state)
{
	const struct ft_ev_pcie_link *e;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	set_status(GPU_PORT, GEN5_X16 | LBMS);
	e = link_change(0, 5, 16, 5, 16);
	assert_int_equal(e->transitions, 1);
	assert_int_equal(e->lbms, 1);
	assert_int_equal(e->labs, 0);
	/* a change with it still set is one, not two; the kernel clears it: none */
	set_status(GPU_PORT, GEN1_X16 | LBMS);
	e = link_change(1, 5, 16, 1, 16);
	assert_int_equal(e->transitions_total, 2);
	set_status(GPU_PORT, GEN1_X16);
	looks(3);
	assert_null(nth(FT_KIND_pcie_link, 2));
	set_status(GPU_PORT, GEN1_X16 | LABS);
	e = link_change(2, 1, 16, 1, 16);
	assert_int_equal(e->labs, 1);
	assert_int_equal(e->transitions_total, 3);
	src_end();
}

/* A training counts once: by what changed, or else by its end. */
static void test_training(void **state)
{
	const struct ft_ev_pcie_link *e;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	set_status(GPU_PORT, GEN5_X16 | LT);
	e = link_change(0, 5, 16, 5, 16);
	assert_int_equal(e->training, 1);
	assert_int_equal(e->transitions, 0);
	set_status(GPU_PORT, GEN5_X16);
	e = link_change(1, 5, 16, 5, 16);
	assert_int_equal(e->training, 0);
	assert_int_equal(e->transitions, 1);
	set_status(GPU_PORT, GEN3_X8 | LT);
	e = link_change(2, 5, 16, 3, 8);
	assert_int_equal(e->transitions, 1);
	set_status(GPU_PORT, GEN3_X8);
	e = link_change(3, 3, 8, 3, 8);
	assert_int_equal(e->transitions, 0);
	assert_int_equal(e->transitions_total, 2);
	src_end();
}

/* All ones is gone, not Gen5 x63. */
static void test_ones(void **state)
{
	const struct ft_ev_pcie_gone *e;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	set_status(GPU_PORT, 0xffff);
	e = expect(FT_KIND_pcie_gone, 0);
	assert_int_equal(e->how_seen, PCIE_GONE_ONES);
	assert_string_equal(e->device, GPU_PORT);
	assert_string_equal(e->port, "");
	looks(3);
	set_status(GPU_PORT, GEN5_X16);
	e = expect(FT_KIND_pcie_gone, 1);
	assert_int_equal(e->how_seen, PCIE_GONE_ANSWERS);
	looks(3);
	assert_null(nth(FT_KIND_pcie_gone, 2));
	assert_null(nth(FT_KIND_pcie_link, 0));
	src_end();
}

static void test_no_link(void **state)
{
	const struct ft_ev_pcie_link *l;
	const struct ft_ev_pcie_gone *e;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	set_status(GPU_PORT, NO_LINK);
	l = link_change(0, 5, 16, FT_NONE_U32, 0);
	assert_int_equal(l->to__gbps, 0);
	e = expect(FT_KIND_pcie_gone, 0);
	assert_int_equal(e->how_seen, PCIE_GONE_NO_LINK);
	assert_string_equal(e->device, GPU);
	assert_string_equal(e->port, GPU_PORT);
	set_status(GPU_PORT, GEN5_X16);
	link_change(1, FT_NONE_U32, 0, 5, 16);
	e = expect(FT_KIND_pcie_gone, 1);
	assert_int_equal(e->how_seen, PCIE_GONE_ANSWERS);
	src_end();
}

static void test_at_attach(void **state)
{
	const struct ft_ev_pcie_link *e;

	(void)state;
	set_status(GPU_PORT, GEN3_X8 | LBMS);
	src_start(FAST_MS);
	e = link_change(0, FT_NONE_U32, FT_NONE_U32, 3, 8);
	assert_int_equal(e->reason, PCIE_REASON_ATTACH);
	assert_int_equal(e->before, 1);
	assert_int_equal(e->lbms, 1);
	assert_int_equal(e->in_state_ns, FT_NONE_U64);
	assert_int_equal(e->transitions, FT_NONE_U64);
	assert_int_equal(e->transitions_total, 0);
	looks(3);
	assert_int_equal(nseen, 1); /* the NIC runs as both ends can */
	src_end();
}

/* One read of one register per link and interval, and no other. */
static void test_reads(void **state)
{
	uint64_t ns;

	(void)state;
	src_start(FAST_MS);
	ns = ft_mono_ns();
	run_ms(1000);
	ns = ft_mono_ns() - ns;
	assert_in_range(reads_of(0), 20, ns / (FAST_MS * NSEC_PER_MSEC) + 1);
	assert_in_range(reads_of(1), reads_of(0) - 1, reads_of(0));
	/* the target speed, with the first look */
	assert_int_equal(reads_of(OTHER_READS), PORTS);
	set_status(GPU_PORT, GEN3_X8);
	expect(FT_KIND_pcie_link, 0);
	assert_int_equal(reads_of(OTHER_READS), PORTS + 1);
	src_end();
}

/* A port that sleeps is left alone; so is the loss of the link of a device that sleeps. */
static void test_asleep(void **state)
{
	const struct ft_ev_inv_host *e;
	unsigned int n;

	(void)state;
	set_text(GPU, "power/control", "auto\n");
	src_start(FAST_MS);
	looks(2);
	set_text(GPU_PORT, "power/runtime_status", "suspended\n");
	e = expect(FT_KIND_inv_host, 0);
	assert_true(text_has(&e->h, e->what, GPU));
	assert_true(text_has(&e->h, e->reason, "asleep"));
	n = reads_of(0);
	set_status(GPU_PORT, GEN1_X16);
	run_ms(20 * FAST_MS);
	assert_int_equal(reads_of(0), n);
	assert_null(nth(FT_KIND_pcie_link, 0));
	set_text(GPU_PORT, "power/runtime_status", "active\n");
	link_change(0, 5, 16, 1, 16);

	set_text(GPU, "power/runtime_status", "suspended\n");
	set_status(GPU_PORT, NO_LINK);
	looks(5);
	assert_null(nth(FT_KIND_pcie_gone, 0));
	set_status(GPU_PORT, GEN5_X16);
	set_text(GPU, "power/runtime_status", "active\n");
	link_change(1, 1, 16, 5, 16);
	assert_null(nth(FT_KIND_pcie_gone, 0));
	assert_null(nth(FT_KIND_inv_host, 1)); /* named once */
	src_end();
}

static void test_asleep_at_attach(void **state)
{
	(void)state;
	set_text(GPU, "power/control", "auto\n");
	set_text(GPU_PORT, "power/runtime_status", "suspended\n");
	src_start(FAST_MS);
	run_ms(20 * FAST_MS);
	assert_int_equal(reads_of(0) + reads_of(OTHER_READS) - PORTS / 2, 0);
	set_status(GPU_PORT, GEN3_X8);
	/* its registers are found when it is awake */
	set_text(GPU_PORT, "power/runtime_status", "active\n");
	expect(FT_KIND_inv_pci, 0);
	looks(2);
	set_status(GPU_PORT, GEN3_X8 | LBMS);
	link_change(1, 3, 8, 3, 8);
	src_end();
}

/* A read that hangs holds one link: it is named once, the others go on, and it comes back. */
static void test_stuck(void **state)
{
	const struct ft_ev_inv_host *e;
	unsigned int n;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	reads_hang(0, true);
	e = expect(FT_KIND_inv_host, 0);
	assert_int_equal(e->error, -ETIMEDOUT);
	assert_true(text_has(&e->h, e->what, GPU));
	set_status(NIC_PORT, GEN1_X16);
	link_change(0, 4, 8, 1, 16);
	n = reads_of(0);
	run_ms(10 * FAST_MS);
	assert_int_equal(reads_of(0), n);
	reads_hang(0, false);
	set_status(GPU_PORT, GEN3_X8);
	link_change(1, 5, 16, 3, 8);
	e = expect(FT_KIND_inv_host, 1);
	assert_true(text_has(&e->h, e->what, GPU));
	assert_true(text_has(&e->h, e->reason, "watched again"));
	/* and the next time is told as well */
	reads_hang(0, true);
	e = expect(FT_KIND_inv_host, 2);
	assert_int_equal(e->error, -ETIMEDOUT);
	reads_hang(0, false);
	src_end();
}

/* Each link has its own time: a turn that lasts long is no read that does. */
static void test_stuck_one(void **state)
{
	uint64_t from, now;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	reads_hang(0, true);
	while (!pcie_poll_stuck(src->poll, ft_mono_ns(), 300 * NSEC_PER_MSEC))
		usleep(1000);
	reads_hang(1, true);
	from = ft_mono_ns();
	reads_hang(0, false);
	while (strcmp(pcie_poll_stuck(src->poll, ft_mono_ns(), 0) ?: "", NIC_PORT) != 0)
		usleep(1000);
	now = ft_mono_ns();
	assert_null(pcie_poll_stuck(src->poll, now, now - from + 1));
	reads_hang(1, false);
	src_end();
}

/* Threads that hang at a link, and the one that looks at the others. */
static void threads_are(unsigned int n)
{
	unsigned int there = 0;

	for (int i = 0; i < 1000 && there != n; i++) {
		_cleanup_names_ struct ft_names names = {};

		assert_int_equal(ft_names_read("", "/proc/self/task", &names), 0);
		there = names.n - 1;
		run_ms(5);
	}
	assert_int_equal(there, n);
}

/* The tree is read anew while a read hangs: the hanging thread is kept, and its link left alone. */
static void test_stuck_rescan(void **state)
{
	uint32_t number;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	reads_hang(0, true);
	while (!pcie_poll_stuck(src->poll, ft_mono_ns(), 300 * NSEC_PER_MSEC))
		usleep(1000);
	for (int i = 0; i < 3; i++) {
		number = src->number;
		pcie_scan_want(src, 0);
		for (int k = 0; k < 1000 && src->number == number; k++) {
			run_ms(5);
			pcie_scan_due(src, ft_mono_ns());
		}
		assert_int_equal(src->number, number + 1);
		assert_true(src->links[0].stuck);
		assert_string_equal(src->stuck[0].upper, GPU_PORT);
		assert_null(src->stuck[1].poll);
	}
	looks_at(1, 3);
	assert_non_null(nth(FT_KIND_inv_host, 0));
	assert_null(nth(FT_KIND_inv_host, 1));
	reads_hang(0, false);
	expect(FT_KIND_inv_host, 1);
	threads_are(1);
	looks_at(0, 3); /* its registers were found again */
	src_end();
}

/* It ends though a read hangs. */
static void test_stuck_end(void **state)
{
	uint64_t ns;

	(void)state;
	src_start(FAST_MS);
	looks(2);
	reads_hang(1, true);
	run_ms(5 * FAST_MS);
	ns = ft_mono_ns();
	src_end();
	assert_in_range(ft_mono_ns() - ns, 0, 2 * NSEC_PER_SEC);
	reads_hang(1, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_quiet, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_downgrade, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_flags, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_training, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_ones, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_no_link, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_at_attach, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_reads, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_asleep, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_asleep_at_attach, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_stuck, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_stuck_one, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_stuck_rescan, two_links, machine_free),
		cmocka_unit_test_setup_teardown(test_stuck_end, two_links, machine_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

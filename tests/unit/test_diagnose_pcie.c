// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Speed, width and presence of PCIe links. */
#include "diagnose/internal.h"
#include "diag_pcie_fixture.h"

#define LINK3 "PCIe link of GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)"

static void test_clean(void **state)
{
	(void)state;
	node();
	tick(30 * SEC);
	assert_none();
	assert_true(ruled_out("PCIe: 6 links at full speed, 0 AER errors"));
	assert_true(ruled_out("Xid: none"));
	assert_true(ruled_out("GPU throttling: none"));
}

static void test_not_watched(void **state)
{
	(void)state;
	inv_gpus();
	watch("pcie.link", false);
	inv_link(port[0], gpu[0], gpu[0], 5, 16, 5, 5);
	tick(30 * SEC);
	assert_none();
	assert_false(ruled_out("PCIe"));
	assert_true(blind("PCIe links: not watched"));
	assert_true(blind("PCIe errors: not known whether it was watched"));
	assert_true(blind("Xid: not known whether it was watched"));
}

/* Fewer lanes are a fault at once, whatever the GPU does. */
static void test_width(void **state)
{
	struct ft_rec r;

	(void)state;
	node();
	clocks(3, 8, 0, 1);
	tick(10 * SEC);
	rec_change(&r, 3, 5, 16, 5, 8)->lbms = 1;
	play(&r);
	assert_int_equal(seen.opened, 1);
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns, now + diag_clock.offset_ns);
	assert_true(evidence("width halved: Gen5 x16 -> Gen5 x8, 63.0 -> 31.5 GB/s each way"));
	assert_true(evidence("LBMS at"));
	assert_true(evidence("at least 1 change of speed or width"));
	assert_true(evidence("its 3 equals on this node have nothing of this"));
	assert_true(next("lspci -vv -s 0000:17:03.0; lspci -vv -s 0000:1b:00.0"));
	assert_true(next("drain the node"));
	assert_int_equal(V.attr.nranks, 1);
	assert_true(hits_rank(3));
	assert_int_equal(V.attr.gpus[0].index, 3);
	assert_string_equal(V.attr.links[0], port[3]);
	assert_int_equal(V.attr.severity, FT_ERROR);
	assert_false(ruled_out("PCIe:"));
	assert_true(ruled_out("PCIe errors: 0 AER errors on 6 links"));
}

/* While it trains, and after it has come back, a link is not what it will be. */
static void test_width_in_training(void **state)
{
	struct ft_rec r;

	(void)state;
	node();
	rec_change(&r, 3, 5, 16, 1, 4)->training = 1;
	play(&r);
	tick(100 * MS);
	change(3, 1, 4, 5, 16);
	tick(10 * SEC);
	assert_none();
}

/* A lower speed is one when the GPU is at work before and after. */
static void test_speed_busy(void **state)
{
	(void)state;
	node();
	clocks(3, 0, 97, 0);
	tick(10 * SEC);
	change(3, 5, 16, 3, 16);
	tick(SEC);
	tick(SEC);
	assert_int_equal(seen.opened, 0); /* NVML may not have seen yet that it is idle */
	tick(SEC);
	assert_int_equal(seen.opened, 1);
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_true(evidence("speed -2 gens while the GPU is at work (P0): Gen5 x16 -> Gen3 x16, "
			     "63.0 -> 15.8 GB/s each way"));
	assert_true(evidence("still so: Gen3 x16, for 3.0 s"));
	change(3, 3, 16, 5, 16);
	tick(7 * SEC);
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_true(evidence("back at Gen5 x16 since"));
	assert_true(
		evidence("time in each state before this one: Gen5 x16 10.0 s, Gen3 x16 3.0 s"));
	tick(400 * SEC);
	assert_int_equal(seen.closed, 1);
}

/* It had no time to show that it is idle. */
static void test_speed_at_the_end(void **state)
{
	(void)state;
	node();
	clocks(3, 2, 0, 0);
	tick(10 * SEC);
	change(3, 5, 16, 3, 16);
	assert_verdict("pcie-link-degraded", LINK3, 2);
	tick(100 * MS);
	clocks(3, 2, 40, 0); /* it is at work still */
	assert_verdict("pcie-link-degraded", LINK3, 3);
}

static void test_speed_idle(void **state)
{
	(void)state;
	node();
	clocks(3, 0, 50, 0);
	for (int i = 0; i < 30; i++) {
		tick(SEC);
		change(3, 5, 16, 1, 16);
		tick(900 * MS); /* seen later than the link */
		clocks(3, 8, 0, 1);
		tick(3 * SEC);
		change(3, 1, 16, 5, 16);
		tick(500 * MS);
		clocks(3, 0, 80, 0);
	}
	tick(10 * SEC);
	assert_none();
	assert_true(ruled_out("PCIe: 6 links at full speed"));
	assert_true(ruled_out("60 speed changes of idle GPUs"));
	/* Now it wakes up, and the link does not. */
	clocks(3, 8, 0, 1);
	change(3, 5, 16, 1, 16);
	tick(60 * SEC);
	assert_none();
	clocks(3, 0, 90, 0);
	tick(SEC);
	tick(SEC);
	tick(SEC);
	assert_verdict("pcie-link-degraded", LINK3, 3);
}

/* Without NVML: NCCL calls tell that it is at work; nothing tells that it is not. */
static void test_speed_unknown(void **state)
{
	struct ft_rec r;

	(void)state;
	node();
	change(3, 5, 16, 1, 16);
	tick(60 * SEC);
	assert_none();
	assert_true(ruled_out("PCIe: 5 of 6 links at full speed"));
	assert_true(
		blind("1 PCIe link below full speed and not judged: whether the GPU is idle is not "
		      "known (" LINK3 ": Gen1 x16 of Gen5 x16)"));
	for (int i = 0; i < 5; i++) {
		ft_rec_new(&r, FT_KIND_nccl_stats, now);
		head(&r, PID(3), "trainer");
		play(&r);
		tick(SEC);
	}
	assert_verdict("pcie-link-degraded", LINK3, 2);
	assert_true(evidence("NCCL calls were made on the GPU"));
	assert_false(blind("not judged: whether"));
}

/* AER errors that come with it leave no doubt. */
static void test_speed_with_errors(void **state)
{
	(void)state;
	node();
	tick(SEC);
	aer(port[3], 2, "BadTLP", 2);
	tick(SEC);
	change(3, 5, 16, 3, 16);
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_true(evidence("errors came with it"));
}

static void test_at_attach(void **state)
{
	(void)state;
	node_with(3, 5, 4, 5, 5);
	inv_users(T0 - 100 * SEC);
	tick(SEC);
	assert_int_equal(seen.opened, 1);
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_true(evidence(
		"4 of 16 lanes: Gen5 x4 instead of Gen5 x16, 15.8 instead of 63.0 GB/s each "
		"way, since before the attach"));
}

static void test_at_attach_speed(void **state)
{
	(void)state;
	node_with(3, 3, 16, 5, 5);
	inv_users(T0 - 100 * SEC);
	tick(SEC);
	clocks(3, 0, 90, 0);
	tick(SEC);
	assert_int_equal(seen.opened, 1);
	assert_verdict("pcie-link-degraded", LINK3, 3);
}

/* A NIC does not save power so. */
static void test_nic(void **state)
{
	(void)state;
	node_with(4, 3, 16, 5, 5);
	inv_users(T0 - 100 * SEC);
	tick(2 * SEC);
	assert_verdict("pcie-link-degraded",
		       "PCIe link of NIC 0000:1c:00.0 (0000:17:04.0 -> 1c:00.0)", 2);
	assert_true(list_has(((struct ft_ev_verdict *)&V.rec)->hits,
			     "nobody, as far as known: no traced process uses it"));
}

/* The bottleneck is named where it is: all ranks below it pay. */
static void test_uplink(void **state)
{
	(void)state;
	node_with(-1, 3, 16, 5, 5);
	inv_users(T0 - 100 * SEC);
	clocks(2, 0, 90, 0);
	tick(3 * SEC);
	assert_verdict(
		"pcie-link-degraded",
		"PCIe uplink of GPUs 0,1,2,3 and NIC 0000:1c:00.0 = ranks 0-3 (0000:15:01.0 -> "
		"16:00.0)",
		3);
	for (int i = 0; i < 4; i++)
		assert_true(hits_rank(i));
	assert_int_equal(seen.opened, 1);
}

/* Not known whether they are at work: it is not their own link. All known as idle: nothing. */
static void test_uplink_unknown(void **state)
{
	(void)state;
	node_with(-1, 3, 16, 5, 5);
	inv_users(T0 - 100 * SEC);
	tick(3 * SEC);
	verdict();
	assert_string_equal(V.kind, "pcie-link-degraded");
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->confidence, 2);
}

static void test_uplink_idle(void **state)
{
	(void)state;
	node_with(-1, 3, 16, 5, 5);
	inv_users(T0 - 100 * SEC);
	for (int i = 0; i < 4; i++)
		clocks(i, 8, 0, 1);
	tick(30 * SEC);
	assert_none();
}

static void test_gen5_in_gen4(void **state)
{
	(void)state;
	now = T0;
	watch_pcie();
	inv_gpus();
	for (int i = 0; i < 4; i++)
		inv_link(port[i], gpu[i], gpu[i], 4, 16, 4, 4);
	inv_users(T0 - 100 * SEC);
	clocks(0, 0, 99, 0);
	tick(60 * SEC);
	assert_none();
}

static void test_commanded(void **state)
{
	(void)state;
	node_with(3, 2, 16, 5, 2);
	inv_users(T0 - 100 * SEC);
	clocks(3, 0, 99, 0);
	tick(2 * SEC);
	assert_verdict("pcie-link-degraded", LINK3, 2);
	assert_true(evidence("limited by command: the port asks for Gen2 (Link Control 2)"));
	assert_true(next("setpci -s 0000:17:03.0 CAP_EXP+30.W"));
}

/* Both ends offer less than those of its equals. */
static void test_equals(void **state)
{
	(void)state;
	node_with(3, 3, 16, 3, 3);
	inv_users(T0 - 100 * SEC);
	clocks(3, 0, 99, 0);
	tick(2 * SEC);
	assert_verdict("pcie-link-degraded", LINK3, 2);
	assert_true(
		evidence("its ends offer Gen3 x16 only, 3 of its 3 equals Gen5 x16 (15.8 of 63.0 "
			 "GB/s each way)"));
	assert_true(evidence("Link Control 2) is Gen3"));
}

/* Half of them is no majority; a NIC of another kind is no equal. */
static void test_no_equals(void **state)
{
	(void)state;
	now = T0;
	watch_pcie();
	inv_gpus();
	for (int i = 0; i < 5; i++)
		inv_link(port[i], gpu[i], gpu[i], i < 2 ? 4 : 5, 16, i < 2 ? 4 : 5, 5);
	inv_users(T0 - 100 * SEC);
	tick(30 * SEC);
	verdict();
	/* of three equals two are better: a hint, no more */
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->confidence, 1);
	assert_false(V.kind[0] && strstr(V.object, "NIC"));
}

/* NICs are put into slots of x8 by design; a second function is no further card. */
static void test_equals_nic(void **state)
{
	static const char *const up[] = { "0000:40:01.0", "0000:41:01.0", "0000:42:01.0" };
	static const char *const down[] = { "0000:50:00.0", "0000:51:00.0", "0000:52:00.0" };
	static const char *const fn1[] = { "0000:50:00.1", "0000:51:00.1", "0000:52:00.1" };

	(void)state;
	now = T0;
	inv_id = 0x15b31021;
	watch_pcie();
	for (int i = 0; i < 2; i++) {
		inv_link(up[i], down[i], down[i], i ? 5 : 4, 16, i ? 5 : 4, 5);
		inv_link(up[i], fn1[i], fn1[i], i ? 5 : 4, 16, i ? 5 : 4, 5);
	}
	tick(30 * SEC);
	assert_none(); /* one equal, with two functions */
	inv_link(up[2], down[2], down[2], 5, 16, 5, 5);
	inv_link(up[2], fn1[2], fn1[2], 5, 16, 5, 5);
	tick(30 * SEC);
	verdict();
	assert_string_equal(V.kind, "pcie-link-degraded");
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->confidence, 1);
	assert_true(evidence("2 of its 2 equals"));
	inv_id = 0;
	assert_int_equal(V.attr.severity, FT_WARNING);
}

static void flap(int n, unsigned int each, bool exact)
{
	for (int i = 0; i < n; i++) {
		struct ft_rec r;
		struct ft_ev_pcie_link *e = rec_change(&r, 3, 1, 16, 5, 16);

		e->transitions = each;
		e->exact = exact;
		e->in_state_ns = 40 * MS;
		play(&r);
		tick(SEC);
	}
}

/* 1,415 of them in two minutes, between two looks that see nothing. */
static void test_flapping(void **state)
{
	(void)state;
	node();
	clocks(3, 0, 90, 0);
	flap(119, 11, true);
	flap(1, 1415 - 119 * 11, true);
	assert_verdict("pcie-link-flapping", LINK3, 3);
	assert_true(evidence("1415 changes of speed or width (counted by events)"));
	assert_true(evidence("time in each state before this one: Gen1 x16 4.8 s"));
	assert_true(evidence("now Gen5 x16"));
}

static void test_flapping_by_looks(void **state)
{
	(void)state;
	node();
	flap(10, 2, false);
	/* Power saving does that, and nothing tells whether the GPU is idle. */
	assert_verdict("pcie-link-flapping", LINK3, 1);
	assert_int_equal(V.attr.severity, FT_WARNING);
	assert_true(evidence("at least 20 changes of speed or width (seen by looks"));
}

/* Something else that came with it. */
static void test_flapping_sure(void **state)
{
	struct ft_rec r;

	(void)state;
	node();
	rec_change(&r, 3, 1, 16, 5, 16)->labs = 1;
	play(&r);
	flap(10, 2, false);
	assert_verdict("pcie-link-flapping", LINK3, 2);
}

static void test_flapping_errors(void **state)
{
	(void)state;
	node();
	flap(1, 2, false);
	aer(port[3], 2, "RxErr", 1);
	flap(10, 2, false);
	assert_verdict("pcie-link-flapping", LINK3, 2);
}

static void test_flapping_width(void **state)
{
	(void)state;
	node();
	change(3, 5, 16, 5, 8);
	change(3, 5, 8, 5, 16);
	flap(10, 2, false);
	tick(SEC);
	for (const struct plink *pl = D->plinks; pl; pl = pl->hh.next)
		if (!strcmp(pl->key, port[3]))
			assert_int_equal(pl->aspects[A_FLAP].confidence, 2);
}

static void test_few_changes(void **state)
{
	(void)state;
	node();
	flap(3, 2, true);
	tick(120 * SEC);
	flap(3, 2, true);
	assert_none();
}

/* --- gone --- */

static void test_gone(void **state)
{
	(void)state;
	node();
	tick(10 * SEC);
	gone(3, 0);
	tick(4 * SEC);
	assert_int_equal(seen.opened, 0);
	tick(2 * SEC);
	assert_int_equal(seen.opened, 1);
	assert_verdict("pcie-device-gone", "GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)", 3);
	assert_true(evidence("does not answer: every read gives ones"));
	assert_true(evidence("still gone, for 6.0 s"));
	tick(400 * SEC);
	assert_int_equal(seen.closed, 0);
	gone(3, 3);
	verdict();
	assert_true(evidence("it answers again since"));
}

static void test_gone_at_the_end(void **state)
{
	(void)state;
	node();
	gone(3, 2);
	tick(SEC);
	assert_verdict("pcie-device-gone", "GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)", 2);
	assert_true(evidence("a reset takes up to 5 s as well"));
}

/* A planned reset: all ones, no link, errors while it trains, and back. */
static void test_reset(void **state)
{
	(void)state;
	node();
	tick(10 * SEC);
	gone(3, 0);
	change(3, 5, 16, 1, 0);
	tick(2 * SEC);
	change(3, 1, 0, 1, 8);
	gone(3, 3);
	aer(port[3], 2, "RxErr", 500);
	tick(2 * SEC);
	change(3, 1, 8, 5, 16);
	tick(30 * SEC);
	assert_none();
	assert_true(ruled_out("1 reset"));
}

static void test_removed_in_use(void **state)
{
	(void)state;
	node();
	hotplug(3, 3);
	gone(3, 1);
	tick(6 * SEC);
	assert_verdict("pcie-device-gone", "GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)", 3);
	assert_true(evidence("removed while in use"));
}

/* A card is in the slot, and its link does not come up. */
static void test_card_without_link(void **state)
{
	(void)state;
	node();
	hotplug(3, 1);
	gone(3, 1);
	change(3, 5, 16, 1, 0);
	tick(SEC);
	hotplug(3, 2);
	hotplug(3, 0);
	tick(10 * SEC);
	assert_verdict("pcie-device-gone", "GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)", 3);
	assert_true(evidence("still gone"));
	hotplug(3, 4);
	verdict();
	assert_true(evidence("it answers again since"));
}

/* Registers that read as ones tell no state. */
static void test_all_ones(void **state)
{
	(void)state;
	node();
	change(3, 5, 16, 15, 63);
	tick(SEC);
	change(3, 15, 63, 5, 16);
	tick(10 * SEC);
	assert_none();
	assert_true(ruled_out("PCIe: 6 links at full speed"));
	for (const struct plink *pl = D->plinks; pl; pl = pl->hh.next)
		for (size_t i = 0; i < ARRAY_SIZE(pl->states); i++)
			assert_true(!pl->states[i].ns || pl->states[i].l.width <= 32);
}

/* What is not known of a link is no full speed. */
static void test_unknown_links(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_pci *e;
	struct ft_ev_probe *p;

	(void)state;
	node();
	e = ft_rec_new(&r, FT_KIND_inv_pci, now);
	e->now__gen = 3;
	e->now__width = 8;
	e->os_aer = 1;
	ft_rec_str(&r, &e->port, "0000:60:00.0");
	ft_rec_str(&r, &e->device, "0000:61:00.0");
	ft_rec_str(&r, &e->serves, "0000:61:00.0");
	play(&r);
	verdict();
	assert_true(ruled_out("PCIe: 6 links at full speed, 0 AER errors"));
	assert_true(blind("1 PCIe link whose speed or width is not known, now or at best"));
	/* The kernel's programs see some changes only: without looks nothing is known of the rest. */
	p = ft_rec_new(&r, FT_KIND_probe, now);
	p->state = 0;
	ft_rec_str(&r, &p->gives, "pcie.link");
	ft_rec_str(&r, &p->attach, "poll/Link Status");
	play(&r);
	watch("pcie.link", true);
	verdict();
	assert_false(ruled_out("PCIe: "));
	assert_true(blind("PCIe links: not watched"));
}

/* Nobody who is traced uses it. */
static void test_spare(void **state)
{
	(void)state;
	node();
	hotplug(4, 3);
	gone(4, 1);
	change(4, 5, 16, 1, 0);
	tick(60 * SEC);
	hotplug(4, 2);
	change(4, 1, 0, 1, 4);
	tick(3 * SEC);
	change(4, 1, 4, 5, 16);
	tick(60 * SEC);
	assert_none();
	/* Without hot plug it is told, and costs nobody. */
	gone(4, 0);
	tick(10 * SEC);
	verdict();
	assert_string_equal(V.kind, "pcie-device-gone");
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->confidence, 1);
	assert_int_equal(V.attr.severity, FT_WARNING);
}

/* The process that used it died of it. */
static void test_died_of_it(void **state)
{
	(void)state;
	node();
	tick(10 * SEC);
	xid_at(3, 79, false, now);
	assert_int_equal(seen.opened, 1);
	gone(3, 0);
	tick(3 * SEC);
	exits(3, 0, 6);
	tick(5 * SEC);
	for (int i = 0; i < 3; i++)
		exits(i, 1, 0);
	tick(5 * SEC);
	assert_verdict("pcie-device-gone", "GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)", 3);
	assert_true(evidence("fell off the bus, by its driver"));
	assert_true(evidence("Xid 79: NVRM: Xid"));
	assert_true(evidence("consequence: rank 3"));
	assert_true(hits_rank(3));
	assert_false(ruled_out("Xid"));
}

/* Another rank's end is not its consequence. */
static void test_died_of_something_else(void **state)
{
	(void)state;
	node();
	xid_at(3, 48, false, now);
	tick(3 * SEC);
	exits(1, 0, 11);
	tick(5 * SEC);
	verdict();
	assert_true(evidence("also: rank 1"));
}

/* A switch takes with it what is below. */
static void test_switch_gone(void **state)
{
	(void)state;
	node();
	gone(-1, 0);
	for (int i = 0; i < 4; i++)
		gone(i, 0);
	tick(6 * SEC);
	verdict();
	assert_true(strstr(V.object, "GPUs 0,1,2,3"));
	assert_true(evidence("consequence: GPU 2"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_clean),
		T(test_not_watched),
		T(test_width),
		T(test_width_in_training),
		T(test_speed_busy),
		T(test_speed_at_the_end),
		T(test_speed_idle),
		T(test_speed_unknown),
		T(test_speed_with_errors),
		T(test_at_attach),
		T(test_at_attach_speed),
		T(test_nic),
		T(test_uplink),
		T(test_uplink_unknown),
		T(test_uplink_idle),
		T(test_gen5_in_gen4),
		T(test_commanded),
		T(test_equals),
		T(test_no_equals),
		T(test_equals_nic),
		T(test_flapping),
		T(test_flapping_by_looks),
		T(test_flapping_sure),
		T(test_flapping_errors),
		T(test_flapping_width),
		T(test_few_changes),
		T(test_gone),
		T(test_gone_at_the_end),
		T(test_reset),
		T(test_removed_in_use),
		T(test_card_without_link),
		T(test_all_ones),
		T(test_unknown_links),
		T(test_spare),
		T(test_died_of_it),
		T(test_died_of_something_else),
		T(test_switch_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

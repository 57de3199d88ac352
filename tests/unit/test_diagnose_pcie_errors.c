// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* AER errors, Xids, clocks, NVLink and the kernel log. */
#include "diagnose/internal.h"
#include "diag_pcie_fixture.h"

#define LINK3 "PCIe link of GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)"
#define GPU3  "GPU 3 = rank 3, slot 5 (0000:17:03.0 -> 1b:00.0)"

static void test_few(void **state)
{
	(void)state;
	node();
	aer(port[3], 2, "BadTLP", 9);
	tick(120 * SEC);
	aer(gpu[3], 2, "BadTLP", 9);
	tick(10 * SEC);
	assert_none();
	assert_true(ruled_out("PCIe: 6 links at full speed, 18 AER errors (few"));
}

/* Reported by the port, and caused by the link. */
static void test_correctable(void **state)
{
	(void)state;
	node();
	for (int i = 0; i < 5; i++) {
		aer(port[3], 2, "RxErr", 2);
		tick(SEC);
	}
	assert_verdict("pcie-errors", LINK3, 2);
	assert_true(evidence("10 corrected errors"));
	assert_true(evidence("RxErr x10"));
	assert_true(evidence("all reported by the port 0000:17:03.0 (10), none by the device"));
	assert_true(evidence("its 3 equals on this node have nothing of this"));
	/* Each costs a repeated packet. */
	assert_int_equal(V.attr.severity, FT_WARNING);
	aer(gpu[3], 2, "BadDLLP", 1000);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 3);
	assert_true(evidence("1010 corrected errors"));
	assert_true(evidence("BadDLLP x1000"));
	assert_true(evidence("10 reported by the port 0000:17:03.0, 1000 by the device"));
	assert_int_equal(V.attr.severity, FT_WARNING);
}

/* What weighs more goes before errors that were all corrected. */
static void test_mild(void **state)
{
	(void)state;
	node();
	aer(port[3], 2, "RxErr", 500);
	clocks(1, 0, 90, 0x40);
	tick(5 * SEC);
	verdict();
	assert_string_equal(V.kind, "gpu-throttled");
	assert_true(evidence("also: " LINK3));
}

static void test_uncorrectable(void **state)
{
	(void)state;
	node();
	aer(gpu[3], 0, "TLP", 1);
	assert_int_equal(seen.opened, 1);
	assert_verdict("pcie-errors", LINK3, 3);
	assert_true(evidence("1 uncorrected error"));
	assert_int_equal(V.attr.severity, FT_ERROR);
}

/* A tool that reads what is not there makes these on healthy links. */
static void test_software(void **state)
{
	(void)state;
	node();
	aer(gpu[3], 0, "UnsupReq", 3);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 1);
	assert_true(evidence("software that reads what is not there"));
	assert_int_equal(V.attr.severity, FT_WARNING);
	aer(gpu[3], 1, "MalfTLP", 1);
	assert_verdict("pcie-errors", LINK3, 3);
}

/* The counters are another way to the same figure. */
static void test_cross_check(void **state)
{
	(void)state;
	node();
	counter(port[3], 2, "RxErr", 212, true);
	counter(port[3], 2, "TOTAL_ERR_COR", 212, true);
	aer(port[3], 2, "RxErr", 640);
	tick(SEC);
	counter(port[3], 2, "RxErr", 1000, false);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 3);
	assert_true(evidence("1000 corrected errors"));
	assert_true(
		evidence("the kernel's counters rose by 1000, 640 of them were seen as events"));
	assert_true(evidence("212 PCIe errors before the attach by the kernel's counters"));
}

/* Where no event comes they are all there is. */
static void test_counters_only(void **state)
{
	(void)state;
	node_with(0, 5, 16, 5, 5);
	memset(D->watch, WATCH_OFF, sizeof(D->watch));
	watch("pcie.counter", true);
	inv_users(T0 - 100 * SEC);
	tick(SEC);
	assert_none();
	assert_false(blind("PCIe errors:"));
	counter(gpu[3], 2, "BadTLP", 30, false);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 2);
	assert_true(evidence("BadTLP x30"));
	counter(gpu[3], 1, "DLP", 1, false);
	assert_verdict("pcie-errors", LINK3, 3);
}

static void inv_no_aer(const char *up, const char *down, const char *serves)
{
	struct ft_rec r;
	struct ft_ev_inv_pci *e = ft_rec_new(&r, FT_KIND_inv_pci, now);

	e->now__gen = e->possible__gen = 5;
	e->now__width = e->possible__width = 16;
	e->os_aer = 0;
	ft_rec_str(&r, &e->port, up);
	ft_rec_str(&r, &e->device, down);
	ft_rec_str(&r, &e->serves, serves);
	play(&r);
}

static void test_firmware_first(void **state)
{
	(void)state;
	node();
	inv_no_aer(port[3], gpu[3], gpu[3]);
	verdict();
	assert_true(blind("PCIe errors on 1 of 6 links: the kernel does not handle AER there"));
	assert_true(ruled_out("PCIe: 6 links at full speed, 0 AER errors on 5 of 6"));
	/* It handles none: that no error came says nothing. */
	inv_no_aer(ROOT, UP, gpu[0]);
	for (int i = 0; i < 5; i++)
		inv_no_aer(port[i], gpu[i], gpu[i]);
	verdict();
	assert_true(ruled_out("PCIe: 6 links at full speed"));
	assert_false(ruled_out("AER"));
	assert_true(blind("PCIe errors: the kernel handles AER on none of the links"));
	assert_false(blind("PCIe errors on"));
}

static void recovery(int i, int result)
{
	struct ft_rec r;
	struct ft_ev_pcie_recovery *e = ft_rec_new(&r, FT_KIND_pcie_recovery, now);

	e->result = result;
	e->before = 0;
	ft_strcpy(e->device, port[i], sizeof(e->device));
	play(&r);
}

static void test_recovery(void **state)
{
	(void)state;
	node();
	recovery(3, 0);
	recovery(3, 1);
	recovery(3, 3);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 3);
	assert_true(evidence("(DPC); the recovery failed"));
	tick(SEC);
	recovery(3, 2);
	assert_verdict("pcie-errors", LINK3, 3);
	assert_false(evidence("failed"));
}

/* NVIDIA's driver cannot recover: that is no second error, and what it was of stays as it is. */
static void test_recovery_of_software(void **state)
{
	(void)state;
	node();
	aer(gpu[3], 0, "UnsupReq", 1);
	recovery(3, 1);
	recovery(3, 3);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 1);
	assert_true(evidence("1 uncorrected error, not recovered"));
	assert_int_equal(V.attr.severity, FT_WARNING);
	/* It does not train either: lanes that are lost now are lost. */
	change(3, 5, 16, 5, 8);
	assert_verdict("pcie-link-degraded", LINK3, 3);
}

/* 7.3 tells an advisory error twice, and counts it twice. */
static void test_advisory(void **state)
{
	struct ft_rec r;
	struct ft_ev_pcie_aer *e;

	(void)state;
	node();
	aer(gpu[3], 2, "NonFatalErr", 12);
	e = ft_rec_new(&r, FT_KIND_pcie_aer, now);
	r.h.count = 12;
	e->aer_class = 0;
	e->before = 0;
	e->advisory = 1;
	ft_strcpy(e->device, gpu[3], sizeof(e->device));
	ft_rec_strs_add(&r, &e->errors, "TLP");
	play(&r);
	counter(gpu[3], 2, "NonFatalErr", 12, false);
	counter(gpu[3], 0, "TLP", 12, false);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 2);
	assert_true(evidence("12 corrected errors"));
	assert_true(evidence("NonFatalErr x12 TLP x12"));
	assert_false(evidence("uncorrected"));
	assert_false(evidence("the kernel's counters rose"));
	assert_int_equal(V.attr.severity, FT_WARNING);
}

/* Without the tracepoint the log and the counters tell of the same errors. */
static void test_log_and_counters(void **state)
{
	(void)state;
	node_with(0, 5, 16, 5, 5);
	memset(D->watch, WATCH_OFF, sizeof(D->watch));
	watch("pcie.counter", true);
	inv_users(T0 - 100 * SEC);
	aer(port[3], 2, "BadTLP", 6);
	counter(port[3], 2, "BadTLP", 6, false);
	tick(SEC);
	assert_none();
	aer(port[3], 2, "BadTLP", 6);
	counter(port[3], 2, "BadTLP", 6, false);
	tick(SEC);
	assert_verdict("pcie-errors", LINK3, 2);
	assert_true(evidence("12 corrected errors"));
	assert_true(evidence("BadTLP x12"));
}

/* Errors first, then the downgrade, then it falls off: one incident, of the strongest kind. */
static void test_one_incident(void **state)
{
	uint64_t since;

	(void)state;
	node();
	clocks(3, 0, 95, 0);
	tick(SEC);
	since = now;
	aer(port[3], 2, "RxErr", 155);
	tick(SEC);
	change(3, 5, 16, 3, 8);
	assert_string_equal(seen.kind, "pcie-link-degraded");
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_true(evidence("width halved and speed -2 gens while the GPU is at work (P0)"));
	assert_true(evidence("155 corrected errors"));
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns, since + diag_clock.offset_ns);
	tick(SEC);
	xid_at(3, 79, false, now);
	tick(SEC);
	assert_verdict("pcie-device-gone", GPU3, 3);
	assert_true(evidence("155 corrected errors"));
	assert_true(evidence("width halved"));
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns, since + diag_clock.offset_ns);
	for (size_t i = 1; i < D->nincidents; i++)
		fail();
}

/* What the log tells of before the attach dates a fault of the same kind, and is none by itself. */
static void test_before(void **state)
{
	uint64_t first;

	(void)state;
	node();
	tick(SEC);
	first = now - 600 * SEC;
	aer_at(port[3], 2, "BadTLP", 40, true, first);
	log_line(gpu[3], 3, true);
	assert_none();
	change(3, 5, 16, 5, 8);
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns, now + diag_clock.offset_ns);
	assert_true(evidence("40 PCIe errors before the attach in the kernel log"));
	assert_true(evidence("the kernel log has trouble of it from before the attach"));
	aer(port[3], 2, "BadTLP", 40);
	tick(SEC);
	verdict();
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns, first + diag_clock.offset_ns);
	/* Days ago: not the same story, though it is told first. */
	aer_at(port[2], 2, "BadTLP", 40, true, 1);
	aer(port[2], 2, "BadTLP", 40);
	tick(SEC);
	assert_int_equal(D->nincidents, 2);
	assert_int_equal(D->incidents[1].f.since_ns, now - SEC);
}

/* The first look at a link, boot messages and an application's errors are no trouble of before. */
static void test_no_trouble_before(void **state)
{
	struct ft_rec r;
	struct ft_ev_pcie_link *l;
	struct ft_ev_pcie_hotplug *e;

	(void)state;
	node();
	l = rec_change(&r, 3, FT_NONE_U32, FT_NONE_U32, 1, 16);
	l->reason = 6;
	l->before = 1;
	play(&r);
	e = ft_rec_new(&r, FT_KIND_pcie_hotplug, now - 1200 * SEC);
	e->event = 2;
	e->before = 1;
	ft_strcpy(e->port, port[3], sizeof(e->port));
	play(&r);
	xid_at(3, 31, true, now - 1200 * SEC);
	tick(SEC);
	change(3, 5, 16, 5, 8);
	assert_verdict("pcie-link-degraded", LINK3, 3);
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns, now + diag_clock.offset_ns);
	assert_false(evidence("the kernel log has trouble"));
}

/* The log's records come first, with times of long ago: no time has passed with them. */
static void test_before_is_no_time(void **state)
{
	(void)state;
	aer_at(port[3], 2, "BadTLP", 1, true, T0 - 30 * 3600 * SEC);
	aer_at(port[3], 2, "BadTLP", 1, true, T0 - 10 * 3600 * SEC);
	aer_at(port[3], 2, "BadTLP", 1, true, T0 - 9 * 3600 * SEC);
	node();
	tick(30 * SEC);
	assert_none();
	assert_true(evidence("watched for 30 s"));
	/* They have nothing to do with it. */
	change(3, 5, 16, 5, 8);
	aer(port[3], 2, "BadTLP", 40);
	tick(SEC);
	verdict();
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns,
			 now - SEC + diag_clock.offset_ns);
}

/* Of before the attach, and of the process that still is there. */
static void test_xid_before(void **state)
{
	(void)state;
	node_with(0, 5, 16, 5, 5);
	xid_at(2, 79, true, T0 - 300 * SEC); /* nobody ran yet */
	xid_at(3, 31, true, T0 - 50 * SEC);
	inv_users(T0 - 100 * SEC);
	tick(2 * SEC);
	assert_none();
	/* Long before it is another story. */
	xid_at(3, 48, true, T0 - 9000 * SEC);
	xid_at(3, 48, true, T0 - 60 * SEC);
	aer_at(gpu[2], 0, "TLP", 1, true, T0 - 9000 * SEC);
	aer_at(gpu[2], 0, "TLP", 1, true, T0 - 60 * SEC);
	tick(2 * SEC);
	assert_int_equal(D->nincidents, 2);
	for (size_t i = 0; i < D->nincidents; i++)
		assert_int_equal(D->incidents[i].f.since_ns, T0 - 60 * SEC);
	xid_at(3, 79, true, T0 - 50 * SEC);
	tick(2 * SEC);
	assert_verdict("pcie-device-gone", GPU3, 3);
	assert_int_equal(((struct ft_ev_verdict *)&V.rec)->since_ns,
			 T0 - 60 * SEC + diag_clock.offset_ns);
}

static void test_xid(void **state)
{
	(void)state;
	node();
	xid_at(3, 48, false, now);
	assert_int_equal(seen.opened, 1);
	xid_at(3, 48, false, now);
	tick(2 * SEC);
	assert_verdict("gpu-xid", GPU3, 3);
	assert_true(evidence("Xid 48 x2"));
	assert_true(evidence("double bit ECC error"));
	exits(3, 0, 6);
	tick(5 * SEC);
	verdict();
	assert_string_equal(V.kind, "gpu-xid");
	assert_true(evidence("consequence: rank 3"));
}

/* As many kinds as there is room for; the others are counted as not fitting. */
static void test_many_kinds(void **state)
{
	(void)state;
	node();
	for (uint32_t i = 0; i < 12; i++)
		xid_at(3, 200 + i, false, now);
	for (int i = 0; i < 40; i++) {
		char name[16];

		ft_fmt(name, "Error%d", i);
		aer(gpu[3], 2, name, 1);
		change(3, i % 6, 16, 5, i % 6 + 1);
		tick(SEC);
	}
	verdict();
	assert_true(blind("4 objects were beyond the bounds of the diagnosis"));
	for (const struct plink *pl = D->plinks; pl; pl = pl->hh.next)
		if (!strcmp(pl->key, port[3])) {
			assert_int_equal(pl->xids[7].xid, 207);
			assert_string_equal(pl->errors[15].name, "others");
			assert_int_equal(pl->errors[15].n, 25);
		}
}

static void test_xid_application(void **state)
{
	(void)state;
	node();
	xid_at(3, 31, false, now);
	tick(2 * SEC);
	assert_verdict("gpu-xid", GPU3, 1);
	assert_true(evidence("an application error by the driver's own table"));
	exits(3, 0, 6);
	tick(5 * SEC);
	verdict();
	assert_string_equal(V.kind, "rank-died");
	assert_true(evidence("also: GPU 3"));
}

/* What our table does not have may be anything; what only records is no fault. */
static void test_xid_unknown(void **state)
{
	(void)state;
	node();
	xid_at(3, 154, false, now);
	xid_at(2, 777, false, now);
	tick(2 * SEC);
	verdict();
	assert_int_equal(D->nincidents, 2);
	for (size_t i = 0; i < D->nincidents; i++)
		assert_int_equal(D->incidents[i].f.confidence, 1);
	assert_int_equal(V.attr.severity, FT_WARNING);
}

static void test_throttled(void **state)
{
	(void)state;
	node();
	clocks(3, 0, 99, 0);
	tick(10 * SEC);
	clocks(3, 0, 99, 0x04); /* a power cap is a setting */
	tick(10 * SEC);
	assert_none();
	assert_true(ruled_out("GPU throttling: none"));
	clocks(3, 0, 99, 0x48);
	tick(12 * SEC);
	assert_verdict("gpu-throttled", GPU3, 3);
	assert_true(evidence("hardware thermal slowdown, 1 time, 12.0 s in all, still so"));
	assert_true(evidence("SM clock down to 345 MHz, up to 91 C"));
	clocks(3, 0, 99, 0);
	tick(8 * SEC);
	verdict();
	assert_true(evidence("12.0 s in all"));
	tick(120 * SEC);
	assert_int_equal(seen.closed, 1);
	/* It is not the link's fault, and the link's fault is another one. */
	change(3, 5, 16, 5, 8);
	tick(SEC);
	assert_int_equal(D->nincidents, 2);
}

static void nvlink(int i, uint64_t delta, int active, bool before)
{
	struct ft_rec r;
	struct ft_ev_gpu_nvlink *e = ft_rec_new(&r, FT_KIND_gpu_nvlink, now);

	e->delta = delta;
	e->link = 4;
	e->active = active;
	e->before = before;
	ft_strcpy(e->bdf, gpu[i], sizeof(e->bdf));
	ft_rec_str(&r, &e->error, "replay");
	play(&r);
}

static void test_nvlink(void **state)
{
	(void)state;
	node();
	nvlink(3, 500, 1, true);
	nvlink(3, 0, 0, true); /* a card without bridge */
	nvlink(3, 9, 0, false);
	tick(2 * SEC);
	assert_none();
	nvlink(3, 30, 0, false);
	tick(2 * SEC);
	assert_verdict("nvlink-errors", GPU3, 2);
	assert_true(evidence("NVLink 4: 39 replay since the attach, 500 before"));
	nvlink(3, 0, 0, false); /* it was so before */
	tick(2 * SEC);
	assert_verdict("nvlink-errors", GPU3, 2);
	nvlink(3, 0, 1, false);
	nvlink(3, 0, 0, false);
	nvlink(3, 0, 0, false);
	tick(2 * SEC);
	assert_verdict("nvlink-errors", GPU3, 3);
	assert_true(evidence("down 1 time"));
}

static void test_log(void **state)
{
	(void)state;
	node();
	log_line(gpu[4], 3, false); /* what the slot gives */
	log_line(gpu[4], 4, false);
	log_line(gpu[3], 1, true);
	tick(2 * SEC);
	assert_none();
	log_line(gpu[3], 2, true);
	tick(2 * SEC);
	assert_verdict("device-trouble", GPU3, 1);
	log_line(gpu[3], 1, false);
	tick(2 * SEC);
	assert_verdict("device-trouble", GPU3, 2);
	log_line(gpu[3], 0, false);
	tick(2 * SEC);
	assert_verdict("pcie-device-gone", GPU3, 3);
}

/* The NIC below the link loses its carrier because it is gone. */
static void test_same_nic(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_netdev *e;
	struct ft_ev_net_link *l;

	(void)state;
	node();
	e = ft_rec_new(&r, FT_KIND_inv_netdev, now);
	e->netns = NS(0);
	e->ifindex = 2;
	ft_strcpy(e->ifname, "eth0", 16);
	ft_rec_str(&r, &e->bdf, NIC);
	play(&r);
	sock(0, 1, 40000, 5000);
	tick(SEC);
	gone(4, 0);
	tick(SEC);
	l = ft_rec_new(&r, FT_KIND_net_link, now);
	l->netns = NS(0);
	l->ifindex = 2;
	l->carrier = 0;
	ft_strcpy(l->ifname, "eth0", 16);
	play(&r);
	tick(6 * SEC);
	verdict();
	assert_string_equal(V.kind, "pcie-device-gone");
	assert_true(evidence("consequence: eth0 of rank 0"));
}

static void test_no_process(void **state)
{
	(void)state;
	node_with(3, 5, 8, 5, 5);
	tick(2 * SEC);
	assert_verdict("pcie-link-degraded", "PCIe link of GPU 3, slot 5 (0000:17:03.0 -> 1b:00.0)",
		       3);
	assert_true(list_has(((struct ft_ev_verdict *)&V.rec)->hits,
			     "not known: no process is traced"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_few),
		T(test_correctable),
		T(test_mild),
		T(test_uncorrectable),
		T(test_software),
		T(test_cross_check),
		T(test_counters_only),
		T(test_firmware_first),
		T(test_recovery),
		T(test_recovery_of_software),
		T(test_advisory),
		T(test_log_and_counters),
		T(test_one_incident),
		T(test_before),
		T(test_before_is_no_time),
		T(test_no_trouble_before),
		T(test_xid_before),
		T(test_xid),
		T(test_xid_application),
		T(test_xid_unknown),
		T(test_many_kinds),
		T(test_throttled),
		T(test_nvlink),
		T(test_log),
		T(test_same_nic),
		T(test_no_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "diag_fixture.h"

#include "diagnose/internal.h"

/* Dropped at rank 2's own interface on the way in. */
static void test_in_with_drops(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 20);
	retransmit(1, 1, 20);
	e = verdict();
	assert_string_equal(V.kind, "lossy-link");
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)");
	assert_int_equal(e->confidence, 3);
	assert_true(hits_rank(1) && hits_rank(2));
	assert_false(hits_rank(0) || hits_rank(3));
	assert_true(list_has(e->evidence, "20 received packets dropped, NETFILTER_DROP"));
	assert_true(list_has(e->evidence,
			     "rank 1 -> rank 2: 20 segments sent again in 1 of 1 connections"));
	assert_true(list_has(e->hits, "all 4 ranks of the communicator"));
	assert_true(list_has(e->ruled_out, "packet loss on other links: none on"));
	assert_true(list_has(e->ruled_out, "carrier loss: none on 4 interfaces"));
	assert_true(list_has(e->next, "nft list ruleset"));
	assert_int_equal(e->since_ns,
			 SEC + NSEC_PER_MSEC + 1000); /* the first drop, in CLOCK_REALTIME */
	assert_string_equal(V.attr.nics[0].netdev, "eth0");
	assert_int_equal(V.attr.nics[0].netns, NS(2));
}

/* Dropped on the switch's port: what all its packets have in common is rank 2. */
static void test_out_at_switch(void **state)
{
	(void)state;
	job(true);
	drop_at(2, 2, SWITCH_NS, "p2", "NETFILTER_DROP", 15);
	drop_at(1, 2, SWITCH_NS, "p2", "NETFILTER_DROP",
		2); /* acknowledgements of the other connection */
	retransmit(2, 1, 15);
	assert_int_equal(verdict()->confidence, 3);
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)");
}

/* Only one connection was hit there: it may be either end's link. */
static void test_out_at_switch_one_pair(void **state)
{
	(void)state;
	job(true);
	drop_at(2, 2, SWITCH_NS, "p2", "NETFILTER_DROP", 15);
	retransmit(2, 1, 15);
	assert_int_equal(verdict()->confidence, 2);
	assert_non_null(strstr(V.object, "path between rank 2 and rank 3, at p2"));
}

static void test_both_ways(void **state)
{
	(void)state;
	job(true);
	drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 12);
	drop_at(2, 2, SWITCH_NS, "p2", "NETFILTER_DROP", 12);
	drop_at(1, 2, SWITCH_NS, "p2", "NETFILTER_DROP", 2);
	retransmit(1, 1, 12);
	retransmit(2, 1, 12);
	assert_int_equal(verdict()->confidence, 3);
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)");
	assert_true(hits_rank(1) && hits_rank(2) && hits_rank(3));
	assert_false(hits_rank(0));
}

/* Nobody watches drops: still the place that all lossy paths have in common, but less sure. */
static void test_common_place(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(false);
	retransmit(1, 1, 20);
	retransmit(2, 1, 20);
	e = verdict();
	assert_int_equal(e->confidence, 2);
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)");
	assert_true(list_has(e->evidence, "drops are not watched"));
	assert_true(list_has(e->blind, "dropped packets: not watched"));
	assert_false(list_has(e->ruled_out, "dropped packets"));
}

/* One path: its two ends cannot be told apart, and nobody pretends. */
static void test_one_path(void **state)
{
	(void)state;
	job(true);
	retransmit(1, 1, 30);
	assert_int_equal(verdict()->confidence, 2);
	assert_string_equal(V.object, "path between rank 1 and rank 2");
}

static void test_no_common_place(void **state)
{
	(void)state;
	job(true);
	for (int i = 0; i < RANKS; i++)
		retransmit(i, 1, 10);
	assert_int_equal(verdict()->confidence, 1);
	assert_non_null(strstr(V.object, "no single link: 4 of "));
}

static void test_noise(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	retransmit(0, 2, 2);
	/* one a minute for an hour is noise as well */
	for (int i = 0; i < 60; i++) {
		retransmit(1, 1, 1);
		tick(61 * SEC);
	}
	e = verdict();
	assert_string_equal(V.kind, "");
	assert_int_equal(e->confidence, 0);
	assert_int_equal(V.attr.severity, FT_INFO);
	assert_int_equal(seen.n, 0);
	assert_true(list_has(e->evidence,
			     "rank 0 -> rank 1: 4 segments sent again, at most 4 in a minute"));
}

static void test_ordinary_drops(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	drop_at(1, 2, NS(2), "eth0", "NO_SOCKET", 100);
	drop_at(1, 2, NS(2), "eth0", "TCP_OLD_DATA", 100);
	e = verdict();
	assert_string_equal(V.kind, "");
	assert_true(list_has(e->ruled_out,
			     "dropped packets: none seen in the 4 traced network namespaces "
			     "(200 in the ordinary course)"));
}

/* 5000 drops of packets to rank 2 that were only counted: one record, without addresses. */
static void storm(uint32_t netns, const char *ifname, uint32_t ifindex)
{
	struct ft_rec r;
	struct ft_ev_net_drop *e = ft_rec_new(&r, FT_KIND_net_drop, now);

	e->netns = netns;
	e->ifindex = ifindex;
	e->ingress = 1;
	ft_strcpy(e->ifname, ifname, 16);
	ft_rec_str(&r, &e->reason, "NETFILTER_DROP");
	head(&r, PID(2), "trainer");
	r.h.count = 5000;
	r.h.first_ns = now;
	r.h.last_ns = now + 5;
	r.h.flags = FT_REC_AGG;
	play(&r);
}

/* A storm has no addresses any more: by the interface and the direction. */
static void test_storm(void **state)
{
	(void)state;
	job(true);
	storm(NS(2), "eth0", 2);
	retransmit(1, 500, 10);
	assert_int_equal(verdict()->confidence, 3);
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)");
}

/* At a switch port: the path is known by the first drops, the rest has an owner only. */
static void test_storm_at_switch(void **state)
{
	(void)state;
	job(true);
	drop_at(1, 2, SWITCH_NS, "p2", "NETFILTER_DROP", 4);
	storm(SWITCH_NS, "p2", FT_NONE_U32);
	retransmit(1, 500, 10);
	assert_false(list_has(verdict()->evidence, "no drop was seen"));
	assert_string_equal(V.object, "path between rank 1 and rank 2, at p2");
}

/* Packets of strangers are no fault of the job's link. */
static void test_scan(void **state)
{
	const struct ft_ev_verdict *e;
	struct ft_rec r;

	(void)state;
	job(true);
	for (int i = 0; i < 20; i++) {
		struct ft_ev_net_drop *drop = ft_rec_new(&r, FT_KIND_net_drop, now);

		drop->ingress = 1;
		set_socket(&r, "203.0.113.7", 50000 + i, ip_of(1), 23, NS(1), "eth0");
		ft_rec_str(&r, &drop->reason, "NETFILTER_DROP");
		play(&r);
	}
	e = verdict();
	assert_string_equal(V.kind, "");
	assert_true(list_has(e->ruled_out, "dropped packets: none seen of a known connection, 20"));
	assert_true(list_has(e->evidence, "7 TCP connections"));
}

/* Drops that cost nothing take no loss from elsewhere. */
static void test_drops_adopt_nothing(void **state)
{
	(void)state;
	job(true);
	drop_at(0, 1, NS(1), "eth0", "NETFILTER_DROP", 20);
	retransmit(1, 1, 60);
	assert_int_equal(verdict()->confidence, 2);
	assert_string_equal(V.object, "path between rank 1 and rank 2");
}

/* A lossy link takes what crosses it as well, but then it is less sure. */
static void test_adopted(void **state)
{
	(void)state;
	job(true);
	drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 60);
	retransmit(1, 1, 60);
	assert_int_equal(verdict()->confidence, 3);
	retransmit(2, 1, 60);
	assert_int_equal(verdict()->confidence, 2);
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)");
}

/* One event in a record that is added up: its time is that of the event. */
static void test_aggregate_of_one(void **state)
{
	const struct ft_ev_verdict *e;
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *t;

	(void)state;
	job(true);
	tick(100 * SEC);
	t = ft_rec_new(&r, FT_KIND_tcp_retransmit, now);
	t->segs = 50;
	head(&r, PID(1), "trainer");
	set_socket(&r, ip_of(1), 40001, ip_of(2), 5001, NS(1), "eth0");
	r.h.flags = FT_REC_AGG;
	r.h.first_ns = r.h.last_ns = now - SEC;
	play(&r);
	e = verdict();
	assert_int_equal(e->since_ns, now - SEC + diag_clock.offset_ns);
}

/* Dropped without any retransmission: said, but hardly believed. */
static void test_drops_alone(void **state)
{
	(void)state;
	job(true);
	drop_at(1, 2, NS(2), "eth0", "SOCKET_RCVBUFF", 100);
	assert_int_equal(verdict()->confidence, 1);
}

/* A finding grows with its evidence and is one incident; it closes when it has been quiet. */
static void test_incident_life(void **state)
{
	(void)state;
	job(true);
	retransmit(1, 1, 10);
	tick(SEC);
	assert_int_equal(seen.opened, 1);
	assert_string_equal(seen.object, "path between rank 1 and rank 2");
	retransmit(1, 1, 10);
	tick(SEC);
	retransmit(1, 1, 100);
	tick(SEC);
	assert_int_equal(seen.opened, 2); /* surer: low to medium; then nothing new */
	retransmit(2, 1, 130);
	tick(SEC);
	assert_string_equal(seen.object, "eth0 of rank 2 (netns 4026532202)");
	assert_int_equal(seen.closed, 0);
	tick(61 * SEC);
	assert_int_equal(seen.closed, 1);
	verdict();
	assert_string_equal(V.kind, "lossy-link"); /* closed, but the answer all the same */
}

static void test_two_faults(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 50);
	retransmit(1, 1, 50);
	drop_at(3, 0, NS(0), "eth0", "NETFILTER_DROP", 20);
	retransmit(3, 1, 20);
	e = verdict();
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)"); /* the earlier one */
	assert_true(list_has(e->evidence, "also: eth0 of rank 0"));
}

/* Rank i's connection to its next: what the receiver had already. */
static void late(int i, unsigned int segs)
{
	struct ft_rec r;
	struct ft_ev_tcp_late *e = ft_rec_new(&r, FT_KIND_tcp_late, now);

	e->segs = segs;
	head(&r, PID(i), "trainer");
	set_socket(&r, ip_of(i), 40000 + i, ip_of((i + 1) % RANKS), 5000 + i, NS(i), "eth0");
	play(&r);
}

static void stall(int i, unsigned int timeouts)
{
	struct ft_rec r;
	struct ft_ev_tcp_stall *e = ft_rec_new(&r, FT_KIND_tcp_stall, now);

	e->timeouts = timeouts;
	e->unacked_segs = timeouts ? 294 : 0;
	head(&r, PID(i), "trainer");
	set_socket(&r, ip_of(i), 40000 + i, ip_of((i + 1) % RANKS), 5000 + i, NS(i), "eth0");
	play(&r);
}

/* A slow receiver: everything that is sent again was there already. Nobody is accused, ever. */
static void test_late_is_no_loss(void **state)
{
	(void)state;
	job(true);
	for (int n = 0; n < 50; n++) {
		retransmit(1, 3, 2);
		tick(FT_LOOK_NS);
		late(1, 6);
		tick(SEC);
	}
	assert_string_equal((verdict(), V.kind), "");
	assert_int_equal(seen.n, 0);
}

/* The answer comes later than a judgement: it waits for what is not known yet, no longer. */
static void test_late_is_waited_for(void **state)
{
	(void)state;
	job(true);
	tick(SEC - 20 * NSEC_PER_MSEC);
	retransmit(1, 20, 1);
	tick(20 * NSEC_PER_MSEC);
	assert_int_equal(seen.n, 0);
	tick(FT_LOOK_NS);
	late(1, 10);
	tick(SEC);
	assert_int_equal(seen.opened, 1);
	assert_true(list_has(verdict()->evidence,
			     "20 segments sent again in 1 of 1 connections, 10 "
			     "of them late and not lost (D-SACK)"));
}

/* It comes so late that a link was accused: that is taken back. */
static void test_late_takes_back(void **state)
{
	(void)state;
	job(true);
	retransmit(1, 1, 20);
	tick(2 * SEC);
	assert_int_equal(seen.opened, 1);
	late(1, 18);
	tick(2 * SEC);
	assert_int_equal(seen.closed, 1);
	assert_string_equal((verdict(), V.kind), "");
	/* What was lost before stays lost. */
	tick(100 * SEC);
	retransmit(1, 1, 20);
	tick(100 * SEC);
	retransmit(1, 1, 1);
	late(1, 1);
	tick(2 * SEC);
	assert_string_equal((verdict(), V.kind), "lossy-link");
}

/* A steady stream over several windows: what waits for its answer is not lost when one ends. */
static void test_late_at_the_roll(void **state)
{
	unsigned int pending = 0;

	(void)state;
	job(true);
	for (int n = 0; n < 2600; n++) {
		retransmit(1, 8, 1);
		pending += 8;
		tick(40 * NSEC_PER_MSEC);
		if (n % 4 != 3)
			continue;
		late(1, pending);
		pending = 0;
	}
	tick(2 * SEC);
	assert_int_equal(seen.n, 0);
	assert_string_equal((verdict(), V.kind), "");
}

static void storm_of(int i, unsigned int segs, uint64_t first, uint64_t last)
{
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *e = ft_rec_new(&r, FT_KIND_tcp_retransmit, now);

	e->segs = segs;
	e->syn = 0;
	r.h.count = segs;
	r.h.flags |= FT_REC_AGG;
	r.h.first_ns = first;
	r.h.last_ns = last;
	head(&r, PID(i), "trainer");
	set_socket(&r, ip_of(i), 40000 + i, ip_of((i + 1) % RANKS), 5000 + i, NS(i), "eth0");
	play(&r);
}

/* The segments of a storm are told after the answer to them. */
static void test_late_before_its_storm(void **state)
{
	uint64_t first;

	(void)state;
	job(true);
	first = now + 500 * NSEC_PER_MSEC;
	retransmit(1, 1, 50);
	tick(300 * NSEC_PER_MSEC);
	late(1, 300);
	tick(150 * NSEC_PER_MSEC);
	late(1, 400);
	storm_of(1, 650, first, now - 50 * NSEC_PER_MSEC);
	tick(3 * SEC);
	assert_string_equal((verdict(), V.kind), "");
}

/* Of another interface than before: the loss that was seen stays one. */
static void test_another_way(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_netdev *e;

	(void)state;
	job(true);
	e = ft_rec_new(&r, FT_KIND_inv_netdev, now);
	e->netns = NS(1);
	e->ifindex = 3;
	ft_strcpy(e->ifname, "eth1", 16);
	play(&r);
	retransmit(1, 1, 20);
	tick(3 * SEC);
	assert_int_equal(seen.opened, 1);
	ft_rec_new(&r, FT_KIND_tcp_retransmit, now);
	((struct ft_ev_tcp_retransmit *)&r)->segs = 1;
	head(&r, PID(1), "trainer");
	set_socket(&r, ip_of(1), 40001, ip_of(2), 5001, NS(1), "eth1");
	((struct ft_ev_tcp_retransmit *)&r)->ifindex = 3;
	play(&r);
	tick(3 * SEC);
	assert_string_equal((verdict(), V.kind), "lossy-link");
}

/* What was withdrawn takes no room from what is true. */
static void test_withdrawn_often(void **state)
{
	(void)state;
	job(true);
	for (int n = 0; n < INCIDENTS_MAX + 10; n++) {
		retransmit(1, 1, 20);
		tick(2 * SEC);
		late(1, 20);
		tick(2 * SEC);
	}
	assert_true(seen.opened >= INCIDENTS_MAX);
	assert_int_equal(seen.opened, seen.closed);
	retransmit(2, 1, 200);
	tick(3 * SEC);
	assert_string_equal((verdict(), V.object), "path between rank 2 and rank 3");
}

/* Since when it stands still, not since its first harmless retransmission. */
static void test_stall_since(void **state)
{
	uint64_t at;

	(void)state;
	job(true);
	retransmit(1, 1, 1);
	tick(3600 * SEC);
	at = now;
	stall(1, 3);
	tick(2 * SEC);
	assert_int_equal(verdict()->since_ns, at + 1000);
}

/* Those of before the attach are told, too, and belong to no segment that was seen. */
static void test_late_of_before(void **state)
{
	(void)state;
	job(true);
	late(1, 100);
	retransmit(1, 1, 20);
	assert_string_equal((verdict(), V.kind), "lossy-link");
}

/* A path that swallows everything has few retransmissions, ever more seldom. */
static void test_stall(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	tick(SEC);
	stall(1, 7);
	tick(300 * SEC);
	assert_int_equal(seen.opened, 1);
	assert_int_equal(seen.closed, 0);
	e = verdict();
	assert_string_equal(V.object, "path between rank 1 and rank 2");
	assert_int_equal(e->confidence, 2);
	assert_true(list_has(e->evidence, "stands still: 7 timeouts in a row, 294 segments"));
}

static void test_stall_goes_on(void **state)
{
	(void)state;
	job(true);
	stall(1, 3);
	tick(2 * SEC);
	stall(1, 0);
	tick(300 * SEC);
	assert_int_equal(seen.opened, 1);
	assert_int_equal(seen.closed, 1);
}

/* Everything into rank 2 and out of it stands still: that is what the paths have in common. */
static void test_stall_common(void **state)
{
	(void)state;
	job(true);
	stall(1, 5);
	stall(2, 5);
	verdict();
	assert_non_null(strstr(V.object, "eth0 of rank 2"));
}

/* A rule of the output hook drops before there is an interface. */
static void test_drops_at_no_interface(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	drop_at(0, 0, NS(0), "", "NETFILTER_DROP", 20);
	retransmit(0, 1, 20);
	e = verdict();
	assert_string_equal(V.object, "eth0 of rank 0 (netns 4026532200)");
	assert_int_equal(e->confidence, 3);
	assert_true(list_has(e->evidence, "no interface (netns 4026532200): 20"));
	assert_true(list_has(e->evidence, "in its namespace, at no interface"));
	assert_true(list_has(e->next, "nsenter -t 4001 -n COMMAND): a firewall rule drops it"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_in_with_drops),
		T(test_out_at_switch),
		T(test_out_at_switch_one_pair),
		T(test_both_ways),
		T(test_common_place),
		T(test_one_path),
		T(test_no_common_place),
		T(test_noise),
		T(test_ordinary_drops),
		T(test_storm),
		T(test_drops_alone),
		T(test_incident_life),
		T(test_two_faults),
		T(test_storm_at_switch),
		T(test_scan),
		T(test_drops_adopt_nothing),
		T(test_adopted),
		T(test_aggregate_of_one),
		T(test_late_is_no_loss),
		T(test_late_is_waited_for),
		T(test_late_takes_back),
		T(test_late_at_the_roll),
		T(test_late_before_its_storm),
		T(test_another_way),
		T(test_withdrawn_often),
		T(test_stall_since),
		T(test_late_of_before),
		T(test_stall),
		T(test_stall_goes_on),
		T(test_stall_common),
		T(test_drops_at_no_interface),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "attrib_fixture.h"

static void feed_sock(uint32_t pid, const char *s, uint16_t sport, const char *d, uint16_t dport,
		      uint32_t netns)
{
	struct ft_rec r;
	struct ft_ev_inv_sock *e = ft_rec_new(&r, FT_KIND_inv_sock, 2);

	head(&r, pid, "trainer");
	e->tcp_state = 1;
	set_socket(&r, s, sport, d, dport, netns, "eth0");
	feed(&r);
}

static struct ft_ev_net_drop *drop(struct ft_rec *r, bool ingress, uint32_t netns)
{
	struct ft_ev_net_drop *e = ft_rec_new(r, FT_KIND_net_drop, 3);

	e->ingress = ingress;
	set_socket(r, "10.0.0.1", 100, "10.0.0.2", 200, netns, "p2");
	return e;
}

static void two_ranks(void)
{
	feed_proc(10, 7, 1);
	feed_proc(20, 8, 2);
	feed_sock(10, "10.0.0.1", 100, "10.0.0.2", 200, 7);
	feed_sock(20, "10.0.0.2", 200, "10.0.0.1", 100, 8);
}

static void test_peer(void **state)
{
	(void)state;
	two_ranks();
	feed_retransmit(10, 0);
	assert_int_equal(got.ranks[0].global_rank, 1);
	assert_int_equal(got.npeers, 1);
	assert_int_equal(got.peers[0].global_rank, 2);
	assert_int_equal(got.peer_pid, 20);
	assert_false(got.peer_sends);
}

static void test_peer_elsewhere(void **state)
{
	(void)state;
	feed_proc(10, 7, 1);
	feed_sock(10, "10.0.0.1", 100, "10.0.0.2", 200, 7);
	feed_retransmit(10, 0);
	assert_int_equal(got.npeers, 0);
	assert_int_equal(got.peer_pid, 0);
}

/*
 * A dropped packet that the kernel could give no owner: by its addresses, the receiver's on the
 * way in.
 */
static void test_drop_by_tuple(void **state)
{
	struct ft_rec r;

	(void)state;
	two_ranks();
	drop(&r, true, 99);
	feed(&r);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.ranks[0].global_rank, 2);
	assert_int_equal(got.peers[0].global_rank, 1);
	assert_true(got.peer_sends);
	assert_true(got.how & FT_HOW(tuple));
	assert_true(got.how & FT_HOW(ifname));
	assert_string_equal(got.nics[0].netdev, "p2");
	drop(&r, false, 99);
	feed(&r);
	assert_int_equal(got.ranks[0].global_rank, 1);
	assert_false(got.peer_sends);
}

/* Only the receiver is known, the packet leaves here: still its connection. */
static void test_drop_other_end(void **state)
{
	struct ft_rec r;

	(void)state;
	feed_proc(20, 8, 2);
	feed_sock(20, "10.0.0.2", 200, "10.0.0.1", 100, 8);
	drop(&r, false, 99);
	feed(&r);
	assert_int_equal(got.ranks[0].global_rank, 2);
}

static void test_drop_unknown(void **state)
{
	struct ft_rec r;

	(void)state;
	two_ranks();
	drop(&r, true, 99);
	r.h.flags = FT_REC_AGG; /* no addresses */
	r.h.count = 2;
	feed(&r);
	assert_int_equal(got.nranks, 0);
	assert_false(got.how & FT_HOW(tuple));
}

/* In a namespace of ranks: theirs, in doubt when there are several. */
static void test_drop_in_netns(void **state)
{
	struct ft_rec r;

	(void)state;
	feed_proc(10, 7, 1);
	feed_proc(11, 7, 2);
	feed_proc(20, 8, 3);
	ft_rec_new(&r, FT_KIND_net_tx_timeout, 3);
	((struct ft_ev_net_tx_timeout *)&r)->netns = 7;
	ft_strcpy(((struct ft_ev_net_tx_timeout *)&r)->ifname, "eth1", 16);
	feed(&r);
	assert_int_equal(got.nranks, 2);
	assert_true(got.shared);
	assert_true(got.how & FT_HOW(netns));
	((struct ft_ev_net_tx_timeout *)&r)->netns = 8;
	feed(&r);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.ranks[0].global_rank, 3);
	assert_false(got.shared);
	((struct ft_ev_net_tx_timeout *)&r)->netns = 9;
	feed(&r);
	assert_int_equal(got.nranks, 0);
}

/* Whose sockets go through the interface are all concerned: no doubt. */
static void test_link_by_route(void **state)
{
	struct ft_rec r;
	struct ft_ev_net_link *e = ft_rec_new(&r, FT_KIND_net_link, 3);

	(void)state;
	feed_proc(10, 7, 1);
	feed_proc(11, 7, 2);
	feed_sock(10, "10.0.0.1", 100, "10.0.0.2", 200, 7);
	e->netns = 7;
	e->carrier = 0;
	ft_strcpy(e->ifname, "eth0", 16);
	feed(&r);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.ranks[0].global_rank, 1);
	assert_false(got.shared);
	assert_true(got.how & FT_HOW(route));
	assert_int_equal(got.severity, FT_ERROR);
	e->carrier = 1;
	feed(&r);
	assert_int_equal(got.severity, FT_WARNING);
}

/* Two jobs with the same addresses in different namespaces: no guess. */
static void test_ambiguous(void **state)
{
	struct ft_rec r;

	(void)state;
	two_ranks();
	feed_proc(30, 9, 5);
	feed_sock(30, "10.0.0.2", 200, "10.0.0.1", 100, 9);
	drop(&r, true, 99);
	feed(&r);
	assert_true(got.nranks == 0 || got.ranks[0].global_rank == 1);
	feed_retransmit(10, 0);
	assert_int_equal(got.npeers, 0);
	/* What the first one says later does not settle it. */
	feed_sock(20, "10.0.0.2", 200, "10.0.0.1", 100, 8);
	feed_retransmit(10, 0);
	assert_int_equal(got.npeers, 0);
}

/* One packet is of one process, whoever else has sockets there. */
static void test_drop_of_several(void **state)
{
	struct ft_rec r;
	struct ft_ev_net_drop *e;

	(void)state;
	feed_proc(10, 7, 1);
	feed_proc(11, 7, 2);
	feed_sock(10, "10.0.0.1", 100, "10.0.0.2", 200, 7);
	feed_sock(11, "10.0.0.1", 101, "10.0.0.2", 200, 7);
	e = ft_rec_new(&r, FT_KIND_net_drop, 3);
	e->ingress = 1;
	set_socket(&r, "203.0.113.7", 5, "10.0.0.1", 23, 7, "eth0");
	feed(&r);
	assert_int_equal(got.nranks, 2);
	assert_true(got.shared);
}

static void test_closed_makes_room(void **state)
{
	struct ft_rec r;
	struct ft_ev_tcp_state *e = ft_rec_new(&r, FT_KIND_tcp_state, 3);

	(void)state;
	feed_proc(10, 7, 1);
	for (uint32_t i = 0; i < 140000; i++) {
		char ip[16];

		ft_fmt(ip, "10.1.%u.%u", (i >> 8) & 255, i & 255);
		head(&r, 10, "trainer");
		set_socket(&r, "10.0.0.1", 1 + (i >> 16), ip, 200, 7, "eth0");
		e->from = 1;
		e->to = 7;
		feed(&r);
	}
	assert_int_equal(ft_attrib_unfit(A), 0);
}

/* --- sockets that several processes have --- */

/* A fork by a process that shows itself at the time ts. */
static void fork_at(uint64_t ts, uint32_t pid, uint32_t ppid)
{
	struct ft_rec r;
	struct ft_ev_proc_start *e = ft_rec_new(&r, FT_KIND_proc_start, ts);

	head(&r, pid, "trainer");
	e->ppid = ppid;
	e->exec = 0;
	feed(&r);
}

static void retransmit_at(uint64_t ts, uint32_t pid, uint16_t sport, uint32_t how)
{
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *e = ft_rec_new(&r, FT_KIND_tcp_retransmit, ts);

	head(&r, pid, "trainer");
	r.h.how = how;
	e->segs = 1;
	set_socket(&r, "10.0.0.1", sport, "10.0.0.2", 200, 7, "eth0");
	feed(&r);
}

/* A process that is no rank: who forked from it may be meant as well. */
static void test_heir_of_nobody(void **state)
{
	(void)state;
	feed_proc(10, 7, -1);
	retransmit_at(5, 10, 100, 0);
	fork_at(6, 20, 10);
	retransmit_at(7, 10, 100, 0);
	assert_true(got.how & FT_HOW(inherited));
	assert_true(got.shared);
	/* opened later: the fork never had it */
	retransmit_at(8, 10, 101, 0);
	retransmit_at(9, 10, 101, 0);
	assert_false(got.how & FT_HOW(inherited));
	assert_false(got.shared);
	/* and once it has ended, or executes something, nobody else has it */
	feed_exit(20, 0, 0);
	retransmit_at(10, 10, 100, 0);
	assert_false(got.how & FT_HOW(inherited));
	fork_at(11, 21, 10);
	feed_start(21, 10, true);
	retransmit_at(12, 10, 100, 0);
	assert_false(got.how & FT_HOW(inherited));
}

/* 16 data loaders work for their rank: nothing is in doubt. */
static void test_heirs_of_rank(void **state)
{
	(void)state;
	feed_proc(10, 7, 3);
	retransmit_at(5, 10, 100, 0);
	for (uint32_t i = 0; i < 16; i++)
		fork_at(6, 20 + i, 10);
	for (int told = 0; told < 2; told++) {
		retransmit_at(7, 10, 100, told ? FT_HOW(iterator) | FT_HOW(inherited) : 0);
		assert_true(got.how & FT_HOW(inherited));
		assert_int_equal(got.nranks, 1);
		assert_int_equal(got.ranks[0].global_rank, 3);
		assert_false(got.shared);
	}
	/* What a rank executes has its environment, and is not a second one. */
	feed_start(60, 10, true);
	feed_proc(60, 7, 3);
	retransmit_at(8, 10, 100, FT_HOW(iterator) | FT_HOW(inherited));
	assert_int_equal(got.nranks, 1);
	assert_false(got.shared);
}

/* Ranks that were forked after the socket was opened share it. */
static void test_heirs_are_ranks(void **state)
{
	(void)state;
	feed_proc(10, 7, -1);
	retransmit_at(5, 10, 100, 0);
	for (uint32_t i = 0; i < 2; i++) {
		fork_at(6, 20 + i, 10);
		feed_comm(20 + i, 13, 0x1000, i, 2, -1);
	}
	fork_at(6, 30, 21); /* a data loader of one of them */
	retransmit_at(7, 10, 100, 0);
	assert_int_equal(got.nranks, 2);
	assert_true(got.shared);
	assert_true(got.how & FT_HOW(inherited));
	/* A socket that one of them opened is its own. */
	retransmit_at(8, 20, 101, 0);
	assert_int_equal(got.nranks, 1);
	assert_false(got.shared);
}

/* A port with several listeners: the one that is named, and the others of the namespace. */
static void test_drop_of_shared_port(void **state)
{
	struct ft_rec r;

	(void)state;
	feed_proc(10, 7, 1);
	feed_proc(11, 7, 2);
	feed_proc(20, 8, 3);
	drop(&r, true, 7);
	head(&r, 10, "trainer");
	r.h.how = FT_HOW(tuple);
	feed(&r);
	assert_int_equal(got.nranks, 1);
	assert_false(got.shared);
	r.h.flags = FT_REC_SHARED;
	feed(&r);
	assert_int_equal(got.nranks, 2);
	assert_true(got.shared);
	/* of a socket that siblings inherited: which ones is not known */
	r.h.how = FT_HOW(iterator) | FT_HOW(inherited);
	feed(&r);
	assert_int_equal(got.nranks, 1);
	assert_true(got.shared);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_peer),
		T(test_peer_elsewhere),
		T(test_drop_by_tuple),
		T(test_drop_other_end),
		T(test_drop_unknown),
		T(test_drop_in_netns),
		T(test_link_by_route),
		T(test_ambiguous),
		T(test_drop_of_several),
		T(test_closed_makes_room),
		T(test_heir_of_nobody),
		T(test_heirs_of_rank),
		T(test_heirs_are_ranks),
		T(test_drop_of_shared_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

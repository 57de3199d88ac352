// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "diagnose/internal.h"

#include "diag_fixture.h"

static void test_places(void **state)
{
	(void)state;
	job(true);
	assert_int_equal(HASH_COUNT(D->places), 4);
	assert_int_equal(HASH_COUNT(D->flows), 7);
	for (struct place *p = D->places; p; p = p->hh.next) {
		assert_int_equal(p->nranks, 1);
		assert_true(p->local);
		assert_int_equal(p->ranks[0].nranks, 4);
	}
	pairs_make(D, true);
	/* ring and bootstrap, both ways: 0-1 and 0-3 are in both */
	assert_int_equal(D->npairs, 10);
}

/* Seen from one end only, the other one is found by its address, later than the first packet. */
static void test_resolved_later(void **state)
{
	struct ft_rec r;
	struct flow *f;

	(void)state;
	rec_proc(&r, now, PID(0), 1, NS(0), 0);
	play(&r);
	rec_proc(&r, now, PID(1), 1, NS(1), 1);
	play(&r);
	sock(0, 1, 100, 200);
	f = D->flows;
	pairs_make(D, true);
	assert_false(end_place(D, f, 0)->local && end_place(D, f, 1)->local);
	sock(1, 0, 300, 400); /* another connection tells where that address is */
	assert_true(end_place(D, f, 0)->local && end_place(D, f, 1)->local);
}

/* One address in two namespaces names no place. */
static void test_ambiguous_address(void **state)
{
	static struct ft_attr attr = { .nnics = 1 };
	uint8_t ip[16];
	struct addr *a;

	(void)state;
	job(true);
	set_ip(ip, ip_of(1));
	HASH_FIND(hh, D->addrs, ip, 16, a);
	assert_non_null(a->place);
	attr.nics[0] = (struct ft_attr_nic){ .netdev = "eth0", .netns = 99 };
	addr_learn(D, ip, place_of(D, &attr.nics[0]));
	assert_null(a->place);
}

static void test_flow_bound(void **state)
{
	(void)state;
	for (int i = 0; i < FLOWS_MAX + 100; i++) {
		struct ft_rec r;
		struct ft_ev_tcp_state *e = ft_rec_new(&r, FT_KIND_tcp_state, now);
		char ip[16];

		head(&r, 5, "x");
		e->to = 1;
		ft_fmt(ip, "10.2.%d.%d", (i >> 8) & 255, i & 255);
		set_socket(&r, "10.0.0.1", 7, ip, 8, 1, "eth0");
		play(&r);
		if (i >= FLOWS_MAX / 2)
			continue;
		e->to = 7; /* closed: makes room */
		play(&r);
	}
	assert_int_equal(D->unfit, 0);
	assert_true(HASH_COUNT(D->flows) <= FLOWS_MAX);
}

static void test_processes(void **state)
{
	struct ft_rec r;

	(void)state;
	job(true);
	assert_int_equal(HASH_COUNT(D->procs), 4);
	rec_proc(&r, now, 9000, 1, 7, -1);
	play(&r);
	assert_int_equal(HASH_COUNT(D->procs), 5);
	ft_rec_new(&r, FT_KIND_proc_exit, now);
	head(&r, 9000, "x");
	play(&r);
	assert_null(dproc_find(D, 9000)); /* nobody asks for it any more */
	exits(1, 0, 0);
	assert_int_equal(dproc_find(D, PID(1))->exit_ns, now);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_places),	    T(test_resolved_later), T(test_ambiguous_address),
		T(test_flow_bound), T(test_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

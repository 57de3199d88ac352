// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "out_fixture.h"
#include "random_rec.h"

static void assert_line(struct ft_rec *r, const struct ft_attr *a, const char *expected)
{
	_cleanup_buf_ struct ft_buf b = {};

	assert_int_equal(ft_rec_check(r, r->h.size), 0);
	ft_text_line(&b, &r->h, a);
	assert_string_equal(b.s, expected);
}

static void test_tcp(void **state)
{
	struct ft_attr a = rank_attr(1, 2);
	struct ft_ev_tcp_stall *s;
	struct ft_ev_tcp_reset *e;
	struct ft_ev_tcp_late *l;
	struct ft_rec r;

	(void)state;
	retransmit_rec(&r, 1, 10, 12);
	assert_line(&r, &a, "TCP   rank 1 -> 2  eth0  retransmitted 12 segs");
	a.peer_sends = true;
	assert_line(&r, &a, "TCP   rank 2 -> 1  eth0  retransmitted 12 segs");
	a.npeers = 0;
	assert_line(&r, &a, "TCP   rank 1 -> 10.0.0.2:200  eth0  retransmitted 12 segs");
	assert_line(&r, &none, "TCP   pid 10 trainer -> 10.0.0.2:200  eth0  retransmitted 12 segs");
	l = ft_rec_new(&r, FT_KIND_tcp_late, 1);
	l->segs = 3;
	a = rank_attr(1, 2);
	assert_line(&r, &a, "TCP   rank 1 -> 2  late, not lost: 3 segs");
	s = ft_rec_new(&r, FT_KIND_tcp_stall, 1);
	s->timeouts = 7;
	s->unacked_segs = 294;
	assert_line(
		&r, &a,
		"TCP   rank 1 -> 2  stands still: 7 timeouts in a row, 294 segs unacknowledged");
	s->timeouts = 0;
	assert_line(&r, &a, "TCP   rank 1 -> 2  goes on again");
	e = ft_rec_new(&r, FT_KIND_tcp_reset, 1);
	e->direction = 0;
	e->tcp_state = 1;
	a = rank_attr(1, 2);
	assert_line(&r, &a, "TCP   rank 1 -> 2  reset by the peer in ESTABLISHED");
	e->direction = 1;
	ft_rec_str(&r, &e->reason, "TCP_ABORT_ON_CLOSE");
	assert_line(&r, &a,
		    "TCP   rank 1 -> 2  reset by this end in ESTABLISHED  TCP_ABORT_ON_CLOSE");
}

static void test_net(void **state)
{
	struct ft_attr a = rank_attr(2, 1);
	struct ft_ev_net_link *l;
	struct ft_ev_net_drop *d;
	struct ft_rec r;

	(void)state;
	d = ft_rec_new(&r, FT_KIND_net_drop, 1);
	d->ingress = 1;
	ft_strcpy(d->ifname, "eth0", 16);
	ft_rec_str(&r, &d->reason, "NETFILTER_DROP");
	r.h.count = 1500;
	a.peer_sends = true;
	assert_line(&r, &a,
		    "NET   rank 1 -> 2  eth0  dropped 1,500 received packets  NETFILTER_DROP");
	a = none;
	assert_line(&r, &a, "NET   ?  eth0  dropped 1,500 received packets  NETFILTER_DROP");
	l = ft_rec_new(&r, FT_KIND_net_link, 1);
	l->carrier = 0;
	ft_strcpy(l->ifname, "eth0", 16);
	a = rank_attr(2, -1);
	assert_line(&r, &a, "NET   rank 2  eth0  carrier LOST");
}

static void test_proc(void **state)
{
	struct ft_attr a = rank_attr(2, -1);
	struct ft_ev_proc_exit *e;
	struct ft_rec r;

	(void)state;
	e = ft_rec_new(&r, FT_KIND_proc_exit, 1);
	head(&r, 77, "py\x1b[2J");
	e->signal = 9;
	assert_line(&r, &a, "PROC  rank 2  pid 77  KILLED by signal 9 (Killed)");
	assert_line(&r, &none, "PROC  pid 77 py\\x1b[2J  KILLED by signal 9 (Killed)");
	e->signal = FT_NONE_S32;
	assert_line(&r, &a, "PROC  rank 2  pid 77  ended");
	e->exit_code = 3;
	assert_line(&r, &a, "PROC  rank 2  pid 77  ended with status 3");
}

static void test_found(void **state)
{
	struct ft_ev_incident *e;
	struct ft_rec r;

	(void)state;
	e = ft_rec_new(&r, FT_KIND_incident, 1);
	e->id = 3;
	e->open = 1;
	e->confidence = 2;
	ft_rec_str(&r, &e->cause__kind, "lossy-link");
	ft_rec_str(&r, &e->cause__object, "eth0 of rank 2");
	ft_rec_str(&r, &e->text, "eth0 of rank 2: 5 segments");
	assert_line(&r, &none,
		    "FOUND #3 lossy-link  eth0 of rank 2  confidence medium: 5 segments");
	e->open = 0;
	assert_line(&r, &none, "FOUND #3 closed lossy-link  eth0 of rank 2: 5 segments");
}

static void test_counts(void **state)
{
	struct ft_ev_net_ordinary *o;
	struct ft_ev_net_link *l;
	struct ft_ev_lost *lost;
	struct ft_rec r;

	(void)state;
	o = ft_rec_new(&r, FT_KIND_net_ordinary, 1);
	o->packets = 0;
	assert_line(&r, &none, "NET   0 packets dropped in the ordinary course");
	o->packets = 1;
	assert_line(&r, &none, "NET   1 packet dropped in the ordinary course");
	o->packets = FT_NONE_U64;
	assert_line(&r, &none, "NET   an unknown number of packets dropped in the ordinary course");
	l = ft_rec_new(&r, FT_KIND_net_link, 1);
	l->carrier = 0;
	l->carrier_down_delta = 1;
	assert_line(&r, &none, "NET     carrier LOST, lost 1 time");
	lost = ft_rec_new(&r, FT_KIND_lost, 1);
	lost->records = 1;
	ft_rec_str(&r, &lost->of, "net.drop");
	ft_rec_str(&r, &lost->reason, "ring buffer full");
	assert_line(&r, &none, "LOST  1 event of kind net.drop lost: ring buffer full");
}

/* Kinds without words of their own show their fields; nothing gets through unescaped. */
static void test_all_kinds(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++) {
		for (int i = 0; ft_kind(kind) && i < 100; i++) {
			_cleanup_buf_ struct ft_buf b = {};
			struct ft_attr a = rank_attr(i % 5, i % 3 - 1);
			struct ft_rec r;

			rnd_rec(&r, kind);
			ft_text_line(&b, &r.h, i % 2 ? &a : &none);
			assert_true(b.len > 0);
			for (size_t k = 0; k < b.len; k++)
				assert_true((unsigned char)b.s[k] >= 0x20 && b.s[k] != 0x7f);
		}
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tcp),	  cmocka_unit_test(test_net),
		cmocka_unit_test(test_proc),	  cmocka_unit_test(test_found),
		cmocka_unit_test(test_all_kinds), cmocka_unit_test(test_counts),
	};

	return cmocka_run_group_tests(tests, out_setup, NULL);
}

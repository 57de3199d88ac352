// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "diag_fixture.h"

static void link_event(int rank, int carrier, uint32_t delta, uint32_t speed)
{
	struct ft_rec r;
	struct ft_ev_net_link *e = ft_rec_new(&r, FT_KIND_net_link, now);

	e->netns = NS(rank);
	e->ifindex = 2;
	e->carrier = carrier;
	e->carrier_down_delta = delta;
	e->speed_mbps = speed;
	ft_strcpy(e->ifname, "eth0", 16);
	play(&r);
}

static void reset(int i, int state, bool back)
{
	struct ft_rec r;
	struct ft_ev_tcp_reset *e = ft_rec_new(&r, FT_KIND_tcp_reset, now);
	int next = (i + 1) % RANKS;

	e->tcp_state = state;
	e->direction = 0;
	head(&r, PID(back ? next : i), "trainer");
	if (back)
		set_socket(&r, ip_of(next), 5000 + i, ip_of(i), 40000 + i, NS(next), "eth0");
	else
		set_socket(&r, ip_of(i), 40000 + i, ip_of(next), 5000 + i, NS(i), "eth0");
	play(&r);
}

static void test_flap(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	setenv("TZ", "UTC", 1);
	job(true);
	tick(SEC);
	link_event(1, 0, 1, FT_NONE_U32);
	retransmit(0, 1, 30);
	retransmit(1, 1, 30);
	link_event(1, 1, FT_NONE_U32, 100000);
	tick(7 * SEC);
	e = verdict();
	assert_string_equal(V.kind, "link-down");
	assert_string_equal(V.object, "eth0 of rank 1 (netns 4026532201)");
	assert_int_equal(e->confidence, 3);
	assert_true(list_has(e->evidence, "carrier lost 1 time while watched; carrier now: yes"));
	assert_true(list_has(e->evidence,
			     "carrier is back since 00:00:02; watched 7.0 s for a repeat"));
	assert_false(list_has(e->evidence, "still open"));
	/* It can be pasted: the interface, and the way into its namespace. */
	assert_true(list_has(e->next, "nsenter -t 4002 -n ethtool -m eth0"));
	assert_true(list_has(e->evidence, "consequence: eth0 of rank 1"));
	assert_int_equal(V.attr.severity, FT_ERROR);
}

/* Without news of it: it does not settle. */
static void test_stays_down(void **state)
{
	(void)state;
	job(true);
	link_event(1, 0, 1, FT_NONE_U32);
	tick(400 * SEC);
	assert_true(list_has(verdict()->evidence,
			     "the carrier is still down: lost 400.0 s before this verdict"));
	assert_int_equal(seen.closed, 0);
}

/* Below the polling time: only the count tells. */
static void test_flap_by_count(void **state)
{
	(void)state;
	job(true);
	link_event(1, 1, 3, 100000);
	verdict();
	assert_string_equal(V.kind, "link-down");
}

static void test_up_alone(void **state)
{
	(void)state;
	job(true);
	link_event(1, 1, FT_NONE_U32, 100000);
	link_event(1, 1, 0, 200000);
	verdict();
	assert_string_equal(V.kind, "");
}

static void test_slower(void **state)
{
	(void)state;
	job(true);
	link_event(1, 1, 0, 25000);
	verdict();
	assert_string_equal(V.kind, "link-slow");
}

/* Loss that was there before the flap has another cause. */
static void test_flap_after_loss(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	retransmit(0, 1, 30);
	tick(100 * SEC);
	link_event(1, 0, 1, FT_NONE_U32);
	e = verdict();
	assert_string_equal(V.kind, "link-down");
	assert_true(list_has(e->evidence, "also: path between rank 0 and rank 1"));
}

static void test_tx_timeout(void **state)
{
	struct ft_rec r;
	struct ft_ev_net_tx_timeout *e;

	(void)state;
	job(true);
	e = ft_rec_new(&r, FT_KIND_net_tx_timeout, now);
	e->netns = NS(3);
	e->queue = 5;
	ft_strcpy(e->ifname, "eth0", 16);
	play(&r);
	assert_true(list_has(verdict()->evidence, "transmit queue 5"));
	assert_string_equal(V.kind, "tx-timeout");
	assert_string_equal(V.object, "eth0 of rank 3 (netns 4026532203)");
}

static void test_death(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	tick(5 * SEC);
	exits(2, 0, 9);
	reset(1, 1, false);
	reset(2, 1, true);
	tick(SEC);
	assert_int_equal(seen.n, 0); /* it may be the whole job that ends */
	tick(3 * SEC);
	assert_int_equal(seen.n, 1);
	for (int i = 0; i < RANKS; i++)
		if (i != 2)
			exits(i, 1, 0);
	tick(5 * SEC);
	assert_int_equal(seen.n, 1); /* the others follow from it */
	e = verdict();
	assert_string_equal(V.kind, "rank-died");
	assert_string_equal(V.object, "rank 2 (pid 4003, trainer)");
	assert_int_equal(e->confidence, 3);
	assert_true(list_has(e->evidence, "killed by signal 9"));
	assert_true(list_has(e->next, "out-of-memory"));
	assert_true(hits_rank(2) && V.attr.nranks == 1);
	assert_false(list_has(e->ruled_out, "dead rank"));
}

static void test_death_by_status(void **state)
{
	(void)state;
	job(true);
	exits(3, 77, 0);
	tick(3 * SEC);
	assert_true(list_has(verdict()->evidence, "exit status 77"));
	assert_string_equal(V.object, "rank 3 (pid 4004, trainer)");
}

/* scancel, Ctrl-C: all at once and alike. */
static void test_stopped(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	for (int i = 0; i < RANKS; i++)
		exits(i, 0, 15);
	tick(3 * SEC);
	e = verdict();
	assert_string_equal(V.kind, "");
	assert_true(list_has(e->evidence, "all 4 ranks ended together: killed by signal 15"));
	assert_false(list_has(e->ruled_out, "dead rank"));
}

/* The first one ended otherwise than those that followed at once. */
static void test_first_of_all(void **state)
{
	(void)state;
	job(true);
	exits(2, 0, 11);
	for (int i = 0; i < RANKS; i++)
		if (i != 2)
			exits(i, 1, 0);
	tick(3 * SEC);
	assert_int_equal(verdict()->confidence, 2);
	assert_string_equal(V.object, "rank 2 (pid 4003, trainer)");
}

/* The others go on without it: perhaps it was done, perhaps not. */
static void test_early_end(void **state)
{
	(void)state;
	job(true);
	exits(1, 0, 0);
	tick(SEC);
	assert_int_equal(verdict()->confidence, 0);
	tick(3 * SEC);
	assert_int_equal(verdict()->confidence, 1);
	assert_string_equal(V.object, "rank 1 (pid 4002, trainer)");
	assert_int_equal(V.attr.severity, FT_WARNING);
	/* They end in order as well, one after the other: nothing was wrong. */
	for (int i = 0; i < RANKS; i++) {
		if (i != 1)
			exits(i, 0, 0);
		tick(5 * SEC);
	}
	assert_true(list_has(verdict()->ruled_out, "dead rank: none"));
	assert_string_equal(V.kind, "");
}

/* The job was started again: the ranks have other pids, and one of them dies. */
static void test_second_death(void **state)
{
	(void)state;
	job(true);
	for (int i = 0; i < RANKS; i++)
		exits(i, 1, 0);
	tick(30 * SEC);
	for (int i = 0; i < RANKS; i++) {
		struct ft_rec r;

		rec_proc(&r, now, PID(i) + 100, 1, NS(i), i);
		play(&r);
	}
	tick(30 * SEC);
	exits(102, 0, 11);
	tick(5 * SEC);
	assert_int_equal(verdict()->confidence, 3);
	assert_string_equal(V.object, "rank 2 (pid 4103, trainer)");
}

/* It runs again: what goes wrong now is not explained by the old death. */
static void test_started_again(void **state)
{
	struct ft_rec r;

	(void)state;
	job(true);
	exits(2, 0, 11);
	tick(30 * SEC);
	rec_proc(&r, now, 9002, 1, NS(2), 2);
	play(&r);
	tick(200 * SEC);
	assert_true(list_has(verdict()->evidence, "settled: a rank of this number runs again"));
	assert_int_equal(seen.closed, 1);
	retransmit(0, 1, 60);
	verdict();
	assert_string_equal(V.kind, "lossy-link");
}

/* Later ends of those that waited are no news; a crash of one of them is. */
static void test_followers(void **state)
{
	(void)state;
	job(true);
	exits(2, 1, 0);
	tick(600 * SEC);
	exits(0, 0, 6);
	tick(10 * SEC);
	assert_int_equal(seen.opened, 1);
	exits(1, 0, 11);
	tick(10 * SEC);
	assert_int_equal(seen.opened, 2);
}

static void test_deaths_beyond(void **state)
{
	(void)state;
	job(true);
	for (int i = 0; i < 300; i++) {
		struct ft_rec r;

		rec_proc(&r, now, PID(100 + i), 1, NS(1), 100 + i);
		play(&r);
		exits(100 + i, 1, 0);
	}
	assert_true(list_has(verdict()->blind, "44 ends of ranks and 0 resets"));
}

/* No number is known, but NCCL is loaded. */
static void test_unknown_rank(void **state)
{
	struct ft_rec r;

	(void)state;
	for (int i = 0; i < RANKS; i++) {
		struct ft_ev_inv_proc *e = (void *)rec_proc(&r, now, PID(i), 4000, NS(i), -1);

		e->nccl = 1;
		e->helper = 0;
		play(&r);
	}
	exits(2, 0, 11);
	tick(5 * SEC);
	assert_int_equal(verdict()->confidence, 2);
	assert_string_equal(V.object, "a rank whose number is not known (pid 4003, trainer)");
	assert_int_equal(V.attr.nranks, 0);
}

/* A link that loses kills the connection in the end; who reports it is not at fault. */
static void test_loss_then_death(void **state)
{
	(void)state;
	job(true);
	for (int i = 0; i < 60; i++) {
		drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 1);
		retransmit(1, 1, 1);
	}
	tick(20 * SEC);
	exits(1, 1, 0);
	tick(5 * SEC);
	assert_true(list_has(verdict()->evidence, "consequence: rank 1"));
	assert_string_equal(V.object, "eth0 of rank 2 (netns 4026532202)");
}

/* No link kills a process. */
static void test_flap_then_kill(void **state)
{
	(void)state;
	job(true);
	link_event(2, 0, 1, FT_NONE_U32);
	tick(10 * SEC);
	exits(2, 0, 9);
	tick(5 * SEC);
	verdict();
	assert_string_equal(V.kind, "rank-died");
}

/* But its peers fail on it. */
static void test_flap_then_error(void **state)
{
	(void)state;
	job(true);
	link_event(2, 0, 1, FT_NONE_U32);
	tick(30 * SEC);
	exits(1, 1, 0);
	tick(5 * SEC);
	assert_true(list_has(verdict()->evidence, "consequence: rank 1"));
	assert_string_equal(V.kind, "link-down");
}

/* Ten hours ago: what goes on now is the cause. */
static void test_old_flap(void **state)
{
	(void)state;
	job(true);
	link_event(1, 0, 1, FT_NONE_U32);
	link_event(1, 1, FT_NONE_U32, 100000);
	tick(36000 * SEC);
	retransmit(2, 1, 60);
	verdict();
	assert_string_equal(V.kind, "lossy-link");
}

/* The pid is used again by another process: it is no dead rank. */
static void test_pid_again(void **state)
{
	struct ft_rec r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct ft_rec p;

		rec_proc(&p, now, PID(i), 1, NS(i), i);
		p.h.start_ns = 5 * SEC;
		play(&p);
	}
	exits(1, 1, 0);
	tick(10 * SEC);
	rec_proc(&r, now, PID(1), 1, NS(1), 1);
	r.h.start_ns = 100 * SEC;
	play(&r);
	tick(SEC);
	exits(0, 0, 11);
	tick(5 * SEC);
	assert_int_equal(seen.opened, 2);
	assert_true(list_has(verdict()->evidence, "also: rank 1 (pid 4002, trainer)"));
	assert_string_equal(V.object, "rank 0 (pid 4001, trainer)");
}

/*
 * The namespace has several ranks and an interface that none of them uses: alone it is hardly
 * believed, beside another finding it is no cause.
 */
static void test_link_aside(void **state)
{
	struct ft_rec r;
	struct ft_ev_net_link *e;

	(void)state;
	job(true);
	rec_proc(&r, now, 9001, 1, NS(1), 9);
	play(&r);
	e = ft_rec_new(&r, FT_KIND_net_link, now);
	e->netns = NS(1);
	e->carrier = 0;
	e->carrier_down_delta = 1;
	ft_strcpy(e->ifname, "veth9a1b", 16);
	play(&r);
	assert_int_equal(verdict()->confidence, 1);
	assert_string_equal(V.kind, "link-down");
	assert_int_equal(V.attr.nranks, 0);
	retransmit(2, 1, 6);
	verdict();
	assert_string_equal(V.kind, "lossy-link");
}

static void test_orderly_end(void **state)
{
	(void)state;
	job(true);
	for (int i = 0; i < RANKS; i++)
		exits(i, 0, 0);
	tick(3 * SEC);
	assert_true(list_has(verdict()->ruled_out, "dead rank: none"));
	assert_string_equal(V.kind, "");
}

/* A helper that is killed is no fault. */
static void test_helper_killed(void **state)
{
	struct ft_rec r;
	struct ft_ev_proc_start *s;
	struct ft_ev_proc_exit *e;

	(void)state;
	job(true);
	s = ft_rec_new(&r, FT_KIND_proc_start, now);
	s->ppid = PID(1);
	s->exec = 0;
	head(&r, 9000, "trainer");
	play(&r);
	e = ft_rec_new(&r, FT_KIND_proc_exit, now);
	e->signal = 9;
	head(&r, 9000, "trainer");
	play(&r);
	tick(3 * SEC);
	verdict();
	assert_string_equal(V.kind, "");
}

static void test_resets(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	reset(1, 1, false);
	reset(1, 1, true); /* the same connection, seen by its other end */
	tick(5 * SEC);
	assert_int_equal(seen.n, 1);
	e = verdict();
	assert_string_equal(V.kind, "tcp-reset");
	assert_string_equal(V.object, "connections between rank 1 and rank 2");
	assert_true(list_has(e->evidence, "1 established connection reset"));
}

static void test_ordinary_resets(void **state)
{
	(void)state;
	job(true);
	reset(0, 2, false); /* refused */
	reset(1, 4, false); /* closing */
	reset(2, 1, false); /* its process ends */
	for (int i = 0; i < RANKS; i++)
		exits(i, 0, 0);
	tick(5 * SEC);
	assert_true(list_has(verdict()->ruled_out,
			     "reset connections: none while both ends ran (3 ordinary)"));
	assert_string_equal(V.kind, "");
}

static void test_nccl_error(void **state)
{
	struct ft_rec r;

	(void)state;
	job(true);
	rec_comm(&r, now, PID(1), 17, 0x2000, 1, 2)->result = 2;
	play(&r);
	assert_true(list_has(verdict()->evidence, "unhandled system error"));
	assert_string_equal(V.kind, "nccl-error");
	assert_non_null(strstr(V.object, "ncclCommSplit in rank 1"));
}

/* The death explains the loss and the errors that came after it. */
static void test_death_explains(void **state)
{
	struct ft_rec r;
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	exits(2, 0, 11);
	tick(3 * SEC);
	retransmit(1, 1, 20);
	rec_comm(&r, now, PID(1), 20, 0x2000, 1, 2)->result = 6;
	play(&r);
	e = verdict();
	assert_string_equal(V.kind, "rank-died");
	assert_true(list_has(e->evidence, "consequence: path between rank 1 and rank 2"));
	assert_true(list_has(e->evidence, "consequence: ncclCommFinalize"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_flap),
		T(test_stays_down),
		T(test_flap_by_count),
		T(test_up_alone),
		T(test_slower),
		T(test_flap_after_loss),
		T(test_tx_timeout),
		T(test_death),
		T(test_death_by_status),
		T(test_stopped),
		T(test_first_of_all),
		T(test_orderly_end),
		T(test_helper_killed),
		T(test_resets),
		T(test_ordinary_resets),
		T(test_nccl_error),
		T(test_death_explains),
		T(test_early_end),
		T(test_pid_again),
		T(test_link_aside),
		T(test_second_death),
		T(test_followers),
		T(test_started_again),
		T(test_deaths_beyond),
		T(test_unknown_rank),
		T(test_loss_then_death),
		T(test_flap_then_kill),
		T(test_flap_then_error),
		T(test_old_flap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "diag_fixture.h"

/* Nothing came in at all: nothing is excluded, and nothing is healthy. */
static void test_empty(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	e = verdict();
	assert_string_equal(V.kind, "");
	assert_int_equal(e->ruled_out.len, 0);
	assert_true(list_has(e->blind, "packet loss: not known whether it was watched"));
	assert_true(list_has(e->blind, "carrier loss: not known whether it was watched"));
	assert_true(list_has(e->blind, "dead rank: not known whether it was watched"));
	assert_true(e->next.len > 0);
	assert_int_equal(e->hits.len, 0);
	assert_true(e->since_ns == FT_NONE_U64);
	assert_int_equal(e->final, 1);
}

static void test_no_cause(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	tick(10 * SEC);
	e = verdict();
	assert_string_equal(V.kind, "");
	assert_true(
		list_has(e->evidence,
			 "4 processes, 4 ranks, 7 TCP connections, 4 interfaces watched for 10 s"));
	/* The same number as two lines above. */
	assert_true(list_has(e->ruled_out, "packet loss: none in 7 connections (10 directions)"));
	assert_true(list_has(e->ruled_out,
			     "dropped packets: none seen in the 4 traced network namespaces"));
	assert_true(list_has(e->ruled_out, "dead rank: none (4 of 4 have not ended)"));
	assert_true(list_has(e->blind, "slow or stopped process: not judged by this version"));
	assert_true(list_has(e->ruled_out, "hung transmit queue: none"));
	assert_false(list_has(e->blind, "watched"));
	assert_true(list_has(e->next, "sudo fabrictrace -p 4001 -d 300"));
	assert_true(list_has(e->next, "on each other node of the job: sudo fabrictrace -a"));
}

static void test_probe_off(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	watch("net.link", false);
	watch("tcp.reset", false);
	watch("tcp.reset", true); /* another program gives the same events */
	e = verdict();
	assert_true(list_has(e->blind, "carrier loss: not watched"));
	assert_true(list_has(e->blind, "what this probe gives (no BTF)"));
	assert_false(list_has(e->ruled_out, "carrier loss"));
	/* It is watched, but there was nothing to see. */
	assert_true(list_has(e->blind, "reset connections: no connection is known"));
	assert_true(list_has(e->blind, "dead rank: "));
	assert_false(list_has(e->ruled_out, "none"));
}

static void test_counted(void **state)
{
	struct ft_rec r;
	struct ft_ev_lost *l = ft_rec_new(&r, FT_KIND_lost, now);
	const struct ft_ev_verdict *e;
	struct ft_ev_nccl_lib *lib;

	(void)state;
	l->records = 7;
	ft_rec_str(&r, &l->reason, "map full: counted without its details");
	play(&r);
	lib = ft_rec_new(&r, FT_KIND_nccl_lib, now);
	lib->error = -8;
	head(&r, PID(1), "trainer");
	ft_rec_str(&r, &lib->path, "/usr/lib/libnccl.so.2");
	ft_rec_str(&r, &lib->reason, "no symbols");
	play(&r);
	play(&r);
	head(&r, PID(2), "trainer");
	play(&r);
	ft_diag_unfit(D, 3);
	e = verdict();
	assert_true(list_has(e->blind, "7 events counted without their details"));
	assert_false(list_has(e->blind, "lost"));
	assert_true(list_has(e->blind, "3 objects were beyond the bounds of the attribution"));
	assert_true(list_has(e->blind, "/usr/lib/libnccl.so.2 is not probed (no symbols), "
				       "pid 4002 (trainer) and 1 more process"));
}

/* What is below the threshold is said, not left out. */
static void test_few_losses(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	retransmit(0, 2, 1);
	retransmit(2, 1, 1);
	e = verdict();
	assert_string_equal(V.kind, "");
	assert_true(list_has(e->ruled_out, "packet loss: none on 8 of 10 directions, 3 segments on "
					   "2, below the threshold of 5 in a minute"));
	assert_true(list_has(e->evidence, "rank 2 -> rank 3: 1 segment sent again"));
	drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 20);
	retransmit(1, 1, 20);
	e = verdict();
	assert_string_equal(V.kind, "lossy-link");
	assert_true(list_has(e->ruled_out, "packet loss on other links: none on 7 of 9 directions, "
					   "3 segments on 2, below the threshold"));
}

static void lose(const char *kind, unsigned int n)
{
	struct ft_rec r;
	struct ft_ev_lost *l = ft_rec_new(&r, FT_KIND_lost, now);

	l->records = n;
	ft_rec_str(&r, &l->of, kind);
	play(&r);
}

/* Of what was lost nothing can be excluded. */
static void test_lost_kind(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	lose("net.drop", 1);
	lose("proc.exit", 3);
	e = verdict();
	assert_false(list_has(e->ruled_out, "dropped packets"));
	assert_true(list_has(e->blind, "dropped packets: 1 record of it was lost"));
	assert_false(list_has(e->ruled_out, "dead rank"));
	assert_true(list_has(e->blind, "dead rank: 3 records of it were lost"));
	assert_true(list_has(e->ruled_out, "packet loss: none"));
}

/* A firewall on the way: no cable is to blame, and the commands say where they run. */
static void test_next_of_drops(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	drop_at(1, 2, SWITCH_NS, "p2", "NETFILTER_DROP", 20);
	drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 20);
	retransmit(1, 1, 30);
	e = verdict();
	assert_string_equal(V.kind, "lossy-link");
	assert_true(list_has(e->next, "(netns 4026532202; nsenter -t 4003 -n COMMAND)"));
	assert_true(list_has(e->next, "(netns 4026532000; find it: lsns -t net)"));
	assert_false(list_has(e->next, "check cable"));
	drop_at(1, 2, NS(2), "eth0", "TCP_CSUM", 20);
	e = verdict();
	assert_true(list_has(e->next, "check cable"));
	/* Nobody can enter it by a process that has ended. */
	exits(2, 0, 0);
	e = verdict();
	assert_true(list_has(e->next, "(netns 4026532202; find it: lsns -t net)"));
}

static void session(const char *target)
{
	struct ft_rec r;
	struct ft_ev_session *s = ft_rec_new(&r, FT_KIND_session, now);

	ft_rec_str(&r, &s->target, target);
	play(&r);
}

static void test_next_target(void **state)
{
	(void)state;
	assert_true(list_has(verdict()->next, "fabrictrace -p PID -d 300"));
	session("-p 17,18 and what is said of it");
	assert_true(list_has(verdict()->next, "fabrictrace -p 17,18 -d 300"));
	session("--cgroup /sys/fs/cgroup/job_7");
	assert_true(list_has(verdict()->next, "fabrictrace --cgroup /sys/fs/cgroup/job_7 -d 300"));
	session("-a");
	assert_true(list_has(verdict()->next, "fabrictrace -a -d 300"));
}

/* The command is not given again: the process that still runs is. */
static void test_next_command(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	session("-- sh -c 'exit 3'");
	job(true);
	tick(3 * SEC);
	exits(0, 0, 0);
	assert_true(list_has(verdict()->next, "fabrictrace -p 4002 -d 300"));
	for (int i = 1; i < RANKS; i++)
		exits(i, 0, 0);
	e = verdict();
	assert_true(list_has(e->ruled_out, "dead rank: none (all 4 ended in order)"));
	assert_true(list_has(e->next, "the job ended with exit status 0 after 3.0 s: trace it"));
	assert_false(list_has(e->next, "watch for longer"));
}

static void test_ended_at_once(void **state)
{
	struct ft_rec r;
	struct ft_ev_proc_exit *x;

	(void)state;
	rec_proc(&r, now, 77, 1, 7, -1)->nccl = 0;
	play(&r);
	x = ft_rec_new(&r, FT_KIND_proc_exit, now);
	head(&r, 77, "sh");
	x->exit_code = 127;
	play(&r);
	assert_true(
		list_has(verdict()->next,
			 "the job ended with exit status 127 after 0.0 s: read its own output"));
	/* It was read while it ended: it does not live again. */
	rec_proc(&r, now + 1, 77, 1, 7, -1)->nccl = 0;
	play(&r);
	assert_true(list_has(verdict()->next, "the job ended with exit status 127"));
}

static void test_blind_and_lost(void **state)
{
	const struct ft_ev_verdict *e;
	struct ft_ev_session *s;
	struct ft_ev_lost *l;
	struct ft_ev_inv_host *h;
	struct ft_rec r;

	(void)state;
	s = ft_rec_new(&r, FT_KIND_session, now);
	ft_rec_strs_add(&r, &s->blind, "NVLink");
	ft_rec_strs_add(&r, &s->blind, "switch queues");
	play(&r);
	play(&r); /* the same again is one line */
	l = ft_rec_new(&r, FT_KIND_lost, now);
	l->records = 12;
	ft_rec_str(&r, &l->of, "tcp.state");
	play(&r);
	h = ft_rec_new(&r, FT_KIND_inv_host, now);
	ft_rec_str(&r, &h->what, "/proc/7/maps");
	ft_rec_str(&r, &h->reason, "no answer in 200 ms");
	play(&r);
	e = verdict();
	assert_true(list_has(e->blind, "12 events were lost"));
	assert_true(list_has(e->blind, "NVLink"));
	assert_true(list_has(e->blind, "/proc/7/maps: no answer in 200 ms"));
}

/* More than a record can hold: cut, counted, and still a record. */
static void test_much_blind(void **state)
{
	(void)state;
	for (int i = 0; i < 200; i++) {
		struct ft_rec r;
		struct ft_ev_inv_host *h = ft_rec_new(&r, FT_KIND_inv_host, now);
		char what[64];

		ft_fmt(what, "/proc/%d/something", i);
		ft_rec_str(&r, &h->what, what);
		ft_rec_str(&r, &h->reason, "no answer");
		play(&r);
	}
	assert_true(list_has(verdict()->blind, "more"));
	assert_true(V.rec.h.size < FT_REC_MAX);
}

static void test_job_command(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *p = rec_proc(&r, now, 77, 1, 7, 0);

	(void)state;
	ft_rec_str(&r, &p->job, "88123");
	play(&r);
	assert_true(list_has(verdict()->next, "srun --jobid=88123"));
}

/* The far end is on another node: the command for it is there to copy. */
static void test_remote(void **state)
{
	const struct ft_ev_verdict *e;

	(void)state;
	job(true);
	for (int from = 0; from < 2; from++) {
		for (int i = 0; i < 20; i++) {
			struct ft_rec r;
			struct ft_ev_tcp_retransmit *t;

			now += NSEC_PER_MSEC;
			t = ft_rec_new(&r, FT_KIND_tcp_retransmit, now);
			t->segs = 1;
			head(&r, PID(from), "trainer");
			set_socket(&r, ip_of(from), 45000, "10.99.7.7", 5000, NS(from), "eth0");
			play(&r);
		}
	}
	e = verdict();
	assert_string_equal(V.object, "10.99.7.7 (another node, or not traced)");
	assert_true(list_has(e->next, "ssh 10.99.7.7 sudo fabrictrace -a"));
	assert_true(list_has(e->evidence, "cannot be seen from here"));
}

static void heartbeat(char *text, size_t size, uint32_t open)
{
	struct ft_rec r;
	struct ft_attr attr;
	const struct ft_ev_heartbeat *h = (const void *)&r;

	ft_diag_heartbeat(D, now, &r, &attr);
	assert_int_equal(ft_rec_check(&r, r.h.size), 0);
	assert_int_equal(h->open, open);
	ft_str_copy(&r.h, h->text, text, size);
}

static void test_heartbeat(void **state)
{
	char text[300];

	(void)state;
	job(true);
	heartbeat(text, sizeof(text), 0);
	assert_string_equal(
		text,
		"4 of 4 ranks have not ended, 0 segments sent again, 0 packets dropped, no finding");
	retransmit(1, 1, 1);
	heartbeat(text, sizeof(text), 0);
	assert_non_null(strstr(text, ", 1 segment sent again, 0 packets dropped"));
	drop_at(1, 2, NS(2), "eth0", "NETFILTER_DROP", 20);
	retransmit(1, 1, 20);
	tick(2 * SEC);
	heartbeat(text, sizeof(text), 1);
	assert_string_equal(text, "#1 link loses packets: eth0 of rank 2 (netns 4026532202)");
	tick(100 * SEC);
	heartbeat(text, sizeof(text), 0);
}

/* Asked in between: the later answer knows more. */
static void test_twice(void **state)
{
	(void)state;
	job(true);
	verdict();
	assert_string_equal(V.kind, "");
	retransmit(1, 1, 30);
	verdict();
	assert_string_equal(V.kind, "lossy-link");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_empty),	       T(test_no_cause),       T(test_probe_off),
		T(test_counted),       T(test_blind_and_lost), T(test_much_blind),
		T(test_job_command),   T(test_remote),	       T(test_heartbeat),
		T(test_twice),	       T(test_few_losses),     T(test_lost_kind),
		T(test_next_of_drops), T(test_next_target),    T(test_next_command),
		T(test_ended_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

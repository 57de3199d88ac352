/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* One attribution per test, and the attribution of the last event that was fed. */
#ifndef FT_TESTS_ATTRIB_FIXTURE_H
#define FT_TESTS_ATTRIB_FIXTURE_H

#include "records.h"

static struct ft_attrib *A;
static struct ft_attr got;

static int attrib_setup(void **state)
{
	(void)state;
	return ft_attrib_new(&A);
}

static int attrib_teardown(void **state)
{
	(void)state;
	ft_attrib_free(A);
	A = NULL;
	return 0;
}

static __attribute__((unused)) void feed(struct ft_rec *r)
{
	assert_int_equal(ft_rec_check(r, r->h.size), 0);
	ft_attrib_event(A, &r->h, &got);
}

static __attribute__((unused)) void feed_proc(uint32_t pid, uint32_t netns, int rank)
{
	struct ft_rec r;

	rec_proc(&r, 1, pid, 1, netns, rank);
	feed(&r);
}

static __attribute__((unused)) void feed_comm(uint32_t pid, int op, uint64_t ptr, int rank,
					      int nranks, int device)
{
	struct ft_rec r;
	struct ft_ev_nccl_comm *e = rec_comm(&r, 2, pid, op, ptr, rank, nranks);

	e->id_hash = 0x77;
	if (device >= 0)
		e->device = device;
	feed(&r);
}

/* An event of the process that names no communicator. */
static __attribute__((unused)) void feed_retransmit(uint32_t pid, uint64_t start_ns)
{
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *e = ft_rec_new(&r, FT_KIND_tcp_retransmit, 3);

	head(&r, pid, "trainer");
	r.h.start_ns = start_ns;
	e->segs = 1;
	set_socket(&r, "10.0.0.1", 100, "10.0.0.2", 200, 7, "eth0");
	feed(&r);
}

static __attribute__((unused)) void feed_start(uint32_t pid, uint32_t ppid, bool exec)
{
	struct ft_rec r;
	struct ft_ev_proc_start *e = ft_rec_new(&r, FT_KIND_proc_start, 4);

	head(&r, pid, "trainer");
	e->ppid = ppid;
	e->exec = exec;
	feed(&r);
}

static __attribute__((unused)) void feed_exit(uint32_t pid, int code, int sig)
{
	struct ft_rec r;
	struct ft_ev_proc_exit *e = ft_rec_new(&r, FT_KIND_proc_exit, 5);

	head(&r, pid, "trainer");
	if (sig)
		e->signal = sig;
	else
		e->exit_code = code;
	feed(&r);
}

#define T(f) cmocka_unit_test_setup_teardown(f, attrib_setup, attrib_teardown)

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* An output that writes into a file, and what it has written. */
#ifndef FT_TESTS_OUT_FIXTURE_H
#define FT_TESTS_OUT_FIXTURE_H

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "output/output.h"
#include "records.h"

static const struct ft_clock out_clock;
static bool out_full; /* of what is opened next: no terminal */
static struct ft_out *O;
static int out_fd = -1;
static __attribute__((unused)) struct ft_attr none;

static __attribute__((unused)) void
out_open(int (*make)(struct ft_out **, const struct ft_out_opts *), int verbose, bool color)
{
	struct ft_out_opts o = { .host = "n17",
				 .clock = &out_clock,
				 .verbose = verbose,
				 .color = color,
				 .full = out_full };

	out_fd = o.fd = memfd_create("out", MFD_CLOEXEC);
	assert_true(out_fd >= 0);
	assert_int_equal(make(&O, &o), 0);
}

static __attribute__((unused)) const char *written(void)
{
	static char text[65536];
	ssize_t n = pread(out_fd, text, sizeof(text) - 1, 0);

	text[MAX(n, 0)] = 0;
	return text;
}

static __attribute__((unused)) void out_close(void)
{
	ft_out_free(O);
	O = NULL;
	close(out_fd);
}

/* Lines of a text, and whether none is too wide. */
static __attribute__((unused)) unsigned int lines_of(const char *s)
{
	unsigned int n = 0;

	for (const char *l = s; *l; n++) {
		size_t len = strcspn(l, "\n");

		assert_true(len <= 100 || strchr(l, '\033'));
		l += len + (l[len] == '\n');
	}
	return n;
}

static __attribute__((unused)) void session_rec(struct ft_rec *r, uint64_t ts)
{
	struct ft_ev_session *e = ft_rec_new(r, FT_KIND_session, ts);

	e->overhead_ns = 200000000;
	ft_rec_str(r, &e->version, "0.1");
	ft_rec_str(r, &e->kernel, "6.8.0-60");
	ft_rec_str(r, &e->target, "-p 4000");
	ft_rec_strs_add(r, &e->blind, "NVLink");
}

static __attribute__((unused)) void retransmit_rec(struct ft_rec *r, uint64_t ts, uint32_t pid,
						   unsigned int segs)
{
	struct ft_ev_tcp_retransmit *e = ft_rec_new(r, FT_KIND_tcp_retransmit, ts);

	e->segs = segs;
	e->bytes = 1448 * segs;
	e->syn = 0;
	head(r, pid, "trainer");
	set_socket(r, "10.0.0.1", 100, "10.0.0.2", 200, 7, "eth0");
}

static __attribute__((unused)) struct ft_attr rank_attr(int rank, int peer)
{
	struct ft_attr a = { .nranks = 1, .severity = FT_WARNING, .nnics = 1 };

	a.ranks[0] = (struct ft_attr_rank){ .rank = rank, .nranks = 4, .global_rank = rank };
	ft_fmt(a.nics[0].netdev, "eth0");
	if (peer >= 0) {
		a.npeers = 1;
		a.peer_pid = 1000 + peer;
		a.peers[0] =
			(struct ft_attr_rank){ .rank = peer, .nranks = 4, .global_rank = peer };
	}
	return a;
}

static int out_setup(void **state)
{
	(void)state;
	setenv("TZ", "UTC", 1);
	tzset();
	return 0;
}

#endif

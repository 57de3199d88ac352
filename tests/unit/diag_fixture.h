/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Four ranks in a ring, each in a namespace of its own with eth0; attribution and diagnosis
 * behind them.
 */
#ifndef FT_TESTS_DIAG_FIXTURE_H
#define FT_TESTS_DIAG_FIXTURE_H

#include "records.h"

#define RANKS	  4
#define NS(rank)  (4026532200u + (rank))
#define PID(rank) (4001u + (rank))
#define SWITCH_NS 4026532000u

static struct ft_attrib *A;
static struct ft_diag *D;
static const struct ft_clock diag_clock = { .offset_ns = 1000 };
static uint64_t now;

static struct {
	unsigned int n, opened, closed;
	char object[200], kind[32];
	uint8_t confidence;
} seen;

static void on_incident(void *ctx, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_incident *e = (const void *)ev;

	(void)ctx;
	(void)attr;
	assert_int_equal(ev->kind, FT_KIND_incident);
	assert_int_equal(ft_rec_check(ev, ev->size), 0);
	seen.n++;
	seen.opened += e->open;
	seen.closed += !e->open;
	seen.confidence = e->confidence;
	ft_str_copy(ev, e->cause__object, seen.object, sizeof(seen.object));
	ft_str_copy(ev, e->cause__kind, seen.kind, sizeof(seen.kind));
}

static void play(struct ft_rec *r)
{
	static struct ft_attr attr;

	assert_int_equal(ft_rec_check(r, r->h.size), 0);
	r->h.how &= ~FT_ATTRIB_HOW;
	ft_attrib_event(A, &r->h, &attr);
	ft_diag_event(D, &r->h, &attr);
}

static __attribute__((unused)) void tick(uint64_t ns)
{
	now += ns;
	ft_diag_advance(D, now);
}

static __attribute__((unused)) const char *ip_of(int rank)
{
	static char s[4][16];
	static int turn;
	char *out = s[turn++ & 3];

	snprintf(out, 16, "10.99.0.%d", (rank + 1) & 15);
	return out;
}

/* The kinds that are watched; 0 ends. */
static __attribute__((unused)) void watch(const char *kind, bool on)
{
	struct ft_rec r;
	struct ft_ev_probe *e = ft_rec_new(&r, FT_KIND_probe, now);

	e->state = on;
	ft_rec_str(&r, &e->gives, kind);
	ft_rec_str(&r, &e->hides, on ? "" : "what this probe gives");
	ft_rec_str(&r, &e->reason, on ? "" : "no BTF");
	play(&r);
}

static __attribute__((unused)) void sock(int from, int to, uint16_t sport, uint16_t dport)
{
	struct ft_rec r;

	ft_rec_new(&r, FT_KIND_inv_sock, now);
	((struct ft_ev_inv_sock *)&r)->tcp_state = 1;
	head(&r, PID(from), "trainer");
	set_socket(&r, ip_of(from), sport, ip_of(to), dport, NS(from), "eth0");
	play(&r);
}

static __attribute__((unused)) void job(bool drops_watched)
{
	static const char *const kinds[] = { "tcp.retransmit", "tcp.reset", "net.link",
					     "net.tx_timeout", "proc.exit", "nccl.comm",
					     "pcie.link",      "pcie.aer" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		watch(kinds[i], true);
	watch("net.drop", drops_watched);
	for (int i = 0; i < RANKS; i++) {
		struct ft_rec r;
		struct ft_ev_inv_netdev *e;

		rec_proc(&r, now, PID(i), 1, NS(i), i);
		play(&r);
		e = ft_rec_new(&r, FT_KIND_inv_netdev, now);
		e->netns = NS(i);
		e->ifindex = 2;
		e->speed_mbps = 100000;
		ft_strcpy(e->ifname, "eth0", 16);
		play(&r);
	}
	for (int i = 0; i < RANKS; i++) {
		struct ft_rec r;
		int next = (i + 1) % RANKS;

		rec_comm(&r, now, PID(i), 13, 0x1000, i, RANKS)->id_hash = 0x77;
		play(&r);
		sock(i, next, 40000 + i, 5000 + i);
		sock(next, i, 5000 + i, 40000 + i);
		if (i) {
			sock(i, 0, 41000 + i, 29500);
			sock(0, i, 29500, 41000 + i);
		}
	}
}

/* Rank i's ring connection to its next. */
static __attribute__((unused)) void retransmit(int i, unsigned int segs, unsigned int times)
{
	for (unsigned int n = 0; n < times; n++) {
		struct ft_rec r;
		struct ft_ev_tcp_retransmit *e;

		now += 10 * NSEC_PER_MSEC;
		e = ft_rec_new(&r, FT_KIND_tcp_retransmit, now);
		e->segs = segs;
		e->bytes = segs * 1448;
		e->syn = 0;
		head(&r, PID(i), "trainer");
		set_socket(&r, ip_of(i), 40000 + i, ip_of((i + 1) % RANKS), 5000 + i, NS(i),
			   "eth0");
		play(&r);
	}
}

/*
 * A packet of rank i to its next, dropped on the way; the owner is the rank that the kernel
 * found.
 */
static __attribute__((unused)) void drop_at(int i, int owner, uint32_t netns, const char *ifname,
					    const char *reason, unsigned int times)
{
	for (unsigned int n = 0; n < times; n++) {
		struct ft_rec r;
		struct ft_ev_net_drop *e;

		now += NSEC_PER_MSEC;
		e = ft_rec_new(&r, FT_KIND_net_drop, now);
		e->ingress = 1;
		e->proto = 6;
		e->len_bytes = 1514;
		head(&r, PID(owner), "trainer");
		set_socket(&r, ip_of(i), 40000 + i, ip_of((i + 1) % RANKS), 5000 + i, netns,
			   ifname);
		ft_rec_str(&r, &e->reason, reason);
		play(&r);
	}
}

static __attribute__((unused)) void exits(int i, int code, int sig)
{
	struct ft_rec r;
	struct ft_ev_proc_exit *e = ft_rec_new(&r, FT_KIND_proc_exit, now);

	head(&r, PID(i), "trainer");
	if (sig)
		e->signal = sig;
	else
		e->exit_code = code;
	play(&r);
}

/* --- the verdict --- */

static struct {
	struct ft_rec rec;
	struct ft_attr attr;
	char kind[32], object[200];
} V;

static __attribute__((unused)) const struct ft_ev_verdict *verdict(void)
{
	const struct ft_ev_verdict *e = (const void *)&V.rec;

	ft_diag_verdict(D, now, true, &V.rec, &V.attr);
	assert_int_equal(ft_rec_check(&V.rec, V.rec.h.size), 0);
	ft_str_copy(&V.rec.h, e->cause__kind, V.kind, sizeof(V.kind));
	ft_str_copy(&V.rec.h, e->cause__object, V.object, sizeof(V.object));
	return e;
}

/* Does one of the list's elements contain the text? */
static __attribute__((unused)) bool list_has(struct ft_str list, const char *text)
{
	size_t len;
	const char *s = ft_str_get(&V.rec.h, list, &len);

	for (size_t i = 0; i < len; i += strlen(s + i) + 1)
		if (strstr(s + i, text))
			return true;
	return false;
}

static __attribute__((unused)) bool hits_rank(int rank)
{
	for (int i = 0; i < V.attr.nranks; i++)
		if (V.attr.ranks[i].global_rank == rank)
			return true;
	return false;
}

static int diag_setup(void **state)
{
	struct ft_diag_opts opts = { .clock = &diag_clock, .sink = on_incident };

	(void)state;
	now = SEC;
	memset(&seen, 0, sizeof(seen));
	if (ft_attrib_new(&A))
		return -1;
	opts.attrib = A;
	return ft_diag_new(&D, &opts);
}

static int diag_teardown(void **state)
{
	(void)state;
	ft_diag_free(D);
	ft_attrib_free(A);
	return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, diag_setup, diag_teardown)

#endif

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The queue of looks, on a clock of the test's own and with made-up neighbours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#define ft_mono_ns world_ns
#include "cli/session_look.c"
#undef ft_mono_ns

#define MAX_PID 512

static struct {
	uint64_t ns, cost_ns; /* what the answer of one process takes */
	uint64_t timer_ns;
	unsigned int drains, timers;
	uint8_t facts[MAX_PID], nccl[MAX_PID], netns[MAX_PID]; /* how often each was asked */
	uint32_t order[MAX_PID];			       /* of the answers about NCCL */
	size_t norder;
	bool ended[MAX_PID];
	int has_nccl[MAX_PID];
	int inventory_error, netns_error, link_error, seed_error;
	uint32_t starts_meanwhile; /* its record is in the ring at the next drain */
	unsigned int seeds, unseen;
	char what[64];
	struct session *s;
} w;

uint64_t world_ns(void)
{
	return w.ns;
}

/* --- the neighbours --- */

int ft_loop_timer_set(int timer, uint64_t mono_ns)
{
	assert_int_equal(timer, 7);
	w.timer_ns = mono_ns;
	w.timers++;
	return 0;
}

void ft_bpf_drain(struct ft_bpf *b)
{
	uint32_t pid = w.starts_meanwhile;

	(void)b;
	w.drains++;
	w.starts_meanwhile = 0;
	if (pid)
		session_look_add(w.s, pid, true);
}

bool ft_bpf_proc_has(struct ft_bpf *b, uint32_t pid)
{
	(void)b;
	return !w.ended[pid];
}

int ft_bpf_netns_add(struct ft_bpf *b, uint32_t netns)
{
	(void)b;
	assert_int_equal(netns, 4026531840u);
	return w.netns_error;
}

int ft_bpf_seed_sockets(struct ft_bpf *b)
{
	(void)b;
	w.seeds++;
	return w.seed_error;
}

int ft_link_inode(const char *root, const char *path, uint32_t *out)
{
	assert_string_equal(root, "");
	assert_int_equal(strncmp(path, "/proc/", 6), 0);
	*out = 4026531840u;
	return 0;
}

int ft_link_src_add(struct ft_link_src *s, uint32_t pid, uint32_t netns)
{
	(void)s;
	(void)netns;
	w.netns[pid]++;
	return w.link_error;
}

int ft_nccl_src_add(struct ft_nccl_src *s, uint32_t pid)
{
	(void)s;
	w.ns += w.cost_ns;
	w.nccl[pid]++;
	w.order[w.norder++] = pid;
	return w.has_nccl[pid];
}

/* As its declaration promises: asks after each, and returns how many it looked at. */
ssize_t ft_proc_inventory_while(const char *root, const uint32_t *pids, size_t n, int timeout_ms,
				const struct ft_pci *pci, ft_sink_fn sink, bool (*go)(void *ctx),
				void *ctx)
{
	size_t done = 0;

	(void)root;
	(void)pci;
	(void)sink;
	assert_int_equal(timeout_ms, 200);
	if (w.inventory_error)
		return w.inventory_error;
	while (done < n) {
		w.ns += w.cost_ns;
		w.facts[pids[done++]]++;
		if (!go(ctx))
			break;
	}
	return done;
}

void session_record(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
}

static void unseen(void *ctx, const void *rec, size_t len)
{
	const struct ft_ev_inv_host *e = rec;

	(void)ctx;
	assert_int_equal(ft_rec_check(rec, len), 0);
	assert_int_equal(e->h.kind, FT_KIND_inv_host);
	ft_str_copy(&e->h, e->what, w.what, sizeof(w.what));
	w.unseen++;
}

/* --- the tests --- */

static int set_up(void **state)
{
	struct session *s = calloc(1, sizeof(*s));

	memset(&w, 0, sizeof(w));
	w.s = s;
	w.ns = 1000 * NSEC_PER_SEC;
	s->look_timer = 7;
	s->emit = (struct ft_emit){ unseen, NULL };
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct session *s = *state;

	free(s->looks.v);
	free(s);
	return 0;
}

static void add(struct session *s, uint32_t first, uint32_t last, bool facts)
{
	for (uint32_t pid = first; pid <= last; pid++)
		session_look_add(s, pid, facts);
}

static void test_queue(void **state)
{
	struct session *s = *state;

	session_look_add(s, 10, false);
	assert_int_equal(w.timers, 1);
	assert_true(w.timer_ns == w.ns);
	/* once per process; who asks for more gets more */
	session_look_add(s, 10, true);
	session_look_add(s, 10, false);
	assert_int_equal(s->looks.n, 1);
	assert_true(s->looks.v[0].facts);
	/* more than the first allocation, in the order of their coming */
	add(s, 11, 210, false);
	assert_int_equal(s->looks.n, 201);
	assert_int_equal(w.timers, 1);
	session_look_del(s, 11);
	session_look_del(s, 210);
	session_look_del(s, 499);
	assert_int_equal(s->looks.n, 199);
	for (size_t i = 0; i < s->looks.n; i++) {
		assert_int_equal(s->looks.v[i].pid, i ? 11 + i : 10);
		assert_int_equal(s->looks.v[i].facts, i == 0);
	}
}

static void test_one_pass(void **state)
{
	struct session *s = *state;

	w.cost_ns = NSEC_PER_MSEC;
	add(s, 1, 20, true);
	add(s, 21, 30, false); /* forks: their parents' facts */
	w.ended[5] = w.ended[25] = true;
	w.has_nccl[7] = w.has_nccl[22] = 1;
	w.has_nccl[9] = -EACCES;
	session_look(s);
	assert_int_equal(s->looks.n, 0);
	for (uint32_t pid = 1; pid <= 30; pid++) {
		assert_int_equal(w.facts[pid], pid <= 20);
		assert_int_equal(w.netns[pid], pid <= 20);
		assert_int_equal(w.nccl[pid], pid != 5 && pid != 25);
	}
	assert_int_equal(s->with_nccl, 2);
	assert_int_equal(s->nccl_unknown, 1);
	/* the ring is emptied after each answer */
	assert_int_equal(w.drains, 20 + 28);
	assert_int_equal(w.seeds, 0);
	assert_int_equal(w.unseen, 0);
}

/* 100 processes that take 100 ms each for either question: 20 s, in passes of 2 s. */
static void test_budget(void **state)
{
	struct session *s = *state;
	int passes = 0;

	w.cost_ns = 100 * NSEC_PER_MSEC;
	add(s, 1, 100, true);
	while (s->looks.n) {
		uint64_t begin = w.ns;
		unsigned int timers = w.timers;

		session_look(s);
		assert_true(w.ns - begin <= 2 * NSEC_PER_SEC + w.cost_ns);
		/* what is left has a pass at once, from the main loop */
		assert_int_equal(w.timers - timers, s->looks.n > 0);
		assert_true(w.timer_ns <= w.ns);
		assert_true(++passes <= 11);
	}
	/* nobody is asked twice, or for NCCL before the inventory knows it */
	for (uint32_t pid = 1; pid <= 100; pid++) {
		assert_int_equal(w.facts[pid], 1);
		assert_int_equal(w.netns[pid], 1);
		assert_int_equal(w.nccl[pid], 1);
		assert_int_equal(w.order[pid - 1], pid);
	}
	assert_int_equal(w.drains, 200);
}

/* One answer alone takes longer than the budget: each pass still gets on. */
static void test_slower_than_budget(void **state)
{
	struct session *s = *state;
	int passes = 0;

	w.cost_ns = 5 * NSEC_PER_SEC;
	add(s, 1, 4, true);
	for (; s->looks.n && passes < 10; passes++)
		session_look(s);
	assert_int_equal(passes, 4);
	assert_int_equal(w.norder, 4);
}

/* A process that starts while others are asked waits for the next pass and loses nothing. */
static void test_meanwhile(void **state)
{
	struct session *s = *state;

	w.cost_ns = NSEC_PER_MSEC;
	add(s, 1, 3, true);
	w.starts_meanwhile = 40;
	session_look(s);
	assert_int_equal(s->looks.n, 1);
	assert_int_equal(s->looks.v[0].pid, 40);
	assert_int_equal(w.facts[40], 0);
	session_look(s);
	assert_int_equal(s->looks.n, 0);
	assert_int_equal(w.facts[40], 1);
	assert_int_equal(w.nccl[40], 1);
	assert_int_equal(w.norder, 4);
}

/* Without the inventory the rest is asked all the same, once, and the gap has a name. */
static void test_no_inventory(void **state)
{
	struct session *s = *state;

	w.inventory_error = -EMFILE;
	add(s, 1, 3, true);
	session_look(s);
	assert_int_equal(w.unseen, 1);
	assert_string_equal(w.what, "the inventory of processes");
	assert_int_equal(s->looks.n, 0);
	for (uint32_t pid = 1; pid <= 3; pid++)
		assert_true(w.netns[pid] == 1 && w.nccl[pid] == 1);
}

static void test_netns_unseen(void **state)
{
	struct session *s = *state;

	w.netns_error = -E2BIG;
	session_netns_watch(s, 1);
	assert_string_equal(w.what, "drops in network namespace 4026531840");
	assert_int_equal(w.netns[1], 1);
	w.netns_error = 0;
	w.link_error = -ENOSPC;
	session_netns_watch(s, 1);
	assert_string_equal(w.what, "interfaces of network namespace 4026531840");
	assert_int_equal(w.unseen, 2);
	/* the source has its own row for that */
	w.link_error = -EPERM;
	session_netns_watch(s, 1);
	assert_int_equal(w.unseen, 2);
}

static void test_seed(void **state)
{
	struct session *s = *state;

	s->seed = true;
	session_look(s);
	assert_int_equal(w.seeds, 1);
	assert_false(s->seed);
	session_look(s);
	assert_int_equal(w.seeds, 1);
	/* named once for each reason; the probe table names a missing program */
	w.seed_error = -ENOENT;
	session_seed(s);
	assert_int_equal(w.unseen, 0);
	w.seed_error = -ENOMEM;
	session_seed(s);
	session_seed(s);
	assert_int_equal(w.unseen, 1);
	assert_string_equal(w.what, "sockets that were open before");
	w.seed_error = 0;
	session_seed(s);
	w.seed_error = -ENOMEM;
	session_seed(s);
	assert_int_equal(w.unseen, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_queue, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_one_pass, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_budget, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_slower_than_budget, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_inventory, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_netns_unseen, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_seed, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "base/loop.h"
#include "records.h"

struct ctx {
	struct ft_loop *loop;
	int fd, other_fd, calls, ticks, stop_after;
	bool delete_other;
};

static void on_fd(void *p)
{
	struct ctx *c = p;
	char byte;

	assert_int_equal(read(c->fd, &byte, 1), 1);
	c->calls++;
	if (c->delete_other)
		ft_loop_del(c->loop, c->other_fd);
	if (c->calls == c->stop_after)
		ft_loop_stop(c->loop);
}

static void on_tick(void *p)
{
	struct ctx *c = p;

	if (++c->ticks == c->stop_after)
		ft_loop_stop(c->loop);
}

static void never(void *p)
{
	(void)p;
	fail_msg("called after ft_loop_del()");
}

static void test_fd(void **state)
{
	struct ctx c = { .stop_after = 3 };
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(ft_loop_new(&c.loop), 0);
	c.fd = fds[0];
	assert_int_equal(ft_loop_add(c.loop, fds[0], on_fd, &c), 0);
	assert_int_equal(write(fds[1], "abc", 3), 3);
	assert_int_equal(ft_loop_run(c.loop), 0);
	assert_int_equal(c.calls, 3);
	ft_loop_free(c.loop);
	close(fds[0]);
	close(fds[1]);
}

/* A handler deletes the other one, whose event may already be in the same batch. */
static void test_delete_inside(void **state)
{
	struct ctx c = { .stop_after = 1, .delete_other = true };
	int a[2], b[2];

	(void)state;
	assert_int_equal(pipe(a), 0);
	assert_int_equal(pipe(b), 0);
	assert_int_equal(ft_loop_new(&c.loop), 0);
	c.fd = a[0];
	c.other_fd = b[0];
	assert_int_equal(ft_loop_add(c.loop, a[0], on_fd, &c), 0);
	assert_int_equal(ft_loop_add(c.loop, b[0], never, &c), 0);
	assert_int_equal(write(a[1], "a", 1), 1);
	assert_int_equal(write(b[1], "b", 1), 1);
	assert_int_equal(ft_loop_run(c.loop), 0);
	ft_loop_free(c.loop);
	for (int i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
}

static void test_every(void **state)
{
	struct ctx c = { .stop_after = 3 };
	uint64_t start = ft_mono_ns();

	(void)state;
	assert_int_equal(ft_loop_new(&c.loop), 0);
	assert_int_equal(ft_loop_every(c.loop, 10, on_tick, &c), 0);
	assert_int_equal(ft_loop_run(c.loop), 0);
	assert_int_equal(c.ticks, 3);
	assert_true(ft_mono_ns() - start >= 25 * NSEC_PER_MSEC);
	ft_loop_free(c.loop);
}

static void test_timer(void **state)
{
	struct ctx c = { .stop_after = 1 };
	uint64_t at;
	int timer;

	(void)state;
	assert_int_equal(ft_loop_new(&c.loop), 0);
	timer = ft_loop_timer(c.loop, on_tick, &c);
	assert_true(timer >= 0);
	at = ft_mono_ns() + 20 * NSEC_PER_MSEC;
	assert_int_equal(ft_loop_timer_set(timer, at), 0);
	assert_int_equal(ft_loop_run(c.loop), 0);
	assert_true(ft_mono_ns() >= at);
	/* once only, and a time that has passed is due at once */
	c.stop_after = 2;
	assert_int_equal(ft_loop_timer_set(timer, 0), 0);
	assert_int_equal(ft_loop_run(c.loop), 0);
	assert_int_equal(c.ticks, 2);
	ft_loop_free(c.loop);
}

static void test_bad_fd(void **state)
{
	struct ft_loop *l;

	(void)state;
	assert_int_equal(ft_loop_new(&l), 0);
	assert_int_equal(ft_loop_add(l, 999, never, NULL), -EBADF);
	ft_loop_del(l, 999);
	ft_loop_free(l);
	ft_loop_free(NULL);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fd),     cmocka_unit_test(test_delete_inside),
		cmocka_unit_test(test_every),  cmocka_unit_test(test_timer),
		cmocka_unit_test(test_bad_fd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

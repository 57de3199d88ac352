// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <jansson.h>
#include <pthread.h>

#include "out_fixture.h"
#include "random_rec.h"

static void test_lines(void **state)
{
	unsigned int n = 0;

	(void)state;
	out_open(ft_out_json, 0, false);
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++) {
		struct ft_rec r;

		if (!ft_kind(kind))
			continue;
		rnd_rec(&r, kind);
		assert_int_equal(ft_out_event(O, &r.h, &none), 0);
		n++;
	}
	assert_int_equal(ft_out_flush(O, 0), 0);
	for (char *save, *l = strtok_r((char *)written(), "\n", &save); l;
	     l = strtok_r(NULL, "\n", &save)) {
		json_t *j = json_loads(l, JSON_REJECT_DUPLICATES, NULL);

		assert_non_null(j);
		assert_string_equal(json_string_value(json_object_get(j, "host")), "n17");
		json_decref(j);
		n--;
	}
	assert_int_equal(n, 0);
	out_close();
}

static void test_reader_gone(void **state)
{
	struct ft_out_opts o = { .clock = &out_clock };
	struct ft_rec r;
	int fds[2], err = 0;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	o.fd = fds[1];
	assert_int_equal(ft_out_json(&O, &o), 0);
	ft_rec_new(&r, FT_KIND_proc_exit, 1);
	/* found out at the latest when the buffer is full */
	for (int i = 0; i < 1000 && !err; i++)
		err = ft_out_event(O, &r.h, &none);
	assert_int_equal(err, -EPIPE);
	assert_int_equal(ft_out_event(O, &r.h, &none), -EPIPE);
	assert_int_equal(ft_out_flush(O, 1), -EPIPE);
	ft_out_free(O);
	close(fds[1]);
}

static void test_disk_full(void **state)
{
	struct ft_out_opts o = { .clock = &out_clock, .fd = open("/dev/full", O_WRONLY) };
	struct ft_rec r;

	(void)state;
	assert_int_equal(ft_out_json(&O, &o), 0);
	ft_rec_new(&r, FT_KIND_proc_exit, 1);
	assert_int_equal(ft_out_event(O, &r.h, &none), 0);
	assert_int_equal(ft_out_flush(O, 1), -ENOSPC);
	ft_out_free(O);
	close(o.fd);
}

static void *slow_reader(void *p)
{
	static char buf[1000];
	static size_t total;
	ssize_t n;

	while ((n = read(*(int *)p, buf, sizeof(buf))) > 0)
		total += n;
	return &total;
}

/* A pipe that somebody set non-blocking: waits, and loses nothing. */
static void test_nonblocking(void **state)
{
	struct ft_out_opts o = { .clock = &out_clock };
	struct ft_rec r;
	_cleanup_buf_ struct ft_buf b = {};
	pthread_t t;
	void *total;
	int fds[2];

	(void)state;
	assert_int_equal(pipe2(fds, 0), 0);
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	o.fd = fds[1];
	assert_int_equal(ft_out_json(&O, &o), 0);
	ft_rec_new(&r, FT_KIND_tcp_retransmit, 1);
	ft_json_event(&b, &r.h, &none, NULL, &out_clock);
	pthread_create(&t, NULL, slow_reader, &fds[0]);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(ft_out_event(O, &r.h, &none), 0);
	assert_int_equal(ft_out_flush(O, 1), 0);
	close(fds[1]);
	pthread_join(t, &total);
	assert_int_equal(*(size_t *)total, 2000 * (b.len + 1));
	ft_out_free(O);
	close(fds[0]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_reader_gone),
		cmocka_unit_test(test_disk_full),
		cmocka_unit_test(test_nonblocking),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, out_setup, NULL);
}

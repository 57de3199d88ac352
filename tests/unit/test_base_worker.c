// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <pthread.h>
#include <semaphore.h>

#include "records.h"

struct job {
	sem_t go;
	int result, released;
};

static int answers(void *p)
{
	return ((struct job *)p)->result;
}

static int hangs(void *p)
{
	sem_wait(&((struct job *)p)->go);
	return 1;
}

static void release(void *p)
{
	__atomic_add_fetch(&((struct job *)p)->released, 1, __ATOMIC_SEQ_CST);
}

static bool released(struct job *j)
{
	for (int i = 0; i < 5000; i++) {
		if (__atomic_load_n(&j->released, __ATOMIC_SEQ_CST))
			return true;
		usleep(1000);
	}
	return false;
}

static void test_result(void **state)
{
	struct job j = { .result = -42 };

	(void)state;
	assert_int_equal(ft_worker_call(answers, release, &j, 5000), -42);
	assert_int_equal(j.released, 0);
}

static void test_deadline(void **state)
{
	static struct job j;
	uint64_t start = ft_mono_ns();

	(void)state;
	sem_init(&j.go, 0, 0);
	assert_int_equal(ft_worker_call(hangs, release, &j, 30), -ETIMEDOUT);
	assert_true(ft_mono_ns() - start >= 29 * NSEC_PER_MSEC);
	assert_int_equal(__atomic_load_n(&j.released, __ATOMIC_SEQ_CST), 0);
	sem_post(&j.go);
	assert_true(released(&j));
}

static void test_stuck_bound(void **state)
{
	static struct job j[FT_WORKERS_STUCK];
	struct job more = { .result = 3 };

	(void)state;
	for (int i = 0; i < FT_WORKERS_STUCK; i++) {
		sem_init(&j[i].go, 0, 0);
		assert_int_equal(ft_worker_call(hangs, release, &j[i], 1), -ETIMEDOUT);
	}
	assert_int_equal(ft_worker_call(answers, release, &more, 1000), -EBUSY);
	for (int i = 0; i < FT_WORKERS_STUCK; i++)
		sem_post(&j[i].go);
	for (int i = 0; i < FT_WORKERS_STUCK; i++)
		assert_true(released(&j[i]));
	/* the counter follows just after the release */
	for (int i = 0; i < 1000 && ft_worker_call(answers, release, &more, 1000) == -EBUSY; i++)
		usleep(1000);
	assert_int_equal(ft_worker_call(answers, release, &more, 1000), 3);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_stuck_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

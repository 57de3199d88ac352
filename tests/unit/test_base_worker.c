// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include "records.h"

struct job {
	sem_t go, ended;
	int result, released;
};

static pthread_key_t at_end; /* its destructor runs when all else of a worker is done */

static void ended(void *p)
{
	sem_post(&((struct job *)p)->ended);
}

static int answers(void *p)
{
	return ((struct job *)p)->result;
}

static int hangs(void *p)
{
	struct job *j = p;

	pthread_setspecific(at_end, j);
	sem_wait(&j->go);
	return 1;
}

static void release(void *p)
{
	__atomic_add_fetch(&((struct job *)p)->released, 1, __ATOMIC_SEQ_CST);
}

static void hang(struct job *j, int timeout_ms)
{
	sem_init(&j->go, 0, 0);
	sem_init(&j->ended, 0, 0);
	assert_int_equal(ft_worker_call(hangs, release, j, timeout_ms), -ETIMEDOUT);
	assert_int_equal(__atomic_load_n(&j->released, __ATOMIC_SEQ_CST), 0);
}

/* Lets it go on and waits for the end of its thread. */
static void let_end(struct job *j)
{
	struct timespec t;

	sem_post(&j->go);
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 10;
	assert_int_equal(sem_timedwait(&j->ended, &t), 0);
	assert_int_equal(j->released, 1);
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
	hang(&j, 30);
	assert_true(ft_mono_ns() - start >= 29 * NSEC_PER_MSEC);
	let_end(&j);
}

static void test_stuck_bound(void **state)
{
	static struct job j[FT_WORKERS_STUCK];
	struct job more = { .result = 3 };

	(void)state;
	for (int i = 0; i < FT_WORKERS_STUCK; i++)
		hang(&j[i], 1);
	assert_int_equal(ft_worker_call(answers, release, &more, 1000), -EBUSY);
	/* one that ends makes room for one */
	let_end(&j[0]);
	assert_int_equal(ft_worker_call(answers, release, &more, 5000), 3);
	for (int i = 1; i < FT_WORKERS_STUCK; i++)
		let_end(&j[i]);
	assert_int_equal(ft_worker_call(answers, release, &more, 5000), 3);
	assert_int_equal(more.released, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_result),
		cmocka_unit_test(test_deadline),
		cmocka_unit_test(test_stuck_bound),
	};

	if (pthread_key_create(&at_end, ended))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

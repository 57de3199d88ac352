// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "nccl_lib.h"
#include "source/mmap2.h"

struct seen {
	struct ft_loop *loop;
	const char *path;
	int hits, idle;
	struct ft_map map;
};

static void mapped(void *ctx, uint32_t pid, const struct ft_map *m)
{
	struct seen *s = ctx;

	if (pid != (uint32_t)getpid() || strcmp(m->path, s->path) != 0)
		return;
	s->map = *m;
	s->hits++;
}

static void lost(void *ctx, uint64_t records)
{
	(void)ctx;
	(void)records;
}

static void idle(void *ctx)
{
	struct seen *s = ctx;

	s->idle++;
	if (s->hits)
		ft_loop_stop(s->loop);
}

static void give_up(void *ctx)
{
	ft_loop_stop(ctx);
}

/* A library that this process loads is told at once, with the inode that maps shows. */
static void test_dlopen(void **state)
{
	struct seen s = { .path = lib_make("later.so", LIB_BOTH("AllReduce"), "") };
	struct ft_mmap2_ops ops = { .mapped = mapped, .lost = lost, .idle = idle, .ctx = &s };
	struct ft_mmap2 *m;
	struct stat st;
	void *lib;
	int err, fd;

	(void)state;
	assert_int_equal(ft_loop_new(&s.loop), 0);
	err = ft_mmap2_new(&m, s.loop, &ops);
	if (err) {
		print_message("no perf events here (%s): skipped\n", strerror(-err));
		ft_loop_free(s.loop);
		skip();
	}
	lib = dlopen(s.path, RTLD_NOW);
	assert_non_null(lib);
	ft_loop_every(s.loop, 3000, give_up, s.loop);
	assert_int_equal(ft_loop_run(s.loop), 0);
	assert_true(s.hits && s.idle);
	assert_int_equal(stat(s.path, &st), 0);
	assert_int_equal(s.map.ino, st.st_ino);
	assert_true(s.map.exec && s.map.start < s.map.end);
	fd = ft_map_open("", getpid(), &s.map);
	assert_true(fd >= 0);
	close(fd);
	dlclose(lib);
	ft_mmap2_free(m);
	ft_loop_free(s.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_dlopen) };

	return cmocka_run_group_tests(tests, lib_dir_make, lib_dir_remove);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <sys/wait.h>

#include "nccl_lib.h"

struct fixture {
	struct ft_nccl_cache *cache;
	struct ft_nccl_scan *scan;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->scan = calloc(1, sizeof(*f->scan));
	*state = f;
	return ft_nccl_cache_new(&f->cache);
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	ft_nccl_scan_close(f->scan);
	ft_nccl_cache_unref(f->cache);
	free(f->scan);
	free(f);
	return 0;
}

static void scan_self(struct fixture *f)
{
	ft_nccl_scan_close(f->scan);
	memset(f->scan, 0, sizeof(*f->scan));
	assert_int_equal(ft_nccl_scan("", getpid(), f->cache, f->scan), 0);
}

static void test_self(void **state)
{
	struct fixture *f = *state;
	struct ft_nccl_lib *lib = &f->scan->libs[0];
	char path[96];
	uint64_t reads;
	void *a, *b;

	scan_self(f);
	assert_int_equal(f->scan->nlibs, 0);
	assert_true(f->scan->files >= 3);
	assert_true(f->scan->task[0]);
	reads = ft_nccl_cache_reads(f->cache);
	b = dlopen(lib_make("inter.so", LIB_ONLY("AllReduce"), ""), RTLD_NOW);
	ft_strcpy(path, lib_make("odd name\xff.so", LIB_BOTH("AllReduce") LIB_VERSION, ""),
		  sizeof(path));
	a = dlopen(path, RTLD_NOW);
	assert_non_null(a);
	assert_non_null(b);
	scan_self(f);
	assert_int_equal(f->scan->nlibs, 1);
	assert_int_equal(lib->error, 0);
	assert_string_equal(lib->path, path);
	assert_string_equal(lib->image.version, "2.99.1+cuda99.0");
	assert_true(lib->fd >= 0 && lib->start < lib->end);
	assert_int_equal(ft_nccl_cache_reads(f->cache), reads + 2);
	dlclose(a);
	dlclose(b);
}

/* The file is gone, the mapping is not: map_files still has it, where that is allowed. */
static void test_deleted(void **state)
{
	struct fixture *f = *state;
	const char *path = lib_make("libnccl.so.2", LIB_BOTH("AllReduce"), "");
	void *a = dlopen(path, RTLD_NOW);

	assert_non_null(a);
	unlink(path);
	scan_self(f);
	assert_int_equal(f->scan->nlibs, 1);
	if (f->scan->libs[0].error)
		assert_int_equal(f->scan->libs[0].error, -ENOENT);
	else
		assert_int_equal(f->scan->libs[0].image.nsyms, 1);
	dlclose(a);
}

static void test_gone(void **state)
{
	struct fixture *f = *state;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	assert_int_equal(ft_nccl_scan("", pid, f->cache, f->scan), -ESRCH);
}

static void scan_map(struct fixture *f, const struct ft_map *m)
{
	ft_nccl_scan_close(f->scan);
	memset(f->scan, 0, sizeof(*f->scan));
	assert_int_equal(ft_nccl_scan_map("", getpid(), f->cache, m, f->scan), 0);
	assert_true(f->scan->files == 1 && f->scan->task[0]);
}

/*
 * One mapping, as the kernel reports it. What cannot be opened has a name if it looks like NCCL,
 * and is counted otherwise: nobody can tell.
 */
static void test_map(void **state)
{
	struct fixture *f = *state;
	void *a = dlopen(lib_make("one.so", LIB_BOTH("AllReduce"), ""), RTLD_NOW);
	struct ft_map *m = calloc(1, sizeof(*m));

	assert_non_null(a);
	scan_self(f);
	assert_int_equal(f->scan->nlibs, 1);
	*m = (struct ft_map){ .start = f->scan->libs[0].start,
			      .end = f->scan->libs[0].end,
			      .ino = f->scan->libs[0].ino,
			      .major = f->scan->libs[0].major,
			      .minor = f->scan->libs[0].minor,
			      .exec = true };
	ft_strcpy(m->path, f->scan->libs[0].path, sizeof(m->path));
	scan_map(f, m);
	assert_int_equal(f->scan->nlibs, 1);
	assert_true(f->scan->libs[0].fd >= 0 && f->scan->libs[0].start == m->start);
	/* unmapped meanwhile, and the file is gone */
	m->start = 0x1000;
	m->end = 0x2000;
	m->ino = 1;
	ft_strcpy(m->path, "/none/such/libnccl.so.2", sizeof(m->path));
	scan_map(f, m);
	assert_true(f->scan->nlibs == 1 && !f->scan->unread);
	assert_true(f->scan->libs[0].fd == -1 && f->scan->libs[0].error < 0);
	assert_string_equal(f->scan->libs[0].path, m->path);
	ft_strcpy(m->path, "/none/such/libnccl-net/other.so", sizeof(m->path));
	scan_map(f, m);
	assert_true(!f->scan->nlibs && f->scan->unread == 1);
	free(m);
	dlclose(a);
}

/* Closed twice, and more libraries than there is room for. */
static void test_many(void **state)
{
	struct fixture *f = *state;
	void *libs[FT_NCCL_LIBS_MAX + 2];
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(libs); i++) {
		ft_fmt(name, "many%zu.so", i);
		libs[i] = dlopen(lib_make(name, LIB_BOTH("AllReduce"), ""), RTLD_NOW);
		assert_non_null(libs[i]);
	}
	scan_self(f);
	assert_int_equal(f->scan->nlibs, FT_NCCL_LIBS_MAX);
	assert_int_equal(f->scan->over, 2);
	ft_nccl_scan_close(f->scan);
	for (size_t i = 0; i < ARRAY_SIZE(libs); i++)
		dlclose(libs[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_self, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_deleted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_map, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, lib_dir_make, lib_dir_remove);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "nccl_lib.h"

static int cached(struct ft_nccl_cache *c, const char *path, struct ft_nccl_image *img)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return ft_nccl_cache_read(c, fd, img);
}

static void test_once(void **state)
{
	struct ft_nccl_image a, b;
	struct ft_nccl_cache *c;
	char path[96];

	(void)state;
	assert_int_equal(ft_nccl_cache_new(&c), 0);
	ft_strcpy(path, lib_make("one.so", LIB_BOTH("AllReduce"), ""), sizeof(path));
	assert_int_equal(cached(c, path, &a), 0);
	assert_int_equal(cached(c, path, &b), 0);
	assert_memory_equal(&a, &b, sizeof(a));
	assert_int_equal(ft_nccl_cache_reads(c), 1);
	/* "no NCCL" is remembered as well */
	assert_int_equal(cached(c, "/proc/self/exe", &a), -ENOENT);
	assert_int_equal(cached(c, "/proc/self/exe", &a), -ENOENT);
	assert_int_equal(ft_nccl_cache_reads(c), 2);
	/* another file in its place */
	lib_make("one.so", LIB_BOTH("AllReduce") LIB_BOTH("Send"), "");
	assert_int_equal(cached(c, path, &a), 0);
	assert_int_equal(a.nsyms, 2);
	assert_int_equal(ft_nccl_cache_reads(c), 3);
	ft_nccl_cache_unref(c);
}

static void test_skip(void **state)
{
	struct ft_map m = { .major = 1, .minor = 2, .ino = 3 };
	struct ft_nccl_cache *c;

	(void)state;
	assert_int_equal(ft_nccl_cache_new(&c), 0);
	assert_false(ft_nccl_cache_skip(c, &m));
	ft_nccl_cache_note(c, &m);
	assert_true(ft_nccl_cache_skip(c, &m));
	m.minor = 3;
	assert_false(ft_nccl_cache_skip(c, &m));
	ft_nccl_cache_ref(c);
	ft_nccl_cache_unref(c);
	assert_false(ft_nccl_cache_skip(c, &m));
	ft_nccl_cache_unref(c);
	ft_nccl_cache_unref(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_once),
		cmocka_unit_test(test_skip),
	};

	return cmocka_run_group_tests(tests, lib_dir_make, lib_dir_remove);
}

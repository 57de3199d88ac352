// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "nccl_lib.h"

static void parse(const char *line, struct ft_map *m)
{
	assert_int_equal(ft_map_parse(line, m), 0);
}

static void test_parse(void **state)
{
	struct ft_map m;

	(void)state;
	parse("7f12aa000000-7f12aa021000 r-xp 00002000 fe:01 1234567890123              /a/b.so",
	      &m);
	assert_true(m.start == 0x7f12aa000000 && m.end == 0x7f12aa021000 && m.pgoff == 0x2000);
	assert_true(m.major == 0xfe && m.minor == 1 && m.ino == 1234567890123 && m.exec);
	assert_string_equal(m.path, "/a/b.so");
	assert_false(m.deleted);
	parse("0-1000 rw-p 0 0:0 0", &m);
	assert_string_equal(m.path, "");
	assert_false(m.exec);
	parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0         [vsyscall]", &m);
	assert_string_equal(m.path, "[vsyscall]");
	parse("1000-2000 r-xs 0 00:2f 9 /with space/and  two.so (deleted)", &m);
	assert_string_equal(m.path, "/with space/and  two.so");
	assert_true(m.deleted && m.minor == 0x2f);
	parse("1000-2000 r-xp 0 0:1 9 /new\\012line\\\\012.so", &m);
	assert_string_equal(m.path, "/new\nline\\\n.so");
	parse("1000-2000 r-xp 0 0:1 9 /ends\\01", &m);
	assert_string_equal(m.path, "/ends\\01");
}

static void test_garbage(void **state)
{
	static const char *const lines[] = {
		"",
		" ",
		"-",
		"1000",
		"1000-",
		"2000-1000 r-xp 0 0:1 9 /x",
		"1000-1000 r-xp 0 0:1 9 /x",
		"x-y r-xp 0 0:1 9 /x",
		"1000-2000 r-xp 0 01 9 /x",
		"1000-2000 r-xp 0 0:1",
		"\xff\xfe",
	};
	char longest[3 * PATH_MAX];
	struct ft_map m;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_int_equal(ft_map_parse(lines[i], &m), -EINVAL);
	memset(longest, 'a', sizeof(longest));
	longest[sizeof(longest) - 1] = 0;
	memcpy(longest, "1000-2000 r-xp 0 0:1 9 /", 24);
	parse(longest, &m);
	assert_int_equal(strlen(m.path), PATH_MAX - 1);
}

/* --- a captured process: lib_dir/proc/77 with a root directory of its own --- */

static void put(const char *path, const char *text)
{
	char full[256];
	FILE *f;

	ft_fmt(full, "%s%s", lib_dir, path);
	f = fopen(full, "we");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static uint64_t ino_of(const char *path)
{
	char full[256];
	struct stat st;

	ft_fmt(full, "%s%s", lib_dir, path);
	assert_int_equal(stat(full, &st), 0);
	return st.st_ino;
}

static int make_process(void **state)
{
	char cmd[512];

	if (lib_dir_make(state))
		return -1;
	ft_fmt(cmd,
	       "cd %s && mkdir -p proc/77 rootfs/lib rootfs/etc && ln -s ../../rootfs proc/77/root && "
	       "mkfifo rootfs/lib/fifo && ln -s /etc/inside rootfs/lib/link && "
	       "ln -s ../../../../../../etc/inside rootfs/lib/up",
	       lib_dir);
	if (system(cmd))
		return -1;
	put("/rootfs/lib/a b.so", "content");
	put("/rootfs/etc/inside", "inside");
	return 0;
}

static int open_path(const char *path, uint64_t ino, bool deleted)
{
	struct ft_map m = {
		.start = 4096, .end = 8192, .ino = ino, .exec = true, .deleted = deleted
	};

	ft_strcpy(m.path, path, sizeof(m.path));
	return ft_map_open(lib_dir, 77, &m);
}

static void test_open(void **state)
{
	uint64_t ino = ino_of("/rootfs/lib/a b.so");
	char buf[16] = "";
	int fd = open_path("/lib/a b.so", ino, false);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(read(fd, buf, sizeof(buf)), 7);
	assert_string_equal(buf, "content");
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	assert_int_equal(open_path("/lib/a b.so", ino + 1, false), -ESTALE);
	assert_int_equal(open_path("/lib/a b.so", ino, true), -ENOENT);
	assert_int_equal(open_path("/lib/none.so", ino, false), -ENOENT);
}

/* What the process chose to put there does not make us open something else, or wait. */
static void test_open_hostile(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(open_path("/lib/fifo", ino_of("/rootfs/lib/fifo"), false), -EINVAL);
	assert_int_equal(open_path("/lib", ino_of("/rootfs/lib"), false), -EINVAL);
	/* absolute links and .. stay below the process's root */
	fd = open_path("/lib/link", ino_of("/rootfs/etc/inside"), false);
	assert_true(fd >= 0);
	close(fd);
	fd = open_path("/lib/up", ino_of("/rootfs/etc/inside"), false);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ft_map_open(lib_dir, 78, &(struct ft_map){ .path = "/x" }), -ENOENT);
}

static int count(void *ctx, const struct ft_map *m)
{
	(void)m;
	return ++*(int *)ctx == 100 ? -EINTR : 0;
}

static void test_each(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	int n = 0;

	(void)state;
	put("/proc/77/maps", "1000-2000 r--p 00000000 fe:01 11 /lib/x.so\n"
			     "2000-3000 r-xp 00001000 fe:01 11 /lib/x.so\n"
			     "3000-4000 r-xp 00003000 fe:01 11 /lib/x.so\n"
			     "4000-5000 r-xp 00000000 fe:02 11 /other/x.so\n"
			     "5000-6000 r-xp 00000000 00:00 0\n"
			     "6000-7000 r-xp 00000000 00:00 0 [vdso]\n"
			     "garbage\n"
			     "7000-8000 rwxp 00000000 00:01 7 /memfd:jit (deleted)");
	assert_int_equal(ft_maps_each(lib_dir, 77, count, &n), 0);
	assert_int_equal(n, 3);
	assert_int_equal(ft_maps_each(lib_dir, 78, count, &n), -ESRCH);
	put("/proc/77/maps", "");
	n = 0;
	assert_int_equal(ft_maps_each(lib_dir, 77, count, &n), 0);
	assert_int_equal(n, 0);
	for (int i = 1; i < 20000; i++)
		ft_buf_printf(&b, "%x000-%x000 r-xp 0 0:1 %d /f%d\n", i, i + 1, i, i);
	put("/proc/77/maps", b.s);
	assert_int_equal(ft_maps_each(lib_dir, 77, count, &n), -EINTR);
	n = 1000;
	assert_int_equal(ft_maps_each(lib_dir, 77, count, &n), -E2BIG);
}

/* This process itself, by map_files where that is allowed. */
static int check_open(void *ctx, const struct ft_map *m)
{
	int fd = ft_map_open("", getpid(), m);

	if (fd >= 0)
		close(fd);
	*(int *)ctx += fd >= 0;
	return 0;
}

static void test_self(void **state)
{
	int n = 0;

	(void)state;
	assert_int_equal(ft_maps_each("", getpid(), check_open, &n), 0);
	assert_true(n >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse), cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_open),  cmocka_unit_test(test_open_hostile),
		cmocka_unit_test(test_each),  cmocka_unit_test(test_self),
	};

	return cmocka_run_group_tests(tests, make_process, lib_dir_remove);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <elf.h>

#include "nccl_lib.h"

static const char three[] = LIB_BOTH("AllReduce") LIB_BOTH("CommInitRank")
	LIB_ONLY("Send") "int pncclOther(int x) { return x; }\n" LIB_VERSION;

/* The bytes at the offset are those that the dynamic linker maps for the symbol. */
static void assert_offset(const char *path, const char *symbol, uint64_t offset, bool skips)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const char *addr = lib ? dlsym(lib, symbol) : NULL;
	char there[8];

	assert_non_null(addr);
	assert_int_equal(pread(fd, there, sizeof(there), offset), sizeof(there));
	assert_memory_equal(there, addr + (skips ? 4 : 0), sizeof(there));
	dlclose(lib);
}

static void check_three(const char *path, bool skips)
{
	struct ft_nccl_image img;

	assert_int_equal(lib_read(path, &img), 0);
	assert_int_equal(img.nsyms, 2);
	assert_int_equal(img.syms[0].fn, FT_NCCL_AllReduce);
	assert_int_equal(img.syms[1].fn, FT_NCCL_CommInitRank);
	assert_offset(path, "ncclAllReduce", img.syms[0].offset, skips);
	assert_offset(path, "ncclCommInitRank", img.syms[1].offset, skips);
	assert_string_equal(img.version, "2.99.1+cuda99.0");
}

static void test_gnu_hash(void **state)
{
	struct ft_nccl_image img;
	const char *path = lib_make("gnu.so", three, "-Wl,--hash-style=gnu -Wl,--build-id=sha1");

	(void)state;
	check_three(path, false);
	assert_int_equal(lib_read(path, &img), 0);
	assert_int_equal(img.build_id_len, 20);
}

static void test_sysv_hash(void **state)
{
	struct ft_nccl_image img;
	const char *path = lib_make("sysv.so", three, "-Wl,--hash-style=sysv -Wl,--build-id=none");

	(void)state;
	check_three(path, false);
	assert_int_equal(lib_read(path, &img), 0);
	assert_int_equal(img.build_id_len, 0);
}

static void test_separate_code(void **state)
{
	(void)state;
	check_three(lib_make("sep.so", three, "-Wl,-z,separate-code -Wl,-z,max-page-size=65536"),
		    false);
}

static void test_endbr64(void **state)
{
	(void)state;
#if defined(__x86_64__)
	check_three(lib_make("cet.so", three, "-fcf-protection=branch"), true);
#else
	skip();
#endif
}

/* Without section headers there is no .rodata to search: only the version is not known. */
static void test_no_sections(void **state)
{
	const char *path = lib_make("nosec.so", three, "-s");
	_cleanup_close_ int fd = open(path, O_RDWR | O_CLOEXEC);
	uint64_t zero = 0;
	struct ft_nccl_image img;

	(void)state;
	assert_int_equal(pwrite(fd, &zero, 8, offsetof(Elf64_Ehdr, e_shoff)), 8);
	assert_int_equal(lib_read(path, &img), 0);
	assert_int_equal(img.nsyms, 2);
	assert_string_equal(img.version, "");
}

static void test_interposer(void **state)
{
	struct ft_nccl_image img;

	(void)state;
	assert_int_equal(
		lib_read(lib_make("inter.so", LIB_ONLY("AllReduce") LIB_ONLY("CommInitRank"), ""),
			 &img),
		-ENOENT);
	/* calls the real one: the symbol is there, but not defined */
	assert_int_equal(lib_read(lib_make("calls.so",
					   "int pncclAllReduce(int);\n"
					   "int ncclAllReduce(int x) { return pncclAllReduce(x); }",
					   ""),
				  &img),
			 -ENOENT);
}

/* Functions of equal code that the linker has folded: one address, one probe. */
static void test_folded(void **state)
{
	struct ft_nccl_image img;

	(void)state;
	assert_int_equal(
		lib_read(lib_make("fold.so",
				  LIB_BOTH("Send") "int pncclRecv(int) "
						   "__attribute__((alias(\"pncclSend\")));",
				  ""),
			 &img),
		0);
	assert_int_equal(img.nsyms, 1);
}

static void test_not_elf(void **state)
{
	static const char *const paths[] = { "/dev/null", "/etc/passwd", "/proc/self/status" };
	struct ft_nccl_image img;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(lib_read(paths[i], &img), -ENOEXEC);
	assert_int_equal(lib_read("/proc/self/exe", &img), -ENOENT);
	assert_int_equal(ft_nccl_image_read(-1, &img), -EBADF);
}

static char *slurp(const char *path, size_t *len)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *buf;

	assert_int_equal(fstat(fd, &st), 0);
	buf = malloc(st.st_size);
	assert_non_null(buf);
	assert_int_equal(read(fd, buf, st.st_size), st.st_size);
	*len = st.st_size;
	return buf;
}

static int read_bytes(int fd, const void *buf, size_t len)
{
	struct ft_nccl_image img;

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, buf, len, 0), len);
	return ft_nccl_image_read(fd, &img);
}

static bool is_known_answer(int err)
{
	return !err || err == -ENOENT || err == -ENOEXEC || err == -EBADMSG;
}

static void test_truncated(void **state)
{
	_cleanup_close_ int fd = memfd_create("elf", MFD_CLOEXEC);
	_cleanup_free_ char *buf = NULL;
	size_t len;

	(void)state;
	buf = slurp(lib_make("cut.so", three, ""), &len);
	assert_int_equal(read_bytes(fd, buf, len), 0);
	for (size_t cut = 0; cut < len; cut += cut < 1024 ? 7 : 61)
		assert_true(is_known_answer(read_bytes(fd, buf, cut)));
	assert_int_equal(read_bytes(fd, buf, sizeof(Elf64_Ehdr) - 1), -ENOEXEC);
	assert_int_equal(read_bytes(fd, buf, sizeof(Elf64_Ehdr)), -EBADMSG);
}

/* Bytes changed at random, most of them where the tables are. The seed is fixed. */
static void test_hostile(void **state)
{
	static const uint64_t values[] = { 0, 1, 0x7fffffff, 0xffffffff, 1ull << 63, ~0ull };
	_cleanup_close_ int fd = memfd_create("elf", MFD_CLOEXEC);
	_cleanup_free_ char *buf = NULL, *copy = NULL;
	uint64_t begin = ft_mono_ns();
	size_t len;

	(void)state;
	buf = slurp(lib_make("hostile.so", three, "-Wl,--hash-style=both"), &len);
	copy = malloc(len);
	assert_non_null(copy);
	srand(2026);
	for (int i = 0; i < 6000; i++) {
		memcpy(copy, buf, len);
		for (int n = rand() % 8; n >= 0; n--) {
			size_t at = rand() % (rand() % 4 ? MIN(len, 2048) : len - 8);

			if (rand() % 2)
				copy[at] = rand();
			else
				memcpy(copy + MIN(at & ~7ull, len - 8), &values[rand() % 6], 8);
		}
		assert_true(is_known_answer(read_bytes(fd, copy, len)));
	}
	/* ever less than 20 ms for one, sanitizers included */
	assert_true(ft_mono_ns() - begin < 120 * NSEC_PER_SEC);
}

/* A symbol hash chain without end. */
static void test_endless_chain(void **state)
{
	_cleanup_close_ int fd = memfd_create("elf", MFD_CLOEXEC);
	_cleanup_free_ char *buf = NULL;
	const Elf64_Ehdr *eh;
	const Elf64_Shdr *sh;
	size_t len;

	(void)state;
	buf = slurp(lib_make("endless.so", three, "-Wl,--hash-style=sysv"), &len);
	eh = (const void *)buf;
	sh = (const void *)(buf + eh->e_shoff);
	for (int i = 0; i < eh->e_shnum; i++) {
		uint32_t *h;

		if (sh[i].sh_type != SHT_HASH)
			continue;
		/* all buckets and chains lead to symbol 1, which leads to itself */
		h = (void *)(buf + sh[i].sh_offset);
		for (uint32_t w = 0; w < h[0] + h[1]; w++)
			h[2 + w] = 1;
	}
	assert_int_equal(read_bytes(fd, buf, len), -EBADMSG);
}

static void test_real(void **state)
{
	struct ft_nccl_image img;
	uint64_t best = UINT64_MAX;

	(void)state;
	if (access(REAL_NCCL, R_OK)) {
		print_message("no %s here: skipped\n", REAL_NCCL);
		skip();
	}
	for (int i = 0; i < 5; i++) {
		uint64_t begin = ft_mono_ns();

		assert_int_equal(lib_read(REAL_NCCL, &img), 0);
		best = MIN(best, ft_mono_ns() - begin);
	}
	assert_in_range(img.nsyms, 17, FT_NCCL_NFNS - 1);
	assert_true(img.version[0] == '2' && img.version[1] == '.');
	for (uint32_t i = 0; i < img.nsyms; i++) {
		char name[64];

		ft_fmt(name, "nccl%s", ft_nccl_funcs[img.syms[i].fn].name);
		assert_offset(REAL_NCCL, name, img.syms[i].offset, false);
	}
	print_message("%s: %u functions, version %s, %.2f ms\n", REAL_NCCL, img.nsyms, img.version,
		      best / 1e6);
	assert_true(best < 5 * NSEC_PER_MSEC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gnu_hash),      cmocka_unit_test(test_sysv_hash),
		cmocka_unit_test(test_separate_code), cmocka_unit_test(test_endbr64),
		cmocka_unit_test(test_no_sections),   cmocka_unit_test(test_interposer),
		cmocka_unit_test(test_folded),	      cmocka_unit_test(test_not_elf),
		cmocka_unit_test(test_truncated),     cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_endless_chain), cmocka_unit_test(test_real),
	};

	return cmocka_run_group_tests(tests, lib_dir_make, lib_dir_remove);
}

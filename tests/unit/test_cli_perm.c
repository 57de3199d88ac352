// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What is said when the kernel refuses, by capabilities and a lockdown file of the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sys/capability.h>

int test_cap_get_flag(cap_t caps, cap_value_t cap, cap_flag_t flag, cap_flag_value_t *v);
#define cap_get_flag test_cap_get_flag
#define ft_read_line test_read_line
#define ft_err	     test_err
#include "cli/perm.c"
#undef cap_get_flag
#undef ft_read_line
#undef ft_err

static uint64_t without; /* capabilities, as bits */
static const char *lockdown;
static char said[512], missing[512];
static struct ft_probe rows[3];

int test_cap_get_flag(cap_t caps, cap_value_t cap, cap_flag_t flag, cap_flag_value_t *v)
{
	assert_non_null(caps);
	assert_int_equal(flag, CAP_EFFECTIVE);
	*v = without & 1ull << cap ? CAP_CLEAR : CAP_SET;
	return 0;
}

int test_read_line(const char *root, const char *path, char *out, size_t size)
{
	assert_string_equal(root, "");
	assert_string_equal(path, "/sys/kernel/security/lockdown");
	if (!lockdown)
		return -ENOENT;
	ft_strcpy(out, lockdown, size);
	return 0;
}

void test_err(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(said, sizeof(said), fmt, ap);
	va_end(ap);
}

struct ft_probe *ft_bpf_probes(struct ft_bpf *b, size_t *n)
{
	(void)b;
	*n = ARRAY_SIZE(rows);
	return rows;
}

static void note(struct ft_buf *b, const char *name, const char *hides)
{
	(void)b;
	assert_true(hides[0]);
	strcat(strcat(missing, name), " ");
}

static int set_up(void **state)
{
	(void)state;
	without = 0;
	lockdown = NULL;
	said[0] = missing[0] = 0;
	return 0;
}

static void test_missing(void **state)
{
	(void)state;
	assert_int_equal(ft_perm_missing(NULL, false, note), 0);
	/* CAP_SYS_ADMIN includes the newer ones, not the others */
	without = 1ull << CAP_BPF | 1ull << CAP_PERFMON | 1ull << CAP_SYS_PTRACE;
	assert_int_equal(ft_perm_missing(NULL, false, note), 1);
	assert_string_equal(missing, "CAP_SYS_PTRACE ");
	missing[0] = 0;
	without = 1ull << CAP_SYS_ADMIN | 1ull << CAP_PERFMON | 1ull << CAP_SYSLOG;
	assert_int_equal(ft_perm_missing(NULL, false, note), 3);
	assert_string_equal(missing, "CAP_PERFMON CAP_SYS_ADMIN CAP_SYSLOG ");
	assert_int_equal(ft_perm_missing(NULL, true, NULL), 1);
}

static void test_not_permitted(void **state)
{
	(void)state;
	without = 1ull << CAP_SYS_ADMIN | 1ull << CAP_BPF | 1ull << CAP_PERFMON;
	lockdown = "none integrity [confidentiality]"; /* not the first thing to mend */
	assert_int_equal(ft_bpf_failed(-EPERM), FT_EXIT_NOPERM);
	assert_non_null(strstr(said, "CAP_BPF and CAP_PERFMON missing"));
	without = 0;
	lockdown = NULL; /* a container: no securityfs */
	assert_int_equal(ft_bpf_failed(-EACCES), FT_EXIT_NOPERM);
	assert_non_null(strstr(said, "the kernel refused every program"));
}

static void test_locked_down(void **state)
{
	const int errors[] = { -EPERM, -EACCES, -EINVAL };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		lockdown = "none integrity [confidentiality]";
		assert_int_equal(ft_bpf_failed(errors[i]), FT_EXIT_UNAVAILABLE);
		assert_non_null(strstr(said, "locked down (confidentiality)"));
		lockdown = "none [integrity] confidentiality";
		assert_int_equal(ft_bpf_failed(errors[i]),
				 errors[i] == -EINVAL ? FT_EXIT_UNAVAILABLE : FT_EXIT_NOPERM);
		assert_null(strstr(said, "locked down"));
	}
}

static void test_others(void **state)
{
	(void)state;
	lockdown = "none integrity [confidentiality]";
	assert_int_equal(ft_bpf_failed(-ENOTSUP), FT_EXIT_UNAVAILABLE);
	assert_non_null(strstr(said, "/sys/kernel/btf/vmlinux"));
	assert_int_equal(ft_bpf_failed(-ENOMEM), FT_EXIT_INTERNAL);
	assert_int_equal(ft_bpf_failed(-EMFILE), FT_EXIT_UNAVAILABLE);
	assert_non_null(strstr(said, strerror(EMFILE)));
}

/* Only what the kernel refused: not what it does not have, nor what works. */
static void test_explain(void **state)
{
	static const char *const modes[] = { NULL, "[none] integrity confidentiality",
					     "none integrity [confidentiality]" };

	(void)state;
	for (size_t m = 0; m < ARRAY_SIZE(modes); m++) {
		lockdown = modes[m];
		rows[0] = (struct ft_probe){ .error = -EINVAL, .reason = "refused" };
		rows[1] = (struct ft_probe){ .error = -ENOENT, .reason = "absent" };
		rows[2] = (struct ft_probe){ .state = FT_PROBE_ON };
		ft_perm_explain(NULL);
		if (m == 2)
			assert_non_null(strstr(rows[0].reason, "locked down (confidentiality)"));
		else
			assert_string_equal(rows[0].reason, "refused");
		assert_string_equal(rows[1].reason, "absent");
		assert_string_equal(rows[2].reason, "");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_missing, set_up),
		cmocka_unit_test_setup(test_not_permitted, set_up),
		cmocka_unit_test_setup(test_locked_down, set_up),
		cmocka_unit_test_setup(test_others, set_up),
		cmocka_unit_test_setup(test_explain, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "diagnose/internal.h"

#include "records.h"

static void assert_ranks(const int *numbers, size_t n, bool more, const char *expected)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_attr_rank r[16];

	for (size_t i = 0; i < n; i++)
		r[i] = (struct ft_attr_rank){ .rank = -1, .nranks = -1, .global_rank = numbers[i] };
	ranks_name(&b, r, n, more);
	assert_string_equal(b.s ? b.s : "", expected);
}

static void test_ranks(void **state)
{
	(void)state;
	assert_ranks((int[]){ 2 }, 1, false, "rank 2");
	assert_ranks((int[]){ 3, 1 }, 2, false, "ranks 1, 3");
	assert_ranks((int[]){ 1, 0 }, 2, false, "ranks 0, 1");
	assert_ranks((int[]){ 7, 3, 1, 2, 0, 2 }, 6, false, "ranks 0-3, 7");
	assert_ranks((int[]){ 5 }, 1, true, "ranks 5 and more");
	assert_ranks((int[]){ -1, -1 }, 2, false, "");
	assert_ranks(NULL, 0, false, "");
}

static void test_places(void **state)
{
	struct place p = {
		.key = { .netns = 77, .ifname = "eth0" }, .local = true, .pid = 12, .task = "python"
	};
	char s[128];

	(void)state;
	place_name(&p, s, sizeof(s));
	assert_string_equal(s, "eth0 of pid 12 (python) (netns 77)");
	p.nranks = 1;
	p.ranks[0] = (struct ft_attr_rank){ .rank = 2, .nranks = 4, .global_rank = -1 };
	place_name(&p, s, sizeof(s));
	assert_string_equal(s, "eth0 of rank 2 (netns 77)");
	p.key.ifname[0] = 0;
	place_name(&p, s, sizeof(s));
	assert_string_equal(s, "network of rank 2 (netns 77)");
	p = (struct place){ .key = { .netns = 77, .ifname = "p2" }, .local = true };
	place_name(&p, s, sizeof(s));
	assert_string_equal(s, "p2 (netns 77)");
	p = (struct place){};
	set_ip(p.key.ip, "10.1.2.3");
	place_name(&p, s, sizeof(s));
	assert_string_equal(s, "10.1.2.3 (another node, or not traced)");
}

static void test_hints(void **state)
{
	(void)state;
	assert_non_null(strstr(signal_hint(9), "out-of-memory"));
	assert_null(signal_hint(99));
	assert_non_null(strstr(reason_hint("NETFILTER_DROP"), "nft"));
	assert_null(reason_hint(""));
	assert_true(reason_is_software("NETFILTER_DROP"));
	assert_true(reason_is_software("QDISC_OVERLIMIT"));
	assert_false(reason_is_software("TCP_CSUM"));
	assert_false(reason_is_software("others"));
	assert_false(reason_is_software(""));
}

static void test_ip(void **state)
{
	uint8_t v6[16] = { 0xfd, [15] = 1 };
	char s[48];

	(void)state;
	ip_name(v6, s);
	assert_string_equal(s, "fd00::1");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_ip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "records.h"

static void test_reasons(void **state)
{
	(void)state;
	assert_int_equal(ft_drop_is("TCP_OLD_DATA"), FT_DROP_IS_ORDINARY);
	assert_int_equal(ft_drop_is("TCP_OVERWINDOW"), FT_DROP_IS_ENDPOINT);
	assert_int_equal(ft_drop_is("NETFILTER_DROP"), FT_DROP_IS_FAULT);
	/* Of a newer kernel, or none: nothing that is not known is passed over. */
	assert_int_equal(ft_drop_is("NEVER_HEARD_OF"), FT_DROP_IS_FAULT);
	assert_int_equal(ft_drop_is(""), FT_DROP_IS_FAULT);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

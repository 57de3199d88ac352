// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>

#include "fixtures/machine.h"
#include "host/fs.h"

static void test_bdf(void **state)
{
	(void)state;
	assert_true(ft_is_bdf("0000:41:00.0"));
	assert_true(ft_is_bdf("10000:e1:00.7"));
	assert_true(ft_is_bdf("ffff:ff:1f.7"));
	assert_false(ft_is_bdf(""));
	assert_false(ft_is_bdf("pci0000:40"));
	assert_false(ft_is_bdf("0000:41:00"));
	assert_false(ft_is_bdf("0000:41:00.0x"));
	assert_false(ft_is_bdf("virtio0"));
	assert_false(ft_is_bdf(" 000:41:00.0"));
}

static void test_bdf_of(void **state)
{
	char bdf[16] = "untouched";

	(void)state;
	put("/sys/devices/pci0000:00/0000:00:03.0/virtio1/net/eth0/ifindex", "2\n");
	put_link("/sys/class/net/eth0/device", "../../../devices/pci0000:00/0000:00:03.0/virtio1");
	put("/sys/devices/virtual/x/y", "\n");
	put_link("/sys/class/net/v0/device", "../../../devices/virtual/x");
	assert_int_equal(ft_bdf_of(machine_root, "/sys/class/net/eth1/device", bdf), -ENOENT);
	assert_int_equal(ft_bdf_of(machine_root, "/sys/class/net/v0/device", bdf), -ENOENT);
	assert_string_equal(bdf, "untouched");
	assert_int_equal(ft_bdf_of(machine_root, "/sys/class/net/eth0/device", bdf), 0);
	assert_string_equal(bdf, "0000:00:03.0");
}

static void test_head(void **state)
{
	char big[20000];
	char *text = NULL;

	(void)state;
	memset(big, 'x', sizeof(big));
	put_bytes("/big", big, sizeof(big));
	put("/empty", "%s", "");
	assert_int_equal(ft_head_read(machine_root, "/big", 100, &text), 100);
	assert_int_equal(strlen(text), 100);
	free(text);
	assert_int_equal(ft_head_read(machine_root, "/big", 4096, &text), 4096);
	free(text);
	assert_int_equal(ft_head_read(machine_root, "/big", 1 << 20, &text), 20000);
	free(text);
	assert_int_equal(ft_head_read(machine_root, "/empty", 100, &text), 0);
	assert_string_equal(text, "");
	free(text);
	assert_int_equal(ft_head_read(machine_root, "/none", 100, &text), -ENOENT);
}

static void test_names(void **state)
{
	_cleanup_names_ struct ft_names names = {};

	(void)state;
	put("/d/b", "\n");
	put("/d/a", "\n");
	put("/d/.hidden", "\n");
	put("/d/c/x", "\n");
	assert_int_equal(ft_names_read(machine_root, "/none", &names), -ENOENT);
	assert_int_equal(ft_names_read(machine_root, "/d", &names), 0);
	assert_int_equal(names.n, 3);
	assert_string_equal(names.v[0], "a");
	assert_string_equal(names.v[2], "c");
}

static void test_line_value(void **state)
{
	static const char text[] =
		"Name:\tx\nNSpid:\t10\t7\nModel: \t\t NVIDIA H100  \n\nEmpty:\nLast: end";
	char out[16] = "untouched";

	(void)state;
	assert_false(ft_line_value(text, "pid", out, sizeof(out)));
	assert_string_equal(out, "untouched");
	assert_true(ft_line_value(text, "NSpid", out, sizeof(out)));
	assert_string_equal(out, "10\t7");
	assert_true(ft_line_value(text, "Model", out, sizeof(out)));
	assert_string_equal(out, "NVIDIA H100");
	assert_true(ft_line_value(text, "Model", out, 4));
	assert_string_equal(out, "NVI");
	assert_true(ft_line_value(text, "Empty", out, sizeof(out)));
	assert_string_equal(out, "");
	assert_true(ft_line_value(text, "Last", out, sizeof(out)));
	assert_string_equal(out, "end");
}

static void test_attrs(void **state)
{
	static const char *const names[] = { "a", "none", "b" };
	char texts[3][FT_ATTR_TEXT];

	(void)state;
	put("/dev0/a", "1\n");
	put("/dev0/b", "two\n");
	assert_int_equal(ft_attrs_read(machine_root, "/dev0", names, 3, texts, 2000), 0);
	assert_string_equal(texts[0], "1\n");
	assert_string_equal(texts[1], "");
	assert_string_equal(texts[2], "two\n");
}

static void test_inode(void **state)
{
	uint32_t ino = 5;

	(void)state;
	put_link("/ns", "net:[4026531840]");
	put_link("/odd", "net:4026531840");
	assert_int_equal(ft_link_inode(machine_root, "/odd", &ino), -EBADMSG);
	assert_int_equal(ft_link_inode(machine_root, "/none", &ino), -ENOENT);
	assert_int_equal(ino, 5);
	assert_int_equal(ft_link_inode(machine_root, "/ns", &ino), 0);
	assert_int_equal(ino, 4026531840u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bdf),
		cmocka_unit_test_setup_teardown(test_bdf_of, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_head, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_names, machine_new, machine_free),
		cmocka_unit_test(test_line_value),
		cmocka_unit_test_setup_teardown(test_attrs, machine_new, machine_free),
		cmocka_unit_test_setup_teardown(test_inode, machine_new, machine_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

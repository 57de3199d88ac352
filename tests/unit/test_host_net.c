// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fixtures/machine.h"
#include "host/net.h"

#define ANSWER_MS 2000

static int hgx(void **state)
{
	if (machine_new(state))
		return -1;
	machine_hgx();
	return 0;
}

static const struct ft_netdev *netdev(const struct ft_net *net, const char *ifname)
{
	for (size_t i = 0; i < net->n; i++)
		if (!strcmp(net->v[i].ifname, ifname))
			return &net->v[i];
	fail_msg("no %s", ifname);
	return NULL;
}

static void test_rate(void **state)
{
	(void)state;
	assert_int_equal(ft_ib_rate_mbps("400 Gb/sec (4X NDR)\n"), 400000);
	assert_int_equal(ft_ib_rate_mbps("2.5 Gb/sec (1X SDR)"), 2500);
	assert_int_equal(ft_ib_rate_mbps("100 Gb/sec (4X EDR)"), 100000);
	assert_int_equal(ft_ib_rate_mbps(""), FT_NONE_U32);
	assert_int_equal(ft_ib_rate_mbps("0 Gb/sec"), FT_NONE_U32);
	assert_int_equal(ft_ib_rate_mbps("fast"), FT_NONE_U32);
}

static void test_netdevs(void **state)
{
	_cleanup_(ft_net_freep) struct ft_net *net = NULL;
	const struct ft_netdev *d;

	(void)state;
	assert_int_equal(ft_net_read(machine_root, ANSWER_MS, &net), 0);
	assert_int_equal(net->n, 10); /* eth0-7, lo, docker0; bonding_masters is none */
	assert_int_equal(net->netns, 4026531840u);
	d = netdev(net, "eth4");
	assert_string_equal(d->bdf, "0000:54:00.0");
	assert_string_equal(d->ibdev, "mlx5_4");
	assert_string_equal(d->driver, "mlx5_core");
	assert_int_equal(d->port, 1);
	assert_int_equal(d->numa, 1);
	assert_int_equal(d->speed_mbps, 400000);
	assert_int_equal(d->carrier, 1);
	assert_int_equal(d->carrier_down_count, 17);
	assert_int_equal(d->mtu, 9000);

	d = netdev(net, "docker0");
	assert_string_equal(d->driver, "bridge");
	assert_string_equal(d->bdf, "");
	assert_int_equal(d->speed_mbps, FT_NONE_U32);
	assert_int_equal(d->carrier, FT_NONE_U8);
	assert_int_equal(d->numa, FT_NONE_S32);
}

static void test_unknown_values(void **state)
{
	_cleanup_(ft_net_freep) struct ft_net *net = NULL;
	const struct ft_netdev *d;

	(void)state;
	put("/sys/class/net/eth0/speed", "-1\n");
	put("/sys/class/net/eth0/carrier", "0\n");
	put("/sys/class/infiniband/mlx5_0/ports/1/rate", "\n");
	put("/sys/class/infiniband/mlx5_1/ports/1/gid_attrs/ndevs/0", "elsewhere\n");
	assert_int_equal(ft_net_read(machine_root, ANSWER_MS, &net), 0);
	d = netdev(net, "eth0");
	assert_int_equal(d->speed_mbps, FT_NONE_U32);
	assert_int_equal(d->carrier, 0);
	/* The only port of the same PCI function, whatever its first GID says. */
	assert_string_equal(netdev(net, "eth1")->ibdev, "mlx5_1");
}

static void test_port_choice(void **state)
{
	const struct ft_ibport ports[] = {
		{ .ibdev = "a", .bdf = "0000:01:00.0", .netdev = "eth0", .port = 1 },
		{ .ibdev = "a", .bdf = "0000:01:00.0", .netdev = "eth1", .port = 2 },
		{ .ibdev = "bond", .bdf = "0000:02:00.0", .netdev = "bond0", .port = 1 },
		{ .ibdev = "b", .bdf = "0000:03:00.0", .netdev = "eth0", .port = 1 },
	};

	(void)state;
	assert_ptr_equal(ft_ibport_of(ports, 4, "0000:01:00.0", "eth1"), &ports[1]);
	/* two ports, none of that name */
	assert_null(ft_ibport_of(ports, 4, "0000:01:00.0", "eth9"));
	/* the name alone is not enough: another namespace has an eth0, too */
	assert_ptr_equal(ft_ibport_of(ports, 4, "0000:03:00.0", "eth0"), &ports[3]);
	assert_ptr_equal(ft_ibport_of(ports, 4, "", "bond0"), &ports[2]);
	assert_null(ft_ibport_of(ports, 4, "0000:09:00.0", "eth0"));
	assert_null(ft_ibport_of(NULL, 0, "", "eth0"));
}

static int lines, ports_only;

static void count(void *ctx, struct ft_hdr *ev)
{
	const struct ft_ev_inv_netdev *e = (const void *)ev;

	(void)ctx;
	assert_int_equal(ev->kind, FT_KIND_inv_netdev);
	assert_int_equal(ft_rec_check(ev, ev->size), 0);
	lines++;
	ports_only += !e->ifname[0];
}

static void test_emit(void **state)
{
	_cleanup_(ft_net_freep) struct ft_net *net = NULL;

	(void)state;
	/* InfiniBand without IPoIB: a port without an interface */
	put("/sys/class/infiniband/mlx5_9/ports/1/rate", "200 Gb/sec (4X HDR)\n");
	put("/sys/class/infiniband/mlx5_9/ports/1/state", "1: DOWN\n");
	assert_int_equal(ft_net_read(machine_root, ANSWER_MS, &net), 0);
	assert_int_equal(net->nports, 9);
	ft_net_emit(net, 1, count, NULL);
	assert_int_equal(lines, 11);
	assert_int_equal(ports_only, 1);
}

static void test_empty(void **state)
{
	_cleanup_(ft_net_freep) struct ft_net *net = NULL;

	(void)state;
	assert_int_equal(ft_net_read(machine_root, ANSWER_MS, &net), 0);
	assert_int_equal(net->n, 0);
	assert_int_equal(net->nports, 0);
	assert_int_equal(net->netns, FT_NONE_U32);
}

static void test_live(void **state)
{
	_cleanup_(ft_net_freep) struct ft_net *net = NULL;

	(void)state;
	assert_int_equal(ft_net_read("", ANSWER_MS, &net), 0);
	assert_int_not_equal(netdev(net, "lo")->ifindex, FT_NONE_U32);
	assert_int_not_equal(net->netns, FT_NONE_U32);
	ft_net_emit(net, 1, count, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),
		cmocka_unit_test_setup_teardown(test_netdevs, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_unknown_values, hgx, machine_free),
		cmocka_unit_test(test_port_choice),
		cmocka_unit_test_setup_teardown(test_emit, hgx, machine_free),
		cmocka_unit_test_setup_teardown(test_empty, machine_new, machine_free),
		cmocka_unit_test(test_live),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

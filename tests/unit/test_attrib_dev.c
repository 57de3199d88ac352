// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "attrib_fixture.h"

static const char *const bdfs[] = { "0000:19:00.0", "0000:3b:00.0", "0000:4c:00.0",
				    "0000:5d:00.0" };

static void feed_gpus(int n)
{
	/* in another order than their addresses */
	for (int i = n - 1; i >= 0; i--) {
		struct ft_rec r;
		struct ft_ev_inv_gpu *e = ft_rec_new(&r, FT_KIND_inv_gpu, 1);
		char uuid[48];

		e->index = i;
		ft_fmt(uuid, "GPU-%d%d%d%d", i, i, i, i);
		ft_rec_str(&r, &e->bdf, bdfs[i]);
		ft_rec_str(&r, &e->uuid, uuid);
		feed(&r);
	}
}

static void feed_files(uint32_t pid, int from, int to, const char *visible)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *e = rec_proc(&r, 1, pid, 1, 7, 0);

	for (int i = from; i < to; i++)
		ft_rec_strs_add(&r, &e->gpu_files, bdfs[i]);
	if (visible)
		ft_rec_str(&r, &e->cuda_visible, visible);
	feed(&r);
}

static void assert_one_gpu(int index)
{
	assert_int_equal(got.ngpus, 1);
	assert_int_equal(got.gpus[0].index, index);
	assert_string_equal(got.gpus[0].bdf, bdfs[index]);
	assert_false(got.shared);
}

static void test_one_file(void **state)
{
	(void)state;
	feed_gpus(4);
	feed_files(10, 2, 3, NULL);
	feed_retransmit(10, 0);
	assert_one_gpu(2);
	assert_true(got.how & FT_HOW(dev_files));
}

/* The tree is read again while a GPU is taken out: its driver has let go of it already. */
static void test_gpu_that_goes(void **state)
{
	struct ft_ev_inv_gpu *e;
	struct ft_rec r;

	(void)state;
	feed_gpus(4);
	feed_files(10, 2, 3, NULL);
	e = ft_rec_new(&r, FT_KIND_inv_gpu, 2);
	ft_rec_str(&r, &e->bdf, bdfs[2]);
	feed(&r);
	feed_retransmit(10, 0);
	assert_one_gpu(2);
}

/* CUDA opens all it sees: several files mean one of them. */
static void test_several_files(void **state)
{
	(void)state;
	feed_gpus(4);
	feed_files(10, 0, 4, NULL);
	feed_retransmit(10, 0);
	assert_int_equal(got.ngpus, 4);
	assert_true(got.shared);
	assert_int_equal(got.nranks, 1); /* the rank is not in doubt */
}

static void test_device_number(void **state)
{
	(void)state;
	feed_gpus(4);
	feed_files(10, 0, 4, NULL);
	feed_comm(10, 13, 0x1000, 0, 4, 3);
	feed_retransmit(10, 0);
	assert_one_gpu(3);
	assert_true(got.how & FT_HOW(cuda_device));
}

static void test_visible_devices(void **state)
{
	static const struct {
		const char *visible;
		int device, gpu; /* -1: not told apart */
	} cases[] = {
		{ "2", 0, 2 },	    { "2", -1, 2 },    { "3,1", 1, 1 },	   { "3,1", 0, 3 },
		{ "3,1", -1, -1 },  { "9", 0, -1 },    { "3,1", 2, -1 },   { "GPU-1111", 0, 1 },
		{ "GPU-22", 0, 2 }, { "GPU-", 0, -1 }, { "MIG-x", 0, -1 }, { ",", 0, -1 },
		{ "-1", 0, -1 },
	};

	(void)state;
	feed_gpus(4);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		feed_files(100 + i, 0, 4, cases[i].visible);
		feed_comm(100 + i, 13, 0x1000, 0, 4, cases[i].device);
		feed_retransmit(100 + i, 0);
		if (cases[i].gpu >= 0)
			assert_one_gpu(cases[i].gpu);
		else
			assert_int_equal(got.ngpus, 4);
	}
}

/*
 * In a container the numbers count what is visible there; which that is, the files alone do not
 * tell.
 */
static void test_partial_files(void **state)
{
	(void)state;
	feed_gpus(4);
	feed_files(10, 1, 3, "1");
	feed_retransmit(10, 0);
	assert_int_equal(got.ngpus, 2);
	assert_true(got.shared);
}

static void feed_used(uint32_t pid, int gpu)
{
	struct ft_rec r;
	struct ft_ev_inv_gpu_proc *e = ft_rec_new(&r, FT_KIND_inv_gpu_proc, 1);

	head(&r, pid, "trainer");
	e->index = gpu;
	ft_rec_str(&r, &e->bdf, bdfs[gpu]);
	feed(&r);
}

/* What runs where is known better than by what is open. */
static void test_nvml(void **state)
{
	(void)state;
	feed_gpus(4);
	feed_used(10, 2); /* before the process is known */
	feed_files(10, 0, 4, NULL);
	feed_files(11, 0, 4, NULL);
	feed_used(11, 1); /* and after */
	feed_used(11, 1); /* MIG: one line per instance */
	feed_retransmit(10, 0);
	assert_one_gpu(2);
	assert_true(got.how & FT_HOW(nvml));
	assert_false(got.how & FT_HOW(dev_files));
	feed_retransmit(11, 0);
	assert_one_gpu(1);
	/* a wrong hint does not overrule it */
	feed_comm(11, 13, 0x1000, 0, 4, 3);
	feed_retransmit(11, 0);
	assert_one_gpu(1);
}

/* The process has them all; an event is told apart by its communicator's device, or not at all. */
static void test_nvml_several(void **state)
{
	(void)state;
	feed_gpus(4);
	feed_files(10, 0, 4, NULL);
	feed_used(10, 0);
	feed_used(10, 3);
	assert_int_equal(got.ngpus, 2);
	assert_false(got.shared); /* of the process itself */
	feed_retransmit(10, 0);
	assert_int_equal(got.ngpus, 2);
	assert_true(got.shared);
	assert_false(got.how & FT_HOW(cuda_device));
	feed_comm(10, 13, 0x1000, 0, 4, 3);
	feed_retransmit(10, 0);
	assert_one_gpu(3);
	assert_true(got.how & FT_HOW(nvml));
	assert_true(got.how & FT_HOW(cuda_device));
	feed_exit(10, 0, 0);
	assert_false(got.shared);
}

/* A device that the process does not run on is no hint; after an exec nothing of it holds. */
static void test_nvml_no_hint(void **state)
{
	(void)state;
	feed_gpus(4);
	feed_files(10, 0, 4, NULL);
	feed_used(10, 0);
	feed_used(10, 1);
	feed_comm(10, 13, 0x1000, 0, 4, 3);
	feed_retransmit(10, 0);
	assert_int_equal(got.ngpus, 2);
	assert_true(got.shared);
	feed_start(10, 1, true);
	feed_retransmit(10, 0);
	assert_int_equal(got.ngpus, 0);
}

static void feed_netdev(uint32_t netns, uint32_t ifindex, const char *name, const char *bdf,
			const char *ibdev)
{
	struct ft_rec r;
	struct ft_ev_inv_netdev *e = ft_rec_new(&r, FT_KIND_inv_netdev, 1);

	e->netns = netns;
	e->ifindex = ifindex;
	e->port = 1;
	ft_strcpy(e->ifname, name, 16);
	ft_rec_str(&r, &e->bdf, bdf);
	ft_rec_str(&r, &e->ibdev, ibdev);
	feed(&r);
}

static void test_nic(void **state)
{
	(void)state;
	feed_proc(10, 7, 0);
	feed_retransmit(10, 0);
	assert_int_equal(got.nnics, 1); /* by its name only */
	assert_string_equal(got.nics[0].netdev, "eth0");
	assert_string_equal(got.nics[0].bdf, "");
	assert_int_equal(got.nics[0].port, -1);
	feed_netdev(7, 2, "eth0", "0000:42:00.0", "mlx5_2");
	feed_netdev(8, 2, "eth0", "0000:43:00.0", "mlx5_3");
	feed_retransmit(10, 0);
	assert_string_equal(got.nics[0].bdf, "0000:42:00.0");
	assert_string_equal(got.nics[0].ibdev, "mlx5_2");
	assert_int_equal(got.nics[0].port, 1);
	assert_int_equal(got.nics[0].netns, 7);
	assert_true(got.how & FT_HOW(route));
}

static void feed_pci(const char *port, const char *device, const char *serves)
{
	struct ft_rec r;
	struct ft_ev_inv_pci *e = ft_rec_new(&r, FT_KIND_inv_pci, 1);

	e->now__gen = 3;
	e->now__width = 8;
	e->possible__gen = 5;
	e->possible__width = 16;
	ft_rec_str(&r, &e->port, port);
	ft_rec_str(&r, &e->device, device);
	ft_rec_str(&r, &e->serves, serves);
	feed(&r);
}

static void test_links(void **state)
{
	const struct ft_attrib_link *l;
	size_t n;

	(void)state;
	feed_pci("0000:00:01.0", "0000:01:00.0", "0000:19:00.0"); /* a switch above both */
	feed_pci("0000:00:01.0", "0000:01:00.0", "0000:42:00.0");
	feed_pci("0000:02:01.0", "0000:42:00.0", "0000:42:00.0");
	feed_pci("0000:02:02.0", "0000:19:00.0", "0000:19:00.0");
	feed_pci("0000:02:01.0", "0000:42:00.0", "0000:42:00.0"); /* again: the same link */
	feed_pci("0000:80:01.0", "0000:81:00.0", "0000:81:00.0");
	feed_netdev(7, 2, "eth0", "0000:42:00.0", "");
	assert_int_equal(got.nlinks, 2);
	feed_retransmit(10, 0);
	assert_int_equal(got.nlinks, 2);
	assert_string_equal(got.links[0], "0000:00:01.0");
	assert_string_equal(got.links[1], "0000:02:01.0");
	l = ft_attrib_links(A, &n);
	assert_int_equal(n, 5);
	assert_int_equal(l[0].possible_width, 16);
	assert_int_equal(l[0].numa, -1);
}

static void feed_addr(uint32_t netns, uint32_t ifindex, const char *ifname, const char *addr)
{
	struct ft_rec r;
	struct ft_ev_inv_netdev *e = ft_rec_new(&r, FT_KIND_inv_netdev, 1);

	e->netns = netns;
	e->ifindex = ifindex;
	ft_strcpy(e->ifname, ifname, sizeof(e->ifname));
	ft_rec_strs_add(&r, &e->addrs, "fe80::1");
	if (addr)
		ft_rec_strs_add(&r, &e->addrs, addr);
	feed(&r);
}

/* A retransmitted SYN-ACK: it has addresses and no route yet. */
static void feed_synack(const char *saddr, const char *daddr)
{
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *e = ft_rec_new(&r, FT_KIND_tcp_retransmit, 3);

	head(&r, 10, "trainer");
	e->segs = 1;
	set_socket(&r, saddr, 100, daddr, 200, 7, "");
	e->ifindex = FT_NONE_U32;
	feed(&r);
}

static void assert_no_nic(void)
{
	assert_int_equal(got.nnics, 0);
	assert_false(got.how & (FT_HOW(address) | FT_HOW(route)));
}

static void test_nic_by_address(void **state)
{
	(void)state;
	feed_proc(10, 7, 0);
	feed_addr(7, 1, "lo", "127.0.0.1");
	feed_addr(7, 2, "eth0", "10.0.0.1");
	feed_addr(7, 3, "eth1", "10.0.1.1/24");
	feed_addr(8, 2, "eth9", "10.0.0.1"); /* the same address elsewhere */
	feed_synack("10.0.0.1", "10.0.0.2");
	assert_int_equal(got.nnics, 1);
	assert_string_equal(got.nics[0].netdev, "eth0");
	assert_int_equal(got.nics[0].netns, 7);
	assert_true(got.how & FT_HOW(address));
	assert_false(got.how & FT_HOW(route));
	feed_synack("10.0.1.1", "10.0.0.2");
	assert_string_equal(got.nics[0].netdev, "eth1");
	/* nobody's address, and one that stays inside */
	feed_synack("10.0.2.1", "10.0.0.2");
	assert_no_nic();
	feed_synack("10.0.0.1", "10.0.1.1");
	assert_no_nic();
	feed_synack("10.0.0.1", "10.0.0.1");
	assert_no_nic();
	/* an address of a routed host: it may leave by any of its NICs */
	feed_addr(7, 1, "lo", "10.0.3.1");
	feed_synack("10.0.3.1", "10.0.0.2");
	assert_no_nic();
}

static void test_nic_by_address_of_several(void **state)
{
	(void)state;
	feed_proc(10, 7, 0);
	feed_addr(7, 2, "eth0", "10.0.0.1");
	feed_addr(7, 3, "eth1", "10.0.0.1");
	feed_synack("10.0.0.1", "10.0.0.2");
	assert_no_nic();
	/* it was moved, not added */
	feed_addr(7, 2, "eth0", NULL);
	feed_synack("10.0.0.1", "10.0.0.2");
	assert_int_equal(got.nnics, 1);
	assert_string_equal(got.nics[0].netdev, "eth1");
}

/* A route is better: the answer may leave by another interface than it came in. */
static void test_nic_by_route_first(void **state)
{
	(void)state;
	feed_proc(10, 7, 0);
	feed_addr(7, 3, "eth1", "10.0.0.1");
	feed_retransmit(10, 0);
	assert_string_equal(got.nics[0].netdev, "eth0");
	assert_true(got.how & FT_HOW(route));
	assert_false(got.how & FT_HOW(address));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_one_file),
		T(test_gpu_that_goes),
		T(test_several_files),
		T(test_device_number),
		T(test_visible_devices),
		T(test_partial_files),
		T(test_nic),
		T(test_links),
		T(test_nvml),
		T(test_nvml_several),
		T(test_nvml_no_hint),
		T(test_nic_by_address),
		T(test_nic_by_address_of_several),
		T(test_nic_by_route_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

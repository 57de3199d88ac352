// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* A switch with two GPUs and a NIC below it, and a GPU on a root port of its own. */
#include "attrib_fixture.h"

#define ROOT  "0000:15:01.0"
#define UP    "0000:16:00.0"
#define DOWN0 "0000:17:00.0"
#define GPU0  "0000:18:00.0"
#define DOWN1 "0000:17:01.0"
#define GPU1  "0000:19:00.0"
#define DOWN2 "0000:17:02.0"
#define NIC   "0000:1a:00.0"
#define ROOT2 "0000:40:01.0"
#define GPU2  "0000:41:00.0"
#define ALONE "0000:00:05.0" /* in a virtual machine: no port is seen */

static void feed_link(const char *port, const char *device, const char *serves)
{
	struct ft_rec r;
	struct ft_ev_inv_pci *e = ft_rec_new(&r, FT_KIND_inv_pci, 1);

	e->now__gen = e->possible__gen = 5;
	e->now__width = e->possible__width = 16;
	e->os_aer = strcmp(port, ROOT2) != 0;
	ft_rec_str(&r, &e->port, port);
	ft_rec_str(&r, &e->device, device);
	ft_rec_str(&r, &e->serves, serves);
	ft_rec_str(&r, &e->slot, strcmp(device, GPU2) ? "" : "5");
	feed(&r);
}

static void feed_gpu(const char *bdf, int index)
{
	struct ft_rec r;
	struct ft_ev_inv_gpu *e = ft_rec_new(&r, FT_KIND_inv_gpu, 1);

	e->index = index;
	ft_rec_str(&r, &e->bdf, bdf);
	feed(&r);
}

static void feed_use(uint32_t pid, const char *bdf)
{
	struct ft_rec r;
	struct ft_ev_inv_gpu_proc *e = ft_rec_new(&r, FT_KIND_inv_gpu_proc, 1);

	head(&r, pid, "trainer");
	ft_rec_str(&r, &e->bdf, bdf);
	feed(&r);
}

static void feed_nic(void)
{
	struct ft_rec r;
	struct ft_ev_inv_netdev *e = ft_rec_new(&r, FT_KIND_inv_netdev, 1);

	e->netns = 7;
	e->ifindex = 2;
	ft_strcpy(e->ifname, "eth0", sizeof(e->ifname));
	ft_rec_str(&r, &e->bdf, NIC);
	ft_rec_str(&r, &e->ibdev, "mlx5_0");
	feed(&r);
}

static void node(void)
{
	static const char *const below[] = { GPU0, GPU1, NIC };

	for (size_t i = 0; i < ARRAY_SIZE(below); i++)
		feed_link(ROOT, UP, below[i]);
	feed_link(DOWN0, GPU0, GPU0);
	feed_link(DOWN1, GPU1, GPU1);
	feed_link(DOWN2, NIC, NIC);
	feed_link(ROOT2, GPU2, GPU2);
	feed_link("", ALONE, ALONE);
	feed_gpu(GPU0, 0);
	feed_gpu(GPU1, 1);
	feed_gpu(GPU2, 2);
	feed_nic();
	for (uint32_t i = 0; i < 3; i++)
		feed_proc(10 + i, 7, i);
	feed_use(10, GPU0);
	feed_use(11, GPU1);
	feed_use(12, GPU2);
}

static void feed_aer(const char *device, int class)
{
	struct ft_rec r;
	struct ft_ev_pcie_aer *e = ft_rec_new(&r, FT_KIND_pcie_aer, 9);

	e->aer_class = class;
	e->before = 0;
	ft_strcpy(e->device, device, sizeof(e->device));
	feed(&r);
}

static void feed_advisory(const char *device)
{
	struct ft_rec r;
	struct ft_ev_pcie_aer *e = ft_rec_new(&r, FT_KIND_pcie_aer, 9);

	e->aer_class = 0;
	e->before = 0;
	e->advisory = 1;
	ft_strcpy(e->device, device, sizeof(e->device));
	feed(&r);
}

static void feed_xid(const char *bdf, uint32_t xid, uint32_t pid, int before, uint64_t ts)
{
	struct ft_rec r;
	struct ft_ev_gpu_xid *e = ft_rec_new(&r, FT_KIND_gpu_xid, ts);

	e->xid = xid;
	e->of_pid = pid;
	e->before = before;
	ft_strcpy(e->bdf, bdf, sizeof(e->bdf));
	feed(&r);
}

static void assert_link(const char *key, int ngpus, int nnics, int first, int nranks)
{
	assert_int_equal(got.nlinks, 1);
	assert_string_equal(got.links[0], key);
	assert_int_equal(got.ngpus, ngpus);
	assert_int_equal(got.nnics, nnics);
	assert_int_equal(got.nranks, nranks);
	assert_int_equal(got.users, nranks);
	for (int i = 0; i < nranks; i++)
		assert_int_equal(got.ranks[i].global_rank, first + i);
	assert_true(got.how & FT_HOW(pci_path));
}

/* Whoever reports it: both ends of a link, and every function below a port. */
static void test_ends(void **state)
{
	static const char *const ends[] = { ROOT2, GPU2, "0000:41:00.1", "0000:41:02.3" };

	(void)state;
	node();
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		feed_aer(ends[i], 2);
		assert_link(ROOT2, 1, 0, 2, 1);
		assert_int_equal(got.gpus[0].index, 2);
		assert_false(got.shared);
		assert_int_equal(got.user_pid, 12);
		assert_string_equal(ft_attrib_link(A, ends[i])->key, ROOT2);
	}
	assert_true(ft_attrib_is_port(A, ROOT2));
	assert_false(ft_attrib_is_port(A, GPU2));
	assert_null(ft_attrib_link(A, "0000:99:00.0"));
	/* Without a port other addresses of the bus are other devices. */
	assert_string_equal(ft_attrib_link(A, ALONE)->key, ALONE);
	assert_null(ft_attrib_link(A, "0000:00:06.0"));
	assert_true(ft_attrib_link(A, GPU2)->no_aer);
	assert_false(ft_attrib_link(A, GPU1)->no_aer);
	assert_string_equal(ft_attrib_link(A, GPU2)->slot, "5");
}

/* The upstream port of a switch is of the link above it, a downstream port of the one below. */
static void test_uplink(void **state)
{
	(void)state;
	node();
	feed_aer(ROOT, 2);
	assert_link(ROOT, 2, 1, 0, 2);
	feed_aer(UP, 2);
	assert_link(ROOT, 2, 1, 0, 2);
	assert_false(got.shared); /* it concerns all of them */
	feed_aer(DOWN1, 2);
	assert_link(DOWN1, 1, 0, 1, 1);
	feed_aer(DOWN2, 2);
	assert_int_equal(got.nnics, 1);
	assert_string_equal(got.nics[0].ibdev, "mlx5_0");
	assert_int_equal(got.users, 0);
	/* A NIC whose interface is not known has its address. */
	feed_aer(ALONE, 2);
	assert_int_equal(got.nnics, 1);
	assert_string_equal(got.nics[0].bdf, ALONE);
}

/* The ranks whose sockets go through the NIC. */
static void test_nic_users(void **state)
{
	(void)state;
	node();
	feed_retransmit(12, 0);
	feed_aer(NIC, 2);
	assert_int_equal(got.users, 1);
	assert_int_equal(got.ranks[0].global_rank, 2);
	assert_true(got.how & FT_HOW(route));
	feed_aer(UP, 2);
	assert_int_equal(got.users, 3);
	assert_int_equal(got.nranks, 3);
}

/* What is remembered of a link holds until a process comes or goes. */
static void test_users_change(void **state)
{
	(void)state;
	node();
	for (int i = 0; i < 3; i++)
		feed_aer(GPU2, 2);
	assert_int_equal(got.users, 1);
	feed_exit(12, 1, 0);
	feed_aer(GPU2, 2);
	assert_int_equal(got.users, 0);
	feed_proc(13, 7, 2);
	feed_use(13, GPU2);
	feed_aer(GPU2, 2);
	assert_int_equal(got.user_pid, 13);
}

/* Open files of two GPUs: one of them. Of all that are below the link: certain. */
static void test_shared(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *e;

	(void)state;
	node();
	e = rec_proc(&r, 1, 20, 1, 7, 3);
	ft_rec_strs_add(&r, &e->gpu_files, GPU0);
	ft_rec_strs_add(&r, &e->gpu_files, GPU1);
	feed(&r);
	feed_aer(GPU1, 2);
	assert_int_equal(got.users, 2);
	assert_true(got.shared);
	feed_aer(UP, 2);
	assert_int_equal(got.users, 3);
	assert_false(got.shared);
}

/* By NVML it runs on each of them. */
static void test_several_gpus(void **state)
{
	(void)state;
	node();
	feed_use(12, GPU1);
	feed_aer(GPU1, 2);
	assert_int_equal(got.users, 2);
	assert_false(got.shared);
}

static void test_many_ranks(void **state)
{
	(void)state;
	node();
	for (uint32_t i = 0; i < 22; i++) {
		feed_proc(100 + i, 7, 100 + i);
		feed_use(100 + i, GPU0);
	}
	feed_aer(ROOT, 2);
	assert_int_equal(got.nranks, FT_ATTR_MAX);
	assert_true(got.truncated);
	assert_int_equal(got.ranks_all, 24);
	assert_int_equal(got.users, 24);
}

static void test_severity(void **state)
{
	(void)state;
	node();
	feed_aer(GPU0, 2);
	assert_int_equal(got.severity, FT_WARNING);
	feed_aer(GPU0, 0);
	assert_int_equal(got.severity, FT_ERROR);
	feed_aer(GPU0, 1);
	assert_int_equal(got.severity, FT_FATAL);
	feed_advisory(GPU0);
	assert_int_equal(got.severity, FT_WARNING);
	feed_xid(GPU0, 79, FT_NONE_U32, 0, 9);
	assert_int_equal(got.severity, FT_ERROR);
	feed_xid(GPU0, 31, FT_NONE_U32, 0, 9);
	assert_int_equal(got.severity, FT_WARNING);
	assert_true(ft_xid_is_application(13) && ft_xid_is_application(43) &&
		    ft_xid_is_application(45));
	assert_false(ft_xid_is_application(48) || ft_xid_is_application(12345));
	assert_true(ft_xid_is_application(69) && ft_xid_is_application(109));
	assert_true(ft_xid_is_record(63) && ft_xid_is_record(154));
	assert_false(ft_xid_is_record(48) || ft_xid_is_record(12345));
	assert_null(ft_xid_text(12345));
}

static void feed_change(uint32_t gen, uint32_t width)
{
	struct ft_rec r;
	struct ft_ev_pcie_link *e = ft_rec_new(&r, FT_KIND_pcie_link, 9);

	e->to__gen = gen;
	e->to__width = width;
	e->possible__gen = 5;
	e->possible__width = 16;
	ft_strcpy(e->port, DOWN0, sizeof(e->port));
	ft_strcpy(e->device, GPU0, sizeof(e->device));
	feed(&r);
}

static void test_link_severity(void **state)
{
	(void)state;
	node();
	feed_change(1, 16); /* may be idle */
	assert_int_equal(got.severity, FT_INFO);
	assert_link(DOWN0, 1, 0, 0, 1);
	feed_change(5, 8);
	assert_int_equal(got.severity, FT_ERROR);
	feed_change(5, 0);
	assert_int_equal(got.severity, FT_ERROR);
}

static void test_gone_severity(void **state)
{
	static const struct {
		const char *device;
		int how;
		enum ft_severity severity;
	} cases[] = { { GPU0, 0, FT_ERROR },
		      { GPU0, 1, FT_ERROR },
		      { NIC, 1, FT_WARNING }, /* nobody uses it */
		      { NIC, 0, FT_ERROR },
		      { GPU0, 3, FT_INFO } };

	(void)state;
	node();
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ft_rec r;
		struct ft_ev_pcie_gone *e = ft_rec_new(&r, FT_KIND_pcie_gone, 9);

		e->how_seen = cases[i].how;
		ft_strcpy(e->device, cases[i].device, sizeof(e->device));
		feed(&r);
		assert_int_equal(got.severity, cases[i].severity);
	}
}

/* The driver names a process: it and no other that uses the GPU. */
static void test_xid_process(void **state)
{
	struct ft_rec r;

	(void)state;
	node();
	feed_proc(30, 7, 9);
	feed_use(30, GPU0);
	feed_xid(GPU0, 31, FT_NONE_U32, 0, 9);
	assert_int_equal(got.nranks, 2);
	feed_xid(GPU0, 31, 30, 0, 9);
	assert_int_equal(got.nranks, 1);
	assert_int_equal(got.ranks[0].global_rank, 9);
	assert_int_equal(got.ngpus, 1);
	assert_true(got.how & FT_HOW(driver));
	assert_string_equal(got.links[0], DOWN0);
	/* It started after what the log tells: another one with its pid. */
	rec_proc(&r, 1, 31, 1, 7, 8);
	r.h.start_ns = 1000 * SEC;
	feed(&r);
	feed_xid(GPU1, 31, 31, 1, 10 * SEC);
	assert_false(got.how & FT_HOW(driver));
	feed_xid(GPU1, 31, 31, 1, 2000 * SEC);
	assert_true(got.how & FT_HOW(driver));
	assert_int_equal(got.ranks[0].global_rank, 8);
	/* A GPU that the inventory does not have. */
	feed_xid("0000:77:00.0", 79, FT_NONE_U32, 0, 9);
	assert_int_equal(got.ngpus, 1);
	assert_int_equal(got.gpus[0].index, -1);
	assert_int_equal(got.nlinks, 0);
}

/* Two ranks in one process, each on a GPU of its own. */
static void test_thread_ranks(void **state)
{
	struct ft_rec r;
	struct ft_ev_inv_proc *e;

	(void)state;
	node();
	e = rec_proc(&r, 1, 40, 1, 7, -1);
	ft_rec_strs_add(&r, &e->gpu_files, GPU0);
	ft_rec_strs_add(&r, &e->gpu_files, GPU2);
	feed(&r);
	feed_comm(40, 13, 0x1000, 0, 2, 0);
	feed_comm(40, 13, 0x2000, 1, 2, 1);
	feed_aer(GPU2, 2);
	assert_int_equal(got.nranks, 2); /* rank 2 of the node, and this one's second */
	assert_int_equal(got.ranks[1].rank, 1);
	assert_int_equal(got.ranks[1].global_rank, -1);
}

static void feed_counter(const char *device, const char *error, int class, uint64_t n, int before)
{
	struct ft_rec r;
	struct ft_ev_pcie_counter *e = ft_rec_new(&r, FT_KIND_pcie_counter, 9);

	e->delta = e->total = n;
	e->aer_class = class;
	e->before = before;
	ft_strcpy(e->device, device, sizeof(e->device));
	ft_strcpy(e->error, error, sizeof(e->error));
	feed(&r);
}

static void test_errors_before(void **state)
{
	(void)state;
	node();
	assert_false(ft_attrib_link(A, GPU2)->counted);
	feed_counter(ROOT2, "RxErr", 2, 200, 1);
	feed_counter(GPU2, "BadTLP", 2, 12, 1);
	feed_counter(GPU2, "TOTAL_ERR_COR", 2, 12, 1);
	feed_counter(GPU2, "BadTLP", 2, 99, 0);
	feed_counter(GPU2, "CmpltTO", 0, 1, 1);
	assert_int_equal(ft_attrib_link(A, GPU2)->errors_before[2], 212);
	assert_int_equal(ft_attrib_link(A, GPU2)->errors_before[0], 1);
	feed_link(ROOT2, GPU2, GPU2); /* told again */
	assert_int_equal(ft_attrib_link(A, GPU2)->errors_before[2], 212);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		T(test_ends),	       T(test_uplink),	      T(test_nic_users),
		T(test_users_change),  T(test_shared),	      T(test_several_gpus),
		T(test_many_ranks),    T(test_severity),      T(test_link_severity),
		T(test_xid_process),   T(test_gone_severity), T(test_thread_ranks),
		T(test_errors_before),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "source/link_query.h"
#include "source/source.h"

/* Records, as the source hands them on. */
static struct ft_rec seen[64];
static size_t nseen, nlinks;
static uint32_t all_downs; /* of v0, also in the records that are not kept */
static uint8_t last_carrier;

static void keep(void *ctx, const void *rec, size_t len)
{
	const struct ft_ev_net_link *e = rec;

	(void)ctx;
	assert_int_equal(ft_rec_check(rec, len), 0);
	if (e->h.kind == FT_KIND_net_link && !strcmp(e->ifname, "v0")) {
		all_downs += e->carrier_down_delta;
		last_carrier = e->carrier;
		nlinks++;
	}
	if (nseen < ARRAY_SIZE(seen))
		memcpy(&seen[nseen++], rec, len);
}

static const struct ft_emit emit = { keep, NULL };

/* --- a namespace of its own, held by a sleeping child --- */
static pid_t child;
static uint32_t netns;

static int run(const char *cmd)
{
	char line[512];

	ft_fmt(line, "nsenter -t %d -n /bin/sh -c '%s' >/dev/null 2>&1", child, cmd);
	return system(line);
}

static int setup(void **state)
{
	char path[64], up;
	struct stat st;
	int ready[2];

	(void)state;
	nseen = nlinks = all_downs = 0;
	if (pipe(ready))
		return -1;
	child = fork();
	if (!child) {
		up = unshare(CLONE_NEWNET) ? 'n' : 'y';
		if (write(ready[1], &up, 1) == 1)
			pause();
		_exit(0);
	}
	netns = 0;
	if (read(ready[0], &up, 1) == 1 && up == 'y') {
		ft_fmt(path, "/proc/%d/ns/net", child);
		if (!stat(path, &st))
			netns = st.st_ino;
		if (run("ip link add v0 mtu 1400 type veth peer name v1 && ip addr add 10.9.8.7/24 dev v0 && "
			"ip link set v0 up && ip link set v1 up"))
			netns = 0;
	}
	close(ready[0]);
	close(ready[1]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return 0;
}

static void need_namespace(void)
{
	if (netns)
		return;
	print_message("needs root, iproute2 and nsenter\n");
	skip();
}

/* --- the source --- */
static struct ft_link_src *source;
static struct ft_loop *loop;

static void watch_start(void)
{
	assert_int_equal(ft_loop_new(&loop), 0);
	assert_int_equal(ft_link_src_new(&source, loop, &emit), 0);
}

static void watch_namespace(void)
{
	need_namespace();
	watch_start();
	assert_int_equal(ft_link_src_add(source, child, netns), 0);
}

static void watch_end(void)
{
	ft_link_src_free(source);
	ft_loop_free(loop);
}

static void stop(void *ctx)
{
	ft_loop_stop(ctx);
}

/* Lets the loop run for a while. */
static void run_loop(unsigned int ms)
{
	int timer = ft_loop_timer(loop, stop, loop);

	assert_true(timer >= 0);
	assert_int_equal(ft_loop_timer_set(timer, ft_mono_ns() + ms * NSEC_PER_MSEC), 0);
	assert_int_equal(ft_loop_run(loop), 0);
}

static const struct ft_ev_inv_netdev *netdev(const char *ifname)
{
	for (size_t i = nseen; i--;) {
		const struct ft_ev_inv_netdev *e = (const void *)seen[i].buf;

		if (seen[i].h.kind == FT_KIND_inv_netdev && !strcmp(e->ifname, ifname))
			return e;
	}
	fail_msg("no inv.netdev of %s", ifname);
	return NULL;
}

static size_t links(const char *ifname, const struct ft_ev_net_link **last, uint32_t *downs)
{
	size_t n = 0;

	*downs = 0;
	for (size_t i = 0; i < nseen; i++) {
		const struct ft_ev_net_link *e = (const void *)seen[i].buf;

		if (seen[i].h.kind != FT_KIND_net_link || strcmp(e->ifname, ifname) != 0)
			continue;
		*last = e;
		*downs += e->carrier_down_delta;
		n++;
	}
	return n;
}

static void test_inventory(void **state)
{
	const struct ft_ev_inv_netdev *e;
	char driver[32];
	size_t before;

	(void)state;
	watch_namespace();
	e = netdev("v0");
	assert_int_equal(e->netns, netns);
	assert_int_equal(e->carrier, 1);
	assert_int_equal(e->mtu, 1400);
	assert_int_equal(e->speed_mbps, 10000); /* what veth says of itself */
	assert_int_equal(e->numa, FT_NONE_S32);
	assert_int_equal(e->port, FT_NONE_U8);
	assert_string_equal(ft_str_copy(&e->h, e->driver, driver, sizeof(driver)), "veth");
	assert_memory_equal((const char *)e + e->addrs.off, "10.9.8.7", 9);
	assert_int_equal(netdev("lo")->speed_mbps, FT_NONE_U32);
	/* once per namespace */
	before = nseen;
	assert_int_equal(ft_link_src_add(source, child, netns), 0);
	assert_int_equal(nseen, before);
	/* another process has the pid by now */
	assert_int_equal(ft_link_src_add(source, child, netns + 1), -ESRCH);
	watch_end();
}

static void test_flaps(void **state)
{
	const struct ft_ev_net_link *last = NULL;
	uint32_t downs;
	size_t n;

	(void)state;
	watch_namespace();
	/* an event without a change of the link is no line */
	assert_int_equal(run("ip link set v0 alias x"), 0);
	run_loop(100);
	assert_int_equal(links("v0", &last, &downs), 0);

	assert_int_equal(
		run("for i in 1 2 3 4 5 ; do ip link set v1 down ; ip link set v1 up ; done"), 0);
	run_loop(300);
	n = links("v0", &last, &downs);
	assert_true(n >= 1);
	assert_int_equal(downs, 5);
	assert_int_equal(last->carrier, 1);
	assert_int_equal(last->netns, netns);
	assert_true(last->carrier_down_count >= 5);

	assert_int_equal(run("ip link set v1 down"), 0);
	run_loop(100);
	assert_int_equal(links("v0", &last, &downs), n + 1);
	assert_int_equal(last->carrier, 0);
	watch_end();
}

static void test_come_and_go(void **state)
{
	const struct ft_ev_net_link *last = NULL;
	const struct ft_ev_inv_netdev *e;
	uint32_t downs;

	(void)state;
	watch_namespace();
	assert_int_equal(
		run("ip link add v2 type veth peer name v3 && ip addr add 10.1.1.1/32 dev v2"), 0);
	run_loop(200);
	e = netdev("v2");
	assert_memory_equal((const char *)e + e->addrs.off, "10.1.1.1", 9);
	/* renamed: told anew */
	assert_int_equal(run("ip link set v3 name rail3"), 0);
	run_loop(100);
	assert_int_equal(netdev("rail3")->netns, netns);
	assert_int_equal(run("ip link del v0"), 0);
	run_loop(100);
	assert_true(links("v0", &last, &downs) >= 1);
	assert_int_equal(last->carrier, 0);
	assert_int_equal(last->speed_mbps, FT_NONE_U32);
	watch_end();
}

/* More messages than fit: the list is made anew, and the counts stay exact. */
static void test_overflow(void **state)
{
	(void)state;
	watch_namespace();
	/* `ip -batch` is fast enough to fill a megabyte without us reading */
	assert_int_equal(
		run("for i in $(seq 1500) ; do echo link set v1 down ; echo link set v1 up ; done | ip -batch -"),
		0);
	run_loop(1500);
	assert_int_equal(all_downs, 1500);
	assert_int_equal(last_carrier, 1);
	assert_true(nlinks < 10); /* otherwise nothing was lost, and this tests nothing */
	watch_end();
}

/* Our sockets must not keep a namespace whose last process has gone. */
static void test_namespace_ends(void **state)
{
	(void)state;
	watch_namespace();
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	run_loop(2500);
	/* forgotten: the same number is a new question, whose process is gone */
	assert_int_equal(ft_link_src_add(source, child, netns), -ESRCH);
	watch_end();
}

/* Our own namespace needs no right. */
static void test_own(void **state)
{
	struct stat st;

	(void)state;
	nseen = 0;
	assert_int_equal(stat("/proc/self/ns/net", &st), 0);
	watch_start();
	assert_int_equal(ft_link_src_add(source, getpid(), st.st_ino), 0);
	assert_non_null(netdev("lo"));
	watch_end();
}

/* Without CAP_SYS_ADMIN the namespace is named as not watched, once. */
static void test_not_permitted(void **state)
{
	const struct ft_ev_inv_host *e = (const void *)seen[0].buf;
	char reason[160];
	int status;
	pid_t pid;

	(void)state;
	need_namespace();
	pid = fork();
	if (!pid) {
		if (setgid(65534) || setuid(65534))
			_exit(9);
		if (ft_loop_new(&loop) || ft_link_src_new(&source, loop, &emit))
			_exit(8);
		if (ft_link_src_add(source, child, netns) != -EACCES)
			_exit(7);
		if (nseen != 1 || seen[0].h.kind != FT_KIND_inv_host || e->error != -EACCES)
			_exit(6);
		ft_str_copy(&e->h, e->reason, reason, sizeof(reason));
		if (!strstr(reason, "CAP_SYS_ADMIN") || ft_link_src_add(source, child, netns) ||
		    nseen != 1)
			_exit(5);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_inventory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_flaps, setup, teardown),
		cmocka_unit_test_setup_teardown(test_come_and_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_overflow, setup, teardown),
		cmocka_unit_test_setup_teardown(test_namespace_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_not_permitted, setup, teardown),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "nvml_lib.h"
#include "source/gpu.h"

#define WAIT_NS	  (10 * NSEC_PER_SEC)
#define PERIOD_MS 20

static char lib[128];
static struct ft_loop *loop;
static struct ft_gpu_src *src;
static struct ft_probe clocks, nvlink;
static struct ft_rec seen[128];
static size_t nseen;
static uint64_t until_ns;
static bool (*wanted)(void);

static void keep(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	assert_int_equal(ft_rec_check(rec, len), 0);
	assert_in_range(nseen, 0, ARRAY_SIZE(seen) - 1);
	memcpy(&seen[nseen++], rec, len);
}

static const struct ft_emit emit = { keep, NULL };

static void look(void *ctx)
{
	(void)ctx;
	if ((wanted && wanted()) || ft_mono_ns() > until_ns)
		ft_loop_stop(loop);
}

static int build(void **state)
{
	const char *path = machine_new(state) ? NULL : nvml_build("libnvidia-ml.so.1", "");

	ft_strcpy(lib, path ? path : "", sizeof(lib));
	unsetenv("NVML_STUB");
	unsetenv("NVML_STUB_STATE");
	unsetenv("FT_NVML");
	put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module\n");
	nseen = 0;
	clocks = (struct ft_probe){ .program = "nvml_clocks" };
	nvlink = (struct ft_probe){ .program = "nvml_nvlink" };
	return !path || ft_loop_new(&loop) || ft_loop_every(loop, 5, look, NULL) ? -1 : 0;
}

static int unbuild(void **state)
{
	ft_gpu_src_free(ft_take_ptr(src));
	ft_loop_free(ft_take_ptr(loop));
	return machine_free(state);
}

static struct gpu_opts opts_of(const char *library)
{
	return (struct gpu_opts){
		.clocks = &clocks,
		.nvlink = &nvlink,
		.asker = { .library = library, .root = machine_root, .rest_ms = 300 },
		.attach_ms = 5000,
		.period_ms = PERIOD_MS,
		.links_every = 2,
		.settle_ms = 100000,
		.answer_ms = 200,
		.kill_ms = 1000,
		.retry_ms = 100,
		.retry_max_ms = 1000,
	};
}

static void start(struct gpu_opts opts)
{
	assert_int_equal(gpu_src_open(&src, loop, &emit, NULL, &opts), 0);
}

static void run_until(bool (*fn)(void))
{
	wanted = fn;
	until_ns = ft_mono_ns() + WAIT_NS;
	assert_int_equal(ft_loop_run(loop), 0);
	assert_true(fn());
}

/* What the source says within so many of its periods when it has nothing to say. */
static void run_for(unsigned int ms)
{
	wanted = NULL;
	until_ns = ft_mono_ns() + ms * NSEC_PER_MSEC;
	assert_int_equal(ft_loop_run(loop), 0);
}

static size_t count(enum ft_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < nseen; i++)
		n += seen[i].h.kind == kind;
	return n;
}

static bool one_more(void)
{
	return nseen > 0;
}

static const struct ft_ev_gpu_clocks *clocks_line(size_t i)
{
	assert_in_range(i, 0, nseen - 1);
	assert_int_equal(seen[i].h.kind, FT_KIND_gpu_clocks);
	return (const void *)&seen[i];
}

static const struct ft_ev_gpu_nvlink *link_line(size_t i)
{
	assert_in_range(i, 0, nseen - 1);
	assert_int_equal(seen[i].h.kind, FT_KIND_gpu_nvlink);
	return (const void *)&seen[i];
}

static void assert_names(const struct ft_ev_gpu_clocks *e, const char *json)
{
	_cleanup_buf_ struct ft_buf b = {};

	ft_json_data(&b, &e->h);
	if (!strstr(b.s, json))
		fail_msg("%s is not in %s", json, b.s);
}

static void test_clocks(void **state)
{
	const struct ft_ev_gpu_clocks *e;

	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=0x1 sm=345 util=0 pstate=8\n"
		  "00000000:3b:00.0 1\n");
	start(opts_of(lib));
	/* At the attach: one line of the GPU that tells, none of the other. */
	assert_int_equal(nseen, 1);
	e = clocks_line(0);
	assert_string_equal(e->bdf, "0000:19:00.0");
	assert_int_equal(e->index, 3);
	assert_int_equal(e->reasons, 1);
	assert_int_equal(e->sm_mhz, 345);
	assert_int_equal(e->pstate, 8);
	assert_int_equal(e->utilization, 0);
	assert_true(e->power_mw == FT_NONE_U32);
	assert_names(e, "\"names\":[\"GpuIdle\"]");
	assert_int_equal(clocks.state, FT_PROBE_ON);
	assert_int_equal(nvlink.state, FT_PROBE_UNNEEDED);
	/* Not each round. */
	run_for(10 * PERIOD_MS);
	assert_int_equal(nseen, 1);
	/* That it works now is told at once; how much it works is no news, nor is its clock. */
	nvml_gpus("00000000:19:00.0 3 reasons=0x0 sm=1980 util=100 pstate=0\n00000000:3b:00.0 1\n");
	nseen = 0;
	run_until(one_more);
	e = clocks_line(0);
	assert_int_equal(e->utilization, 100);
	assert_int_equal(e->reasons, 0);
	assert_names(e, "\"names\":[]");
	nvml_gpus("00000000:19:00.0 3 reasons=0x0 sm=1755 util=42 pstate=0\n00000000:3b:00.0 1\n");
	run_for(10 * PERIOD_MS);
	assert_int_equal(nseen, 1);
}

/* A power cap that comes and goes must not make a line a second; a thermal slowdown is told at once. */
static void test_settle(void **state)
{
	struct gpu_opts opts = opts_of(lib);
	uint64_t told_ns;

	(void)state;
	opts.settle_ms = 1000;
	nvml_gpus("00000000:19:00.0 3 reasons=0x0 util=90 pstate=0\n");
	start(opts);
	assert_int_equal(nseen, 1);
	told_ns = seen[0].h.ts_ns;
	nvml_gpus("00000000:19:00.0 3 reasons=0x4 util=90 pstate=0\n");
	nseen = 0;
	run_until(one_more);
	assert_true(seen[0].h.ts_ns - told_ns >= 1000 * NSEC_PER_MSEC);
	assert_names(clocks_line(0), "\"names\":[\"SwPowerCap\"]");
	told_ns = seen[0].h.ts_ns;
	nvml_gpus("00000000:19:00.0 3 reasons=0x64c util=90 pstate=0\n");
	nseen = 0;
	run_until(one_more);
	assert_true(seen[0].h.ts_ns - told_ns < 1000 * NSEC_PER_MSEC);
	assert_names(clocks_line(0), "\"names\":[\"SwPowerCap\",\"HwSlowdown\","
				     "\"HwThermalSlowdown\",\"BoardLimit\",\"Reliability\"]");
	/* A reason that comes and goes: not a line for each change. */
	nseen = 0;
	for (int i = 0; i < 10; i++) {
		nvml_gpus("00000000:19:00.0 3 reasons=0x%x util=90 pstate=0\n",
			  i % 2 ? 0x64c : 0x648);
		run_for(2 * PERIOD_MS);
	}
	assert_in_range(nseen, 0, 2);
}

/* That it stops to work, and that it leaves P0 to P2: its link's speed may fall with it. */
static void test_idle(void **state)
{
	static const struct {
		unsigned int util, pstate;
		bool told;
	} steps[] = {
		{ 0, 0, true },	  { 0, 2, false },  { 0, 8, true },
		{ 0, 12, false }, { 0, 1, false },  { 40, 1, true },
		{ 40, 5, true },  { 30, 5, false }, { 0, 5, true },
	};

	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=0x0 util=90 pstate=0\n");
	start(opts_of(lib));
	assert_int_equal(nseen, 1);
	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		nseen = 0;
		nvml_gpus("00000000:19:00.0 3 reasons=0x0 util=%u pstate=%u\n", steps[i].util,
			  steps[i].pstate);
		if (steps[i].told)
			run_until(one_more);
		else
			run_for(5 * PERIOD_MS);
		assert_int_equal(nseen, steps[i].told);
		if (!steps[i].told)
			continue;
		assert_int_equal(clocks_line(0)->utilization, steps[i].util);
		assert_int_equal(clocks_line(0)->pstate, steps[i].pstate);
	}
}

static void test_links(void **state)
{
	const struct ft_ev_gpu_nvlink *e;

	(void)state;
	nvml_gpus("00000000:19:00.0 3 links=18 l5.2=41 l7=0\n00000000:3b:00.0 1 links=18\n"
		  "00000000:5d:00.0 2 links=18 l0=0\n");
	start(opts_of(lib));
	assert_int_equal(clocks.state, FT_PROBE_OFF);
	assert_string_equal(clocks.reason, "no GPU here tells");
	assert_int_equal(nvlink.state, FT_PROBE_ON);
	/* What it had counted before us, and links that its equals have up. */
	assert_int_equal(nseen, 3);
	e = link_line(0);
	assert_string_equal(e->bdf, "0000:19:00.0");
	assert_int_equal(e->link, 5);
	assert_int_equal(e->total, 41);
	assert_int_equal(e->delta, 41);
	assert_int_equal(e->before, 1);
	assert_int_equal(e->active, 1);
	assert_true(ft_str_is(&e->h, e->error, "CRC flit"));
	e = link_line(1);
	assert_int_equal(e->link, 7);
	assert_int_equal(e->active, 0);
	assert_int_equal(e->before, 1);
	assert_true(e->total == FT_NONE_U64);
	assert_string_equal(link_line(2)->bdf, "0000:5d:00.0");
	/* Growth. */
	nvml_gpus("00000000:19:00.0 3 links=18 l5.2=48 l7=0\n00000000:3b:00.0 1 links=18 l17.0=1\n"
		  "00000000:5d:00.0 2 links=18 l0=0\n");
	nseen = 0;
	run_until(one_more);
	run_for(10 * PERIOD_MS);
	assert_int_equal(nseen, 2);
	assert_int_equal(link_line(0)->total, 48);
	assert_int_equal(link_line(0)->delta, 7);
	assert_int_equal(link_line(0)->before, 0);
	assert_int_equal(link_line(1)->link, 17);
	assert_int_equal(link_line(1)->delta, 1);
	assert_int_equal(link_line(1)->index, 1);
	/* Down, and up again with counters that were set to 0 meanwhile. */
	nvml_gpus("00000000:19:00.0 3 links=18 l5=0 l7=0\n00000000:3b:00.0 1 links=18 l17.0=1\n"
		  "00000000:5d:00.0 2 links=18 l0=0\n");
	nseen = 0;
	run_until(one_more);
	assert_int_equal(link_line(0)->link, 5);
	assert_int_equal(link_line(0)->active, 0);
	assert_true(link_line(0)->delta == FT_NONE_U64);
	nvml_gpus("00000000:19:00.0 3 links=18 l5.2=2 l7=0\n00000000:3b:00.0 1 links=18 l17.0=1\n"
		  "00000000:5d:00.0 2 links=18 l0=0\n");
	nseen = 0;
	run_until(one_more);
	assert_int_equal(nseen, 2);
	assert_int_equal(link_line(0)->delta, 2);
	assert_int_equal(link_line(1)->active, 1);
	run_for(10 * PERIOD_MS);
	assert_int_equal(nseen, 2);
}

/* A board where some links lead nowhere, and one without a bridge: no fault. */
static void test_links_unused(void **state)
{
	(void)state;
	nvml_gpus("00000000:19:00.0 3 links=3 l2=0\n00000000:3b:00.0 1 links=3 l2=0\n"
		  "00000000:5d:00.0 2 links=3 l0=0 l1=0 l2=0\n");
	start(opts_of(lib));
	run_for(5 * PERIOD_MS);
	assert_int_equal(nseen, 0);
}

static bool is_off(void)
{
	return clocks.state == FT_PROBE_OFF && nvlink.state == FT_PROBE_OFF;
}

static bool is_on(void)
{
	return clocks.state == FT_PROBE_ON && nvlink.state == FT_PROBE_ON;
}

static pid_t first_pid;

static bool another_process(void)
{
	return ft_gpu_src_pid(src) && ft_gpu_src_pid(src) != first_pid;
}

/* The second GPU hangs: it is named, nothing here waits, and later it is asked again. */
static void test_hang(void **state)
{
	uint64_t from;

	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=1 links=1\n00000000:3b:00.0 1 reasons=1 links=1\n");
	start(opts_of(lib));
	assert_true(is_on());
	first_pid = ft_gpu_src_pid(src);
	nvml_gpus("00000000:19:00.0 3 reasons=9 links=1\n"
		  "00000000:3b:00.0 1 reasons=1 links=1 hang=60\n");
	nseen = 0;
	run_until(is_off);
	assert_int_equal(clocks.error, -ETIMEDOUT);
	assert_non_null(strstr(clocks.reason, "no answer of GPU 0000:3b:00.0 for 0."));
	assert_string_equal(clocks.reason, nvlink.reason);
	assert_int_equal(count(FT_KIND_gpu_clocks), 1); /* the GPU before it */
	assert_int_equal(clocks_line(0)->reasons, 9);
	run_until(another_process);
	nvml_gpus("00000000:19:00.0 3 reasons=9 links=1\n00000000:3b:00.0 1 reasons=1 links=1\n");
	run_until(is_on);
	from = ft_mono_ns();
	ft_gpu_src_free(ft_take_ptr(src));
	assert_true(ft_mono_ns() - from < NSEC_PER_SEC);
}

/* Slow, but not for ever: the same process goes on. */
static void test_slow(void **state)
{
	struct gpu_opts opts = opts_of(lib);

	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=1 links=1\n");
	opts.attach_ms = 50;
	opts.answer_ms = 100;
	opts.kill_ms = 5000;
	setenv("NVML_STUB", "hang_init", 1);
	start(opts);
	assert_true(is_off());
	assert_string_equal(clocks.reason, "no answer of NVML yet");
	first_pid = ft_gpu_src_pid(src);
	run_until(is_on);
	assert_int_equal(ft_gpu_src_pid(src), first_pid);
	assert_string_equal(clocks.reason, "");
}

static void test_crash(void **state)
{
	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=1 links=1 crash\n");
	start(opts_of(lib));
	first_pid = ft_gpu_src_pid(src);
	assert_true(is_off());
	assert_int_equal(clocks.error, -EPIPE);
	assert_non_null(strstr(clocks.reason, "the process that asks NVML"));
	nvml_gpus("00000000:19:00.0 3 reasons=1 links=1\n");
	run_until(is_on);
	assert_true(another_process());
}

static bool no_process(void)
{
	return !ft_gpu_src_pid(src);
}

static void test_no_library(void **state)
{
	(void)state;
	start(opts_of("/no/such/library.so"));
	assert_true(is_off());
	assert_int_equal(clocks.error, -ENOENT);
	assert_string_equal(nvlink.reason, "no libnvidia-ml.so.1: it comes with the driver");
	/* It is not tried again. */
	run_until(no_process);
	run_for(300);
	assert_true(no_process());
	assert_int_equal(nseen, 0);
}

static void test_lost(void **state)
{
	const struct ft_ev_inv_host *e = (const void *)&seen[0];

	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=1 links=1\n00000000:3b:00.0 1 reasons=1 links=1\n");
	start(opts_of(lib));
	nvml_gpus("00000000:19:00.0 3 reasons=1 links=1 lost\n"
		  "00000000:3b:00.0 1 reasons=1 links=1\n");
	nseen = 0;
	run_until(one_more);
	run_for(10 * PERIOD_MS);
	assert_int_equal(nseen, 1); /* once */
	assert_int_equal(e->h.kind, FT_KIND_inv_host);
	assert_true(ft_str_is(&e->h, e->what, "clocks and NVLinks of GPU 0000:19:00.0 (NVML)"));
	assert_true(ft_str_is(&e->h, e->reason, "the GPU is lost or needs a reset"));
	assert_true(is_on()); /* the other one tells */
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, build, unbuild)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(clocks), TEST(settle), TEST(idle),	 TEST(links),	   TEST(links_unused),
		TEST(hang),   TEST(slow),   TEST(crash), TEST(no_library), TEST(lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

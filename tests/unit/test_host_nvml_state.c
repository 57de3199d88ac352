// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "host/nvml_state.h"
#include "host/pci.h"
#include "nvml_lib.h"

#define ANSWER_MS 5000
#define A	  "0000:19:00.0" /* GPUs of machine_hgx() */
#define B	  "0000:3b:00.0"

static char lib[128];
static struct ft_pci *pci;
static struct ft_nvml_asker *asker;
static struct ft_nvml_state gpus[16];
static size_t ngpus;

static int build(void **state)
{
	const char *path = machine_new(state) ? NULL : nvml_build("libnvidia-ml.so.1", "");

	ft_strcpy(lib, path ? path : "", sizeof(lib));
	unsetenv("NVML_STUB");
	unsetenv("NVML_STUB_STATE");
	unsetenv("FT_NVML");
	put("/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module\n");
	return path ? 0 : -1;
}

static int unbuild(void **state)
{
	ft_nvml_asker_free(ft_take_ptr(asker));
	ft_pci_free(ft_take_ptr(pci));
	return machine_free(state);
}

static void start(const char *library, unsigned int rest_ms)
{
	struct ft_nvml_asker_opts opts = { .library = library,
					   .root = machine_root,
					   .rest_ms = rest_ms };

	ft_nvml_asker_free(ft_take_ptr(asker));
	assert_int_equal(ft_nvml_asker_new(&asker, pci, &opts), 0);
}

/* One round: what it came to, or -EPIPE. */
static int ask(bool links)
{
	struct pollfd p = { ft_nvml_asker_fd(asker), POLLIN, 0 };
	int what, result = 0;

	ngpus = 0;
	assert_int_equal(ft_nvml_asker_ask(asker, links), 0);
	for (;;) {
		assert_int_equal(poll(&p, 1, ANSWER_MS), 1);
		what = ft_nvml_asker_take(asker, &gpus[ngpus], &result);
		if (what == -EPIPE)
			return what;
		if (what == FT_NVML_END)
			return result;
		if (what == FT_NVML_GPU)
			assert_in_range(++ngpus, 1, ARRAY_SIZE(gpus) - 1);
	}
}

static void test_clocks(void **state)
{
	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=0x404 sm=1980 temp=61 power=699000 limit=700000 "
		  "pstate=0 util=97\n"
		  "00010000:3B:00.0 5\n");
	start(lib, 1000);
	assert_int_equal(ask(false), 0);
	assert_int_equal(ngpus, 2);
	assert_string_equal(gpus[0].bdf, A);
	assert_int_equal(gpus[0].minor, 3);
	assert_int_equal(gpus[0].error, 0);
	assert_int_equal(gpus[0].reasons, 0x404);
	assert_int_equal(gpus[0].sm_mhz, 1980);
	assert_int_equal(gpus[0].temperature, 61);
	assert_int_equal(gpus[0].power_mw, 699000);
	assert_int_equal(gpus[0].power_limit_mw, 700000);
	assert_int_equal(gpus[0].pstate, 0);
	assert_int_equal(gpus[0].utilization, 97);
	assert_int_equal(gpus[0].nlinks, FT_NONE_S32); /* not asked */
	/* One that tells nothing: unknown, not 0. */
	assert_string_equal(gpus[1].bdf, "10000:3b:00.0");
	assert_int_equal(gpus[1].error, 0);
	assert_true(gpus[1].reasons == FT_NONE_U64);
	assert_true(gpus[1].sm_mhz == FT_NONE_U32 && gpus[1].temperature == FT_NONE_U32);
	assert_true(gpus[1].power_mw == FT_NONE_U32 && gpus[1].power_limit_mw == FT_NONE_U32);
	assert_true(gpus[1].pstate == FT_NONE_U8 && gpus[1].utilization == FT_NONE_U8);
	assert_int_equal(ask(true), 0);
	assert_int_equal(gpus[1].nlinks, 0);
	assert_string_equal(ft_clocks_reason_name(2), "SwPowerCap");
	assert_null(ft_clocks_reason_name(11));
}

/* The name of before release 535, and a library that knows none of these calls. */
static void test_old_libraries(void **state)
{
	(void)state;
	nvml_gpus("00000000:19:00.0 3 reasons=0x8 pstate=32\n");
	start(nvml_build("old.so", "-DOLD_NAMES"), 1000);
	assert_int_equal(ask(false), 0);
	assert_int_equal(gpus[0].reasons, 0x8);
	assert_int_equal(gpus[0].pstate, FT_NONE_U8); /* NVML_PSTATE_UNKNOWN */
	start(nvml_build("older.so", "-DNO_STATE"), 1000);
	assert_int_equal(ask(true), 0);
	assert_int_equal(gpus[0].error, 0);
	assert_true(gpus[0].reasons == FT_NONE_U64);
	assert_int_equal(gpus[0].nlinks, FT_NONE_S32);
	start("/no/such/library.so", 1000);
	assert_int_equal(ask(true), -ENOENT);
	start(nvml_build("empty.so", "-DEMPTY"), 1000);
	assert_int_equal(ask(true), -ENOSYS);
	setenv("NVML_STUB", "init=9", 1);
	start(lib, 1000);
	assert_int_equal(ask(true), -ENODEV);
	unsetenv("NVML_STUB");
}

/* Without the driver NVML is not even initialized: it would load it. What FT_NVML names needs none. */
static void test_no_driver(void **state)
{
	char path[128];

	(void)state;
	ft_fmt(path, "%s/proc/driver/nvidia/version", machine_root);
	assert_int_equal(unlink(path), 0);
	start(lib, 1000);
	assert_int_equal(ask(true), -ENODEV);
	setenv("FT_NVML", lib, 1);
	start(NULL, 1000);
	assert_int_equal(ask(true), 0);
	assert_int_equal(ngpus, 3);
}

static void test_links(void **state)
{
	const struct ft_nvlink *l = gpus[0].links;

	(void)state;
	nvml_gpus("00000000:19:00.0 0 links=18 l3=0 l4.0=5 l4.2=7 l17.3=9 l17.1=1\n"
		  "00000000:3b:00.0 1 links=36 nvlink5 l35.208=4 l35.214=2 l0.0=99 l0.221=1000\n"
		  "00000000:5d:00.0 2\n");
	start(lib, 1000);
	assert_int_equal(ask(true), 0);
	assert_int_equal(gpus[0].nlinks, 18);
	assert_int_equal(l[3].active, 0);
	assert_int_equal(l[4].active, 1);
	assert_int_equal(l[4].errors[FT_NVLINK_REPLAY], 5);
	assert_int_equal(l[4].errors[FT_NVLINK_RECOVERY], 0);
	assert_int_equal(l[4].errors[FT_NVLINK_CRC_FLIT], 7);
	assert_int_equal(l[17].errors[FT_NVLINK_CRC_DATA], 9);
	assert_int_equal(l[17].errors[FT_NVLINK_RECOVERY], 1);
	assert_true(l[17].errors[FT_NVLINK_ECC_DATA] == FT_NONE_U64);
	assert_true(l[17].errors[FT_NVLINK_CRC] == FT_NONE_U64);
	assert_true(l[17].errors[FT_NVLINK_RECEIVE] == FT_NONE_U64);
	assert_true(l[3].errors[FT_NVLINK_REPLAY] == FT_NONE_U64); /* down: it has no counters */
	assert_true(l[18].active == FT_NONE_U8);
	l = gpus[1].links;
	assert_int_equal(gpus[1].nlinks, 36);
	assert_int_equal(l[35].errors[FT_NVLINK_RECEIVE], 4); /* of 32 bits */
	assert_int_equal(l[35].errors[FT_NVLINK_RECOVERY_FAILED], 2);
	assert_int_equal(l[35].errors[FT_NVLINK_EFFECTIVE], 0);
	assert_true(l[0].errors[FT_NVLINK_REPLAY] == FT_NONE_U64);
	assert_int_equal(gpus[2].nlinks, 0);
	assert_string_equal(ft_nvlink_error_name(FT_NVLINK_CRC_FLIT), "CRC flit");
	assert_null(ft_nvlink_error_name(FT_NVLINK_ERRORS));
	for (unsigned int k = 0; k < FT_NVLINK_ERRORS; k++)
		assert_non_null(ft_nvlink_error_name(k));
}

static void put_gpu(const char *bdf, const char *runtime_status)
{
	struct pci_spec spec = { .class = 0x030200, .vendor = 0x10de, .device = 0x2330 };
	char text[96];

	ft_fmt(text, "pci0000:00/%s", bdf);
	spec.chain = text;
	put_pci(&spec);
	ft_fmt(text, "/sys/devices/pci0000:00/%s/power/runtime_status", bdf);
	put(text, "%s\n", runtime_status);
}

/* GPUs of the tree, by their addresses; one that sleeps is not asked, so it sleeps on. */
static void test_asleep(void **state)
{
	(void)state;
	put_gpu(A, "active");
	put_gpu(B, "suspended");
	put_gpu("0000:44:00.0", "active");
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &pci), 0);
	/* NVML's order is another one, and it has one more. The sleeping one would crash. */
	nvml_gpus("00000000:5D:00.0 9\n"
		  "00000000:3B:00.0 1 crash\n"
		  "00000000:19:00.0 3 reasons=1\n");
	start(lib, 50);
	assert_int_equal(ask(true), 0);
	assert_int_equal(ngpus, 3);
	assert_string_equal(gpus[0].bdf, A);
	assert_false(gpus[0].asleep);
	assert_int_equal(gpus[0].reasons, 1);
	assert_string_equal(gpus[1].bdf, B);
	assert_true(gpus[1].asleep);
	assert_true(gpus[1].reasons == FT_NONE_U64);
	assert_int_equal(gpus[2].error, -ENXIO); /* on the bus, but not the driver's */
	/* It woke up by itself. */
	nvml_gpus("00000000:3B:00.0 1 reasons=2\n00000000:19:00.0 3 reasons=1\n");
	put_gpu(B, "active");
	assert_int_equal(ask(true), 0);
	assert_false(gpus[1].asleep);
	assert_int_equal(gpus[1].reasons, 2);
}

/* A lost GPU is left in peace for a while, then all is opened anew. */
static void test_lost(void **state)
{
	(void)state;
	nvml_gpus("00000000:19:00.0 0 reasons=1 lost\n00000000:3b:00.0 1 reasons=2\n");
	start(lib, 300);
	assert_int_equal(ask(true), 0);
	assert_int_equal(gpus[0].error, -EHOSTDOWN);
	assert_int_equal(gpus[1].reasons, 2);
	nvml_gpus("00000000:19:00.0 0 reasons=1\n00000000:3b:00.0 1 reasons=2\n");
	assert_int_equal(ask(true), 0);
	assert_int_equal(gpus[0].error, -EHOSTDOWN);
	usleep(350000);
	assert_int_equal(ask(true), 0);
	assert_int_equal(gpus[0].error, 0);
	assert_int_equal(gpus[0].reasons, 1);
	/* Lost while it is open. */
	nvml_gpus("00000000:19:00.0 0 reasons=1 lost\n00000000:3b:00.0 1 reasons=2\n");
	assert_int_equal(ask(true), 0);
	assert_int_equal(gpus[0].error, -EHOSTDOWN);
	assert_int_equal(gpus[1].error, 0);
}

static bool exists(pid_t pid)
{
	char path[64];

	ft_fmt(path, "/proc/%d", pid);
	return !access(path, F_OK);
}

/* The process holds nothing open of its parent's: it may outlive us. */
static void test_inherits_nothing(void **state)
{
	_cleanup_close_ int first = -1, held = -1;
	char cmd[128], path[128];

	(void)state;
	ft_fmt(path, "%s/held", machine_root);
	put("/held", "%s", "");
	first = open(path, O_RDONLY);
	held = fcntl(first, F_DUPFD, 20);
	assert_true(held >= 20);
	nvml_gpus("00000000:19:00.0 0 reasons=1\n");
	start(lib, 50);
	assert_int_equal(ask(false), 0);
	ft_fmt(cmd, "ls -l /proc/%d/fd | grep -q %s", getpid(), path);
	assert_int_equal(system(cmd), 0);
	ft_fmt(cmd, "ls -l /proc/%d/fd | grep -q %s", ft_nvml_asker_pid(asker), path);
	assert_int_not_equal(system(cmd), 0);
}

/* A call that never comes back: we go on, and can end its process. */
static void test_hang(void **state)
{
	uint64_t from = ft_mono_ns();
	int signal = 0, result;
	pid_t pid;

	(void)state;
	nvml_gpus("00000000:19:00.0 0 reasons=1\n00000000:3b:00.0 1 reasons=2 hang=60\n");
	start(lib, 50);
	pid = ft_nvml_asker_pid(asker);
	assert_int_equal(ft_nvml_asker_ask(asker, false), 0);
	while (ft_nvml_asker_take(asker, gpus, &result) == -EAGAIN)
		usleep(1000);
	assert_string_equal(gpus[0].bdf, A); /* those before it */
	assert_int_equal(ft_nvml_asker_take(asker, gpus, &result), -EAGAIN);
	assert_false(ft_nvml_asker_ended(asker, &signal));
	ft_nvml_asker_free(ft_take_ptr(asker));
	assert_false(exists(pid));
	assert_true(ft_mono_ns() - from < 5 * NSEC_PER_SEC);
}

static void test_crash(void **state)
{
	struct pollfd p;
	int signal = 0;

	(void)state;
	nvml_gpus("00000000:19:00.0 0 reasons=1 crash\n");
	start(lib, 50);
	assert_int_equal(ask(false), -EPIPE);
	p = (struct pollfd){ -1, 0, 0 };
	for (int ms = 0; ms < ANSWER_MS && !ft_nvml_asker_ended(asker, &signal); ms++)
		poll(&p, 1, 1);
	assert_int_equal(signal, SIGABRT);
	assert_int_equal(ft_nvml_asker_ask(asker, false), -EPIPE);
}

/* Its parent is killed while NVML does not answer: it ends too. */
static void test_orphan(void **state)
{
	struct ft_nvml_asker_opts opts = { .library = lib, .root = machine_root };
	pid_t parent, pid = 0;
	int pipefd[2], status;

	(void)state;
	nvml_gpus("00000000:19:00.0 0 hang=60\n");
	assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	assert_int_equal(pipe(pipefd), 0);
	parent = fork();
	if (!parent) {
		if (ft_nvml_asker_new(&asker, NULL, &opts) || ft_nvml_asker_ask(asker, false))
			_exit(1);
		usleep(100000); /* it is inside the call by now */
		pid = ft_nvml_asker_pid(asker);
		if (write(pipefd[1], &pid, sizeof(pid)) < 0)
			_exit(1);
		pause();
	}
	assert_int_equal(read(pipefd[0], &pid, sizeof(pid)), sizeof(pid));
	assert_true(exists(pid));
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	/* It is ours now. */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	close(pipefd[0]);
	close(pipefd[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, build, unbuild)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(clocks), TEST(old_libraries),    TEST(no_driver), TEST(links), TEST(asleep),
		TEST(lost),   TEST(inherits_nothing), TEST(hang),      TEST(crash), TEST(orphan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

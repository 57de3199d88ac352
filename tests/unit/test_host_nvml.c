// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dlfcn.h>

#include "host/nvml.h"
#include "host/pci.h"
#include "nvml_lib.h"

#define ANSWER_MS 5000
#define SHORT_MS  150	 /* less than the stub is slow */
#define SLOW_US	  700000 /* more than that: its thread has ended */

static char lib[128];

static int build(void **state)
{
	const char *path = machine_new(state) ? NULL : nvml_build("libnvidia-ml.so.1", "");

	ft_strcpy(lib, path ? path : "", sizeof(lib));
	unsetenv("NVML_STUB");
	unsetenv("FT_NVML");
	return path ? 0 : -1;
}

/* Whatever happened, each init has had its shutdown. */
static void assert_down(void)
{
	void *so = dlopen(lib, RTLD_NOW);
	int (*up)(void);

	assert_non_null(so);
	*(void **)&up = dlsym(so, "nvml_stub_up");
	assert_int_equal(up(), 0);
	dlclose(so);
}

static void assert_gpu(const struct ft_nvml_gpu *g, const char *bdf, int minor, size_t npids)
{
	assert_string_equal(g->bdf, bdf);
	assert_int_equal(g->minor, minor);
	assert_int_equal(g->error, 0);
	assert_int_equal(g->npids, npids);
}

static void assert_stub(const char *library)
{
	_cleanup_(ft_nvml_freep) struct ft_nvml *nv = NULL;
	const struct ft_nvml_gpu *on[4];

	assert_int_equal(ft_nvml_read(library, ANSWER_MS, &nv), 0);
	assert_int_equal(nv->n, 3);
	assert_gpu(&nv->v[0], "0000:13:00.0", 2, 2);
	assert_gpu(&nv->v[1], "0000:c3:00.0", 0, 2);
	assert_gpu(&nv->v[2], "10000:d3:00.0", 1, 0);
	assert_string_equal(nv->v[0].uuid, "GPU-00000002-aaaa-bbbb-cccc-dddddddddddd");
	assert_int_equal(nv->v[0].pids[1], 1002); /* 0 is left out */
	assert_int_equal(ft_nvml_gpus(nv, 1001, on, 4), 1);
	assert_ptr_equal(on[0], &nv->v[0]);
	assert_int_equal(ft_nvml_gpus(nv, 1002, on, 4), 2);
	assert_int_equal(ft_nvml_gpus(nv, 1002, on, 1), 1);
	assert_int_equal(ft_nvml_gpus(nv, 4711, on, 4), 0);
}

static void test_normal(void **state)
{
	(void)state;
	assert_stub(lib);
	assert_stub(lib); /* again, in the same process */
	setenv("FT_NVML", lib, 1);
	assert_stub(NULL);
	assert_down();
}

static void test_no_v3(void **state)
{
	(void)state;
	assert_stub(nvml_build("old.so", "-DNO_V3"));
}

static void test_growth(void **state)
{
	_cleanup_(ft_nvml_freep) struct ft_nvml *nv = NULL;

	(void)state;
	setenv("NVML_STUB", "many", 1);
	assert_int_equal(ft_nvml_read(lib, ANSWER_MS, &nv), 0);
	assert_int_equal(nv->v[0].error, 0);
	assert_true(nv->v[0].npids > 300);
	assert_int_equal(nv->v[0].pids[300], 5300);
}

static void test_errors(void **state)
{
	static const struct {
		const char *mode;
		int err;
	} rows[] = { { "init=9", -ENODEV },	{ "init=18", -EPROTO },
		     { "init=4", -EACCES },	{ "init=999", -EIO },
		     { "init=12", -ENOENT },	{ "init=15", -EHOSTDOWN },
		     { "init=3", -EOPNOTSUPP }, { "init=10", -ETIMEDOUT },
		     { "init=13", -ENOSYS } };
	struct ft_nvml *nv = NULL;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		setenv("NVML_STUB", rows[i].mode, 1);
		assert_int_equal(ft_nvml_read(lib, ANSWER_MS, &nv), rows[i].err);
	}
	assert_int_equal(ft_nvml_read("/no/such/library.so", ANSWER_MS, &nv), -ENOENT);
	assert_int_equal(ft_nvml_read(nvml_build("empty.so", "-DEMPTY"), ANSWER_MS, &nv), -ENOSYS);
	assert_null(nv);
	assert_down();
}

/* --- what is said of it --- */
static int procs, hosts;
static char said[1024];

static void collect(void *ctx, struct ft_hdr *ev)
{
	char a[64], b[64];

	(void)ctx;
	assert_int_equal(ft_rec_check(ev, ev->size), 0);
	if (ev->kind == FT_KIND_inv_gpu_proc) {
		const struct ft_ev_inv_gpu_proc *e = (const void *)ev;

		procs++;
		ft_fmt(a, "%u %s %d %s;", ev->pid, ev->task, e->index,
		       ft_str_copy(ev, e->bdf, b, sizeof(b)));
		strcat(said, a);
	} else if (ev->kind == FT_KIND_inv_host) {
		const struct ft_ev_inv_host *e = (const void *)ev;

		hosts++;
		strcat(strcat(said, ft_str_copy(ev, e->what, a, sizeof(a))), ": ");
		strcat(strcat(said, ft_str_copy(ev, e->reason, b, sizeof(b))), ";");
	}
}

static void emit(int err, const struct ft_nvml *nv)
{
	procs = hosts = 0;
	said[0] = 0;
	ft_nvml_emit(nv, err, machine_root, 1, collect, NULL);
}

/* A hang of the whole leaves nothing, a hang at one GPU leaves those before it. */
static void test_hang(void **state)
{
	_cleanup_(ft_nvml_freep) struct ft_nvml *nv = NULL;
	uint64_t from = ft_mono_ns();

	(void)state;
	setenv("NVML_STUB", "hang_init", 1);
	assert_int_equal(ft_nvml_read(lib, SHORT_MS, &nv), -ETIMEDOUT);
	assert_null(nv);
	assert_true(ft_mono_ns() - from < (SHORT_MS + 200) * NSEC_PER_MSEC);
	usleep(SLOW_US);
	setenv("NVML_STUB", "hang", 1);
	assert_int_equal(ft_nvml_read(lib, SHORT_MS, &nv), 0);
	assert_int_equal(nv->n, 3);
	assert_gpu(&nv->v[0], "0000:13:00.0", 2, 2);
	assert_int_equal(nv->v[1].error, -ETIMEDOUT);
	assert_int_equal(nv->v[2].error, -ETIMEDOUT);
	assert_null(nv->v[1].pids);
	emit(0, nv);
	assert_int_equal(hosts, 2);
	assert_non_null(strstr(said, "processes on GPU number 1 of NVML: no answer in time;"));
	usleep(SLOW_US); /* it frees what is its own */
	assert_down();
}

static void test_emit(void **state)
{
	_cleanup_(ft_nvml_freep) struct ft_nvml *nv = NULL;

	(void)state;
	put_job();
	setenv("NVML_STUB", "lost", 1);
	assert_int_equal(ft_nvml_read(lib, ANSWER_MS, &nv), 0);
	emit(0, nv);
	assert_string_equal(said,
			    "1001 python 2 0000:13:00.0;1002 python 2 0000:13:00.0;"
			    "processes on GPU number 1 of NVML: the GPU is lost or needs a reset;");
	ft_nvml_free(ft_take_ptr(nv));
	unsetenv("NVML_STUB");
	assert_int_equal(ft_nvml_read(lib, ANSWER_MS, &nv), 0);
	emit(0, nv);
	assert_int_equal(procs, 3); /* 7 is no process that we know */
	put_proc(&(struct proc_spec){ 7, 2, "kworker", .kthread = true });
	emit(0, nv);
	assert_int_equal(procs, 3); /* nor can it be this one: it is a number of elsewhere */
	emit(-ETIMEDOUT, NULL);
	assert_string_equal(said, "processes on the GPUs (NVML): no answer in time;");
}

static void test_wanted(void **state)
{
	_cleanup_(ft_pci_freep) struct ft_pci *none = NULL, *hgx = NULL;

	(void)state;
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &none), 0);
	machine_hgx();
	assert_int_equal(ft_pci_read(machine_root, ANSWER_MS, &hgx), 0);
	assert_false(ft_nvml_wanted("", NULL));
	assert_false(ft_nvml_wanted("", none));
	assert_true(ft_nvml_wanted("", hgx));
	assert_false(ft_nvml_wanted(machine_root, hgx)); /* this NVML is not that machine's */
	setenv("FT_NVML", lib, 1);
	assert_true(ft_nvml_wanted(machine_root, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_normal, build, machine_free),
		cmocka_unit_test_setup_teardown(test_no_v3, build, machine_free),
		cmocka_unit_test_setup_teardown(test_growth, build, machine_free),
		cmocka_unit_test_setup_teardown(test_errors, build, machine_free),
		cmocka_unit_test_setup_teardown(test_hang, build, machine_free),
		cmocka_unit_test_setup_teardown(test_emit, build, machine_free),
		cmocka_unit_test_setup_teardown(test_wanted, build, machine_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

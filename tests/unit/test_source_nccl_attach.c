// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Where probes are put in this process's own libraries; the attaching itself is the test's. */
#include "nccl_lib.h"

#include "include/ft_nccl.h"
#include "source/nccl_attach.h"

#define ENTER_FD 1001
#define RET_FD	 1002

struct attached {
	uint32_t calls, n;
	uint64_t offsets[FT_NCCL_NFNS], cookies[FT_NCCL_NFNS];
};

static struct attached enter, ret;
static int enter_error, ret_error, detached;
static struct ft_nccl_request *request;
static struct ft_nccl_cache *cache;
static int *refs;
static void *lib;

int ft_uprobe_attach(int prog_fd, const struct ft_uprobe_set *set, struct ft_uprobe_links *out,
		     bool *no_cookies)
{
	struct attached *a = set->ret ? &ret : &enter;

	assert_int_equal(prog_fd, set->ret ? RET_FD : ENTER_FD);
	assert_int_equal(set->pid, getpid());
	if (set->ret ? ret_error : enter_error)
		return set->ret ? ret_error : enter_error;
	*no_cookies = false;
	a->calls++;
	a->n = set->n;
	memcpy(a->offsets, set->offsets, set->n * sizeof(*set->offsets));
	if (set->cookies)
		memcpy(a->cookies, set->cookies, set->n * sizeof(*set->cookies));
	out->n = set->n;
	return 0;
}

void ft_uprobe_detach(struct ft_uprobe_links *links)
{
	detached += links->n > 0;
	links->n = 0;
}

static void ask(bool collectives)
{
	memset(&enter, 0, sizeof(enter));
	memset(&ret, 0, sizeof(ret));
	request = calloc(1, sizeof(*request));
	request->pid = getpid();
	request->cache = cache;
	ft_nccl_cache_ref(cache);
	(*refs)++;
	request->refs = refs;
	request->enter_fd = ENTER_FD;
	request->ret_fd = RET_FD;
	request->collectives = collectives;
}

static void done(void)
{
	/* not files of ours */
	request->enter_fd = request->ret_fd = -1;
	ft_nccl_request_free(ft_take_ptr(request));
}

static int set_up(void **state)
{
	(void)state;
	enter_error = ret_error = detached = 0;
	refs = calloc(1, sizeof(*refs));
	*refs = 1;
	lib = dlopen(lib_make("probed.so",
			      LIB_BOTH("AllReduce") LIB_BOTH("CommInitRank") LIB_BOTH("CommDestroy")
				      LIB_BOTH("GroupStart"),
			      ""),
		     RTLD_NOW);
	return lib ? ft_nccl_cache_new(&cache) : -1;
}

static int tear_down(void **state)
{
	(void)state;
	assert_int_equal(*refs, 1);
	ft_nccl_refs_put(refs);
	ft_nccl_cache_unref(cache);
	return dlclose(lib);
}

static unsigned int fn_nr(const char *name)
{
	for (unsigned int i = 0; i < FT_NCCL_NFNS; i++)
		if (ft_nccl_funcs[i].name && !strcmp(ft_nccl_funcs[i].name, name))
			return i;
	fail_msg("no function %s", name);
	return 0;
}

/* What this process's dynamic linker says, as an offset of the file. */
static uint64_t offset_of(const char *symbol)
{
	const struct ft_nccl_lib *l = &request->scan.libs[0];

	return (uint64_t)dlsym(lib, symbol) - l->start + l->pgoff;
}

/* The cookie of the probe at a symbol's entry; UINT64_MAX without one. */
static uint64_t cookie_at(const struct attached *a, const char *symbol)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (a->offsets[i] == offset_of(symbol))
			return a->cookies[i];
	return UINT64_MAX;
}

static void test_default(void **state)
{
	(void)state;
	ask(false);
	assert_int_equal(ft_nccl_request_run(request), 0);
	assert_int_equal(request->scan.nlibs, 1);
	assert_true(enter.calls == 1 && ret.calls == 1);
	/* returns only where the value is needed, and the entry knows of them */
	assert_int_equal(ret.n, 1);
	assert_true(ret.offsets[0] == offset_of("ncclCommInitRank"));
	assert_int_equal(enter.n, 3);
	assert_true(cookie_at(&enter, "ncclCommInitRank") ==
		    (fn_nr("CommInitRank") | FT_NCCL_COOKIE_RET));
	assert_true(cookie_at(&enter, "ncclAllReduce") == fn_nr("AllReduce"));
	assert_true(cookie_at(&enter, "ncclGroupStart") == UINT64_MAX);
	assert_int_equal(request->results[0].nprobes, 3);
	done();
	assert_int_equal(detached, 2);
}

static void test_collectives(void **state)
{
	(void)state;
	ask(true);
	assert_int_equal(ft_nccl_request_run(request), 0);
	assert_int_equal(enter.n, 4);
	assert_true(cookie_at(&enter, "ncclAllReduce") ==
		    (fn_nr("AllReduce") | FT_NCCL_COOKIE_RET));
	assert_true(cookie_at(&enter, "ncclGroupStart") != UINT64_MAX);
	done();
}

/* An entry must not promise a return that has no probe. */
static void test_no_return(void **state)
{
	(void)state;
	ret_error = -EPERM;
	ask(true);
	assert_int_equal(ft_nccl_request_run(request), 0);
	assert_int_equal(request->results[0].ret_error, -EPERM);
	for (uint32_t i = 0; i < enter.n; i++)
		assert_false(enter.cookies[i] & FT_NCCL_COOKIE_RET);
	done();
	/* no such program at all: nothing to tell */
	ret_error = 0;
	ask(false);
	request->ret_fd = -ENOENT;
	assert_int_equal(ft_nccl_request_run(request), 0);
	assert_int_equal(request->results[0].ret_error, 0);
	assert_true(ret.calls == 0 && enter.n == 3);
	done();
}

/* Without the entries the returns are of no use. */
static void test_no_entry(void **state)
{
	(void)state;
	enter_error = -ENOSPC;
	ask(false);
	assert_int_equal(ft_nccl_request_run(request), 0);
	assert_int_equal(request->results[0].enter_error, -ENOSPC);
	assert_int_equal(request->results[0].nprobes, 0);
	assert_int_equal(detached, 1);
	done();
	assert_int_equal(detached, 1);
}

/* Whether a file counts as known that looks like ours but for these. */
static bool is_known(uint32_t minor_diff, uint64_t ino_diff, uint8_t build_id_diff)
{
	static struct ft_nccl_probed ours;
	bool known;

	ask(false);
	if (!ours.ino) {
		assert_int_equal(ft_nccl_request_run(request), 0);
		ours = request->results[0].lib;
		ours.enter.n = ours.ret.n = 0;
		done();
		ask(false);
	}
	request->known[0] = ours;
	request->known[0].minor ^= minor_diff;
	request->known[0].ino ^= ino_diff;
	request->known[0].build_id[0] ^= build_id_diff;
	request->nknown = 1;
	assert_int_equal(ft_nccl_request_run(request), 0);
	known = request->results[0].known;
	assert_int_equal(enter.calls, !known);
	assert_int_equal(ret.calls, !known);
	done();
	return known;
}

/* The same file again, also as two overlay mounts show it: another device, xino's upper bits. */
static void test_known(void **state)
{
	(void)state;
	assert_true(is_known(0, 0, 0));
	assert_true(is_known(1, 0, 0));
	assert_true(is_known(1, 1ull << 60, 0));
	assert_false(is_known(0, 1, 0));
	assert_false(is_known(1, 1, 0));
	assert_false(is_known(1, 0, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_default, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_collectives, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_return, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_entry, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_known, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, lib_dir_make, lib_dir_remove);
}

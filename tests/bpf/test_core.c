// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The loader relocates against a copy of a few types: it must come to what all of them give. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "source/source.h"

#define OBJECTS X(proc) X(tcp) X(net) X(pcie) X(nccl)
#define X(name) extern const char _binary_##name##_bpf_o_start[], _binary_##name##_bpf_o_end[];
OBJECTS
#undef X

static const struct {
	const char *name, *start, *end;
} objects[] = {
#define X(n) { #n, _binary_##n##_bpf_o_start, _binary_##n##_bpf_o_end },
	OBJECTS
#undef X
};

static void drop(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	(void)rec;
	(void)len;
}

/* All but the file descriptors of maps. */
static void same_program(const struct bpf_program *a, const struct bpf_program *b)
{
	const struct bpf_insn *x = bpf_program__insns(a), *y = bpf_program__insns(b);
	size_t n = bpf_program__insn_cnt(a);

	assert_true(n > 0);
	assert_int_equal(n, bpf_program__insn_cnt(b));
	for (size_t i = 0; i < n; i++) {
		bool map = x[i].code == (BPF_LD | BPF_IMM | BPF_DW) && x[i].src_reg;

		if (x[i].code != y[i].code || x[i].dst_reg != y[i].dst_reg ||
		    x[i].src_reg != y[i].src_reg || x[i].off != y[i].off ||
		    (!map && x[i].imm != y[i].imm))
			fail_msg("%s: instruction %zu differs", bpf_program__name(a), i);
		i += map;
	}
}

/* NULL: not needed, or this kernel has nothing to attach it to. */
static struct bpf_program *loaded(struct ft_bpf *bpf, size_t nr, const struct bpf_program *prog)
{
	struct bpf_program *ours = ft_bpf_program(bpf, objects[nr].name, bpf_program__name(prog));

	return ours && bpf_program__fd(ours) >= 0 ? ours : NULL;
}

static int same_object(struct ft_bpf *bpf, size_t nr)
{
	struct bpf_object *obj =
		bpf_object__open_mem(objects[nr].start, objects[nr].end - objects[nr].start, NULL);
	struct bpf_program *prog;
	int n = 0;

	assert_non_null(obj);
	bpf_object__for_each_program(prog, obj)
		bpf_program__set_autoload(prog, loaded(bpf, nr, prog) != NULL);
	assert_int_equal(bpf_object__load(obj), 0);
	bpf_object__for_each_program(prog, obj) {
		struct bpf_program *ours = loaded(bpf, nr, prog);

		if (!ours)
			continue;
		same_program(ours, prog);
		n++;
	}
	bpf_object__close(obj);
	return n;
}

static void test_same(void **state)
{
	struct ft_emit emit = { drop, NULL };
	struct ft_bpf_opts opts = {};
	struct ft_loop *loop;
	struct ft_bpf *bpf;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(ft_loop_new(&loop), 0);
	assert_int_equal(ft_bpf_open(&bpf, &opts, loop, &emit), 0);
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		assert_true(same_object(bpf, i) > 0);
	ft_bpf_free(bpf);
	ft_loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_same) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

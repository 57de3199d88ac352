// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Records of the ring get their texts; what has none passes as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <bpf/btf.h>

#include "source/loader.h"

static struct ft_rec got[4];
static size_t ngot;

static void keep(void *ctx, const void *rec, size_t len)
{
	(void)ctx;
	assert_true(ngot < ARRAY_SIZE(got));
	assert_int_equal(ft_rec_check(rec, len), 0);
	memcpy(got[ngot++].buf, rec, len);
}

static const struct ft_emit emit = { keep, NULL };

static struct ft_kernel *kernel_new(void)
{
	struct btf *btf = btf__new_empty();
	struct ft_kernel *k = NULL;

	assert_non_null(btf);
	btf__add_int(btf, "int", 4, BTF_INT_SIGNED);
	btf__add_enum(btf, "skb_drop_reason", 4);
	btf__add_enum_value(btf, "SKB_DROP_REASON_NO_SOCKET", 3);
	btf__add_enum(btf, "sk_rst_reason", 4);
	btf__add_enum_value(btf, "SK_RST_REASON_NO_SOCKET", 3);
	assert_int_equal(ft_kernel_new(&k, btf), 0);
	btf__free(btf);
	return k;
}

static void pass(struct ft_kernel *k, struct ft_rec *rec)
{
	ngot = 0;
	ft_kernel_texts(k, rec->buf, rec->h.size, &emit);
}

static void has_text(size_t nr, const char *field, const char *expected)
{
	const struct ft_field *f = ft_field(ft_kind(got[nr].h.kind), field);
	size_t len;
	const char *s = ft_field_text(f, &got[nr].h, &len);

	/* elements of a list end with a NUL each */
	assert_int_equal(len, strlen(expected) + (f->type == FT_T_strs));
	assert_memory_equal(s, expected, len);
}

static void test_reasons(void **state)
{
	struct ft_kernel *k = kernel_new();
	struct ft_ev_tcp_reset *reset;
	struct ft_ev_net_drop *drop;
	struct ft_rec rec;

	(void)state;
	drop = ft_rec_new(&rec, FT_KIND_net_drop, 1);
	drop->reason_nr = 3;
	pass(k, &rec);
	assert_int_equal(ngot, 1);
	has_text(0, "reason", "NO_SOCKET");
	drop->reason_nr = 4;
	pass(k, &rec);
	has_text(0, "reason", "");
	reset = ft_rec_new(&rec, FT_KIND_tcp_reset, 1);
	reset->reason_nr = 3;
	pass(k, &rec);
	assert_int_equal(ngot, 1);
	has_text(0, "reason", "NO_SOCKET");
	ft_kernel_free(k);
}

/* The one record that two come of. */
static void test_aer(void **state)
{
	struct ft_kernel *k = kernel_new();
	struct ft_ev_pcie_aer *aer;
	struct ft_rec rec;

	(void)state;
	aer = ft_rec_new(&rec, FT_KIND_pcie_aer, 1);
	aer->aer_class = 1;
	aer->status = 0x20;
	pass(k, &rec);
	assert_int_equal(ngot, 1);
	has_text(0, "errors", "SDES");
	aer->status = 0;
	strcpy(aer->device, "0000:41:00.0");
	pass(k, &rec);
	assert_int_equal(ngot, 2);
	assert_int_equal(got[0].h.kind, FT_KIND_pcie_aer);
	assert_int_equal(got[1].h.kind, FT_KIND_pcie_gone);
	has_text(1, "device", "0000:41:00.0");
	ft_kernel_free(k);
}

static void test_others(void **state)
{
	struct ft_ev_pcie_recovery *e;
	struct ft_rec rec;

	(void)state;
	e = ft_rec_new(&rec, FT_KIND_pcie_recovery, 1);
	e->result = 2;
	pass(NULL, &rec);
	assert_int_equal(ngot, 1);
	assert_memory_equal(got[0].buf, rec.buf, rec.h.size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reasons),
		cmocka_unit_test(test_aer),
		cmocka_unit_test(test_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

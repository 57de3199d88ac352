// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "records.h"

/* A new record knows nothing: every field is null. */
static void test_all_unknown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < FT_KIND_MAX; i++) {
		const struct ft_kind_info *k = ft_kind(i);
		const struct ft_field *f;
		struct ft_rec r;
		uint64_t v;
		size_t n, len;

		if (!k)
			continue;
		ft_rec_new(&r, i, 5);
		assert_int_equal(ft_rec_check(&r, r.h.size), 0);
		assert_int_equal(r.h.size, k->size);
		f = k->fields(&n);
		for (size_t x = 0; x < n; x++) {
			if (strcmp(f[x].format->name, "hidden") != 0)
				assert_false(ft_field_get(&f[x], &r.h, &v));
			ft_field_text(&f[x], &r.h, &len);
			assert_int_equal(len, 0);
		}
	}
}

static void test_values(void **state)
{
	struct ft_rec r;
	struct ft_ev_proc_exit *e = ft_rec_new(&r, FT_KIND_proc_exit, 1);
	const struct ft_field *f = ft_field(ft_kind(FT_KIND_proc_exit), "exit_code");
	uint64_t v = 0;

	(void)state;
	e->exit_code = -3;
	assert_true(ft_field_get(f, &r.h, &v));
	assert_true((int64_t)v == -3);
	e->exit_code = 0;
	assert_true(ft_field_get(f, &r.h, &v));
	assert_int_equal(v, 0);
	e->exit_code = FT_NONE_S32;
	assert_false(ft_field_get(f, &r.h, &v));
}

/* What varies is unknown in a record that stands for several. */
static void test_aggregated(void **state)
{
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *e = ft_rec_new(&r, FT_KIND_tcp_retransmit, 1);
	const struct ft_kind_info *k = ft_kind(FT_KIND_tcp_retransmit);
	uint64_t v;

	(void)state;
	e->cwnd_segs = 10;
	e->segs = 7;
	assert_true(ft_field_get(ft_field(k, "cwnd_segs"), &r.h, &v));
	r.h.flags = FT_REC_AGG;
	assert_false(ft_field_get(ft_field(k, "cwnd_segs"), &r.h, &v));
	assert_true(ft_field_get(ft_field(k, "segs"), &r.h, &v));
}

static void test_texts(void **state)
{
	struct ft_rec r;
	struct ft_ev_proc_start *e = ft_rec_new(&r, FT_KIND_proc_start, 1);
	char small[4];
	const char *s;
	size_t len;

	(void)state;
	ft_rec_str(&r, &e->exe, "/bin/true");
	ft_rec_strs_add(&r, &e->args, "true");
	ft_rec_strs_add(&r, &e->args, "");
	ft_rec_strs_add(&r, &e->args, "-x");
	assert_int_equal(ft_rec_check(&r, r.h.size), 0);
	assert_true(ft_str_is(&r.h, e->exe, "/bin/true"));
	assert_false(ft_str_is(&r.h, e->exe, "/bin/tru"));
	assert_string_equal(ft_str_copy(&r.h, e->exe, small, sizeof(small)), "/bi");
	s = ft_str_get(&r.h, e->args, &len);
	assert_int_equal(len, 9);
	assert_memory_equal(s, "true\0\0-x\0", 9);
}

static void test_full(void **state)
{
	struct ft_rec r;
	struct ft_ev_proc_start *e = ft_rec_new(&r, FT_KIND_proc_start, 1);
	static char big[2 * FT_REC_MAX];

	(void)state;
	memset(big, 'a', sizeof(big) - 1);
	ft_rec_str(&r, &e->exe, big);
	assert_int_equal(r.h.size, FT_REC_MAX);
	assert_int_equal(ft_rec_check(&r, r.h.size), 0);
	ft_rec_strs_add(&r, &e->args, "does not fit");
	assert_int_equal(e->args.len, 0);
	assert_int_equal(ft_rec_check(&r, r.h.size), 0);
}

static void test_check(void **state)
{
	struct ft_rec r;
	struct ft_ev_proc_start *e = ft_rec_new(&r, FT_KIND_proc_start, 1);

	(void)state;
	ft_rec_str(&r, &e->exe, "abc");
	assert_int_equal(ft_rec_check(&r, 10), -EBADMSG);
	assert_int_equal(ft_rec_check(&r, r.h.size - 1), -EBADMSG);
	assert_int_equal(ft_rec_check(r.buf + 1, r.h.size), -EBADMSG);
	e->exe.len = 4;
	assert_int_equal(ft_rec_check(&r, r.h.size), -EBADMSG);
	e->exe = (struct ft_str){ .off = 0xffffffff, .len = 0xffffffff };
	assert_int_equal(ft_rec_check(&r, r.h.size), -EBADMSG);
	e->exe = (struct ft_str){ .off = 8, .len = 4 }; /* into the head */
	assert_int_equal(ft_rec_check(&r, r.h.size), -EBADMSG);
	e->exe = (struct ft_str){};
	assert_int_equal(ft_rec_check(&r, r.h.size), 0);
	r.h.count = 0;
	assert_int_equal(ft_rec_check(&r, r.h.size), -EBADMSG);
	r.h.count = 1;
	r.h.kind = 0;
	assert_int_equal(ft_rec_check(&r, r.h.size), -EPROTO);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_unknown), cmocka_unit_test(test_values),
		cmocka_unit_test(test_aggregated),  cmocka_unit_test(test_texts),
		cmocka_unit_test(test_full),	    cmocka_unit_test(test_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

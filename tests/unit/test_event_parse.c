// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "random_rec.h"
#include "records.h"

static const struct ft_clock zero;

static void rnd_attr(struct ft_attr *a)
{
	*a = (struct ft_attr){ .how = rnd() & 0xffff, .severity = rnd() % 4, .shared = rnd() % 2 };
	a->nranks = rnd() % (FT_ATTR_MAX + 1);
	a->ngpus = rnd() % 4;
	a->nnics = rnd() % 3;
	a->nlinks = rnd() % 3;
	for (int i = 0; i < a->nranks; i++)
		a->ranks[i] = (struct ft_attr_rank){ .comm = rnd() % 2 ? rnd() : 0,
						     .rank = (int)(rnd() % 9) - 1,
						     .nranks = (int)(rnd() % 9) - 1,
						     .global_rank = (int)(rnd() % 9) - 1 };
	for (int i = 0; i < a->ngpus; i++) {
		a->gpus[i].index = (int)(rnd() % 9) - 1;
		ft_fmt(a->gpus[i].bdf, "0000:%02x:00.0", (unsigned int)(rnd() % 256));
	}
	for (int i = 0; i < a->nnics; i++) {
		a->nics[i].port = (int)(rnd() % 3) - 1;
		ft_fmt(a->nics[i].netdev, "eth%u", (unsigned int)(rnd() % 10));
		if (rnd() % 2)
			ft_fmt(a->nics[i].ibdev, "mlx5_%u", (unsigned int)(rnd() % 10));
	}
	for (int i = 0; i < a->nlinks; i++)
		ft_fmt(a->links[i], "0000:%02x:01.0", (unsigned int)(rnd() % 256));
	if (rnd() % 2)
		ft_fmt(a->container, "0123abc");
}

/* record -> line -> record -> line: the lines are equal, for every kind. */
static void test_round_trip(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++) {
		for (int i = 0; ft_kind(kind) && i < 300; i++) {
			_cleanup_buf_ struct ft_buf a = {}, b = {};
			struct ft_rec in, out;
			struct ft_attr attr, back;

			rnd_rec(&in, kind);
			rnd_attr(&attr);
			ft_json_event(&a, &in.h, &attr, "n17", &zero);
			assert_int_equal(ft_json_parse(a.s, a.len, &out, &back), 0);
			assert_int_equal(ft_rec_check(&out, out.h.size), 0);
			ft_json_event(&b, &out.h, &back, "n17", &zero);
			assert_string_equal(a.s, b.s);
		}
	}
}

/* Without attribution the record alone carries how and shared. */
static void test_round_trip_bare(void **state)
{
	(void)state;
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++) {
		for (int i = 0; ft_kind(kind) && i < 50; i++) {
			_cleanup_buf_ struct ft_buf a = {}, b = {};
			struct ft_rec in, out;

			rnd_rec(&in, kind);
			ft_json_event(&a, &in.h, NULL, NULL, &zero);
			assert_int_equal(ft_json_parse(a.s, a.len, &out, NULL), 0);
			ft_json_event(&b, &out.h, NULL, NULL, &zero);
			assert_string_equal(a.s, b.s);
		}
	}
}

static int parse(const char *line, struct ft_rec *r)
{
	return ft_json_parse(line, strlen(line), r, NULL);
}

#define ENVELOPE(kind, data)                                                                       \
	"{\"v\":1,\"ts_ns\":\"5\",\"kind\":\"" kind "\",\"severity\":\"info\",\"data\":" data "}"

static void test_values(void **state)
{
	struct ft_rec r;
	struct ft_ev_nccl_comm *e = (void *)&r;

	(void)state;
	assert_int_equal(
		parse(ENVELOPE("nccl.comm",
			       "{\"comm_ptr\":\"0xffffffffffffff01\",\"rank\":-1,\"nranks\":4,"
			       "\"op\":\"CommSplit\",\"later_field\":[1]}"),
		      &r),
		0);
	assert_int_equal(r.h.ts_ns, 5);
	assert_int_equal(r.h.count, 1);
	assert_true(e->comm_ptr == 0xffffffffffffff01ull);
	assert_int_equal(e->rank, -1);
	assert_int_equal(e->nranks, 4);
	assert_int_equal(e->op, 17);
	assert_true(e->device == FT_NONE_S32);
	assert_true(e->id_hash == FT_NONE_U64);
}

static void test_refuses(void **state)
{
	static const struct {
		const char *line;
		int err;
	} cases[] = {
		{ "", -EBADMSG },
		{ "[]", -EBADMSG },
		{ "{", -EBADMSG },
		{ "{}", -EPROTO },
		{ "{\"v\":1,\"kind\":\"nothing\"}", -EPROTO },
		{ "{\"v\":2,\"kind\":\"proc.exit\",\"data\":{}}", -EPROTO },
		{ "{\"v\":1,\"kind\":7,\"data\":{}}", -EPROTO },
		{ ENVELOPE("proc.exit", "[]"), -EBADMSG },
		{ ENVELOPE("proc.exit", "{\"exit_code\":\"x\"}"), -EBADMSG },
		{ ENVELOPE("proc.exit", "{\"exit_code\":2147483648}"), -EBADMSG },
		{ ENVELOPE("proc.exit", "{\"exit_code\":1.5}"), -EBADMSG },
		{ ENVELOPE("net.link", "{\"netns\":4294967296}"), -EBADMSG },
		{ ENVELOPE("net.link", "{\"netns\":-1}"), -EBADMSG },
		{ ENVELOPE("net.link", "{\"ifname\":3}"), -EBADMSG },
		{ ENVELOPE("tcp.state", "{\"saddr\":\"1.2.3\"}"), -EBADMSG },
		{ ENVELOPE("tcp.state", "{\"to\":\"NO_STATE\"}"), -EBADMSG },
		{ ENVELOPE("proc.start", "{\"args\":[1]}"), -EBADMSG },
		{ ENVELOPE("proc.start", "{\"args\":\"x\"}"), -EBADMSG },
		{ "{\"v\":1,\"ts_ns\":7,\"kind\":\"proc.exit\",\"severity\":\"info\",\"data\":{}}",
		  -EBADMSG },
		{ "{\"v\":1,\"count\":0,\"kind\":\"proc.exit\",\"severity\":\"info\",\"data\":{}}",
		  -EBADMSG },
		{ "{\"v\":1,\"pid\":-4,\"kind\":\"proc.exit\",\"severity\":\"info\",\"data\":{}}",
		  -EBADMSG },
		{ "{\"v\":1,\"kind\":\"proc.exit\",\"severity\":\"odd\",\"data\":{}}", -EBADMSG },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct ft_rec r;

		memset(&r, 0x5a, sizeof(r));
		assert_int_equal(parse(cases[i].line, &r), cases[i].err);
		for (size_t k = 0; k < sizeof(r); k++) /* untouched on failure */
			assert_int_equal((unsigned char)r.buf[k], 0x5a);
	}
}

/* Longer than a record can be: cut, at the border of a character. */
static void test_too_long(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_rec r;
	struct ft_ev_net_link *e = (void *)&r;

	(void)state;
	ft_buf_puts(&b,
		    "{\"v\":1,\"kind\":\"proc.start\",\"severity\":\"info\",\"data\":{\"exe\":\"");
	for (int i = 0; i < 6000; i++)
		ft_buf_puts(&b, "\xc3\xa9");
	ft_buf_puts(&b, "\",\"args\":[\"a\"]}}");
	assert_int_equal(ft_json_parse(b.s, b.len, &r, NULL), 0);
	assert_int_equal(ft_rec_check(&r, r.h.size), 0);
	assert_true(r.h.size >= FT_REC_MAX - 2);
	assert_int_equal(
		parse(ENVELOPE("net.link", "{\"ifname\":\"0123456789abcd\xc3\xa9zz\"}"), &r), 0);
	assert_memory_equal(e->ifname, "0123456789abcd\xc3\xa9", 16);
	assert_int_equal(
		parse(ENVELOPE("net.link", "{\"ifname\":\"0123456789abcde\xc3\xa9\"}"), &r), 0);
	assert_memory_equal(e->ifname, "0123456789abcde\0", 16);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip), cmocka_unit_test(test_round_trip_bare),
		cmocka_unit_test(test_values),	   cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <jansson.h>

#include "random_rec.h"
#include "records.h"

static const struct ft_clock clock_1s = { .offset_ns = SEC };

static void test_line(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_rec r;
	struct ft_ev_tcp_retransmit *e =
		ft_rec_new(&r, FT_KIND_tcp_retransmit, 1764475922123456789ull);
	struct ft_attr a = {
		.nranks = 1, .nnics = 1, .how = FT_HOW(comm_init), .severity = FT_WARNING
	};

	(void)state;
	head(&r, 48213, "python");
	r.h.how = FT_HOW(sock_owner);
	set_socket(&r, "10.0.0.1", 1, "10.0.0.2", 2, 4026531840u, "eth2");
	e->segs = 2;
	e->syn = 0;
	a.ranks[0] = (struct ft_attr_rank){ 0xae94423cfbb2ef4a, 11, 64, -1 };
	a.nics[0] = (struct ft_attr_nic){ .netdev = "eth2", .port = -1 };
	ft_json_event(&b, &r.h, &a, "n17", &clock_1s);
	assert_string_equal(
		b.s,
		"{\"v\":1,\"ts_ns\":\"1764475923123456789\",\"time\":\"2025-11-30T04:12:03.123456789Z\","
		"\"kind\":\"tcp.retransmit\",\"severity\":\"warning\",\"host\":\"n17\",\"pid\":48213,\"task\":\"python\","
		"\"container\":null,\"count\":1,"
		"\"ranks\":[{\"comm\":\"0xae94423cfbb2ef4a\",\"rank\":11,\"nranks\":64,\"global_rank\":null}],\"gpus\":[],"
		"\"nics\":[{\"netdev\":\"eth2\",\"ibdev\":null,\"port\":null,\"bdf\":null}],\"links\":[],\"shared\":false,"
		"\"how\":[\"sock-owner\",\"comm-init\"],\"data\":{\"saddr\":\"10.0.0.1\",\"daddr\":\"10.0.0.2\",\"segs\":2,"
		"\"bytes\":null,\"sport\":1,\"dport\":2,\"netns\":4026531840,\"ifindex\":2,\"cwnd_segs\":null,"
		"\"srtt_us\":null,\"in_flight_segs\":null,\"err\":null,\"syn\":false,\"tcp_state\":null,"
		"\"ifname\":\"eth2\"}}");
}

/* The properties that a line of this kind has by the schema. */
static const json_t *schema_data(const json_t *schema, const char *kind)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(schema, "oneOf"), i, one) {
		const json_t *p = json_object_get(one, "properties");

		if (!strcmp(json_string_value(json_object_get(json_object_get(p, "kind"), "const")),
			    kind))
			return json_object_get(json_object_get(p, "data"), "properties");
	}
	return NULL;
}

static bool type_allowed(const json_t *types, const json_t *v)
{
	static const char *const names[] = { "object", "array",	  "string",  "integer",
					     "number", "boolean", "boolean", "null" };
	const char *want = names[json_typeof(v)];
	const json_t *t;
	size_t i;

	if (json_is_string(types))
		return !strcmp(json_string_value(types), want);
	json_array_foreach(types, i, t)
		if (!strcmp(json_string_value(t), want))
			return true;
	return false;
}

/* Exactly the schema's properties, each of an allowed type. */
static void check_object(const json_t *props, const json_t *object)
{
	const char *name;
	json_t *v;

	assert_int_equal(json_object_size(props), json_object_size(object));
	json_object_foreach((json_t *)object, name, v) {
		const json_t *p = json_object_get(props, name);

		assert_non_null(p);
		if (json_is_object(v))
			check_object(json_object_get(p, "properties"), v);
		else
			assert_true(type_allowed(json_object_get(p, "type"), v));
	}
}

static void check_top(const json_t *schema, const json_t *line)
{
	const json_t *props = json_object_get(schema, "properties"), *name;
	const char *key;
	json_t *v;
	size_t i;

	json_object_foreach((json_t *)line, key, v)
		assert_non_null(json_object_get(props, key));
	json_array_foreach(json_object_get(schema, "required"), i, name)
		assert_non_null(json_object_get(line, json_string_value(name)));
}

static void test_schema(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	json_t *schema;

	(void)state;
	ft_json_schema(&b);
	schema = json_loadb(b.s, b.len, JSON_REJECT_DUPLICATES, NULL);
	assert_non_null(schema);
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++) {
		for (int i = 0; ft_kind(kind) && i < 100; i++) {
			_cleanup_buf_ struct ft_buf l = {};
			struct ft_rec r;
			json_t *line;

			rnd_rec(&r, kind);
			ft_json_event(&l, &r.h, NULL, "n17", &clock_1s);
			line = json_loadb(l.s, l.len, JSON_REJECT_DUPLICATES, NULL);
			assert_non_null(line);
			check_top(schema, line);
			check_object(schema_data(schema, ft_kind(kind)->name),
				     json_object_get(line, "data"));
			json_decref(line);
		}
	}
	json_decref(schema);
}

static void test_aggregated(void **state)
{
	_cleanup_buf_ struct ft_buf b = {};
	struct ft_rec r;
	struct ft_ev_net_drop *e = ft_rec_new(&r, FT_KIND_net_drop, 10);

	(void)state;
	set_socket(&r, "10.0.0.1", 1, "10.0.0.2", 2, 4026531840u, "eth2");
	e->len_bytes = 900;
	r.h.count = 3;
	r.h.first_ns = 4;
	r.h.last_ns = 9;
	r.h.flags = FT_REC_AGG | FT_REC_LATE | FT_REC_BEFORE;
	ft_json_event(&b, &r.h, NULL, NULL, &clock_1s);
	assert_non_null(strstr(
		b.s, "\"count\":3,\"first_ts_ns\":\"1000000004\",\"last_ts_ns\":\"1000000009\""));
	assert_non_null(strstr(b.s, "\"late\":true,\"before_attach\":true"));
	assert_non_null(strstr(b.s, "\"saddr\":null,\"daddr\":null,\"sport\":null"));
	assert_non_null(strstr(b.s, "\"len_bytes\":900"));
	assert_non_null(strstr(b.s, "\"host\":null,\"pid\":null,\"task\":null"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_line),
		cmocka_unit_test(test_schema),
		cmocka_unit_test(test_aggregated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

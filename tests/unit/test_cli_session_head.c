// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The first line: what it says is not seen, and the probe table, told again only where it changed. */
#define ft_bpf_probes made_up_probes
#include "cli/session_head.c"
#undef ft_bpf_probes

#include "records.h"

static struct ft_probe rows[4];
static struct ft_rec first;
static size_t nrows;
static char programs[128];
static const struct ft_trace_opts no_opts;

struct ft_probe *made_up_probes(struct ft_bpf *b, size_t *n)
{
	(void)b;
	*n = ARRAY_SIZE(rows);
	return rows;
}

static void keep(void *ctx, const void *rec, size_t len)
{
	const struct ft_ev_probe *e = rec;
	char name[32];

	(void)ctx;
	assert_int_equal(ft_rec_check(rec, len), 0);
	if (e->h.kind == FT_KIND_session) {
		memcpy(&first, rec, len);
		return;
	}
	assert_int_equal(e->h.kind, FT_KIND_probe);
	strcat(strcat(programs, ft_str_copy(&e->h, e->program, name, sizeof(name))), " ");
	nrows++;
}

static int set_up(void **state)
{
	struct session *s = calloc(1, sizeof(*s));

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		rows[i] = (struct ft_probe){
			.object = "o", .attach = "tp_btf/x", .what = "w", .cost = "none"
		};
	rows[0].program = "on";
	rows[0].state = FT_PROBE_ON;
	rows[0].hides = "what is on";
	rows[1].program = "refused";
	rows[1].hides = "what was refused";
	rows[1].error = -EPERM;
	ft_fmt(rows[1].reason, "for a reason");
	rows[2].program = "later";
	rows[2].hides = "what has nothing to attach to yet";
	rows[3].program = "variant";
	rows[3].hides = "what the other variant shows";
	rows[3].state = FT_PROBE_UNNEEDED;
	rows[3].error = -ENOENT;
	programs[0] = 0;
	nrows = 0;
	s->emit = (struct ft_emit){ keep, NULL };
	s->opts = &no_opts;
	*state = s;
	return 0;
}

static int tear_down(void **state)
{
	struct session *s = *state;

	free(s->told);
	free(s);
	return 0;
}

static const struct ft_ev_session *told(struct session *s, const struct ft_trace_opts *o)
{
	s->opts = o;
	session_head(s);
	return (const void *)&first;
}

static bool blind_has(const char *text)
{
	const struct ft_ev_session *e = (const void *)&first;
	const char *list = first.buf + e->blind.off;

	for (size_t i = 0; i < e->blind.len; i += strlen(list + i) + 1)
		if (strstr(list + i, text))
			return true;
	return false;
}

static void test_blind(void **state)
{
	struct session *s = *state;

	told(s, &no_opts);
	assert_true(blind_has("what was refused (for a reason)"));
	assert_true(blind_has("not watched by this version"));
	assert_false(blind_has("what is on"));
	assert_false(blind_has("nothing to attach"));
	assert_false(blind_has("the other variant"));
	assert_false(blind_has("NCCL calls"));
}

static void test_no_nccl(void **state)
{
	struct session *s = *state;
	const struct ft_trace_opts cmd = { .cmd = (char *[]){ (char *)"x", NULL } };

	s->targets = 2;
	told(s, &no_opts);
	assert_true(blind_has("no traced process has an NCCL library mapped, nor has any other)"));
	s->others_error = -ETIMEDOUT;
	told(s, &no_opts);
	assert_true(blind_has("no traced process has an NCCL library mapped; not all others"));
	ft_fmt(s->others, "11, 12");
	told(s, &no_opts);
	assert_true(blind_has("mapped; these have one: pid 11, 12)"));
	s->nccl_unknown = 1;
	told(s, &no_opts);
	assert_true(blind_has("not every process let us look; none that did has"));
	/* not known yet, not so, or to come */
	s->looks.n = 1;
	told(s, &no_opts);
	assert_false(blind_has("NCCL calls"));
	s->looks.n = 0;
	told(s, &cmd);
	assert_false(blind_has("NCCL calls"));
	s->with_nccl = 1;
	told(s, &no_opts);
	assert_false(blind_has("NCCL calls"));
}

static void assert_target(struct session *s, const struct ft_trace_opts *o, const char *expected)
{
	const struct ft_ev_session *e = told(s, o);
	char text[300];

	assert_string_equal(ft_str_copy(&e->h, e->target, text, sizeof(text)), expected);
}

static void test_target(void **state)
{
	static uint32_t many[100];
	struct session *s = *state;
	const struct ft_ev_session *e;
	char text[600];

	assert_target(s, &(struct ft_trace_opts){ .cgroup = "job_7" }, "--cgroup job_7");
	assert_target(s, &(struct ft_trace_opts){ .cmd = (char *[]){ (char *)"x", NULL } }, "-- x");
	assert_target(s, &(struct ft_trace_opts){ .all = true }, "-a");
	assert_target(s, &no_opts,
		      "none: only this node's devices are watched; give -p, --cgroup or -a");
	assert_target(s, &(struct ft_trace_opts){ .pids = (uint32_t[]){ 5, 17 }, .npids = 2 },
		      "-p 5,17");
	/* what does not fit is told to be missing */
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = 4000000 + i;
	e = told(s, &(struct ft_trace_opts){ .pids = many, .npids = ARRAY_SIZE(many) });
	ft_str_copy(&e->h, e->target, text, sizeof(text));
	assert_int_equal(strncmp(text, "-p 4000000,4000001,", 19), 0);
	assert_string_equal(text + strlen(text) - 3, "...");
}

static void test_probes(void **state)
{
	struct session *s = *state;

	session_head(s);
	assert_string_equal(programs, "on refused later variant ");
	session_probes(s);
	assert_int_equal(nrows, 4);
	programs[0] = 0;
	rows[2].state = FT_PROBE_ON;
	ft_fmt(rows[1].reason, "for another reason");
	session_probes(s);
	assert_string_equal(programs, "refused later ");
	session_probes(s);
	assert_int_equal(nrows, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_blind, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_nccl, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_target, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_probes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

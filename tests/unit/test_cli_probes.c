// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* fabrictrace probes and schema: what they print, for a probe table that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <jansson.h>

#include "cli/cli.h"
#include "source/source.h"

static struct ft_probe rows[4];
static int open_error;

int ft_bpf_open(struct ft_bpf **out, const struct ft_bpf_opts *opts, struct ft_loop *loop,
		const struct ft_emit *emit)
{
	(void)opts;
	assert_true(loop && emit->fn);
	*out = NULL;
	return open_error;
}

void ft_bpf_free(struct ft_bpf *b)
{
	(void)b;
}

struct ft_probe *ft_bpf_probes(struct ft_bpf *b, size_t *n)
{
	(void)b;
	*n = ARRAY_SIZE(rows);
	return rows;
}

int ft_bpf_failed(int err)
{
	return err == open_error ? FT_EXIT_UNAVAILABLE : 1;
}

void ft_perm_explain(struct ft_bpf *b)
{
	(void)b;
}

int ft_perm_missing(struct ft_buf *out, bool essential,
		    void (*each)(struct ft_buf *, const char *, const char *))
{
	assert_false(essential);
	each(out, "CAP_X", "what it gives");
	return 1;
}

static void row(int nr, const char *object, const char *program, const char *attach,
		const char *what, const char *hides)
{
	rows[nr] = (struct ft_probe){ .object = object,
				      .program = program,
				      .attach = attach,
				      .what = what,
				      .cost = "none",
				      .hides = hides };
}

static int set_up(void **state)
{
	(void)state;
	open_error = 0;
	row(0, "tcp", "on", "tp_btf/a", "tcp.reset", "resets");
	rows[0].state = FT_PROBE_ON;
	row(1, "net", "refused", "tp_btf/b", "net.drop", "drops");
	rows[1].error = -EACCES;
	ft_fmt(rows[1].reason, "its reason");
	row(2, "nccl", "later", "uprobe/NCCL calls", "nccl.stats", "NCCL calls");
	row(3, "", "poller", "netlink/interfaces", "net.link", "carrier");
	rows[3].state = FT_PROBE_ON;
	return 0;
}

/* Standard output of a command as text, to be freed. */
static char *output(int (*cmd)(int, char **), int expected, const char *arg)
{
	char *argv[] = { (char *)"x", (char *)arg, NULL }, *text;
	int argc = arg ? 2 : 1, saved = dup(STDOUT_FILENO), status;
	_cleanup_file_ FILE *f = tmpfile();
	size_t n;

	fflush(stdout);
	dup2(fileno(f), STDOUT_FILENO);
	status = cmd(argc, argv);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(status, expected);
	rewind(f);
	text = calloc(1, 1 << 20);
	n = fread(text, 1, (1 << 20) - 1, f);
	text[n] = 0;
	return text;
}

static void test_text(void **state)
{
	_cleanup_free_ char *text = output(ft_cmd_probes, 0, NULL);

	(void)state;
	assert_string_equal(
		text,
		"SOURCE   TARGET                                        GIVES          STATE\n"
		"tcp      a                                             tcp.reset      ok\n"
		"net      b                                             net.drop       OFF\n"
		"         why:    its reason\n"
		"         unseen: drops\n"
		"nccl     NCCL calls, uprobe                            nccl.stats     -\n"
		"poller   interfaces                                    net.link       ok\n"
		"CAP_X is missing\n"
		"         unseen: what it gives\n"
		"- not in use: needs a job (-p), or another program does its work\n"
		"4 programs: 2 attached, 1 not in use, 1 not attached\n");
}

static void test_json(void **state)
{
	_cleanup_free_ char *text = output(ft_cmd_probes, 0, "--json");
	char *save, *line = strtok_r(text, "\n", &save);
	size_t n = 0;

	(void)state;
	for (; line; line = strtok_r(NULL, "\n", &save), n++) {
		json_t *j = json_loads(line, 0, NULL), *data = json_object_get(j, "data");
		json_t *error = json_object_get(data, "error");

		assert_non_null(data);
		assert_string_equal(json_string_value(json_object_get(j, "kind")), "probe");
		assert_string_equal(json_string_value(json_object_get(data, "program")),
				    rows[n].program);
		assert_string_equal(json_string_value(json_object_get(data, "hides")),
				    rows[n].hides);
		if (n == 1)
			assert_true(json_is_integer(error) && json_integer_value(error) == -EACCES);
		else
			assert_true(json_is_null(error));
		json_decref(j);
	}
	assert_int_equal(n, ARRAY_SIZE(rows));
}

static void test_failed(void **state)
{
	_cleanup_free_ char *text = NULL;

	(void)state;
	open_error = -ENOTSUP;
	text = output(ft_cmd_probes, FT_EXIT_UNAVAILABLE, NULL);
	assert_string_equal(text, "");
}

/* JSON, and every kind of event has its place in it. */
static void test_schema(void **state)
{
	_cleanup_free_ char *text = output(ft_cmd_schema, 0, NULL), *help, *wrong;
	json_t *j = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	char quoted[64];

	(void)state;
	assert_non_null(j);
	assert_string_equal(json_string_value(json_object_get(j, "$schema")),
			    "https://json-schema.org/draft/2020-12/schema");
	for (unsigned int i = 0; i < FT_KIND_MAX; i++) {
		if (!ft_kind(i))
			continue;
		ft_fmt(quoted, "\"%s\"", ft_kind(i)->name);
		assert_non_null(strstr(text, quoted));
	}
	json_decref(j);
	help = output(ft_cmd_schema, 0, "--help");
	assert_int_equal(strncmp(help, "Usage: fabrictrace schema\n", 26), 0);
	wrong = output(ft_cmd_schema, FT_EXIT_USAGE, "x");
	assert_string_equal(wrong, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_text, set_up),
		cmocka_unit_test_setup(test_json, set_up),
		cmocka_unit_test_setup(test_failed, set_up),
		cmocka_unit_test_setup(test_schema, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

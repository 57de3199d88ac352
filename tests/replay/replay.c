// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Runs recorded lines through attribution, diagnosis and output: everything right of "event",
 * without root.
 *   replay [--json] [-v] [-q] FILE   text, or lines with the attribution of today; the verdict
 *   replay --verdict FILE            only the verdict, as JSON
 */
#include <jansson.h>

#include "attrib/attrib.h"
#include "diagnose/diagnose.h"
#include "output/output.h"

struct replay {
	struct ft_attrib *attrib;
	struct ft_diag *diag;
	struct ft_out *out;
	struct ft_clock clock;
	bool only_verdict;
	char host[65];
	uint64_t last_ns;
	unsigned int line;
};

static void on_incident(void *ctx, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct replay *r = ctx;

	if (!r->only_verdict)
		ft_out_event(r->out, ev, attr);
}

static bool is_ours(unsigned int kind)
{
	return kind == FT_KIND_incident || kind == FT_KIND_verdict || kind == FT_KIND_heartbeat;
}

static int play_line(struct replay *r, const char *line, size_t len)
{
	static struct ft_attr attr;
	struct ft_rec rec;
	int err;

	r->line++;
	while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
		len--;
	if (!len || line[0] == '#')
		return 0;
	err = ft_json_parse(line, len, &rec, NULL);
	if (!err)
		err = ft_rec_check(&rec, rec.h.size);
	if (err) {
		fprintf(stderr, "replay: line %u: %s\n", r->line, strerror(-err));
		return err;
	}
	if (is_ours(rec.h.kind))
		return 0;
	rec.h.how &= ~FT_ATTRIB_HOW;
	r->last_ns = MAX(r->last_ns, rec.h.ts_ns);
	/* As in a session: the output is flushed while time passes. */
	ft_out_flush(r->out, rec.h.ts_ns);
	ft_attrib_event(r->attrib, &rec.h, &attr);
	if (!r->only_verdict)
		ft_out_event(r->out, &rec.h, &attr);
	ft_diag_event(r->diag, &rec.h, &attr);
	return ft_out_flush(r->out, rec.h.ts_ns);
}

static int play(struct replay *r, FILE *f)
{
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	ssize_t n;

	while ((n = getline(&line, &cap, f)) > 0) {
		int err = play_line(r, line, n);

		if (err)
			return err;
	}
	return 0;
}

static void verdict(struct replay *r)
{
	static struct ft_attr attr;
	struct ft_rec rec;

	ft_diag_verdict(r->diag, r->last_ns, true, &rec, &attr);
	ft_out_event(r->out, &rec.h, &attr);
}

/* The node's name stands in the lines, but is no part of a record. */
static void read_host(struct replay *r, FILE *f)
{
	_cleanup_free_ char *line = NULL;
	size_t cap = 0;
	const char *host = NULL;
	json_t *j = NULL;

	while (!j && getline(&line, &cap, f) > 0)
		j = json_loads(line, 0, NULL);
	host = json_string_value(json_object_get(j, "host"));
	if (host)
		ft_strcpy(r->host, host, sizeof(r->host));
	json_decref(j);
	rewind(f);
}

static int replay_open(struct replay *r, bool json, int verbose)
{
	struct ft_diag_opts d = { .clock = &r->clock, .sink = on_incident, .ctx = r };
	struct ft_out_opts o = {
		.fd = STDOUT_FILENO, .host = r->host, .clock = &r->clock, .verbose = verbose
	};
	int err = ft_attrib_new(&r->attrib);

	o.attrib = d.attrib = r->attrib;
	if (!err)
		err = ft_diag_new(&r->diag, &d);
	if (!err)
		err = json ? ft_out_json(&r->out, &o) : ft_out_text(&r->out, &o);
	return err;
}

int main(int argc, char **argv)
{
	struct replay r = {};
	_cleanup_file_ FILE *f = NULL;
	bool json = false;
	int verbose = 0, i, err;

	for (i = 1; i < argc && argv[i][0] == '-'; i++) {
		if (!strcmp(argv[i], "--json"))
			json = true;
		else if (!strcmp(argv[i], "--verdict"))
			json = r.only_verdict = true;
		else if (!strcmp(argv[i], "-v"))
			verbose = 1;
		else if (!strcmp(argv[i], "-q"))
			verbose = -1;
	}
	f = i < argc ? fopen(argv[i], "re") : NULL;
	if (!f) {
		fprintf(stderr, "replay: %s: %s\n", i < argc ? argv[i] : "no file",
			strerror(errno));
		return FT_EXIT_USAGE;
	}
	read_host(&r, f);
	err = replay_open(&r, json, verbose);
	if (!err)
		err = play(&r, f);
	if (!err) {
		verdict(&r);
		err = ft_out_flush(r.out, UINT64_MAX);
	}
	ft_out_free(r.out);
	ft_diag_free(r.diag);
	ft_attrib_free(r.attrib);
	return err ? FT_EXIT_INTERNAL : FT_EXIT_OK;
}

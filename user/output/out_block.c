// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Blocks of lines: the job's table at the start, the verdict at the end. */
#include "output/internal.h"

/* --- verdict --- */

static void joined(struct ft_buf *out, const struct ft_hdr *ev, struct ft_str list, const char *sep,
		   bool numbered)
{
	size_t len, nr = 0;
	const char *s = ft_str_get(ev, list, &len);

	for (size_t i = 0, n; i < len; i += n + 1) {
		n = strnlen(s + i, len - i);
		if (nr++)
			ft_buf_puts(out, sep);
		if (numbered)
			ft_buf_printf(out, "[%zu] ", nr);
		ft_buf_escape(out, s + i, n);
	}
}

/* A list as one paragraph. */
static void paragraph(struct ft_buf *b, const char *label, const struct ft_hdr *ev,
		      struct ft_str list, const char *sep)
{
	_cleanup_buf_ struct ft_buf text = {};

	joined(&text, ev, list, sep, false);
	if (text.len)
		text_wrapped(b, label, text.s, text.len);
}

/* A list with one element per line. */
static void items(struct ft_buf *b, const char *label, const struct ft_hdr *ev, struct ft_str list,
		  bool numbered)
{
	size_t len, nr = 0;
	const char *s = ft_str_get(ev, list, &len);

	for (size_t i = 0, n; i < len; i += n + 1) {
		_cleanup_buf_ struct ft_buf text = {};

		n = strnlen(s + i, len - i);
		if (numbered)
			ft_buf_printf(&text, "[%zu] ", ++nr);
		ft_buf_escape(&text, s + i, n);
		if (text.len)
			text_wrapped(b, label, text.s, text.len);
		label = "";
	}
}

static void headline(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_style *style)
{
	const struct ft_ev_verdict *e = (const void *)ev;
	_cleanup_buf_ struct ft_buf text = {};

	if (e->cause__kind.len) {
		text_str(&text, ev, e->cause__object);
		ft_buf_puts(&text, "  (");
		text_str(&text, ev, e->cause__kind);
		ft_buf_printf(&text, ")  confidence %s",
			      ft_name_of(&ft_format_confidence, e->confidence));
	} else {
		ft_buf_puts(&text, "no cause found");
	}
	if (style->color)
		ft_buf_puts(b, e->cause__kind.len ? "\033[1;31m" : "\033[1;32m");
	text_wrapped(b, "VERDICT", text.s ? text.s : "", text.len);
	if (style->color)
		ft_buf_puts(b, "\033[0m");
}

void ft_text_verdict(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr,
		     const struct ft_style *style)
{
	const struct ft_ev_verdict *e = (const void *)ev;
	_cleanup_buf_ struct ft_buf cost = {};

	(void)attr;
	headline(b, ev, style);
	if (e->cause__kind.len && e->since_ns != FT_NONE_U64) {
		ft_buf_printf(b, "%-12s", "  since");
		text_day(b, e->since_ns, ev->ts_ns + style->clock->offset_ns);
		text_time(b, e->since_ns, true);
		ft_buf_puts(b, "\n");
	}
	items(b, "  hits", ev, e->hits, false);
	items(b, e->cause__kind.len ? "  evidence" : "  checked", ev, e->evidence,
	      e->cause__kind.len > 0);
	if (e->cost__value.len) {
		text_str(&cost, ev, e->cost__value);
		ft_buf_puts(&cost, " (");
		text_str(&cost, ev, e->cost__basis);
		ft_buf_puts(&cost, ")");
		text_wrapped(b, "  cost", cost.s ? cost.s : "", cost.len);
	}
	paragraph(b, "  excluded", ev, e->ruled_out, " | ");
	paragraph(b, "  not known", ev, e->blind, "; ");
	items(b, "  do now", ev, e->next, false);
}

/* --- the job --- */

struct row {
	int rank;
	struct ft_attrib_proc p;
	struct ft_attr attr;
};

struct table {
	struct row *rows;
	size_t n, cap, helpers, procs, others;
	int err, world;
	char job[33];
	uint32_t root;
};

static void collect(void *ctx, const struct ft_attrib_proc *p)
{
	struct table *t = ctx;
	struct row *rows;

	/* A rank that has ended already still is part of the job. */
	if (!p->alive && !p->attr->nranks)
		return;
	t->procs++;
	t->helpers += p->helper;
	t->world = MAX(t->world, p->env_world);
	if (p->job[0])
		ft_strcpy(t->job, p->job, sizeof(t->job));
	if (!p->attr->nranks) {
		t->others += !p->helper;
		return;
	}
	if (t->n == t->cap) {
		rows = reallocarray(t->rows, t->cap ? 2 * t->cap : 16, sizeof(*rows));
		if (!rows) {
			t->err = -ENOMEM;
			return;
		}
		t->rows = rows;
		t->cap = t->cap ? 2 * t->cap : 16;
	}
	t->rows[t->n] = (struct row){ .p = *p, .attr = *p->attr };
	t->rows[t->n].rank = p->attr->ranks[0].global_rank >= 0 ? p->attr->ranks[0].global_rank
								: p->attr->ranks[0].rank;
	t->world = MAX(t->world, p->attr->ranks[0].nranks);
	t->n++;
}

static int by_rank(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->rank != y->rank ? (x->rank > y->rank) - (x->rank < y->rank)
				  : (x->p.pid > y->p.pid) - (x->p.pid < y->p.pid);
}

static const struct ft_attrib_link *slowest_link(struct ft_attrib *a, const struct ft_attr *attr)
{
	const struct ft_attrib_link *worst = NULL, *l;
	size_t n;

	l = ft_attrib_links(a, &n);
	for (size_t i = 0; attr->ngpus == 1 && i < n; i++) {
		if (!l[i].now_gen || (strcmp(l[i].device, attr->gpus[0].bdf) != 0 &&
				      strcmp(l[i].serves, attr->gpus[0].bdf) != 0))
			continue;
		/* 2^gen x width orders links as their bandwidth does, near enough */
		if (!worst || (l[i].now_width << MIN(l[i].now_gen, 8u)) <
				      (worst->now_width << MIN(worst->now_gen, 8u)))
			worst = &l[i];
	}
	return worst;
}

/* Of all links on its way; false: none was counted. */
static bool errors_before(struct ft_attrib *a, const struct ft_attr *attr, uint64_t n[2])
{
	const struct ft_attrib_link *l, *key;
	bool counted = false;
	size_t count;

	l = ft_attrib_links(a, &count);
	n[0] = n[1] = 0;
	for (size_t i = 0; attr->ngpus == 1 && i < count; i++) {
		if (strcmp(l[i].serves, attr->gpus[0].bdf) != 0)
			continue;
		key = ft_attrib_link(a, l[i].key);
		counted |= key->counted;
		n[0] += key->errors_before[2];
		n[1] += key->errors_before[0] + key->errors_before[1];
	}
	return counted;
}

static void cell_errors(struct ft_buf *b, struct ft_attrib *a, const struct ft_attr *attr)
{
	char text[48] = "-";
	uint64_t n[2];

	if (errors_before(a, attr, n)) {
		if (n[0] && n[1])
			ft_fmt(text, "%llu+%llu uncorrected", (unsigned long long)n[0],
			       (unsigned long long)n[1]);
		else if (n[0] || n[1])
			ft_fmt(text, "%llu %s", (unsigned long long)(n[0] + n[1]),
			       n[1] ? "uncorrected" : "corrected");
		else
			ft_fmt(text, "0");
	}
	ft_buf_printf(b, "%-20s", text);
}

static void cell_gpu(struct ft_buf *b, const struct ft_attr *attr)
{
	size_t from = b->len;

	if (!attr->ngpus)
		ft_buf_puts(b, "-");
	else if (attr->ngpus > 1)
		ft_buf_printf(b, attr->how & FT_HOW(nvml) ? "%d GPUs" : "one of %d", attr->ngpus);
	else if (attr->gpus[0].index >= 0)
		ft_buf_printf(b, "%d %s", attr->gpus[0].index, attr->gpus[0].bdf);
	else
		ft_buf_puts(b, attr->gpus[0].bdf);
	ft_buf_printf(b, "%*s", (int)MAX(0, 18 - (int)(b->len - from)), "");
}

static void cell_link(struct ft_buf *b, const struct ft_attrib_link *l)
{
	char text[48] = "-";

	if (l && l->possible_gen)
		ft_fmt(text, "Gen%u x%u / Gen%u x%u", l->now_gen, l->now_width, l->possible_gen,
		       l->possible_width);
	else if (l)
		ft_fmt(text, "Gen%u x%u / ?", l->now_gen, l->now_width);
	ft_buf_printf(b, "%-24s", text);
}

static void cell_nics(struct ft_buf *b, const struct ft_attr *attr)
{
	size_t from = b->len;

	for (int i = 0; i < attr->nnics; i++) {
		ft_buf_puts(b, i ? "," : "");
		text_chars(b, attr->nics[i].ibdev[0] ? attr->nics[i].ibdev : attr->nics[i].netdev,
			   32);
	}
	if (!attr->nnics)
		ft_buf_puts(b, "-");
	text_cut(b, from, 16);
	ft_buf_printf(b, "%*s", (int)MAX(0, 18 - (int)(b->len - from)), "");
}

static void put_row(struct ft_buf *b, struct ft_attrib *a, const struct row *r, bool errors,
		    const struct ft_style *style)
{
	size_t from = b->len;
	char ranks[24];

	if (r->attr.nranks > 1)
		ft_fmt(ranks, "%d+%d", r->rank, r->attr.nranks - 1);
	else if (r->rank >= 0)
		ft_fmt(ranks, "%d", r->rank);
	else
		ft_fmt(ranks, "?");
	ft_buf_printf(b, "  %6s  %8u  ", ranks, r->p.pid);
	cell_gpu(b, &r->attr);
	cell_link(b, slowest_link(a, &r->attr));
	if (errors)
		cell_errors(b, a, &r->attr);
	cell_nics(b, &r->attr);
	if (r->p.netns && !errors)
		ft_buf_printf(b, "%u  ", r->p.netns);
	if (!errors)
		text_chars(b, r->p.task, 16);
	while (b->len > from && b->s[b->len - 1] == ' ')
		b->len--;
	text_fit(b, from, style);
	ft_buf_puts(b, "\n");
}

static void job_line(struct ft_buf *b, const struct table *t)
{
	_cleanup_buf_ struct ft_buf text = {};

	if (!t->procs) {
		ft_buf_puts(b, "job         no process is traced now\n");
		return;
	}
	if (t->job[0]) {
		ft_buf_puts(&text, "Slurm ");
		text_chars(&text, t->job, sizeof(t->job));
		ft_buf_puts(&text, ": ");
	}
	ft_buf_printf(&text, "%zu rank%s", t->n, ft_plural(t->n, "s"));
	if (t->world > 0)
		ft_buf_printf(&text, " of %d", t->world);
	ft_buf_printf(&text, " here (+%zu helper%s, %zu other process%s)", t->helpers,
		      ft_plural(t->helpers, "s"), t->others, ft_plural(t->others, "es"));
	if (!t->n)
		ft_buf_puts(
			&text,
			"; no rank is known: no init call was seen and the environment names none");
	text_wrapped(b, "job", text.s ? text.s : "", text.len);
}

#define ROWS 8 /* more only when all are asked for */

void ft_text_job(struct ft_buf *b, struct ft_attrib *a, const struct ft_style *style, bool all)
{
	struct table t = { .world = -1 };
	bool errors = false;
	size_t show;

	ft_attrib_each(a, collect, &t);
	if (t.n)
		qsort(t.rows, t.n, sizeof(*t.rows), by_rank);
	job_line(b, &t);
	/* There is room for them in place of what matters less then. */
	for (size_t i = 0; i < t.n; i++) {
		uint64_t n[2];

		errors |= errors_before(a, &t.rows[i].attr, n) && (n[0] || n[1]);
	}
	if (t.n)
		ft_buf_printf(
			b, "    RANK       PID  GPU               PCIe NOW / POSSIBLE     %s\n",
			errors ? "ERRORS BEFORE       NIC" : "NIC               NETNS       TASK");
	show = all || t.n <= ROWS + 1 ? t.n : ROWS;
	for (size_t i = 0; i < show; i++)
		put_row(b, a, &t.rows[i], errors, style);
	if (show < t.n)
		ft_buf_printf(b, "          + %zu more rank%s (-v lists them)\n", t.n - show,
			      ft_plural(t.n - show, "s"));
	if (t.err)
		ft_buf_puts(b, "          no memory for the rest\n");
	free(t.rows);
}

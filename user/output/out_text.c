// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * The terminal: header, one line per thing that matters, verdict. Repeated events are folded by
 * the second.
 */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "output/internal.h"

#define QUIET_NS     (100 * NSEC_PER_MSEC) /* without more of the inventory: it is complete */
#define FOLD_NS	     NSEC_PER_SEC
#define FOLDS_MAX    1024
#define TIME_COLUMNS 15 /* before what a line tells */
#define BLIND_MAX    16

/* Events of one line within a second: the first one, with counts and sums added. */
struct fold {
	UT_hash_handle hh;
	char key[96];
	uint64_t since_ns;
	struct ft_attr attr;
	struct ft_rec rec;
};

struct out_text {
	struct ft_out o;
	struct ft_out_opts opts;
	struct ft_style style;
	struct writer w;
	struct fold *folds;
	struct ft_rec *session; /* until its header is shown */
	bool header_done;
	bool preface;	   /* some of the inventory came since the last flush */
	uint64_t quiet_ns; /* the flush since which none came, 0 unknown */
	size_t nblind;
	char *blind[BLIND_MAX];
	unsigned int blind_more;
};

/* --- header --- */

static void put_header(struct out_text *t)
{
	const struct ft_ev_session *e = (const void *)t->session->buf;
	struct ft_buf *b = &t->w.buf;
	const struct ft_hdr *ev = &e->h;
	size_t from = b->len;

	ft_buf_puts(b, "fabrictrace ");
	text_str(b, ev, e->version);
	if (t->opts.host && t->opts.host[0]) {
		ft_buf_puts(b, "  ");
		text_chars(b, t->opts.host, 64);
	}
	ft_buf_puts(b, "  Linux ");
	text_str(b, ev, e->kernel);
	ft_buf_puts(b, "  attached ");
	text_time(b, ev->ts_ns + t->opts.clock->offset_ns, false);
	if (e->overhead_ns != FT_NONE_U64)
		ft_buf_printf(b, " in %.1f s", e->overhead_ns / 1e9);
	if (t->opts.interactive)
		ft_buf_puts(b, "    Ctrl-C: verdict and quit");
	text_fit(b, from, &t->style);
	ft_buf_puts(b, "\n");
	if (e->target.len) {
		_cleanup_buf_ struct ft_buf target = {};

		text_str(&target, ev, e->target);
		text_wrapped(b, "target", target.s ? target.s : "", target.len);
	}
}

static void put_blind(struct out_text *t)
{
	_cleanup_buf_ struct ft_buf text = {};

	for (size_t i = 0; i < t->nblind; i++)
		ft_buf_printf(&text, "%s%s", i ? "; " : "", t->blind[i]);
	if (t->blind_more)
		ft_buf_printf(&text, "; and %u more (fabrictrace probes)", t->blind_more);
	if (text.len)
		text_wrapped(&t->w.buf, "blind", text.s, text.len);
}

static void header(struct out_text *t)
{
	if (t->header_done || !t->session)
		return;
	t->header_done = true;
	if (t->opts.verbose >= 0) {
		put_header(t);
		if (t->opts.attrib)
			ft_text_job(&t->w.buf, t->opts.attrib, &t->style, t->opts.verbose > 0);
		put_blind(t);
	}
	free(t->session);
	t->session = NULL;
}

/* --- one line --- */

static const char *mark(uint8_t severity)
{
	return severity >= FT_ERROR ? "!" : severity == FT_WARNING ? "~" : " ";
}

/* Of other lines it is told how many events they stand for. */
static bool names_sum(const struct ft_hdr *ev)
{
	const struct ft_ev_pcie_link *e = (const void *)ev;

	return ev->kind == FT_KIND_net_drop || ev->kind == FT_KIND_tcp_retransmit ||
	       ev->kind == FT_KIND_pcie_aer ||
	       (ev->kind == FT_KIND_pcie_link && e->transitions != FT_NONE_U64);
}

static void put_line(struct out_text *t, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	static const char *const colors[] = { "", "\033[33m", "\033[31m", "\033[1;31m" };
	const char *color = t->style.color ? colors[MIN(attr->severity, FT_FATAL)] : "";
	struct ft_buf *b = &t->w.buf;
	size_t from;

	header(t);
	ft_buf_puts(b, color);
	from = b->len;
	text_time(b,
		  (ev->count > 1 && ev->first_ns ? ev->first_ns : ev->ts_ns) +
			  t->opts.clock->offset_ns,
		  true);
	ft_buf_printf(b, " %s ", mark(attr->severity));
	ft_text_line(b, ev, attr);
	if (ev->count > 1 && !names_sum(ev))
		ft_buf_printf(b, "  x%u", ev->count);
	if (ev->count > 1 && ev->first_ns && ev->last_ns >= ev->first_ns)
		ft_buf_printf(b, " in %.1f s", (ev->last_ns - ev->first_ns) / 1e9);
	/* What was found is told whole. */
	if (ev->kind == FT_KIND_incident && !t->style.full)
		text_continue(b, from, TIME_COLUMNS);
	else
		text_fit(b, from, &t->style);
	ft_buf_puts(b, *color ? "\033[0m\n" : "\n");
}

/* --- folding --- */

/* What a device said, again: all that is the same in everything that one line stands for. */
static unsigned int fields_hash(const struct ft_hdr *ev)
{
	size_t n, len;
	const struct ft_field *f = ft_kind(ev->kind)->fields(&n);
	unsigned int hash = 0, one;

	for (size_t i = 0; i < n; i++) {
		const char *s = (const char *)ev + f[i].off;

		if (f[i].role != FT_ROLE_KEY)
			continue;
		len = f[i].size;
		if (f[i].type == FT_T_str || f[i].type == FT_T_strs)
			s = ft_field_text(&f[i], ev, &len);
		HASH_VALUE(s, len, one);
		hash = hash * 31 + one;
	}
	return hash;
}

/* A link that changes to and fro is one line a second, whatever it changes to. */
static unsigned int device_hash(const struct ft_hdr *ev)
{
	const struct ft_ev_pcie_link *e = (const void *)ev;
	const char *end = e->port[0] ? e->port : e->device;
	unsigned int hash;

	if (ev->kind != FT_KIND_pcie_link)
		return fields_hash(ev);
	HASH_VALUE(end, sizeof(e->port), hash);
	return hash;
}

/* Same line: kind, process, and the texts that it shows. */
static void fold_key(const struct ft_hdr *ev, const struct ft_attr *attr, char *key, size_t size)
{
	const struct ft_attr_nic *nic = &attr->nics[0];

	memset(key, 0, size);
	snprintf(key, size, "%u|%u|%u|%d|%.16s|%u", ev->kind, ev->pid, attr->peer_pid,
		 attr->npeers ? attr->peers[0].rank : -1, attr->nnics ? nic->netdev : "",
		 attr->nnics ? nic->netns : 0);
	if (ev->kind >= FT_KIND_pcie_aer && ev->kind <= FT_KIND_dev_log) {
		snprintf(key, size, "%u|%u", ev->kind, device_hash(ev));
	} else if (ev->kind == FT_KIND_net_drop) {
		size_t used = strlen(key);

		key[used] = '|';
		ft_str_copy(ev, ((const struct ft_ev_net_drop *)ev)->reason, key + used + 1,
			    size - used - 1);
	}
}

/* Where it has got to. */
static void fold_state(struct ft_rec *into, const struct ft_hdr *ev)
{
	struct ft_ev_pcie_link *to = (void *)into;
	const struct ft_ev_pcie_link *e = (const void *)ev;

	if (ev->kind != FT_KIND_pcie_link)
		return;
	to->to__gen = e->to__gen;
	to->to__width = e->to__width;
	to->training = e->training;
}

static void fold_add(struct ft_rec *into, const struct ft_hdr *ev)
{
	size_t n;
	const struct ft_field *f = ft_kind(ev->kind)->fields(&n);

	if (into->h.count == 1 || !into->h.first_ns)
		into->h.first_ns = into->h.last_ns = into->h.ts_ns;
	into->h.last_ns =
		MAX(into->h.last_ns, ev->count > 1 && ev->last_ns ? ev->last_ns : ev->ts_ns);
	into->h.count += ev->count;
	into->h.ts_ns = MAX(into->h.ts_ns, ev->ts_ns);
	into->h.flags |= FT_REC_AGG;
	for (size_t i = 0; i < n; i++) {
		uint64_t a, b;

		if (f[i].role != FT_ROLE_SUM || !ft_field_get(&f[i], &into->h, &a) ||
		    !ft_field_get(&f[i], ev, &b))
			continue;
		a += b;
		memcpy(into->buf + f[i].off, &a, f[i].size);
	}
}

static void fold_out(struct out_text *t, struct fold *f)
{
	HASH_DEL(t->folds, f);
	put_line(t, &f->rec.h, &f->attr);
	free(f);
}

static void folds_out(struct out_text *t, uint64_t before_ns)
{
	struct fold *f, *next;

	HASH_ITER(hh, t->folds, f, next)
		if (f->since_ns <= before_ns)
			fold_out(t, f);
}

static void fold(struct out_text *t, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	char key[sizeof(((struct fold *)0)->key)];
	struct fold *f;

	fold_key(ev, attr, key, sizeof(key));
	HASH_FIND(hh, t->folds, key, sizeof(key), f);
	if (f) {
		fold_add(&f->rec, ev);
		fold_state(&f->rec, ev);
		f->attr.severity = MAX(f->attr.severity, attr->severity);
		return;
	}
	f = HASH_COUNT(t->folds) < FOLDS_MAX ? malloc(sizeof(*f)) : NULL;
	if (!f) {
		put_line(t, ev, attr);
		return;
	}
	memcpy(f->key, key, sizeof(key));
	f->since_ns = ev->ts_ns;
	f->attr = *attr;
	memcpy(f->rec.buf, ev, ev->size);
	HASH_ADD(hh, t->folds, key, sizeof(f->key), f);
	if (f->hh.tbl)
		return;
	put_line(t, ev, attr);
	free(f);
}

/* --- what is watched and what not --- */

static void blind_add(struct out_text *t, const char *s, size_t len)
{
	_cleanup_buf_ struct ft_buf b = {};

	ft_buf_escape(&b, s, len);
	for (size_t i = 0; i < t->nblind && b.s; i++)
		if (!strcmp(t->blind[i], b.s))
			return;
	if (t->nblind == BLIND_MAX || !b.s)
		t->blind_more++;
	else
		t->blind[t->nblind++] = ft_take_ptr(b.s);
}

static void on_session(struct out_text *t, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_session *e = (const void *)ev;
	size_t len;
	const char *s = ft_str_get(ev, e->blind, &len);

	(void)attr;
	for (size_t i = 0, n; i < len; i += n + 1) {
		n = strnlen(s + i, len - i);
		blind_add(t, s + i, n);
	}
	if (!t->session)
		t->session = malloc(sizeof(*t->session));
	if (t->session)
		memcpy(t->session->buf, ev, ev->size);
}

static void on_probe(struct out_text *t, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_probe *e = (const void *)ev;
	char hides[160], reason[160], line[340];

	(void)attr;
	if (e->state != 0 || !e->hides.len)
		return;
	ft_str_copy(ev, e->hides, hides, sizeof(hides));
	ft_str_copy(ev, e->reason, reason, sizeof(reason));
	ft_fmt(line, "%s (%s)", hides, reason[0] ? reason : "not attached");
	blind_add(t, line, strlen(line));
}

static void on_host(struct out_text *t, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_inv_host *e = (const void *)ev;
	char what[96], reason[160], line[280];

	(void)attr;
	ft_fmt(line, "%s: %s", ft_str_copy(ev, e->what, what, sizeof(what)),
	       ft_str_copy(ev, e->reason, reason, sizeof(reason)));
	blind_add(t, line, strlen(line));
}

static void on_verdict(struct out_text *t, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	header(t);
	ft_text_verdict(&t->w.buf, ev, attr, &t->style);
}

/* --- what is shown of which kind --- */

enum show { SHOW_ALWAYS, SHOW_NORMAL, SHOW_BAD, SHOW_VERBOSE };

static const struct {
	uint16_t kind;
	enum show show;
	bool folds;
	void (*fn)(struct out_text *, const struct ft_hdr *,
		   const struct ft_attr *); /* instead of a line */
} kinds[] = {
	{ FT_KIND_session, SHOW_ALWAYS, false, on_session },
	{ FT_KIND_probe, SHOW_ALWAYS, false, on_probe },
	{ FT_KIND_inv_host, SHOW_ALWAYS, false, on_host },
	{ FT_KIND_verdict, SHOW_ALWAYS, false, on_verdict },
	{ FT_KIND_incident, SHOW_ALWAYS, false, NULL },
	{ FT_KIND_heartbeat, SHOW_NORMAL, false, NULL },
	{ FT_KIND_lost, SHOW_NORMAL, false, NULL },
	{ FT_KIND_clock_step, SHOW_NORMAL, false, NULL },
	{ FT_KIND_tcp_retransmit, SHOW_NORMAL, true, NULL },
	{ FT_KIND_tcp_late, SHOW_NORMAL, true, NULL },
	{ FT_KIND_tcp_stall, SHOW_NORMAL, false, NULL },
	{ FT_KIND_tcp_reset, SHOW_NORMAL, true, NULL },
	{ FT_KIND_net_drop, SHOW_NORMAL, true, NULL },
	{ FT_KIND_net_link, SHOW_NORMAL, false, NULL },
	{ FT_KIND_net_tx_timeout, SHOW_NORMAL, false, NULL },
	{ FT_KIND_pcie_aer, SHOW_NORMAL, true, NULL },
	{ FT_KIND_pcie_link, SHOW_BAD, true, NULL },
	{ FT_KIND_pcie_hotplug, SHOW_NORMAL, false, NULL },
	{ FT_KIND_pcie_recovery, SHOW_NORMAL, false, NULL },
	{ FT_KIND_pcie_gone, SHOW_NORMAL, false, NULL },
	{ FT_KIND_gpu_xid, SHOW_NORMAL, true, NULL },
	{ FT_KIND_gpu_clocks, SHOW_BAD, false, NULL },
	{ FT_KIND_gpu_nvlink, SHOW_NORMAL, true, NULL },
	{ FT_KIND_dev_log, SHOW_NORMAL, true, NULL },
	{ FT_KIND_proc_exit, SHOW_BAD, false, NULL },
	{ FT_KIND_nccl_comm, SHOW_BAD, false, NULL },
};

static size_t kind_row(unsigned int kind)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(kinds) && kinds[i].kind != kind)
		i++;
	return i;
}

static bool is_before(const struct ft_hdr *ev)
{
	const struct ft_field *f = ev->kind >= FT_KIND_pcie_aer && ev->kind <= FT_KIND_dev_log
					   ? ft_field(ft_kind(ev->kind), "before")
					   : NULL;
	uint64_t v;

	return f && ft_field_get(f, ev, &v) && v == 1;
}

static bool is_shown(const struct out_text *t, size_t row, const struct ft_hdr *ev,
		     const struct ft_attr *attr)
{
	enum show show = row < ARRAY_SIZE(kinds) ? kinds[row].show : SHOW_VERBOSE;

	if (show == SHOW_ALWAYS || t->opts.verbose > 0)
		return true;
	/* The log of days: what of it matters now is in the verdict. */
	if (t->opts.verbose < 0 || (is_before(ev) && attr->severity < FT_ERROR))
		return false;
	return show == SHOW_NORMAL || (show == SHOW_BAD && attr->severity >= FT_WARNING);
}

/* The header waits for the inventory, so that the table is complete. */
static bool is_preface(const struct ft_hdr *ev)
{
	return ev->kind == FT_KIND_session || ev->kind == FT_KIND_probe ||
	       ev->kind >= FT_KIND_inv_proc || ev->kind == FT_KIND_nccl_lib;
}

static int text_event(struct ft_out *o, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	struct out_text *t = container_of(o, struct out_text, o);
	size_t row = kind_row(ev->kind);

	if (t->w.err)
		return t->w.err;
	t->preface |= is_preface(ev);
	if (ev->kind == FT_KIND_verdict || ev->kind == FT_KIND_incident || ev->ts_ns >= FOLD_NS)
		folds_out(t, ev->kind == FT_KIND_verdict || ev->kind == FT_KIND_incident
				     ? UINT64_MAX
				     : ev->ts_ns - FOLD_NS);
	if (!is_shown(t, row, ev, attr) ||
	    (is_preface(ev) && !t->header_done && row == ARRAY_SIZE(kinds)))
		return 0;
	if (row < ARRAY_SIZE(kinds) && kinds[row].fn)
		kinds[row].fn(t, ev, attr);
	else if (row < ARRAY_SIZE(kinds) && kinds[row].folds && t->opts.verbose <= 0)
		fold(t, ev, attr);
	else
		put_line(t, ev, attr);
	return writer_commit(&t->w);
}

/* The session's time is that of the start; the inventory follows the attach. */
static uint64_t quiet_until(const struct out_text *t)
{
	const struct ft_ev_session *e = t->session ? (const void *)t->session->buf : NULL;
	uint64_t attached = 0;

	if (e && e->overhead_ns != FT_NONE_U64)
		attached = e->h.ts_ns + e->overhead_ns;
	return MAX(t->quiet_ns, attached) + QUIET_NS;
}

static int text_flush(struct ft_out *o, uint64_t now_ns)
{
	struct out_text *t = container_of(o, struct out_text, o);

	if (t->preface || !t->quiet_ns)
		t->quiet_ns = now_ns;
	t->preface = false;
	if (now_ns >= quiet_until(t) || now_ns == UINT64_MAX)
		header(t);
	if (now_ns >= FOLD_NS)
		folds_out(t, now_ns - FOLD_NS);
	return writer_flush(&t->w);
}

static void text_free(struct ft_out *o)
{
	struct out_text *t = container_of(o, struct out_text, o);
	struct fold *f, *next;

	HASH_ITER(hh, t->folds, f, next) {
		HASH_DEL(t->folds, f);
		free(f);
	}
	for (size_t i = 0; i < t->nblind; i++)
		free(t->blind[i]);
	free(t->session);
	ft_buf_free(&t->w.buf);
	free(t);
}

int ft_out_text(struct ft_out **out, const struct ft_out_opts *opts)
{
	static const struct ft_out_ops ops = { text_event, text_flush, text_free };
	struct out_text *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = (struct out_text){ .o.ops = &ops, .opts = *opts, .w.fd = opts->fd };
	t->style =
		(struct ft_style){ .color = opts->color, .full = opts->full, .clock = opts->clock };
	*out = &t->o;
	return 0;
}

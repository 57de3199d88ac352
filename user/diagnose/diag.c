// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Events in, incidents out. */
#include "diagnose/internal.h"

void lines_add(struct lines *l, const char *fmt, ...)
{
	char *s = l->s[l->n];
	va_list ap;

	if (l->n == LINES_MAX)
		return;
	va_start(ap, fmt);
	vsnprintf(s, sizeof(l->s[0]), fmt, ap);
	va_end(ap);
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->s[i], s))
			return;
	l->n++;
}

int ft_diag_new(struct ft_diag **out, const struct ft_diag_opts *opts)
{
	struct ft_diag *d = calloc(1, sizeof(*d));

	if (!d)
		return -ENOMEM;
	d->opts = *opts;
	d->comm_size = d->world = -1;
	d->incidents = calloc(INCIDENTS_MAX, sizeof(*d->incidents));
	if (!d->incidents) {
		free(d);
		return -ENOMEM;
	}
	for (unsigned int kind = 0; kind < FT_KIND_MAX; kind++)
		d->before[kind] = ft_kind(kind) ? ft_field(ft_kind(kind), "before") : NULL;
	*out = d;
	return 0;
}

void ft_diag_free(struct ft_diag *d)
{
	if (!d)
		return;
	graph_free(d);
	for (size_t i = 0; i < d->nblind; i++)
		free(d->blind[i]);
	free(d->incidents);
	free(d);
}

/* --- incidents --- */

void finding_ranks(struct finding *f, const struct ft_attr_rank *ranks, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int k = 0;

		while (k < f->nranks && (rank_number(&f->ranks[k]) != rank_number(&ranks[i]) ||
					 f->ranks[k].comm != ranks[i].comm))
			k++;
		if (k == f->nranks && k < FT_ATTR_MAX)
			f->ranks[f->nranks++] = ranks[i];
	}
}

static int by_number(const void *a, const void *b)
{
	return rank_number(a) - rank_number(b);
}

/* What became known of the rank since its socket was seen: its communicator. */
static void rank_refresh(const struct ft_diag *d, struct ft_attr_rank *r)
{
	const struct dproc *found = NULL;

	for (const struct dproc *p = d->procs; p && r->rank < 0; p = p->hh.next) {
		if (p->nranks != 1 || p->rank.global_rank != r->global_rank || p->rank.rank < 0)
			continue;
		/* Two jobs have ranks of this number. */
		if (found && found->rank.comm != p->rank.comm)
			return;
		found = p;
	}
	if (found)
		*r = found->rank;
}

void incident_attr(const struct ft_diag *d, const struct finding *f, struct ft_attr *attr)
{
	const struct place *ends[] = { f->x, f->y };

	*attr = (struct ft_attr){ .nranks = f->nranks };
	memcpy(attr->ranks, f->ranks, sizeof(attr->ranks));
	for (int i = 0; i < f->nranks; i++)
		rank_refresh(d, &attr->ranks[i]);
	qsort(attr->ranks, f->nranks, sizeof(attr->ranks[0]), by_number);
	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (ends[i] && ends[i]->local && ends[i]->nic.netdev[0])
			attr->nics[attr->nnics++] = ends[i]->nic;
	if (!f->link)
		return;
	memcpy(attr->gpus, f->link->attr.gpus, sizeof(attr->gpus));
	memcpy(attr->nics, f->link->attr.nics, sizeof(attr->nics));
	attr->ngpus = f->link->attr.ngpus;
	attr->nnics = f->link->attr.nnics;
	attr->shared = f->link->attr.shared;
	ft_strcpy(attr->links[attr->nlinks++], f->link->key, sizeof(attr->links[0]));
}

/* Errors that were all corrected cost a repeated packet each. */
int finding_weight(const struct finding *f)
{
	return f->mild ? 45 : rules[f->rule].weight;
}

enum ft_severity finding_severity(const struct finding *f)
{
	return finding_weight(f) >= 60 && f->confidence >= 2 && !f->aside ? FT_ERROR : FT_WARNING;
}

static void incident_emit(struct ft_diag *d, const struct incident *in)
{
	struct ft_ev_incident *e;
	struct ft_attr attr;
	struct ft_rec rec;

	if (!d->opts.sink)
		return;
	e = ft_rec_new(&rec, FT_KIND_incident, d->now_ns);
	e->id = in->id;
	e->open = in->open;
	e->confidence = in->f.confidence;
	e->since_ns = in->f.since_ns + d->opts.clock->offset_ns;
	ft_rec_str(&rec, &e->cause__kind, rules[in->f.rule].kind);
	ft_rec_str(&rec, &e->cause__object, in->f.object);
	ft_rec_str(&rec, &e->text, in->f.text);
	incident_attr(d, &in->f, &attr);
	attr.severity = in->open ? finding_severity(&in->f) : FT_INFO;
	d->opts.sink(d->opts.ctx, &rec.h, &attr);
}

static bool covers_same(const struct finding *a, const struct finding *b)
{
	for (size_t i = 0; i < a->ncover; i++)
		for (size_t k = 0; k < b->ncover; k++)
			if (a->cover[i].src == b->cover[k].src &&
			    a->cover[i].dst == b->cover[k].dst)
				return true;
	return false;
}

static bool own_cause(enum rule_id rule)
{
	return rule == R_SLOWDOWN || rule == R_NVLINK;
}

static bool is_same(const struct finding *a, const struct finding *b)
{
	/* Of one link all is one incident, but what limits clocks and NVLinks has its own causes. */
	if (a->link && a->link == b->link)
		return a->rule == b->rule || (!own_cause(a->rule) && !own_cause(b->rule));
	if (a->rule != b->rule)
		return false;
	return !strcmp(a->object, b->object) || (a->rule == R_LOSS && covers_same(a, b));
}

/* The place of one that is part of another, or was withdrawn, is free again. */
static struct incident *incident_new(struct ft_diag *d, const struct finding *f)
{
	size_t i = d->nincidents;

	if (i == INCIDENTS_MAX)
		for (i = 0; i < INCIDENTS_MAX && !d->incidents[i].merged; i++)
			;
	if (i == INCIDENTS_MAX) {
		d->unfit++;
		return NULL;
	}
	d->nincidents = MAX(d->nincidents, i + 1);
	d->incidents[i] = (struct incident){ .id = ++d->incident_id, .open = true, .f = *f };
	return &d->incidents[i];
}

/* An incident that turned out to be part of another one. */
static void incident_merge(struct ft_diag *d, struct incident *in, const struct incident *into)
{
	in->merged = true;
	if (!in->open)
		return;
	in->open = false;
	ft_fmt(in->f.text, "part of #%u: %.180s", into->id, into->f.object);
	incident_emit(d, in);
}

/* The same finding again is silence; a new one, a surer one or another object is a line. */
void finding_submit(struct ft_diag *d, const struct finding *f)
{
	struct incident *in = NULL;
	bool changed;

	for (size_t i = 0; i < d->nincidents; i++) {
		struct incident *old = &d->incidents[i];

		if (old->merged || !is_same(&old->f, f))
			continue;
		if (in)
			incident_merge(d, old, in);
		else
			in = old;
	}
	if (!in) {
		in = incident_new(d, f);
		if (in)
			incident_emit(d, in);
		return;
	}
	changed = strcmp(in->f.object, f->object) != 0 || in->f.confidence < f->confidence ||
		  in->f.rule != f->rule;
	if (!in->open && f->last_ns > in->f.last_ns)
		in->open = changed = true;
	in->f = *f;
	if (changed && in->open)
		incident_emit(d, in);
}

/* It never was a fault. */
void incident_withdraw(struct ft_diag *d, struct incident *in, const char *none)
{
	in->open = false;
	in->merged = true;
	ft_fmt(in->f.text, "%.140s: %s", in->f.object, none);
	incident_emit(d, in);
}

void finding_close(struct ft_diag *d, enum rule_id rule, uint32_t pid, const char *none)
{
	for (size_t i = 0; i < d->nincidents; i++) {
		struct incident *in = &d->incidents[i];

		if (in->merged || in->f.rule != rule || in->f.pid != pid || (!in->open && !none))
			continue;
		if (none) {
			incident_withdraw(d, in, none);
			continue;
		}
		in->open = false;
		incident_emit(d, in);
	}
}

static void incidents_settle(struct ft_diag *d)
{
	for (size_t i = 0; i < d->nincidents; i++) {
		struct incident *in = &d->incidents[i];

		/* No news of a link without carrier: it is still down. */
		if (in->f.rule == R_LINK_DOWN && in->f.x->down)
			continue;
		if (!in->open || d->now_ns < in->f.last_ns + rules[in->f.rule].settle_ns)
			continue;
		in->open = false;
		incident_emit(d, in);
	}
}

void diag_judge(struct ft_diag *d, bool final)
{
	d->dirty = d->dirty && loss_judge(d, final);
	deaths_judge(d, final);
	resets_judge(d, final);
	pcie_judge(d, final);
	incidents_settle(d);
	d->judged_ns = d->now_ns;
}

void ft_diag_advance(struct ft_diag *d, uint64_t now_ns)
{
	d->now_ns = MAX(d->now_ns, now_ns);
	if (!d->start_ns)
		d->start_ns = d->judged_ns = now_ns;
	if (d->now_ns >= d->judged_ns + JUDGE_NS)
		diag_judge(d, false);
}

/* --- what is watched --- */

/* Lines that are equal in their first `same` bytes are of several processes: counted. */
static bool blind_has(struct ft_diag *d, const char *s, size_t same)
{
	for (size_t i = 0; i < d->nblind; i++) {
		if (!strcmp(d->blind[i], s))
			return true;
		if (!same || strncmp(d->blind[i], s, same) != 0)
			continue;
		d->blind_procs[i]++;
		return true;
	}
	return false;
}

static void blind_add(struct ft_diag *d, const char *s, size_t same)
{
	if (blind_has(d, s, same))
		return;
	if (d->nblind == BLIND_MAX || !(d->blind[d->nblind] = strdup(s)))
		d->blind_more++;
	else
		d->nblind++;
}

/* The option that names the target, without what is said about it. */
static void target_learn(struct ft_diag *d, const struct ft_hdr *ev, struct ft_str target)
{
	char text[240], option[16], value[240];

	ft_str_copy(ev, target, text, sizeof(text));
	/* A number that is cut would be another process. */
	if (target.len >= sizeof(text) - 1)
		return;
	if (sscanf(text, "%15s %239s", option, value) == 2 && !strcmp(option, "-p"))
		ft_fmt(d->target, "-p %s", value);
	else if (!strcmp(text, "-a") || (!strncmp(text, "--cgroup ", 9) && !strchr(text + 9, ' ')))
		ft_strcpy(d->target, text, sizeof(d->target));
}

static void on_session(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_session *e = (const void *)ev;
	size_t len;
	const char *s = ft_str_get(ev, e->blind, &len);

	(void)attr;
	target_learn(d, ev, e->target);
	if (e->overhead_ns != FT_NONE_U64)
		d->attached_ns = ev->ts_ns + e->overhead_ns;
	for (size_t i = 0, n; i < len; i += n + 1) {
		_cleanup_free_ char *line = strndup(s + i, n = strnlen(s + i, len - i));

		if (line)
			blind_add(d, line, 0);
	}
}

static void watch_note(uint8_t *watch, uint8_t state)
{
	if (state == 1)
		*watch = WATCH_ON;
	else if (state == 0 && *watch != WATCH_ON)
		*watch = WATCH_OFF;
	else if (state == 2 && *watch == WATCH_UNKNOWN)
		*watch = WATCH_UNNEEDED;
}

/*
 * Several programs can give one kind: it is watched when any of them is attached. Where a poller
 * looks as well, the programs see a part of it only (of links: what the kernel itself changes).
 */
static void on_probe(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_probe *e = (const void *)ev;
	char gives[32], attach[8], hides[160], reason[160], line[360];
	const struct ft_kind_info *k;
	bool poll;

	(void)attr;
	k = ft_kind_by_name(ft_str_copy(ev, e->gives, gives, sizeof(gives)));
	ft_str_copy(ev, e->attach, attach, sizeof(attach));
	poll = k && e->state < 2 && !strncmp(attach, "poll/", 5);
	if (poll) {
		d->polled[k->kind] = true;
		d->watch[k->kind] = e->state ? WATCH_ON : WATCH_OFF;
	} else if (k && !d->polled[k->kind]) {
		watch_note(&d->watch[k->kind], e->state);
	}
	if (e->state != 0 || !e->hides.len)
		return;
	ft_str_copy(ev, e->hides, hides, sizeof(hides));
	ft_str_copy(ev, e->reason, reason, sizeof(reason));
	ft_fmt(line, "%s (%s)", hides, reason[0] ? reason : "not attached");
	blind_add(d, line, 0);
}

static void on_lost(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_lost *e = (const void *)ev;
	const struct ft_kind_info *k;
	char reason[16], of[32];

	(void)attr;
	if (e->records == FT_NONE_U64)
		return;
	/* The kernel side counted them all the same. */
	if (!strncmp(ft_str_copy(ev, e->reason, reason, sizeof(reason)), "map full", 8)) {
		d->nodetail += e->records;
		return;
	}
	d->lost += e->records;
	k = ft_kind_by_name(ft_str_copy(ev, e->of, of, sizeof(of)));
	if (k)
		d->lost_of[k->kind] += e->records;
}

static void on_host(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_inv_host *e = (const void *)ev;
	char what[96], reason[128], line[240];

	(void)attr;
	ft_fmt(line, "%s: %s", ft_str_copy(ev, e->what, what, sizeof(what)),
	       ft_str_copy(ev, e->reason, reason, sizeof(reason)));
	blind_add(d, line, 0);
}

static void on_lib(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_nccl_lib *e = (const void *)ev;
	char path[96], reason[96], line[280];
	size_t same;

	(void)attr;
	if (e->error == FT_NONE_S32 || !e->error)
		return;
	ft_str_copy(ev, e->path, path, sizeof(path));
	ft_str_copy(ev, e->reason, reason, sizeof(reason));
	ft_fmt(line, "NCCL calls: %s is not probed (%s), ", path[0] ? path : "a library",
	       reason[0] ? reason : strerror(abs(e->error)));
	same = strlen(line);
	snprintf(line + same, sizeof(line) - same, "pid %u (%.16s)", ev->pid, ev->task);
	blind_add(d, line, same);
}

static void on_inv_proc(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_inv_proc *e = (const void *)ev;

	(void)attr;
	if (e->env_world != FT_NONE_S32)
		d->world = MAX(d->world, e->env_world);
	if (!d->job[0])
		ft_str_copy(ev, e->job, d->job, sizeof(d->job));
}

/* --- connections and interfaces that are there --- */

static void on_socket(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_tcp_state *e = (const void *)ev;
	struct flow *f;
	bool src;

	/* Listening and failed sockets are no connections. */
	if (ev->kind == FT_KIND_tcp_state && e->to != 1 && e->to != 7)
		return;
	f = flow_of(d, ev, attr, &src);
	if (f)
		f->end[src].closed = ev->kind == FT_KIND_tcp_state && e->to == 7;
}

static void on_netdev(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_inv_netdev *e = (const void *)ev;
	struct place *p = attr->nnics ? place_of(d, &attr->nics[0]) : NULL;

	if (!p)
		return;
	d->netdevs += !p->listed && strcmp(p->key.ifname, "lo") != 0;
	p->listed = true;
	p->nic = attr->nics[0];
	p->speed_mbps = e->speed_mbps == FT_NONE_U32 ? 0 : e->speed_mbps;
}

static void on_ordinary(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	const struct ft_ev_net_ordinary *e = (const void *)ev;

	(void)attr;
	if (e->packets == FT_NONE_U64)
		return;
	d->drops_ordinary += e->packets;
	d->ordinary_known = true;
}

static void on_gpu(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	(void)ev;
	(void)attr;
	d->gpus = true;
}

static const struct {
	uint16_t kind;
	void (*fn)(struct ft_diag *, const struct ft_hdr *, const struct ft_attr *);
} handlers[] = {
	{ FT_KIND_session, on_session },
	{ FT_KIND_probe, on_probe },
	{ FT_KIND_lost, on_lost },
	{ FT_KIND_inv_host, on_host },
	{ FT_KIND_inv_proc, on_inv_proc },
	{ FT_KIND_nccl_lib, on_lib },
	{ FT_KIND_inv_sock, on_socket },
	{ FT_KIND_tcp_state, on_socket },
	{ FT_KIND_inv_netdev, on_netdev },
	{ FT_KIND_tcp_retransmit, loss_retransmit },
	{ FT_KIND_net_drop, loss_drop },
	{ FT_KIND_net_ordinary, on_ordinary },
	{ FT_KIND_net_link, rule_link },
	{ FT_KIND_net_tx_timeout, rule_tx_timeout },
	{ FT_KIND_proc_exit, rule_exit },
	{ FT_KIND_tcp_reset, rule_reset },
	{ FT_KIND_nccl_comm, rule_nccl },
	{ FT_KIND_tcp_late, loss_late },
	{ FT_KIND_tcp_stall, loss_stall },
	{ FT_KIND_inv_pci, pcie_inventory },
	{ FT_KIND_pcie_aer, pcie_aer },
	{ FT_KIND_pcie_link, pcie_link },
	{ FT_KIND_pcie_hotplug, pcie_hotplug },
	{ FT_KIND_pcie_recovery, pcie_recovery },
	{ FT_KIND_pcie_gone, pcie_gone },
	{ FT_KIND_pcie_counter, pcie_counter },
	{ FT_KIND_gpu_xid, gpu_xid },
	{ FT_KIND_gpu_clocks, gpu_clocks },
	{ FT_KIND_gpu_nvlink, gpu_nvlink },
	{ FT_KIND_dev_log, dev_log },
	{ FT_KIND_nccl_stats, gpu_active },
	{ FT_KIND_inv_gpu, on_gpu },
};

void ft_diag_unfit(struct ft_diag *d, uint64_t n)
{
	d->unattributed = n;
}

/* Its time is of the past, hours or days ago: no time passes with it. */
static bool is_before(const struct ft_diag *d, const struct ft_hdr *ev)
{
	const struct ft_field *f = d->before[ev->kind];
	uint64_t v;

	return ev->flags & FT_REC_BEFORE || (f && ft_field_get(f, ev, &v) && v == 1);
}

void ft_diag_event(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	if (ev->kind == FT_KIND_incident || ev->kind == FT_KIND_verdict ||
	    ev->kind == FT_KIND_heartbeat)
		return;
	if (!is_before(d, ev))
		ft_diag_advance(d, ev->ts_ns);
	for (size_t i = 0; i < ARRAY_SIZE(handlers); i++)
		if (handlers[i].kind == ev->kind)
			handlers[i].fn(d, ev, attr);
	dproc_event(d, ev, attr);
}

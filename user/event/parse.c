// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* One line of JSON back to the record it was made from, by the same table that wrote it. */
#include <arpa/inet.h>
#include <jansson.h>

#include "event/event.h"

#define _cleanup_json_ _cleanup_(json_decrefp)

/* A u64 that the encoder wrote as text, in base 10 or hex; NULL and null leave *out alone. */
static int get_text_u64(const json_t *j, uint64_t *out)
{
	if (!j || json_is_null(j))
		return 0;
	if (!json_is_string(j) || ft_parse_u64(json_string_value(j), out))
		return -EBADMSG;
	return 0;
}

static int get_int(const json_t *j, int64_t min, int64_t max, int64_t *out)
{
	json_int_t v;

	if (!j || json_is_null(j))
		return 0;
	v = json_integer_value(j);
	if (!json_is_integer(j) || v < min || v > max)
		return -EBADMSG;
	*out = v;
	return 0;
}

/* Largest cut of a text that fits and does not end inside a UTF-8 sequence. */
static size_t utf8_cut(const char *s, size_t len, size_t max)
{
	if (len <= max)
		return len;
	while (max && ((unsigned char)s[max] & 0xc0) == 0x80)
		max--;
	return max;
}

static int get_chars(const json_t *j, char *dst, size_t size)
{
	size_t len;

	if (!j || json_is_null(j))
		return 0;
	if (!json_is_string(j))
		return -EBADMSG;
	len = utf8_cut(json_string_value(j), json_string_length(j), size);
	memcpy(dst, json_string_value(j), len);
	return 0;
}

/* Same, with a terminator. */
static int get_cstr(const json_t *j, char *dst, size_t size)
{
	return get_chars(j, dst, size - 1);
}

/* --- fields of `data` --- */

static void tail_add(struct ft_rec *r, struct ft_str *field, const json_t *j, bool element)
{
	size_t room = FT_REC_MAX - r->h.size, len = json_string_length(j);

	if (element && len + 1 > room)
		return;
	len = utf8_cut(json_string_value(j), len, room);
	if (!field->len)
		field->off = r->h.size;
	memcpy(r->buf + r->h.size, json_string_value(j), len);
	if (element)
		r->buf[r->h.size + len++] = 0;
	r->h.size += len;
	field->len += len;
}

static int set_text(struct ft_rec *r, const struct ft_field *f, const json_t *j)
{
	struct ft_str *field = (struct ft_str *)(r->buf + f->off);
	const json_t *item;
	size_t i;

	if (f->type == FT_T_c16)
		return get_chars(j, r->buf + f->off, f->size);
	if (f->type == FT_T_str) {
		if (!json_is_string(j))
			return -EBADMSG;
		tail_add(r, field, j, false);
		return 0;
	}
	if (!json_is_array(j))
		return -EBADMSG;
	json_array_foreach(j, i, item) {
		if (!json_is_string(item))
			return -EBADMSG;
		tail_add(r, field, item, true);
	}
	return 0;
}

int ft_ip_parse(const char *text, uint8_t out[16])
{
	uint8_t ip[16] = { [10] = 0xff, [11] = 0xff };

	if (inet_pton(AF_INET, text, ip + 12) != 1 && inet_pton(AF_INET6, text, ip) != 1)
		return -EBADMSG;
	memcpy(out, ip, sizeof(ip));
	return 0;
}

static int set_addr(struct ft_rec *r, const struct ft_field *f, const json_t *j)
{
	const char *s = json_string_value(j);

	return s ? ft_ip_parse(s, (uint8_t *)r->buf + f->off) : -EBADMSG;
}

static int value_of_text(const struct ft_field *f, const char *s, uint64_t *out)
{
	for (const struct ft_name *n = f->format->names; n && n->name; n++) {
		if (strcmp(n->name, s) != 0)
			continue;
		*out = n->value;
		return 0;
	}
	return ft_parse_u64(s, out) ? -EBADMSG : 0;
}

static int set_number(struct ft_rec *r, const struct ft_field *f, const json_t *j)
{
	bool is_signed = f->type == FT_T_s32 || f->type == FT_T_s64;
	uint64_t v, max = UINT64_MAX >> (64 - 8 * f->size);
	int64_t s;

	if (json_is_string(j)) {
		if (value_of_text(f, json_string_value(j), &v))
			return -EBADMSG;
	} else if (json_is_boolean(j)) {
		v = json_is_true(j);
	} else if (json_is_integer(j)) {
		v = json_integer_value(j);
	} else {
		return -EBADMSG;
	}
	s = (int64_t)v;
	if (is_signed ? f->size == 4 && (s < INT32_MIN || s > INT32_MAX) : v > max)
		return -EBADMSG;
	memcpy(r->buf + f->off, &v, f->size); /* little endian only, as in ft_field_get() */
	return 0;
}

static const json_t *member(const json_t *data, const char *name)
{
	const char *sep = strstr(name, "__");
	char group[64];

	if (!sep)
		return json_object_get(data, name);
	ft_fmt(group, "%.*s", (int)(sep - name), name);
	return json_object_get(json_object_get(data, group), sep + 2);
}

static int set_data(struct ft_rec *r, const struct ft_kind_info *k, const json_t *data)
{
	size_t n;
	const struct ft_field *f = k->fields(&n);

	if (!json_is_object(data))
		return -EBADMSG;
	for (size_t i = 0; i < n; i++) {
		const json_t *j = member(data, f[i].name);
		int err;

		if (!j || json_is_null(j) || !strcmp(f[i].format->name, "hidden"))
			continue;
		err = f[i].type == FT_T_ip    ? set_addr(r, &f[i], j)
		      : f[i].type >= FT_T_c16 ? set_text(r, &f[i], j)
					      : set_number(r, &f[i], j);
		if (err)
			return err;
	}
	if (r->h.first_ns)
		r->h.flags |= FT_REC_AGG;
	return 0;
}

/* --- the envelope --- */

static int get_how(const json_t *list, uint32_t *out)
{
	const json_t *j;
	size_t i;

	json_array_foreach(list, i, j) {
		const char *s = json_string_value(j);

		for (unsigned int bit = 0; s && ft_how_name(bit); bit++)
			if (!strcmp(ft_how_name(bit), s))
				*out |= 1u << bit;
	}
	return 0;
}

static int get_ranks(const json_t *list, struct ft_attr *a)
{
	const json_t *j;
	size_t i;

	json_array_foreach(list, i, j) {
		struct ft_attr_rank *r = &a->ranks[a->nranks];
		int64_t rank = -1, nranks = -1, global = -1;

		if (i == FT_ATTR_MAX)
			break;
		*r = (struct ft_attr_rank){};
		if (get_text_u64(json_object_get(j, "comm"), &r->comm) ||
		    get_int(json_object_get(j, "rank"), 0, INT32_MAX, &rank) ||
		    get_int(json_object_get(j, "nranks"), 0, INT32_MAX, &nranks) ||
		    get_int(json_object_get(j, "global_rank"), 0, INT32_MAX, &global))
			return -EBADMSG;
		r->rank = rank;
		r->nranks = nranks;
		r->global_rank = global;
		a->nranks++;
	}
	return 0;
}

static int get_gpus(const json_t *list, struct ft_attr *a)
{
	const json_t *j;
	size_t i;

	json_array_foreach(list, i, j) {
		struct ft_attr_gpu *g = &a->gpus[a->ngpus];
		int64_t index = -1;

		if (i == FT_ATTR_MAX)
			break;
		if (get_int(json_object_get(j, "index"), 0, INT32_MAX, &index) ||
		    get_cstr(json_object_get(j, "bdf"), g->bdf, sizeof(g->bdf)))
			return -EBADMSG;
		g->index = index;
		a->ngpus++;
	}
	return 0;
}

static int get_nics(const json_t *list, struct ft_attr *a)
{
	const json_t *j;
	size_t i;

	json_array_foreach(list, i, j) {
		struct ft_attr_nic *n = &a->nics[a->nnics];
		int64_t port = -1;

		if (i == FT_ATTR_MAX)
			break;
		if (get_cstr(json_object_get(j, "netdev"), n->netdev, sizeof(n->netdev)) ||
		    get_cstr(json_object_get(j, "ibdev"), n->ibdev, sizeof(n->ibdev)) ||
		    get_cstr(json_object_get(j, "bdf"), n->bdf, sizeof(n->bdf)) ||
		    get_int(json_object_get(j, "port"), 0, INT32_MAX, &port))
			return -EBADMSG;
		n->port = port;
		a->nnics++;
	}
	return 0;
}

static int get_links(const json_t *list, struct ft_attr *a)
{
	const json_t *j;
	size_t i;

	json_array_foreach(list, i, j) {
		if (i == FT_ATTR_MAX)
			break;
		if (get_cstr(j, a->links[i], sizeof(a->links[i])))
			return -EBADMSG;
		a->nlinks++;
	}
	return 0;
}

static int get_severity(const json_t *j, uint8_t *out)
{
	const char *s = json_string_value(j);

	for (int i = FT_INFO; i <= FT_FATAL; i++) {
		if (!s || strcmp(ft_severity_name[i], s) != 0)
			continue;
		*out = i;
		return 0;
	}
	return -EBADMSG;
}

static int get_attr(const json_t *line, struct ft_attr *a)
{
	static const struct {
		const char *name;
		int (*get)(const json_t *, struct ft_attr *);
	} lists[] = { { "ranks", get_ranks },
		      { "gpus", get_gpus },
		      { "nics", get_nics },
		      { "links", get_links } };

	*a = (struct ft_attr){};
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (lists[i].get(json_object_get(line, lists[i].name), a))
			return -EBADMSG;
	a->shared = json_is_true(json_object_get(line, "shared"));
	get_how(json_object_get(line, "how"), &a->how);
	if (get_severity(json_object_get(line, "severity"), &a->severity))
		return -EBADMSG;
	return get_cstr(json_object_get(line, "container"), a->container, sizeof(a->container));
}

static int get_head(const json_t *line, struct ft_hdr *h)
{
	uint64_t ts = 0, first = 0, last = 0;
	int64_t pid = 0, count = 1;

	if (get_text_u64(json_object_get(line, "ts_ns"), &ts) ||
	    get_text_u64(json_object_get(line, "first_ts_ns"), &first) ||
	    get_text_u64(json_object_get(line, "last_ts_ns"), &last) ||
	    get_int(json_object_get(line, "pid"), 1, UINT32_MAX, &pid) ||
	    get_int(json_object_get(line, "count"), 1, UINT32_MAX, &count) ||
	    get_chars(json_object_get(line, "task"), h->task, sizeof(h->task)) ||
	    get_how(json_object_get(line, "how"), &h->how))
		return -EBADMSG;
	h->ts_ns = ts;
	h->first_ns = first;
	h->last_ns = last;
	h->pid = pid;
	h->count = count;
	if (json_is_true(json_object_get(line, "late")))
		h->flags |= FT_REC_LATE;
	if (json_is_true(json_object_get(line, "before_attach")))
		h->flags |= FT_REC_BEFORE;
	if (json_is_true(json_object_get(line, "shared")))
		h->flags |= FT_REC_SHARED;
	return 0;
}

int ft_json_parse(const char *line, size_t len, struct ft_rec *out, struct ft_attr *attr)
{
	_cleanup_json_ json_t *j = json_loadb(line, len, JSON_ALLOW_NUL, NULL);
	_cleanup_free_ struct ft_attr *a = malloc(sizeof(*a));
	_cleanup_free_ struct ft_rec *r = malloc(sizeof(*r));
	const struct ft_kind_info *k;
	const char *name;

	if (!a || !r)
		return -ENOMEM;
	if (!json_is_object(j))
		return -EBADMSG;
	name = json_string_value(json_object_get(j, "kind"));
	k = name ? ft_kind_by_name(name) : NULL;
	if (!k || json_integer_value(json_object_get(j, "v")) != 1)
		return -EPROTO;
	ft_rec_new(r, k->kind, 0);
	if (get_head(j, &r->h) || set_data(r, k, json_object_get(j, "data")) || get_attr(j, a))
		return -EBADMSG;
	memcpy(out, r, r->h.size);
	if (attr)
		*attr = *a;
	return 0;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Building and checking records. */
#include "event/event.h"

static bool is_text(const struct ft_field *f)
{
	return f->type == FT_T_str || f->type == FT_T_strs;
}

static const void *field_at(const struct ft_field *f, const struct ft_hdr *ev)
{
	return (const char *)ev + f->off;
}

int ft_rec_check(const void *buf, size_t len)
{
	const struct ft_hdr *h = buf;
	const struct ft_kind_info *k;
	const struct ft_field *f;
	size_t n;

	if (len < sizeof(*h) || len > FT_REC_MAX || (uintptr_t)buf % 8)
		return -EBADMSG;
	k = ft_kind(h->kind);
	if (!k)
		return -EPROTO;
	if (h->size != len || len < k->size || !h->count)
		return -EBADMSG;
	f = k->fields(&n);
	for (size_t i = 0; i < n; i++) {
		const struct ft_str *s = field_at(&f[i], h);

		if (!is_text(&f[i]) || !s->len)
			continue;
		if (s->off < k->size || s->off > len || s->len > len - s->off)
			return -EBADMSG;
	}
	return 0;
}

bool ft_field_get(const struct ft_field *f, const struct ft_hdr *ev, uint64_t *out)
{
	uint64_t v = 0, none = UINT64_MAX >> (64 - 8 * MIN(f->size, 8));

	if (f->size > 8 || f->type == FT_T_str || f->type == FT_T_strs)
		return false;
	if (f->role == FT_ROLE_VARIES && (ev->flags & FT_REC_AGG))
		return false;
	memcpy(&v, field_at(f, ev), f->size); /* little endian only, as all our targets are */
	if (f->type == FT_T_s32 || f->type == FT_T_s64) {
		none = 1ull << (8 * f->size - 1);
		if (v == none)
			return false;
		*out = f->type == FT_T_s32 ? (uint64_t)(int64_t)(int32_t)v : v;
		return true;
	}
	if (v == none)
		return false;
	*out = v;
	return true;
}

const char *ft_field_text(const struct ft_field *f, const struct ft_hdr *ev, size_t *len)
{
	const char *p = field_at(f, ev);

	*len = 0;
	if (f->role == FT_ROLE_VARIES && (ev->flags & FT_REC_AGG))
		return p;
	if (f->type == FT_T_c16) {
		*len = strnlen(p, f->size);
		return p;
	}
	if (!is_text(f))
		return p;
	return ft_str_get(ev, *(const struct ft_str *)p, len);
}

bool ft_str_is(const struct ft_hdr *ev, struct ft_str s, const char *text)
{
	return s.len == strlen(text) && !memcmp((const char *)ev + s.off, text, s.len);
}

char *ft_str_copy(const struct ft_hdr *ev, struct ft_str s, char *dst, size_t size)
{
	size_t len = MIN((size_t)s.len, size - 1);

	memcpy(dst, (const char *)ev + s.off, len);
	dst[len] = 0;
	return dst;
}

void *ft_rec_new(struct ft_rec *rec, enum ft_kind kind, uint64_t ts_ns)
{
	const struct ft_kind_info *k = ft_kind(kind);
	const struct ft_field *f;
	size_t n;

	memset(rec->buf, 0, k->size);
	rec->h = (struct ft_hdr){ .ts_ns = ts_ns, .kind = kind, .size = k->size, .count = 1 };
	f = k->fields(&n);
	for (size_t i = 0; i < n; i++) {
		char *p = rec->buf + f[i].off;

		if (f[i].type == FT_T_s32)
			*(int32_t *)p = FT_NONE_S32;
		else if (f[i].type == FT_T_s64)
			*(int64_t *)p = INT64_MIN;
		else if (f[i].type <= FT_T_u64 && strcmp(f[i].format->name, "hidden") != 0)
			memset(p, 0xff, f[i].size);
	}
	return rec->buf;
}

void ft_rec_str(struct ft_rec *rec, struct ft_str *field, const char *s)
{
	size_t len = MIN(strlen(s), (size_t)FT_REC_MAX - rec->h.size);

	*field = (struct ft_str){ .off = rec->h.size, .len = len };
	memcpy(rec->buf + rec->h.size, s, len);
	rec->h.size += len;
}

void ft_rec_strs_add(struct ft_rec *rec, struct ft_str *field, const char *s)
{
	size_t len = strlen(s) + 1;

	/* Elements end with a NUL each; one that does not fit whole is left out. */
	if (len > (size_t)FT_REC_MAX - rec->h.size)
		return;
	if (!field->len)
		field->off = rec->h.size;
	memcpy(rec->buf + rec->h.size, s, len);
	rec->h.size += len;
	field->len += len;
}

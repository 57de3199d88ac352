/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Random well-formed records of any kind, the same in every run. */
#ifndef FT_TESTS_RANDOM_REC_H
#define FT_TESTS_RANDOM_REC_H

#include "event/event.h"

static uint64_t rnd_state = 88172645463325252ull;

static uint64_t rnd(void)
{
	rnd_state ^= rnd_state << 13;
	rnd_state ^= rnd_state >> 7;
	rnd_state ^= rnd_state << 17;
	return rnd_state;
}

static void rnd_text(char *s, size_t max)
{
	static const char letters[] = "abcXYZ019_-./: \"\\\t\x7f\xc3\xa9";
	size_t n = rnd() % max;

	for (size_t i = 0; i < n; i++)
		s[i] = letters[rnd() % (sizeof(letters) -
					3)]; /* ASCII only: a cut sequence is no round trip */
	s[n] = 0;
	if (n > 2 && rnd() % 4 == 0)
		memcpy(s + n - 2, "\xc3\xa9", 2);
}

static void rnd_field(struct ft_rec *r, const struct ft_field *f)
{
	char text[24];
	uint64_t v = rnd();

	if (!strcmp(f->format->name, "hidden") || rnd() % 4 == 0)
		return; /* unknown */
	if (f->type == FT_T_str) {
		rnd_text(text, sizeof(text));
		ft_rec_str(r, (struct ft_str *)(r->buf + f->off), text);
	} else if (f->type == FT_T_strs) {
		for (int i = rnd() % 4; i > 0; i--) {
			rnd_text(text, sizeof(text));
			ft_rec_strs_add(r, (struct ft_str *)(r->buf + f->off), text);
		}
	} else if (f->type == FT_T_c16) {
		rnd_text(text, 16);
		memcpy(r->buf + f->off, text, strlen(text));
	} else if (f->type == FT_T_ip) {
		memset(r->buf + f->off, 0, 16);
		if (rnd() % 2)
			memset(r->buf + f->off + 10, 0xff, 2);
		else
			memcpy(r->buf + f->off, "\xfd\x00", 2);
		memcpy(r->buf + f->off + 12, &v, 4);
	} else {
		if (rnd() % 2)
			v %= 16; /* named values, flags */
		/* numbers in JSON stay below 2^53: larger ones are of format big or hex */
		if (f->size == 8 && !strcmp(f->format->name, "dec"))
			v = f->type == FT_T_s64 ? (uint64_t)((int64_t)(v << 11) >> 11) : v >> 11;
		memcpy(r->buf + f->off, &v, f->size);
	}
}

static void rnd_rec(struct ft_rec *r, unsigned int kind)
{
	size_t n;
	const struct ft_field *f = ft_kind(kind)->fields(&n);
	char text[16];

	ft_rec_new(r, kind, rnd() >> 1);
	r->h.pid = rnd() % 3 ? rnd() % 40000 : 0;
	rnd_text(text, sizeof(text));
	memcpy(r->h.task, text, strlen(text));
	r->h.how = rnd() & 0xffff;
	r->h.flags = (rnd() % 2 ? FT_REC_LATE : 0) | (rnd() % 2 ? FT_REC_BEFORE : 0) |
		     (rnd() % 2 ? FT_REC_SHARED : 0);
	if (rnd() % 3 == 0) {
		r->h.count = 2 + rnd() % 1000;
		r->h.first_ns = r->h.ts_ns - 1000 - rnd() % 1000;
		r->h.last_ns = r->h.ts_ns - rnd() % 1000;
		r->h.flags |= FT_REC_AGG;
	}
	for (size_t i = 0; i < n; i++)
		rnd_field(r, &f[i]);
}

#endif

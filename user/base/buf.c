// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "base/base.h"

void ft_buf_free(struct ft_buf *b)
{
	free(b->s);
	*b = (struct ft_buf){};
}

void ft_buf_reset(struct ft_buf *b)
{
	b->len = 0;
	b->err = 0;
	if (b->s)
		b->s[0] = 0;
}

static int buf_room(struct ft_buf *b, size_t more)
{
	size_t cap = b->cap ? b->cap : 256;
	char *s;

	if (b->err)
		return b->err;
	if (b->len + more < b->cap)
		return 0;
	while (cap <= b->len + more)
		cap *= 2;
	s = realloc(b->s, cap);
	if (!s)
		return b->err = -ENOMEM;
	b->s = s;
	b->cap = cap;
	return 0;
}

void ft_buf_add(struct ft_buf *b, const void *data, size_t len)
{
	if (buf_room(b, len))
		return;
	memcpy(b->s + b->len, data, len);
	b->len += len;
	b->s[b->len] = 0;
}

void ft_buf_puts(struct ft_buf *b, const char *s)
{
	ft_buf_add(b, s, strlen(s));
}

void ft_buf_printf(struct ft_buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	/* Nearly always there is room: formatted once. */
	if (buf_room(b, 32))
		return;
	va_start(ap, fmt);
	n = vsnprintf(b->s + b->len, b->cap - b->len, fmt, ap);
	va_end(ap);
	if (n >= 0 && (size_t)n >= b->cap - b->len) {
		b->s[b->len] = 0;
		if (buf_room(b, n))
			return;
		va_start(ap, fmt);
		n = vsnprintf(b->s + b->len, b->cap - b->len, fmt, ap);
		va_end(ap);
	}
	b->len += MAX(n, 0);
}

/* Length of the valid UTF-8 sequence at s, 0 when there is none. */
static size_t utf8_len(const unsigned char *s, size_t left)
{
	static const struct {
		unsigned char mask, lead, len, min2;
	} forms[] = { { 0x80, 0x00, 1, 0 },
		      { 0xe0, 0xc0, 2, 0 },
		      { 0xf0, 0xe0, 3, 0xa0 },
		      { 0xf8, 0xf0, 4, 0x90 } };

	for (size_t f = 0; f < ARRAY_SIZE(forms); f++) {
		size_t len = forms[f].len;

		if ((s[0] & forms[f].mask) != forms[f].lead)
			continue;
		if (len > left || s[0] == 0xc0 || s[0] == 0xc1 || s[0] > 0xf4)
			return 0;
		for (size_t i = 1; i < len; i++)
			if ((s[i] & 0xc0) != 0x80)
				return 0;
		/* overlong forms, surrogates, beyond U+10FFFF */
		if ((s[0] == 0xe0 || s[0] == 0xf0) && s[1] < forms[f].min2)
			return 0;
		if ((s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf4 && s[1] > 0x8f))
			return 0;
		return len;
	}
	return 0;
}

void ft_buf_json_str(struct ft_buf *b, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;

	ft_buf_add(b, "\"", 1);
	for (size_t i = 0; i < len;) {
		size_t n = utf8_len(p + i, len - i);

		if (!n)
			ft_buf_puts(b, "\\ufffd");
		else if (p[i] == '"' || p[i] == '\\')
			ft_buf_printf(b, "\\%c", p[i]);
		else if (p[i] < 0x20 || p[i] == 0x7f)
			ft_buf_printf(b, "\\u%04x", p[i]);
		else
			ft_buf_add(b, p + i, n);
		i += n ? n : 1;
	}
	ft_buf_add(b, "\"", 1);
}

void ft_buf_escape(struct ft_buf *b, const char *s, size_t len)
{
	const unsigned char *p = (const unsigned char *)s;

	for (size_t i = 0; i < len;) {
		size_t n = utf8_len(p + i, len - i);
		/* C1 controls (U+0080..9f) drive terminals as well */
		bool c1 = n == 2 && p[i] == 0xc2 && p[i + 1] < 0xa0;

		if (!n || c1 || p[i] < 0x20 || p[i] == 0x7f)
			for (size_t k = 0; k < (n ? n : 1); k++)
				ft_buf_printf(b, "\\x%02x", p[i + k]);
		else
			ft_buf_add(b, p + i, n);
		i += n ? n : 1;
	}
}

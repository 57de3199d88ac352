// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Words that lines are made of. All that comes from the kernel or a process is escaped. */
#include <arpa/inet.h>
#include <time.h>

#include "output/internal.h"

/* Columns, taking each code point as one: what is shown is ASCII but for file and process names. */
size_t text_width(const char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += ((unsigned char)s[i] & 0xc0) != 0x80;
	return n;
}

static size_t bytes_of_columns(const char *s, size_t len, size_t columns)
{
	size_t i = 0;

	for (size_t n = 0; i < len; i++) {
		if (((unsigned char)s[i] & 0xc0) != 0x80 && n++ == columns)
			break;
	}
	return i;
}

void text_cut(struct ft_buf *b, size_t from, size_t columns)
{
	if (b->err || b->len <= from || text_width(b->s + from, b->len - from) <= columns)
		return;
	b->len = from + bytes_of_columns(b->s + from, b->len - from, columns - 2);
	ft_buf_puts(b, "..");
}

void text_fit(struct ft_buf *b, size_t from, const struct ft_style *style)
{
	if (!style->full)
		text_cut(b, from, WIDTH);
}

void text_str(struct ft_buf *b, const struct ft_hdr *ev, struct ft_str s)
{
	size_t len;
	const char *text = ft_str_get(ev, s, &len);

	ft_buf_escape(b, text, len);
}

void text_chars(struct ft_buf *b, const char *s, size_t size)
{
	ft_buf_escape(b, s, strnlen(s, size));
}

static int number(const struct ft_attr_rank *r)
{
	return r->global_rank >= 0 ? r->global_rank : r->rank;
}

void text_numbers(struct ft_buf *b, const struct ft_attr_rank *r, size_t n)
{
	for (size_t i = 0, k; i < n; i = k + 1) {
		for (k = i; k + 1 < n && number(&r[k + 1]) == number(&r[k]) + 1; k++)
			;
		if (number(&r[i]) < 0)
			ft_buf_printf(b, "%s?", i ? "," : "");
		else
			ft_buf_printf(b, "%s%d", i ? "," : "", number(&r[i]));
		if (k > i)
			ft_buf_printf(b, "%s%d", k > i + 1 ? "-" : ",", number(&r[k]));
	}
}

/* "rank 2", "ranks 0-7", with a "?" when it may be any of them. */
void text_ranks(struct ft_buf *b, const struct ft_attr_rank *r, size_t n, bool shared)
{
	ft_buf_puts(b, n > 1 ? "ranks " : "rank ");
	text_numbers(b, r, n);
	if (shared && n > 1)
		ft_buf_puts(b, "?");
}

void text_who(struct ft_buf *b, const struct ft_hdr *ev, const struct ft_attr *attr)
{
	if (attr->nranks) {
		text_ranks(b, attr->ranks, attr->nranks, attr->shared);
	} else if (ev->pid) {
		ft_buf_printf(b, "pid %u ", ev->pid);
		text_chars(b, ev->task, sizeof(ev->task));
	} else {
		ft_buf_puts(b, "?");
	}
}

void text_addr(struct ft_buf *b, const uint8_t ip[16], uint16_t port)
{
	static const uint8_t none[16], mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool v4 = !memcmp(ip, mapped, sizeof(mapped));
	char text[INET6_ADDRSTRLEN] = "?";

	if (memcmp(ip, none, sizeof(none)) != 0)
		inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? ip + 12 : ip, text, sizeof(text));
	ft_buf_puts(b, text);
	if (port && port != FT_NONE_U16)
		ft_buf_printf(b, ":%u", port);
}

void text_time(struct ft_buf *b, uint64_t real_ns, bool ms)
{
	time_t sec = real_ns / NSEC_PER_SEC;
	struct tm tm;
	char s[16];

	localtime_r(&sec, &tm);
	strftime(s, sizeof(s), "%H:%M:%S", &tm);
	ft_buf_puts(b, s);
	if (ms)
		ft_buf_printf(b, ".%03u", (unsigned int)(real_ns % NSEC_PER_SEC / NSEC_PER_MSEC));
}

void text_day(struct ft_buf *b, uint64_t real_ns, uint64_t now_ns)
{
	time_t sec = real_ns / NSEC_PER_SEC;
	struct tm tm;
	char s[16];

	if (now_ns < real_ns + 12 * 3600 * NSEC_PER_SEC)
		return;
	localtime_r(&sec, &tm);
	strftime(s, sizeof(s), "%Y-%m-%d ", &tm);
	ft_buf_puts(b, s);
}

void text_count(struct ft_buf *b, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			ft_buf_puts(b, ",");
		ft_buf_add(b, digits + i, 1);
	}
}

#define LABEL 12 /* columns before the text */

/* Bytes of text for one line: up to the last blank that fits, all when there is none. */
static size_t line_bytes(const char *s, size_t len, size_t columns)
{
	size_t fit = bytes_of_columns(s, len, columns), cut = fit;

	if (fit == len)
		return len;
	while (cut && s[cut] != ' ')
		cut--;
	return cut ? cut : fit;
}

/* The rest of a line that is too long goes below it. */
void text_continue(struct ft_buf *b, size_t from, size_t indent)
{
	_cleanup_buf_ struct ft_buf rest = {};
	size_t len = b->len - from, n;

	if (b->err || text_width(b->s + from, len) <= WIDTH)
		return;
	n = line_bytes(b->s + from, len, WIDTH);
	ft_buf_add(&rest, b->s + from + n, len - n);
	b->len = from + n;
	for (size_t i = 0; i < rest.len; i += n) {
		i += strspn(rest.s + i, " ");
		if (i == rest.len)
			return;
		while (b->len > from && b->s[b->len - 1] == ' ')
			b->len--;
		ft_buf_printf(b, "\n%*s", (int)indent, "");
		n = line_bytes(rest.s + i, rest.len - i, WIDTH - indent);
		ft_buf_add(b, rest.s + i, n);
	}
}

void text_wrapped(struct ft_buf *b, const char *label, const char *text, size_t len)
{
	for (size_t i = 0; i < len;) {
		size_t n = line_bytes(text + i, len - i, WIDTH - LABEL), shown = n;

		while (shown && text[i + shown - 1] == ' ')
			shown--;
		ft_buf_printf(b, "%-*s", LABEL, label);
		ft_buf_add(b, text + i, shown);
		ft_buf_puts(b, "\n");
		label = "";
		for (i += n; i < len && text[i] == ' '; i++)
			;
	}
}

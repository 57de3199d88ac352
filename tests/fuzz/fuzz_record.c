// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Bytes as they might stand in a ring buffer or a recording: what the check accepts can be
 * encoded, and the line comes back as the same line.
 */
#include <stdint.h>

#include "event/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* jansson holds no integer above INT64_MAX: such a line is refused when it is read. */
static bool has_huge_number(const struct ft_hdr *ev)
{
	size_t n;
	const struct ft_field *f = ft_kind(ev->kind)->fields(&n);
	uint64_t v;

	for (size_t i = 0; i < n; i++)
		if (f[i].type == FT_T_u64 && ft_field_get(&f[i], ev, &v) && v > INT64_MAX)
			return true;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ft_clock clock;
	struct ft_rec rec, back;
	struct ft_buf a = {}, b = {}, c = {};

	if (size > sizeof(rec))
		return 0;
	memcpy(&rec, data, size);
	/* Sizes that cannot be right would hide the rest. */
	if (size >= sizeof(rec.h))
		rec.h.size = size;
	if (ft_rec_check(&rec, size))
		return 0;
	ft_json_event(&a, &rec.h, NULL, "host", &clock);
	if (!ft_json_parse(a.s, a.len, &back, NULL)) {
		/*
		 * Replaced bytes make texts longer, so that they may be cut: stable from the
		 * second time on.
		 */
		if (ft_rec_check(&back, back.h.size))
			abort();
		ft_json_event(&b, &back.h, NULL, "host", &clock);
		if (ft_json_parse(b.s, b.len, &back, NULL))
			abort();
		ft_json_event(&c, &back.h, NULL, "host", &clock);
		if (b.len != c.len || memcmp(b.s, c.s, b.len) != 0)
			abort();
	} else if (!has_huge_number(&rec.h)) {
		abort();
	}
	ft_buf_free(&a);
	ft_buf_free(&b);
	ft_buf_free(&c);
	return 0;
}

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Lines as they might stand in a file: what is accepted is a record, and its line is read again. */
#include <stdint.h>

#include "event/event.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ft_clock clock;
	static struct ft_attr attr, again;
	struct ft_rec rec, back;
	struct ft_buf a = {};

	if (ft_json_parse((const char *)data, size, &rec, &attr))
		return 0;
	if (ft_rec_check(&rec, rec.h.size) || attr.nranks > FT_ATTR_MAX ||
	    attr.ngpus > FT_ATTR_MAX || attr.nnics > FT_ATTR_MAX || attr.nlinks > FT_ATTR_MAX)
		abort();
	ft_json_event(&a, &rec.h, &attr, "host", &clock);
	/* A u64 given as text may be written as a number that is too large to be read. */
	if (ft_json_parse(a.s, a.len, &back, &again) == -EPROTO)
		abort();
	ft_buf_free(&a);
	return 0;
}

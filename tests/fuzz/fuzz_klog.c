// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Lines of /dev/kmsg: user space says nothing, addresses are whole, every record is well-formed. */
#include <stdint.h>

#include "source/klog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const char *s)
{
	unsigned int domain, bus, dev, fn;
	char again[32];

	if (sscanf(s, "%x:%x:%x.%x", &domain, &bus, &dev, &fn) != 4)
		abort();
	ft_fmt(again, "%04x:%02x:%02x.%x", domain, bus, dev, fn);
	if (strcmp(s, again) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct ft_clock clock;
	struct ft_klog_fact f;
	struct ft_rec rec, back;
	struct ft_buf json = {};

	if (ft_klog_parse((const char *)data, size, &f) || !f.kind)
		return 0;
	if (strtoull((const char *)data, NULL, 10) >= 8)
		abort();
	check_address(f.bdf);
	if (f.part != FT_KLOG_WHOLE)
		return 0;
	klog_rec(&f, 1, true, "", &rec);
	if (ft_rec_check(&rec, rec.h.size) || !klog_same(&f, &f))
		abort();
	ft_json_event(&json, &rec.h, NULL, "host", &clock);
	for (size_t i = 0; i < json.len; i++)
		if ((unsigned char)json.s[i] < ' ')
			abort();
	if (ft_json_parse(json.s, json.len, &back, NULL))
		abort();
	ft_buf_free(&json);
	return 0;
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Lines of the kernel log as dev_printk() makes them. */
#ifndef FT_TEST_KLOG_H
#define FT_TEST_KLOG_H

#include "base/base.h"

#define BDF_LEN 12 /* 0000:41:00.0 */

/* Names the device of "DRIVER BDF: .." behind the line, unless it is named already. */
static inline void klog_tagged(const char *line, char *out, size_t size)
{
	const char *text = strchr(line, ';'), *space = strchr(text ? text : line, ' ');
	unsigned int domain, bus, dev, fn;
	size_t len;

	ft_strcpy(out, line, size);
	if (!space || strstr(line, "DEVICE=") || strlen(space + 1) < BDF_LEN ||
	    sscanf(space + 1, "%4x:%2x:%2x.%1x", &domain, &bus, &dev, &fn) != 4)
		return;
	len = strcspn(out, "\n");
	snprintf(out + len, size - len, "\n SUBSYSTEM=pci\n DEVICE=+pci:%.*s\n", BDF_LEN,
		 space + 1);
}

#endif

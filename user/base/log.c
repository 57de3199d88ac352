// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "base/base.h"

int ft_verbose;

static __printf(2, 0) void say(const char *level, const char *fmt, va_list ap)
{
	char line[1024];
	struct ft_buf b = {};

	vsnprintf(line, sizeof(line), fmt, ap);
	ft_buf_escape(&b, line, strlen(line));
	fprintf(stderr, "fabrictrace: %s%s\n", level, b.s ? b.s : "");
	ft_buf_free(&b);
}

#define SAY(name, level, min)                                                                      \
	void name(const char *fmt, ...)                                                            \
	{                                                                                          \
		va_list ap;                                                                        \
                                                                                                   \
		if (ft_verbose < (min))                                                            \
			return;                                                                    \
		va_start(ap, fmt);                                                                 \
		say(level, fmt, ap);                                                               \
		va_end(ap);                                                                        \
	}

SAY(ft_err, "", -1)
SAY(ft_warn, "warning: ", 0)
SAY(ft_info, "", 1)

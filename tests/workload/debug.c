/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* NCCL's log: the line formats of 2.28 and the buffer of the last error. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm.h"

char ncclLastError[1024];
int debug_level;
__thread int debug_device;

static void __attribute__((constructor)) debug_init(void)
{
	static const char *const names[] = { "", "VERSION", "WARN", "INFO", "ABORT", "TRACE" };
	const char *level = getenv("NCCL_DEBUG");

	for (int i = 0; level && i < 6; i++)
		if (!strcasecmp(level, names[i]))
			debug_level = i;
}

static size_t prefix(char *buf, size_t size, int level, const char *filefunc, int line)
{
	char host[64] = "", stamp[32];
	const char *file = strrchr(filefunc, '/');
	time_t now = time(NULL);
	struct tm tm;
	int n;

	if (level == LOG_VERSION)
		return 0;
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	if (level != LOG_WARN) {
		n = snprintf(buf, size, "%s:%d:%d [%d] NCCL INFO ", host, getpid(), gettid(),
			     debug_device);
		return n;
	}
	/* A time stamp on WARN lines only is the default from 2.27 on. */
	strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", localtime_r(&now, &tm));
	n = snprintf(buf, size, "\n[%s] %s:%d:%d [%d] %s:%d NCCL WARN ", stamp, host, getpid(),
		     gettid(), debug_device, file ? file + 1 : filefunc, line);
	return n;
}

void ncclDebugLog(int level, unsigned long flags, const char *filefunc, int line, const char *fmt,
		  ...)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	char buf[1400];
	size_t len;
	va_list ap;

	(void)flags;
	/* Only warnings are kept as the last error, whatever NCCL_DEBUG says. */
	if (level == LOG_WARN) {
		pthread_mutex_lock(&lock);
		va_start(ap, fmt);
		vsnprintf(ncclLastError, sizeof(ncclLastError), fmt, ap);
		va_end(ap);
		pthread_mutex_unlock(&lock);
	}
	if (debug_level < level)
		return;
	len = prefix(buf, sizeof(buf), level, filefunc, line);
	va_start(ap, fmt);
	vsnprintf(buf + len, sizeof(buf) - len, fmt, ap);
	va_end(ap);
	printf("%s\n", buf);
	fflush(stdout);
}

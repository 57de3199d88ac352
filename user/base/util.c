// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>
#include <time.h>

#include "base/base.h"

void ft_strcpy(char *dst, const char *src, size_t size)
{
	size_t len = strnlen(src, size - 1);

	memcpy(dst, src, len);
	dst[len] = 0;
}

ssize_t ft_read_file(const char *root, const char *path, size_t max, char **out)
{
	_cleanup_buf_ struct ft_buf full = {}, text = {};
	_cleanup_close_ int fd = -1;
	char chunk[4096];
	ssize_t n;

	ft_buf_printf(&full, "%s%s", root, path);
	if (full.err)
		return full.err;
	fd = open(full.s, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	ft_buf_puts(&text, "");
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		if (text.len + n > max)
			return -EFBIG;
		ft_buf_add(&text, chunk, n);
	}
	if (n < 0)
		return -errno;
	if (text.err)
		return text.err;
	*out = ft_take_ptr(text.s);
	return text.len;
}

int ft_read_line(const char *root, const char *path, char *out, size_t size)
{
	_cleanup_free_ char *text = NULL;
	ssize_t n = ft_read_file(root, path, 65536, &text);

	if (n < 0)
		return n;
	text[strcspn(text, "\n")] = 0;
	ft_strcpy(out, text, size);
	return 0;
}

int ft_parse_u64(const char *s, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(s, &end, s[0] == '0' && s[1] == 'x' ? 16 : 10);
	if (errno)
		return -errno;
	if (*end)
		return -EINVAL;
	*out = v;
	return 0;
}

int ft_read_u64(const char *root, const char *path, uint64_t *out)
{
	char line[64];
	int err = ft_read_line(root, path, line, sizeof(line));

	return err ? err : ft_parse_u64(line, out);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

uint64_t ft_mono_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

uint64_t ft_real_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

int64_t ft_clock_offset(void)
{
	int64_t best = 0;
	uint64_t width = UINT64_MAX;

	/*
	 * The tightest of a few brackets: a preemption between the reads would look like a clock
	 * step.
	 */
	for (int i = 0; i < 5; i++) {
		uint64_t a = ft_mono_ns(), r = ft_real_ns(), b = ft_mono_ns();

		if (b - a >= width)
			continue;
		width = b - a;
		best = (int64_t)(r - a - width / 2);
	}
	return best;
}

void ft_time_iso(uint64_t real_ns, char out[32])
{
	time_t sec = real_ns / NSEC_PER_SEC;
	struct tm tm;

	gmtime_r(&sec, &tm);
	strftime(out, 32, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out + 19, 13, ".%09uZ", (unsigned int)(real_ns % NSEC_PER_SEC));
}

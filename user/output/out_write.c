// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <poll.h>

#include "output/internal.h"

#define HOLD_BYTES 65536

static int write_all(int fd, const char *s, size_t len)
{
	while (len) {
		ssize_t n = write(fd, s, len);

		if (n < 0 && errno == EAGAIN) {
			/* A terminal or pipe that somebody set non-blocking. */
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			if (poll(&p, 1, -1) < 0 && errno != EINTR)
				return -errno;
			continue;
		}
		if (n < 0 && errno != EINTR)
			return -errno;
		s += MAX(n, 0);
		len -= MAX(n, 0);
	}
	return 0;
}

int writer_flush(struct writer *w)
{
	if (!w->err && w->buf.err)
		w->err = w->buf.err;
	if (!w->err && w->buf.len)
		w->err = write_all(w->fd, w->buf.s, w->buf.len);
	ft_buf_reset(&w->buf);
	return w->err;
}

int writer_commit(struct writer *w)
{
	if (w->err || w->buf.err || w->buf.len >= HOLD_BYTES)
		return writer_flush(w);
	return 0;
}

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What every room uses: cleanup attributes, small macros, errors, log, text buffer, clock. */
#ifndef FT_BASE_H
#define FT_BASE_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	      (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b)	      ((a) < (b) ? (a) : (b))
#define MAX(a, b)	      ((a) > (b) ? (a) : (b))
#define container_of(p, t, m) ((t *)((char *)(p)-offsetof(t, m)))
#define NSEC_PER_SEC	      1000000000ULL
#define NSEC_PER_MSEC	      1000000ULL
#define __printf(a, b)	      __attribute__((format(printf, a, b)))
#define _cleanup_(f)	      __attribute__((cleanup(f)))

static inline void ft_freep(void *p)
{
	free(*(void **)p);
}

static inline void ft_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void ft_fclosep(FILE **f)
{
	if (*f)
		fclose(*f);
}

#define _cleanup_free_	_cleanup_(ft_freep)
#define _cleanup_close_ _cleanup_(ft_closep)
#define _cleanup_file_	_cleanup_(ft_fclosep)

#define ft_take_ptr(p)                                                                             \
	({                                                                                         \
		__typeof__(p) __p = (p);                                                           \
		(p) = NULL;                                                                        \
		__p;                                                                               \
	})
#define ft_take_fd(fd)                                                                             \
	({                                                                                         \
		int __fd = (fd);                                                                   \
		(fd) = -1;                                                                         \
		__fd;                                                                              \
	})

/* Exit statuses of the program, after sysexits.h. */
enum ft_exit {
	FT_EXIT_OK = 0,
	FT_EXIT_USAGE = 64,
	FT_EXIT_NOTARGET = 66,
	FT_EXIT_UNAVAILABLE = 69,
	FT_EXIT_INTERNAL = 70,
	FT_EXIT_NOPERM = 77,
};

/* --- messages to stderr: what failed, on what, why, what to do --- */
extern int ft_verbose; /* -1 quiet, 0 normal, 1.. -v */

void ft_err(const char *fmt, ...) __printf(1, 2);
void ft_warn(const char *fmt, ...) __printf(1, 2);
void ft_info(const char *fmt, ...) __printf(1, 2); /* shown with -v */

/* "1 process", "2 processes": many is what a word gets for every number but one. */
static inline const char *ft_plural(uint64_t n, const char *many)
{
	return n == 1 ? "" : many;
}

/* --- growing text buffer; after a failed allocation `err` is set and the rest is ignored --- */
struct ft_buf {
	char *s;
	size_t len, cap;
	int err;
};

void ft_buf_free(struct ft_buf *b);
void ft_buf_reset(struct ft_buf *b);
void ft_buf_add(struct ft_buf *b, const void *data, size_t len);
void ft_buf_puts(struct ft_buf *b, const char *s);
void ft_buf_printf(struct ft_buf *b, const char *fmt, ...) __printf(2, 3);
/* A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. */
void ft_buf_json_str(struct ft_buf *b, const char *s, size_t len);
#define _cleanup_buf_ _cleanup_(ft_buf_free)

/* Text for a terminal: control characters and bytes that are no UTF-8 escaped as \xNN. */
void ft_buf_escape(struct ft_buf *b, const char *s, size_t len);

/* snprintf into an array, cut at its end. */
#define ft_fmt(array, ...) ((void)snprintf(array, sizeof(array), __VA_ARGS__))
/* Copy with termination, cut at size. */
void ft_strcpy(char *dst, const char *src, size_t size);

/*
 * Whole file below `root` ("" or "/" for the host), at most max bytes, terminated by a NUL that is
 * not counted. Returns its length or negative errno (-EFBIG when longer). *out is allocated.
 */
ssize_t ft_read_file(const char *root, const char *path, size_t max, char **out);
/* First line of a file as number or text; negative errno. */
int ft_read_u64(const char *root, const char *path, uint64_t *out);
int ft_read_line(const char *root, const char *path, char *out, size_t size);
/* Whole text is a number in base 10 (or 0x..); -EINVAL, -ERANGE otherwise. */
int ft_parse_u64(const char *s, uint64_t *out);

/* --- clock --- */
uint64_t ft_mono_ns(void);
uint64_t ft_real_ns(void);
/* Maps monotonic times to CLOCK_REALTIME for display; kept by whoever owns the session. */
struct ft_clock {
	int64_t offset_ns; /* realtime - monotonic */
};
/* Reads both clocks closely together. */
int64_t ft_clock_offset(void);
/* 2026-11-30T04:12:03.123456789Z */
void ft_time_iso(uint64_t real_ns, char out[32]);

/*
 * --- worker: calls that can block on a sick target run in a thread, with a deadline ---
 * Runs fn(arg) and waits at most timeout_ms for it. Returns fn's result, or -ETIMEDOUT; then the
 * thread goes on alone and release(arg) is called when it ends. arg must not be touched after
 * -ETIMEDOUT. At most FT_WORKERS_STUCK threads may be left so, then -EBUSY.
 */
#define FT_WORKERS_STUCK 16
int ft_worker_call(int (*fn)(void *), void (*release)(void *), void *arg, int timeout_ms);
/* A thread of its own, detached, that takes no signals. 0 or negative errno. */
int ft_thread_start(void *(*fn)(void *), void *arg);

#endif

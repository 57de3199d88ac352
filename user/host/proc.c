// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* Processes: pids, start times, descent. Nothing here can block on the process. */
#include <ctype.h>
#include <dirent.h>
#include <limits.h>

#include "host/fs.h"
#include "host/proc.h"

#define PF_KTHREAD 0x00200000u /* include/linux/sched.h, since 2.6.27 */

/* Fields of /proc/PID/stat, numbered as in proc(5). */
enum {
	STAT_PPID = 4,
	STAT_FLAGS = 9,
	STAT_THREADS = 20,
	STAT_START = 22,
	STAT_STACK = 28,
	STAT_ARGS = 48,
	STAT_ENV = 50,
	STAT_LAST = 52,
};

static int stat_parse(const char *text, struct ft_proc_stat *out)
{
	/* The name may hold anything, also ") ": it ends at the last parenthesis. */
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	uint64_t f[STAT_LAST + 1] = {};
	struct ft_proc_stat st = {};
	int last = 3;
	char *p;

	if (!open || !close || close < open || strlen(close) < 4)
		return -EBADMSG;
	ft_strcpy(st.comm, open + 1, MIN(sizeof(st.comm), (size_t)(close - open)));
	st.state = close[2];
	p = (char *)close + 3;
	while (last < STAT_LAST) {
		const char *begin = p;
		uint64_t v = strtoull(begin, &p, 10);

		if (p == begin)
			break;
		f[++last] = v;
	}
	if (last < STAT_START)
		return -EBADMSG;
	st.pid = strtoul(text, NULL, 10);
	st.ppid = f[STAT_PPID];
	st.threads = f[STAT_THREADS];
	st.kthread = f[STAT_FLAGS] & PF_KTHREAD;
	st.start_ns = f[STAT_START] * (NSEC_PER_SEC / sysconf(_SC_CLK_TCK));
	st.layout[0] = f[STAT_STACK];
	st.layout[1] = f[STAT_ARGS];
	st.layout[2] = f[STAT_ENV];
	*out = st;
	return 0;
}

int ft_proc_stat_read(const char *root, uint32_t pid, struct ft_proc_stat *out)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	ssize_t n;

	ft_fmt(path, "/proc/%u/stat", pid);
	n = ft_head_read(root, path, 4096, &text);
	if (n < 0)
		return n == -ENOENT ? -ESRCH : n;
	return stat_parse(text, out);
}

int ft_proc_tgid(const char *root, uint32_t tid, uint32_t *tgid)
{
	_cleanup_free_ char *text = NULL;
	char path[64], value[32];
	uint64_t v;
	ssize_t n;
	int err;

	/* /proc/TID of a thread is not listed but can be opened. */
	ft_fmt(path, "/proc/%u/status", tid);
	n = ft_head_read(root, path, 16384, &text);
	if (n < 0)
		return n == -ENOENT ? -ESRCH : n;
	if (!ft_line_value(text, "Tgid", value, sizeof(value)))
		return -EBADMSG;
	err = ft_parse_u64(value, &v);
	if (!err)
		*tgid = v;
	return err;
}

bool ft_proc_has_ended(const struct ft_proc_stat *st)
{
	return st->state == 'X' || (st->state == 'Z' && st->threads <= 1);
}

static int by_pid(const void *a, const void *b)
{
	const struct ft_proc_stat *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static int table_add(struct ft_proc_table *t, const struct ft_proc_stat *st)
{
	if (!(t->n & (t->n - 1))) {
		void *v = realloc(t->v, MAX(t->n * 2, (size_t)1) * sizeof(*t->v));

		if (!v)
			return -ENOMEM;
		t->v = v;
	}
	t->v[t->n++] = *st;
	return 0;
}

int ft_proc_table_read(const char *root, struct ft_proc_table *out)
{
	_cleanup_(ft_proc_table_free) struct ft_proc_table t = {};
	struct ft_proc_stat st;
	char full[PATH_MAX];
	struct dirent *d;
	int err = 0;
	DIR *dir;

	ft_fmt(full, "%s/proc", root);
	dir = opendir(full);
	if (!dir)
		return -errno;
	while (!err && (d = readdir(dir))) {
		if (!isdigit((unsigned char)d->d_name[0]))
			continue;
		/* It may have ended since the directory was read. */
		if (!ft_proc_stat_read(root, strtoul(d->d_name, NULL, 10), &st))
			err = table_add(&t, &st);
	}
	closedir(dir);
	if (err)
		return err;
	if (t.n)
		qsort(t.v, t.n, sizeof(*t.v), by_pid);
	*out = t;
	t = (struct ft_proc_table){};
	return 0;
}

void ft_proc_table_free(struct ft_proc_table *t)
{
	free(t->v);
	*t = (struct ft_proc_table){};
}

const struct ft_proc_stat *ft_proc_table_find(const struct ft_proc_table *t, uint32_t pid)
{
	struct ft_proc_stat key = { .pid = pid };

	return t->n ? bsearch(&key, t->v, t->n, sizeof(*t->v), by_pid) : NULL;
}

int ft_proc_table_below(const struct ft_proc_table *t, uint32_t pid, bool *below)
{
	const struct ft_proc_stat *top = ft_proc_table_find(t, pid);
	bool more = true;

	if (!top)
		return -ESRCH;
	memset(below, 0, t->n * sizeof(*below));
	below[top - t->v] = true;
	/* A child may have a smaller pid than its parent (pids wrap), so until nothing changes. */
	while (more) {
		more = false;
		for (size_t i = 0; i < t->n; i++) {
			const struct ft_proc_stat *p;

			if (below[i])
				continue;
			p = ft_proc_table_find(t, t->v[i].ppid);
			below[i] = p && below[p - t->v];
			more |= below[i];
		}
	}
	return 0;
}

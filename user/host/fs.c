// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>

#include "host/fs.h"

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void ft_names_free(struct ft_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->v[i]);
	free(names->v);
	*names = (struct ft_names){};
}

static int names_add(struct ft_names *names, const char *name)
{
	char **v = names->v;

	if (!(names->n & (names->n - 1))) {
		v = realloc(v, MAX(names->n * 2, (size_t)1) * sizeof(*v));
		if (!v)
			return -ENOMEM;
		names->v = v;
	}
	v[names->n] = strdup(name);
	if (!v[names->n])
		return -ENOMEM;
	names->n++;
	return 0;
}

int ft_names_read(const char *root, const char *path, struct ft_names *out)
{
	_cleanup_names_ struct ft_names names = {};
	char full[PATH_MAX];
	struct dirent *d;
	int err = 0;
	DIR *dir;

	ft_fmt(full, "%s%s", root, path);
	dir = opendir(full);
	if (!dir)
		return -errno;
	while (!err && (d = readdir(dir)))
		if (d->d_name[0] != '.')
			err = names_add(&names, d->d_name);
	closedir(dir);
	if (err)
		return err;
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), by_name);
	*out = names;
	names = (struct ft_names){};
	return 0;
}

int ft_link_read(const char *root, const char *path, char *out, size_t size)
{
	char full[PATH_MAX], text[PATH_MAX];
	ssize_t n;

	ft_fmt(full, "%s%s", root, path);
	n = readlink(full, text, sizeof(text) - 1);
	if (n < 0)
		return -errno;
	text[n] = 0;
	ft_strcpy(out, text, size);
	return 0;
}

int ft_link_base(const char *root, const char *path, char *out, size_t size)
{
	char text[PATH_MAX], *slash;
	int err = ft_link_read(root, path, text, sizeof(text));

	if (err)
		return err;
	slash = strrchr(text, '/');
	ft_strcpy(out, slash ? slash + 1 : text, size);
	return 0;
}

int ft_link_inode(const char *root, const char *path, uint32_t *out)
{
	char text[64], *open;
	unsigned int ino;
	int err = ft_link_read(root, path, text, sizeof(text));

	if (err)
		return err;
	open = strchr(text, '[');
	if (!open || sscanf(open, "[%u]", &ino) != 1)
		return -EBADMSG;
	*out = ino;
	return 0;
}

ssize_t ft_head_read(const char *root, const char *path, size_t max, char **out)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	char full[PATH_MAX];
	size_t len = 0, cap = 0;
	ssize_t n = 0;

	ft_fmt(full, "%s%s", root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	do {
		len += n;
		if (len == cap) {
			char *more = realloc(text, (cap = MAX(cap * 2, (size_t)4096)) + 1);

			if (!more)
				return -ENOMEM;
			text = more;
		}
		n = read(fd, text + len, MIN(cap, max) - len);
	} while (n > 0 && len + n < max);
	if (n < 0)
		return -errno;
	len += n;
	text[len] = 0;
	*out = ft_take_ptr(text);
	return len;
}

bool ft_is_bdf(const char *s)
{
	unsigned int domain, bus, dev, fn;
	int end = 0;

	if (!isxdigit((unsigned char)*s))
		return false;
	if (sscanf(s, "%8x:%2x:%2x.%1x%n", &domain, &bus, &dev, &fn, &end) != 4)
		return false;
	return !s[end] && end >= 12 && end < 16;
}

int ft_bdf_of(const char *root, const char *path, char out[16])
{
	char full[PATH_MAX], real[PATH_MAX], *slash;

	ft_fmt(full, "%s%s", root, path);
	if (!realpath(full, real))
		return -errno;
	while ((slash = strrchr(real, '/'))) {
		if (ft_is_bdf(slash + 1)) {
			ft_strcpy(out, slash + 1, 16);
			return 0;
		}
		*slash = 0;
	}
	return -ENOENT;
}

/* --- reads that can block --- */
struct attrs_job {
	char *root, *dir;
	const char *names[FT_ATTR_FILES];
	size_t n;
	char texts[FT_ATTR_FILES][FT_ATTR_TEXT];
};

static void attrs_free(void *arg)
{
	struct attrs_job *j = arg;

	free(j->root);
	free(j->dir);
	free(j);
}

static int attrs_run(void *arg)
{
	struct attrs_job *j = arg;
	char path[PATH_MAX];

	for (size_t i = 0; i < j->n; i++) {
		char *text = NULL;

		ft_fmt(path, "%s/%s", j->dir, j->names[i]);
		if (ft_head_read(j->root, path, FT_ATTR_TEXT - 1, &text) >= 0)
			ft_strcpy(j->texts[i], text, FT_ATTR_TEXT);
		free(text);
	}
	return 0;
}

int ft_attrs_read(const char *root, const char *dir, const char *const *names, size_t n,
		  char (*texts)[FT_ATTR_TEXT], int timeout_ms)
{
	struct attrs_job *j = calloc(1, sizeof(*j));
	int err;

	if (!j || n > FT_ATTR_FILES) {
		free(j);
		return j ? -E2BIG : -ENOMEM;
	}
	j->root = strdup(root);
	j->dir = strdup(dir);
	j->n = n;
	memcpy(j->names, names, n * sizeof(*names));
	err = j->root && j->dir ? ft_worker_call(attrs_run, attrs_free, j, timeout_ms) : -ENOMEM;
	if (err == -ETIMEDOUT)
		return err; /* the thread frees it */
	if (!err)
		memcpy(texts, j->texts, n * sizeof(*texts));
	attrs_free(j);
	return err;
}

bool ft_line_value(const char *text, const char *name, char *out, size_t size)
{
	size_t len = strlen(name);

	for (const char *line = text; line && *line; line = strchr(line, '\n')) {
		const char *v, *end;

		line += *line == '\n';
		if (strncmp(line, name, len) != 0 || line[len] != ':')
			continue;
		v = line + len + 1;
		v += strspn(v, " \t");
		end = v + strcspn(v, "\n");
		while (end > v && isspace((unsigned char)end[-1]))
			end--;
		ft_strcpy(out, v, MIN(size, (size_t)(end - v) + 1));
		return true;
	}
	return false;
}

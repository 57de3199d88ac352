// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "nccl/nccl.h"

struct scan_ctx {
	const char *root;
	uint32_t pid;
	struct ft_nccl_cache *cache;
	struct ft_nccl_scan *scan;
};

/*
 * Files that cannot be read are named only if they look like NCCL: one that nobody can tell from
 * NCCL is counted.
 */
static bool looks_like_nccl(const char *path)
{
	static const char *const names[] = { "libnccl", "librccl", "libtorch_cuda" };
	const char *base = strrchr(path, '/');

	base = base ? base + 1 : path;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

static void add_lib(struct scan_ctx *s, const struct ft_map *m, int fd, int err,
		    const struct ft_nccl_image *image)
{
	struct ft_nccl_scan *scan = s->scan;
	struct ft_nccl_lib *lib;

	if (scan->nlibs == FT_NCCL_LIBS_MAX) {
		scan->over++;
		if (fd >= 0)
			close(fd);
		return;
	}
	lib = &scan->libs[scan->nlibs++];
	lib->fd = fd;
	lib->error = err;
	lib->major = m->major;
	lib->minor = m->minor;
	lib->ino = m->ino;
	lib->start = m->start;
	lib->end = m->end;
	lib->pgoff = m->pgoff;
	if (image)
		lib->image = *image;
	ft_strcpy(lib->path, m->path, sizeof(lib->path));
}

static int scan_one(void *ctx, const struct ft_map *m)
{
	struct scan_ctx *s = ctx;
	struct ft_nccl_image image;
	int fd, err;

	s->scan->files++;
	if (ft_nccl_cache_skip(s->cache, m))
		return 0;
	fd = ft_map_open(s->root, s->pid, m);
	err = fd < 0 ? fd : ft_nccl_cache_read(s->cache, fd, &image);
	if (!err) {
		add_lib(s, m, fd, 0, &image);
		return 0;
	}
	if (fd >= 0)
		close(fd);
	/* an object without NCCL; no object; no regular file */
	if ((err == -ENOENT && fd >= 0) || err == -ENOEXEC || err == -EINVAL) {
		ft_nccl_cache_note(s->cache, m);
		return 0;
	}
	if (looks_like_nccl(m->path))
		add_lib(s, m, -1, err, NULL);
	else
		s->scan->unread++;
	return 0;
}

static void read_task(const char *root, uint32_t pid, char task[16])
{
	char path[64];

	ft_fmt(path, "/proc/%u/comm", pid);
	if (ft_read_line(root, path, task, 16))
		task[0] = 0;
}

int ft_nccl_scan(const char *root, uint32_t pid, struct ft_nccl_cache *cache,
		 struct ft_nccl_scan *out)
{
	struct scan_ctx s = { .root = root, .pid = pid, .cache = cache, .scan = out };

	read_task(root, pid, out->task);
	return ft_maps_each(root, pid, scan_one, &s);
}

int ft_nccl_scan_map(const char *root, uint32_t pid, struct ft_nccl_cache *cache,
		     const struct ft_map *m, struct ft_nccl_scan *out)
{
	struct scan_ctx s = { .root = root, .pid = pid, .cache = cache, .scan = out };

	if (!out->task[0])
		read_task(root, pid, out->task);
	return scan_one(&s, m);
}

void ft_nccl_scan_close(struct ft_nccl_scan *scan)
{
	for (uint32_t i = 0; i < scan->nlibs; i++) {
		if (scan->libs[i].fd >= 0)
			close(scan->libs[i].fd);
		scan->libs[i].fd = -1;
	}
}

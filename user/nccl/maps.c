// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "nccl/nccl.h"

#define FILES_MAX  4096 /* executable files of one process; a PyTorch trainer has 300 */
#define SEEN_SLOTS 8192
#define DELETED	   " (deleted)"

/* The kernel writes a newline in a name as \012 and nothing else so. */
static void unescape(const char *s, size_t len, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n + 1 < size; i++) {
		if (len - i >= 4 && !memcmp(s + i, "\\012", 4)) {
			out[n++] = '\n';
			i += 3;
		} else {
			out[n++] = s[i];
		}
	}
	out[n] = 0;
}

int ft_map_parse(const char *line, struct ft_map *out)
{
	size_t len;
	char perms[5];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 "%n", &out->start,
		   &out->end, perms, &out->pgoff, &out->major, &out->minor, &out->ino, &at) != 7)
		return -EINVAL;
	if (out->end <= out->start)
		return -EINVAL;
	out->exec = strlen(perms) == 4 && perms[2] == 'x';
	line += at;
	/* Padded to a column, then the name, which may begin with a space only after a '/'. */
	line += strspn(line, " ");
	len = strlen(line);
	out->deleted = len > strlen(DELETED) && !strcmp(line + len - strlen(DELETED), DELETED);
	if (out->deleted)
		len -= strlen(DELETED);
	unescape(line, len, out->path, sizeof(out->path));
	return 0;
}

struct seen {
	unsigned int n;
	struct {
		uint64_t dev, ino;
	} slots[SEEN_SLOTS]; /* open addressing, never more than half full; ino 0: free */
};

/* 1: new, 0: was there, -E2BIG: no room. */
static int seen_add(struct seen *s, const struct ft_map *m)
{
	uint64_t dev = (uint64_t)m->major << 32 | m->minor;
	uint64_t h = (m->ino ^ dev << 17) * 0x9e3779b97f4a7c15ull >> 51;

	for (;; h = (h + 1) % SEEN_SLOTS) {
		if (!s->slots[h].ino)
			break;
		if (s->slots[h].ino == m->ino && s->slots[h].dev == dev)
			return 0;
	}
	if (s->n == FILES_MAX)
		return -E2BIG;
	s->n++;
	s->slots[h].dev = dev;
	s->slots[h].ino = m->ino;
	return 1;
}

static int maps_walk(FILE *f, struct seen *seen, int (*fn)(void *, const struct ft_map *),
		     void *ctx)
{
	_cleanup_free_ struct ft_map *m = malloc(sizeof(*m));
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int err;

	if (!m)
		return -ENOMEM;
	errno = 0;
	while ((len = getline(&line, &size, f)) >= 0) {
		if (len && line[len - 1] == '\n')
			line[len - 1] = 0;
		if (ft_map_parse(line, m) || !m->exec || !m->ino || m->path[0] != '/')
			continue;
		err = seen_add(seen, m);
		if (err > 0)
			err = fn(ctx, m);
		if (err)
			return err;
	}
	return ferror(f) ? -(errno ?: EIO) : 0;
}

int ft_maps_each(const char *root, uint32_t pid, int (*fn)(void *ctx, const struct ft_map *m),
		 void *ctx)
{
	_cleanup_free_ struct seen *seen = calloc(1, sizeof(*seen));
	_cleanup_file_ FILE *f = NULL;
	char path[PATH_MAX];

	if (!seen)
		return -ENOMEM;
	ft_fmt(path, "%s/proc/%u/maps", root, pid);
	f = fopen(path, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	return maps_walk(f, seen, fn, ctx);
}

static int open_in_root(const char *root, uint32_t pid, const struct ft_map *m)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	_cleanup_close_ int dir = -1;
	char path[PATH_MAX];
	long fd;

	if (m->deleted)
		return -ENOENT;
	ft_fmt(path, "%s/proc/%u/root", root, pid);
	dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	fd = syscall(SYS_openat2, dir, m->path, &how, sizeof(how));
	return fd < 0 ? -errno : (int)fd;
}

/* map_files needs CAP_CHECKPOINT_RESTORE (5.9+) or CAP_SYS_ADMIN. */
static int open_map_file(const char *root, uint32_t pid, const struct ft_map *m)
{
	char path[PATH_MAX];
	int fd;

	ft_fmt(path, "%s/proc/%u/map_files/%" PRIx64 "-%" PRIx64, root, pid, m->start, m->end);
	fd = open(path, O_PATH | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/*
 * The inode number that maps shows. Overlayfs can show another one there than in stat (the lower
 * file's, or one with the layer in its upper bits): map_files names the mapping itself, so there it
 * need not agree.
 */
static int check_file(int fd, const struct ft_map *m, bool by_mapping)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_ino == m->ino)
		return 0;
	if (by_mapping && !fstatfs(fd, &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC)
		return 0;
	return -ESTALE;
}

/* First without opening (O_PATH): opening a device or a pipe has effects of its own. */
int ft_map_open(const char *root, uint32_t pid, const struct ft_map *m)
{
	_cleanup_close_ int path_fd = open_map_file(root, pid, m);
	bool by_mapping = path_fd >= 0;
	char self[64];
	int err, fd;

	if (!by_mapping)
		path_fd = open_in_root(root, pid, m);
	if (path_fd < 0)
		return path_fd;
	err = check_file(path_fd, m, by_mapping);
	if (err)
		return err;
	ft_fmt(self, "/proc/self/fd/%d", path_fd);
	fd = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

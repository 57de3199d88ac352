// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* --cgroup: finds the cgroup that is meant in every hierarchy, v1 and v2, and its members. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "cli/target_cgroup.h"
#include "host/fs.h"
#include "host/proc.h"

#define MOUNTS_MAX 32
#define DEPTH_MAX  32
#define LIST_MAX   (4u << 20)
#define REL_MAX	   512 /* of a path below its mount */

enum fit { FIT_NONE, FIT_PART, FIT_WHOLE };

/* One hierarchy, and the best match in it. */
struct mount {
	char path[256];
	bool v2;
	enum fit fit;
	unsigned int matches;
	char rel[REL_MAX];  /* of the first match, below the mount */
	char also[REL_MAX]; /* of another one */
};

struct search {
	const char *root;
	const char *part;
	char unit[256]; /* part as systemd writes it in unit names: _ for - */
	struct mount mounts[MOUNTS_MAX];
	size_t n;
};

static int mounts_read(struct search *s)
{
	_cleanup_free_ char *text = NULL;
	ssize_t n = ft_read_file(s->root, "/proc/self/mounts", LIST_MAX, &text);
	char path[256], type[16], *save, *line;

	if (n < 0)
		return n;
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		struct mount *m = &s->mounts[s->n];

		if (sscanf(line, "%*s %255s %15s", path, type) != 2 ||
		    strncmp(type, "cgroup", 6) != 0)
			continue;
		if (s->n == MOUNTS_MAX)
			break;
		*m = (struct mount){ .v2 = !strcmp(type, "cgroup2") };
		ft_strcpy(m->path, path, sizeof(m->path));
		s->n++;
	}
	return s->n ? 0 : -ENOENT;
}

/*
 * The processes that hold a container's terminals stand in a cgroup that has the container's id,
 * too.
 */
static bool is_monitor(const char *name)
{
	return strstr(name, "conmon") != NULL;
}

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), len = strlen(end);

	return n >= len && !strcmp(text + n - len, end);
}

/* With a slash it is a piece of the path, otherwise of one component. */
static enum fit fit_of(const struct search *s, const char *rel, const char *name)
{
	const char *parts[] = { s->part, s->unit };
	enum fit fit = FIT_NONE;

	if (is_monitor(name))
		return FIT_NONE;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		bool path = strchr(parts[i], '/');

		if (!strcmp(name, parts[i]) || (path && ends_with(rel, parts[i])))
			return FIT_WHOLE;
		if (strstr(path ? rel : name, parts[i]))
			fit = FIT_PART;
	}
	return fit;
}

static void note_match(struct mount *m, enum fit fit, const char *rel)
{
	if (fit < m->fit)
		return;
	if (fit > m->fit)
		m->matches = 0;
	m->fit = fit;
	if (!m->matches++)
		ft_strcpy(m->rel, rel, sizeof(m->rel));
	else
		ft_strcpy(m->also, rel, sizeof(m->also));
}

static bool is_dir(DIR *dir, const struct dirent *d)
{
	struct stat st;

	if (d->d_type != DT_UNKNOWN)
		return d->d_type == DT_DIR;
	return !fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) && S_ISDIR(st.st_mode);
}

/* Calls fn for each cgroup below; fn says whether to go on below that one. */
static int each_below(const char *base, const char *rel, int depth,
		      int (*fn)(void *ctx, const char *rel, const char *name), void *ctx)
{
	char full[PATH_MAX], child[PATH_MAX];
	struct dirent *d;
	int err = 0;
	DIR *dir;

	ft_fmt(full, "%s%s", base, rel);
	dir = depth < DEPTH_MAX ? opendir(full) : NULL;
	if (!dir)
		return 0; /* it may have ended meanwhile */
	while (err >= 0 && (d = readdir(dir))) {
		if (d->d_name[0] == '.' || !is_dir(dir, d))
			continue;
		if (snprintf(child, sizeof(child), "%s/%s", rel, d->d_name) >= REL_MAX)
			continue;
		err = fn(ctx, child, d->d_name);
		if (err > 0)
			err = each_below(base, child, depth + 1, fn, ctx);
	}
	closedir(dir);
	return MIN(err, 0);
}

struct finder {
	const struct search *s;
	struct mount *m;
};

static int find_one(void *ctx, const char *rel, const char *name)
{
	struct finder *f = ctx;
	enum fit fit = fit_of(f->s, rel, name);

	/* What is below belongs to it. */
	if (fit)
		note_match(f->m, fit, rel);
	return fit ? 0 : 1;
}

static bool is_cgroup(const char *root, const struct mount *m, const char *rel)
{
	char full[PATH_MAX];

	ft_fmt(full, "%s%s%s/cgroup.procs", root, m->path, rel);
	return !access(full, F_OK);
}

/* A path: of the file system, or as /proc/PID/cgroup shows it. */
static void find_path(struct search *s)
{
	for (size_t i = 0; i < s->n; i++) {
		struct mount *m = &s->mounts[i];
		size_t len = strlen(m->path);
		bool below = !strncmp(s->part, m->path, len) &&
			     (s->part[len] == '/' || !s->part[len]);
		const char *rel = below ? s->part + len : s->part;

		if (is_cgroup(s->root, m, rel))
			note_match(m, FIT_WHOLE, strcmp(rel, "/") != 0 ? rel : "");
	}
}

static void find_part(struct search *s)
{
	enum fit best = FIT_NONE;
	char base[PATH_MAX];

	for (size_t i = 0; i < s->n; i++) {
		struct finder f = { s, &s->mounts[i] };

		ft_fmt(base, "%s%s", s->root, s->mounts[i].path);
		each_below(base, "", 0, find_one, &f);
		best = MAX(best, s->mounts[i].fit);
	}
	for (size_t i = 0; i < s->n; i++)
		if (s->mounts[i].fit < best)
			s->mounts[i].matches = 0;
}

/* --- members --- */
struct members {
	const char *root, *base;
	const struct ft_proc_table *t; /* NULL: take all */
	struct ft_pidset *set;
};

static int member_add(struct members *m, uint32_t pid, bool thread)
{
	const struct ft_proc_stat *st;
	uint32_t tgid = pid;

	/* Without a table this is done each second: no look at the process, where none is needed. */
	if ((m->t || thread) && ft_proc_tgid(m->root, pid, &tgid))
		return 0;
	st = m->t ? ft_proc_table_find(m->t, tgid) : NULL;
	return st && (st->kthread || ft_proc_has_ended(st)) ? 0 : ft_pidset_add(m->set, tgid);
}

static int members_of(void *ctx, const char *rel, const char *name)
{
	static const char *const lists[] = {
		"cgroup.procs", "cgroup.threads"
	}; /* the second in threaded cgroups */
	struct members *m = ctx;
	_cleanup_free_ char *text = NULL;
	char path[PATH_MAX], *save, *line;
	bool threads = false;
	ssize_t n = -1;
	int err = 0;

	(void)name;
	for (size_t i = 0; n < 0 && i < ARRAY_SIZE(lists); i++) {
		threads = i;
		ft_fmt(path, "%s%s/%s", m->base, rel, lists[i]);
		n = ft_read_file(m->root, path, LIST_MAX, &text);
	}
	if (n < 0)
		return 1;
	for (line = strtok_r(text, "\n", &save); !err && line; line = strtok_r(NULL, "\n", &save)) {
		uint64_t pid;

		/* 0: a process that our pid namespace does not see */
		if (!ft_parse_u64(line, &pid) && pid && pid <= INT32_MAX)
			err = member_add(m, pid, threads);
	}
	return err ? err : 1;
}

static int take_members(const struct search *s, const struct mount *m,
			const struct ft_proc_table *t, struct ft_pidset *set)
{
	char full[PATH_MAX];
	struct members ctx = { s->root, m->path, t, set };
	struct stat st;
	int err;

	ft_fmt(full, "%s%s", s->root, m->path);
	err = members_of(&ctx, m->rel, "");
	if (err >= 0)
		err = each_below(full, m->rel, 0, members_of, &ctx);
	if (err < 0)
		return err;
	/* kernfs: the inode is the id that bpf_get_current_cgroup_id() gives. */
	ft_fmt(full, "%s%s%s", s->root, m->path, m->rel);
	if (m->v2 && !stat(full, &st))
		set->cgroup_id = st.st_ino;
	if (m->v2 || !set->cgroup[0])
		ft_strcpy(set->cgroup, m->rel, sizeof(set->cgroup));
	return 0;
}

static int explain(const struct search *s, const struct mount *two, size_t found, char *err,
		   size_t size)
{
	if (two) {
		snprintf(err, size, "%u cgroups match \"%s\", e.g. %s and %s: give more of it",
			 two->matches, s->part, two->rel, two->also);
		return -EEXIST;
	}
	if (found)
		snprintf(err, size, "cgroup %s has no processes (has the job ended?)", s->part);
	else
		snprintf(err, size,
			 "no cgroup matches \"%s\" in any of the %zu hierarchies of this machine",
			 s->part, s->n);
	return found ? -ESRCH : -ENOENT;
}

int ft_target_cgroup(const char *root, const char *name, const struct ft_proc_table *t,
		     struct ft_pidset *set, char *err, size_t size)
{
	_cleanup_free_ struct search *s = calloc(1, sizeof(*s));
	size_t found = 0, before = set->n;
	int rc;

	if (!s)
		return -ENOMEM;
	s->root = root;
	s->part = name;
	ft_strcpy(s->unit, name, sizeof(s->unit));
	for (char *c = s->unit; *c; c++)
		*c = *c == '-' ? '_' : *c;
	rc = name[0] ? mounts_read(s) : -ENOENT;
	if (rc) {
		snprintf(err, size, "--cgroup %s: %s", name,
			 name[0] ? "no cgroup file system is mounted" : "no name given");
		return rc;
	}
	(name[0] == '/' ? find_path : find_part)(s);
	for (size_t i = 0; i < s->n; i++) {
		if (s->mounts[i].matches > 1)
			return explain(s, &s->mounts[i], found, err, size);
		found += s->mounts[i].matches;
	}
	for (size_t i = 0; i < s->n; i++) {
		rc = s->mounts[i].matches ? take_members(s, &s->mounts[i], t, set) : 0;
		if (rc)
			return rc;
	}
	return set->n > before || before ? 0 : explain(s, NULL, found, err, size);
}

int ft_cgroup_open(const char *root, const char *rel, struct ft_cgroup_dirs *out)
{
	_cleanup_free_ struct search *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->root = root;
	err = mounts_read(s);
	for (size_t i = 0; i < s->n && out->n < FT_CGROUP_DIRS; i++) {
		const struct mount *m = &s->mounts[i];

		if (!is_cgroup(root, m, rel))
			continue;
		ft_fmt(out->v[out->n], "%s%s", m->path, rel);
		out->n++;
	}
	return err;
}

int ft_cgroup_members(const char *root, const struct ft_cgroup_dirs *dirs, struct ft_pidset *set)
{
	int err = 0;

	for (size_t i = 0; i < dirs->n && err >= 0; i++) {
		struct members ctx = { root, dirs->v[i], NULL, set };
		char full[PATH_MAX];

		ft_fmt(full, "%s%s", root, dirs->v[i]);
		err = members_of(&ctx, "", "");
		if (err >= 0)
			err = each_below(full, "", 0, members_of, &ctx);
	}
	return MIN(err, 0);
}

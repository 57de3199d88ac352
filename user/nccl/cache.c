// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <pthread.h>
#include <sys/stat.h>
#include <uthash.h>

#include "nccl/nccl.h"

#define FILES_MAX 16384

struct file_key {
	uint64_t dev, ino, size;
	int64_t mtime_s, mtime_ns, ctime_s, ctime_ns;
};

struct file {
	struct file_key key;
	int err; /* what ft_nccl_image_read said */
	struct ft_nccl_image *image;
	UT_hash_handle hh;
};

struct skip_key {
	uint64_t dev, ino;
};

struct skip {
	struct skip_key key;
	uint64_t until_ns;
	UT_hash_handle hh;
};

/* Referenced by workers too: one that is stuck on a sick target may outlive the session. */
struct ft_nccl_cache {
	int refs;
	pthread_mutex_t lock;
	struct file *files;
	struct skip *skips;
	uint64_t reads;
};

int ft_nccl_cache_new(struct ft_nccl_cache **out)
{
	struct ft_nccl_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return -ENOMEM;
	c->refs = 1;
	pthread_mutex_init(&c->lock, NULL);
	*out = c;
	return 0;
}

struct ft_nccl_cache *ft_nccl_cache_ref(struct ft_nccl_cache *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

static void drop_all(struct ft_nccl_cache *c)
{
	struct file *f, *tmp;

	HASH_ITER(hh, c->files, f, tmp) {
		HASH_DEL(c->files, f);
		free(f->image);
		free(f);
	}
}

static void drop_skips(struct ft_nccl_cache *c)
{
	struct skip *s, *tmp;

	HASH_ITER(hh, c->skips, s, tmp) {
		HASH_DEL(c->skips, s);
		free(s);
	}
}

void ft_nccl_cache_unref(struct ft_nccl_cache *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	drop_all(c);
	drop_skips(c);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

uint64_t ft_nccl_cache_reads(struct ft_nccl_cache *c)
{
	uint64_t n;

	pthread_mutex_lock(&c->lock);
	n = c->reads;
	pthread_mutex_unlock(&c->lock);
	return n;
}

static struct skip_key skip_key_of(const struct ft_map *m)
{
	return (struct skip_key){ .dev = (uint64_t)m->major << 32 | m->minor, .ino = m->ino };
}

bool ft_nccl_cache_skip(struct ft_nccl_cache *c, const struct ft_map *m)
{
	struct skip_key key = skip_key_of(m);
	struct skip *s;
	bool skip;

	pthread_mutex_lock(&c->lock);
	HASH_FIND(hh, c->skips, &key, sizeof(key), s);
	skip = s && ft_mono_ns() < s->until_ns;
	pthread_mutex_unlock(&c->lock);
	return skip;
}

void ft_nccl_cache_note(struct ft_nccl_cache *c, const struct ft_map *m)
{
	struct skip_key key = skip_key_of(m);
	struct skip *s;

	pthread_mutex_lock(&c->lock);
	HASH_FIND(hh, c->skips, &key, sizeof(key), s);
	if (!s) {
		if (HASH_COUNT(c->skips) >= FILES_MAX)
			drop_skips(c);
		s = calloc(1, sizeof(*s));
		if (s) {
			s->key = key;
			HASH_ADD(hh, c->skips, key, sizeof(s->key), s);
		}
	}
	if (s)
		s->until_ns = ft_mono_ns() + FT_NCCL_SKIP_NS;
	pthread_mutex_unlock(&c->lock);
}

static int key_of(int fd, struct file_key *key)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	*key = (struct file_key){
		.dev = st.st_dev,
		.ino = st.st_ino,
		.size = st.st_size,
		.mtime_s = st.st_mtim.tv_sec,
		.mtime_ns = st.st_mtim.tv_nsec,
		.ctime_s = st.st_ctim.tv_sec,
		.ctime_ns = st.st_ctim.tv_nsec,
	};
	return 0;
}

/* 1: known, and *err and *out set. */
static int lookup(struct ft_nccl_cache *c, const struct file_key *key, int *err,
		  struct ft_nccl_image *out)
{
	struct file *f;

	pthread_mutex_lock(&c->lock);
	HASH_FIND(hh, c->files, key, sizeof(*key), f);
	if (f) {
		*err = f->err;
		if (f->image)
			*out = *f->image;
	} else {
		c->reads++;
	}
	pthread_mutex_unlock(&c->lock);
	return !!f;
}

/* Forgets all when full: a node that runs many builds would grow it without end. */
static void remember(struct ft_nccl_cache *c, const struct file_key *key, int err,
		     const struct ft_nccl_image *image)
{
	struct file *f = calloc(1, sizeof(*f)), *old;

	if (!f)
		return;
	f->key = *key;
	f->err = err;
	if (!err) {
		f->image = malloc(sizeof(*image));
		if (!f->image) {
			free(f);
			return;
		}
		*f->image = *image;
	}
	pthread_mutex_lock(&c->lock);
	if (HASH_COUNT(c->files) >= FILES_MAX)
		drop_all(c);
	HASH_FIND(hh, c->files, key, sizeof(*key), old);
	if (old) {
		HASH_DEL(c->files, old);
		free(old->image);
		free(old);
	}
	HASH_ADD(hh, c->files, key, sizeof(f->key), f);
	pthread_mutex_unlock(&c->lock);
}

int ft_nccl_cache_read(struct ft_nccl_cache *c, int fd, struct ft_nccl_image *out)
{
	struct ft_nccl_image image;
	struct file_key key;
	int err = key_of(fd, &key);

	if (err)
		return err;
	if (lookup(c, &key, &err, out))
		return err;
	err = ft_nccl_image_read(fd, &image);
	/* Only answers about the content are kept, not passing failures to read it. */
	if (!err || err == -ENOENT || err == -ENOEXEC || err == -EBADMSG)
		remember(c, &key, err, &image);
	if (!err)
		*out = image;
	return err;
}

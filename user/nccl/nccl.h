/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * NCCL seen from outside: which files are NCCL, where its functions are in them, and which
 * processes map them. Everything that reads a process can block on it: call it from a worker.
 */
#ifndef FT_NCCL_NCCL_H
#define FT_NCCL_NCCL_H

#include <limits.h>
#include <sys/types.h>

#include "base/base.h"
#include "include/ft_nccl.h"

/* --- functions --- */
struct ft_nccl_func {
	const char *name; /* "AllReduce": exported as ncclAllReduce and pncclAllReduce */
	uint8_t op;	  /* nccl_op */
	uint8_t cls;	  /* enum ft_nccl_class; 0: no function of this number */
};
/* By number, enum ft_nccl_fn_nr. */
extern const struct ft_nccl_func ft_nccl_funcs[FT_NCCL_NFNS];

/* --- a file --- */
struct ft_nccl_sym {
	uint64_t offset; /* in the file: where to put the probe */
	uint8_t fn;	 /* enum ft_nccl_fn_nr */
};

struct ft_nccl_image {
	uint32_t nsyms;
	uint8_t build_id_len; /* 0: none */
	uint8_t build_id[20];
	char version[32]; /* "2.28.9+cuda13.0", "" unknown */
	struct ft_nccl_sym syms[FT_NCCL_NFNS];
};

/*
 * What of NCCL an ELF file exports. ncclX counts only where pncclX is defined too (an interposer
 * has only the first), each address once. Reads by pread with every bound checked: the file may be
 * anything and may change meanwhile.
 * 0, -ENOENT (an object without NCCL), -ENOEXEC (no ELF object of this machine), -EBADMSG
 * (contradicts itself), -EIO and others of pread.
 */
int ft_nccl_image_read(int fd, struct ft_nccl_image *out);

/* --- mappings of a process --- */
struct ft_map {
	uint64_t start, end, pgoff;
	uint64_t ino;
	uint32_t major, minor;
	bool exec, deleted;
	char path[PATH_MAX]; /* unescaped */
};
/* One line of /proc/PID/maps, without its newline. 0 or -EINVAL. */
int ft_map_parse(const char *line, struct ft_map *out);
/*
 * Calls fn for each executable mapping of a file, once per file (device and inode). fn's result
 * other than 0 ends it and is returned. -ESRCH: no such process.
 */
int ft_maps_each(const char *root, uint32_t pid, int (*fn)(void *ctx, const struct ft_map *m),
		 void *ctx);
/*
 * Opens the file behind a mapping: by map_files, else in the process's root directory. Only regular
 * files, and only the inode that is mapped. fd or negative errno (-ESTALE: another file has taken
 * its name, -EINVAL: no regular file).
 */
int ft_map_open(const char *root, uint32_t pid, const struct ft_map *m);

/* --- what is known of files, so that each is read once --- */
struct ft_nccl_cache;
int ft_nccl_cache_new(struct ft_nccl_cache **out);
struct ft_nccl_cache *ft_nccl_cache_ref(struct ft_nccl_cache *c);
void ft_nccl_cache_unref(struct ft_nccl_cache *c);
/*
 * As ft_nccl_image_read, from memory when device, inode, size and time of change are known. Any
 * thread; nothing is held while a file is read.
 */
int ft_nccl_cache_read(struct ft_nccl_cache *c, int fd, struct ft_nccl_image *out);
/*
 * Mappings found to be no NCCL are passed over without opening the file for the next seconds: eight
 * ranks that start together map the same 300 files each. Not longer, since inode numbers are
 * reused.
 */
#define FT_NCCL_SKIP_NS (2 * NSEC_PER_SEC)
bool ft_nccl_cache_skip(struct ft_nccl_cache *c, const struct ft_map *m);
void ft_nccl_cache_note(struct ft_nccl_cache *c, const struct ft_map *m);
/* How many files were read, not remembered. */
uint64_t ft_nccl_cache_reads(struct ft_nccl_cache *c);

/* --- NCCL in a process --- */
#define FT_NCCL_LIBS_MAX 8

struct ft_nccl_lib {
	int fd; /* the file, -1 when it cannot be opened */
	int error;
	uint32_t major, minor; /* as the mapping shows them */
	uint64_t ino;
	uint64_t start, end, pgoff; /* of the executable mapping */
	struct ft_nccl_image image;
	char path[PATH_MAX]; /* in the process's root directory */
};

struct ft_nccl_scan {
	uint32_t nlibs;
	uint32_t files;	 /* executable files mapped */
	uint32_t unread; /* of these: could not be opened or read, not told from NCCL */
	uint32_t over;	 /* libraries beyond FT_NCCL_LIBS_MAX */
	char task[16];	 /* name of the process */
	struct ft_nccl_lib libs[FT_NCCL_LIBS_MAX];
};

/* Looks through all mappings of a process; into a zeroed *out. 0 or negative errno. */
int ft_nccl_scan(const char *root, uint32_t pid, struct ft_nccl_cache *cache,
		 struct ft_nccl_scan *out);
/* Looks at one mapping. 0 also when it is not NCCL. */
int ft_nccl_scan_map(const char *root, uint32_t pid, struct ft_nccl_cache *cache,
		     const struct ft_map *m, struct ft_nccl_scan *out);
void ft_nccl_scan_close(struct ft_nccl_scan *scan);

/* --- histograms of the kernel side --- */
/* Quantile q (0..1) in ns of slot counts, UINT64_MAX when they are all zero. */
uint64_t ft_nccl_quantile(const uint32_t slots[FT_NCCL_SLOTS], double q);

#endif

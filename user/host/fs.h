/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Small readers for /sys and /proc below a root directory ("" is this machine). */
#ifndef FT_HOST_FS_H
#define FT_HOST_FS_H

#include "base/base.h"

/* Names in a directory, without those that start with a dot, sorted. */
struct ft_names {
	char **v;
	size_t n;
};
int ft_names_read(const char *root, const char *path, struct ft_names *out);
void ft_names_free(struct ft_names *names);
#define _cleanup_names_ _cleanup_(ft_names_free)

/* Text of a symbolic link, cut at size; only its last component. 0 or negative errno. */
int ft_link_read(const char *root, const char *path, char *out, size_t size);
int ft_link_base(const char *root, const char *path, char *out, size_t size);
/* Number of a namespace, from a link like net:[4026531840]. */
int ft_link_inode(const char *root, const char *path, uint32_t *out);

/*
 * The first bytes of a file, at most max, terminated by a NUL that is not counted. Returns their
 * number.
 */
ssize_t ft_head_read(const char *root, const char *path, size_t max, char **out);

/*
 * PCI address of the device that a /sys path leads to, also through virtio and the like. -ENOENT:
 * none.
 */
int ft_bdf_of(const char *root, const char *path, char out[16]);
bool ft_is_bdf(const char *s);

/*
 * Files whose read asks a device, so that it can block: all `names` of `dir` are read in one
 * worker. texts[i] is "" where a file cannot be read. 0, -ETIMEDOUT or -EBUSY (ft_worker_call),
 * with texts untouched.
 */
#define FT_ATTR_TEXT  1024
#define FT_ATTR_FILES 8
int ft_attrs_read(const char *root, const char *dir, const char *const *names, size_t n,
		  char (*texts)[FT_ATTR_TEXT], int timeout_ms);

/*
 * Copies the value of "name: value" or "name:\tvalue" of a text with one such line each; false when
 * absent.
 */
bool ft_line_value(const char *text, const char *name, char *out, size_t size);

#endif

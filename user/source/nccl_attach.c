// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "source/nccl_attach.h"

void ft_nccl_refs_put(int *refs)
{
	if (refs && !__atomic_sub_fetch(refs, 1, __ATOMIC_ACQ_REL))
		free(refs);
}

void ft_nccl_request_free(void *arg)
{
	struct ft_nccl_request *r = arg;

	for (uint32_t i = 0; i < FT_NCCL_LIBS_MAX; i++) {
		ft_uprobe_detach(&r->results[i].lib.enter);
		ft_uprobe_detach(&r->results[i].lib.ret);
	}
	for (uint32_t i = 0; i < r->nmaps; i++)
		free(r->maps[i]);
	free(r->maps);
	ft_nccl_scan_close(&r->scan);
	ft_closep(&r->enter_fd);
	ft_closep(&r->ret_fd);
	ft_nccl_cache_unref(r->cache);
	ft_nccl_refs_put(r->refs);
	free(r);
}

/*
 * Whether two mappings are of one file. A file below two overlay mounts shows two devices, one
 * inode number (with xino the layer's number in its upper bits); a probe sits on the file below and
 * would fire twice.
 */
static bool same_file(const struct ft_nccl_probed *a, const struct ft_nccl_probed *b)
{
	if (a->major == b->major && a->minor == b->minor)
		return a->ino == b->ino;
	return (uint32_t)a->ino == (uint32_t)b->ino && a->build_id_len == b->build_id_len &&
	       !memcmp(a->build_id, b->build_id, a->build_id_len);
}

static bool wants(const struct ft_nccl_request *r, unsigned int fn)
{
	return ft_nccl_funcs[fn].cls != FT_NCCL_GROUP || r->collectives;
}

/* The return of a call costs as much again; by default only where the value is needed. */
static bool wants_ret(const struct ft_nccl_request *r, unsigned int fn)
{
	uint8_t cls = ft_nccl_funcs[fn].cls;

	return cls == FT_NCCL_INIT || (r->collectives && cls != FT_NCCL_END);
}

/* The return first: an entry whose cookie promises a return must have it. */
static void attach_ret(struct ft_nccl_request *r, const struct ft_nccl_lib *lib,
		       struct ft_nccl_result *res)
{
	uint64_t offsets[FT_NCCL_NFNS];
	struct ft_uprobe_set set = {
		.pid = r->pid,
		.fd = lib->fd,
		.offsets = offsets,
		.ret = true,
		.multi = r->ret_multi,
	};
	bool no_cookies;

	for (uint32_t i = 0; i < lib->image.nsyms; i++)
		if (wants_ret(r, lib->image.syms[i].fn))
			offsets[set.n++] = lib->image.syms[i].offset;
	if (r->ret_fd < 0 && r->ret_fd != -ENOENT)
		res->ret_error = r->ret_fd;
	else if (r->ret_fd >= 0 && set.n)
		res->ret_error = ft_uprobe_attach(r->ret_fd, &set, &res->lib.ret, &no_cookies);
}

static void attach_enter(struct ft_nccl_request *r, const struct ft_nccl_lib *lib,
			 struct ft_nccl_result *res)
{
	uint64_t offsets[FT_NCCL_NFNS];
	struct ft_uprobe_set set = {
		.pid = r->pid,
		.fd = lib->fd,
		.offsets = offsets,
		.cookies = res->cookies,
		.multi = r->enter_multi,
	};

	for (uint32_t i = 0; i < lib->image.nsyms; i++) {
		unsigned int fn = lib->image.syms[i].fn;

		if (!wants(r, fn))
			continue;
		offsets[set.n] = lib->image.syms[i].offset;
		res->cookies[set.n] = fn;
		if (res->lib.ret.n && wants_ret(r, fn))
			res->cookies[set.n] |= FT_NCCL_COOKIE_RET;
		set.n++;
	}
	if (!set.n)
		return;
	res->enter_error = ft_uprobe_attach(r->enter_fd, &set, &res->lib.enter, &res->no_cookies);
	res->nprobes = res->enter_error ? 0 : set.n;
}

static void attach_lib(struct ft_nccl_request *r, uint32_t nr)
{
	struct ft_nccl_lib *lib = &r->scan.libs[nr];
	struct ft_nccl_result *res = &r->results[nr];

	res->lib.major = lib->major;
	res->lib.minor = lib->minor;
	res->lib.ino = lib->ino;
	res->lib.build_id_len = lib->image.build_id_len;
	memcpy(res->lib.build_id, lib->image.build_id, sizeof(res->lib.build_id));
	for (uint32_t i = 0; i < r->nknown; i++)
		res->known |= same_file(&r->known[i], &res->lib);
	for (uint32_t i = 0; i < nr; i++)
		res->known |= same_file(&r->results[i].lib, &res->lib);
	if (res->known || lib->error)
		return;
	if (r->enter_fd < 0) {
		res->enter_error = r->enter_fd;
		return;
	}
	attach_ret(r, lib, res);
	attach_enter(r, lib, res);
	if (res->enter_error)
		ft_uprobe_detach(&res->lib.ret);
}

int ft_nccl_request_run(void *arg)
{
	struct ft_nccl_request *r = arg;
	int err = 0;

	for (uint32_t i = 0; !err && i < r->nmaps; i++)
		err = ft_nccl_scan_map("", r->pid, r->cache, r->maps[i], &r->scan);
	/* The dynamic linker splits a new mapping at once: its range may name nothing any more. */
	if (!r->nmaps || r->scan.unread) {
		ft_nccl_scan_close(&r->scan);
		memset(&r->scan, 0, sizeof(r->scan));
		err = ft_nccl_scan("", r->pid, r->cache, &r->scan);
	}
	if (err && err != -E2BIG)
		return err;
	for (uint32_t i = 0; i < r->scan.nlibs; i++)
		attach_lib(r, i);
	return err;
}

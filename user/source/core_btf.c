// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * libbpf looks through all of the kernel's types (126,000 on 6.18) for each type that an object
 * relocates, again for each object: 20 ms an object. Against a copy of the few that have the right
 * names it takes none.
 */
#include <bpf/btf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <uthash.h>

#include "source/core_btf.h"

struct name {
	char s[64];
	UT_hash_handle hh;
};

struct ft_core_names {
	struct name *set;
};

struct copy {
	struct btf *to;
	const struct btf *from;
	uint32_t *ids; /* by type of `from`; 0: not copied yet */
	int ptr;
};

/* From 6.16 on it can be mapped: half the page faults, and no read() for each page. */
struct btf *ft_core_btf_kernel(void)
{
	_cleanup_close_ int fd = open("/sys/kernel/btf/vmlinux", O_RDONLY | O_CLOEXEC);
	struct btf *btf = NULL;
	void *data = MAP_FAILED;
	struct stat st;

	if (fd >= 0 && !fstat(fd, &st))
		data = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data != MAP_FAILED) {
		btf = btf__new(data, st.st_size);
		munmap(data, st.st_size);
	}
	return btf ?: btf__load_vmlinux_btf();
}

static bool is_root(const struct btf_type *t)
{
	return btf_is_composite(t) || btf_is_any_enum(t);
}

static void name_of(char out[64], const struct btf *btf, const struct btf_type *t)
{
	char *flavour;

	ft_strcpy(out, btf__name_by_offset(btf, t->name_off), 64);
	flavour = strstr(out, "___");
	if (flavour)
		*flavour = 0;
}

int ft_core_names_add(struct ft_core_names **names, const struct btf *object)
{
	if (!*names)
		*names = calloc(1, sizeof(**names));
	for (uint32_t i = 1; *names && i < btf__type_cnt(object); i++) {
		const struct btf_type *t = btf__type_by_id(object, i);
		struct name *n, *old;

		if (!is_root(t) || !t->name_off)
			continue;
		n = calloc(1, sizeof(*n));
		if (!n)
			return -ENOMEM;
		name_of(n->s, object, t);
		HASH_FIND_STR((*names)->set, n->s, old);
		if (old)
			free(n);
		else
			HASH_ADD_STR((*names)->set, s, n);
	}
	return *names ? 0 : -ENOMEM;
}

void ft_core_names_free(struct ft_core_names *names)
{
	struct name *n, *tmp;

	if (!names)
		return;
	HASH_ITER(hh, names->set, n, tmp) {
		HASH_DEL(names->set, n);
		free(n);
	}
	free(names);
}

static int copy_type(struct copy *c, uint32_t id);

static int copy_composite(struct copy *c, const struct btf_type *t)
{
	const struct btf_member *m = btf_members(t);
	const char *name = btf__name_by_offset(c->from, t->name_off);
	int id, err = 0;

	/* What is held by value first: fields can be added to the last type only. */
	for (int i = 0; i < btf_vlen(t) && err >= 0; i++)
		err = copy_type(c, m[i].type);
	if (err < 0)
		return err;
	err = 0;
	id = btf_is_struct(t) ? btf__add_struct(c->to, name, t->size)
			      : btf__add_union(c->to, name, t->size);
	for (int i = 0; i < btf_vlen(t) && id >= 0 && !err; i++)
		err = btf__add_field(c->to, btf__name_by_offset(c->from, m[i].name_off),
				     copy_type(c, m[i].type), btf_member_bit_offset(t, i),
				     btf_member_bitfield_size(t, i));
	return err ?: id;
}

static int copy_enum(struct copy *c, const struct btf_type *t)
{
	const char *name = btf__name_by_offset(c->from, t->name_off);
	int id = btf__add_enum(c->to, name, t->size), err = 0;

	for (int i = 0; i < btf_vlen(t) && id >= 0 && !err; i++) {
		const struct btf_enum *e = btf_enum(t) + i;

		err = btf__add_enum_value(c->to, btf__name_by_offset(c->from, e->name_off), e->val);
	}
	return err ?: id;
}

static int copy_enum64(struct copy *c, const struct btf_type *t)
{
	const char *name = btf__name_by_offset(c->from, t->name_off);
	int id = btf__add_enum64(c->to, name, t->size, btf_kflag(t)), err = 0;

	for (int i = 0; i < btf_vlen(t) && id >= 0 && !err; i++) {
		const struct btf_enum64 *e = btf_enum64(t) + i;

		err = btf__add_enum64_value(c->to, btf__name_by_offset(c->from, e->name_off),
					    btf_enum64_value(e));
	}
	return err ?: id;
}

static int copy_array(struct copy *c, const struct btf_type *t)
{
	int index = copy_type(c, btf_array(t)->index_type);
	int elem = copy_type(c, btf_array(t)->type);

	return MIN(index, elem) < 0 ? MIN(index, elem)
				    : btf__add_array(c->to, index, elem, btf_array(t)->nelems);
}

static int copy_new(struct copy *c, const struct btf_type *t)
{
	switch (btf_kind(t)) {
	case BTF_KIND_INT:
		return btf__add_int(c->to, btf__name_by_offset(c->from, t->name_off), t->size,
				    btf_int_encoding(t));
	case BTF_KIND_FLOAT:
		return btf__add_float(c->to, btf__name_by_offset(c->from, t->name_off), t->size);
	case BTF_KIND_PTR:
		return c->ptr;
	case BTF_KIND_ARRAY:
		return copy_array(c, t);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return copy_composite(c, t);
	case BTF_KIND_ENUM:
		return copy_enum(c, t);
	case BTF_KIND_ENUM64:
		return copy_enum64(c, t);
	default:
		/* typedef, const and the like; nothing else is held by value */
		return copy_type(c, t->type);
	}
}

/* Id of the copy, 0 for void, or negative errno. */
static int copy_type(struct copy *c, uint32_t id)
{
	const struct btf_type *t = btf__type_by_id(c->from, id);
	int new;

	if (!t)
		return -EINVAL;
	if (!id || c->ids[id])
		return c->ids[id];
	new = copy_new(c, t);
	if (new >= 0)
		c->ids[id] = new;
	return new;
}

static int copy_roots(struct copy *c, const struct ft_core_names *names)
{
	uint32_t n = btf__type_cnt(c->from);
	int err = 0;

	for (uint32_t i = 1; i < n && err >= 0; i++) {
		const struct btf_type *t = btf__type_by_id(c->from, i);
		const char *name;
		struct name *wanted;

		if (!is_root(t) || !t->name_off)
			continue;
		name = btf__name_by_offset(c->from, t->name_off);
		HASH_FIND_STR(names->set, name, wanted);
		if (wanted)
			err = copy_type(c, i);
	}
	return MIN(err, 0);
}

int ft_core_btf_new(struct btf **out, const struct btf *kernel, const struct ft_core_names *names)
{
	struct copy c = { .from = kernel, .to = btf__new_empty() };
	int err = -ENOMEM;

	c.ids = calloc(btf__type_cnt(kernel), sizeof(*c.ids));
	c.ptr = c.to ? btf__add_ptr(c.to, 0) : -ENOMEM;
	if (c.ids && c.ptr > 0)
		err = copy_roots(&c, names);
	free(c.ids);
	if (err)
		btf__free(c.to);
	else
		*out = c.to;
	return err;
}

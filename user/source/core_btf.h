/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The few types of the kernel's BTF that the BPF objects name. */
#ifndef FT_SOURCE_CORE_BTF_H
#define FT_SOURCE_CORE_BTF_H

#include "base/base.h"

struct btf;

/* The kernel's own; NULL without. */
struct btf *ft_core_btf_kernel(void);

/* Names of the structs, unions and enums of objects, without flavours ("x___old" is "x"). */
struct ft_core_names;
int ft_core_names_add(struct ft_core_names **names, const struct btf *object);
void ft_core_names_free(struct ft_core_names *names);

/*
 * A copy of the named types of `kernel` with what they hold by value: enough to relocate fields,
 * values of enums, sizes and the existence of structs. Pointers point to void, typedefs are left
 * out. To be freed with btf__free(). 0 or negative errno.
 */
int ft_core_btf_new(struct btf **out, const struct btf *kernel, const struct ft_core_names *names);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Inside of the source room: the table of programs and what the kernel's BTF tells. */
#ifndef FT_SOURCE_LOADER_H
#define FT_SOURCE_LOADER_H

#include "source/source.h"

struct btf;

/* A `lost` record for what was added since *seen, and *seen moves on. */
void ft_lost_emit(const char *of, uint64_t *seen, uint64_t now, const char *why,
		  const struct ft_emit *emit);

/* Fills what depends on this kernel: layouts of tracepoints, classes of drop reasons. */
void ft_features(const struct btf *btf, struct ft_cfg *cfg);
/*
 * Type of the target of `attach` ("tp_btf/x", "iter/x", "fentry/x", "fexit/x", "kprobe/x"); 0 for
 * other kinds, -ENOENT when this kernel has no such target.
 */
int ft_target_id(const struct btf *btf, const char *attach);

/* Texts for numbers that only this kernel can name; asked per record. */
struct ft_kernel;
int ft_kernel_new(struct ft_kernel **out, const struct btf *btf);
void ft_kernel_free(struct ft_kernel *n);
/* Drop reason without its prefix, of the core or of a subsystem, NULL when unknown. */
const char *ft_kernel_drop_reason(struct ft_kernel *n, uint32_t reason);
/* Adds the reasons of subsystems that a btf has, from its type number first_type on. 0, -ENOMEM. */
int ft_kernel_subsys_drops(struct ft_kernel *n, const struct btf *btf, uint32_t first_type);
/* Reason of a reset that was sent, without its prefix, NULL when unknown. */
const char *ft_kernel_reset_reason(const struct ft_kernel *n, uint32_t reason);
/* Function that holds the address, "" when the kernel hides it. */
const char *ft_kernel_symbol(struct ft_kernel *n, uint64_t addr);

/* Hands on a record of the ring, its numbers completed by texts. */
void ft_kernel_texts(struct ft_kernel *kernel, const void *buf, size_t len,
		     const struct ft_emit *emit);

#endif

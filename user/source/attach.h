/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Programs on places of the kernel itself: tracepoints, functions, iterators. */
#ifndef FT_SOURCE_ATTACH_H
#define FT_SOURCE_ATTACH_H

#include "source/source.h"

struct btf;
struct bpf_link;
struct bpf_program;

/*
 * Looks each row's target up in the kernel's types and notes what is not there. Returns what must
 * stay registered with libbpf until the objects are loaded, NULL without memory: libbpf then finds
 * the targets by itself.
 */
int *ft_attach_resolve(struct ft_probe *probes, size_t n, const struct btf *btf);
void ft_attach_resolved_free(int *handlers, size_t n);

/* Whether what refuses the one program would refuse the other, too. */
bool ft_attach_same_kind(const struct ft_probe *a, const struct ft_probe *b);

/*
 * Attaches a loaded program and notes in its row what came of it. map_fd: of the map that an
 * iterator goes through. The link, NULL when it failed.
 */
struct bpf_link *ft_attach(struct ft_probe *p, const struct bpf_program *prog, int map_fd);

/* The row that p stands in for, NULL none. */
struct ft_probe *ft_attach_better(struct ft_probe *probes, size_t n, const struct ft_probe *p);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The commands: one file each, main.c only dispatches. */
#ifndef FT_CLI_CLI_H
#define FT_CLI_CLI_H

#include <argp.h>

#include "base/base.h"

/* Each returns the program's exit status. */
int ft_cmd_trace(int argc, char **argv);
int ft_cmd_probes(int argc, char **argv);
int ft_cmd_schema(int argc, char **argv);
int ft_cmd_topo(int argc, char **argv);

/* For each command's argp: -h does what --help does. */
extern const struct argp_child ft_help_too[];

/* Exit status for a failed ft_bpf_open(), with the message printed. */
int ft_bpf_failed(int err);

struct ft_bpf;
/* Says of programs that the kernel refused that it is locked down, where it is. */
void ft_perm_explain(struct ft_bpf *b);

/*
 * Calls each(out, name, what it hides) for every capability that is missing, or only for the two
 * that nothing works without; each may be NULL. Returns their number.
 */
int ft_perm_missing(struct ft_buf *out, bool essential,
		    void (*each)(struct ft_buf *, const char *, const char *));

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
#ifndef FT_CLI_TOPO_H
#define FT_CLI_TOPO_H

#include "cli/target.h"
#include "host/net.h"
#include "host/nvml.h"
#include "host/pci.h"
#include "host/proc.h"

struct topo {
	/* options */
	uint32_t *pids;
	size_t npids;
	const char *cgroup, *root;
	bool all, no_children, json;
	/* what was found */
	char host[256], kernel[160];
	struct ft_pidset set;
	struct ft_pci *pci;
	struct ft_net *net;
	struct ft_nvml *nvml; /* NULL: not asked, or why not is in nvml_error */
	int nvml_error;
	struct ft_proc_facts **procs;
	size_t nprocs;
};

/* inv.host for the processes that could not be looked through; false: there is none. */
bool topo_unread_rec(const struct topo *t, struct ft_rec *out);
/* Prints it as tables, at most 100 columns wide. */
void topo_text(const struct topo *t);

#endif

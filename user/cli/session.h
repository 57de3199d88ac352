/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* One tracing session: target, sources, pipeline, end. */
#ifndef FT_CLI_SESSION_H
#define FT_CLI_SESSION_H

#include "base/base.h"

struct ft_trace_opts {
	uint32_t *pids;
	size_t npids;
	const char *cgroup;
	char **cmd; /* after --, NULL terminated */
	double seconds;
	unsigned int pcie_interval_ms; /* 0: default */
	bool all, no_children, json, collectives, no_color;
};

/* Runs to the end of the session; returns the program's exit status. */
int ft_session_run(const struct ft_trace_opts *opts);

#endif

// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* What the commands' options have in common. */
#include "cli/cli.h"

static error_t parse_help(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != 'h')
		return ARGP_ERR_UNKNOWN;
	argp_state_help(state, state->out_stream, ARGP_HELP_STD_HELP);
	return 0;
}

static const struct argp_option help_options[] = { { NULL, 'h', NULL, OPTION_HIDDEN, NULL, 0 },
						   {} };
static const struct argp help_argp = { .options = help_options, .parser = parse_help };
const struct argp_child ft_help_too[] = { { .argp = &help_argp }, {} };

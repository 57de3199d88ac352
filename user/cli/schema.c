// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include "cli/cli.h"
#include "event/event.h"

int ft_cmd_schema(int argc, char **argv)
{
	_cleanup_buf_ struct ft_buf b = {};

	if (argc > 1) {
		if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
			printf("Usage: fabrictrace schema\nPrints the JSON Schema (2020-12) of the lines of --json.\n");
			return FT_EXIT_OK;
		}
		ft_err("schema takes no \"%s\"", argv[1]);
		return FT_EXIT_USAGE;
	}
	ft_json_schema(&b);
	if (b.err || fwrite(b.s, 1, b.len, stdout) != b.len || fflush(stdout)) {
		ft_err("cannot write the schema: %s", strerror(b.err ? -b.err : errno));
		return FT_EXIT_INTERNAL;
	}
	return FT_EXIT_OK;
}

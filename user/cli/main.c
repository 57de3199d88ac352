// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <fcntl.h>
#include <malloc.h>

#include "cli/cli.h"

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *doc;
} commands[] = {
	{ "trace", ft_cmd_trace, "watch a job and name what is wrong (the default)" },
	{ "probes", ft_cmd_probes, "what can be observed on this machine, and what not and why" },
	{ "topo", ft_cmd_topo, "processes, ranks, GPUs, NICs and the PCIe paths between them" },
	{ "schema", ft_cmd_schema, "JSON Schema of the lines of --json" },
};

static int help(void)
{
	printf("Usage: fabrictrace [COMMAND] [OPTION...]\n"
	       "Names the slow or faulty link of a running NCCL job, and the ranks that pay for it.\n\n"
	       "  sudo fabrictrace -p PID          attach to a job (launcher, rank or shell)\n"
	       "  sudo fabrictrace --cgroup ID     the job of a container, pod or Slurm job\n"
	       "  sudo fabrictrace -- CMD ARG...   start a job and trace it\n"
	       "  sudo fabrictrace                 no job: this node's links, GPUs and kernel log\n\n"
	       "Commands:\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		printf("  %-8s %s\n", commands[i].name, commands[i].doc);
	printf("\n`fabrictrace COMMAND --help` lists the options of a command; man fabrictrace has all of it.\n");
	return FT_EXIT_OK;
}

/*
 * Without them the first files that we open would get these numbers, and our output with them. Each
 * is open the wrong way round, so that its use fails.
 */
static void std_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDONLY);
		if (fd == STDIN_FILENO) {
			close(fd);
			fd = open("/dev/null", O_WRONLY);
		}
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

static int dispatch(int argc, char **argv)
{
	static char name[32]; /* in messages of argp */

	if (argc > 1 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))) {
		printf("fabrictrace %s\n", FT_VERSION);
		return FT_EXIT_OK;
	}
	if (argc > 1 &&
	    (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")))
		return help();
	for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(commands); i++) {
		if (strcmp(argv[1], commands[i].name) != 0)
			continue;
		ft_fmt(name, "fabrictrace %s", argv[1]);
		argv[1] = name;
		return commands[i].run(argc - 1, argv + 1);
	}
	if (argc > 1 && argv[1][0] != '-') {
		ft_err("no command \"%s\"; fabrictrace --help lists them", argv[1]);
		return FT_EXIT_USAGE;
	}
	return ft_cmd_trace(argc, argv);
}

int main(int argc, char **argv)
{
	int status;

	if (argc > 0)
		argv[0] = program_invocation_short_name;
	std_fds();
	/*
	 * The kernel's BTF is read and dropped several times, 5 MB each: without a fixed threshold
	 * glibc moves such blocks into the heap after the first one and peak memory doubles.
	 */
	mallopt(M_MMAP_THRESHOLD, 256 << 10);
	status = dispatch(argc, argv);
	if ((fflush(stdout) || ferror(stdout)) && !status) {
		ft_err("cannot write the output: %s", strerror(errno));
		return FT_EXIT_INTERNAL;
	}
	return status;
}

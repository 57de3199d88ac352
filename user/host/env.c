// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The rank that a launcher wrote into the environment. */
#include <limits.h>

#include "host/fs.h"
#include "host/proc.h"

/* In order of precedence. */
static const struct launcher {
	const char *rank, *world, *local;
	bool direct; /* only without another launcher in between */
} launchers[] = {
	{ "RANK", "WORLD_SIZE", "LOCAL_RANK", false },
	{ "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", false },
	{ "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", false },
	{ "PMIX_RANK", NULL, NULL, false },
	{ "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", true },
};

static const char *env_get(const char *env, size_t len, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < len; i += strnlen(env + i, len - i) + 1)
		if (len - i > n && !memcmp(env + i, name, n) && env[i + n] == '=')
			return env[i + n + 1] ? env + i + n + 1 : NULL; /* empty is not set */
	return NULL;
}

static int32_t env_number(const char *env, size_t len, const char *name)
{
	const char *s = name ? env_get(env, len, name) : NULL;
	uint64_t v;

	/* In decimal only: nobody writes a rank as 0x1. */
	if (!s || strlen(s) > 10 || s[strspn(s, "0123456789")] || ft_parse_u64(s, &v) ||
	    v > INT32_MAX)
		return FT_NONE_S32;
	return v;
}

void ft_env_rank_find(const char *env, size_t len, bool direct, struct ft_env_rank *out)
{
	struct ft_env_rank r = { FT_NONE_S32, FT_NONE_S32, FT_NONE_S32, "" };

	*out = r;
	for (size_t i = 0; i < ARRAY_SIZE(launchers); i++) {
		const struct launcher *l = &launchers[i];

		/* A launcher sets all of its variables: a lone RANK is somebody else's. */
		if ((l->direct && !direct) || !env_get(env, len, l->rank) ||
		    (l->world && !env_get(env, len, l->world)))
			continue;
		r.rank = env_number(env, len, l->rank);
		r.world = env_number(env, len, l->world);
		r.local = env_number(env, len, l->local);
		/*
		 * What contradicts itself is not replaced by a lower launcher's view: it stays
		 * unknown.
		 */
		if (r.rank < 0 || (l->world && r.rank >= r.world))
			return;
		if (r.local >= 0 && r.world >= 0 && r.local >= r.world)
			r.local = FT_NONE_S32;
		ft_strcpy(r.by, l->rank, sizeof(r.by));
		*out = r;
		return;
	}
}

static const char *const launcher_names[] = {
	"torchrun",
	"mpirun",
	"mpiexec",
	"mpiexec.hydra",
	"mpiexec.mpich",
	"mpirun.openmpi",
	"orterun",
	"prterun",
	"prun",
	"orted",
	"prted",
	"hydra_pmi_proxy",
	"srun",
	"deepspeed",
	"accelerate",
	"horovodrun",
	"colossalai",
	/* python -m */
	"torch.distributed.run",
	"torch.distributed.launch",
	"deepspeed.launcher.launch",
	"deepspeed.launcher.runner",
	"accelerate.commands.launch",
	"torchx",
};

bool ft_proc_is_launcher(const char *args, size_t len)
{
	bool value = false; /* of python's -X or -W */

	/* python -u -X opt -m torch.distributed.run: the name is among the first few words. */
	for (size_t i = 0, word = 0; i < len && word < 8;
	     i += strnlen(args + i, len - i) + 1, word++) {
		const char *slash = strrchr(args + i, '/');
		const char *name = slash ? slash + 1 : args + i;

		for (size_t k = 0; k < ARRAY_SIZE(launcher_names); k++)
			if (!strcmp(name, launcher_names[k]))
				return true;
		/* What follows a script or a module are its own arguments. */
		if (word && args[i] != '-' && !value)
			break;
		value = !strcmp(name, "-X") || !strcmp(name, "-W");
	}
	return false;
}

/* They run one command and wait for it. */
static const char *const wrappers[] = {
	"sh",	   "bash",    "dash",	   "zsh",	"ksh",	  "csh",     "tcsh",
	"fish",	   "busybox", "time",	   "timeout",	"env",	  "nice",    "numactl",
	"taskset", "setsid",  "stdbuf",	   "nsys",	"strace", "starter", "starter-suid",
	"appinit", "tini",    "dumb-init", "catatonit",
};

bool ft_proc_is_wrapper(const char *comm)
{
	for (size_t i = 0; i < ARRAY_SIZE(wrappers); i++)
		if (!strcmp(comm, wrappers[i]))
			return true;
	return false;
}

bool ft_proc_slurm_direct(const char *root, uint32_t pid)
{
	struct ft_proc_stat st;

	if (ft_proc_stat_read(root, pid, &st))
		return false;
	for (int depth = 0; depth < 16 && st.ppid; depth++) {
		if (ft_proc_stat_read(root, st.ppid, &st))
			return false;
		if (!strcmp(st.comm, "slurmstepd"))
			return true;
		if (!ft_proc_is_wrapper(st.comm))
			return false;
	}
	return false;
}

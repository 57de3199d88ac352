// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "fixtures/machine.h"
#include "host/proc.h"

#define NONE FT_NONE_S32

/* env: assignments separated by blanks */
static struct ft_env_rank find(const char *env, bool direct)
{
	char text[512];
	size_t len = strlen(env);
	struct ft_env_rank r;

	ft_strcpy(text, env, sizeof(text));
	for (char *p = text; *p; p++)
		*p = *p == ' ' ? 0 : *p;
	ft_env_rank_find(text, len ? len + 1 : 0, direct, &r);
	return r;
}

static void test_ranks(void **state)
{
	static const struct {
		const char *env;
		bool direct;
		int32_t rank, world, local;
		const char *by;
	} rows[] = {
		{ "", true, NONE, NONE, NONE, "" },
		{ "PATH=/bin HOME=/", true, NONE, NONE, NONE, "" },
		{ "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1", false, 3, 8, 1, "RANK" },
		{ "RANK=0 WORLD_SIZE=1", false, 0, 1, NONE, "RANK" },
		/* precedence */
		{ "SLURM_PROCID=9 SLURM_NTASKS=16 OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6 WORLD_SIZE=8 RANK=7",
		  true, 7, 8, NONE, "RANK" },
		{ "SLURM_PROCID=9 SLURM_NTASKS=16 OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=6",
		  true, 5, 6, NONE, "OMPI_COMM_WORLD_RANK" },
		{ "SLURM_PROCID=9 SLURM_NTASKS=16 PMI_RANK=5 PMI_SIZE=6 MPI_LOCALRANKID=1", true, 5,
		  6, 1, "PMI_RANK" },
		{ "PMIX_RANK=4 SLURM_PROCID=9 SLURM_NTASKS=16", true, 4, NONE, NONE, "PMIX_RANK" },
		{ "SLURM_PROCID=9 SLURM_NTASKS=16 SLURM_LOCALID=1", true, 9, 16, 1,
		  "SLURM_PROCID" },
		{ "SLURM_PROCID=9 SLURM_NTASKS=16 SLURM_LOCALID=1", false, NONE, NONE, NONE, "" },
		/* a lone RANK is somebody else's */
		{ "RANK=3", true, NONE, NONE, NONE, "" },
		{ "RANK=3 SLURM_PROCID=2 SLURM_NTASKS=4", true, 2, 4, NONE, "SLURM_PROCID" },
		{ "RANK= WORLD_SIZE=8 PMI_RANK=1 PMI_SIZE=2", false, 1, 2, NONE, "PMI_RANK" },
		/* contradictions: unknown, and never another launcher's view */
		{ "RANK=8 WORLD_SIZE=8 PMI_RANK=1 PMI_SIZE=2", false, NONE, NONE, NONE, "" },
		{ "RANK=-1 WORLD_SIZE=8", false, NONE, NONE, NONE, "" },
		{ "RANK=x WORLD_SIZE=8", false, NONE, NONE, NONE, "" },
		{ "RANK=1x WORLD_SIZE=8", false, NONE, NONE, NONE, "" },
		{ "RANK=0x1 WORLD_SIZE=8", false, NONE, NONE, NONE, "" },
		{ "RANK=1 WORLD_SIZE=many", false, NONE, NONE, NONE, "" },
		{ "RANK=4294967296 WORLD_SIZE=4294967297", false, NONE, NONE, NONE, "" },
		{ "RANK=99999999999999999999 WORLD_SIZE=8", false, NONE, NONE, NONE, "" },
		{ "RANK=1 WORLD_SIZE=8 LOCAL_RANK=9", false, 1, 8, NONE, "RANK" },
		{ "RANK=1 WORLD_SIZE=8 LOCAL_RANK=?", false, 1, 8, NONE, "RANK" },
		/* names that only begin alike */
		{ "RANKS=3 WORLD_SIZE=8 MY_RANK=2", false, NONE, NONE, NONE, "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ft_env_rank r = find(rows[i].env, rows[i].direct);

		if (r.rank != rows[i].rank || r.world != rows[i].world ||
		    r.local != rows[i].local || strcmp(r.by, rows[i].by) != 0)
			fail_msg("\"%s\" gives %d of %d, local %d, by \"%s\"", rows[i].env, r.rank,
				 r.world, r.local, r.by);
	}
}

static void test_odd_bytes(void **state)
{
	static const char env[] = "A=\x01\xff\n\0\0\0=\0RANK\0RANK=2\0WORLD_SIZE=4\0LAST";
	struct ft_env_rank r;

	(void)state;
	ft_env_rank_find(env, sizeof(env), false, &r);
	assert_int_equal(r.rank, 2);
	assert_int_equal(r.world, 4);
}

static bool launcher(const char *words)
{
	char text[256];
	size_t len = strlen(words) + 1;

	ft_strcpy(text, words, sizeof(text));
	for (char *p = text; *p; p++)
		*p = *p == ' ' ? 0 : *p;
	return ft_proc_is_launcher(text, len);
}

static void test_launchers(void **state)
{
	(void)state;
	assert_true(launcher("torchrun train.py"));
	assert_true(launcher("/usr/bin/python3 /opt/bin/torchrun --nnodes 2 train.py"));
	assert_true(launcher("python -u -m torch.distributed.run train.py"));
	assert_true(launcher("python -X dev -m torch.distributed.launch train.py"));
	assert_true(launcher("/usr/bin/mpirun -n 4 ./a"));
	assert_true(launcher("orted --hnp"));
	assert_false(launcher("python train.py --launcher torchrun"));
	assert_false(launcher("python -m train torchrun"));
	assert_false(launcher("./trainer"));
	assert_false(ft_proc_is_launcher("", 0));
}

static void test_slurm_direct(void **state)
{
	(void)state;
	put_job();
	put_proc(&(struct proc_spec){ 2000, 900, "python", .inner = 0 });
	put_proc(&(struct proc_spec){ 2001, 900, "bash", .inner = 0 });
	put_proc(&(struct proc_spec){ 2002, 2001, "python", .inner = 0 });
	put_proc(&(struct proc_spec){ 2003, 2002, "python", .inner = 0 });
	assert_true(ft_proc_slurm_direct(machine_root, 2000));
	assert_true(ft_proc_slurm_direct(machine_root, 2002));
	/* torchrun or another python in between */
	assert_false(ft_proc_slurm_direct(machine_root, 1001));
	assert_false(ft_proc_slurm_direct(machine_root, 2003));
	assert_false(ft_proc_slurm_direct(machine_root, 1));
	assert_false(ft_proc_slurm_direct(machine_root, 77777));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranks),
		cmocka_unit_test(test_odd_bytes),
		cmocka_unit_test(test_launchers),
		cmocka_unit_test_setup_teardown(test_slurm_direct, machine_new, machine_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

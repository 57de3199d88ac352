/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The test job: options, the table of NCCL functions, the exchange of the unique id. */
#ifndef FT_WORKLOAD_TRAINER_H
#define FT_WORKLOAD_TRAINER_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

#include "nccl.h"

#define SLOTS_MAX 16

/* Filled by the linker (trainer) or by nccl_load (trainer-dl). */
#define NCCL_MEMBER(ret, name, args) ret (*name) args;
struct nccl {
	NCCL_FUNCTIONS(NCCL_MEMBER)
	FT_NCCL_FUNCTIONS(NCCL_MEMBER)
};

extern struct nccl nccl;
int nccl_load(const char *path);	/* NULL: the one beside the program */
extern const bool nccl_late;

enum init_method { INIT_RANK, INIT_CONFIG, INIT_SCALABLE, INIT_GROUP, INIT_ALL };

enum fault_kind { FAULT_STALL, FAULT_EXIT, FAULT_SIGNAL, FAULT_WARN, FAULT_KINDS };

struct fault {
	int at;				/* step; -1 never */
	int rank;
};

struct options {
	int rank, nranks;
	int threads;			/* ranks of this process, a thread each */
	int init;			/* enum init_method */
	int steps;
	double seconds;
	size_t sizes[SLOTS_MAX];
	int nsizes;
	int ops[SLOTS_MAX];
	int nops;
	double compute_ms;
	double *delay_ms;		/* by rank; NULL: none */
	int delay_from;
	int sync_every;
	bool group;
	int split;			/* colours; 0: no split */
	int verify_every;		/* 0: never */
	bool print_step;
	struct fault faults[FAULT_KINDS];
	double stall_s;
	int exit_code;
	int signal;
	const char *warn_text;
	int helpers;
	const char *start_file;
	bool hold_init;
	bool init_only;
	const char *library;
	int library_after_ms;
};

extern const char *const train_op_names[];
int options_parse(struct options *opts, int argc, char **argv);

/* rank 0 gives the id to whoever asks at MASTER_ADDR:MASTER_PORT, the others fetch it there. */
int id_serve(const ncclUniqueId *id);
int id_fetch(ncclUniqueId *id);

double now_ms(void);
void sleep_ms(double ms);

#endif

/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The trainer's options: a table of name, type and place. */
#define _GNU_SOURCE
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainer.h"

enum type { INT, DOUBLE, TEXT, FLAG, SIZES, OPS, DELAY, INIT, INIT_ALL_FLAG, HOLD, VERIFY };

struct option_row {
	const char *name, *arg, *doc;
	enum type type;
	size_t at;
};

#define AT(member) offsetof(struct options, member)
#define FAULT_AT(kind) AT(faults[kind].at)
#define FAULT_RANK(kind) AT(faults[kind].rank)

static const struct option_row rows[] = {
	{ "rank", "R", "first rank of this process (RANK)", INT, AT(rank) },
	{ "nranks", "N", "ranks of the job (WORLD_SIZE, else --threads)", INT, AT(nranks) },
	{ "threads", "N", "ranks of this process, a thread each", INT, AT(threads) },
	{ "init-all", NULL, "as --init all", INIT_ALL_FLAG, 0 },
	{ "init", "HOW", "rank, config or scalable; group or all: one thread drives all ranks",
	  INIT, 0 },
	{ "init-only", NULL, "call the init, print its result, exit 0", FLAG, AT(init_only) },
	{ "steps", "N", "steps to run (10)", INT, AT(steps) },
	{ "seconds", "S", "run that long instead of --steps, by rank 0's clock: it "
	  "broadcasts 4 bytes each step", DOUBLE,
	  AT(seconds) },
	{ "size", "BYTES,...", "bytes of each operation, K, M, G (1M)", SIZES, 0 },
	{ "ops", "OP,...", "allreduce, allgather, reducescatter, broadcast, reduce, sendrecv, "
	  "alltoall (allreduce)", OPS, 0 },
	{ "group", NULL, "the operations of a step in one group", FLAG, AT(group) },
	{ "split", "K", "also an all-reduce in each of K split communicators", INT, AT(split) },
	{ "sync-every", "N", "steps between stream synchronisations (1)", INT, AT(sync_every) },
	{ "compute-ms", "MS", "sleep before the operations of each step", DOUBLE, AT(compute_ms) },
	{ "delay-ms", "R:MS,...", "further sleep of rank R in each step", DELAY, 0 },
	{ "delay-from", "STEP", "first step with --delay-ms (0)", INT, AT(delay_from) },
	{ "verify", "WHEN", "none, some: first and every 50th step, all (some)", VERIFY, 0 },
	{ "print-step", NULL, "a line for the init and each step", FLAG, AT(print_step) },
	{ "stall-at", "STEP", "a rank sleeps before its collectives", INT, FAULT_AT(FAULT_STALL) },
	{ "stall-rank", "R", "the rank that sleeps (0)", INT, FAULT_RANK(FAULT_STALL) },
	{ "stall-s", "S", "how long --stall-at lasts (for ever)", DOUBLE, AT(stall_s) },
	{ "exit-at", "STEP", "a rank's process exits", INT, FAULT_AT(FAULT_EXIT) },
	{ "exit-rank", "R", "the rank that exits (0)", INT, FAULT_RANK(FAULT_EXIT) },
	{ "exit-code", "CODE", "the status of --exit-at (1)", INT, AT(exit_code) },
	{ "signal-at", "STEP", "a rank's process gets a signal", INT, FAULT_AT(FAULT_SIGNAL) },
	{ "signal-rank", "R", "the rank that gets the signal (0)", INT, FAULT_RANK(FAULT_SIGNAL) },
	{ "signal", "NUMBER", "the signal of --signal-at (9)", INT, AT(signal) },
	{ "warn-at", "STEP", "the library logs a WARN", INT, FAULT_AT(FAULT_WARN) },
	{ "warn-rank", "R", "the rank on which it warns (0)", INT, FAULT_RANK(FAULT_WARN) },
	{ "warn-text", "TEXT", "what it warns of (default: a real call with a wrong type)", TEXT,
	  AT(warn_text) },
	{ "helpers", "N", "forked workers of each rank, like a data loader's", INT, AT(helpers) },
	{ "start-file", "PATH", "wait until this file exists", TEXT, AT(start_file) },
	{ "hold", "WHERE", "where to wait for it: init or steps (steps)", HOLD, 0 },
	{ "dlopen", "PATH", "trainer-dl: the library (the one beside it)", TEXT, AT(library) },
	{ "dlopen-after-ms", "MS", "trainer-dl: load it that late", INT, AT(library_after_ms) },
};

#define ROWS (sizeof(rows) / sizeof(*rows))
#define KEY_BASE 256
#define RANKS_MAX 65536

const char *const train_op_names[] = { "allreduce", "allgather", "reducescatter", "broadcast",
				       "reduce", "sendrecv", "alltoall", NULL };
static const char *const init_names[] = { "rank", "config", "scalable", "group", "all", NULL };
static const char *const hold_names[] = { "steps", "init", NULL };
static const char *const verify_names[] = { "none", "all", "some", NULL };
static const int verify_steps[] = { 0, 1, 50 };

static int name_index(const char *name, const char *const *names)
{
	for (int i = 0; names[i]; i++)
		if (!strcmp(name, names[i]))
			return i;
	return -EINVAL;
}

static int size_parse(const char *text, size_t *size)
{
	static const char units[] = "KMG";
	char *end;
	unsigned long long n = strtoull(text, &end, 0);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end == text || !n || (*end && (!unit || end[1])))
		return -EINVAL;
	*size = n << (unit ? 10 * (unit - units + 1) : 0);
	return 0;
}

static int sizes_parse(struct options *o, char *arg)
{
	char *save, *s;

	o->nsizes = 0;
	for (s = strtok_r(arg, ",", &save); s; s = strtok_r(NULL, ",", &save))
		if (o->nsizes == SLOTS_MAX || size_parse(s, &o->sizes[o->nsizes++]))
			return -EINVAL;
	return o->nsizes ? 0 : -EINVAL;
}

static int ops_parse(struct options *o, char *arg)
{
	char *save, *s;

	o->nops = 0;
	for (s = strtok_r(arg, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		int op = name_index(s, train_op_names);

		if (op < 0 || o->nops == SLOTS_MAX)
			return -EINVAL;
		o->ops[o->nops++] = op;
	}
	return o->nops ? 0 : -EINVAL;
}

/* Before nranks is known: a table for any rank number. */
static int delay_parse(struct options *o, char *arg)
{
	char *save, *s, *end;

	for (s = strtok_r(arg, ",", &save); s; s = strtok_r(NULL, ",", &save)) {
		long rank = strtol(s, &end, 10);

		if (end == s || *end != ':' || rank < 0 || rank >= RANKS_MAX)
			return -EINVAL;
		if (!o->delay_ms)
			o->delay_ms = calloc(RANKS_MAX, sizeof(*o->delay_ms));
		if (!o->delay_ms)
			return -ENOMEM;
		o->delay_ms[rank] = strtod(end + 1, NULL);
	}
	return 0;
}

static int row_set(struct options *o, const struct option_row *row, char *arg)
{
	char *at = (char *)o + row->at, *end;
	int i = 0;

	switch (row->type) {
	case INT:
		*(int *)at = strtol(arg, &end, 0);
		return *end || end == arg ? -EINVAL : 0;
	case DOUBLE:
		*(double *)at = strtod(arg, &end);
		return *end || end == arg ? -EINVAL : 0;
	case TEXT:
		*(const char **)at = arg;
		return 0;
	case FLAG:
		*(bool *)at = true;
		return 0;
	case SIZES:
		return sizes_parse(o, arg);
	case OPS:
		return ops_parse(o, arg);
	case DELAY:
		return delay_parse(o, arg);
	case INIT:
		i = o->init = name_index(arg, init_names);
		break;
	case INIT_ALL_FLAG:
		o->init = INIT_ALL;
		break;
	case HOLD:
		i = name_index(arg, hold_names);
		o->hold_init = i == 1;
		break;
	case VERIFY:
		i = name_index(arg, verify_names);
		o->verify_every = i < 0 ? 0 : verify_steps[i];
		break;
	default:
		return -EINVAL;
	}
	return i < 0 ? i : 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	const struct option_row *row;

	if (key == ARGP_KEY_ARG)
		argp_error(state, "what is '%s'?", arg);
	if (key < KEY_BASE || key >= KEY_BASE + (int)ROWS)
		return ARGP_ERR_UNKNOWN;
	row = &rows[key - KEY_BASE];
	if (row_set(state->input, row, arg))
		argp_error(state, "--%s: '%s' is not %s", row->name, arg, row->arg);
	return 0;
}

static int env_int(const char *name, int fallback)
{
	const char *value = getenv(name);

	return value ? atoi(value) : fallback;
}

int options_parse(struct options *o, int argc, char **argv)
{
	struct argp_option table[ROWS + 1] = { 0 };
	struct argp argp = { .options = table, .parser = parse,
			     .doc = "A training job for tests: steps of compute and collectives." };

	*o = (struct options){
		.rank = env_int("RANK", 0), .nranks = env_int("WORLD_SIZE", 0), .threads = 1,
		.steps = 10, .sizes = { 1 << 20 }, .nsizes = 1, .nops = 1, .sync_every = 1,
		.verify_every = 50, .exit_code = 1, .signal = 9,
	};
	for (int i = 0; i < FAULT_KINDS; i++)
		o->faults[i].at = -1;
	for (size_t i = 0; i < ROWS; i++)
		table[i] = (struct argp_option){ .name = rows[i].name, .key = KEY_BASE + i,
						 .arg = rows[i].arg, .doc = rows[i].doc };
	if (argp_parse(&argp, argc, argv, 0, NULL, o))
		return -EINVAL;
	if (!o->nranks)
		o->nranks = o->threads;
	return o->threads < 1 || o->rank < 0 || o->sync_every < 1 ? -EINVAL : 0;
}

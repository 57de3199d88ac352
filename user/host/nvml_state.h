/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * The state of NVIDIA GPUs, by NVML: asked by a process of its own, since a sick GPU can hold a
 * call for ever, and the kernel then lets go of nothing that the caller holds.
 */
#ifndef FT_HOST_NVML_STATE_H
#define FT_HOST_NVML_STATE_H

#include <sys/types.h>

#include "event/event.h"

struct ft_pci;

#define FT_NVLINKS 36 /* of one GPU: NVML_NVLINK_MAX_LINKS of release 13 */

/* Kinds of errors that NVLinks count; a generation of GPUs has some of them. */
enum {
	FT_NVLINK_REPLAY,
	FT_NVLINK_RECOVERY,
	FT_NVLINK_CRC_FLIT,
	FT_NVLINK_CRC_DATA,
	FT_NVLINK_ECC_DATA,
	FT_NVLINK_CRC,
	FT_NVLINK_MALFORMED,
	FT_NVLINK_OVERRUN,
	FT_NVLINK_RECEIVE,
	FT_NVLINK_REMOTE,
	FT_NVLINK_HEADER,
	FT_NVLINK_INTEGRITY,
	FT_NVLINK_DISCARD,
	FT_NVLINK_RECOVERED,
	FT_NVLINK_RECOVERY_FAILED,
	FT_NVLINK_EFFECTIVE,
	FT_NVLINK_ERRORS
};
const char *ft_nvlink_error_name(unsigned int kind);

struct ft_nvlink {
	uint8_t active;			   /* FT_NONE_U8 unknown */
	uint64_t errors[FT_NVLINK_ERRORS]; /* since the driver was loaded, FT_NONE_U64 unknown */
};

struct ft_nvml_state {
	char bdf[16];  /* as the kernel writes it, "" unknown */
	int32_t minor; /* of /dev/nvidiaN, FT_NONE_S32 unknown */
	int error;     /* why nothing more is known, 0: it answered */
	bool asleep;   /* it was not asked: that would wake it up */
	/* all bits set: unknown */
	uint64_t reasons; /* FT_CLOCKS_* */
	uint32_t sm_mhz, temperature, power_mw, power_limit_mw;
	uint8_t pstate, utilization;
	int nlinks; /* 0: it has none; FT_NONE_S32: not asked, or it does not tell */
	struct ft_nvlink links[FT_NVLINKS];
};

/* What limits the clocks, nvml.h's bits. */
#define FT_CLOCKS_HW_SLOWDOWN	 0x08
#define FT_CLOCKS_SW_THERMAL	 0x20
#define FT_CLOCKS_HW_THERMAL	 0x40
#define FT_CLOCKS_HW_POWER_BRAKE 0x80
/* nvml.h's name of a bit, NULL: it has none. */
const char *ft_clocks_reason_name(unsigned int bit);

struct ft_nvml_asker;

struct ft_nvml_asker_opts {
	const char *library;  /* NULL: FT_NVML, else the driver's own */
	const char *root;     /* of /sys and /proc, "" for the machine itself */
	unsigned int rest_ms; /* so long a GPU that gave an error is not asked again */
};

/*
 * Starts the process; it opens the library when it is asked first, and ends with us. Of the tree
 * it asks the NVIDIA GPUs; without any, those that NVML counts.
 */
int ft_nvml_asker_new(struct ft_nvml_asker **out, const struct ft_pci *pci,
		      const struct ft_nvml_asker_opts *opts);
/* Readable when there is an answer, or its process has ended. */
int ft_nvml_asker_fd(const struct ft_nvml_asker *a);
pid_t ft_nvml_asker_pid(const struct ft_nvml_asker *a);
/* Asks for one round: each GPU, and with `links` their NVLinks. Never blocks. 0, -EPIPE. */
int ft_nvml_asker_ask(struct ft_nvml_asker *a, bool links);

enum { FT_NVML_GPU = 1, FT_NVML_END };
/*
 * The next answer: FT_NVML_GPU with *out; FT_NVML_END when all GPUs have been asked, with *result 0
 * or why none was: ft_nvml_read()'s errors. -EAGAIN: none yet; -EPIPE: the process has ended.
 */
int ft_nvml_asker_take(struct ft_nvml_asker *a, struct ft_nvml_state *out, int *result);
/* Ends the process now; one that the driver holds ends when the driver lets it go. */
void ft_nvml_asker_kill(struct ft_nvml_asker *a);
/* Whether it has ended, with the signal that did it (0: none). Never blocks. */
bool ft_nvml_asker_ended(struct ft_nvml_asker *a, int *signal);
/* Kills it and waits, but not for one that the driver holds. */
void ft_nvml_asker_free(struct ft_nvml_asker *a);

#endif

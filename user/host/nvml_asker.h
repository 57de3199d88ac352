/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Inside of the host room: what the process that asks NVML and its parent share. */
#ifndef FT_HOST_NVML_ASKER_H
#define FT_HOST_NVML_ASKER_H

#include "host/nvml_lib.h"
#include "host/nvml_state.h"

struct nvml_job_gpu {
	char bdf[16]; /* "": known when NVML has told */
	int32_t minor;
	nvml_device_t dev; /* NULL: not open */
	int error;	   /* of the last question */
	uint64_t rest_until_ns;
	uint32_t no_counter, no_field; /* kinds of errors that it does not have */
};

struct nvml_job {
	int fd;
	const char *library, *root;
	unsigned int rest_ms;
	struct nvml_lib lib; /* init NULL: not open yet */
	bool is_up;
	size_t ngpus;
	struct nvml_job_gpu gpus[GPUS_MAX];
};

/* One answer, one packet. */
struct nvml_msg {
	int what, result;
	struct ft_nvml_state state;
};

void nvml_state_unknown(struct ft_nvml_state *st, const char *bdf, int32_t minor);
/* Answers until nobody asks any more. */
void nvml_job_run(struct nvml_job *j);

#endif

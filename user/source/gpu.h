/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Inside of the source room: the state of GPUs, and the GPU source with its times, for tests. */
#ifndef FT_SOURCE_GPU_H
#define FT_SOURCE_GPU_H

#include "host/nvml_state.h"
#include "source/source.h"

struct gpu {
	struct ft_nvml_state told; /* clocks as the last line of it says */
	uint64_t told_ns;	   /* 0: there was none */
	int error;		   /* as told */
	bool asleep;
	bool counted; /* its NVLinks were read */
	int nlinks;
	struct ft_nvlink links[FT_NVLINKS]; /* as told */
};

void gpu_init(struct gpu *g);
/*
 * Emits what is new of number nr of NVML's GPUs; what did not get worse, nor tells whether it works,
 * at most once per settle_ns.
 */
void gpu_take(struct gpu *g, const struct ft_nvml_state *st, size_t nr, uint64_t settle_ns,
	      const struct ft_emit *emit);
/* After the first look at NVLinks: emits those that are down where the GPU's equals have more. */
void gpus_compare(const struct gpu *v, size_t n, const struct ft_emit *emit);

struct gpu_opts {
	struct ft_probe *clocks, *nvlink; /* rows of the probe table, they must live as long */
	struct ft_nvml_asker_opts asker;
	unsigned int attach_ms;	  /* so long the first round is waited for */
	unsigned int period_ms;	  /* of the rounds */
	unsigned int links_every; /* so many rounds ask the NVLinks once */
	unsigned int settle_ms;	  /* between two lines of a GPU of what did not get worse */
	unsigned int answer_ms;	  /* then it is named that there is no answer */
	unsigned int kill_ms;	  /* then the process is ended */
	unsigned int retry_ms;	  /* then another is started; doubled each time in a row */
	unsigned int retry_max_ms;
};

int gpu_src_open(struct ft_gpu_src **out, struct ft_loop *loop, const struct ft_emit *emit,
		 const struct ft_pci *pci, const struct gpu_opts *opts);

#endif

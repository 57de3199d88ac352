// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/*
 * Clock limits and NVLinks of GPUs, by NVML. A process of its own asks (host/nvml_state.h): what
 * does not answer costs an answer, and stalls nothing here. As long as it has a GPU open, that GPU
 * cannot be reset and the driver not be unloaded.
 */
#include <poll.h>

#include "host/nvml.h"
#include "source/gpu.h"

/* What the GPUs of one round said. */
struct round {
	size_t n; /* GPUs so far: they come in the same order each time */
	bool links;
	size_t clocks, with_links, without_links;
	int error; /* of the first that had one */
	bool asleep;
};

struct ft_gpu_src {
	struct ft_loop *loop;
	struct ft_emit emit;
	struct gpu_opts opts;
	const struct ft_pci *pci;
	struct ft_nvml_asker *asker;
	int timer;
	bool waiting, late, dying;
	bool compared; /* the links of the GPUs with each other */
	unsigned int rounds;
	uint64_t asked_ns, next_ns, retry_ns;
	unsigned int retry_ms;
	struct round round;
	struct gpu *gpus;
	size_t ngpus;
};

/* --- rows of the probe table --- */
static void row_set(struct ft_probe *row, enum ft_probe_state state, int error, const char *reason)
{
	if (!row)
		return;
	row->state = state;
	row->error = error;
	ft_strcpy(row->reason, reason, sizeof(row->reason));
}

static void rows_set(struct ft_gpu_src *s, enum ft_probe_state state, int error, const char *reason)
{
	row_set(s->opts.clocks, state, error, reason);
	row_set(s->opts.nvlink, state, error, reason);
}

/* --- a round --- */
static struct gpu *gpu_at(struct ft_gpu_src *s, size_t nr)
{
	struct gpu *v;

	if (nr < s->ngpus)
		return &s->gpus[nr];
	v = realloc(s->gpus, (nr + 1) * sizeof(*v));
	if (!v)
		return NULL;
	s->gpus = v;
	s->ngpus = nr + 1;
	gpu_init(&v[nr]);
	return &v[nr];
}

static void take_gpu(struct ft_gpu_src *s, const struct ft_nvml_state *st)
{
	size_t nr = s->round.n++;
	struct gpu *g = gpu_at(s, nr);

	if (!g)
		return;
	s->round.asleep |= st->asleep;
	if (st->error && !s->round.error)
		s->round.error = st->error;
	if (!st->error && !st->asleep) {
		s->round.clocks += st->reasons != FT_NONE_U64;
		s->round.with_links += st->nlinks > 0;
		s->round.without_links += st->nlinks == 0;
	}
	gpu_take(g, st, nr, s->opts.settle_ms * NSEC_PER_MSEC, &s->emit);
}

static const char *none_answered(const struct round *r)
{
	if (!r->n)
		return "the driver has no GPU";
	return r->error ? ft_nvml_reason(r->error) : "asleep: a question would wake it up";
}

static void rows_of_round(struct ft_gpu_src *s)
{
	const struct round *r = &s->round;
	bool answered = r->n && (r->clocks || (!r->error && !r->asleep));
	int error = r->error ? r->error : -ENODATA;

	if (r->clocks)
		row_set(s->opts.clocks, FT_PROBE_ON, 0, "");
	else if (answered)
		row_set(s->opts.clocks, FT_PROBE_OFF, -EOPNOTSUPP, "no GPU here tells");
	else
		row_set(s->opts.clocks, FT_PROBE_OFF, error, none_answered(r));
	if (!r->links)
		return;
	if (r->with_links)
		row_set(s->opts.nvlink, FT_PROBE_ON, 0, "");
	else if (r->without_links && !r->error && !r->asleep)
		row_set(s->opts.nvlink, FT_PROBE_UNNEEDED, 0, "no GPU here has NVLinks");
	else if (answered)
		row_set(s->opts.nvlink, FT_PROBE_OFF, -EOPNOTSUPP, "no GPU here tells");
	else
		row_set(s->opts.nvlink, FT_PROBE_OFF, error, none_answered(r));
}

static void finish(struct ft_gpu_src *s)
{
	ft_loop_del(s->loop, ft_nvml_asker_fd(s->asker));
	ft_nvml_asker_kill(s->asker);
	s->waiting = false;
	s->dying = true;
}

static void round_end(struct ft_gpu_src *s, int result)
{
	uint64_t rest_ns = s->opts.asker.rest_ms * NSEC_PER_MSEC;

	s->waiting = false;
	/* What the rows say of a round without an answer: the next one asks for all. */
	if (s->late || result)
		s->rounds = 0;
	s->late = false;
	if (!result) {
		rows_of_round(s);
		if (s->round.links && !s->compared)
			gpus_compare(s->gpus, s->ngpus, &s->emit);
		s->compared |= s->round.links;
		s->retry_ms = s->opts.retry_ms;
		return;
	}
	rows_set(s, FT_PROBE_OFF, result, ft_nvml_reason(result));
	s->next_ns = ft_mono_ns() + rest_ns;
	/* A library does not come while we run. */
	if (result == -ENOENT || result == -ENOSYS) {
		finish(s);
		s->retry_ns = UINT64_MAX;
	}
}

static void lost(struct ft_gpu_src *s)
{
	char text[96] = "the process that asks NVML has ended";
	int signal = 0;

	if (ft_nvml_asker_ended(s->asker, &signal) && signal)
		ft_fmt(text, "the process that asks NVML was ended by signal %d", signal);
	rows_set(s, FT_PROBE_OFF, -EPIPE, text);
	finish(s);
}

static void on_answer(void *ctx)
{
	struct ft_gpu_src *s = ctx;
	struct ft_nvml_state st;
	int result, what;

	while (!s->dying && (what = ft_nvml_asker_take(s->asker, &st, &result)) != -EAGAIN) {
		if (what == FT_NVML_GPU)
			take_gpu(s, &st);
		else if (what == FT_NVML_END)
			round_end(s, result);
		else
			lost(s);
	}
}

static void round_begin(struct ft_gpu_src *s)
{
	bool links = s->rounds++ % s->opts.links_every == 0;

	s->round = (struct round){ .links = links };
	s->asked_ns = ft_mono_ns();
	s->next_ns = s->asked_ns + s->opts.period_ms * NSEC_PER_MSEC;
	s->waiting = true;
	if (ft_nvml_asker_ask(s->asker, links))
		lost(s);
}

/* Answers come in order: the GPU that holds the rest up is the next one, or it is NVML itself. */
static void name_late(struct ft_gpu_src *s)
{
	uint64_t ms = (ft_mono_ns() - s->asked_ns) / NSEC_PER_MSEC;
	const struct ft_pci_dev *d = ft_nvml_pci(s->pci, s->round.n);
	const char *bdf = d ? d->bdf : s->round.n < s->ngpus ? s->gpus[s->round.n].told.bdf : "";
	char text[128], of[48] = "NVML";

	if (bdf[0])
		ft_fmt(of, "%sGPU %s", s->ngpus ? "" : "NVML or ", bdf);
	ft_fmt(text, "no answer of %s for %.1f s", of, ms / 1000.0);
	rows_set(s, FT_PROBE_OFF, -ETIMEDOUT, text);
	s->late = true;
}

/* --- the process --- */
static int start(struct ft_gpu_src *s)
{
	int err = ft_nvml_asker_new(&s->asker, s->pci, &s->opts.asker);

	if (err)
		return err;
	err = ft_loop_add(s->loop, ft_nvml_asker_fd(s->asker), on_answer, s);
	if (err) {
		ft_nvml_asker_free(ft_take_ptr(s->asker));
		return err;
	}
	s->dying = s->late = false;
	s->rounds = 0;
	round_begin(s);
	return 0;
}

static void retry_later(struct ft_gpu_src *s)
{
	if (s->retry_ns != UINT64_MAX)
		s->retry_ns = ft_mono_ns() + s->retry_ms * NSEC_PER_MSEC;
	s->retry_ms = MIN(s->retry_ms * 2, s->opts.retry_max_ms);
}

static void restart(struct ft_gpu_src *s)
{
	int err = start(s);

	if (!err)
		return;
	rows_set(s, FT_PROBE_OFF, err, strerror(-err));
	retry_later(s);
}

static void on_tick(void *ctx)
{
	struct ft_gpu_src *s = ctx;
	uint64_t now = ft_mono_ns(), waited;
	int signal;

	/* After a stop of our own the answer lies there: it was not NVML that was late. */
	if (s->asker && !s->dying)
		on_answer(s);
	waited = s->waiting ? now - s->asked_ns : 0;
	if (!s->asker && now >= s->retry_ns)
		restart(s);
	else if (s->dying && ft_nvml_asker_ended(s->asker, &signal)) {
		ft_nvml_asker_free(ft_take_ptr(s->asker));
		s->dying = false;
		retry_later(s);
	} else if (waited >= s->opts.kill_ms * NSEC_PER_MSEC)
		finish(s);
	else if (waited >= s->opts.answer_ms * NSEC_PER_MSEC && !s->late)
		name_late(s);
	else if (s->asker && !s->dying && !s->waiting && now >= s->next_ns)
		round_begin(s);
	if (s->asker || s->retry_ns != UINT64_MAX)
		ft_loop_timer_set(s->timer, now + s->opts.period_ms * NSEC_PER_MSEC);
}

/* What the session's first lines say should be true, where the driver is quick enough. */
static void first_round(struct ft_gpu_src *s)
{
	uint64_t until = ft_mono_ns() + s->opts.attach_ms * NSEC_PER_MSEC;

	while (s->waiting && ft_mono_ns() < until) {
		struct pollfd p = { ft_nvml_asker_fd(s->asker), POLLIN, 0 };

		poll(&p, 1, (until - ft_mono_ns()) / NSEC_PER_MSEC + 1);
		on_answer(s);
	}
	if (s->waiting)
		rows_set(s, FT_PROBE_OFF, -ETIMEDOUT, "no answer of NVML yet");
}

int gpu_src_open(struct ft_gpu_src **out, struct ft_loop *loop, const struct ft_emit *emit,
		 const struct ft_pci *pci, const struct gpu_opts *opts)
{
	struct ft_gpu_src *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	*s = (struct ft_gpu_src){ .loop = loop, .emit = *emit, .opts = *opts, .pci = pci };
	s->retry_ms = opts->retry_ms;
	s->timer = ft_loop_timer(loop, on_tick, s);
	err = s->timer < 0 ? s->timer : start(s);
	if (!err) {
		first_round(s);
		err = ft_loop_timer_set(s->timer, s->next_ns);
	}
	if (err) {
		ft_gpu_src_free(s);
		return err;
	}
	*out = s;
	return 0;
}

pid_t ft_gpu_src_pid(const struct ft_gpu_src *s)
{
	return s->asker ? ft_nvml_asker_pid(s->asker) : 0;
}

int ft_gpu_src_new(struct ft_gpu_src **out, struct ft_bpf *bpf, struct ft_loop *loop,
		   const struct ft_emit *emit, const struct ft_pci *pci)
{
	struct gpu_opts opts = {
		.clocks = ft_bpf_probe(bpf, "", "nvml_clocks"),
		.nvlink = ft_bpf_probe(bpf, "", "nvml_nvlink"),
		.asker = { .root = "", .rest_ms = 60000 },
		.attach_ms = 1000,
		.period_ms = 1000,
		.links_every = 5,
		.settle_ms = 10000,
		.answer_ms = 3000,
		.kill_ms = 60000,
		.retry_ms = 60000,
		.retry_max_ms = 600000,
	};
	struct ft_gpu_src *s;

	if (ft_nvml_wanted("", pci))
		return gpu_src_open(out, loop, emit, pci, &opts);
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->loop = loop;
	s->timer = -1;
	row_set(opts.clocks, FT_PROBE_UNNEEDED, 0, "no NVIDIA GPU here");
	row_set(opts.nvlink, FT_PROBE_UNNEEDED, 0, "no NVIDIA GPU here");
	*out = s;
	return 0;
}

void ft_gpu_src_free(struct ft_gpu_src *s)
{
	if (!s)
		return;
	if (s->asker) {
		if (!s->dying)
			ft_loop_del(s->loop, ft_nvml_asker_fd(s->asker));
		ft_nvml_asker_free(s->asker);
	}
	if (s->timer >= 0)
		ft_loop_del(s->loop, s->timer);
	free(s->gpus);
	free(s);
}

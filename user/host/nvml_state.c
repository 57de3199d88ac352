// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
/* The process that asks NVML for the state of the GPUs; nvml_asker.c holds its other end. */
#include <sys/socket.h>

#include "host/nvml_asker.h"
#include "host/nvml_lib.h"

/* How a kind of NVLink errors is read. */
static const struct {
	const char *name;
	int counter;	    /* nvmlNvLinkErrorCounter_t, -1: there is none */
	unsigned int field; /* NVML_FI_DEV_NVLINK_*, 0: there is none */
} kinds[FT_NVLINK_ERRORS] = {
	/* Counters up to Ampere, fields on Hopper ... */
	[FT_NVLINK_REPLAY] = { "replay", 0, 161 },
	[FT_NVLINK_RECOVERY] = { "recovery", 1, 162 },
	[FT_NVLINK_CRC_FLIT] = { "CRC flit", 2, 0 },
	[FT_NVLINK_CRC_DATA] = { "CRC data", 3, 0 },
	[FT_NVLINK_ECC_DATA] = { "ECC data", 4, 0 },
	[FT_NVLINK_CRC] = { "CRC", -1, 163 },
	/* ... and NVLink 5, where corrected symbols are the normal case and not counted here */
	[FT_NVLINK_MALFORMED] = { "malformed packets", -1, 206 },
	[FT_NVLINK_OVERRUN] = { "buffer overruns", -1, 207 },
	[FT_NVLINK_RECEIVE] = { "receive errors", -1, 208 },
	[FT_NVLINK_REMOTE] = { "remote errors", -1, 209 },
	[FT_NVLINK_HEADER] = { "header errors", -1, 210 },
	[FT_NVLINK_INTEGRITY] = { "link integrity errors", -1, 211 },
	[FT_NVLINK_DISCARD] = { "discarded packets", -1, 212 },
	[FT_NVLINK_RECOVERED] = { "recoveries", -1, 213 },
	[FT_NVLINK_RECOVERY_FAILED] = { "failed recoveries", -1, 214 },
	[FT_NVLINK_EFFECTIVE] = { "effective errors", -1, 219 },
};

const char *ft_nvlink_error_name(unsigned int kind)
{
	return kind < FT_NVLINK_ERRORS ? kinds[kind].name : NULL;
}

const char *ft_clocks_reason_name(unsigned int bit)
{
	static const char *const names[] = {
		"GpuIdle",
		"ApplicationsClocksSetting",
		"SwPowerCap",
		"HwSlowdown",
		"SyncBoost",
		"SwThermalSlowdown",
		"HwThermalSlowdown",
		"HwPowerBrakeSlowdown",
		"DisplayClockSetting",
		"BoardLimit",
		"Reliability",
	};

	return bit < ARRAY_SIZE(names) ? names[bit] : NULL;
}

/* --- one GPU --- */
void nvml_state_unknown(struct ft_nvml_state *st, const char *bdf, int32_t minor)
{
	*st = (struct ft_nvml_state){
		.minor = minor,
		.reasons = FT_NONE_U64,
		.sm_mhz = FT_NONE_U32,
		.temperature = FT_NONE_U32,
		.power_mw = FT_NONE_U32,
		.power_limit_mw = FT_NONE_U32,
		.pstate = FT_NONE_U8,
		.utilization = FT_NONE_U8,
		.nlinks = FT_NONE_S32,
	};
	ft_strcpy(st->bdf, bdf, sizeof(st->bdf));
	memset(st->links, 0xff, sizeof(st->links));
}

static bool asleep(const struct nvml_job *j, const struct nvml_job_gpu *g)
{
	char path[96], line[32];

	ft_fmt(path, "/sys/bus/pci/devices/%s/power/runtime_status", g->bdf);
	return g->bdf[0] && !ft_read_line(j->root, path, line, sizeof(line)) &&
	       (!strcmp(line, "suspended") || !strcmp(line, "suspending"));
}

static int gpu_open(struct nvml_job *j, struct nvml_job_gpu *g)
{
	struct nvml_pci_info info = {};
	unsigned int minor;
	char id[32];
	int status;

	if (g->dev)
		return 0;
	ft_fmt(id, "0000%s", g->bdf); /* the domain as NVML writes it */
	status = g->bdf[0] ? j->lib.handle_of(g->bdf[4] == ':' ? id : g->bdf, &g->dev)
			   : j->lib.handle(g - j->gpus, &g->dev);
	if (status == NVML_SUCCESS && !g->bdf[0])
		status = j->lib.pci_info(g->dev, &info);
	if (status != NVML_SUCCESS) {
		g->dev = NULL;
		return nvml_error(status);
	}
	if (!g->bdf[0])
		nvml_bdf(info.bus_id, g->bdf);
	if (j->lib.minor && j->lib.minor(g->dev, &minor) == NVML_SUCCESS && minor < GPUS_MAX)
		g->minor = minor;
	return 0;
}

/* What NVML says of a whole GPU, and not of one of its many facts. */
static bool is_lost(int status)
{
	return status == NVML_ERROR_GPU_IS_LOST || status == NVML_ERROR_RESET_REQUIRED ||
	       status == NVML_ERROR_UNINITIALIZED || status == NVML_ERROR_DRIVER_NOT_LOADED;
}

/* Each fact on its own: which of them a GPU tells differs, and so it does in MIG mode. */
static int read_clocks(const struct nvml_lib *lib, nvml_device_t dev, struct ft_nvml_state *st)
{
	struct nvml_utilization percent;
	unsigned long long bits;
	unsigned int v;
	int pstate, status = NVML_ERROR_NOT_SUPPORTED, used = NVML_ERROR_NOT_SUPPORTED;

	if (lib->reasons && (status = lib->reasons(dev, &bits)) == NVML_SUCCESS)
		st->reasons = bits;
	if (is_lost(status))
		return nvml_error(status);
	if (lib->utilization)
		used = lib->utilization(dev, &percent);
	if (used == NVML_SUCCESS && percent.gpu <= 100)
		st->utilization = percent.gpu;
	if (lib->pstate && lib->pstate(dev, &pstate) == NVML_SUCCESS && pstate >= 0 &&
	    pstate < NVML_PSTATE_UNKNOWN)
		st->pstate = pstate;
	if (lib->clock && lib->clock(dev, NVML_CLOCK_SM, &v) == NVML_SUCCESS)
		st->sm_mhz = v;
	if (lib->temperature && lib->temperature(dev, NVML_TEMPERATURE_GPU, &v) == NVML_SUCCESS)
		st->temperature = v;
	if (lib->power && lib->power(dev, &v) == NVML_SUCCESS)
		st->power_mw = v;
	if (lib->power_limit && lib->power_limit(dev, &v) == NVML_SUCCESS)
		st->power_limit_mw = v;
	return is_lost(used) ? nvml_error(used) : 0;
}

static uint64_t field_value(const struct nvml_field *f)
{
	switch (f->type) {
	case NVML_VALUE_UINT:
		return f->value.ui;
	case NVML_VALUE_ULONG:
	case NVML_VALUE_ULONGLONG:
		return f->value.ull;
	case NVML_VALUE_SINT:
		return f->value.si < 0 ? FT_NONE_U64 : (uint64_t)f->value.si;
	case NVML_VALUE_SLONGLONG:
		return f->value.sll < 0 ? FT_NONE_U64 : (uint64_t)f->value.sll;
	}
	return FT_NONE_U64;
}

/* Those that the counters did not give. */
static void read_fields(const struct nvml_job *j, struct nvml_job_gpu *g, unsigned int link,
			struct ft_nvlink *l)
{
	struct nvml_field v[FT_NVLINK_ERRORS] = {};
	unsigned int kind[FT_NVLINK_ERRORS], n = 0;

	for (unsigned int k = 0; k < FT_NVLINK_ERRORS; k++) {
		if (!kinds[k].field || l->errors[k] != FT_NONE_U64 || g->no_field & 1u << k)
			continue;
		/* it is their sum */
		if (k == FT_NVLINK_CRC && l->errors[FT_NVLINK_CRC_FLIT] != FT_NONE_U64)
			continue;
		v[n].id = kinds[k].field;
		v[n].scope = link;
		v[n].status = NVML_ERROR_NOT_SUPPORTED; /* where the call does not set it */
		kind[n++] = k;
	}
	if (!n || !j->lib.fields || j->lib.fields(g->dev, n, v) != NVML_SUCCESS)
		return;
	for (unsigned int i = 0; i < n; i++) {
		if (v[i].status == NVML_SUCCESS)
			l->errors[kind[i]] = field_value(&v[i]);
		else if (v[i].status == NVML_ERROR_NOT_SUPPORTED ||
			 v[i].status == NVML_ERROR_INVALID_ARGUMENT)
			g->no_field |= 1u << kind[i];
	}
}

static void read_link(const struct nvml_job *j, struct nvml_job_gpu *g, unsigned int link,
		      struct ft_nvlink *l)
{
	for (unsigned int k = 0; k < FT_NVLINK_ERRORS; k++) {
		unsigned long long n;
		int status;

		if (kinds[k].counter < 0 || !j->lib.link_errors || g->no_counter & 1u << k)
			continue;
		status = j->lib.link_errors(g->dev, link, kinds[k].counter, &n);
		if (status == NVML_SUCCESS)
			l->errors[k] = n;
		else if (status == NVML_ERROR_NOT_SUPPORTED ||
			 status == NVML_ERROR_INVALID_ARGUMENT)
			g->no_counter |= 1u << k;
	}
	read_fields(j, g, link, l);
}

/* Links are numbered without gaps: the first that is refused is one too many. */
static void read_links(const struct nvml_job *j, struct nvml_job_gpu *g, struct ft_nvml_state *st)
{
	int active, status = NVML_ERROR_NOT_SUPPORTED;
	unsigned int i;

	if (!j->lib.link_state)
		return;
	for (i = 0; i < FT_NVLINKS; i++) {
		status = j->lib.link_state(g->dev, i, &active);
		if (status == NVML_ERROR_NOT_SUPPORTED || status == NVML_ERROR_INVALID_ARGUMENT)
			break;
		if (status != NVML_SUCCESS)
			continue;
		st->links[i].active = active != 0;
		/* An inactive link has no counters, and says so as if it never had any. */
		if (active)
			read_link(j, g, i, &st->links[i]);
	}
	st->nlinks = i;
}

static void read_gpu(struct nvml_job *j, struct nvml_job_gpu *g, bool links,
		     struct ft_nvml_state *st)
{
	nvml_state_unknown(st, g->bdf, g->minor);
	st->asleep = asleep(j, g);
	if (st->asleep)
		return;
	/* Questions to one that is lost make the driver write to the kernel log. */
	if (g->error && ft_mono_ns() < g->rest_until_ns) {
		st->error = g->error;
		return;
	}
	g->error = gpu_open(j, g);
	nvml_state_unknown(st, g->bdf, g->minor);
	if (!g->error)
		g->error = read_clocks(&j->lib, g->dev, st);
	if (!g->error && links)
		read_links(j, g, st);
	st->error = g->error;
	if (g->error)
		g->rest_until_ns = ft_mono_ns() + j->rest_ms * NSEC_PER_MSEC;
}

/* --- all --- */
/* NVML would load the driver, which is not ours to do. */
static bool driver_loaded(const struct nvml_job *j)
{
	char line[256];

	return nvml_named() ||
	       !ft_read_line(j->root, "/proc/driver/nvidia/version", line, sizeof(line));
}

static int up(struct nvml_job *j)
{
	unsigned int n;
	int err = j->lib.init ? 0 : nvml_open(j->library, &j->lib);

	if (!err && !driver_loaded(j))
		err = -ENODEV;
	if (!err)
		err = nvml_error(j->lib.init());
	if (err)
		return err;
	if (!j->ngpus) {
		err = nvml_error(j->lib.count(&n));
		j->ngpus = err ? 0 : MIN(n, (unsigned int)GPUS_MAX);
	}
	if (err)
		j->lib.shutdown();
	j->is_up = !err;
	return err;
}

/* After a reset or with another driver nothing holds that was opened before. */
static void down_if_due(struct nvml_job *j)
{
	bool due = false;

	for (size_t i = 0; i < j->ngpus; i++)
		due |= j->gpus[i].error && ft_mono_ns() >= j->gpus[i].rest_until_ns;
	if (!due || !j->is_up)
		return;
	j->lib.shutdown();
	j->is_up = false;
	for (size_t i = 0; i < j->ngpus; i++) {
		j->gpus[i].dev = NULL;
		j->gpus[i].no_counter = j->gpus[i].no_field = 0;
	}
}

static int answer(const struct nvml_job *j, const struct nvml_msg *m)
{
	return send(j->fd, m, sizeof(*m), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int round_of(struct nvml_job *j, bool links)
{
	struct nvml_msg m = { .what = FT_NVML_GPU };
	int result, err = 0;

	down_if_due(j);
	result = j->is_up ? 0 : up(j);
	for (size_t i = 0; i < j->ngpus && !result && !err; i++) {
		read_gpu(j, &j->gpus[i], links, &m.state);
		err = answer(j, &m);
	}
	m = (struct nvml_msg){ .what = FT_NVML_END, .result = result };
	return err ? err : answer(j, &m);
}

void nvml_job_run(struct nvml_job *j)
{
	uint8_t links;

	/* Nobody is left to answer to: 0 or an error. */
	while (recv(j->fd, &links, sizeof(links), 0) == sizeof(links))
		if (round_of(j, links))
			return;
}

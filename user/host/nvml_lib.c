// SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only)
#include <dlfcn.h>

#include "host/nvml.h"
#include "host/nvml_lib.h"

#define ROW(member, required, ...)                                                                 \
	{                                                                                          \
		offsetof(struct nvml_lib, member), required,                                       \
		{                                                                                  \
			__VA_ARGS__                                                                \
		}                                                                                  \
	}
static const struct {
	size_t off;
	bool required;
	const char *names[2]; /* the first that is there */
} functions[] = {
	ROW(init, true, "nvmlInit_v2"),
	ROW(shutdown, true, "nvmlShutdown"),
	ROW(count, true, "nvmlDeviceGetCount_v2"),
	ROW(handle, true, "nvmlDeviceGetHandleByIndex_v2"),
	ROW(handle_of, true, "nvmlDeviceGetHandleByPciBusId_v2"),
	ROW(pci_info, true, "nvmlDeviceGetPciInfo_v3"),
	ROW(processes, true, "nvmlDeviceGetComputeRunningProcesses_v3",
	    "nvmlDeviceGetComputeRunningProcesses_v2"),
	ROW(uuid, false, "nvmlDeviceGetUUID"),
	ROW(minor, false, "nvmlDeviceGetMinorNumber"),
	/* named so since release 535 */
	ROW(reasons, false, "nvmlDeviceGetCurrentClocksEventReasons",
	    "nvmlDeviceGetCurrentClocksThrottleReasons"),
	ROW(clock, false, "nvmlDeviceGetClockInfo"),
	ROW(temperature, false, "nvmlDeviceGetTemperature"),
	ROW(power, false, "nvmlDeviceGetPowerUsage"),
	ROW(power_limit, false, "nvmlDeviceGetEnforcedPowerLimit"),
	ROW(pstate, false, "nvmlDeviceGetPerformanceState"),
	ROW(utilization, false, "nvmlDeviceGetUtilizationRates"),
	ROW(link_state, false, "nvmlDeviceGetNvLinkState"),
	ROW(link_errors, false, "nvmlDeviceGetNvLinkErrorCounter"),
	ROW(fields, false, "nvmlDeviceGetFieldValues"),
};

int nvml_open(const char *library, struct nvml_lib *out)
{
	void *so = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	struct nvml_lib lib = {};
	int err = so ? 0 : -ENOENT;

	for (size_t i = 0; so && i < ARRAY_SIZE(functions); i++) {
		void *fn = NULL;

		for (size_t k = 0; !fn && k < ARRAY_SIZE(functions[i].names); k++)
			if (functions[i].names[k])
				fn = dlsym(so, functions[i].names[k]);
		if (!fn && functions[i].required)
			err = -ENOSYS;
		memcpy((char *)&lib + functions[i].off, &fn, sizeof(fn));
	}
	if (so)
		dlclose(so);
	if (!err)
		*out = lib;
	return err;
}

int nvml_error(int status)
{
	static const struct {
		int status, error;
	} rows[] = {
		{ NVML_SUCCESS, 0 },
		{ NVML_ERROR_NOT_SUPPORTED, -EOPNOTSUPP },
		{ NVML_ERROR_NO_PERMISSION, -EACCES },
		{ NVML_ERROR_NOT_FOUND, -ENXIO },
		{ NVML_ERROR_DRIVER_NOT_LOADED, -ENODEV },
		{ NVML_ERROR_TIMEOUT, -ETIMEDOUT },
		{ NVML_ERROR_LIBRARY_NOT_FOUND, -ENOENT },
		{ NVML_ERROR_FUNCTION_NOT_FOUND, -ENOSYS },
		{ NVML_ERROR_GPU_IS_LOST, -EHOSTDOWN },
		{ NVML_ERROR_RESET_REQUIRED, -EHOSTDOWN },
		{ NVML_ERROR_LIB_RM_VERSION_MISMATCH, -EPROTO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].status == status)
			return rows[i].error;
	return -EIO;
}

const char *nvml_named(void)
{
	/* not where the program has privileges that its user lacks */
	const char *name = secure_getenv("FT_NVML");

	return name && *name ? name : NULL;
}

void nvml_bdf(const char *bus_id, char out[16])
{
	unsigned int domain, bus, device, function;
	char text[32];

	ft_fmt(text, "%.31s", bus_id);
	if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &device, &function) == 4 &&
	    domain <= 0xfffff && bus <= 0xff && device <= 0x1f && function <= 7)
		snprintf(out, 16, "%04x:%02x:%02x.%x", domain, bus, device, function);
}

const char *ft_nvml_reason(int err)
{
	static const struct {
		int err;
		const char *text;
	} rows[] = {
		{ -ENOENT, "no " NVML_LIBRARY ": it comes with the driver" },
		{ -ENOSYS, "the library lacks functions: it is older than release 470" },
		{ -ETIMEDOUT, "no answer in time" },
		{ -EBUSY, "not asked: too many earlier reads are still without an answer" },
		{ -ENODEV, "its driver is not loaded" },
		{ -ENXIO, "the driver does not have this GPU" },
		{ -EHOSTDOWN, "the GPU is lost or needs a reset" },
		{ -EPROTO, "library and driver are of different releases" },
		{ -EOPNOTSUPP, "this GPU does not tell" },
		{ -EACCES, "not permitted" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (rows[i].err == err)
			return rows[i].text;
	return strerror(-err);
}

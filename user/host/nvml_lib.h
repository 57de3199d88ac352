/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/*
 * Inside of the host room: NVML itself. It belongs to the driver and is on no machine without one:
 * it is opened at run time, and what is used of its interface is declared here.
 */
#ifndef FT_HOST_NVML_LIB_H
#define FT_HOST_NVML_LIB_H

#include "base/base.h"

#define NVML_LIBRARY  "libnvidia-ml.so.1"
#define VENDOR_NVIDIA 0x10de
#define GPUS_MAX      256

/* --- the interface, unchanged since release 470 (_v2) and 510 (_v3) --- */
enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NO_PERMISSION = 4,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_TIMEOUT = 10,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
	NVML_ERROR_LIB_RM_VERSION_MISMATCH = 18,
};

enum { NVML_CLOCK_SM = 1, NVML_TEMPERATURE_GPU = 0, NVML_PSTATE_UNKNOWN = 32 };

typedef struct nvml_device *nvml_device_t;

struct nvml_pci_info {
	char bus_id_legacy[16];
	unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
};
_Static_assert(sizeof(struct nvml_pci_info) == 68, "nvmlPciInfo_t");

/* _v2 and _v3 give the same. */
struct nvml_process_info {
	unsigned int pid;
	unsigned long long used_gpu_memory;
	unsigned int gpu_instance_id, compute_instance_id;
};
_Static_assert(sizeof(struct nvml_process_info) == 24, "nvmlProcessInfo_t");

struct nvml_utilization {
	unsigned int gpu, memory; /* percent */
};

/* Which member of a field's value is set. */
enum {
	NVML_VALUE_UINT = 1,
	NVML_VALUE_ULONG = 2,
	NVML_VALUE_ULONGLONG = 3,
	NVML_VALUE_SLONGLONG = 4,
	NVML_VALUE_SINT = 5,
};

struct nvml_field {
	unsigned int id, scope; /* scope: of NVLink's fields the number of the link */
	long long timestamp, latency_us;
	int type, status;
	union {
		unsigned int ui;
		int si;
		unsigned long long ull;
		long long sll;
	} value;
};
_Static_assert(sizeof(struct nvml_field) == 40, "nvmlFieldValue_t");

struct nvml_lib {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *n);
	int (*handle)(unsigned int nr, nvml_device_t *dev);
	int (*handle_of)(const char *bus_id, nvml_device_t *dev);
	int (*pci_info)(nvml_device_t dev, struct nvml_pci_info *info);
	int (*processes)(nvml_device_t dev, unsigned int *n, struct nvml_process_info *v);
	/* NULL where it lacks them */
	int (*uuid)(nvml_device_t dev, char *text, unsigned int size);
	int (*minor)(nvml_device_t dev, unsigned int *minor);
	int (*reasons)(nvml_device_t dev, unsigned long long *bits);
	int (*clock)(nvml_device_t dev, int type, unsigned int *mhz);
	int (*temperature)(nvml_device_t dev, int sensor, unsigned int *celsius);
	int (*power)(nvml_device_t dev, unsigned int *mw);
	int (*power_limit)(nvml_device_t dev, unsigned int *mw);
	int (*pstate)(nvml_device_t dev, int *pstate);
	int (*utilization)(nvml_device_t dev, struct nvml_utilization *percent);
	int (*link_state)(nvml_device_t dev, unsigned int link, int *active);
	int (*link_errors)(nvml_device_t dev, unsigned int link, int counter,
			   unsigned long long *n);
	int (*fields)(nvml_device_t dev, int n, struct nvml_field *v);
};

/*
 * Opens the library and keeps it: its thread-local data would outlive it otherwise. -ENOENT: no
 * such library, -ENOSYS: it lacks a function that is not in the second part of the struct.
 */
int nvml_open(const char *library, struct nvml_lib *out);
/* Negative errno of what NVML gives, -EIO for what has none of its own. */
int nvml_error(int status);
/* The library that the environment names, NULL: none. */
const char *nvml_named(void);
/* "00000000:C1:00.0" -> "0000:c1:00.0"; untouched when it is no such text. */
void nvml_bdf(const char *bus_id, char out[16]);

#endif

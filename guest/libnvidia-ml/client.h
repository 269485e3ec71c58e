/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The session of this library, separate from that of CUDA in the same process. A query neither initialises CUDA nor
 * fails with it, and a forked child may ask again. The session's worker makes no context.
 *
 * Thread-safe; one call at a time. All return 0 or -errno: -ENOENT: no transport; -EPIPE: the worker is gone.
 */
#ifndef NVML_CLIENT_H
#define NVML_CLIENT_H

#include <stdbool.h>

#include "protocol/types.h"

#define NVML_DEVICES 64

struct nvml_host {
	bool is_local;    /* the host is this machine */
	bool is_software; /* the devices are software GPUs */
	int driver_version;
	vcuda_system_info system;
	int count;
	vcuda_device_info devices[NVML_DEVICES];
};

/* Connects, or keeps the existing connection. */
int nvml_client_open(void);
void nvml_client_close(void);

/*
 * The host's description of itself and its devices. Never changes, and lives as long as the process: another host that
 * the library connects to later has another one. Without any host, of no devices.
 */
const struct nvml_host *nvml_client_host(void);

struct nvml_processes {
	uint32_t count, pids[VCUDA_PROCESSES];
	uint64_t bytes[VCUDA_PROCESSES]; /* UINT64_MAX: not known */
};

int nvml_client_processes(int device, struct nvml_processes *to);

#define NVML_P2P_CAPABILITIES 5

/* Access from one device to another by each capability: nvmlGpuP2PStatus_t. -ENOSYS: the worker is older. */
int nvml_client_peer_status(int device, int peer, int status[NVML_P2P_CAPABILITIES]);

/*
 * A figure of the host's (protocol/figures.h), with VCUDA_FIGURE_ARGUMENTS and VCUDA_FIGURE_VALUES; *result is an
 * nvmlReturn_t. -ENOSYS: the worker is older.
 */
int nvml_client_figure(int device, unsigned int figure, uint32_t arguments[], uint64_t values[], unsigned int *result);

struct nvml_samples {
	unsigned int result; /* nvmlReturn_t */
	uint32_t count, pids[VCUDA_PROCESSES], sm[VCUDA_PROCESSES], memory[VCUDA_PROCESSES];
	uint64_t times[VCUDA_PROCESSES]; /* us since 1970 */
};

/* The guest's processes with work on a device, in samples later than `after`. -ENOSYS: the worker is older. */
int nvml_client_samples(int device, uint64_t after, struct nvml_samples *to);

#endif

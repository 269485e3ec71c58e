/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's management library of the host, if the driver has installed it: figures that the CUDA driver lacks. Any
 * thread may call these functions: the first call loads the library. PCI addresses are text, as cuDeviceGetPCIBusId()
 * gives them.
 */
#ifndef VCUDA_CUDA_NVML_H
#define VCUDA_CUDA_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The driver's version, such as 580.65.06; the empty string: not known. */
void backend_nvml_driver_version(char *text, size_t size);

/*
 * False: this process is in a container, and the driver lists processes by the host's numbers: one may be that of
 * another process here. So the figures of processes are not known.
 */
bool backend_nvml_knows_namespace(void);

/* The library's handle of the device at a PCI address. False: the library is not there, or does not know it. */
bool backend_nvml_device(const char *pci_bus_id, void **device);

/* A function of the library by its name; NULL: the library lacks it, or is not there. */
void *backend_nvml_function(const char *name);

/* A process of this host and its memory on a device. */
struct backend_process {
	uint32_t pid, reserved;
	uint64_t bytes; /* UINT64_MAX: not known */
	uint32_t instances[2];
};

/* The processes that compute or draw on the device at this PCI address: how many, at most `room`; -1: not known. */
int backend_nvml_processes(const char *pci_bus_id, struct backend_process *to, unsigned int room);

/* NVIDIA's nvmlProcessUtilizationSample_t: a moment at which the driver looked at a device, and a process it found. */
struct backend_sample {
	uint32_t pid, reserved;
	uint64_t time_us; /* since 1970 */
	uint32_t sm;      /* the part of the time since the last sample in which any kernel ran, in hundredths */
	uint32_t memory, encoder, decoder;
};

/*
 * The samples of the device since `since_us`, in any order: how many, at most `room`; 0: none yet; -1: the library does
 * not know. The driver keeps some seconds of them.
 */
int backend_nvml_samples(const char *pci_bus_id, uint64_t since_us, struct backend_sample *to, unsigned int room);

/*
 * Sets `status` (nvmlGpuP2PStatus_t) to how the first device reaches the second by a capability (nvmlGpuP2PCapsIndex_t).
 * False: the library does not know.
 */
bool backend_nvml_peer_status(const char *pci_bus_id, const char *peer_bus_id, unsigned int capability, int *status);

/*
 * Sets `bytes` to the memory that this process has of the device. False: the library does not know the process.
 */
bool backend_nvml_own(const char *pci_bus_id, uint64_t *bytes);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library of the host, where the driver brought it: what the CUDA driver does not tell. */
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

/* A process of this host and its memory on a device. */
struct backend_process {
	uint32_t pid, reserved;
	uint64_t bytes; /* UINT64_MAX: not known */
	uint32_t instances[2];
};

/* The processes that compute or draw on the device at this PCI address: how many, at most `room`; -1: not known. */
int backend_nvml_processes(const char *pci_bus_id, struct backend_process *to, unsigned int room);

/*
 * Sets `bytes` to the memory that this process has of the device. False: the library does not know the process.
 */
bool backend_nvml_own(const char *pci_bus_id, uint64_t *bytes);

#endif

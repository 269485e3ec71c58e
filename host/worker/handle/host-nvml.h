/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library of the host, where the driver brought it: what the CUDA driver does not tell. */
#ifndef VCUDA_HOST_NVML_H
#define VCUDA_HOST_NVML_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The driver's version, such as 580.65.06; the empty string: not known. */
void worker_host_driver_version(char *text, size_t size);

/* A process of this host and its memory on a device. */
struct worker_host_process {
	uint32_t pid, reserved;
	uint64_t bytes; /* UINT64_MAX: not known */
	uint32_t instances[2];
};

/* Those that compute on the device at this PCI address: how many, at most `room`; -1: not known. */
int worker_host_processes(const char *pci_bus_id, struct worker_host_process *to, unsigned int room);

#endif

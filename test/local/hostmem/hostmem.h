/* SPDX-License-Identifier: Apache-2.0 */
/* Probes of cuMemCreate() in host memory. */
#ifndef TEST_LOCAL_HOSTMEM_H
#define TEST_LOCAL_HOSTMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-functions.h"
#include "test/local/probe.h"

/* Host memory has places beside device memory (the software GPU); else NVIDIA's driver is below. */
extern bool has_places;
extern size_t granule;

#define RW CU_MEM_ACCESS_FLAGS_PROT_READWRITE
#define BY_FILE CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR

CUmemAllocationProp properties(CUmemLocationType type, int id, CUmemAllocationHandleType handle_types);

/* A handle of so many granules on the host. */
CUmemGenericAllocationHandle create(CUmemLocationType type, size_t granules);

/* Access to `bytes` at p, for the device or the processors. */
CUresult give(CUdeviceptr p, size_t bytes, CUmemLocationType type, int id, CUmemAccess_flags flags);

/* New addresses with the handle mapped there, for both sides. */
CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes);
void unmap(CUdeviceptr p, size_t bytes);

static inline volatile uint32_t *words(CUdeviceptr p)
{
	return (volatile uint32_t *)(uintptr_t)p;
}

/* Whether a processor's access faults. */
bool read_faults(CUdeviceptr p);
bool write_faults(CUdeviceptr p);

/* Kernels: p[i] = p[i] * k + 1 for i < n; and `rounds` times an atomic addition of 1 to *p by each of 256 threads. */
void step(CUdeviceptr p, uint32_t k, uint32_t n);
void count(CUdeviceptr p, uint32_t rounds);

void probe_codes(void);
void probe_access(void);
void probe_use(void);
void probe_copies(void);
void probe_layouts(void);
void probe_life(void);
void probe_forks(void);
void probe_pools(void);
void probe_share(void);

/* The last one: no kernel is there afterwards. */
void probe_reset(void);

/* The other process of probe_share(). The exit status. */
int share_child(int socket);

#endif

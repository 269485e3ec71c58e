/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the cases of direct.c: the driver's functions, memory, and the expected counts of commands. */
#ifndef VCUDA_TEST_DIRECT_H
#define VCUDA_TEST_DIRECT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "protocol/cuda-abi.h"

/* The tests read stdout of a process that fails, too; exit handlers would call the driver. */
#define CHECK_END() (fflush(stdout), _exit(1))
#include "test/check.h"

#define MIB ((size_t)1 << 20)
#define GRAIN (2 * MIB)
#define WARM (16 * MIB)    /* the least that goes directly */
#define SMALL (256 * 1024) /* a staging block */
#define PIECE (64 * 1024)  /* of a staged copy to the device */

#define DRIVER(X)                                                                                                      \
	X(cuInit, unsigned int)                                                                                        \
	X(cuDevicePrimaryCtxRetain, CUcontext *, CUdevice)                                                             \
	X(cuDevicePrimaryCtxRelease_v2, CUdevice)                                                                      \
	X(cuDevicePrimaryCtxReset_v2, CUdevice)                                                                        \
	X(cuCtxCreate_v2, CUcontext *, unsigned int, CUdevice)                                                         \
	X(cuCtxDestroy_v2, CUcontext)                                                                                  \
	X(cuCtxSetCurrent, CUcontext)                                                                                  \
	X(cuStreamCreate, CUstream *, unsigned int)                                                                    \
	X(cuStreamSynchronize, CUstream)                                                                               \
	X(cuMemAlloc_v2, CUdeviceptr *, size_t)                                                                        \
	X(cuMemFree_v2, CUdeviceptr)                                                                                   \
	X(cuMemsetD8_v2, CUdeviceptr, unsigned char, size_t)                                                           \
	X(cuMemHostRegister_v2, void *, size_t, unsigned int)                                                          \
	X(cuMemHostUnregister, void *)                                                                                 \
	X(cuMemcpyHtoD_v2, CUdeviceptr, const void *, size_t)                                                          \
	X(cuMemcpyDtoH_v2, void *, CUdeviceptr, size_t)                                                                \
	X(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, size_t, CUstream)                                           \
	X(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, size_t, CUstream)
#define DECLARE(name, ...) extern CUresult (*name)(__VA_ARGS__);
DRIVER(DECLARE)
#undef DECLARE

/* Looks the functions up, and makes the primary context current. */
CUcontext start_cuda(void);

/* The numbers that vm.py compares: copies of WARM bytes that may have gone either way, and what was to go each way
 * since. */
extern unsigned int warmed, parts, pieces, blocks;

/* A row of /proc/self/status. */
unsigned long status_kib(const char *row);
unsigned long pinned_kib(void);

/* At so many bytes behind a huge page's begin; of huge pages, if the kernel has them. */
uint8_t *memory(size_t bytes, size_t offset);

/* Each page of it follows another one's in the guest's memory. */
uint8_t *scattered(size_t bytes);

void fill(void *to, size_t bytes, uint64_t seed);
bool is_filled(const void *from, size_t bytes, uint64_t seed);

/* Counts a copy that does not go directly. `posted`: to the device, on the default stream. */
void expect_staged(size_t bytes, bool posted);

/* Counts a copy, by libcuda's rules (guest/libcuda/copy/direct.c). */
void expect(const uint8_t *host, size_t bytes, bool posted);

/* Copies that do not go directly. */
void put(CUdeviceptr device, const uint8_t *from, size_t bytes);
void get(uint8_t *to, CUdeviceptr device, size_t bytes);

CUdeviceptr device_memory(size_t bytes);

/* Copies until a copy has gone directly. */
void warm_up(void);

#endif

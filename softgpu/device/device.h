/* SPDX-License-Identifier: Apache-2.0 */
/* The one device: what it reports, and the limits that the rest of the back end enforces. */
#ifndef VCUDA_CPU_DEVICE_H
#define VCUDA_CPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ops.h"

#define CPU_MAX_THREADS_PER_BLOCK 1024
#define CPU_MAX_BLOCK_Z 64
#define CPU_MAX_GRID_X 0x7fffffffu
#define CPU_MAX_GRID_YZ 65535u
#define CPU_WARP 32
#define CPU_SHARED_PER_BLOCK 49152
#define CPU_SHARED_PER_BLOCK_OPTIN 232448
#define CPU_SHARED_PER_SM 233472
#define CPU_SHARED_RESERVED 1024
#define CPU_THREADS_PER_SM 2048
#define CPU_BLOCKS_PER_SM 32
#define CPU_REGISTERS 65536
#define CPU_MAPPING (2u << 20) /* what a GPU maps memory in */
#define CPU_MAX_1D 131072
#define CPU_MAX_2D_WIDTH 131072
#define CPU_MAX_2D_HEIGHT 65536
#define CPU_MAX_3D 16384
#define CPU_MAX_LAYERED 32768
#define CPU_MAX_LAYERS 2048
#define CPU_MAX_CUBE_LAYERS 2046
#define CPU_MAX_LINEAR (1 << 28) /* texels of a texture in linear memory */
#define CPU_MAX_PITCHED_HEIGHT 65000
#define CPU_MAX_PITCHED_BYTES 2097120
#define CPU_MAX_PITCH 2147483647
#define CPU_PITCH_ALIGNMENT 512
#define CPU_PRIORITY_GREATEST (-5)
#define CPU_PRIORITY_LEAST 0

struct cpu_device {
	char name[64];
	uint64_t memory;      /* bytes */
	unsigned int threads; /* workers, and multiprocessors */
	int major, minor;     /* compute capability */
	int clock_khz;        /* 0: not known */
	int cache_bytes;      /* the largest cache */
	uint64_t time_limit_ns; /* of a kernel; 0: none */
	bool whole_pages;     /* accesses beside an allocation are in bounds up to its 2 MiB pages' ends */
};

/*
 * Reads the environment and /sys at the first call, so that a sandbox may close them afterwards; never fails (a bad
 * setting is logged and not used).
 */
const struct cpu_device *cpu_device(void);

/* Whether cuInit() was called. */
bool cpu_initialised(void);

/* CUDA_SUCCESS, or what a call that names device `dev` must return. */
CUresult cpu_device_check(CUdevice dev);

#endif

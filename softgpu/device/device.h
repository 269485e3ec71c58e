/* SPDX-License-Identifier: Apache-2.0 */
/* The devices: what they report, and the limits that the rest of the back end enforces. */
#ifndef VCUDA_CPU_DEVICE_H
#define VCUDA_CPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ops.h"
#include "protocol/cpu-devices.h"

#define SOFTGPU_MAX_THREADS_PER_BLOCK 1024
#define SOFTGPU_MAX_BLOCK_Z 64
#define SOFTGPU_MAX_GRID_X 0x7fffffffu
#define SOFTGPU_MAX_GRID_YZ 65535u
#define SOFTGPU_WARP 32
#define SOFTGPU_SHARED_PER_BLOCK 49152
#define SOFTGPU_LOCAL_PER_THREAD (512u << 10)
#define SOFTGPU_MAPPING (2u << 20) /* granularity of mappings on a GPU */
#define SOFTGPU_MAX_1D 131072
#define SOFTGPU_MAX_2D_WIDTH 131072
#define SOFTGPU_MAX_2D_HEIGHT 65536
#define SOFTGPU_MAX_3D 16384
#define SOFTGPU_MAX_LAYERED 32768
#define SOFTGPU_MAX_LAYERS 2048
#define SOFTGPU_MAX_CUBE_LAYERS 2046
#define SOFTGPU_MAX_LINEAR (1 << 28) /* texels of a texture in linear memory */
#define SOFTGPU_MAX_PITCHED_HEIGHT 65000
#define SOFTGPU_MAX_PITCHED_BYTES 2097120
#define SOFTGPU_MAX_PITCH 2147483647
#define SOFTGPU_PITCH_ALIGNMENT 512
#define SOFTGPU_PRIORITY_GREATEST (-5)
#define SOFTGPU_PRIORITY_LEAST 0

#define SOFTGPU_MOST_DEVICES VCUDA_CPU_DEVICES_MOST
#define SOFTGPU_ALL_DEVICES ((1u << SOFTGPU_MOST_DEVICES) - 1) /* a bit for each device */

/* The memory of blocks belongs to all devices together; this device is charged for it. */
#define SOFTGPU_BLOCK_DEVICE 0

/* The effect of a kernel's access beside an allocation. */
enum softgpu_bounds {
	SOFTGPU_BOUNDS_GRANULES, /* passes within the 2 MiB that memory is mapped by */
	SOFTGPU_BOUNDS_EXACT,    /* ends the kernel */
	SOFTGPU_BOUNDS_CHECK,    /* is reported and dropped */
};

/* The code that is taken of a program. */
enum softgpu_code {
	SOFTGPU_CODE_AUTO, /* PTX, and machine code where there is no PTX */
	SOFTGPU_CODE_PTX,
	SOFTGPU_CODE_SASS, /* machine code, and PTX where there is none */
};

/* All devices are alike, and have the same threads of the host. */
struct softgpu_device {
	unsigned int count;   /* of devices */
	char name[64];
	uint64_t memory;      /* bytes, of each device */
	uint64_t block_memory; /* limit for the bytes of all resident blocks */
	unsigned int threads; /* workers, and multiprocessors */
	unsigned int architecture; /* compute capability, 120 for 12.0 */
	/* Bytes of shared memory: of a block that asks for the most, of a multiprocessor, and added to each block. */
	size_t most_shared, sm_shared, reserved_shared;
	size_t shared_unit; /* bytes that blocks are given at a time */
	unsigned int sm_threads, sm_blocks, sm_registers, block_registers;
	unsigned int sm_parts; /* with registers of their own */
	int clock_khz;        /* 0: not known */
	int cache_bytes;      /* the largest cache */
	uint64_t time_limit_ns; /* of a kernel; 0: none */
	void (*time_refused)(void);
	enum softgpu_bounds bounds;
	enum softgpu_code code;
	bool one_context; /* a fault fails its context alone, not all of the device */
};

/*
 * Reads the environment and /sys at the first call, so that a sandbox may close them afterwards; never fails (a bad
 * setting is logged and not used).
 */
const struct softgpu_device *softgpu_device(void);

/* Whether cuInit() was called. */
bool softgpu_initialised(void);

/* CUDA_SUCCESS, or what a call that names device `dev` must return. */
CUresult softgpu_device_check(CUdevice dev);

/*
 * An attribute of a device, or CUDA_ERROR_INVALID_VALUE if the device has no attribute of that number (attributes.c).
 */
CUresult softgpu_attribute(CUdevice_attribute attribute, CUdevice dev, int *value);

#endif

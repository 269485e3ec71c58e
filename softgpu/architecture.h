/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVIDIA's architectures: the table from which follow the device's compute capability, the PTX that it takes, and the
 * names of architectures that programs make of the capability; and the table of their limits.
 *
 * A number is 120 for compute capability 12.0, for PTX's target sm_120 and for compute_120, which nvcc -arch=native,
 * NVRTC and Numba make of the capability. The functions are thread-safe.
 */
#ifndef VCUDA_CPU_ARCHITECTURE_H
#define VCUDA_CPU_ARCHITECTURE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The device's without VCUDA_CPU_COMPUTE. Libraries and wheels that choose machine code by the device choose what
 * softgpu/sass translates, but for few kernels, and every toolkit since CUDA 11.0 knows the name.
 */
#define SOFTGPU_DEFAULT_ARCHITECTURE 80

struct softgpu_architecture {
	uint16_t number;
	/* The version of PTX that sm_N, sm_Na and sm_Nf came with, 87 for 8.7; 0: there is no such target. */
	uint16_t version, version_a, version_f;
	uint16_t family;  /* code for sm_Nf runs on devices of its family from N on; 0: none */
	uint16_t renamed; /* the name since CUDA 13.0; 0: the same */
};

/* The limits of a multiprocessor, and of a block that asks for more shared memory than the default. */
struct softgpu_limits {
	uint16_t from; /* the first architecture that has these */
	uint16_t shared_kib, block_shared_kib;
	uint16_t threads, blocks;
	uint16_t registers_k, block_registers_k; /* 1024 registers */
};

/* NULL: no such architecture is known. The result is constant. */
const struct softgpu_architecture *softgpu_architecture(unsigned number);

/*
 * The limits of an architecture from 30 on. An unknown architecture has the limits of the next older one. The result is
 * constant.
 */
const struct softgpu_limits *softgpu_architecture_limits(unsigned number);

/* Bytes of shared memory that the device adds to each block's own. */
unsigned softgpu_architecture_reserved_shared(unsigned number);

/* The unit, in bytes, in which blocks get shared memory. */
unsigned softgpu_architecture_shared_unit(unsigned number);

/* Parts of a multiprocessor, each with its own warps and registers. */
unsigned softgpu_architecture_parts(unsigned number);

/* Does a device run PTX for this target, whose suffix is 'a', 'f' or 0? Both numbers may be unknown. */
bool softgpu_architecture_runs(unsigned device, unsigned target, char suffix);

/* The same of machine code. */
bool softgpu_architecture_runs_code(unsigned device, unsigned target, char suffix);

/* The newest version of PTX that a driver of a CUDA version (13000) takes, 90 for 9.0. */
unsigned softgpu_architecture_ptx(int cuda);

#endif

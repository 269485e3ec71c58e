/* SPDX-License-Identifier: Apache-2.0 */
/* Structures of our own that cross the wire, beside CUDA's. Plain data, no pointers, the same layout on both sides
 * (x86-64). */
#ifndef VCUDA_TYPES_H
#define VCUDA_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda-abi.h"
#include "matmul-abi.h"
#include "random-abi.h"

/* An error that a context keeps: all of its later calls return it. */
static inline bool vcuda_is_sticky(CUresult result)
{
	return result == CUDA_ERROR_ILLEGAL_ADDRESS || result == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       result == CUDA_ERROR_ASSERT ||
	       (result >= CUDA_ERROR_HARDWARE_STACK_ERROR && result <= CUDA_ERROR_LAUNCH_FAILED);
}

typedef unsigned short ushort16;
typedef struct vcuda_image_st *vcuda_image; /* an id, as every handle in the guest */

/* The answer to an older guest's vcudaImageLook: the host keeps no image of that length. */
#define VCUDA_IMAGE_NEVER 0

/* The name by which an older guest asks for an image. */
typedef struct vcuda_image_name {
	uint8_t bytes[32];
} vcuda_image_name;

typedef struct vcuda_allocation_st *vcuda_allocation; /* memory that was created and not mapped */

typedef struct vcuda_code_st *vcuda_code; /* a module or a library */

/* Ranges in which the worker's devices allocate. The guest keeps its own mappings out of them. */
struct vcuda_address_range {
	uint64_t start, length;
};

#define VCUDA_ADDRESS_RANGES 8

typedef struct vcuda_host_info {
	uint32_t minor;			/* the worker's protocol minor */
	int32_t driver_version;		/* e.g. 13000: the back end's */
	int32_t device_count;
	uint32_t range_count;
	struct vcuda_address_range ranges[VCUDA_ADDRESS_RANGES];
	uint64_t arena_start, arena_length; /* mapping_create addresses must be in this range */
	char backend[16];		/* "cpu", "cuda" */
	uint32_t pid;			/* the worker's, for messages */
	uint32_t features;		/* VCUDA_FEATURE_..., 0 from an older worker */
} vcuda_host_info;

/* The worker has vcudaMemHostAccess: guest memory in the arena can be a reservation's. */
#define VCUDA_FEATURE_HOST_MEMORY 1u
/* The worker has vcudaMemPlace: guest memory can be mapped in a reservation of the device's as well. */
#define VCUDA_FEATURE_PLACES 2u

/*
 * The compiler's options whose values are numbers, by CUjit_option: they go to the worker. The others are buffers of
 * the guest, tables of its addresses, or options of a compiler that takes another language than PTX.
 */
#define VCUDA_JIT_NUMBERS                                                                                              \
	(1ull << CU_JIT_MAX_REGISTERS | 1ull << CU_JIT_THREADS_PER_BLOCK | 1ull << CU_JIT_OPTIMIZATION_LEVEL |         \
	 1ull << CU_JIT_TARGET_FROM_CUCONTEXT | 1ull << CU_JIT_TARGET | 1ull << CU_JIT_FALLBACK_STRATEGY |             \
	 1ull << CU_JIT_GENERATE_DEBUG_INFO | 1ull << CU_JIT_LOG_VERBOSE | 1ull << CU_JIT_GENERATE_LINE_INFO |         \
	 1ull << CU_JIT_CACHE_MODE | 1ull << CU_JIT_POSITION_INDEPENDENT_CODE | 1ull << CU_JIT_MIN_CTA_PER_SM |        \
	 1ull << CU_JIT_MAX_THREADS_PER_BLOCK | 1ull << CU_JIT_OVERRIDE_DIRECTIVE_VALUES)

/* Operations of cuStreamBatchMemOp() in one call, and the words of each in vcudaStreamMemOps. */
#define VCUDA_MEMORY_OPS_MAX 255
#define VCUDA_MEMORY_OP_WORDS 3

#define VCUDA_DEVICE_ATTRIBUTES 160

typedef struct vcuda_device_info {
	char name[256];
	CUuuid uuid;
	uint64_t total_memory;		/* bytes */
	char pci_bus_id[16];
	int32_t attributes[VCUDA_DEVICE_ATTRIBUTES]; /* by CUdevice_attribute */
	int32_t attribute_results[VCUDA_DEVICE_ATTRIBUTES]; /* CUresult of each query */
} vcuda_device_info;

#define VCUDA_PROCESSES 256 /* fit one reply */

typedef struct vcuda_system_info {
	char driver_version[80]; /* of the host's GPU driver; empty: there is none, or it is not known */
} vcuda_system_info;

#define VCUDA_FUNCTION_ATTRIBUTES 16
#define VCUDA_FUNCTION_PARAMS 512

typedef struct vcuda_function_info {
	int32_t attributes[VCUDA_FUNCTION_ATTRIBUTES]; /* by CUfunction_attribute */
	int32_t attribute_results[VCUDA_FUNCTION_ATTRIBUTES];
	uint32_t param_count, param_bytes;
	struct {
		uint32_t offset, size;
	} params[VCUDA_FUNCTION_PARAMS];
} vcuda_function_info;

/* One end of a box that is copied: a position in an array, or in memory, where rows are `pitch` bytes apart and slices
 * `height` rows. */
typedef struct vcuda_box_end {
	uint64_t address; /* of device memory; else 0 */
	uint64_t x, y, z; /* x in bytes */
	uint64_t pitch, height;
} vcuda_box_end;

typedef struct vcuda_box {
	vcuda_box_end dst, src;
	uint64_t width, height, depth; /* width in bytes */
} vcuda_box;

/* CUDA_RESOURCE_DESC with an id for the array. */
typedef struct vcuda_resource {
	uint32_t type; /* CUresourcetype */
	uint32_t format, channels;
	uint32_t flags;
	uint64_t array; /* id of an array or mipmapped array */
	uint64_t address, bytes, width, height, pitch;
} vcuda_resource;

/* The arguments of cuTensorMapEncode*(); numbers of enumerations are the driver's business. */
enum vcuda_tensor_kind { VCUDA_TENSOR_TILED, VCUDA_TENSOR_IM2COL, VCUDA_TENSOR_IM2COL_WIDE };

#define VCUDA_TENSOR_RANK 5

/* CUtensorMap, which is to be aligned where the driver writes it. */
typedef struct vcuda_tensor_map {
	uint64_t opaque[16];
} vcuda_tensor_map;

typedef struct vcuda_tensor {
	uint64_t address;
	uint64_t dim[VCUDA_TENSOR_RANK], strides[VCUDA_TENSOR_RANK]; /* one stride fewer than dimensions */
	uint32_t kind; /* enum vcuda_tensor_kind */
	int32_t type;
	uint32_t rank;
	uint32_t box[VCUDA_TENSOR_RANK]; /* tiled */
	uint32_t steps[VCUDA_TENSOR_RANK];
	int32_t lower[VCUDA_TENSOR_RANK], upper[VCUDA_TENSOR_RANK]; /* im2col: two less than dimensions; wide: one */
	uint32_t channels, pixels;
	int32_t interleave, mode, swizzle, promotion, fill;
	uint32_t reserved;
} vcuda_tensor;

/* Ids of the objects; kernels are given their values. */
typedef struct vcuda_texture_st *vcuda_texture;
typedef struct vcuda_surface_st *vcuda_surface;

/* A generator of random numbers. */
typedef struct vcuda_generator_st *vcuda_generator;

/* A link that is not complete, or not destroyed. */
typedef struct vcuda_link_st *vcuda_link;

/* A graph that the worker keeps for an executable graph of the guest's. */
typedef struct vcuda_graph_st *vcuda_graph_id;

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory of a copy or memset lies, and whether the access fits: errors at the call. */
#ifndef VCUDA_OPERAND_H
#define VCUDA_OPERAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

/* What the application says it is. */
enum libcuda_side { LIBCUDA_SIDE_DEVICE, LIBCUDA_SIDE_HOST, LIBCUDA_SIDE_ANY };

enum libcuda_memory_kind {
	LIBCUDA_MEMORY_DEVICE,
	LIBCUDA_MEMORY_MAPPED,   /* host memory that the worker maps */
	LIBCUDA_MEMORY_PAGEABLE, /* other host memory */
};

struct libcuda_operand {
	enum libcuda_memory_kind kind;
	bool unsure; /* a device address that nobody handed out: only the worker can say */
};

/* CUDA_ERROR_INVALID_VALUE: not what the application says, or past its end. */
CUresult libcuda_operand_find(uint64_t address, size_t bytes, enum libcuda_side side, struct libcuda_operand *operand);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Where the memory of a copy or memset lies, and whether the access fits: errors at the call. */
#ifndef VCUDA_OPERAND_H
#define VCUDA_OPERAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

/* What the application says it is. */
enum vcuda_side { VCUDA_SIDE_DEVICE, VCUDA_SIDE_HOST, VCUDA_SIDE_ANY };

enum vcuda_place {
	VCUDA_PLACE_DEVICE,
	VCUDA_PLACE_WINDOW,   /* host memory that the worker maps */
	VCUDA_PLACE_PAGEABLE, /* other host memory */
};

struct vcuda_operand {
	enum vcuda_place place;
	bool unsure; /* a device address that nobody handed out: only the worker can say */
};

/* CUDA_ERROR_INVALID_VALUE: not what the application says, or past its end. */
CUresult vcuda_operand_find(uint64_t address, size_t bytes, enum vcuda_side side, struct vcuda_operand *operand);

#endif

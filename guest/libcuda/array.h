/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays as the guest knows them: what they were made as, so that copies and queries need not ask. */
#ifndef VCUDA_ARRAY_H
#define VCUDA_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda-abi.h"

struct vcuda_object;

/* The record of a live array, or NULL. */
struct vcuda_object *vcuda_array_find(CUarray array);

/* Bytes of a texel; 0: no such format. */
size_t vcuda_texel_bytes(CUarray_format format, unsigned int channels);

/* A copy of which at least one end is an array. */
CUresult vcuda_copy_array(const CUDA_MEMCPY3D *copy, CUstream stream, bool async);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's descriptions of arrays, so that copies and queries need no call. Thread-safe. */
#ifndef VCUDA_ARRAY_H
#define VCUDA_ARRAY_H

#include <stddef.h>

#include "protocol/cuda-abi.h"

struct libcuda_object;

/* The record of a live array, or NULL. */
struct libcuda_object *libcuda_array_find(CUarray array);

/* Bytes of a texel; 0: no such format. */
size_t libcuda_texel_bytes(CUarray_format format, unsigned int channels);

#endif

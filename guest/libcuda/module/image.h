/* SPDX-License-Identifier: Apache-2.0 */
/* A module image in the application's memory: what it is, how long, and how it gets to the worker. */
#ifndef VCUDA_IMAGE_H
#define VCUDA_IMAGE_H

#include <stddef.h>

#include "module/jit.h"
#include "protocol/types.h"

/*
 * Finds the bytes to ship: of a fatbin wrapper its container, of a container, an ELF file or PTX text itself.
 * CUDA_ERROR_INVALID_IMAGE: none of these. Relocatable code (-rdc=true) is put together with what it was linked from:
 * the bytes are good until the thread's next call.
 */
CUresult libcuda_image_find(const void *image, const void **data, size_t *bytes);

/* The same for a file's contents, of which `room` bytes are there and zeroes behind them: its headers are not believed.
 */
CUresult libcuda_image_in_file(const void *file, size_t room, const void **data, size_t *bytes);

/*
 * Ships an image and lets the worker load it with the program's options, which libcuda_jit_start() has seen: `load`
 * makes `object` of it. The options' answers are complete when this returns.
 */
CUresult libcuda_image_load(const void *data, size_t bytes, const struct libcuda_jit *jit,
			    CUresult (*load)(void *object, vcuda_image image), void *object);

/* Reads what the worker made of one. */
CUresult libcuda_image_read(vcuda_image image, char *data, size_t bytes);

#endif

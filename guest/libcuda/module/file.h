/* SPDX-License-Identifier: Apache-2.0 */
/* Files of images, for cuModuleLoad(), cuLibraryLoadFromFile() and cuLinkAddFile(). */
#ifndef VCUDA_FILE_H
#define VCUDA_FILE_H

#include <stddef.h>

#include "protocol/cuda-abi.h"

/*
 * A whole file, with zeroes behind it; the caller frees it. CUDA_ERROR_FILE_NOT_FOUND, CUDA_ERROR_INVALID_IMAGE (the
 * file is empty), CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult libcuda_file_read(const char *path, void **data, size_t *bytes);

#endif

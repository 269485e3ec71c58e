/* SPDX-License-Identifier: Apache-2.0 */
/* nvcc's object files, and archives of such: the host's ELF files with device code in a section. */
#ifndef VCUDA_CPU_OBJECT_FILE_H
#define VCUDA_CPU_OBJECT_FILE_H

#include <stddef.h>

#include "protocol/cuda-abi.h"

/*
 * Calls `take` for each fatbin container of the relocatable code (-rdc=true) in an object file or archive, until it
 * fails. There may be none: what an archive has beside object files is passed over. CUDA_ERROR_INVALID_IMAGE: it is
 * neither, or malformed. Nothing in `data` is believed; all that is taken is no more than that.
 */
CUresult softgpu_object_file_parts(const void *data, size_t bytes,
				   CUresult (*take)(void *to, const void *container, size_t bytes), void *to);

#endif

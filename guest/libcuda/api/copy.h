/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of copy/copy.h, as the application asks for them: on a stream that captures, a copy becomes a node. */
#ifndef VCUDA_API_COPY_H
#define VCUDA_API_COPY_H

#include "copy/copy.h"

CUresult libcuda_copy_submit(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes, CUstream stream,
			     bool async);
CUresult libcuda_copy_3d_submit(const CUDA_MEMCPY3D *copy, CUstream stream, bool async);

#endif

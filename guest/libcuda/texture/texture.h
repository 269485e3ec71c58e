/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of texture and surface objects. Results are CUDA's codes. */
#ifndef VCUDA_TEXTURE_H
#define VCUDA_TEXTURE_H

#include "protocol/types.h"

/* A resource as it goes to the worker. Errors: an array that is not there, no such texels. */
CUresult libcuda_texture_resource(const CUDA_RESOURCE_DESC *d, vcuda_resource *r);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_TEXTURE_H
#define VCUDA_TEXTURE_H

#include "protocol/types.h"

/* A resource as it goes to the worker. Errors: an array that is not there, no such texels. */
CUresult libcuda_texture_resource(const CUDA_RESOURCE_DESC *d, vcuda_resource *r);

#endif

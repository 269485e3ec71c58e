/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of textures and surfaces. */
#ifndef VCUDA_RESOURCE_H
#define VCUDA_RESOURCE_H

#include "protocol/calls.h"

struct worker_session;

/* Resolves the array of a resource by its id; an address of plain memory is passed on unchanged. */
CUresult worker_resource_resolve(struct worker_session *s, const vcuda_resource *r, CUDA_RESOURCE_DESC *d);

#endif

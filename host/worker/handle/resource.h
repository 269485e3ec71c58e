/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_RESOURCE_H
#define VCUDA_RESOURCE_H

#include "protocol/calls.h"

struct worker_session;

/* The array of a resource by its id; plain memory is named as it is. */
CUresult worker_resource_resolve(struct worker_session *s, const vcuda_resource *r, CUDA_RESOURCE_DESC *d);

#endif

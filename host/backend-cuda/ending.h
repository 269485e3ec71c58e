/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a context in the cuda back end. */
#ifndef VCUDA_CUDA_ENDING_H
#define VCUDA_CUDA_ENDING_H

#include "protocol/backend.h"

/*
 * Before a context ends, the objects of the host's libraries and of this back end in it are freed: otherwise their host
 * memory would leak.
 */
void backend_ending_init(struct vcuda_backend_ops *ops);

#endif

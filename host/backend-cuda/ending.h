/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_CUDA_ENDING_H
#define VCUDA_CUDA_ENDING_H

#include "protocol/backend.h"

/* Before a context ends, what the host's libraries and this back end have in it goes: their memory on the host would
 * stay. */
void backend_ending_init(struct vcuda_backend_ops *ops);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of copies, in the form of the back end. */
#ifndef VCUDA_BOX_H
#define VCUDA_BOX_H

#include <stdbool.h>

#include "protocol/types.h"

/* Between arrays and device memory; NULL: that end is memory. */
CUDA_MEMCPY3D worker_box_describe(const vcuda_box *box, CUarray dst, CUarray src);

/*
 * The bytes that one end of a box in host memory reaches over, from its start: the guest says how many it means, and no
 * more than these may be touched. False: more.
 */
bool worker_box_fits(const vcuda_box *box, const vcuda_box_end *end, uint64_t bytes);

#endif

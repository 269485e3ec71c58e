/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_GUEST_OUTPUT_H
#define VCUDA_GUEST_OUTPUT_H

#include "ring.h"

/* Writes what kernels have printed to this process's standard output, in one piece. Thread-safe; holds no reply slot.
 */
void vcuda_output_forward(struct vcuda_shm *shm);

#endif

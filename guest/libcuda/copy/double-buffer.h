/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large copies of pageable memory. Threads of this library copy between the application's memory and several staging
 * blocks while the device copies to or from others: one processor copies at a fifth of a GPU's rate.
 */
#ifndef VCUDA_DOUBLE_BUFFER_H
#define VCUDA_DOUBLE_BUFFER_H

#include <stdbool.h>

#include "copy/copy-policy.h"

/*
 * Copies pageable memory and waits for the end. Returns false, and does nothing, where there are no threads or no
 * blocks for the copy now. The threads leave SIGSEGV and SIGBUS to the application's handlers, which must return.
 * Thread-safe.
 */
bool libcuda_stage_double_buffer(const struct libcuda_transfer *t, CUresult *result);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions of graphs: one word each, by a handle that no later condition has. Kernels set a condition by its handle
 * (cudaGraphSetConditional), and a conditional node reads it. Thread-safe, without the scheduler's lock.
 */
#ifndef VCUDA_CPU_CONDITION_H
#define VCUDA_CPU_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

/* A new condition, whose word is `value`. 0: there are too many. */
uint64_t softgpu_condition_new(uint32_t value);
void softgpu_condition_drop(uint64_t condition);

/* False: there is no such condition. */
bool softgpu_condition_set(uint64_t condition, uint32_t value);
bool softgpu_condition_get(uint64_t condition, uint32_t *value);

#endif

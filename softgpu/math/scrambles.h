/* SPDX-License-Identifier: Apache-2.0 */
/* The scrambles of Sobol sequences: those of NVIDIA's cuRAND, where the host has that library. */
#ifndef VCUDA_CPU_SCRAMBLES_H
#define VCUDA_CPU_SCRAMBLES_H

#include <stdint.h>

/*
 * By dimension, the directions and the constant of a scrambled type, as rng_set_scrambles() takes them. NULL: the host
 * has no such library, or the type is not scrambled. Kept as long as the process lives. Thread-safe.
 */
const uint64_t *softgpu_scrambles(uint32_t type);

#endif

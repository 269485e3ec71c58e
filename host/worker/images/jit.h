/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest tells the compiler or the linker, and what these say: options that are numbers, and two logs. */
#ifndef VCUDA_WORKER_JIT_H
#define VCUDA_WORKER_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct vcuda_session;

/* Of each of the two logs. */
#define VCUDA_JIT_LOG_BYTES 16384

#define VCUDA_JIT_OPTIONS 16
#define VCUDA_JIT_LOG_OPTIONS 4

/* As a back end takes them. */
struct vcuda_jit_options {
	unsigned int count;
	CUjit_option options[VCUDA_JIT_OPTIONS + VCUDA_JIT_LOG_OPTIONS];
	void *values[VCUDA_JIT_OPTIONS + VCUDA_JIT_LOG_OPTIONS];
};

/* All zeroes at the start. No lock: it is its owner's. */
struct vcuda_worker_jit {
	bool wants_log;
	struct vcuda_jit_options numbers;
	char info[VCUDA_JIT_LOG_BYTES], errors[VCUDA_JIT_LOG_BYTES];
};

/* An option as it crosses. CUDA_ERROR_INVALID_VALUE: it is none that does, or one too many. */
CUresult vcuda_worker_jit_add(struct vcuda_worker_jit *jit, uint32_t option, uint64_t value);

/* The numbers and, if there shall be a log, where the logs go: these are written as long as the back end has the
 * options. */
struct vcuda_jit_options vcuda_worker_jit_all(struct vcuda_worker_jit *jit);

/* Puts what a log says, cut off after `bytes` and without its NUL, into a staging block of the guest's. */
CUresult vcuda_worker_jit_read(struct vcuda_session *s, const struct vcuda_worker_jit *jit, uint32_t option,
			       uint32_t block, size_t bytes, size_t *length);

#endif

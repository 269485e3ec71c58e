/* SPDX-License-Identifier: Apache-2.0 */
/* What a guest tells the compiler or the linker, and what these say: options that are numbers, and two logs. */
#ifndef VCUDA_WORKER_JIT_H
#define VCUDA_WORKER_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct worker_session;

/* Of each of the two logs. */
#define WORKER_JIT_LOG_BYTES 16384

#define WORKER_JIT_OPTIONS 16
#define WORKER_JIT_LOG_OPTIONS 4

/* As a back end takes them. */
struct worker_jit_options {
	unsigned int count;
	CUjit_option options[WORKER_JIT_OPTIONS + WORKER_JIT_LOG_OPTIONS];
	void *values[WORKER_JIT_OPTIONS + WORKER_JIT_LOG_OPTIONS];
};

/* All zeroes at the start. No lock: it is its owner's. */
struct worker_jit {
	bool wants_log;
	struct worker_jit_options numbers;
	char info[WORKER_JIT_LOG_BYTES], errors[WORKER_JIT_LOG_BYTES];
};

/* An option as it crosses. CUDA_ERROR_INVALID_VALUE: it is none that does, or one too many. */
CUresult worker_jit_add(struct worker_jit *jit, uint32_t option, uint64_t value);

/* The numbers and, if there shall be a log, where the logs go: these are written as long as the back end has the
 * options. */
struct worker_jit_options worker_jit_all(struct worker_jit *jit);

/* Puts what a log says, cut off after `bytes` and without its NUL, into a staging block of the guest's. */
CUresult worker_jit_read(struct worker_session *s, const struct worker_jit *jit, uint32_t option, uint32_t block,
			 size_t bytes, size_t *length);

#endif

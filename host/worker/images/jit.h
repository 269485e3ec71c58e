/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's options for the compiler or the linker, which are numbers, and their two logs. */
#ifndef VCUDA_WORKER_JIT_H
#define VCUDA_WORKER_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct worker_session;

/* The size of each of the two logs. */
#define WORKER_JIT_LOG_BYTES 16384

#define WORKER_JIT_OPTIONS 16
#define WORKER_JIT_LOG_OPTIONS 4

/* As a back end takes them. */
struct worker_jit_options {
	unsigned int count;
	CUjit_option options[WORKER_JIT_OPTIONS + WORKER_JIT_LOG_OPTIONS];
	void *values[WORKER_JIT_OPTIONS + WORKER_JIT_LOG_OPTIONS];
};

/* Initialised to zeroes. No lock: the owner serialises the calls. */
struct worker_jit {
	bool wants_log;
	struct worker_jit_options numbers;
	char info[WORKER_JIT_LOG_BYTES], errors[WORKER_JIT_LOG_BYTES];
};

/* Adds an option of the wire. CUDA_ERROR_INVALID_VALUE: no such option, or too many options. */
CUresult worker_jit_add(struct worker_jit *jit, uint32_t option, uint64_t value);

/*
 * The numeric options and, if a log is wanted, the logs' buffers, which the back end writes as long as it has the
 * options.
 */
struct worker_jit_options worker_jit_all(struct worker_jit *jit);

/* Puts the text of a log, cut off after `bytes` and without its NUL, into a staging block of the guest. */
CUresult worker_jit_read(struct worker_session *s, const struct worker_jit *jit, uint32_t option, uint32_t block,
			 size_t bytes, size_t *length);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The log that a program asks of the compiler: what vcuda_log() says while a module is loaded, or while one is linked.
 */
#ifndef VCUDA_CPU_JIT_LOG_H
#define VCUDA_CPU_JIT_LOG_H

#include "protocol/backend.h"

struct softgpu_jit_log {
	void **size_of_info, **size_of_errors; /* the caller reads the sizes of the logs here, or NULL */
	char *errors;                          /* NULL: none is asked for */
	size_t room, captured;
};

/* Reads the options of a call that loads, or links. CUDA_ERROR_INVALID_VALUE if they are wrong. */
CUresult softgpu_jit_log_open(struct softgpu_jit_log *log, unsigned int count, const CUjit_option *options,
			      void **values);

/*
 * The bound of a thread's registers among checked options; 0: there is none. Other options tune a compiler that is not
 * this one.
 */
unsigned int softgpu_jit_max_registers(unsigned int count, const CUjit_option *options, void **values);

/* Between resume and pause the thread's log text is kept, behind earlier text. */
void softgpu_jit_log_resume(const struct softgpu_jit_log *log);
void softgpu_jit_log_pause(struct softgpu_jit_log *log);

/* Opens and resumes. */
CUresult softgpu_jit_log_begin(struct softgpu_jit_log *log, unsigned int count, const CUjit_option *options,
			       void **values);

/* Pauses, and tells the caller how much there is. */
void softgpu_jit_log_end(struct softgpu_jit_log *log);

#endif

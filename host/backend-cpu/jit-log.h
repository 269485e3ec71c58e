/* SPDX-License-Identifier: Apache-2.0 */
/* The log that a program asks of the compiler: what cpu_log() says while a module is loaded. */
#ifndef VCUDA_CPU_JIT_LOG_H
#define VCUDA_CPU_JIT_LOG_H

#include "backend.h"

struct cpu_jit_log {
	void **size_of_info, **size_of_errors; /* where the caller learns how much there is, or NULL */
};

/*
 * Reads the options of a call that loads, and keeps what the thread logs from here on. CUDA_ERROR_INVALID_VALUE if they
 * are wrong.
 */
CUresult cpu_jit_log_begin(struct cpu_jit_log *log, unsigned int count, const CUjit_option *options, void **values);

void cpu_jit_log_end(const struct cpu_jit_log *log);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "images/jit.h"

#include <string.h>

#include "session/command.h"
#include "protocol/types.h"

CUresult worker_jit_add(struct worker_jit *jit, uint32_t option, uint64_t value)
{
	struct worker_jit_options *n = &jit->numbers;

	if (option == CU_JIT_INFO_LOG_BUFFER || option == CU_JIT_ERROR_LOG_BUFFER) {
		jit->wants_log = true;
		return CUDA_SUCCESS;
	}
	if (option >= CU_JIT_NUM_OPTIONS || !(VCUDA_JIT_NUMBERS >> option & 1) || n->count == WORKER_JIT_OPTIONS)
		return CUDA_ERROR_INVALID_VALUE;
	n->options[n->count] = (CUjit_option)option;
	n->values[n->count++] = (void *)(uintptr_t)value;
	return CUDA_SUCCESS;
}

struct worker_jit_options worker_jit_all(struct worker_jit *jit)
{
	const struct {
		CUjit_option option;
		void *value;
	} logs[WORKER_JIT_LOG_OPTIONS] = {
		{CU_JIT_INFO_LOG_BUFFER, jit->info},
		{CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, (void *)(uintptr_t)WORKER_JIT_LOG_BYTES},
		{CU_JIT_ERROR_LOG_BUFFER, jit->errors},
		{CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, (void *)(uintptr_t)WORKER_JIT_LOG_BYTES},
	};
	struct worker_jit_options all = jit->numbers;

	for (unsigned int i = 0; jit->wants_log && i < WORKER_JIT_LOG_OPTIONS; i++) {
		all.options[all.count] = logs[i].option;
		all.values[all.count++] = logs[i].value;
	}
	return all;
}

CUresult worker_jit_read(struct worker_session *s, const struct worker_jit *jit, uint32_t option, uint32_t block,
			 size_t bytes, size_t *length)
{
	const char *log = option == CU_JIT_INFO_LOG_BUFFER ? jit->info : jit->errors;
	void *to = worker_command_stage(s, block, bytes);

	if (!to)
		return CUDA_ERROR_INVALID_VALUE;
	*length = strnlen(log, bytes < WORKER_JIT_LOG_BYTES ? bytes : WORKER_JIT_LOG_BYTES);
	memcpy(to, log, *length);
	return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "module/jit-log.h"

#include <stdint.h>

#include "common/log.h"

CUresult softgpu_jit_log_open(struct softgpu_jit_log *log, unsigned int count, const CUjit_option *options,
			      void **values)
{
	char *info = NULL, *errors = NULL;

	*log = (struct softgpu_jit_log){0};
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned int i = 0; i < count; i++) {
		if ((unsigned int)options[i] >= CU_JIT_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
		if (options[i] == CU_JIT_INFO_LOG_BUFFER)
			info = values[i];
		else if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES)
			log->size_of_info = &values[i];
		else if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
			errors = values[i];
		else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			log->size_of_errors = &values[i];
	}
	if (info && log->size_of_info && (uintptr_t)*log->size_of_info)
		*info = 0;
	if (errors && log->size_of_errors && (uintptr_t)*log->size_of_errors) {
		log->errors = errors;
		log->room = (uintptr_t)*log->size_of_errors;
		*errors = 0;
	}
	return CUDA_SUCCESS;
}

unsigned int softgpu_jit_max_registers(unsigned int count, const CUjit_option *options, void **values)
{
	unsigned int bound = 0;

	for (unsigned int i = 0; i < count; i++)
		if (options[i] == CU_JIT_MAX_REGISTERS)
			bound = (unsigned int)(uintptr_t)values[i];
	return bound;
}

void softgpu_jit_log_resume(const struct softgpu_jit_log *log)
{
	if (log->errors)
		vcuda_log_capture(log->errors + log->captured, log->room - log->captured);
}

void softgpu_jit_log_pause(struct softgpu_jit_log *log)
{
	log->captured += vcuda_log_capture(NULL, 0);
}

CUresult softgpu_jit_log_begin(struct softgpu_jit_log *log, unsigned int count, const CUjit_option *options,
			       void **values)
{
	CUresult result = softgpu_jit_log_open(log, count, options, values);

	if (result == CUDA_SUCCESS)
		softgpu_jit_log_resume(log);
	return result;
}

void softgpu_jit_log_end(struct softgpu_jit_log *log)
{
	softgpu_jit_log_pause(log);
	if (log->size_of_info)
		*log->size_of_info = NULL;
	if (log->size_of_errors)
		*log->size_of_errors = (void *)log->captured;
}

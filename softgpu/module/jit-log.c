/* SPDX-License-Identifier: Apache-2.0 */
#include "module/jit-log.h"

#include <stdint.h>

#include "common/log.h"

CUresult cpu_jit_log_open(struct cpu_jit_log *log, unsigned int count, const CUjit_option *options, void **values)
{
	char *info = NULL, *errors = NULL;

	*log = (struct cpu_jit_log){0};
	if (count && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	/* The others tune a compiler that is not this one. */
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

void cpu_jit_log_resume(const struct cpu_jit_log *log)
{
	if (log->errors)
		vcuda_log_keep(log->errors + log->kept, log->room - log->kept);
}

void cpu_jit_log_pause(struct cpu_jit_log *log)
{
	log->kept += vcuda_log_keep(NULL, 0);
}

CUresult cpu_jit_log_begin(struct cpu_jit_log *log, unsigned int count, const CUjit_option *options, void **values)
{
	CUresult result = cpu_jit_log_open(log, count, options, values);

	if (result == CUDA_SUCCESS)
		cpu_jit_log_resume(log);
	return result;
}

void cpu_jit_log_end(struct cpu_jit_log *log)
{
	cpu_jit_log_pause(log);
	if (log->size_of_info)
		*log->size_of_info = NULL;
	if (log->size_of_errors)
		*log->size_of_errors = (void *)log->kept;
}

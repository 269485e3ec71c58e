/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: which functions a module has, and what takes modules away. */
#include <stdlib.h>
#include <string.h>

#include "session/dispatch.h"
#include "protocol/handlers.h"
#include "session/command.h"
#include "session/session.h"

CUresult vcuda_handle_cuModuleUnload(struct worker_session *s, struct vcuda_args_cuModuleUnload *a)
{
	if (!s->ops->cuModuleUnload)
		return worker_unsupported(s, VCUDA_OP_cuModuleUnload);
	return s->ops->cuModuleUnload(a->hmod);
}

CUresult vcuda_handle_cuLibraryUnload(struct worker_session *s, struct vcuda_args_cuLibraryUnload *a)
{
	if (!s->ops->cuLibraryUnload)
		return worker_unsupported(s, VCUDA_OP_cuLibraryUnload);
	return s->ops->cuLibraryUnload(a->library);
}

/* The calls for a module's functions or a library's kernels, whose handles differ in the driver. */
struct kind {
	CUresult (*count)(const struct vcuda_backend_ops *ops, unsigned int *count, void *owner);
	CUresult (*enumerate)(const struct vcuda_backend_ops *ops, void **functions, unsigned int count, void *owner);
	CUresult (*name)(const struct vcuda_backend_ops *ops, const char **name, void *function);
};

static CUresult count_functions(const struct vcuda_backend_ops *ops, unsigned int *count, void *owner)
{
	return ops->cuModuleGetFunctionCount ? ops->cuModuleGetFunctionCount(count, owner) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult enumerate_functions(const struct vcuda_backend_ops *ops, void **functions, unsigned int count,
				    void *owner)
{
	return ops->cuModuleEnumerateFunctions ? ops->cuModuleEnumerateFunctions(functions, count, owner)
					       : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult name_function(const struct vcuda_backend_ops *ops, const char **name, void *function)
{
	return ops->cuFuncGetName ? ops->cuFuncGetName(name, function) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult count_kernels(const struct vcuda_backend_ops *ops, unsigned int *count, void *owner)
{
	return ops->cuLibraryGetKernelCount ? ops->cuLibraryGetKernelCount(count, owner) : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult enumerate_kernels(const struct vcuda_backend_ops *ops, void **kernels, unsigned int count, void *owner)
{
	return ops->cuLibraryEnumerateKernels ? ops->cuLibraryEnumerateKernels(kernels, count, owner)
					      : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult name_kernel(const struct vcuda_backend_ops *ops, const char **name, void *kernel)
{
	return ops->cuKernelGetName ? ops->cuKernelGetName(name, kernel) : CUDA_ERROR_NOT_SUPPORTED;
}

static const struct kind functions_of_modules = {count_functions, enumerate_functions, name_function};
static const struct kind kernels_of_libraries = {count_kernels, enumerate_kernels, name_kernel};

/* Destination of the names: a staging block of the guest, which may change at any time. */
struct names {
	const struct vcuda_backend_ops *ops;
	char *to;
	size_t bytes;
	uint32_t first, count, total;
};

static CUresult put_names(struct names *names, const struct kind *kind, void *const *functions)
{
	for (uint32_t i = names->first; i < names->total; i++) {
		const char *name = NULL;
		CUresult result = kind->name(names->ops, &name, functions[i]);
		size_t length;

		if (result != CUDA_SUCCESS)
			return result;
		length = name ? strlen(name) + 1 : 1;
		if (length > names->bytes)
			return names->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		memcpy(names->to, name ? name : "", length);
		names->to += length;
		names->bytes -= length;
		names->count++;
	}
	return CUDA_SUCCESS;
}

static CUresult list(struct names *names, const struct kind *kind, void *owner)
{
	CUresult result = kind->count(names->ops, &names->total, owner);
	void **functions;

	if (result != CUDA_SUCCESS || !names->bytes || names->first >= names->total)
		return result;
	functions = calloc(names->total, sizeof(*functions));
	if (!functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = kind->enumerate(names->ops, functions, names->total, owner);
	if (result == CUDA_SUCCESS)
		result = put_names(names, kind, functions);
	free(functions);
	return result;
}

/* With `bytes` 0 only the number is asked for. */
static CUresult get_names(struct worker_session *s, struct names *names, const struct kind *kind, void *owner,
			  uint32_t block)
{
	names->ops = s->ops;
	names->to = names->bytes ? worker_command_stage(s, block, names->bytes) : NULL;
	if (!names->to && names->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (s->ops->codeNames)
		return s->ops->codeNames(owner, names->first, names->to, names->bytes, &names->count, &names->total);
	return list(names, kind, owner);
}

CUresult vcuda_handle_vcudaModuleNames(struct worker_session *s, struct vcuda_args_vcudaModuleNames *a)
{
	struct names names = {.bytes = a->bytes, .first = a->first};
	CUresult result = get_names(s, &names, &functions_of_modules, a->hmod, a->block);

	a->count = names.count;
	a->total = names.total;
	return result == CUDA_ERROR_NOT_SUPPORTED ? worker_unsupported(s, VCUDA_OP_vcudaModuleNames) : result;
}

CUresult vcuda_handle_vcudaLibraryNames(struct worker_session *s, struct vcuda_args_vcudaLibraryNames *a)
{
	struct names names = {.bytes = a->bytes, .first = a->first};
	CUresult result = get_names(s, &names, &kernels_of_libraries, a->library, a->block);

	a->count = names.count;
	a->total = names.total;
	return result == CUDA_ERROR_NOT_SUPPORTED ? worker_unsupported(s, VCUDA_OP_vcudaLibraryNames) : result;
}

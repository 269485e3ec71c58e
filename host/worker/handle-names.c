/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers: which functions a module has. */
#include <stdlib.h>
#include <string.h>

#include "dispatch.h"
#include "handlers.h"
#include "lane.h"
#include "session.h"

/* A kernel stands for a function in any context: the driver takes either. */
typedef CUresult name_of(void *name, void *function);

/* Where the names go: a staging block of the guest's, which may change under our hands. */
struct names {
	char *to;
	size_t bytes;
	uint32_t first, count, total;
};

static CUresult put_names(struct names *names, void *const *functions, name_of *get_name)
{
	for (uint32_t i = names->first; i < names->total; i++) {
		const char *name = NULL;
		CUresult result = get_name(&name, functions[i]);
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

/* With `bytes` 0 only the number is asked for. */
static CUresult list(struct names *names, void *owner,
		     CUresult (*enumerate)(void *functions, unsigned int count, void *owner), name_of *get_name)
{
	void **functions;
	CUresult result;

	if (!names->bytes || names->first >= names->total)
		return CUDA_SUCCESS;
	functions = calloc(names->total, sizeof(*functions));
	if (!functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = enumerate(functions, names->total, owner);
	if (result == CUDA_SUCCESS)
		result = put_names(names, functions, get_name);
	free(functions);
	return result;
}

static bool start(struct vcuda_session *s, struct names *names, uint32_t first, uint32_t block, size_t bytes)
{
	*names = (struct names){.to = bytes ? vcuda_lane_stage(s, block, bytes) : NULL, .bytes = bytes, .first = first};
	return names->to || !bytes;
}

CUresult vcuda_handle_vcudaModuleNames(struct vcuda_session *s, struct vcuda_args_vcudaModuleNames *a)
{
	struct names names;
	CUresult result;

	if (!s->ops->cuModuleGetFunctionCount || !s->ops->cuModuleEnumerateFunctions || !s->ops->cuFuncGetName)
		return vcuda_unsupported(s, VCUDA_OP_vcudaModuleNames);
	if (!start(s, &names, a->first, a->block, a->bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = s->ops->cuModuleGetFunctionCount(&names.total, a->hmod);
	if (result == CUDA_SUCCESS)
		result = list(&names, a->hmod, (void *)s->ops->cuModuleEnumerateFunctions,
			      (name_of *)(void *)s->ops->cuFuncGetName);
	a->count = names.count;
	a->total = names.total;
	return result;
}

CUresult vcuda_handle_vcudaLibraryNames(struct vcuda_session *s, struct vcuda_args_vcudaLibraryNames *a)
{
	struct names names;
	CUresult result;

	if (!s->ops->cuLibraryGetKernelCount || !s->ops->cuLibraryEnumerateKernels || !s->ops->cuKernelGetName)
		return vcuda_unsupported(s, VCUDA_OP_vcudaLibraryNames);
	if (!start(s, &names, a->first, a->block, a->bytes))
		return CUDA_ERROR_INVALID_VALUE;
	result = s->ops->cuLibraryGetKernelCount(&names.total, a->library);
	if (result == CUDA_SUCCESS)
		result = list(&names, a->library, (void *)s->ops->cuLibraryEnumerateKernels,
			      (name_of *)(void *)s->ops->cuKernelGetName);
	a->count = names.count;
	a->total = names.total;
	return result;
}

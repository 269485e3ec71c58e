/* SPDX-License-Identifier: Apache-2.0 */
#include "module/lifted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "device/memory.h"

struct softgpu_lifted {
	struct ptx_module *ptx;
	/* Variables that this kernel alone has, which are behind those of the program's module. */
	uint64_t *own;
	size_t own_count;
};

/* The kernel's module begins with the variables of the program's, which have their places. */
static CUresult share_variables(struct CUmod_st *m, struct softgpu_lifted *l, size_t *shared)
{
	const struct ptx_variable *variables, *own;
	size_t count = ptx_module_variables(m->program.part[0], &variables), n = ptx_module_variables(l->ptx, &own);

	*shared = count;
	for (size_t i = 0; i < count; i++) {
		if (i >= n || strcmp(variables[i].name, own[i].name) || variables[i].size != own[i].size) {
			vcuda_log("the variables of a translated kernel are not those of its module");
			return CUDA_ERROR_INVALID_IMAGE;
		}
		ptx_module_place(l->ptx, i, m->addresses[0][i]);
	}
	l->own_count = n - count;
	l->own = calloc(l->own_count + 1, sizeof(*l->own));
	return l->own ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult place_own(struct CUctx_st *context, struct softgpu_lifted *l, size_t shared)
{
	const struct ptx_variable *variables;
	CUresult result = CUDA_SUCCESS;

	ptx_module_variables(l->ptx, &variables);
	for (size_t i = 0; i < l->own_count && result == CUDA_SUCCESS; i++) {
		const struct ptx_variable *v = &variables[shared + i];

		result = softgpu_memory_alloc_aligned(context, v->size, v->align, SOFTGPU_VARIABLE, &l->own[i]);
		if (result == CUDA_SUCCESS)
			ptx_module_place(l->ptx, shared + i, l->own[i]);
	}
	return result;
}

/* Once all have their places, because they may hold addresses. */
static CUresult initialise_own(struct softgpu_lifted *l, size_t shared)
{
	const struct ptx_variable *variables;

	ptx_module_variables(l->ptx, &variables);
	for (size_t i = 0; i < l->own_count; i++) {
		const struct ptx_variable *v = &variables[shared + i];
		void *memory = (void *)(uintptr_t)l->own[i];
		struct ptx_error error = {0};
		enum ptx_status status;

		if (v->init)
			memcpy(memory, v->init, v->size);
		else
			memset(memory, 0, v->size);
		status = ptx_module_relocate(l->ptx, shared + i, memory, &error);
		if (status != PTX_OK)
			return softgpu_compile_error(status, v->name, &error);
	}
	return CUDA_SUCCESS;
}

static CUresult parse(struct CUmod_st *m, const char *name, struct softgpu_lifted *l)
{
	struct ptx_error error = {0};
	enum ptx_status status;
	char what[256], *text;
	size_t length;
	CUresult result = softgpu_machine_code_kernel(m->program.code, name, &text, &length);

	if (result != CUDA_SUCCESS)
		return result;
	if (!softgpu_program_count(&m->program, length)) {
		free(text);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	status = ptx_module_create(text, length, &l->ptx, &error);
	free(text);
	if (status == PTX_OK)
		return CUDA_SUCCESS;
	snprintf(what, sizeof(what), "cannot translate the machine code of kernel %.180s", name);
	return softgpu_compile_error(status, what, &error);
}

CUresult softgpu_lifted_make(struct CUmod_st *m, const char *name, struct softgpu_lifted **lifted,
			     struct ptx_kernel **kernel)
{
	struct softgpu_lifted *l = calloc(1, sizeof(*l));
	CUresult result;
	size_t shared;

	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = parse(m, name, l);
	if (result == CUDA_SUCCESS)
		result = share_variables(m, l, &shared);
	if (result == CUDA_SUCCESS)
		result = place_own(m->context, l, shared);
	if (result == CUDA_SUCCESS)
		result = initialise_own(l, shared);
	*kernel = result == CUDA_SUCCESS ? ptx_module_find_kernel(l->ptx, name) : NULL;
	if (result == CUDA_SUCCESS && !*kernel) {
		vcuda_log("there is no kernel %s in its translation", name);
		result = CUDA_ERROR_NOT_FOUND;
	}
	if (result == CUDA_SUCCESS)
		*lifted = l;
	else
		softgpu_lifted_free(m->context, l);
	return result;
}

void softgpu_lifted_free(struct CUctx_st *context, struct softgpu_lifted *l)
{
	if (!l)
		return;
	for (size_t i = 0; l->own && i < l->own_count; i++)
		if (l->own[i])
			softgpu_memory_drop(context, l->own[i]);
	free(l->own);
	ptx_module_destroy(l->ptx);
	free(l);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "module/lifted.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "device/memory.h"
#include "module/device-runtime.h"
#include "sass/sass.h"

struct softgpu_lifted {
	struct ptx_module *ptx;
	struct softgpu_code_map *map;
	uint64_t bytes; /* of its text and the map */
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

static CUresult parse(const char *name, const char *text, size_t length, struct softgpu_lifted *l)
{
	struct ptx_error error = {0};
	enum ptx_status status;
	char what[256];

	l->map = softgpu_code_map_make(text, length);
	if (!l->map || !softgpu_text_count(length + softgpu_code_map_bytes(l->map)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->bytes = length + softgpu_code_map_bytes(l->map);
	status = ptx_module_create(text, length, &l->ptx, &error);
	if (status == PTX_OK)
		return CUDA_SUCCESS;
	snprintf(what, sizeof(what), "cannot translate the machine code of kernel %.180s", name);
	return softgpu_compile_error(status, what, &error);
}

/* Adds the functions of the device runtime, without their directives, if the cubin was linked with its library. */
static bool add_device_runtime(char **text, size_t *length)
{
	const char *functions = strstr(softgpu_device_runtime, VCUDA_SASS_MARK);
	size_t more = strlen(functions);
	char *longer;

	if (!strstr(*text, SOFTGPU_DEVICE_RUNTIME_PREFIX))
		return true;
	longer = softgpu_host_room(more) ? realloc(*text, *length + more + 1) : NULL;
	if (!longer)
		return false;
	memcpy(longer + *length, functions, more + 1);
	*text = longer;
	*length += more;
	return true;
}

/* Without the lock: both take long. */
static CUresult translate(const struct softgpu_machine_code *code, const char *name, struct softgpu_lifted *l,
			  char **refusal)
{
	char *text;
	size_t length;
	CUresult result = softgpu_machine_code_kernel(code, name, &text, &length, refusal);

	if (result != CUDA_SUCCESS || !text)
		return result;
	result = add_device_runtime(&text, &length) ? parse(name, text, length, l) : CUDA_ERROR_OUT_OF_MEMORY;
	free(text);
	return result;
}

static CUresult place_in(struct CUmod_st *m, struct softgpu_lifted *l)
{
	size_t shared;
	CUresult result = share_variables(m, l, &shared);

	if (result == CUDA_SUCCESS)
		result = place_own(m->context, l, shared);
	return result == CUDA_SUCCESS ? initialise_own(l, shared) : result;
}

CUresult softgpu_lifted_make(struct CUmod_st *m, const char *name, struct softgpu_lifted **lifted,
			     struct ptx_kernel **kernel, char **refusal)
{
	struct softgpu_lifted *l = calloc(1, sizeof(*l));
	CUresult result;

	*lifted = NULL;
	*kernel = NULL;
	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	softgpu_unlock();
	result = translate(m->program.code, name, l, refusal);
	softgpu_lock();
	if (result == CUDA_SUCCESS && l->ptx)
		result = place_in(m, l);
	if (result == CUDA_SUCCESS && l->ptx)
		*kernel = ptx_module_find_kernel(l->ptx, name);
	if (result == CUDA_SUCCESS && l->ptx && !*kernel) {
		vcuda_log("there is no kernel %s in its translation", name);
		result = CUDA_ERROR_NOT_FOUND;
	}
	if (*kernel)
		*lifted = l;
	else
		softgpu_lifted_free(m->context, l);
	return result;
}

const struct softgpu_code_map *softgpu_lifted_map(const struct softgpu_lifted *l)
{
	return l ? l->map : NULL;
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
	softgpu_code_map_free(l->map);
	softgpu_text_uncount(l->bytes);
	free(l);
}

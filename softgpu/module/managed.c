/* SPDX-License-Identifier: Apache-2.0 */
#include "module/managed.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "common/log.h"
#include "device/memory.h"
#include "module/module.h"
#include "device/registry.h"

/* A variable has whole pages; its first byte is theirs. */
#define MOST_ALIGNED 4096

static const struct ptx_variable *variable_of(const struct softgpu_program *program, const struct softgpu_managed_variable *v)
{
	const struct ptx_variable *variables;

	ptx_module_variables(program->part[v->part], &variables);
	return &variables[v->index];
}

static size_t bytes_of(const struct ptx_variable *v)
{
	return v->size ? v->size : 1;
}

/* Writes down those of one part behind `count`, or counts them only. */
static uint32_t collect(const struct softgpu_program *program, unsigned int part, struct softgpu_managed_variable *to)
{
	const struct ptx_variable *variables;
	size_t n = ptx_module_variables(program->part[part], &variables);
	uint32_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (!variables[i].managed)
			continue;
		if (to)
			to[count] = (struct softgpu_managed_variable){.part = part, .index = i};
		count++;
	}
	return count;
}

/* Places are asked for what can be had: the variables count as the device's memory, though they lie elsewhere. */
static CUresult check(const struct softgpu_program *program, const struct softgpu_managed *managed)
{
	uint64_t left = softgpu_device()->memory;

	for (uint32_t i = 0; i < managed->count; i++) {
		const struct ptx_variable *v = variable_of(program, &managed->variables[i]);

		if (v->align > MOST_ALIGNED) {
			vcuda_log("the managed variable %s: an alignment of %zu bytes is not supported", v->name,
				  v->align);
			return CUDA_ERROR_NOT_SUPPORTED;
		}
		if (v->size > left) {
			vcuda_log("the managed variable %s: no memory for %zu bytes", v->name, v->size);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		left -= v->size;
	}
	return CUDA_SUCCESS;
}

CUresult softgpu_managed_list(const struct softgpu_program *program, struct softgpu_managed *managed)
{
	uint32_t count = 0;

	for (unsigned int i = 0; i < program->count; i++)
		count += collect(program, i, NULL);
	if (!count)
		return CUDA_SUCCESS;
	managed->variables = calloc(count, sizeof(*managed->variables));
	if (!managed->variables)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0; i < program->count; i++)
		managed->count += collect(program, i, managed->variables + managed->count);
	return check(program, managed);
}

void softgpu_managed_free(struct softgpu_managed *managed)
{
	free(managed->variables);
	*managed = (struct softgpu_managed){0};
}

/* A module's or a library's; a library's module has none of its own. */
static CUresult find_owner(void *owner, struct softgpu_managed **managed, const struct softgpu_program **program)
{
	struct CUmod_st *module = owner;

	if (softgpu_registry_has(owner, SOFTGPU_LIBRARY))
		return softgpu_library_managed(owner, managed, program);
	if (!softgpu_registry_has(owner, SOFTGPU_MODULE) || module->library)
		return CUDA_ERROR_INVALID_HANDLE;
	*managed = module->managed;
	*program = &module->program;
	return CUDA_SUCCESS;
}

/* A managed variable, and its declaration in the text. */
static CUresult find(void *owner, uint32_t index, struct softgpu_managed **managed, const struct ptx_variable **variable)
{
	const struct softgpu_program *program;
	CUresult result = find_owner(owner, managed, &program);

	if (result != CUDA_SUCCESS)
		return result;
	if (index >= (*managed)->count)
		return CUDA_ERROR_INVALID_VALUE;
	*variable = variable_of(program, &(*managed)->variables[index]);
	return CUDA_SUCCESS;
}

CUresult softgpu_managedCount(void *owner, uint32_t *count)
{
	const struct softgpu_program *program;
	struct softgpu_managed *managed;
	CUresult result;

	softgpu_lock();
	result = find_owner(owner, &managed, &program);
	if (result == CUDA_SUCCESS)
		*count = managed->count - managed->placed;
	return softgpu_leave(result);
}

CUresult softgpu_managedBytes(void *owner, uint32_t index, size_t *bytes)
{
	const struct ptx_variable *variable;
	struct softgpu_managed *managed;
	CUresult result;

	softgpu_lock();
	result = find(owner, index, &managed, &variable);
	if (result == CUDA_SUCCESS)
		*bytes = bytes_of(variable);
	return softgpu_leave(result);
}

/* The variable is `bytes` long at most, and the memory there may be touched. */
static CUresult place(void *owner, uint32_t index, uint64_t address, size_t bytes)
{
	const struct ptx_variable *variable;
	struct softgpu_managed *managed;
	CUresult result = find(owner, index, &managed, &variable);
	struct softgpu_range range = {
		.start = address,
		.kind = SOFTGPU_HOST,
		.reads = SOFTGPU_ALL_DEVICES,
		.writes = SOFTGPU_ALL_DEVICES,
		.copy_writes = true,
	};

	if (result != CUDA_SUCCESS)
		return result;
	range.size = bytes_of(variable);
	if (managed->variables[index].address || range.size > bytes || address % variable->align)
		return CUDA_ERROR_INVALID_VALUE;
	if (softgpu_range_overlaps(address, range.size))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!softgpu_range_add(&range))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (variable->init)
		memcpy((void *)(uintptr_t)address, variable->init, variable->size);
	else
		memset((void *)(uintptr_t)address, 0, variable->size);
	managed->variables[index].address = address;
	managed->placed++;
	/* A library's modules are made later. */
	if (managed->placed == managed->count && softgpu_registry_has(owner, SOFTGPU_MODULE))
		result = softgpu_module_complete(owner);
	if (result == CUDA_SUCCESS)
		return result;
	/* The memory was not given: the caller may unmap it. With the lock held no work could start meanwhile. */
	softgpu_range_remove(address);
	managed->variables[index].address = 0;
	managed->placed--;
	return result;
}

CUresult softgpu_managedPlace(void *owner, uint32_t index, void *p, size_t bytes)
{
	uint64_t address = (uint64_t)(uintptr_t)p;
	CUresult result;

	if (!p || !bytes || address + bytes < address)
		return CUDA_ERROR_INVALID_VALUE;
	result = softgpu_host_check(address, bytes, true);
	if (result != CUDA_SUCCESS)
		return result;
	softgpu_lock();
	return softgpu_leave(place(owner, index, address, bytes));
}

CUresult softgpu_managedDrop(void *p)
{
	softgpu_lock();
	return softgpu_leave(softgpu_host_remove((uint64_t)(uintptr_t)p, true) ? CUDA_SUCCESS
									: CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* A visible name goes before another's that is not, as for every variable. */
static const struct softgpu_managed_variable *find_name(const struct softgpu_managed *managed,
						    const struct softgpu_program *program, const char *name)
{
	for (int visible = 1; visible >= 0; visible--) {
		for (uint32_t i = 0; i < managed->count; i++) {
			const struct ptx_variable *v = variable_of(program, &managed->variables[i]);

			if (v->visible == visible && !strcmp(v->name, name))
				return &managed->variables[i];
		}
	}
	return NULL;
}

/* Needs no context, as the library needs none. */
CUresult softgpu_cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	const struct softgpu_managed_variable *v;
	const struct softgpu_program *program;
	struct softgpu_managed *managed;
	CUresult result;

	if (!name || (!dptr && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_lock();
	if (!softgpu_registry_has(library, SOFTGPU_LIBRARY))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	result = softgpu_library_managed(library, &managed, &program);
	if (result != CUDA_SUCCESS)
		return softgpu_leave(result);
	v = find_name(managed, program, name);
	if (!v || !v->address)
		return softgpu_leave(v ? CUDA_ERROR_NOT_READY : CUDA_ERROR_NOT_FOUND);
	if (dptr)
		*dptr = v->address;
	if (bytes)
		*bytes = variable_of(program, v)->size;
	return softgpu_leave(CUDA_SUCCESS);
}

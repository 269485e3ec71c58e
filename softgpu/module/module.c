/* SPDX-License-Identifier: Apache-2.0 */
#include "module/callee.h"
#include "module/module.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "module/jit-log.h"
#include "module/lifted.h"
#include "common/log.h"
#include "device/memory.h"
#include "device/registry.h"

/* The alignment of a bank of constants. No variable needs more. */
#define BANK_ALIGN 256

CUresult softgpu_compile_error(enum ptx_status status, const char *what, const struct ptx_error *error)
{
	if (error->line)
		vcuda_log("%s: line %u of the PTX: %s", what, error->line, error->text);
	else
		vcuda_log("%s: %s", what, *error->text ? error->text : "out of memory");
	switch (status) {
	case PTX_NOT_SUPPORTED:
		return CUDA_ERROR_NOT_SUPPORTED;
	case PTX_NO_MEMORY:
		return CUDA_ERROR_OUT_OF_MEMORY;
	default:
		return CUDA_ERROR_INVALID_PTX;
	}
}

/* All parts as one. */
static enum ptx_status link_parts(const struct softgpu_image *image, struct ptx_module **module,
				  struct ptx_error *error)
{
	struct ptx_text texts[SOFTGPU_IMAGE_TEXTS];

	for (unsigned int i = 0; i < image->count; i++)
		texts[i] = (struct ptx_text){image->part[i].text, image->part[i].length};
	return ptx_module_link(texts, image->count, module, error);
}

/* The bytes of the texts that all modules have loaded. */
static _Atomic uint64_t loaded_bytes;

static uint64_t text_bytes(const struct softgpu_image *image)
{
	uint64_t bytes = 0;

	for (unsigned int i = 0; i < image->count; i++)
		bytes += image->part[i].length;
	return bytes + softgpu_machine_code_size(image->code);
}

bool softgpu_text_count(uint64_t bytes)
{
	uint64_t most = softgpu_meter() ? softgpu_meter()->modules() : UINT64_MAX;
	uint64_t before = atomic_fetch_add(&loaded_bytes, bytes);

	if (before <= most && bytes <= most - before)
		return true;
	softgpu_text_uncount(bytes);
	vcuda_log_once("cannot load a module of %llu KiB: others have %llu KiB (raise vcudad's --max-module-bytes)",
		       (unsigned long long)bytes >> 10, (unsigned long long)before >> 10);
	if (softgpu_meter())
		softgpu_meter()->module_refused();
	return false;
}

void softgpu_text_uncount(uint64_t bytes)
{
	atomic_fetch_sub(&loaded_bytes, bytes);
}

CUresult softgpu_program_parse(const struct softgpu_image *image, struct softgpu_program *program)
{
	unsigned int count = image->relocatable ? 1 : image->count;

	program->count = 0;
	program->bytes = 0;
	program->max_registers = image->max_registers;
	program->code = softgpu_machine_code_get(image->code);
	if (!softgpu_text_count(text_bytes(image))) {
		softgpu_program_free(program);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	program->bytes = text_bytes(image);
	for (unsigned int i = 0; i < count; i++) {
		struct ptx_error error = {0};
		enum ptx_status status;

		if (image->relocatable)
			status = link_parts(image, &program->part[i], &error);
		else
			status = ptx_module_create(image->part[i].text, image->part[i].length, &program->part[i],
						   &error);
		if (status != PTX_OK) {
			softgpu_program_free(program);
			return softgpu_compile_error(status, "cannot load a module", &error);
		}
		program->count++;
	}
	return CUDA_SUCCESS;
}

void softgpu_program_free(struct softgpu_program *program)
{
	for (unsigned int i = 0; i < program->count; i++)
		ptx_module_destroy(program->part[i]);
	program->count = 0;
	softgpu_text_uncount(program->bytes);
	program->bytes = 0;
	softgpu_machine_code_put(program->code);
	program->code = NULL;
}

struct ptx_kernel *softgpu_program_kernel(const struct softgpu_program *program, const char *name)
{
	for (unsigned int i = 0; i < program->count; i++) {
		struct ptx_kernel *kernel = ptx_module_find_kernel(program->part[i], name);

		if (kernel)
			return kernel;
	}
	return NULL;
}

CUresult softgpu_program_names(const struct softgpu_program *program, uint32_t first, char *to, size_t bytes,
			       uint32_t *count, uint32_t *total)
{
	bool full = !bytes;

	*count = *total = 0;
	for (unsigned int i = 0; i < program->count; i++) {
		size_t kernels = ptx_module_kernels(program->part[i]);

		for (size_t k = first > *total ? first - *total : 0; k < kernels && !full; k++) {
			const char *name = ptx_kernel_info(ptx_module_kernel(program->part[i], k))->name;
			size_t length = strlen(name) + 1;

			full = length > bytes;
			if (full && !*count)
				return CUDA_ERROR_INVALID_VALUE;
			if (full)
				break;
			memcpy(to, name, length);
			to += length;
			bytes -= length;
			++*count;
		}
		*total += (uint32_t)kernels;
	}
	return CUDA_SUCCESS;
}

/*
 * Gives constants memory one behind the other, as machine code has them in its bank, and reads beside a constant. Only
 * the address of the first one is that of an allocation.
 */
static CUresult place_bank(struct CUctx_st *context, struct ptx_module *ptx, uint64_t *addresses)
{
	const struct ptx_variable *variables;
	size_t n = ptx_module_variables(ptx, &variables), bytes = 0;
	uint64_t bank;
	CUresult result;

	for (size_t i = 0; i < n; i++)
		if (variables[i].constant)
			bytes = ((bytes + variables[i].align - 1) & ~(variables[i].align - 1)) + variables[i].size;
	if (!bytes)
		return CUDA_SUCCESS;
	result = softgpu_memory_alloc_aligned(context, bytes, BANK_ALIGN, SOFTGPU_VARIABLE, &bank);
	for (size_t i = 0, end = 0; result == CUDA_SUCCESS && i < n; i++) {
		if (!variables[i].constant)
			continue;
		end = (end + variables[i].align - 1) & ~(variables[i].align - 1);
		addresses[i] = bank + end;
		ptx_module_place(ptx, i, addresses[i]);
		end += variables[i].size;
	}
	return result;
}

/* Gives the variables of a part memory. After a failure `addresses` has the variables that were placed. */
static CUresult place(struct CUctx_st *context, struct ptx_module *ptx, bool has_bank, uint64_t *addresses)
{
	const struct ptx_variable *variables;
	size_t n = ptx_module_variables(ptx, &variables);
	CUresult result = has_bank ? place_bank(context, ptx, addresses) : CUDA_SUCCESS;

	for (size_t i = 0; i < n && result == CUDA_SUCCESS; i++) {
		size_t bytes = variables[i].size ? variables[i].size : 1;

		if (variables[i].managed || addresses[i])
			continue;
		/* constants too may be written by kernels, by their addresses, for launches to come */
		result = softgpu_memory_alloc_aligned(context, bytes, variables[i].align, SOFTGPU_VARIABLE,
						      &addresses[i]);
		if (result == CUDA_SUCCESS)
			ptx_module_place(ptx, i, addresses[i]);
	}
	return result;
}

/* A managed variable has its value already, but for addresses in it, which the first module to be made writes. */
static CUresult start_value(const struct ptx_variable *v, uint64_t address, bool *relocate)
{
	void *memory = (void *)(uintptr_t)address;
	const struct softgpu_range *range = v->managed ? softgpu_host_find(address, true) : NULL;

	/* The variable's memory may have been taken back. */
	if (v->managed)
		return !*relocate || (range && range->size >= v->size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	*relocate = true;
	if (v->init)
		memcpy(memory, v->init, v->size);
	else
		memset(memory, 0, v->size);
	return CUDA_SUCCESS;
}

/* Once all variables have their places, because they may hold each other's addresses. */
static CUresult initialise(struct ptx_module *ptx, const uint64_t *addresses, const struct softgpu_managed *managed)
{
	const struct ptx_variable *variables;
	size_t n = ptx_module_variables(ptx, &variables);

	for (size_t i = 0; i < n; i++) {
		bool relocate = !managed->relocated;
		struct ptx_error error = {0};
		enum ptx_status status;
		CUresult result = start_value(&variables[i], addresses[i], &relocate);

		if (result != CUDA_SUCCESS)
			return result;
		status = relocate ? ptx_module_relocate(ptx, i, (void *)(uintptr_t)addresses[i], &error) : PTX_OK;
		if (status != PTX_OK)
			return softgpu_compile_error(status, variables[i].name, &error);
	}
	return CUDA_SUCCESS;
}

static void drop_variables(struct CUmod_st *m)
{
	for (unsigned int i = 0; i < m->program.count; i++) {
		const struct ptx_variable *variables;
		size_t n = ptx_module_variables(m->program.part[i], &variables);

		for (size_t v = 0; m->addresses[i] && v < n; v++) {
			if (m->addresses[i][v])
				softgpu_memory_drop(m->context, m->addresses[i][v]);
		}
		free(m->addresses[i]);
	}
}

static CUresult place_all(struct CUmod_st *m)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < m->program.count && result == CUDA_SUCCESS; i++) {
		const struct ptx_variable *variables;
		size_t n = ptx_module_variables(m->program.part[i], &variables);

		m->addresses[i] = calloc(n + 1, sizeof(*m->addresses[i]));
		if (!m->addresses[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = place(m->context, m->program.part[i], m->program.code, m->addresses[i]);
	}
	if (result == CUDA_SUCCESS && m->managed->placed == m->managed->count)
		result = softgpu_module_complete(m);
	return result;
}

CUresult softgpu_module_complete(struct CUmod_st *m)
{
	CUresult result = CUDA_SUCCESS;

	for (uint32_t i = 0; i < m->managed->count; i++) {
		const struct softgpu_managed_variable *v = &m->managed->variables[i];

		m->addresses[v->part][v->index] = v->address;
		ptx_module_place(m->program.part[v->part], v->index, v->address);
	}
	for (unsigned int i = 0; i < m->program.count && result == CUDA_SUCCESS; i++)
		result = initialise(m->program.part[i], m->addresses[i], m->managed);
	m->complete = result == CUDA_SUCCESS;
	m->managed->relocated |= m->complete;
	return result;
}

static void end_module(struct softgpu_owned *owned)
{
	softgpu_module_unload(container_of(owned, struct CUmod_st, owned));
}

CUresult softgpu_module_make(struct CUctx_st *context, struct CUlib_st *library, struct softgpu_managed *managed,
			     struct softgpu_program *program, struct CUmod_st **module)
{
	struct CUmod_st *m = calloc(1, sizeof(*m));
	CUresult result = CUDA_SUCCESS;

	if (!m)
		return CUDA_ERROR_OUT_OF_MEMORY;
	m->context = context;
	m->library = library;
	m->refs = 1;
	m->program = *program;
	m->managed = managed ? managed : &m->own;
	vcuda_list_init(&m->in_library);
	vcuda_list_init(&m->functions);
	vcuda_list_init(&m->callees);
	if (!managed)
		result = softgpu_managed_list(program, &m->own);
	if (result == CUDA_SUCCESS)
		result = place_all(m);
	if (result == CUDA_SUCCESS && !softgpu_registry_add(m, SOFTGPU_MODULE))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		drop_variables(m);
		softgpu_managed_free(&m->own);
		free(m);
		return result;
	}
	m->owned.end = end_module;
	vcuda_list_add(&m->owned.node, &context->owned);
	program->count = 0;
	program->bytes = 0;
	program->code = NULL;
	*module = m;
	return CUDA_SUCCESS;
}

void softgpu_module_put(struct CUmod_st *module)
{
	/* The last reference is that of the thread that unloads it, which waits for this. */
	module->refs--;
	softgpu_wake_waiters();
}

void softgpu_module_settle(struct CUctx_st *context)
{
	struct softgpu_scope scope = {.context = context, .last = softgpu_submitted()};

	softgpu_context_get(context);
	softgpu_wait(&scope);
	softgpu_context_put(context);
}

void softgpu_module_unload(struct CUmod_st *m)
{
	struct CUctx_st *context = m->context;
	struct softgpu_scope scope = {.context = context};

	/* From here on no handle names the module. */
	softgpu_registry_remove(m);
	vcuda_list_remove(&m->owned.node);
	vcuda_list_remove(&m->in_library);
	vcuda_list_for_each (node, &m->functions)
		softgpu_registry_remove(container_of(node, struct CUfunc_st, node));
	softgpu_context_get(context);
	scope.last = softgpu_submitted();
	softgpu_wait(&scope);
	while (m->refs > 1)
		softgpu_wait_any();
	drop_variables(m);
	softgpu_managed_free(&m->own);
	softgpu_program_free(&m->program);
	softgpu_callees_free(m);
	while (!vcuda_list_empty(&m->functions)) {
		struct CUfunc_st *f = container_of(m->functions.next, struct CUfunc_st, node);

		vcuda_list_remove(&f->node);
		softgpu_lifted_free(context, f->lifted);
		free(f->refusal);
		free(f);
	}
	free(m);
	softgpu_context_put(context);
}

/*
 * Finds a variable. A name that is not `visible` counts too, if no visible one has it: that is how a static __device__
 * variable is found.
 */
CUresult softgpu_module_global(struct CUmod_st *m, const char *name, CUdeviceptr *address, size_t *bytes)
{
	if (!m->complete)
		return CUDA_ERROR_NOT_READY;
	for (int visible = 1; visible >= 0; visible--) {
		for (unsigned int i = 0; i < m->program.count; i++) {
			const struct ptx_variable *variables;
			size_t n = ptx_module_variables(m->program.part[i], &variables);

			for (size_t v = 0; v < n; v++) {
				if (variables[v].visible != visible || strcmp(variables[v].name, name))
					continue;
				if (address)
					*address = m->addresses[i][v];
				if (bytes)
					*bytes = variables[v].size;
				return CUDA_SUCCESS;
			}
		}
	}
	return CUDA_ERROR_NOT_FOUND;
}

size_t softgpu_module_constants(const struct CUmod_st *m)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < m->program.count; i++) {
		const struct ptx_variable *variables;
		size_t n = ptx_module_variables(m->program.part[i], &variables);

		for (size_t v = 0; v < n; v++)
			bytes += variables[v].constant ? variables[v].size : 0;
	}
	return bytes;
}

/* `max_registers`: the caller's bound, 0 if there is none. */
static CUresult load(CUmodule *module, const void *data, unsigned int max_registers)
{
	struct softgpu_program program;
	struct softgpu_image image;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	softgpu_unlock();
	if (!module)
		return CUDA_ERROR_INVALID_VALUE;
	/* Reading and parsing take long and need no lock. */
	result = softgpu_image_read(data, softgpu_device()->code, &image);
	if (result != CUDA_SUCCESS)
		return result;
	image.max_registers = softgpu_register_bound(image.max_registers, max_registers);
	result = softgpu_program_parse(&image, &program);
	softgpu_image_free(&image);
	if (result != CUDA_SUCCESS)
		return result;
	result = softgpu_enter(&c);
	if (result == CUDA_SUCCESS)
		result = softgpu_leave(softgpu_module_make(c, NULL, NULL, &program, module));
	softgpu_program_free(&program);
	return result;
}

CUresult softgpu_cuModuleLoadData(CUmodule *module, const void *data)
{
	return load(module, data, 0);
}

CUresult softgpu_cuModuleLoadDataEx(CUmodule *module, const void *data, unsigned int count, CUjit_option *options,
				    void **values)
{
	struct softgpu_jit_log log;
	CUresult result = softgpu_jit_log_begin(&log, count, options, values);

	if (result != CUDA_SUCCESS)
		return result;
	result = load(module, data, softgpu_jit_max_registers(count, options, values));
	softgpu_jit_log_end(&log);
	return result;
}

/* Enters and checks that the handle is a module of this context. */
static CUresult enter_module(CUmodule handle)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	return softgpu_registry_has(handle, SOFTGPU_MODULE) && handle->context == c
		       ? CUDA_SUCCESS
		       : softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
}

CUresult softgpu_cuModuleUnload(CUmodule hmod)
{
	CUresult result = enter_module(hmod);

	if (result != CUDA_SUCCESS)
		return result;
	/* A library's module goes with its library. */
	if (hmod->library)
		return softgpu_leave(CUDA_ERROR_NOT_PERMITTED);
	/* A graph with conditions looks its functions up while it runs. */
	softgpu_module_settle(hmod->context);
	/* another thread may have done so meanwhile */
	if (!softgpu_registry_has(hmod, SOFTGPU_MODULE))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	softgpu_module_unload(hmod);
	return softgpu_leave(CUDA_SUCCESS);
}

CUresult softgpu_cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
	CUresult result = enter_module(hmod);

	if (result != CUDA_SUCCESS)
		return result;
	if (!hfunc || !name)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(softgpu_module_function(hmod, name, hfunc));
}

CUresult softgpu_cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
	CUresult result = enter_module(hmod);

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || (!dptr && !bytes))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(softgpu_module_global(hmod, name, dptr, bytes));
}

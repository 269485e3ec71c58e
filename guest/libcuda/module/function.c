/* SPDX-License-Identifier: Apache-2.0 */
#include "module/function.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/request.h"
#include "core/device.h"
#include "protocol/guest-calls.h"
#include "core/thread.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* adding entries */
static _Atomic uint64_t changes;

uint64_t libcuda_function_changes(void)
{
	return atomic_load(&changes);
}

static struct libcuda_function *new_function(const char *name)
{
	struct libcuda_function *f = calloc(1, sizeof(*f));

	if (f && name) {
		f->name = strdup(name);
		if (!f->name) {
			free(f);
			return NULL;
		}
	}
	return f;
}

static void free_function(void *function)
{
	struct libcuda_function *f = function;
	struct libcuda_function_entry *e, *next;

	if (!f)
		return;
	for (e = atomic_load(&f->entries); e; e = next) {
		next = e->next;
		free(atomic_load(&e->frame));
		free(e);
	}
	free(f->name);
	free(f);
}

CUresult libcuda_function_add(enum libcuda_object_kind kind, const void *handle, struct libcuda_context *context,
			      const void *parent, const char *name)
{
	struct libcuda_object *o = libcuda_object_add(kind, handle, context, parent);

	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_lock(&lock);
	o->release = free_function;
	if (!o->data)
		o->data = new_function(name);
	pthread_mutex_unlock(&lock);
	return libcuda_function_of(o) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct libcuda_function_entry *entry_of(struct libcuda_function *f, struct libcuda_context *context)
{
	struct libcuda_function_entry *e;
	uint64_t generation = atomic_load(&context->generation);

	for (e = atomic_load(&f->entries); e; e = e->next)
		if (e->context == context && e->generation == generation)
			break;
	return e;
}

/* Asks the worker, in the entry's context. */
static CUresult ask(CUfunction handle, struct libcuda_function_entry *e)
{
	const struct call_options how = libcuda_context_options(e->context);

	return vcuda_call_vcudaFunctionInfo_with(&how, handle, &e->info);
}

static CUresult add_entry(struct libcuda_function *f, CUfunction handle, struct libcuda_context *context,
			  struct libcuda_function_entry **entry)
{
	struct libcuda_function_entry *e = calloc(1, sizeof(*e)), *there;
	CUresult result;

	if (!e)
		return CUDA_ERROR_OUT_OF_MEMORY;
	e->context = context;
	e->generation = atomic_load(&context->generation);
	result = ask(handle, e);
	if (result == CUDA_SUCCESS && e->info.param_count > VCUDA_FUNCTION_PARAMS)
		result = CUDA_ERROR_UNKNOWN;
	for (uint32_t i = 0; result == CUDA_SUCCESS && i < e->info.param_count; i++)
		if ((uint64_t)e->info.params[i].offset + e->info.params[i].size > e->info.param_bytes)
			result = CUDA_ERROR_UNKNOWN;
	if (result != CUDA_SUCCESS) {
		free(e);
		return result;
	}
	pthread_mutex_lock(&lock);
	there = entry_of(f, context);
	if (there) {
		free(e);
		e = there;
	} else {
		e->next = atomic_load(&f->entries);
		atomic_store(&f->entries, e);
	}
	pthread_mutex_unlock(&lock);
	*entry = e;
	return CUDA_SUCCESS;
}

static CUresult find_entry(const struct libcuda_object *o, CUfunction handle, struct libcuda_context *context,
			   struct libcuda_function_entry **entry)
{
	*entry = entry_of(libcuda_function_of(o), context);
	return *entry ? CUDA_SUCCESS : add_entry(libcuda_function_of(o), handle, context, entry);
}

CUresult libcuda_function_lookup(struct libcuda_context *context, CUfunction handle,
				 struct libcuda_function_entry **entry)
{
	const struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_FUNCTION | LIBCUDA_OBJECT_KERNEL, handle);

	if (!libcuda_function_of(o))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!o->context && !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return find_entry(o, handle, o->context ? o->context : context, entry);
}

CUresult libcuda_function_lookup_here(struct libcuda_context *context, CUfunction handle,
				      struct libcuda_function_entry **entry)
{
	const struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_FUNCTION | LIBCUDA_OBJECT_KERNEL, handle);

	if (!libcuda_function_of(o) || (o->context && o->context != context))
		return CUDA_ERROR_INVALID_HANDLE;
	return find_entry(o, handle, context, entry);
}

CUresult libcuda_function_attribute(const struct libcuda_function_entry *e, CUfunction_attribute attribute, int *value)
{
	if ((unsigned int)attribute >= VCUDA_FUNCTION_ATTRIBUTES)
		return CUDA_ERROR_INVALID_VALUE;
	*value = e->info.attributes[attribute];
	return (CUresult)e->info.attribute_results[attribute];
}

/* ---- the API ---- */

/* `dev`'s context: the current one if it is on that device, else the primary one. */
static CUresult find_context(CUdevice dev, struct libcuda_context **context)
{
	struct libcuda_context *c = libcuda_context_current();
	CUresult result = libcuda_require_device(dev);

	if (result != CUDA_SUCCESS)
		return result;
	if (!c || c->device != dev)
		c = libcuda_context_primary(dev);
	*context = c;
	return libcuda_context_usable(c);
}

static CUresult get_attribute(struct libcuda_context *c, int *value, CUfunction_attribute attribute, CUfunction handle)
{
	struct libcuda_function_entry *e;
	CUresult result;

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_function_lookup(c, handle, &e);
	return result != CUDA_SUCCESS ? result : libcuda_function_attribute(e, attribute, value);
}

/* NULL: the function is one of any context, or there is no such function. */
static struct libcuda_context *home_of(CUfunction handle)
{
	const struct libcuda_object *o = libcuda_object_find(LIBCUDA_OBJECT_FUNCTION, handle);

	return o ? o->context : NULL;
}

VCUDA_EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction handle)
{
	CUresult result = libcuda_require_context_or(home_of(handle));

	return result != CUDA_SUCCESS ? result : get_attribute(libcuda_context_current(), value, attribute, handle);
}

VCUDA_EXPORT CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice dev)
{
	struct libcuda_context *c;
	CUresult result = find_context(dev, &c);

	if (result != CUDA_SUCCESS)
		return result;
	return get_attribute(c, value, attribute, (CUfunction)kernel);
}

/* Asks the driver for all attributes again, since setting one attribute may change another. */
static CUresult refresh(struct libcuda_context *c, CUfunction handle)
{
	const struct call_options how = libcuda_context_options(c);
	struct libcuda_function_entry *e;
	CUresult result = libcuda_function_lookup(c, handle, &e);
	vcuda_function_info *info;

	if (result != CUDA_SUCCESS)
		return result;
	info = malloc(sizeof(*info));
	if (!info)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = vcuda_call_vcudaFunctionInfo_with(&how, handle, info);
	/* Parameters do not change, and a launch in another thread may be reading them. */
	if (result == CUDA_SUCCESS) {
		if (memcmp(e->info.attributes, info->attributes, sizeof(info->attributes)))
			atomic_fetch_add(&changes, 1);
		memcpy(e->info.attributes, info->attributes, sizeof(info->attributes));
	}
	free(info);
	return result;
}

VCUDA_EXPORT CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value)
{
	CUresult result = libcuda_require_context_or(home_of(handle));
	struct libcuda_function_entry *e;
	struct call_options how;

	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(libcuda_context_current(), handle, &e);
	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(e->context);
	result = vcuda_call_cuFuncSetAttribute_with(&how, handle, attribute, value);
	return result == CUDA_SUCCESS ? refresh(e->context, handle) : result;
}

VCUDA_EXPORT CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice dev)
{
	struct libcuda_context *c;
	struct call_options how;
	CUresult result = find_context(dev, &c);
	struct libcuda_function_entry *e;

	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(c);
	result = libcuda_function_lookup(c, (CUfunction)kernel, &e);
	if (result == CUDA_SUCCESS)
		result = vcuda_call_cuKernelSetAttribute_with(&how, attribute, value, kernel, libcuda_device_host(dev));
	if (result == CUDA_SUCCESS)
		result = refresh(c, (CUfunction)kernel);
	return result;
}

/* Sets the preferred cache of a kernel: a hint. */
VCUDA_EXPORT CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	struct libcuda_context *c;
	struct call_options how;
	CUresult result = find_context(dev, &c);

	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(c);
	result = libcuda_object_find(LIBCUDA_OBJECT_KERNEL, kernel)
			 ? vcuda_call_cuFuncSetCacheConfig_with(&how, (CUfunction)kernel, config)
			 : CUDA_ERROR_INVALID_HANDLE;
	atomic_fetch_add(&changes, 1);
	return result;
}

VCUDA_EXPORT CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config)
{
	struct libcuda_context *home = home_of(handle);
	CUresult result = home ? libcuda_require_context_or(home) : libcuda_require_context();
	struct call_options how;

	if (result != CUDA_SUCCESS)
		return result;
	how = libcuda_context_options(home ? home : libcuda_context_current());
	result = vcuda_call_cuFuncSetCacheConfig_with(&how, handle, config);
	atomic_fetch_add(&changes, 1);
	return result;
}

/* Bank widths: a hint that no device since compute capability 5.0 takes. */
VCUDA_EXPORT CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	if (!libcuda_object_find(LIBCUDA_OBJECT_FUNCTION | LIBCUDA_OBJECT_KERNEL, handle))
		return CUDA_ERROR_INVALID_HANDLE;
	return (unsigned int)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS
										 : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_param_info(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	struct libcuda_function_entry *e;
	CUresult result;

	if (!offset)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_function_lookup(libcuda_context_current(), handle, &e);
	if (result != CUDA_SUCCESS)
		return result;
	if (index >= e->info.param_count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = e->info.params[index].offset;
	if (size)
		*size = e->info.params[index].size;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t *offset, size_t *size)
{
	CUresult result = libcuda_require_context_or(home_of(handle));

	return result != CUDA_SUCCESS ? result : get_param_info(handle, index, offset, size);
}

VCUDA_EXPORT CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *size)
{
	return cuFuncGetParamInfo((CUfunction)kernel, index, offset, size);
}

static CUresult get_name(const char **name, unsigned int kinds, const void *handle)
{
	CUresult result = libcuda_require_init();
	const struct libcuda_function *f = libcuda_function_of(libcuda_object_find(kinds, handle));

	if (result != CUDA_SUCCESS)
		return result;
	if (!name || !handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!f || !f->name)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = f->name;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuFuncGetName(const char **name, CUfunction handle)
{
	return get_name(name, LIBCUDA_OBJECT_FUNCTION | LIBCUDA_OBJECT_KERNEL, handle);
}

VCUDA_EXPORT CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	return get_name(name, LIBCUDA_OBJECT_KERNEL, kernel);
}

VCUDA_EXPORT CUresult cuFuncLoad(CUfunction handle)
{
	CUresult result = libcuda_require_context_or(home_of(handle));
	struct libcuda_function_entry *e;

	/* The lookup asks the host for the function's attributes, for which NVIDIA's driver loads it. */
	if (result == CUDA_SUCCESS)
		result = libcuda_function_lookup(libcuda_context_current(), handle, &e);
	if (result == CUDA_SUCCESS)
		atomic_store(&e->loaded, true);
	return result;
}

void libcuda_function_found(CUfunction handle)
{
	struct libcuda_function *f = libcuda_function_of(libcuda_object_find(LIBCUDA_OBJECT_FUNCTION, handle));

	if (f)
		atomic_store(&f->found, true);
}

static bool is_loaded(CUfunction handle, struct libcuda_function_entry *e)
{
	struct libcuda_function *f = libcuda_function_of(libcuda_object_find(LIBCUDA_OBJECT_FUNCTION, handle));

	return !libcuda_loads_lazily() || (f && atomic_load(&f->found)) || atomic_load(&e->launched) || atomic_load(&e->loaded);
}

VCUDA_EXPORT CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction handle)
{
	CUresult result = libcuda_require_context_or(home_of(handle));
	struct libcuda_function_entry *e;

	if (result != CUDA_SUCCESS)
		return result;
	if (!state)
		return CUDA_ERROR_INVALID_VALUE;
	result = libcuda_function_lookup(libcuda_context_current(), handle, &e);
	if (result == CUDA_SUCCESS)
		*state = is_loaded(handle, e) ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
	return result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Names and sizes of functions for records. A handle of a function is never used again. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "module/function.h"
#include "trace/profile.h"
#include "trace/trace.h"

#define MOST_FUNCTIONS 65536u /* a power of two */

struct entry {
	uint64_t handle; /* 0: none */
	bool is_complete;
	struct libcuda_profile_function function;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *all;
static unsigned int count;

bool libcuda_profile_functions_start(void)
{
	all = calloc(MOST_FUNCTIONS, sizeof(*all));
	return all;
}

/* With the lock held. NULL: there is no room. The entry's handle is 0 where it is new. */
static struct entry *find(uint64_t handle)
{
	unsigned int at = (unsigned int)(handle * 0x9e3779b97f4a7c15u >> 40) % MOST_FUNCTIONS;

	while (all[at].handle && all[at].handle != handle)
		at = (at + 1) % MOST_FUNCTIONS;
	return all[at].handle || count < MOST_FUNCTIONS / 2 ? &all[at] : NULL;
}

/* With the lock held. */
static struct entry *add(uint64_t handle)
{
	struct entry *e = handle ? find(handle) : NULL;
	char name[LIBCUDA_PROFILE_NAME];

	if (!e || e->handle || !libcuda_trace_function_name(name, sizeof(name), handle))
		return e && e->handle ? e : NULL;
	*e = (struct entry){.handle = handle, .function.name = strdup(name)};
	count++;
	return e;
}

/* False: a signal handler's call has interrupted one that holds the lock. */
static bool enter(void)
{
	struct libcuda_thread *thread = libcuda_thread();

	if (thread->in_names)
		return false;
	thread->in_names = true;
	pthread_mutex_lock(&lock);
	return true;
}

static void leave(void)
{
	pthread_mutex_unlock(&lock);
	libcuda_thread()->in_names = false;
}

struct libcuda_profile_function libcuda_profile_function_find(uint64_t handle)
{
	struct libcuda_profile_function f = {0};
	const struct entry *e;

	if (!enter())
		return f;
	e = add(handle);
	if (e)
		f = e->function;
	leave();
	return f;
}

static uint32_t attribute(const struct libcuda_function_entry *e, CUfunction_attribute which)
{
	int value;

	return libcuda_function_attribute(e, which, &value) == CUDA_SUCCESS ? (uint32_t)value : 0;
}

/* Without the lock: the worker may be asked. */
static bool read_attributes(uint64_t handle, struct libcuda_profile_function *f)
{
	struct libcuda_context *context = libcuda_context_current();
	struct libcuda_function_entry *e;

	if (!context || libcuda_function_lookup(context, (CUfunction)(uintptr_t)handle, &e) != CUDA_SUCCESS)
		return false;
	f->static_shared_bytes = attribute(e, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
	f->local_bytes = attribute(e, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
	f->registers = attribute(e, CU_FUNC_ATTRIBUTE_NUM_REGS);
	return true;
}

void libcuda_profile_function_keep(uint64_t handle, bool with_attributes)
{
	struct libcuda_profile_function f = {0};
	struct entry *e;
	bool is_known;

	if (!handle || !enter())
		return;
	e = add(handle);
	is_known = !e || e->is_complete || !with_attributes;
	leave();
	if (is_known || !read_attributes(handle, &f) || !enter())
		return;
	f.name = e->function.name;
	e->function = f;
	e->is_complete = true;
	leave();
}

void libcuda_profile_functions_forget(void)
{
	pthread_mutex_init(&lock, NULL);
}

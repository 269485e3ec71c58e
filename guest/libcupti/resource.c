/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts and streams that begin and end, and waits for them, as the calls of the driver tell. */
#include "cupti.h"

#include <pthread.h>

#define MOST_CONTEXTS 64u

/* Contexts that the subscriber was told of. */
static struct {
	pthread_mutex_t lock;
	struct known {
		CUcontext context;
		CUdevice device; /* of a primary context; -1: another one */
	} all[MOST_CONTEXTS];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

void cupti_resource_forget(void)
{
	pthread_mutex_init(&known.lock, NULL);
	for (unsigned int i = 0; i < MOST_CONTEXTS; i++)
		known.all[i].context = NULL;
}

/* False: it is known already. */
static bool add(CUcontext context, CUdevice device)
{
	struct known *unused = NULL;
	bool is_new = true;

	pthread_mutex_lock(&known.lock);
	for (unsigned int i = 0; i < MOST_CONTEXTS; i++) {
		is_new &= known.all[i].context != context;
		unused = known.all[i].context ? unused : &known.all[i];
	}
	if (is_new && unused)
		*unused = (struct known){context, device};
	pthread_mutex_unlock(&known.lock);
	return is_new;
}

/* Takes out the context, or the primary one of the device where `context` is NULL. NULL: it is not known. */
static CUcontext take(CUcontext context, CUdevice device)
{
	CUcontext found = NULL;

	pthread_mutex_lock(&known.lock);
	for (unsigned int i = 0; i < MOST_CONTEXTS && !found; i++) {
		struct known *k = &known.all[i];

		if (!k->context || (context ? k->context != context : k->device != device))
			continue;
		found = k->context;
		k->context = NULL;
	}
	pthread_mutex_unlock(&known.lock);
	return found;
}

static void tell(uint32_t id, CUcontext context, CUstream stream)
{
	const struct cupti_resource_data data = {.context = context, .stream = stream};

	cupti_callback_call(CUPTI_DOMAIN_RESOURCE, id, &data);
}

static void tell_context_ends(CUcontext context)
{
	if (context)
		tell(CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING, context, NULL);
}

void cupti_resource_enter(const struct vcuda_profile_site *site)
{
	const void *p = site->parameters;

	if (site->domain != VCUDA_PROFILE_DRIVER || !p || !cupti_callback_is_on(CUPTI_DOMAIN_RESOURCE))
		return;
	if (cupti_is_function(site->name, "cuStreamDestroy"))
		tell(CUPTI_RESOURCE_STREAM_DESTROY_STARTING, site->handle, *(const CUstream *)p);
	else if (cupti_is_function(site->name, "cuCtxDestroy"))
		tell_context_ends(take(*(const CUcontext *)p, -1));
	else if (cupti_is_function(site->name, "cuDevicePrimaryCtxReset"))
		tell_context_ends(take(NULL, *(const CUdevice *)p));
}

/* ---- calls that have succeeded ---- */

static void note_context(const struct vcuda_profile_site *site)
{
	const struct {
		CUcontext *context;
		CUdevice device;
	} *retain = site->parameters;
	bool is_primary = cupti_is_function(site->name, "cuDevicePrimaryCtxRetain");

	if (!is_primary && !cupti_is_function(site->name, "cuCtxCreate"))
		return;
	if (add(*retain->context, is_primary ? retain->device : -1))
		tell(CUPTI_RESOURCE_CONTEXT_CREATED, *retain->context, NULL);
}

static void note_stream(const struct vcuda_profile_site *site)
{
	const struct vcuda_profile_table *recorder = cupti_recorder_attached();
	const struct {
		CUstream *stream;
		unsigned int flags;
		int priority;
	} *create = site->parameters;
	bool has_priority = cupti_is_function(site->name, "cuStreamCreateWithPriority");
	struct cupti_stream_record r = {
		.kind = CUPTI_KIND_STREAM, .context = site->context, .correlation = site->correlation};
	uint32_t number = 0;

	if (!has_priority && !cupti_is_function(site->name, "cuStreamCreate"))
		return;
	tell(CUPTI_RESOURCE_STREAM_CREATED, site->handle, *create->stream);
	if (!cupti_activity_is_on(CUPTI_KIND_STREAM) || !recorder ||
	    recorder->stream_number(NULL, *create->stream, &number) != CUDA_SUCCESS)
		return;
	r.stream = number;
	r.priority = has_priority ? (uint32_t)create->priority : 0;
	r.flag = create->flags & CU_STREAM_NON_BLOCKING ? CUPTI_STREAM_NON_BLOCKING : CUPTI_STREAM_DEFAULT;
	cupti_buffer_add(&r);
}

static void note_wait(const struct vcuda_profile_site *site)
{
	struct cupti_synchronize_data data = {.context = site->handle};

	if (cupti_is_function(site->name, "cuCtxSynchronize")) {
		cupti_callback_call(CUPTI_DOMAIN_SYNCHRONIZE, CUPTI_SYNCHRONIZED_CONTEXT, &data);
	} else if (cupti_is_function(site->name, "cuStreamSynchronize")) {
		data.stream = *(const CUstream *)site->parameters;
		cupti_callback_call(CUPTI_DOMAIN_SYNCHRONIZE, CUPTI_SYNCHRONIZED_STREAM, &data);
	}
}

void cupti_resource_leave(const struct vcuda_profile_site *site)
{
	if (site->domain != VCUDA_PROFILE_DRIVER || *(const CUresult *)site->result != CUDA_SUCCESS)
		return;
	note_wait(site);
	if (!site->parameters)
		return;
	note_stream(site);
	if (!cupti_callback_is_on(CUPTI_DOMAIN_RESOURCE))
		return;
	if (cupti_is_function(site->name, "cuInit"))
		tell(CUPTI_RESOURCE_INIT_FINISHED, NULL, NULL);
	note_context(site);
}

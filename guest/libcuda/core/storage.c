/* SPDX-License-Identifier: Apache-2.0 */
#include "core/storage.h"

#include <pthread.h>
#include <stdlib.h>

struct value {
	struct libcuda_context *context;
	void *key, *value;
	libcuda_storage_destructor destructor;
	struct value *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct value *values;

static struct libcuda_context *context_of(CUcontext context)
{
	return context ? libcuda_context_find(context) : libcuda_context_current();
}

/* The link that points to the value, or to the list's end. */
static struct value **find(const struct libcuda_context *c, const void *key)
{
	struct value **at = &values;

	while (*at && ((*at)->context != c || (*at)->key != key))
		at = &(*at)->next;
	return at;
}

CUresult libcuda_storage_put(CUcontext context, void *key, void *value, libcuda_storage_destructor destructor)
{
	struct libcuda_context *c = context_of(context);
	struct value *v = malloc(sizeof(*v)), **at;

	if (!c || !v) {
		free(v);
		return c ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_CONTEXT;
	}
	pthread_mutex_lock(&lock);
	at = find(c, key);
	if (*at) {
		free(v);
		(*at)->value = value;
		(*at)->destructor = destructor;
	} else {
		*v = (struct value){c, key, value, destructor, values};
		values = v;
	}
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

CUresult libcuda_storage_delete(CUcontext context, void *key)
{
	struct libcuda_context *c = context_of(context);
	struct value *v = NULL, **at;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&lock);
	at = find(c, key);
	if (*at) {
		v = *at;
		*at = v->next;
	}
	pthread_mutex_unlock(&lock);
	free(v);
	return v ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult libcuda_storage_get(void **value, CUcontext context, void *key)
{
	struct libcuda_context *c = context_of(context);
	struct value *v;

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&lock);
	v = *find(c, key);
	*value = v ? v->value : NULL;
	pthread_mutex_unlock(&lock);
	return v ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* A destructor may use the storage itself: none runs under the lock. */
void libcuda_storage_drop(struct libcuda_context *context)
{
	struct value *v, **at;

	for (;;) {
		pthread_mutex_lock(&lock);
		at = &values;
		while (*at && (*at)->context != context)
			at = &(*at)->next;
		v = *at;
		if (v)
			*at = v->next;
		pthread_mutex_unlock(&lock);
		if (!v)
			return;
		if (v->destructor)
			v->destructor(libcuda_context_handle(context), v->key, v->value);
		free(v);
	}
}

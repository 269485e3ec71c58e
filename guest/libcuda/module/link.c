/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's linker, which is the host's: each call is one of it, and what its logs say by then is in the program's
 * buffers when the call returns.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/init.h"
#include "core/request.h"
#include "module/file.h"
#include "protocol/guest-calls.h"
#include "module/image.h"
#include "guest/client/session.h"

#define CONTAINER_MAGIC 0xba55ed50u
#define NAME_BYTES 1024

struct CUlinkState_st {
	struct CUlinkState_st *next;
	unsigned int users;   /* calls, and the list; with the list's lock */
	pthread_mutex_t busy; /* held while the rest is looked at or changed */
	vcuda_link link;      /* the worker's */
	char *linked;         /* the result; NULL: not complete */
	size_t linked_bytes;
	struct libcuda_jit jit; /* copies */
	void **answers;         /* the program's values: what it asks to be told goes there */
	float ms;               /* time of the linker so far */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUlinkState_st *states;

static struct CUlinkState_st **find(CUlinkState state)
{
	struct CUlinkState_st **at = &states;

	while (*at && *at != state)
		at = &(*at)->next;
	return at;
}

static void free_state(struct CUlinkState_st *s)
{
	pthread_mutex_destroy(&s->busy);
	free((void *)s->jit.options);
	free(s->jit.values);
	free(s->linked);
	free(s);
}

/* For one call, which no other on the same state runs beside. False: there is no such state (any more). */
static bool take(CUlinkState state)
{
	bool live;

	pthread_mutex_lock(&lock);
	live = *find(state) != NULL;
	if (live)
		state->users++;
	pthread_mutex_unlock(&lock);
	if (live)
		pthread_mutex_lock(&state->busy);
	return live;
}

static void drop(CUlinkState state)
{
	bool last;

	pthread_mutex_lock(&lock);
	last = !--state->users;
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	/* the worker has none any more if its context has ended */
	vcuda_call_vcudaLinkDestroy(state->link);
	free_state(state);
}

static void put(CUlinkState state)
{
	pthread_mutex_unlock(&state->busy);
	drop(state);
}

static CUresult read_log(void *state, uint32_t option, uint32_t block, size_t bytes, size_t *length)
{
	const struct CUlinkState_st *s = state;

	return vcuda_call_vcudaLinkLog(s->link, option, block, bytes, length);
}

/* After a call of the linker's: what the program can read. Sizes and time are told when all is done. */
static void tell(struct CUlinkState_st *s, double start, void **answers)
{
	s->ms += (float)(libcuda_jit_ms() - start);
	libcuda_jit_finish(&s->jit, read_log, s, answers, s->ms);
}

struct part {
	CUlinkState state;
	CUjitInputType type;
	char name[NAME_BYTES];
};

static CUresult add_image(void *object, vcuda_image image)
{
	const struct part *p = object;

	return vcuda_call_vcudaLinkAdd(p->state->link, image, p->type, p->name);
}

/* Only a container is taken, alone or in a wrapper. */
static CUresult find_container(const void **data, size_t *bytes)
{
	uint32_t magic = 0;
	CUresult result = libcuda_image_find(*data, data, bytes);

	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&magic, *data, *bytes < sizeof(magic) ? *bytes : sizeof(magic));
	return magic == CONTAINER_MAGIC ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult add(CUlinkState state, CUjitInputType type, const void *data, size_t bytes, const char *name,
		    const struct libcuda_jit *jit)
{
	struct part part = {.state = state, .type = type};
	double start = libcuda_jit_ms();
	CUresult result = CUDA_SUCCESS;

	if (!take(state))
		return CUDA_ERROR_INVALID_HANDLE;
	snprintf(part.name, sizeof(part.name), "%s", name ? name : "");
	if (!data || !bytes || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES)
		result = CUDA_ERROR_INVALID_VALUE;
	else if (type == CU_JIT_INPUT_FATBINARY)
		result = find_container(&data, &bytes);
	if (result == CUDA_SUCCESS) {
		result = libcuda_image_load(data, bytes, jit, add_image, &part);
		tell(state, start, NULL);
	}
	put(state);
	return result;
}

/* The values must live as long as the link only if they are places for answers, and the options not even then. */
static bool keep_options(struct CUlinkState_st *s, const struct libcuda_jit *jit)
{
	CUjit_option *options = malloc((jit->count + 1) * sizeof(*options));

	s->jit.options = options;
	s->jit.values = malloc((jit->count + 1) * sizeof(*s->jit.values));
	if (!options || !s->jit.values)
		return false;
	for (unsigned int i = 0; i < jit->count; i++) {
		options[i] = jit->options[i];
		s->jit.values[i] = jit->values[i];
	}
	s->jit.count = jit->count;
	s->answers = jit->values;
	return true;
}

static CUresult create(struct CUlinkState_st *s, const struct libcuda_jit *jit)
{
	uint32_t *options = malloc((jit->count + 1) * sizeof(*options)), count;
	uint64_t *values = malloc((jit->count + 1) * sizeof(*values));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	if (options && values && keep_options(s, jit)) {
		count = libcuda_jit_wire(jit, options, values);
		result = vcuda_call_vcudaLinkCreate(count, options, values, &s->link);
	}
	free(options);
	free(values);
	return result;
}

VCUDA_EXPORT CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
	const struct libcuda_jit jit = {count, options, values};
	CUresult result = libcuda_require_context();
	struct CUlinkState_st *s;

	if (result == CUDA_SUCCESS)
		result = state ? libcuda_jit_start(&jit) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	s = calloc(1, sizeof(*s));
	if (!s)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&s->busy, NULL);
	s->users = 1;
	result = create(s, &jit);
	if (result != CUDA_SUCCESS) {
		free_state(s);
		return result;
	}
	pthread_mutex_lock(&lock);
	s->next = states;
	states = s;
	pthread_mutex_unlock(&lock);
	*state = s;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
				       const char *name, unsigned int count, CUjit_option *options, void **values)
{
	const struct libcuda_jit jit = {count, options, values};
	CUresult result = libcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = libcuda_jit_start(&jit);
	return result == CUDA_SUCCESS ? add(state, type, data, size, name, &jit) : result;
}

VCUDA_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
				       CUjit_option *options, void **values)
{
	const struct libcuda_jit jit = {count, options, values};
	CUresult result = libcuda_require_context();
	const void *data;
	size_t room, bytes;
	void *file;

	if (result == CUDA_SUCCESS)
		result = path ? libcuda_jit_start(&jit) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = libcuda_file_read(path, &file, &room);
	if (result != CUDA_SUCCESS)
		return result;
	/* a file's own word about its length is not believed */
	if (type == CU_JIT_INPUT_FATBINARY)
		result = libcuda_image_in_file(file, room, &data, &bytes);
	if (result == CUDA_SUCCESS)
		result = add(state, type, file, room, path, &jit);
	free(file);
	return result;
}

static CUresult fetch(struct CUlinkState_st *s, vcuda_image image, size_t bytes)
{
	char *linked = malloc(bytes);
	CUresult result = linked ? libcuda_image_read(image, linked, bytes) : CUDA_ERROR_OUT_OF_MEMORY;

	vcuda_call_vcudaImageDestroy(image);
	if (result != CUDA_SUCCESS) {
		free(linked);
		return result;
	}
	s->linked = linked;
	s->linked_bytes = bytes;
	return CUDA_SUCCESS;
}

static CUresult complete(struct CUlinkState_st *s)
{
	double start = libcuda_jit_ms();
	vcuda_image image;
	size_t bytes;
	CUresult result = vcuda_call_vcudaLinkComplete(s->link, &image, &bytes);

	if (result == CUDA_SUCCESS)
		result = fetch(s, image, bytes);
	tell(s, start, s->answers);
	return result;
}

static CUresult result_of(struct CUlinkState_st *s, void **cubin, size_t *bytes)
{
	CUresult result = s->linked ? CUDA_SUCCESS : complete(s);

	if (result != CUDA_SUCCESS)
		return result;
	if (cubin)
		*cubin = s->linked;
	if (bytes)
		*bytes = s->linked_bytes;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *bytes)
{
	CUresult result = libcuda_require_context();

	if (result != CUDA_SUCCESS)
		return result;
	if (!take(state))
		return CUDA_ERROR_INVALID_HANDLE;
	result = result_of(state, cubin, bytes);
	put(state);
	return result;
}

VCUDA_EXPORT CUresult cuLinkDestroy(CUlinkState state)
{
	CUresult result = libcuda_require_init();
	struct CUlinkState_st **at;

	if (result == CUDA_ERROR_NOT_INITIALIZED)
		return result;
	pthread_mutex_lock(&lock);
	at = find(state);
	if (*at)
		*at = state->next;
	else
		state = NULL;
	pthread_mutex_unlock(&lock);
	if (!state)
		return CUDA_ERROR_INVALID_HANDLE;
	drop(state);
	return CUDA_SUCCESS;
}

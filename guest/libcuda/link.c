/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's linker. A host with NVIDIA's driver links all parts at once with that one's. For the software GPU, what
 * is added becomes a list of fatbin containers behind an empty one, which is how code arrives that no device linker has
 * seen: the host links it when it is loaded. Completing loads it once, so that errors show where a program looks for
 * them. The result is a container of its own that only this library reads.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "file.h"
#include "guest-calls.h"
#include "image.h"
#include "log.h"
#include "object-file.h"
#include "session.h"

#define CONTAINER_MAGIC 0xba55ed50u
#define ENTRY_PTX (1u | 0x101u << 16)
#define FLAGS_LINUX_64 0x11
#define MAX_LINKED (1ull << 30)

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of the entries that follow the header */
};

/* PTX as -rdc=true leaves it, not compressed. */
struct ptx_container {
	struct container head;
	uint32_t kind, header_size;
	uint64_t bytes;
	uint32_t compressed, options;
	uint16_t minor, major;
	uint32_t sm, name, name_bytes;
	uint64_t flags, reserved, unpacked;
	uint32_t option_offset, option_bytes;
	char option[16];
	char text[];
};

struct CUlinkState_st {
	struct CUlinkState_st *next;
	unsigned int users;   /* calls, and the list; with the list's lock */
	pthread_mutex_t busy; /* held while the rest is looked at or changed */
	bool by_host; /* the parts are for the host's linker */
	char *data;   /* those, or the result's header, the empty container, and what was added */
	size_t bytes;
	char *linked; /* what the host made of the parts */
	size_t linked_bytes;
	bool complete;
	struct vcuda_jit jit; /* copies */
	void **answers;       /* the program's values: what it asks to be told goes there */
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
	if (!s)
		return;
	pthread_mutex_destroy(&s->busy);
	free((void *)s->jit.options);
	free(s->jit.values);
	free(s->data);
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
	if (last)
		free_state(state);
}

static void put(CUlinkState state)
{
	pthread_mutex_unlock(&state->busy);
	drop(state);
}

static CUresult append(struct CUlinkState_st *s, const void *data, size_t bytes)
{
	char *bigger = bytes <= MAX_LINKED - s->bytes ? realloc(s->data, s->bytes + bytes) : NULL;

	if (!bigger)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->data = bigger;
	memcpy(s->data + s->bytes, data, bytes);
	s->bytes += bytes;
	return CUDA_SUCCESS;
}

static CUresult append_part(struct CUlinkState_st *s, CUjitInputType type, const void *data, size_t bytes, const char *name)
{
	static const char zeroes[VCUDA_LINK_ALIGN];
	struct vcuda_link_part part = {.type = type, .bytes = bytes};
	CUresult result;

	snprintf(part.name, sizeof(part.name), "%s", name ? name : "");
	result = append(s, &part, sizeof(part));
	if (result == CUDA_SUCCESS)
		result = append(s, data, bytes);
	/* one zero at least: text ends with it */
	return result == CUDA_SUCCESS ? append(s, zeroes, VCUDA_LINK_ALIGN - s->bytes % VCUDA_LINK_ALIGN) : result;
}

/* The number behind a directive; 0: it is not there. */
static unsigned int directive(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? (unsigned int)strtoul(at + strlen(name), NULL, 10) : 0;
}

static CUresult append_ptx(struct CUlinkState_st *s, const char *data, size_t bytes)
{
	size_t length = strnlen(data, bytes), room = (length + 8) & ~(size_t)7;
	struct ptx_container *c = calloc(1, sizeof(*c) + room);
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(c->text, data, length);
	c->head = (struct container){CONTAINER_MAGIC, 1, sizeof(c->head), sizeof(*c) - sizeof(c->head) + room};
	c->kind = ENTRY_PTX;
	c->header_size = sizeof(*c) - sizeof(c->head);
	c->bytes = room;
	c->major = (uint16_t)directive(c->text, ".version ");
	c->sm = directive(c->text, ".target sm_");
	c->flags = FLAGS_LINUX_64;
	c->options = offsetof(struct ptx_container, option_offset) - sizeof(c->head);
	c->option_offset = offsetof(struct ptx_container, option) - sizeof(c->head);
	c->option_bytes = (uint32_t)snprintf(c->option, sizeof(c->option), "--compile-only");
	result = append(s, c, sizeof(*c) + room);
	free(c);
	return result;
}

static CUresult append_fatbin(struct CUlinkState_st *s, const void *image, const char *name)
{
	const void *data;
	uint32_t magic;
	size_t bytes;
	CUresult result = vcuda_image_find(image, &data, &bytes);

	if (result != CUDA_SUCCESS)
		return result;
	memcpy(&magic, data, bytes < sizeof(magic) ? bytes : sizeof(magic));
	if (magic != CONTAINER_MAGIC)
		return CUDA_ERROR_INVALID_IMAGE;
	return s->by_host ? append_part(s, CU_JIT_INPUT_FATBINARY, data, bytes, name) : append(s, data, bytes);
}

/* What NVRTC gives for machine code where nothing runs that (compute-cache.c). */
static bool is_text(const char *data, size_t bytes)
{
	for (size_t n = 0; n < bytes && n < 4; n++)
		if (!data[n] || data[n] & 0x80 || data[n] == 0x7f)
			return false;
	return bytes >= 4;
}

static CUresult append_container(void *state, const void *container, size_t bytes)
{
	return append(state, container, bytes);
}

static CUresult add_part(CUlinkState state, CUjitInputType type, const void *data, size_t bytes, const char *name)
{
	static const char *const names[] = {[CU_JIT_INPUT_CUBIN] = "a cubin", [CU_JIT_INPUT_NVVM] = "NVVM"};
	char line[96];

	if (!data || !bytes || (unsigned int)type >= CU_JIT_NUM_INPUT_TYPES || state->complete)
		return CUDA_ERROR_INVALID_VALUE;
	if (type == CU_JIT_INPUT_FATBINARY)
		return append_fatbin(state, data, name);
	if (state->by_host)
		return append_part(state, type, data, bytes, name);
	if (type == CU_JIT_INPUT_PTX || (type == CU_JIT_INPUT_CUBIN && is_text(data, bytes)))
		return append_ptx(state, data, bytes);
	if (type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY)
		return vcuda_object_file_parts(data, bytes, append_container, state);
	snprintf(line, sizeof(line), "linking %s is not supported, only what has PTX is", names[type]);
	vcuda_log("%s", line);
	vcuda_jit_error(&state->jit, line);
	return CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult add(CUlinkState state, CUjitInputType type, const void *data, size_t bytes, const char *name)
{
	CUresult result;

	if (!take(state))
		return CUDA_ERROR_INVALID_HANDLE;
	result = add_part(state, type, data, bytes, name);
	put(state);
	return result;
}

/* Whether the program reads this option's value when the work is done. */
static bool is_answer(CUjit_option option)
{
	return option == CU_JIT_WALL_TIME || option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
	       option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES;
}

/* The values must live as long as the link only if they are places for answers, and the options not even then. */
static bool keep_options(struct CUlinkState_st *s, const struct vcuda_jit *jit)
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

/* Options of one input: the compiler has those of the link. */
static CUresult check_options(unsigned int count, const CUjit_option *options, void **values)
{
	const struct vcuda_jit jit = {count, options, values};

	return vcuda_jit_start(&jit);
}

VCUDA_EXPORT CUresult cuLinkCreate_v2(unsigned int count, CUjit_option *options, void **values, CUlinkState *state)
{
	static const struct container heads[2] = {{CONTAINER_MAGIC, 1, sizeof(struct container), 0},
						  {CONTAINER_MAGIC, 1, sizeof(struct container), 0}};
	const struct vcuda_jit jit = {count, options, values};
	CUresult result = vcuda_require_context();
	struct CUlinkState_st *s;

	if (result == CUDA_SUCCESS)
		result = state ? vcuda_jit_start(&jit) : CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	s = calloc(1, sizeof(*s));
	if (s) {
		pthread_mutex_init(&s->busy, NULL);
		s->users = 1;
		s->by_host = strcmp(vcuda_session.host.backend, "cpu") != 0;
	}
	if (!s || !keep_options(s, &jit) || (!s->by_host && append(s, heads, sizeof(heads)) != CUDA_SUCCESS)) {
		free_state(s);
		return CUDA_ERROR_OUT_OF_MEMORY;
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
	CUresult result = vcuda_require_context();

	if (result == CUDA_SUCCESS)
		result = check_options(count, options, values);
	return result == CUDA_SUCCESS ? add(state, type, data, size, name) : result;
}

VCUDA_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int count,
				       CUjit_option *options, void **values)
{
	CUresult result = vcuda_require_context();
	const void *data;
	size_t room, bytes;
	void *file;

	if (result == CUDA_SUCCESS)
		result = path ? check_options(count, options, values) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = vcuda_file_read(path, &file, &room);
	if (result != CUDA_SUCCESS)
		return result;
	/* a file's own word about its length is not believed */
	if (type == CU_JIT_INPUT_FATBINARY)
		result = vcuda_image_in_file(file, room, &data, &bytes);
	if (result == CUDA_SUCCESS)
		result = add(state, type, file, room, path);
	free(file);
	return result;
}

/* Its managed variables need no memory: nothing of it is used. */
static CUresult load(void *library, vcuda_image image)
{
	uint32_t managed;

	return vcuda_call_cuLibraryLoadData(library, image, &managed);
}

struct product {
	vcuda_image image;
	size_t bytes;
};

static CUresult link_parts(void *product, vcuda_image image)
{
	struct product *p = product;

	return vcuda_call_vcudaImageLink(image, &p->image, &p->bytes);
}

static CUresult link_by_host(struct CUlinkState_st *s)
{
	struct product product;
	CUresult result = vcuda_image_load(s->data, s->bytes, &s->jit, link_parts, &product);

	if (result != CUDA_SUCCESS)
		return result;
	s->linked = malloc(product.bytes);
	s->linked_bytes = product.bytes;
	result = s->linked ? vcuda_image_read(product.image, s->linked, product.bytes) : CUDA_ERROR_OUT_OF_MEMORY;
	vcuda_call_vcudaImageDestroy(product.image);
	if (result != CUDA_SUCCESS) {
		free(s->linked);
		s->linked = NULL;
	}
	return result;
}

static CUresult link_by_loading(struct CUlinkState_st *s)
{
	struct container *head = (struct container *)(void *)s->data;
	CUlibrary library;
	CUresult result = vcuda_image_load(s->data + sizeof(*head), s->bytes - sizeof(*head), &s->jit, load, &library);

	head->size = s->bytes - sizeof(*head);
	return result == CUDA_SUCCESS ? vcuda_call_cuLibraryUnload(library) : result;
}

/* Lets the host link, which is the only one to know whether it can. */
static CUresult complete(struct CUlinkState_st *s)
{
	CUresult result = s->by_host ? link_by_host(s) : link_by_loading(s);

	for (unsigned int i = 0; i < s->jit.count; i++) {
		if (is_answer(s->jit.options[i]))
			s->answers[i] = s->jit.values[i];
	}
	s->complete = result == CUDA_SUCCESS;
	return result;
}

static CUresult result_of(struct CUlinkState_st *s, void **cubin, size_t *bytes)
{
	CUresult result = CUDA_SUCCESS;

	if (s->bytes == (s->by_host ? 0 : 2 * sizeof(struct container)))
		return CUDA_ERROR_INVALID_VALUE;
	if (!s->complete)
		result = complete(s);
	if (result != CUDA_SUCCESS)
		return result;
	if (cubin)
		*cubin = s->by_host ? s->linked : s->data;
	if (bytes)
		*bytes = s->by_host ? s->linked_bytes : s->bytes;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuLinkComplete(CUlinkState state, void **cubin, size_t *bytes)
{
	CUresult result = vcuda_require_context();

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
	struct CUlinkState_st **at;

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

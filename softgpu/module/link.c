/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's linker. Added inputs become a list of fatbin containers behind one without code. Code that no device
 * linker has seen arrives in this form, and is linked when it is loaded. The container without code has the bound of
 * the options; the texts stay what they are. Each part is read when it is added and all of them
 * once more when the link is complete, so that errors show where a program looks for them; what no part defines shows
 * then, or when it is used. The result is a container of its own, which the guest's library knows (image.c there).
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend-cpu.h"
#include "common/fatbin.h"
#include "module/image.h"
#include "module/jit-log.h"
#include "common/log.h"
#include "module/module.h"
#include "front/object-file.h"
#include "device/memory.h"
#include "device/registry.h"

#define ENTRY_VERSION (0x101u << 16)
#define FLAGS_LINUX_64 0x11
#define MAX_BYTES (1ull << 30)

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of the entries that follow the header */
};

/* With one entry, not compressed. */
struct entry_container {
	struct container head;
	uint32_t kind, header_size;
	uint64_t bytes;
	uint32_t compressed, options;
	uint16_t minor, major;
	uint32_t sm, name, name_bytes;
	uint64_t flags, reserved, unpacked;
	uint32_t option_offset, option_bytes;
	char option[40];
	char text[];
};

/* One call at a time is at it. */
struct link {
	char *data; /* struct heads, and what was added */
	size_t bytes;
	unsigned int max_registers; /* of the program's options, the lowest; 0: none */
	struct softgpu_jit_log log;
};

/* The result's header, and the container without code. */
struct heads {
	struct container result;
	struct entry_container bound;
};

_Static_assert(sizeof(struct heads) % 8 == 0, "containers begin at multiples of 8");

static void init_entry(struct entry_container *c, enum fatbin_kind kind, size_t bytes)
{
	c->head = (struct container){FATBIN_MAGIC, 1, sizeof(c->head), sizeof(*c) - sizeof(c->head) + bytes};
	c->kind = kind | ENTRY_VERSION;
	c->header_size = sizeof(*c) - sizeof(c->head);
	c->bytes = bytes;
	c->flags = FLAGS_LINUX_64;
	c->options = offsetof(struct entry_container, option_offset) - sizeof(c->head);
	c->option_offset = offsetof(struct entry_container, option) - sizeof(c->head);
}

static bool is_link(void *state)
{
	bool is;

	softgpu_lock();
	is = softgpu_registry_has(state, SOFTGPU_LINK);
	softgpu_unlock();
	return is;
}

static CUresult append(void *link, const void *data, size_t bytes)
{
	struct link *l = link;
	char *bigger;

	/* The list is copied, because a worker may not move its mappings. */
	if (bytes > MAX_BYTES - l->bytes || !softgpu_host_room(l->bytes + bytes))
		return CUDA_ERROR_OUT_OF_MEMORY;
	bigger = realloc(l->data, l->bytes + bytes);
	if (!bigger)
		return CUDA_ERROR_OUT_OF_MEMORY;
	l->data = bigger;
	memcpy(l->data + l->bytes, data, bytes);
	l->bytes += bytes;
	return CUDA_SUCCESS;
}

/* Forgets what was added from an offset on. */
static void cut(struct link *l, size_t from)
{
	char *smaller = realloc(l->data, from);

	if (smaller)
		l->data = smaller;
	l->bytes = from;
}

static void free_link(struct link *l)
{
	free(l->data);
	free(l);
}

/* As -rdc=true leaves it. The entry is for any device: the text itself says for which one, and is asked. */
static CUresult append_text(struct link *l, const char *data, size_t bytes)
{
	size_t length = strnlen(data, bytes), room = (length + 8) & ~(size_t)7;
	struct entry_container *c = calloc(1, sizeof(*c) + room);
	CUresult result;

	if (!c)
		return CUDA_ERROR_OUT_OF_MEMORY;
	init_entry(c, FATBIN_PTX, room);
	c->option_bytes = (uint32_t)snprintf(c->option, sizeof(c->option), "--compile-only");
	memcpy(c->text, data, length);
	result = append(l, c, sizeof(*c) + room);
	free(c);
	return result;
}

static CUresult append_heads(struct link *l)
{
	struct heads heads = {.result = {FATBIN_MAGIC, 1, sizeof(heads.result), 0}};

	init_entry(&heads.bound, FATBIN_OPTIONS, 0);
	return append(l, &heads, sizeof(heads));
}

/* The bytes behind the header count as the entries of the result. */
static void finish_heads(struct link *l)
{
	struct heads *heads = (struct heads *)(void *)l->data;

	heads->result.size = l->bytes - sizeof(heads->result);
	if (l->max_registers)
		heads->bound.option_bytes = (uint32_t)snprintf(heads->bound.option, sizeof(heads->bound.option),
							       "-maxrregcount=%u", l->max_registers);
}

/* Whether these are the bytes that NVRTC gives in the place of machine code (the guest's compute-cache.c). */
static bool is_text(const char *data, size_t bytes)
{
	for (size_t n = 0; n < bytes && n < 4; n++)
		if (!data[n] || data[n] & 0x80 || data[n] == 0x7f)
			return false;
	return bytes >= 4;
}

static CUresult append_part(struct link *l, CUjitInputType type, const void *data, size_t bytes)
{
	switch (type) {
	case CU_JIT_INPUT_FATBINARY:
		return append(l, data, bytes);
	case CU_JIT_INPUT_OBJECT:
	case CU_JIT_INPUT_LIBRARY:
		return softgpu_object_file_parts(data, bytes, append, l);
	case CU_JIT_INPUT_PTX:
		return append_text(l, data, bytes);
	case CU_JIT_INPUT_CUBIN:
		if (is_text(data, bytes))
			return append_text(l, data, bytes);
		vcuda_log("linking a cubin is not supported, only what has PTX is");
		return CUDA_ERROR_NOT_SUPPORTED;
	case CU_JIT_INPUT_NVVM:
		vcuda_log("linking NVVM is not supported, only what has PTX is");
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* Reads each text by itself. Other texts may define the symbols that it lacks. */
static CUresult check_texts(const struct softgpu_image *image, const char *name)
{
	CUresult result = CUDA_SUCCESS;
	char what[128];

	snprintf(what, sizeof(what), "cannot link %s", name && *name ? name : "a part");
	for (unsigned int i = 0; i < image->count && result == CUDA_SUCCESS; i++) {
		struct ptx_error error = {0};
		struct ptx_module *module;
		enum ptx_status status = ptx_module_create(image->part[i].text, image->part[i].length, &module, &error);

		if (status != PTX_OK)
			result = softgpu_compile_error(status, what, &error);
		ptx_module_destroy(module);
	}
	return result;
}

/* Checks the containers from an offset on. A library may have nothing for this device. */
static CUresult check(const struct link *l, size_t from, CUjitInputType type, const char *name)
{
	bool optional = type == CU_JIT_INPUT_OBJECT || type == CU_JIT_INPUT_LIBRARY;
	struct softgpu_image image;
	CUresult result;

	if (l->bytes == from)
		return CUDA_SUCCESS;
	vcuda_cpu_set_image_bound(l->bytes - from);
	result = softgpu_image_read(l->data + from, SOFTGPU_CODE_PTX, &image);
	if (result != CUDA_SUCCESS)
		return optional && result == CUDA_ERROR_NO_BINARY_FOR_GPU ? CUDA_SUCCESS : result;
	result = check_texts(&image, name);
	softgpu_image_free(&image);
	return result;
}

CUresult softgpu_cuLinkCreate_v2(unsigned int numOptions, void *options, void *optionValues, void *stateOut)
{
	struct link *l = calloc(1, sizeof(*l));
	struct CUctx_st *context;
	CUresult result;

	if (!l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = softgpu_jit_log_open(&l->log, numOptions, options, optionValues);
	if (result == CUDA_SUCCESS)
		l->max_registers = softgpu_jit_max_registers(numOptions, options, optionValues);
	if (result == CUDA_SUCCESS)
		result = append_heads(l);
	if (result == CUDA_SUCCESS)
		result = softgpu_enter(&context);
	if (result == CUDA_SUCCESS)
		result = softgpu_leave(softgpu_registry_add(l, SOFTGPU_LINK) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
	if (result != CUDA_SUCCESS) {
		free_link(l);
		return result;
	}
	*(void **)stateOut = l;
	return CUDA_SUCCESS;
}

/* A bound of registers of one part becomes that of all. */
CUresult softgpu_cuLinkAddData_v2(void *state, int type, void *data, size_t size, void *name, unsigned int numOptions,
				  void *options, void *optionValues)
{
	struct link *l = state;
	CUresult result;
	size_t before;

	if (!is_link(state))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!data || !size)
		return CUDA_ERROR_INVALID_VALUE;
	softgpu_jit_log_resume(&l->log);
	before = l->bytes;
	result = append_part(l, (CUjitInputType)type, data, size);
	if (result == CUDA_SUCCESS)
		result = check(l, before, (CUjitInputType)type, name);
	if (result != CUDA_SUCCESS)
		cut(l, before);
	else if (options && optionValues)
		l->max_registers = softgpu_register_bound(l->max_registers,
							  softgpu_jit_max_registers(numOptions, options, optionValues));
	softgpu_jit_log_pause(&l->log);
	return result;
}

/* As when it is loaded. */
static CUresult link_all(const struct link *l)
{
	struct softgpu_program program;
	struct softgpu_image image;
	CUresult result;

	if (l->bytes == sizeof(struct heads))
		return CUDA_ERROR_INVALID_VALUE;
	vcuda_cpu_set_image_bound(l->bytes - sizeof(struct container));
	result = softgpu_image_read(l->data + sizeof(struct container), SOFTGPU_CODE_PTX, &image);
	if (result != CUDA_SUCCESS)
		return result;
	result = softgpu_program_parse(&image, &program);
	softgpu_image_free(&image);
	if (result == CUDA_SUCCESS)
		softgpu_program_free(&program);
	return result;
}

CUresult softgpu_cuLinkComplete(void *state, void *cubinOut, void *sizeOut)
{
	struct link *l = state;
	CUresult result;

	if (!is_link(state))
		return CUDA_ERROR_INVALID_HANDLE;
	softgpu_jit_log_resume(&l->log);
	result = link_all(l);
	softgpu_jit_log_end(&l->log);
	if (result != CUDA_SUCCESS)
		return result;
	finish_heads(l);
	*(void **)cubinOut = l->data;
	*(size_t *)sizeOut = l->bytes;
	return CUDA_SUCCESS;
}

CUresult softgpu_cuLinkDestroy(void *state)
{
	struct link *l = state;

	softgpu_lock();
	if (!softgpu_registry_has(state, SOFTGPU_LINK))
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	softgpu_registry_remove(state);
	softgpu_unlock();
	free_link(l);
	return CUDA_SUCCESS;
}

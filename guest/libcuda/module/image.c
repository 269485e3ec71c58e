/* SPDX-License-Identifier: Apache-2.0 */
#include "module/image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/guest-calls.h"
#include "ring/ring.h"
#include "guest/client/stage.h"

#define WRAPPER_MAGIC 0x466243b1u
#define CONTAINER_MAGIC 0xba55ed50u

/* More than any real image: a length past this was read from something else. */
#define MAX_IMAGE (1ull << 30)

struct wrapper {
	uint32_t magic, version; /* version 2: `data` is device-linked code, `extra` what it was linked from */
	const void *data;
	const void *extra;
};

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; /* of the entries that follow the header */
};

static uint64_t at_least(uint64_t end, uint64_t offset, uint64_t bytes)
{
	return offset + bytes > end ? offset + bytes : end;
}

/* An ELF file ends with the last thing that its headers name. */
static uint64_t elf_bytes(const void *image)
{
	const Elf64_Ehdr *h = image;
	const Elf64_Shdr *section = (const Elf64_Shdr *)((const char *)image + h->e_shoff);
	uint64_t end = sizeof(*h);

	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_shentsize != sizeof(*section) || h->e_shoff > MAX_IMAGE)
		return 0;
	end = at_least(end, h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize);
	end = at_least(end, h->e_phoff, (uint64_t)h->e_phnum * h->e_phentsize);
	for (unsigned int i = 0; i < h->e_shnum; i++) {
		if (section[i].sh_offset > MAX_IMAGE || section[i].sh_size > MAX_IMAGE)
			return 0;
		if (section[i].sh_type != SHT_NOBITS)
			end = at_least(end, section[i].sh_offset, section[i].sh_size);
	}
	return end;
}

static CUresult container_bytes(const struct container *c, size_t *bytes)
{
	if (c->header_size < sizeof(*c) || c->size > MAX_IMAGE)
		return CUDA_ERROR_INVALID_IMAGE;
	*bytes = c->header_size + c->size;
	return CUDA_SUCCESS;
}

/* A container that is to be linked, or a wrapper of one. */
static CUresult part_container(const void *part, const void **data, size_t *bytes)
{
	const struct wrapper *w = part;
	const struct container *c = w->magic == WRAPPER_MAGIC ? w->data : part;

	*data = c;
	return c && c->magic == CONTAINER_MAGIC ? container_bytes(c, bytes) : CUDA_ERROR_INVALID_IMAGE;
}

/* The last image that the thread has put together. */
static _Thread_local char *gathered;

/*
 * Relocatable code: the container that the device linker made, followed by the containers that it was made from. PTX is
 * linked only before it runs, so the first may be empty, or have no code for the host's GPU. The host chooses.
 */
static CUresult relocatable_containers(const struct wrapper *w, const void **data, size_t *bytes)
{
	const void *const *parts = w->extra, *part;
	size_t total, length = 0;
	CUresult result = container_bytes(w->data, &total);

	for (unsigned int n = 0; result == CUDA_SUCCESS && parts[n]; n++) {
		result = part_container(parts[n], &part, &length);
		total += result == CUDA_SUCCESS ? length : 0;
		if (total > MAX_IMAGE)
			result = CUDA_ERROR_INVALID_IMAGE;
	}
	if (result != CUDA_SUCCESS)
		return result;
	free(gathered);
	gathered = malloc(total);
	if (!gathered)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*data = gathered;
	*bytes = total;
	container_bytes(w->data, &total);
	memcpy(gathered, w->data, total);
	for (unsigned int n = 0; parts[n]; n++) {
		part_container(parts[n], &part, &length);
		memcpy(gathered + total, part, length);
		total += length;
	}
	return CUDA_SUCCESS;
}

/* The container's bytes, none if it has no entries. */
static CUresult wrapper_container(const struct wrapper *w, const void **data, size_t *bytes)
{
	const struct container *c = w->data;
	uint32_t magic;

	if (!c)
		return CUDA_ERROR_INVALID_IMAGE;
	memcpy(&magic, c, sizeof(magic));
	if (magic != CONTAINER_MAGIC)
		return libcuda_image_find(w->data, data, bytes);
	if (w->version == 2 && w->extra)
		return relocatable_containers(w, data, bytes);
	*data = c;
	return container_bytes(c, bytes);
}

/* An image of cuLinkComplete() has containers as entries. The inner containers have the code. */
static CUresult plain_container(const struct container *c, const void **data, size_t *bytes)
{
	CUresult result = container_bytes(c, bytes);
	uint32_t magic;

	if (result != CUDA_SUCCESS || c->size < sizeof(*c))
		return result;
	memcpy(&magic, (const char *)c + c->header_size, sizeof(magic));
	if (magic == CONTAINER_MAGIC) {
		*data = (const char *)c + c->header_size;
		*bytes -= c->header_size;
	}
	return CUDA_SUCCESS;
}

/* PTX starts with a directive or a comment; other text is a mistake of the application. */
static bool is_text(const char *text)
{
	size_t i = strspn(text, " \t\r\n\v\f");

	return text[i] == '.' || text[i] == '/';
}

CUresult libcuda_image_find(const void *image, const void **data, size_t *bytes)
{
	const char *first = image;
	uint32_t magic;

	if (!image)
		return CUDA_ERROR_INVALID_VALUE;
	/* Text may be shorter than a magic number: byte by byte until it cannot be one. */
	if (is_text(first)) {
		*data = image;
		*bytes = strlen(first) + 1;
		return CUDA_SUCCESS;
	}
	memcpy(&magic, image, sizeof(magic));
	if (magic == WRAPPER_MAGIC)
		return wrapper_container(image, data, bytes);
	*data = image;
	if (magic == CONTAINER_MAGIC)
		return plain_container(image, data, bytes);
	if (!memcmp(image, ELFMAG, SELFMAG)) {
		*bytes = elf_bytes(image);
		return *bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
	}
	return CUDA_ERROR_INVALID_IMAGE;
}

/* Whether the memory has all that elf_bytes() reads. */
static bool elf_headers_fit(const Elf64_Ehdr *h, size_t room)
{
	return room >= sizeof(*h) && h->e_shoff <= room &&
	       (uint64_t)h->e_shnum * sizeof(Elf64_Shdr) <= room - h->e_shoff;
}

/* Whether the memory has all that plain_container() reads. */
static bool container_begins(const struct container *c, size_t room)
{
	return room >= sizeof(*c) && (c->size < sizeof(*c) || room >= c->header_size + sizeof(*c));
}

CUresult libcuda_image_in_file(const void *file, size_t room, const void **data, size_t *bytes)
{
	uint32_t magic = 0;
	CUresult result;

	memcpy(&magic, file, room < sizeof(magic) ? room : sizeof(magic));
	/* A wrapper holds pointers of the process that it was made in. */
	if (magic == WRAPPER_MAGIC || (magic == CONTAINER_MAGIC && !container_begins(file, room)))
		return CUDA_ERROR_INVALID_IMAGE;
	if (room >= SELFMAG && !memcmp(file, ELFMAG, SELFMAG) && !elf_headers_fit(file, room))
		return CUDA_ERROR_INVALID_IMAGE;
	result = libcuda_image_find(file, data, bytes);
	/* One byte is the NUL behind the text. */
	return result == CUDA_SUCCESS && *bytes > room + 1 - (size_t)((const char *)*data - (const char *)file)
		       ? CUDA_ERROR_INVALID_IMAGE
		       : result;
}

/* ---- to the worker ---- */

/* Creates one, with as much of its bytes as go along: none with a worker of protocol minor 0. */
static CUresult create(vcuda_image *image, const char *data, size_t bytes, uint32_t block, void *memory, size_t *done)
{
	size_t part = bytes < VCUDA_STAGE_BLOCK_BYTES ? bytes : VCUDA_STAGE_BLOCK_BYTES;
	CUresult result;

	memcpy(memory, data, part);
	result = vcuda_call_vcudaImageStaged(image, bytes, block, part);
	*done = result == CUDA_SUCCESS ? part : 0;
	return result == CUDA_ERROR_NOT_SUPPORTED ? vcuda_call_vcudaImageCreate(image, bytes) : result;
}

static CUresult ship(vcuda_image *image, const char *data, size_t bytes)
{
	size_t done;
	void *memory;
	uint32_t block = client_stage_take(&memory);
	CUresult result = create(image, data, bytes, block, memory, &done);

	while (result == CUDA_SUCCESS && done < bytes) {
		size_t part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;

		memcpy(memory, data + done, part);
		result = vcuda_call_vcudaImageWrite(*image, done, block, part);
		if (result != CUDA_SUCCESS)
			vcuda_call_vcudaImageDestroy(*image);
		done += part;
	}
	client_stage_give(block);
	return result;
}

CUresult libcuda_image_read(vcuda_image image, char *data, size_t bytes)
{
	CUresult result = CUDA_SUCCESS;
	void *memory;
	uint32_t block = client_stage_take(&memory);

	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
		size_t part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;

		result = vcuda_call_vcudaImageRead(image, done, block, part);
		if (result == CUDA_SUCCESS)
			memcpy(data + done, memory, part);
		done += part;
	}
	client_stage_give(block);
	return result;
}

static CUresult read_log(void *image, uint32_t option, uint32_t block, size_t bytes, size_t *length)
{
	return vcuda_call_vcudaImageLog(image, option, block, bytes, length);
}

CUresult libcuda_image_load(const void *data, size_t bytes, const struct libcuda_jit *jit,
			    CUresult (*load)(void *object, vcuda_image image), void *object)
{
	double start = libcuda_jit_ms();
	vcuda_image image;
	CUresult result = ship(&image, data, bytes);

	if (result != CUDA_SUCCESS)
		return result;
	result = libcuda_jit_send(jit, image);
	if (result == CUDA_SUCCESS) {
		result = load(object, image);
		libcuda_jit_finish(jit, read_log, image, jit->values, (float)(libcuda_jit_ms() - start));
	}
	vcuda_call_vcudaImageDestroy(image);
	return result;
}

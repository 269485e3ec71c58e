/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile object files and archives for the linker. The seeds are an object with two containers, and an archive of it.
 */
#include <ar.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/front/object-file.h"
#include "test/fuzz/fuzz.h"

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;
	char bytes[40];
};

struct object {
	Elf64_Ehdr head;
	struct container code[2];
	char names[24];
	Elf64_Shdr sections[3];
};

struct archive {
	char magic[SARMAG];
	struct ar_hdr head;
	struct object object;
} __attribute__((packed));

static const uint8_t *file;
static size_t file_bytes, taken;

static CUresult take(void *to, const void *container, size_t bytes)
{
	const uint8_t *at = container;

	if (to != &taken || at < file || bytes > file_bytes || (size_t)(at - file) > file_bytes - bytes || bytes < 16)
		abort();
	taken += bytes;
	return CUDA_SUCCESS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	file = data;
	file_bytes = bytes;
	taken = 0;
	softgpu_object_file_parts(data, bytes, take, &taken);
	if (taken > bytes)
		abort();
	return 0;
}

static struct object object(void)
{
	struct object o = {
		.head = {.e_ident = ELFMAG,
			 .e_shoff = offsetof(struct object, sections),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 3},
		.code = {{0xba55ed50, 1, 16, 40, ""}, {0xba55ed50, 1, 16, 40, ""}},
		.names = "__nv_relfatbin",
		.sections = {[0] = {.sh_type = SHT_STRTAB,
				    .sh_name = 20,
				    .sh_offset = offsetof(struct object, names),
				    .sh_size = sizeof(o.names)},
			     /* together they have no more than the file */
			     [1] = {.sh_type = SHT_PROGBITS,
				    .sh_offset = offsetof(struct object, code),
				    .sh_size = sizeof(o.code)},
			     [2] = {.sh_type = SHT_PROGBITS,
				    .sh_offset = offsetof(struct object, code),
				    .sh_size = sizeof(o.code)}},
	};

	o.head.e_ident[EI_CLASS] = ELFCLASS64;
	return o;
}

size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	static const struct ar_hdr zero;
	struct archive a = {.magic = "", .head = zero, .object = object()};
	char size[12];

	if (sizeof(a) > room)
		return 0;
	if (number % 2) {
		memcpy(buffer, &a.object, sizeof(a.object));
		return sizeof(a.object);
	}
	memcpy(a.magic, ARMAG, SARMAG);
	memset(&a.head, ' ', sizeof(a.head));
	snprintf(size, sizeof(size), "%zu", sizeof(a.object));
	memcpy(a.head.ar_size, size, strlen(size));
	memcpy(a.head.ar_fmag, ARFMAG, sizeof(a.head.ar_fmag));
	memcpy(buffer, &a, sizeof(a));
	/* The fuzzer's target must accept a good file. */
	LLVMFuzzerTestOneInput(buffer, sizeof(a));
	if (taken != 2 * sizeof(a.object.code))
		abort();
	return sizeof(a);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Device code in object files and archives: what is taken of them, and that nothing in them is believed. */
#include <ar.h>
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "softgpu/front/object-file.h"

#define NAMES "\0.text\0__nv_relfatbin"

struct container {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size;
	char text[8];
};

/* Two containers with zeroes between, the way nvcc leaves them. */
struct object {
	Elf64_Ehdr head;
	struct container first;
	uint64_t gap;
	struct container second;
	char names[32];
	Elf64_Shdr sections[4];
};

struct archive {
	char magic[SARMAG];
	struct ar_hdr table_head;
	char table[6]; /* an address behind it is a multiple of 2 only */
	struct ar_hdr head;
	struct object object;
} __attribute__((packed));

static struct object object_of(const char *first, const char *second)
{
	struct object o = {
		.head = {.e_ident = ELFMAG,
			 .e_machine = EM_X86_64,
			 .e_shoff = offsetof(struct object, sections),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = 4,
			 .e_shstrndx = 3},
		.first = {0xba55ed50, 1, 16, 8, ""},
		.second = {0xba55ed50, 1, 16, 8, ""},
		.names = NAMES,
		.sections = {[1] = {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = 64, .sh_size = 16},
			     [2] = {.sh_name = 7,
				    .sh_type = SHT_PROGBITS,
				    .sh_offset = offsetof(struct object, first),
				    .sh_size = offsetof(struct object, names) - offsetof(struct object, first)},
			     [3] = {.sh_type = SHT_STRTAB,
				    .sh_offset = offsetof(struct object, names),
				    .sh_size = sizeof(NAMES)}},
	};

	o.head.e_ident[EI_CLASS] = ELFCLASS64;
	snprintf(o.first.text, sizeof(o.first.text), "%s", first);
	snprintf(o.second.text, sizeof(o.second.text), "%s", second);
	return o;
}

static void member(struct ar_hdr *h, const char *name, size_t bytes)
{
	char text[sizeof(*h) + 1], length[24];

	snprintf(length, sizeof(length), "%zu", bytes);
	snprintf(text, sizeof(text), "%-16s%-12d%-6d%-6d%-8d%-10.10s%s", name, 0, 0, 0, 644, length, ARFMAG);
	memcpy(h, text, sizeof(*h));
}

static char taken[64];
static CUresult answer;

static CUresult take(void *to, const void *container, size_t bytes)
{
	struct container c;

	assert_ptr_equal(to, taken);
	assert_int_equal(bytes, sizeof(c));
	/* In an archive the container may be unaligned. */
	memcpy(&c, container, sizeof(c));
	strcat(taken, c.text);
	return answer;
}

/* From memory that ends there, for the sanitizer. */
static CUresult parts(const void *data, size_t bytes)
{
	void *copy = malloc(bytes);
	CUresult result;

	taken[0] = 0;
	memcpy(copy, data, bytes);
	result = softgpu_object_file_parts(copy, bytes, take, taken);
	free(copy);
	return result;
}

static void objects(void **state)
{
	struct object o = object_of("one ", "two ");

	(void)state;
	assert_int_equal(parts(&o, sizeof(o)), CUDA_SUCCESS);
	assert_string_equal(taken, "one two ");
	answer = CUDA_ERROR_OUT_OF_MEMORY;
	assert_int_equal(parts(&o, sizeof(o)), CUDA_ERROR_OUT_OF_MEMORY);
	assert_string_equal(taken, "one ");
	answer = CUDA_SUCCESS;
	o.sections[2].sh_name = 1;
	assert_int_equal(parts(&o, sizeof(o)), CUDA_SUCCESS);
	assert_string_equal(taken, "");
	assert_int_equal(parts("// PTX", 7), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(parts("", 0), CUDA_ERROR_INVALID_IMAGE);
}

static void archives(void **state)
{
	struct archive a = {.magic = {0}, .object = object_of("three ", "four ")};

	(void)state;
	memcpy(a.magic, ARMAG, SARMAG);
	member(&a.table_head, "/", sizeof(a.table));
	member(&a.head, "a.o/", sizeof(a.object));
	assert_int_equal(parts(&a, sizeof(a)), CUDA_SUCCESS);
	assert_string_equal(taken, "three four ");
	assert_int_equal(parts(&a, sizeof(a) - 1), CUDA_ERROR_INVALID_IMAGE);
	assert_int_equal(parts(&a, SARMAG), CUDA_SUCCESS);
	assert_string_equal(taken, "");
	a.head.ar_fmag[0] = 0;
	assert_int_equal(parts(&a, sizeof(a)), CUDA_ERROR_INVALID_IMAGE);
	member(&a.head, "a.o/", SIZE_MAX);
	assert_int_equal(parts(&a, sizeof(a)), CUDA_ERROR_INVALID_IMAGE);
}

/* A member of an odd length has a byte behind it. */
static void odd_members(void **state)
{
	struct object o = object_of("five ", "six ");
	char *file = calloc(1, SARMAG + 2 * sizeof(struct ar_hdr) + 4 + sizeof(o)), *at = file + SARMAG;

	(void)state;
	memcpy(file, ARMAG, SARMAG);
	member((struct ar_hdr *)at, "odd/", 3);
	at += sizeof(struct ar_hdr) + 4;
	member((struct ar_hdr *)at, "a.o/", sizeof(o));
	at += sizeof(struct ar_hdr);
	memcpy(at, &o, sizeof(o));
	assert_int_equal(parts(file, (size_t)(at - file) + sizeof(o)), CUDA_SUCCESS);
	assert_string_equal(taken, "five six ");
	free(file);
}

static void hostile(void **state)
{
	struct object o = object_of("one ", "two ");
	const unsigned char *bytes = (const unsigned char *)&o;

	(void)state;
	for (size_t length = 0; length < sizeof(o); length++)
		assert_int_equal(parts(&o, length), CUDA_ERROR_INVALID_IMAGE);
	o.first.size = UINT64_MAX - 8;
	assert_int_equal(parts(&o, sizeof(o)), CUDA_ERROR_INVALID_IMAGE);
	o.first.size = 8;
	o.first.header_size = 0;
	assert_int_equal(parts(&o, sizeof(o)), CUDA_ERROR_INVALID_IMAGE);
	o.first.header_size = 16;
	o.sections[2].sh_offset = UINT64_MAX - 4;
	assert_int_equal(parts(&o, sizeof(o)), CUDA_ERROR_INVALID_IMAGE);
	o = object_of("one ", "two ");
	o.head.e_shstrndx = 40000;
	assert_int_equal(parts(&o, sizeof(o)), CUDA_ERROR_INVALID_IMAGE);
	/* any byte of the headers: whatever comes of it, nothing beside the file is read */
	for (size_t at = SELFMAG; at < sizeof(o); at++) {
		struct object changed = object_of("", "");

		((unsigned char *)&changed)[at] = bytes[at] ^ 0xff;
		changed.first.size = changed.second.size = 8;
		changed.first.header_size = changed.second.header_size = 16;
		parts(&changed, sizeof(changed));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects),
		cmocka_unit_test(archives),
		cmocka_unit_test(odd_members),
		cmocka_unit_test(hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

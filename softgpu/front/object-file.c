/* SPDX-License-Identifier: Apache-2.0 */
/* Members of archives lie at even addresses only: headers are copied before they are read. */
#include "object-file.h"

#include <ar.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CONTAINER_MAGIC 0xba55ed50u
#define CONTAINER_ALIGN 8
#define CODE_SECTION "__nv_relfatbin"

struct piece {
	const char *data;
	size_t bytes;
};

struct taker {
	CUresult (*take)(void *to, const void *container, size_t bytes);
	void *to;
};

/* False: it is not all there. */
static bool cut(struct piece from, uint64_t offset, uint64_t bytes, struct piece *part)
{
	if (offset > from.bytes || bytes > from.bytes - offset)
		return false;
	*part = (struct piece){from.data + offset, bytes};
	return true;
}

static bool copy(struct piece from, uint64_t offset, void *to, size_t bytes)
{
	struct piece part;

	if (!cut(from, offset, bytes, &part))
		return false;
	memcpy(to, part.data, bytes);
	return true;
}

/* One behind the other, with zeroes between. */
static CUresult take_containers(struct piece section, const struct taker *taker)
{
	struct {
		uint32_t magic;
		uint16_t version, header_size;
		uint64_t size;
	} head;
	struct piece container;
	CUresult result;

	for (uint64_t at = 0; at + sizeof(head) <= section.bytes;) {
		copy(section, at, &head, sizeof(head));
		if (!head.magic) {
			at += CONTAINER_ALIGN;
			continue;
		}
		if (head.magic != CONTAINER_MAGIC || head.header_size < sizeof(head) || head.size > section.bytes ||
		    !cut(section, at, head.header_size + head.size, &container))
			return CUDA_ERROR_INVALID_IMAGE;
		result = taker->take(taker->to, container.data, container.bytes);
		if (result != CUDA_SUCCESS)
			return result;
		at += (container.bytes + CONTAINER_ALIGN - 1) & ~(uint64_t)(CONTAINER_ALIGN - 1);
	}
	return CUDA_SUCCESS;
}

/* Section `index`'s header; its bytes if it has some in the file. */
static bool section_of(struct piece file, const Elf64_Ehdr *h, unsigned int index, Elf64_Shdr *header,
		       struct piece *section)
{
	*section = (struct piece){0};
	if (!copy(file, h->e_shoff + (uint64_t)index * sizeof(*header), header, sizeof(*header)))
		return false;
	return header->sh_type == SHT_NOBITS || cut(file, header->sh_offset, header->sh_size, section);
}

static CUresult take_object(struct piece file, const struct taker *taker)
{
	struct piece names, section;
	size_t left = file.bytes;
	Elf64_Shdr header;
	Elf64_Ehdr h;
	CUresult result = CUDA_SUCCESS;

	if (!copy(file, 0, &h, sizeof(h)) || h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_shoff > file.bytes ||
	    h.e_shentsize != sizeof(header) || !section_of(file, &h, h.e_shstrndx, &header, &names))
		return CUDA_ERROR_INVALID_IMAGE;
	for (unsigned int i = 0; i < h.e_shnum && result == CUDA_SUCCESS; i++) {
		if (!section_of(file, &h, i, &header, &section))
			return CUDA_ERROR_INVALID_IMAGE;
		if (header.sh_name >= names.bytes || names.bytes - header.sh_name < sizeof(CODE_SECTION) ||
		    memcmp(names.data + header.sh_name, CODE_SECTION, sizeof(CODE_SECTION)) != 0)
			continue;
		/* a small file with much in it says the same thing many times */
		if (section.bytes > left)
			return CUDA_ERROR_INVALID_IMAGE;
		left -= section.bytes;
		result = take_containers(section, taker);
	}
	return result;
}

static bool begins(struct piece file, const char *magic, size_t bytes)
{
	return file.bytes >= bytes && !memcmp(file.data, magic, bytes);
}

static CUresult take_archive(struct piece file, const struct taker *taker)
{
	struct piece member;
	CUresult result = CUDA_SUCCESS;
	struct ar_hdr h;
	char size[sizeof(h.ar_size) + 1] = "";

	for (uint64_t at = SARMAG; at < file.bytes && result == CUDA_SUCCESS;
	     at += sizeof(h) + member.bytes + member.bytes % 2) {
		if (!copy(file, at, &h, sizeof(h)) || memcmp(h.ar_fmag, ARFMAG, sizeof(h.ar_fmag)))
			return CUDA_ERROR_INVALID_IMAGE;
		memcpy(size, h.ar_size, sizeof(h.ar_size));
		if (!cut(file, at + sizeof(h), strtoull(size, NULL, 10), &member))
			return CUDA_ERROR_INVALID_IMAGE;
		if (begins(member, ELFMAG, SELFMAG))
			result = take_object(member, taker);
	}
	return result;
}

CUresult softgpu_object_file_parts(const void *data, size_t bytes,
				   CUresult (*take)(void *to, const void *container, size_t bytes), void *to)
{
	const struct piece file = {data, bytes};
	const struct taker taker = {take, to};

	if (begins(file, ARMAG, SARMAG))
		return take_archive(file, &taker);
	return begins(file, ELFMAG, SELFMAG) ? take_object(file, &taker) : CUDA_ERROR_INVALID_IMAGE;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sass/cubin/cubin-file.h"
#include "sass/cubin/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MACHINE 190 /* EM_CUDA */
/* CUDA 13 writes this, with the architecture in other bits of the flags than older versions. */
#define OSABI_NEW 0x41
#define SPECIFIC_NEW 0x8u
#define SPECIFIC_OLD 0x800u

/* Sections without bytes in the file, of a cubin that is not linked. */
#define SHT_CUDA_GLOBAL 0x70000007u
#define SHT_CUDA_LOCAL 0x70000009u
#define SHT_CUDA_SHARED 0x7000000au
#define SHT_CUDA_SHARED_RESERVED 0x70000015u

#define MAX_NAME 65535
/* Names may share their ends, so that all together are longer than the file. */
#define NAMES_FACTOR 8

bool sass_file_fail(struct sass_file *file, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(file->error, file->room, format, args);
	va_end(args);
	return false;
}

bool sass_file_no_memory(struct sass_file *file)
{
	file->no_memory = true;
	return sass_file_fail(file, "there is no memory to read the machine code");
}

const char *sass_name_after(const char *name, const char *prefix)
{
	size_t length = strlen(prefix);

	return strncmp(name, prefix, length) ? NULL : name + length;
}

static bool has_bytes(uint32_t type)
{
	return type != SHT_NULL && type != SHT_NOBITS && type != SHT_CUDA_GLOBAL && type != SHT_CUDA_LOCAL &&
	       type != SHT_CUDA_SHARED && type != SHT_CUDA_SHARED_RESERVED;
}

/* A string of a section. NULL: it does not end there, or names are too long in all. */
static const char *string_at(struct sass_file *file, const struct sass_section *strings, uint32_t offset)
{
	const char *text;
	size_t length, most;

	if (!strings->data || offset >= strings->bytes)
		return NULL;
	text = (const char *)strings->data + offset;
	most = strings->bytes - offset;
	length = strnlen(text, most < MAX_NAME ? most : MAX_NAME);
	if (length == most || length == MAX_NAME || length > file->name_bytes)
		return NULL;
	file->name_bytes -= length;
	return text;
}

static bool read_section(struct sass_file *file, uint32_t n, const uint8_t *table, size_t *left)
{
	struct sass_section *s = &file->sections[n];
	Elf64_Shdr h;

	memcpy(&h, table + (size_t)n * sizeof(h), sizeof(h));
	*s = (struct sass_section){.type = h.sh_type,
				   .link = h.sh_link,
				   .info = h.sh_info,
				   .flags = h.sh_flags,
				   .align = h.sh_addralign,
				   .bytes = h.sh_size};
	if (!has_bytes(h.sh_type))
		return true;
	if (h.sh_offset > file->bytes || h.sh_size > file->bytes - h.sh_offset)
		return sass_file_fail(file, "section %u of the machine code goes beyond its end", n);
	/* A small file with much in it would say the same thing many times. */
	if (h.sh_size > *left)
		return sass_file_fail(file, "the sections of the machine code overlap");
	*left -= h.sh_size;
	s->data = file->data + h.sh_offset;
	return true;
}

static bool read_sections(struct sass_file *file, const Elf64_Ehdr *h)
{
	const uint8_t *table = file->data + h->e_shoff;
	Elf64_Shdr name;
	size_t left = file->bytes;

	file->section_count = h->e_shnum;
	file->sections = sass_allocate(h->e_shnum, sizeof(*file->sections));
	if (!file->sections)
		return sass_file_no_memory(file);
	for (uint32_t n = 0; n < file->section_count; n++)
		if (!read_section(file, n, table, &left))
			return false;
	for (uint32_t n = 0; n < file->section_count; n++) {
		memcpy(&name, table + (size_t)n * sizeof(name), sizeof(name));
		file->sections[n].name = string_at(file, &file->sections[h->e_shstrndx], name.sh_name);
		if (!file->sections[n].name)
			return sass_file_fail(file, "section %u of the machine code has no name", n);
	}
	return true;
}

static bool read_symbol(struct sass_file *file, const struct sass_section *table, const struct sass_section *strings,
			uint32_t n)
{
	struct sass_symbol *s = &file->symbols[n];
	Elf64_Sym symbol;

	memcpy(&symbol, table->data + (size_t)n * sizeof(symbol), sizeof(symbol));
	*s = (struct sass_symbol){.name = string_at(file, strings, symbol.st_name),
				  .value = symbol.st_value,
				  .bytes = symbol.st_size,
				  .section = symbol.st_shndx < SHN_LORESERVE ? symbol.st_shndx : 0,
				  .type = ELF64_ST_TYPE(symbol.st_info),
				  .binding = ELF64_ST_BIND(symbol.st_info),
				  .other = symbol.st_other};
	if (!s->name)
		return sass_file_fail(file, "symbol %u of the machine code has no name", n);
	if (s->section >= file->section_count)
		return sass_file_fail(file, "symbol %u of the machine code is in no section", n);
	return true;
}

static bool read_symbols(struct sass_file *file)
{
	const struct sass_section *table = NULL;

	for (uint32_t n = 0; n < file->section_count && !table; n++)
		if (file->sections[n].type == SHT_SYMTAB)
			table = &file->sections[n];
	if (!table)
		return true;
	if (table->link >= file->section_count || table->bytes / sizeof(Elf64_Sym) > UINT32_MAX)
		return sass_file_fail(file, "the symbols of the machine code have no names");
	file->symbol_count = (uint32_t)(table->bytes / sizeof(Elf64_Sym));
	file->symbols = sass_allocate(file->symbol_count + 1u, sizeof(*file->symbols));
	if (!file->symbols)
		return sass_file_no_memory(file);
	for (uint32_t n = 0; n < file->symbol_count; n++)
		if (!read_symbol(file, table, &file->sections[table->link], n))
			return false;
	return true;
}

static void read_architecture(struct sass_file *file, const Elf64_Ehdr *h)
{
	bool new = h->e_ident[EI_OSABI] == OSABI_NEW;

	file->architecture = h->e_flags >> (new ? 8 : 0) & 0xff;
	file->specific = h->e_flags & (new ? SPECIFIC_NEW : SPECIFIC_OLD);
	file->linked = h->e_type == ET_EXEC;
}

bool sass_file_read(struct sass_file *file, const void *data, size_t bytes, char *error, size_t room)
{
	Elf64_Ehdr h;

	*file = (struct sass_file){.data = data, .bytes = bytes, .error = error, .room = room};
	if (__builtin_mul_overflow(bytes, NAMES_FACTOR, &file->name_bytes))
		file->name_bytes = SIZE_MAX;
	if (bytes < sizeof(h))
		return sass_file_fail(file, "the machine code has no ELF header");
	memcpy(&h, data, sizeof(h));
	if (memcmp(h.e_ident, ELFMAG, SELFMAG) || h.e_ident[EI_CLASS] != ELFCLASS64 ||
	    h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != MACHINE || (h.e_type != ET_EXEC && h.e_type != ET_REL))
		return sass_file_fail(file, "the file is no machine code of an NVIDIA GPU");
	if (h.e_shentsize != sizeof(Elf64_Shdr) || h.e_shnum == 0 || h.e_shnum >= SHN_LORESERVE || h.e_shoff > bytes ||
	    h.e_shnum * sizeof(Elf64_Shdr) > bytes - h.e_shoff || h.e_shstrndx >= h.e_shnum)
		return sass_file_fail(file, "the section headers of the machine code are malformed");
	read_architecture(file, &h);
	return read_sections(file, &h) && read_symbols(file);
}

void sass_file_free(struct sass_file *file)
{
	free(file->sections);
	free(file->symbols);
}

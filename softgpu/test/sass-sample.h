/* SPDX-License-Identifier: Apache-2.0 */
/* A small cubin that is made by hand, for tests and the fuzzer. A test may change any part of it. */
#ifndef VCUDA_SASS_SAMPLE_H
#define VCUDA_SASS_SAMPLE_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SAMPLE_CUDA 190
#define SAMPLE_ENTRY 0x10
#define SAMPLE_PARAM_BASE 0x160

enum sample_section {
	SAMPLE_NAMES = 1,
	SAMPLE_STRINGS,
	SAMPLE_SYMBOLS,
	SAMPLE_INFO,
	SAMPLE_KERNEL_INFO,
	SAMPLE_TEXT,
	SAMPLE_CONSTANT0,
	SAMPLE_CONSTANT3,
	SAMPLE_DATA,
	SAMPLE_DATA_RELA,
	SAMPLE_BANK4,
	SAMPLE_BANK4_REL,
	SAMPLE_ZEROES,
	SAMPLE_SHARED,
	SAMPLE_SECTIONS,
};

enum sample_symbol { SAMPLE_KERNEL = 1, SAMPLE_TABLE, SAMPLE_COUNTER, SAMPLE_POINTER, SAMPLE_ROOM, SAMPLE_PRINT, SAMPLE_COUNT };

#define SAMPLE_SECTION_NAMES                                                                                           \
	"\0.shstrtab\0.strtab\0.symtab\0.nv.info\0.nv.info.k\0.text.k\0.nv.constant0.k\0.nv.constant3\0"                \
	".nv.global.init\0.rela.nv.global.init\0.nv.constant4\0.rel.nv.constant4\0.nv.global\0.nv.shared.k"
#define SAMPLE_SYMBOL_NAMES "\0k\0table\0counter\0pointer\0room\0vprintf"

/* One kernel, k(uint32_t, uint64_t), of two instructions of sm_80: EXIT and a branch to itself. */
struct sass_sample {
	Elf64_Ehdr head;
	char names[sizeof(SAMPLE_SECTION_NAMES)];
	char strings[sizeof(SAMPLE_SYMBOL_NAMES)];
	uint8_t pad[7];
	Elf64_Sym symbols[SAMPLE_COUNT];
	uint32_t info[9];                       /* registers, frame, least stack */
	uint32_t kernel_info[3 + 1 + 4 + 4 + 4]; /* bank, size, two parameters, threads */
	uint8_t gap[4];
	uint64_t text[4];
	uint8_t constant0[SAMPLE_PARAM_BASE + 16];
	uint8_t constant3[32]; /* a table of 20 bytes from byte 8 on */
	struct {
		uint32_t counter, pad;
		uint64_t pointer;
	} data;
	Elf64_Rela data_rela[1]; /* the pointer's, to the counter */
	uint64_t bank4[2];
	Elf64_Rel bank4_rel[2]; /* the counter, vprintf() */
	Elf64_Shdr sections[SAMPLE_SECTIONS];
};

/* The offset of a name in a list of such. */
static inline uint32_t sample_name(const char *names, size_t bytes, const char *name)
{
	const char *at = memmem(names, bytes, name, strlen(name) + 1);

	return at ? (uint32_t)(at - names) : 0;
}

static inline void sample_section(struct sass_sample *s, enum sample_section n, const char *name, uint32_t type,
				  size_t offset, size_t bytes)
{
	s->sections[n] = (Elf64_Shdr){.sh_name = sample_name(s->names, sizeof(s->names), name),
				      .sh_type = type,
				      .sh_offset = offset,
				      .sh_size = bytes,
				      .sh_addralign = 8};
}

#define SAMPLE_PART(n, name, type, part)                                                                               \
	sample_section(s, n, name, type, offsetof(struct sass_sample, part), sizeof(s->part))

static inline void sample_sections(struct sass_sample *s)
{
	SAMPLE_PART(SAMPLE_NAMES, ".shstrtab", SHT_STRTAB, names);
	SAMPLE_PART(SAMPLE_STRINGS, ".strtab", SHT_STRTAB, strings);
	SAMPLE_PART(SAMPLE_SYMBOLS, ".symtab", SHT_SYMTAB, symbols);
	SAMPLE_PART(SAMPLE_INFO, ".nv.info", SHT_LOPROC, info);
	SAMPLE_PART(SAMPLE_KERNEL_INFO, ".nv.info.k", SHT_LOPROC, kernel_info);
	SAMPLE_PART(SAMPLE_TEXT, ".text.k", SHT_PROGBITS, text);
	SAMPLE_PART(SAMPLE_CONSTANT0, ".nv.constant0.k", SHT_PROGBITS, constant0);
	SAMPLE_PART(SAMPLE_CONSTANT3, ".nv.constant3", SHT_PROGBITS, constant3);
	SAMPLE_PART(SAMPLE_DATA, ".nv.global.init", SHT_PROGBITS, data);
	SAMPLE_PART(SAMPLE_DATA_RELA, ".rela.nv.global.init", SHT_RELA, data_rela);
	SAMPLE_PART(SAMPLE_BANK4, ".nv.constant4", SHT_PROGBITS, bank4);
	SAMPLE_PART(SAMPLE_BANK4_REL, ".rel.nv.constant4", SHT_REL, bank4_rel);
	sample_section(s, SAMPLE_ZEROES, ".nv.global", SHT_NOBITS, sizeof(*s), 400);
	sample_section(s, SAMPLE_SHARED, ".nv.shared.k", SHT_NOBITS, sizeof(*s), 132);
	s->sections[SAMPLE_SYMBOLS].sh_link = SAMPLE_STRINGS;
	s->sections[SAMPLE_TEXT].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
	s->sections[SAMPLE_TEXT].sh_info = SAMPLE_KERNEL | 20u << 24;
	s->sections[SAMPLE_DATA_RELA].sh_info = SAMPLE_DATA;
	s->sections[SAMPLE_BANK4_REL].sh_info = SAMPLE_BANK4;
	s->sections[SAMPLE_KERNEL_INFO].sh_info = s->sections[SAMPLE_CONSTANT0].sh_info = SAMPLE_TEXT;
	s->sections[SAMPLE_SHARED].sh_info = SAMPLE_TEXT;
}

static inline void sample_symbol(struct sass_sample *s, enum sample_symbol n, const char *name, unsigned int type,
				 uint16_t section, uint64_t value, uint64_t bytes)
{
	s->symbols[n] = (Elf64_Sym){.st_name = sample_name(s->strings, sizeof(s->strings), name),
				    .st_info = ELF64_ST_INFO(STB_GLOBAL, type),
				    .st_shndx = section,
				    .st_value = value,
				    .st_size = bytes};
}

static inline void sample_symbols(struct sass_sample *s)
{
	sample_symbol(s, SAMPLE_KERNEL, "k", STT_FUNC, SAMPLE_TEXT, 0, sizeof(s->text));
	s->symbols[SAMPLE_KERNEL].st_other = SAMPLE_ENTRY;
	sample_symbol(s, SAMPLE_TABLE, "table", STT_OBJECT, SAMPLE_CONSTANT3, 8, 20);
	sample_symbol(s, SAMPLE_COUNTER, "counter", STT_OBJECT, SAMPLE_DATA, 0, 4);
	sample_symbol(s, SAMPLE_POINTER, "pointer", STT_OBJECT, SAMPLE_DATA, 8, 8);
	sample_symbol(s, SAMPLE_ROOM, "room", STT_OBJECT, SAMPLE_ZEROES, 0, 400);
	sample_symbol(s, SAMPLE_PRINT, "vprintf", STT_FUNC, SHN_UNDEF, 0, 0);
}

/* An attribute: its format, its number, and the bytes or the value that follow. */
#define SAMPLE_SIZED(number, bytes) (4u | (number) << 8 | (uint32_t)(bytes) << 16)
#define SAMPLE_HALF(number, value) (3u | (number) << 8 | (uint32_t)(value) << 16)

static inline void sample_info(struct sass_sample *s)
{
	const uint32_t info[] = {SAMPLE_SIZED(0x2f, 8), SAMPLE_KERNEL, 24, SAMPLE_SIZED(0x11, 8), SAMPLE_KERNEL, 16,
				 SAMPLE_SIZED(0x12, 8), SAMPLE_KERNEL, 48};
	const uint32_t kernel_info[] = {SAMPLE_SIZED(0x0a, 8), 0, SAMPLE_PARAM_BASE | 16u << 16,
					SAMPLE_HALF(0x19, 16),
					SAMPLE_SIZED(0x17, 12), 0, 1u | 8u << 16, 8u << 18 | 0x1f000,
					SAMPLE_SIZED(0x17, 12), 0, 0, 4u << 18 | 0x1f000,
					SAMPLE_SIZED(0x05, 12), 128, 2, 1};

	_Static_assert(sizeof(info) == sizeof(s->info) && sizeof(kernel_info) == sizeof(s->kernel_info), "all of it");
	memcpy(s->info, info, sizeof(info));
	memcpy(s->kernel_info, kernel_info, sizeof(kernel_info));
}

static inline struct sass_sample sass_sample(void)
{
	struct sass_sample s = {
		.head = {.e_ident = ELFMAG,
			 .e_type = ET_EXEC,
			 .e_machine = SAMPLE_CUDA,
			 .e_flags = 80u << 8 | 4,
			 .e_shoff = offsetof(struct sass_sample, sections),
			 .e_shentsize = sizeof(Elf64_Shdr),
			 .e_shnum = SAMPLE_SECTIONS,
			 .e_shstrndx = SAMPLE_NAMES},
		.names = SAMPLE_SECTION_NAMES,
		.strings = SAMPLE_SYMBOL_NAMES,
		.text = {0x000000000000794d, 0x000fea0003800000, 0xfffffff000007947, 0x000fc0000383ffff},
		.constant3 = {[8] = 1, 2, 3},
		.data = {.counter = 7},
		.data_rela = {{.r_offset = 8, .r_info = ELF64_R_INFO((uint64_t)SAMPLE_COUNTER, 4), .r_addend = 2}},
		.bank4_rel = {{8, ELF64_R_INFO((uint64_t)SAMPLE_PRINT, 2)}, {0, ELF64_R_INFO((uint64_t)SAMPLE_COUNTER, 2)}},
	};

	s.head.e_ident[EI_CLASS] = ELFCLASS64;
	s.head.e_ident[EI_DATA] = ELFDATA2LSB;
	s.head.e_ident[EI_OSABI] = 0x41;
	sample_sections(&s);
	sample_symbols(&s);
	sample_info(&s);
	return s;
}

#endif

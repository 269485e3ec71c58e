/* SPDX-License-Identifier: Apache-2.0 */
/* The ELF file of a cubin: its sections and symbols, all of which are checked. */
#ifndef VCUDA_SASS_CUBIN_FILE_H
#define VCUDA_SASS_CUBIN_FILE_H

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A symbol's type for a variable, beside ELF's own. */
#define SASS_STT_OBJECT 13

struct sass_section {
	const char *name;
	uint32_t type, link, info;
	uint64_t flags, align, bytes;
	const uint8_t *data; /* NULL: the file has no bytes of it */
};

struct sass_symbol {
	const char *name;
	uint64_t value, bytes;
	uint32_t section; /* 0: not defined */
	uint8_t type, binding, other;
};

struct sass_file {
	const uint8_t *data;
	size_t bytes;
	unsigned int architecture;
	bool specific, linked;
	uint32_t section_count;
	struct sass_section *sections;
	uint32_t symbol_count;
	struct sass_symbol *symbols;
	size_t name_bytes; /* that names yet to be read may have */
	char *error;
	size_t room;
	bool no_memory; /* which is the error */
};

/* False: `error` says why. The caller frees the file in both cases. */
bool sass_file_read(struct sass_file *file, const void *data, size_t bytes, char *error, size_t room);
void sass_file_free(struct sass_file *file);

/* Sets the error. False. */
bool sass_file_fail(struct sass_file *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool sass_file_no_memory(struct sass_file *file);

/* NULL: the name does not begin so. Else its rest. */
const char *sass_name_after(const char *name, const char *prefix);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Variables and relocations of a cubin. */
#ifndef VCUDA_SASS_CUBIN_DATA_H
#define VCUDA_SASS_CUBIN_DATA_H

#include "sass/cubin/cubin-file.h"
#include "sass/cubin/cubin.h"

/* A growing list of relocations. */
struct sass_relocations {
	struct sass_relocation *list;
	uint32_t count, room;
};

/* Appends the relocations of a section of such. False: the file's error says why. */
bool sass_relocations_read(struct sass_file *file, const struct sass_section *section, struct sass_relocations *to);

/* Puts relocations from number `first` on in order of their offsets. */
void sass_relocations_sort(struct sass_relocations *relocations, uint32_t first);

/* Reads the variables, their relocations and the symbols that are not defined. False: the file's error says why. */
bool sass_data_read(struct sass_file *file, struct sass_cubin *cubin);
/* Makes the names of variables unique, and names in PTX. */
bool sass_data_name(struct sass_file *file, struct sass_cubin *cubin);
void sass_data_free(struct sass_cubin *cubin);

#endif

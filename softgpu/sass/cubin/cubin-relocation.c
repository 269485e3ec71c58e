/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "sass/cubin/cubin-data.h"
#include "sass/cubin/memory.h"

static bool make_room(struct sass_file *file, struct sass_relocations *r, uint64_t more)
{
	uint64_t room = r->room ? r->room : 16;
	struct sass_relocation *bigger;

	while (room < r->count + more)
		room *= 2;
	if (room == r->room)
		return true;
	bigger = room > UINT32_MAX ? NULL : sass_reallocate(r->list, room, sizeof(*r->list));
	if (!bigger)
		return sass_file_no_memory(file);
	r->list = bigger;
	r->room = (uint32_t)room;
	return true;
}

/* Where the file has no addends beside the relocations, those of data are in the data. */
static int64_t addend_in(const struct sass_section *target, uint64_t offset, uint32_t type)
{
	bool narrow = type == SASS_ADDRESS_32 || type == SASS_GENERIC_32;
	bool wide = type == SASS_ADDRESS_64 || type == SASS_GENERIC_64 || type == SASS_FUNCTION_64;
	uint64_t bytes = narrow ? 4 : 8, addend = 0;

	if ((target->flags & SHF_EXECINSTR) || !target->data || (!narrow && !wide) || target->bytes - offset < bytes)
		return 0;
	memcpy(&addend, target->data + offset, bytes);
	return narrow ? (int32_t)(uint32_t)addend : (int64_t)addend;
}

static bool read_one(struct sass_file *file, const struct sass_section *section, uint64_t n, struct sass_relocation *to)
{
	const struct sass_section *target = &file->sections[section->info];
	const struct sass_symbol *symbol;
	Elf64_Rela r = {0};

	if (section->type == SHT_RELA)
		memcpy(&r, section->data + n * sizeof(Elf64_Rela), sizeof(Elf64_Rela));
	else
		memcpy(&r, section->data + n * sizeof(Elf64_Rel), sizeof(Elf64_Rel));
	if (!target->data || r.r_offset >= target->bytes || ELF64_R_SYM(r.r_info) >= file->symbol_count)
		return sass_file_fail(file, "a relocation in `%s` is malformed", section->name);
	symbol = &file->symbols[ELF64_R_SYM(r.r_info)];
	*to = (struct sass_relocation){.offset = r.r_offset,
				       .type = ELF64_R_TYPE(r.r_info),
				       .symbol = symbol->name,
				       .symbol_section = symbol->section,
				       .symbol_value = symbol->value,
				       .is_function = symbol->type == STT_FUNC,
				       .addend = r.r_addend};
	if (section->type == SHT_REL)
		to->addend = addend_in(target, r.r_offset, to->type);
	return true;
}

bool sass_relocations_read(struct sass_file *file, const struct sass_section *section, struct sass_relocations *to)
{
	uint64_t count = section->bytes / (section->type == SHT_RELA ? sizeof(Elf64_Rela) : sizeof(Elf64_Rel));

	if (!section->data || !count)
		return true;
	if (!make_room(file, to, count))
		return false;
	for (uint64_t n = 0; n < count; n++)
		if (!read_one(file, section, n, &to->list[to->count++]))
			return false;
	return true;
}

static int by_offset(const void *a, const void *b)
{
	const struct sass_relocation *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void sass_relocations_sort(struct sass_relocations *r, uint32_t first)
{
	if (r->count - first > 1)
		qsort(r->list + first, r->count - first, sizeof(*r->list), by_offset);
}

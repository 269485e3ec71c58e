/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a cubin, and all that belongs to each. */
#include "sass/cubin/cubin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sass/cubin/cubin-data.h"
#include "sass/cubin/cubin-file.h"
#include "sass/cubin/cubin-info.h"
#include "sass/cubin/memory.h"

#define STO_CUDA_ENTRY 0x10
#define INSTRUCTION_BYTES 16
#define MAX_CONSTANT_BYTES (64u << 10)
#define MAX_SHARED_BYTES (1u << 20)
/* From this architecture on the system has so many bytes of a block's shared memory. */
#define RESERVED_SHARED_FROM 90
#define RESERVED_SHARED_BYTES 1024

/* A cubin that is being read. `by_section` has the function of each section's code, or NULL. */
struct reader {
	struct sass_cubin *cubin;
	struct sass_file *file;
	struct sass_function **by_section;
	struct sass_relocations bank4, *of_code; /* those of each function */
};

static bool is_code(const struct sass_section *s)
{
	return (s->flags & SHF_EXECINSTR) && s->data && sass_name_after(s->name, ".text.");
}

/* The low bits of the section's info are its symbol, the high bits the number of registers. */
static bool read_function(struct reader *r, uint32_t n, struct sass_function *f)
{
	const struct sass_section *s = &r->file->sections[n];
	uint32_t number = s->info & 0xffffff;
	const struct sass_symbol *symbol = number < r->file->symbol_count ? &r->file->symbols[number] : NULL;

	*f = (struct sass_function){.name = sass_name_after(s->name, ".text."),
				    .code = s->data,
				    .bytes = (uint32_t)s->bytes,
				    .section = n,
				    .registers = s->info >> 24};
	if (symbol && symbol->section == n && symbol->type == STT_FUNC) {
		f->name = symbol->name;
		f->kernel = symbol->other & STO_CUDA_ENTRY;
		f->global = symbol->binding != STB_LOCAL;
	}
	if (s->bytes == 0 || s->bytes % INSTRUCTION_BYTES || s->bytes > UINT32_MAX)
		return sass_file_fail(r->file, "the code of `%s` is not a number of instructions", f->name);
	r->by_section[n] = f;
	return true;
}

static bool read_functions(struct reader *r)
{
	struct sass_cubin *c = r->cubin;
	uint32_t count = 0;

	for (uint32_t n = 0; n < r->file->section_count; n++)
		count += is_code(&r->file->sections[n]);
	c->functions = sass_allocate(count + 1u, sizeof(*c->functions));
	r->of_code = sass_allocate(count + 1u, sizeof(*r->of_code));
	r->by_section = sass_allocate(r->file->section_count, sizeof(*r->by_section));
	if (!c->functions || !r->of_code || !r->by_section)
		return sass_file_no_memory(r->file);
	for (uint32_t n = 0; n < r->file->section_count; n++)
		if (is_code(&r->file->sections[n]) && !read_function(r, n, &c->functions[c->function_count++]))
			return false;
	return true;
}

static bool take_constants(struct reader *r, const struct sass_section *s, const uint8_t **data, uint32_t *bytes)
{
	if (s->bytes > MAX_CONSTANT_BYTES)
		return sass_file_fail(r->file, "`%s` has more than %u KiB", s->name, MAX_CONSTANT_BYTES >> 10);
	*data = s->data;
	*bytes = s->data ? (uint32_t)s->bytes : 0;
	return true;
}

static bool take_shared(struct reader *r, const struct sass_section *s, struct sass_function *f)
{
	if (s->bytes > MAX_SHARED_BYTES)
		return sass_file_fail(r->file, "`%s` has more than %u KiB", s->name, MAX_SHARED_BYTES >> 10);
	f->shared_bytes = (uint32_t)s->bytes;
	if (r->file->architecture >= RESERVED_SHARED_FROM && s->bytes >= RESERVED_SHARED_BYTES)
		f->shared_base = RESERVED_SHARED_BYTES;
	return true;
}

/* A section that belongs to a function: its info is the number of the section with the code. */
static bool read_part(struct reader *r, const struct sass_section *s, struct sass_function *f)
{
	if (sass_name_after(s->name, ".nv.constant0."))
		return take_constants(r, s, &f->constant0, &f->constant0_bytes);
	if (sass_name_after(s->name, ".nv.constant2."))
		return take_constants(r, s, &f->constant2, &f->constant2_bytes);
	if (sass_name_after(s->name, ".nv.shared."))
		return take_shared(r, s, f);
	if (sass_name_after(s->name, ".nv.info."))
		return sass_info_function(r->file, s, f);
	if (s->type == SHT_REL || s->type == SHT_RELA)
		return sass_relocations_read(r->file, s, &r->of_code[f - r->cubin->functions]);
	return true;
}

/* The linker gives each kernel the constants of its callees. */
static void note_constants(struct sass_cubin *c)
{
	bool differ = false;

	for (uint32_t n = 0; n < c->function_count; n++) {
		const struct sass_function *f = &c->functions[n];

		if (!f->kernel || !f->constant2)
			continue;
		differ |= c->callee_constant2 &&
			  (c->callee_constant2_bytes != f->constant2_bytes ||
			   memcmp(c->callee_constant2, f->constant2, f->constant2_bytes) != 0);
		c->callee_constant2 = f->constant2;
		c->callee_constant2_bytes = f->constant2_bytes;
	}
	if (differ)
		c->callee_constant2 = NULL;
}

/* A callee uses the shared memory of the kernel, and has no parameters of its own. */
static void note_callees(struct reader *r)
{
	struct sass_cubin *c = r->cubin;

	for (uint32_t n = 0; n < c->function_count; n++) {
		struct sass_function *f = &c->functions[n];

		c->has_callees |= !f->kernel;
		if (!f->kernel)
			f->param_count = f->param_bytes = 0;
		if (!f->kernel && r->file->architecture >= RESERVED_SHARED_FROM)
			f->shared_bytes = f->shared_base = RESERVED_SHARED_BYTES;
		if (f->frame_bytes > c->most_frame_bytes)
			c->most_frame_bytes = f->frame_bytes;
		if (f->registers > c->most_registers)
			c->most_registers = f->registers;
	}
}

static bool read_parts(struct reader *r)
{
	for (uint32_t n = 0; n < r->file->section_count; n++) {
		const struct sass_section *s = &r->file->sections[n];
		struct sass_function *f = s->info < r->file->section_count ? r->by_section[s->info] : NULL;

		if (f && !read_part(r, s, f))
			return false;
	}
	for (uint32_t n = 0; n < r->file->section_count; n++) {
		const struct sass_section *s = &r->file->sections[n];

		if (!strcmp(s->name, ".nv.info") && !sass_info_module(r->file, s, r->by_section))
			return false;
		if (!strcmp(s->name, ".nv.compat") && !sass_info_compat(r->file, s))
			return false;
	}
	for (uint32_t n = 0; n < r->cubin->function_count; n++)
		sass_info_finish(&r->cubin->functions[n], r->file->architecture);
	note_callees(r);
	note_constants(r->cubin);
	return true;
}

/* Constant bank 3 has variables, and bank 4 addresses and numbers. */
static bool read_banks(struct reader *r)
{
	struct sass_cubin *c = r->cubin;

	for (uint32_t n = 0; n < r->file->section_count; n++) {
		const struct sass_section *s = &r->file->sections[n];

		if (!strcmp(s->name, ".nv.constant3")) {
			c->constant3_section = n;
			if (!take_constants(r, s, &c->constant3, &c->constant3_bytes))
				return false;
		}
		if (!strcmp(s->name, ".nv.constant4") && !take_constants(r, s, &c->constant4, &c->constant4_bytes))
			return false;
		if ((s->type == SHT_REL || s->type == SHT_RELA) && s->info < r->file->section_count &&
		    !strcmp(r->file->sections[s->info].name, ".nv.constant4") &&
		    !sass_relocations_read(r->file, s, &r->bank4))
			return false;
	}
	return true;
}

/* Hands the relocations over, also after an error. */
static void keep_relocations(struct reader *r)
{
	struct sass_cubin *c = r->cubin;

	for (uint32_t n = 0; r->of_code && n < c->function_count; n++) {
		sass_relocations_sort(&r->of_code[n], 0);
		c->functions[n].relocations = r->of_code[n].list;
		c->functions[n].relocation_count = r->of_code[n].count;
	}
	sass_relocations_sort(&r->bank4, 0);
	c->bank4 = r->bank4.list;
	c->bank4_count = r->bank4.count;
	free(r->of_code);
	free(r->by_section);
}

static bool read(struct reader *r)
{
	return read_functions(r) && read_parts(r) && read_banks(r) && sass_data_read(r->file, r->cubin);
}

int sass_cubin_open(const void *data, size_t bytes, struct sass_cubin **cubin, char *error, size_t room)
{
	struct reader r = {.cubin = sass_allocate(1, sizeof(*r.cubin)), .file = sass_allocate(1, sizeof(*r.file))};
	struct sass_file none = {.error = error, .room = room};
	int result = 0;

	*cubin = NULL;
	if (!r.cubin || !r.file) {
		sass_file_no_memory(&none);
		free(r.cubin);
		free(r.file);
		return -ENOMEM;
	}
	if (!sass_file_read(r.file, data, bytes, error, room) || !read(&r))
		result = r.file->no_memory ? -ENOMEM : -EINVAL;
	keep_relocations(&r);
	r.cubin->file = r.file;
	r.cubin->architecture = r.file->architecture;
	r.cubin->specific = r.file->specific;
	r.cubin->linked = r.file->linked;
	if (result)
		sass_cubin_close(r.cubin);
	else
		*cubin = r.cubin;
	return result;
}

void sass_cubin_close(struct sass_cubin *c)
{
	if (!c)
		return;
	for (uint32_t n = 0; n < c->function_count; n++) {
		free(c->functions[n].params);
		free(c->functions[n].relocations);
	}
	free(c->functions);
	free(c->bank4);
	sass_data_free(c);
	sass_file_free(c->file);
	free(c->file);
	free(c);
}

const struct sass_function *sass_function_in(const struct sass_cubin *c, uint32_t section)
{
	uint32_t low = 0, high = c->function_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (c->functions[middle].section < section)
			low = middle + 1;
		else
			high = middle;
	}
	return low < c->function_count && c->functions[low].section == section ? &c->functions[low] : NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relocations of code, which programs of several parts (-rdc=true) keep when they are linked: addresses of variables
 * and return addresses as immediates, and calls of functions that the driver has.
 */
#include "sass/lift/lifting.h"
#include "sass/cubin/whole.h"

/* NVIDIA's numbers: half of an address as an immediate of 32 bits. */
enum { LOW_HALF = 56, HIGH_HALF = 57 };

/* The relocation of the instruction at this offset; NULL: it has none. */
static const struct sass_relocation *relocation_at(const struct lift *l, uint32_t address)
{
	const struct sass_relocation *all = l->function->relocations;
	uint32_t low = 0, high = l->function->relocation_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (all[middle].offset < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low + 1 < l->function->relocation_count && all[low + 1].offset < (uint64_t)address + SASS_BYTES)
		refuse((struct lift *)l, " with two relocations");
	return low < l->function->relocation_count && all[low].offset < (uint64_t)address + SASS_BYTES ? &all[low]
												       : NULL;
}

static bool is_call(const struct sass_relocation *r)
{
	return r->type == SASS_CALL_75 || r->type == SASS_CALL_90;
}

/* The only immediate. */
static struct sass_operand *immediate(struct lift *l)
{
	struct sass_operand *operands[] = {&l->instr.a, &l->instr.b, &l->instr.c}, *found = NULL;

	for (unsigned int n = 0; n < 3; n++) {
		if (operands[n]->kind != SASS_IMMEDIATE)
			continue;
		if (found)
			return NULL;
		found = operands[n];
	}
	return found;
}

/* The lower half of a return address is the offset in the function; another function's has the place in its section. */
static bool relocate_function(struct lift *l, const struct sass_relocation *r, struct sass_operand *o)
{
	uint64_t offset = r->symbol_value + (uint64_t)r->addend, address;

	if (!r->symbol_section)
		return refuse(l, " with the address of %.60s", r->symbol);
	address = vcuda_sass_address(r->symbol_section, offset);
	o->number = (uint32_t)(r->type == HIGH_HALF ? address >> 32 : address);
	return true;
}

static bool relocate_variable(struct lift *l, const struct sass_relocation *r, struct sass_operand *o)
{
	struct value low, high;

	if (o->number)
		return refuse(l, " with an offset from the address of %.60s", r->symbol);
	unpack(l, variable_address(l, r), &low, &high);
	l->relocated = in_register(l, r->type == HIGH_HALF ? high : low);
	o->kind = SASS_RELOCATED;
	return true;
}

bool relocate(struct lift *l)
{
	const struct sass_relocation *r;
	struct sass_operand *o;

	/* NVIDIA's driver may turn a YIELD into a NOP. */
	if (l->i->form->function == SASS_LIFT_NONE)
		return true;
	r = relocation_at(l, l->i->address);
	if (!r || (l->i->form->function == SASS_LIFT_CALL_ABS && is_call(r)))
		return true;
	o = r->type == LOW_HALF || r->type == HIGH_HALF ? immediate(l) : NULL;
	if (!o)
		return refuse(l, " with relocation %u of %.60s", r->type, r->symbol);
	return r->is_function ? relocate_function(l, r, o) : relocate_variable(l, r, o);
}

const char *external_callee(const struct lift *l)
{
	const struct sass_relocation *r = relocation_at(l, l->i->address);

	return r && r->is_function && !r->symbol_section ? r->symbol : NULL;
}

bool local_callee(const struct lift *l, uint32_t address, uint32_t *target)
{
	const struct sass_relocation *r = relocation_at(l, address);
	uint64_t offset = r ? r->symbol_value + (uint64_t)r->addend : 0;

	*target = (uint32_t)offset;
	return r && is_call(r) && r->symbol_section == l->function->section && offset < l->function->bytes &&
	       offset % SASS_BYTES == 0;
}

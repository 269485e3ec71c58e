/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant banks. Bank 0 has the launch's shape and the parameters, bank 2 constants of the kernel, bank 3 the
 * __constant__ variables, and bank 4 addresses of variables and functions.
 */
#include <stdio.h>
#include <string.h>

#include "sass/lift/lifting.h"

/* Bank 0 below the parameters. The driver writes it for each launch. */
enum {
	SHARED_BASE = 0x18,
	LOCAL_BASE = 0x20,
	STACK_TOP = 0x28,
	DYNAMIC_SHARED = 0x2c,
	ENVIRONMENT_90 = 0x40, /* of %envreg0, with the others behind it */
	BANK_BASE_80 = 0x40,   /* of bank 0 */
	CONSTANT_BASE_80 = 0x50,
	ENVIRONMENT_80 = 0x88,
	CONSTANT_BASE_90 = 0xd0,
	RESERVED_END_90 = 0x68, /* of the block's reserved memory; behind it %reserved_smem_offset_1 */
	RESERVED_SHARED = 0x114,
	DESCRIPTOR_80 = 0x118,
	RESERVED_END_80 = 0x120,
	PARAM_BASE_90 = 0x198, /* of the parameters in bank 0 */
	DESCRIPTOR_90 = 0x208
};

/* The steps that a comparison with an offset counts as: its text is three instructions. */
#define COMPARISON_STEPS 100

/* The generic address of bank 3. Without variables it is 0, which is below all addresses. */
static struct value constant_base(struct lift *l)
{
	struct value base = temporary(l, TEMPORARY_64);

	for (uint32_t n = 0; n < l->cubin->variable_count; n++) {
		const struct sass_variable *v = &l->cubin->variables[n];

		if (v->space != SASS_CONSTANT)
			continue;
		emit(l, "mov.u64 %s, %s", base.text, v->name);
		emit(l, "cvta.const.u64 %s, %s", base.text, base.text);
		return v->offset ? compute64(l, "sub.u64", "%s, %llu", base.text, (unsigned long long)v->offset) : base;
	}
	emit(l, "mov.u64 %s, 0", base.text);
	return base;
}

/* The generic address of bank 0, or from sm_90 on of the parameters in it. It is used for parameters alone. */
static struct value param_area(struct lift *l)
{
	const struct sass_function *f = l->function;
	struct value base;

	if (!f->param_count) {
		refuse(l, " with the address of parameters that are not there");
		return value_of("0");
	}
	base = compute64(l, "mov.b64", "$vcuda_p0");
	base = compute64(l, "cvta.param.u64", "%s", base.text);
	return compute64(l, "sub.u64", "%s, %u", base.text,
			 f->params[0].offset + (l->cubin->architecture >= 90 ? 0 : f->param_base));
}

static struct value launch_word(struct lift *l, uint32_t offset)
{
	static const char *const shape[] = {"%ntid.x", "%ntid.y", "%ntid.z", "%nctaid.x", "%nctaid.y", "%nctaid.z"};
	bool is_90 = l->cubin->architecture >= 90;
	uint32_t descriptor = is_90 ? DESCRIPTOR_90 : DESCRIPTOR_80,
		 constants = is_90 ? CONSTANT_BASE_90 : CONSTANT_BASE_80,
		 environment = is_90 ? ENVIRONMENT_90 : ENVIRONMENT_80, params = is_90 ? PARAM_BASE_90 : BANK_BASE_80,
		 reserved_end = is_90 ? RESERVED_END_90 : RESERVED_END_80;
	const char *window;
	struct value low, high;

	if (offset < SHARED_BASE)
		return compute32(l, "mov.u32", "%s", shape[offset / 4]);
	if (offset == STACK_TOP)
		return value_of("%u", frame_of(l));
	if (offset == DYNAMIC_SHARED)
		return compute32(l, "mov.u32", "%%dynamic_smem_size");
	if (offset == constants || offset == constants + 4) {
		unpack(l, constant_base(l), &low, &high);
		return offset % 8 ? high : low;
	}
	if (offset == params || offset == params + 4) {
		unpack(l, param_area(l), &low, &high);
		return offset % 8 ? high : low;
	}
	/* A grid that waits for itself has the address of its launch's workspace here. */
	if (offset == environment + 4 || offset == environment + 8)
		return compute32(l, "mov.u32", "%s", offset == environment + 4 ? "%envreg1" : "%envreg2");
	if (offset == descriptor || offset == descriptor + 4 || offset == RESERVED_SHARED)
		return value_of("0");
	if ((offset == reserved_end || offset == reserved_end + 4) && is_callee(l)) {
		refuse(l, " of reserved shared memory in a function that is called by its address");
		return value_of("0");
	}
	if (offset == reserved_end || offset == reserved_end + 4) {
		l->uses_shared = l->uses_reserved = true;
		return offset == reserved_end ? compute32(l, "add.u32", "%%reserved, %u", VCUDA_RESERVED_BYTES - VCUDA_RESERVED_OFFSET_1)
					      : value_of("%%reserved");
	}
	if (offset >= STACK_TOP) {
		refuse(l, " with constant c[0][%#x]", offset);
		return value_of("0");
	}
	window = offset < LOCAL_BASE ? "shared" : "local";
	unpack(l, compute64(l, offset < LOCAL_BASE ? "cvta.shared.u64" : "cvta.local.u64", "%%%s64", window), &low,
	       &high);
	if (offset < LOCAL_BASE)
		l->uses_shared = true;
	else
		l->uses_local = true;
	return offset % 8 ? high : low;
}

/* Parameters are in order of offsets and do not overlap. */
static const struct sass_param *param_at(const struct sass_function *f, uint32_t offset)
{
	uint32_t low = 0, high = f->param_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (f->params[middle].offset + f->params[middle].bytes <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < f->param_count && f->params[low].offset <= offset ? &f->params[low] : NULL;
}

static unsigned int param_number(const struct lift *l, const struct sass_param *p)
{
	return (unsigned int)(p - l->function->params);
}

/* `bytes` of the parameters as an unsigned number; what is beside parameters is 0. */
static struct value param_part(struct lift *l, uint32_t offset, unsigned int bytes)
{
	const struct sass_param *p = param_at(l->function, offset);
	struct value low, high;

	if (p && offset - p->offset + bytes <= p->bytes)
		return compute32(l,
				 bytes == 4   ? "ld.param.b32"
				 : bytes == 2 ? "ld.param.u16"
					      : "ld.param.u8",
				 "[$vcuda_p%u+%u]", param_number(l, p), offset - p->offset);
	if (bytes == 1)
		return value_of("0");
	low = in_register(l, param_part(l, offset, bytes / 2));
	high = in_register(l, param_part(l, offset + bytes / 2, bytes / 2));
	return compute32(l, "prmt.b32", "%s, %s, %s", low.text, high.text, bytes == 4 ? "0x5410" : "0x3340");
}

/* The address of the byte of bank 3, as the name of its variable and an offset. */
static bool constant_at(struct lift *l, uint32_t offset, char *name, size_t room)
{
	const struct sass_variable *v = sass_variable_at(l->cubin, l->cubin->constant3_section, offset);

	if (!v)
		return refuse(l, " with constant c[3][%#x], which no variable has", offset);
	if (snprintf(name, room, "%s+%u", v->name, (unsigned int)(offset - v->offset)) >= (int)room)
		return refuse(l, " with a name that is too long");
	return true;
}

/* The first address of bank 4 at an offset or behind it; NULL: there is none. */
static const struct sass_relocation *next_address(const struct lift *l, uint32_t offset)
{
	uint32_t low = 0, high = l->cubin->bank4_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (l->cubin->bank4[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low < l->cubin->bank4_count ? &l->cubin->bank4[low] : NULL;
}

static const struct sass_relocation *address_at(const struct lift *l, uint32_t offset)
{
	const struct sass_relocation *r = next_address(l, offset);

	return r && r->offset == offset ? r : NULL;
}

/* A number of bank 4, such as __UFT_OFFSET as the linker has set it. False: an address or nothing is there. */
static bool number_at(const struct lift *l, uint32_t offset, uint64_t *number)
{
	const struct sass_relocation *r = next_address(l, offset < 8 ? 0 : offset - 7);

	if (offset > l->cubin->constant4_bytes || l->cubin->constant4_bytes - offset < sizeof(*number) ||
	    (r && r->offset < (uint64_t)offset + sizeof(*number)))
		return false;
	memcpy(number, l->cubin->constant4 + offset, sizeof(*number));
	return true;
}

struct value variable_address(struct lift *l, const struct sass_relocation *r)
{
	const struct sass_variable *v = sass_variable_at(l->cubin, r->symbol_section, r->symbol_value);
	struct value address = temporary(l, TEMPORARY_64);
	long long offset = (long long)((v ? r->symbol_value - v->offset : 0) + (uint64_t)r->addend);

	if (!v && (r->symbol_section || !sass_is_name(r->symbol))) {
		refuse(l, " with the address of something that is no variable");
		return value_of("0");
	}

	emit(l, "mov.u64 %s, %s", address.text, v ? v->name : r->symbol);
	if (v && v->space == SASS_CONSTANT)
		emit(l, "cvta.const.u64 %s, %s", address.text, address.text);
	else
		emit(l, "cvta.global.u64 %s, %s", address.text, address.text);
	return offset ? compute64(l, "add.s64", "%s, %lld", address.text, offset) : address;
}

static struct value address_bank(struct lift *l, uint32_t offset)
{
	const struct sass_relocation *r = address_at(l, offset);
	uint64_t number;

	if (!r && number_at(l, offset, &number))
		return value_of("0x%llx", (unsigned long long)number);
	if (!r) {
		refuse(l, " with constant c[4][%#x], which is not there", offset);
		return value_of("0");
	}
	if (r->symbol_section && sass_function_in(l->cubin, r->symbol_section))
		return value_of("0x%llx",
				(unsigned long long)(vcuda_sass_address(r->symbol_section, r->symbol_value) +
						     (uint64_t)r->addend));
	if (r->is_function || (!r->symbol_section && !sass_variable_at(l->cubin, r->symbol_section, r->symbol_value)))
		return value_of("0x%x", SASS_EXTERNAL_BASE + offset);
	return variable_address(l, r);
}

static bool kernel_constant(struct lift *l, uint32_t offset, void *to, uint32_t bytes)
{
	if (!l->function->constant2 || offset > l->function->constant2_bytes ||
	    bytes > l->function->constant2_bytes - offset)
		return refuse(l, " with constant c[2][%#x], which is not there", offset);
	memcpy(to, l->function->constant2 + offset, bytes);
	return true;
}

struct value bank_64(struct lift *l, unsigned int bank, uint32_t offset)
{
	char name[1400];
	uint64_t number = 0;

	if (bank == 4)
		return address_bank(l, offset);
	if (bank == 2)
		return kernel_constant(l, offset, &number, sizeof(number))
			       ? value_of("0x%llx", (unsigned long long)number)
			       : value_of("0");
	if (bank == 3)
		return constant_at(l, offset, name, sizeof(name)) ? compute64(l, "ld.const.b64", "[%s]", name)
								  : value_of("0");
	if (bank == 0 && offset >= l->function->param_base) {
		uint32_t at = offset - l->function->param_base;
		const struct sass_param *p = param_at(l->function, at);

		if (p && at - p->offset + 8 <= p->bytes)
			return compute64(l, "ld.param.b64", "[$vcuda_p%u+%u]", param_number(l, p), at - p->offset);
	}
	return pack(l, bank_32(l, bank, offset), bank_32(l, bank, offset + 4));
}

struct value bank_32(struct lift *l, unsigned int bank, uint32_t offset)
{
	struct value low, high;
	char name[1400];
	uint32_t number = 0;

	switch (bank) {
	case 0:
		if (offset >= l->function->param_base)
			return param_part(l, offset - l->function->param_base, 4);
		return launch_word(l, offset & ~3u);
	case 2:
		return kernel_constant(l, offset, &number, sizeof(number)) ? value_of("0x%x", number) : value_of("0");
	case 3:
		return constant_at(l, offset, name, sizeof(name)) ? compute32(l, "ld.const.b32", "[%s]", name)
								  : value_of("0");
	case 4:
		unpack(l, address_bank(l, offset & ~7u), &low, &high);
		return offset % 8 ? high : low;
	default:
		refuse(l, " with constant bank %u", bank);
		return value_of("0");
	}
}

/* ---- at an index ---- */

static bool load(struct lift *l, const char *space, const char *type, struct value address, int64_t offset,
		 unsigned int count)
{
	if (writes_uniform(l) ? l->i->d == SASS_URZ : l->i->d == SASS_RZ)
		return true;
	forget_pairs(l, writes_uniform(l), l->i->d, count);
	if (count == 2)
		emit_guarded(l, "ld.%s.v2.b32 {%s, %s}, [%s+%lld]", space, destination(l, 0).text,
			     destination(l, 1).text, address.text, (long long)offset);
	else
		emit_guarded(l, "ld.%s.%s %s, [%s+%lld]", space, type, destination(l, 0).text, address.text,
			     (long long)offset);
	return true;
}

static bool load_param(struct lift *l, struct value index, uint32_t offset, const char *type, unsigned int count)
{
	const struct sass_function *f = l->function;
	uint32_t at = offset < f->param_base ? 0 : offset - f->param_base;
	const struct sass_param *p = param_at(f, at);
	struct value base, address;

	if (!p && f->param_count)
		p = &f->params[f->param_count - 1];
	if (!p)
		return refuse(l, " of parameters that are not there");
	base = temporary(l, TEMPORARY_64);
	emit(l, "mov.b64 %s, $vcuda_p%u", base.text, param_number(l, p));
	address = compute64(l, "cvt.s64.s32", "%s", index.text);
	address = compute64(l, "add.s64", "%s, %s", base.text, address.text);
	return load(l, "param", type, address, (int64_t)offset - f->param_base - p->offset, count);
}

static bool load_variable(struct lift *l, struct value index, uint32_t offset, const char *type, unsigned int count)
{
	char name[1400];
	struct value address;

	if (!constant_at(l, offset, name, sizeof(name)))
		return false;
	address = temporary(l, TEMPORARY_64);
	*strrchr(name, '+') = 0;
	emit(l, "mov.u64 %s, %s", address.text, name);
	address = compute64(l, "add.s64", "%s, %s", address.text, compute64(l, "cvt.s64.s32", "%s", index.text).text);
	return load(l, "const", type, address,
		    (int64_t)(offset - sass_variable_at(l->cubin, l->cubin->constant3_section, offset)->offset), count);
}

static bool load_kernel_constant(struct lift *l, struct value index, uint32_t offset, const char *type,
				 unsigned int count)
{
	struct value address = temporary(l, TEMPORARY_64);

	if (!l->function->constant2)
		return refuse(l, " of constants that are not there");
	l->uses_bank2 = true;
	emit(l, "mov.u64 %s, $vcuda_bank2_%u", address.text, l->function->section);
	address = compute64(l, "add.s64", "%s, %s", address.text, compute64(l, "cvt.s64.s32", "%s", index.text).text);
	/* beside a register the offset has a sign, as where a callee's constants have been moved */
	return load(l, "const", type, address, is_text(index, "0") ? (int64_t)offset : (int16_t)offset, count);
}

/* The word at an offset of bank 4 where the index plus the instruction's offset is that one; else the other value. */
static struct value select_address(struct lift *l, struct value index, uint32_t offset, uint32_t at, struct value other)
{
	struct value is = compute_predicate(l, "setp.eq.u32", "%s, 0x%x", index.text, at - offset);

	return compute64(l, "selp.b64", "%s, %s, %s", address_bank(l, at).text, other.text, is.text);
}

static uint64_t count_numbers(const struct lift *l)
{
	uint64_t count = 0, number;

	for (uint32_t at = 0; at < l->cubin->constant4_bytes; at += 8)
		count += number_at(l, at, &number) && number;
	return count;
}

/* The index is usually a constant that the code has loaded just before. Else it is compared with all offsets. */
static bool load_address(struct lift *l, struct value index, uint32_t offset, unsigned int count)
{
	uint8_t reg = l->i->a.reg;
	struct value result;
	uint64_t number;

	if (count != 2)
		return refuse(l, " of half an address at an index");
	if (l->i->a.kind == SASS_REGISTER && (reg == SASS_RZ || l->constants[reg].known)) {
		write_64(l, l->i->d, address_bank(l, offset + (reg == SASS_RZ ? 0 : l->constants[reg].number)));
		return true;
	}
	l->steps += l->cubin->constant4_bytes + COMPARISON_STEPS * (l->cubin->bank4_count + count_numbers(l));
	if (!may_search(l))
		return false;
	result = compute64(l, "mov.u64", "0");
	for (uint32_t n = 0; n < l->cubin->bank4_count && !l->failed && !l->body.failed; n++)
		result = select_address(l, index, offset, (uint32_t)l->cubin->bank4[n].offset, result);
	for (uint32_t at = 0; at < l->cubin->constant4_bytes && !l->failed && !l->body.failed; at += 8)
		if (number_at(l, at, &number) && number)
			result = select_address(l, index, offset, at, result);
	write_64(l, l->i->d, result);
	return true;
}

bool bank_indexed(struct lift *l, unsigned int bank, struct value index, uint32_t offset, const char *type,
		  unsigned int count)
{
	switch (bank) {
	case 0:
		return load_param(l, index, offset, type, count);
	case 2:
		return load_kernel_constant(l, index, offset, type, count);
	case 3:
		return load_variable(l, index, offset, type, count);
	case 4:
		return load_address(l, index, offset, count);
	default:
		return refuse(l, " with constant bank %u", bank);
	}
}

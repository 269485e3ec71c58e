/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and stores. */
#include <stdio.h>

#include "sass/lift/lifting.h"

/* Types of accesses, as in the table. */
/* U128 is how sm_75 reads 16 bytes that do not change. */
enum { TYPE_U8, TYPE_S8, TYPE_U16, TYPE_S16, TYPE_32, TYPE_64, TYPE_128, TYPE_U128, TYPE_COUNT };

static const char *const types[] = {"u8", "s8", "u16", "s16", "b32", "v2.b32", "v4.b32", "v4.b32"};

static unsigned int registers_of(int64_t type)
{
	return type >= TYPE_128 ? 4 : type == TYPE_64 ? 2 : 1;
}

/* Scope and strength of accesses. Before sm_80 they were two fields. */
static const char *order_of(const struct lift *l, const struct sass_instr *i)
{
	static const char *const orders[] = {".relaxed.cta", ".relaxed.cta", ".relaxed.gpu", ".relaxed.sys"};
	int64_t order = i->field[SASS_F_ORDER];

	if (l->cubin->architecture < 80)
		return order >> 2 == 2 ? orders[order & 3] : "";
	switch (order) {
	case 5:
	case 6:
		return ".relaxed.cta";
	case 7:
	case 8:
		return ".relaxed.gpu";
	case 9:
	case 10:
		return ".relaxed.sys";
	default:
		return "";
	}
}

const char *scope_of(struct lift *l, const struct sass_instr *i)
{
	const char *order = order_of(l, i);

	return order[0] ? order : ".relaxed.gpu";
}

/* {%r4, %r5, %r6, %r7}, or one name. */
static void name_registers(struct lift *l, unsigned int first, unsigned int count, bool source, char *to, size_t room)
{
	size_t length = 0;

	for (unsigned int n = 0; n < count; n++) {
		struct value v =
			source ? register_name(l, false, first == SASS_RZ ? first : first + n) : destination(l, n);

		if (source)
			v = in_register(l, v);
		length += (size_t)snprintf(to + length, room - length, "%s%s", n ? ", " : count > 1 ? "{" : "", v.text);
	}
	if (count > 1)
		snprintf(to + length, room - length, "}");
}

/* A load has a predicate of its own, whose number is inverted: where it does not hold, the result is 0. */
static void zero_first(struct lift *l, const struct sass_instr *i, unsigned int count)
{
	struct value p = with_guard(l, predicate(l, 7 ^ (unsigned int)i->field[SASS_F_PG], i->field[SASS_F_PG_NOT]));

	for (unsigned int n = 0; n < count; n++)
		emit_guarded(l, "mov.b32 %s, 0", destination(l, n).text);
	snprintf(l->guard, sizeof(l->guard), "@%.12s ", p.text);
}

static bool load(struct lift *l, const struct sass_instr *i, const char *space, struct value address)
{
	int64_t type = i->field[SASS_F_TYPE];
	unsigned int count = registers_of(type);
	char to[64];

	if (type >= TYPE_COUNT)
		return refuse(l, " of type %u", (unsigned int)type);
	if (i->form->function == SASS_LIFT_LDG && i->field[SASS_F_P0] != SASS_PT)
		return refuse(l, " with a second result");
	if (i->d == SASS_RZ)
		return true;
	name_registers(l, i->d, count, false, to, sizeof(to));
	forget_pairs(l, false, i->d, count);
	if (i->field[SASS_F_PG] || i->field[SASS_F_PG_NOT])
		zero_first(l, i, count);
	if (is_text(address, "0"))
		emit_guarded(l, "ld%s.%s %s, [%lld]", space, types[type], to, (long long)i->field[SASS_F_OFFSET]);
	else
		emit_guarded(l, "ld%s.%s %s, [%s+%lld]", space, types[type], to, address.text,
			     (long long)i->field[SASS_F_OFFSET]);
	return true;
}

static bool store(struct lift *l, const struct sass_instr *i, const char *space, struct value address)
{
	static const char *const stored[] = {"u8", "u8", "u16", "u16", "b32", "v2.b32", "v4.b32"};
	const struct sass_operand *data = i->b.kind ? &i->b : &i->c;
	int64_t type = i->field[SASS_F_TYPE];
	char from[128];

	if (type > TYPE_128)
		return refuse(l, " of type %u", (unsigned int)type);
	name_registers(l, data->reg, registers_of(type), true, from, sizeof(from));
	if (is_text(address, "0"))
		emit_guarded(l, "st%s.%s [%lld], %s", space, stored[type], (long long)i->field[SASS_F_OFFSET], from);
	else
		emit_guarded(l, "st%s.%s [%s+%lld], %s", space, stored[type], address.text,
			     (long long)i->field[SASS_F_OFFSET], from);
	return true;
}

static const char *qualified(const struct lift *l, const struct sass_instr *i, const char *space, char *to, size_t room)
{
	snprintf(to, room, "%s%s", order_of(l, i), space);
	return to;
}

/* Without a uniform register the offset has that one's bits, too. */
bool lift_ld(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;
	char space[40];

	if (!i->field[SASS_F_HAS_U] && !i->field[SASS_F_DESCRIPTOR])
		plain.field[SASS_F_OFFSET] = i->field[SASS_F_OFFSET] * 256 + i->field[SASS_F_U];
	return load(l, &plain, qualified(l, i, "", space, sizeof(space)), generic_address_of(l, i));
}

bool lift_ldg(struct lift *l, const struct sass_instr *i)
{
	char space[40];

	return load(l, i, qualified(l, i, ".global", space, sizeof(space)), address_of(l, i));
}

bool lift_st(struct lift *l, const struct sass_instr *i)
{
	char space[40];

	return store(l, i, qualified(l, i, "", space, sizeof(space)), generic_address_of(l, i));
}

bool lift_stg(struct lift *l, const struct sass_instr *i)
{
	char space[40];

	return store(l, i, qualified(l, i, ".global", space, sizeof(space)), address_of(l, i));
}

bool lift_lds(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;
	struct value address = shared_address(l, &plain, &i->a);

	return load(l, &plain, l->polls[i->address / SASS_BYTES] ? ".relaxed.cta.shared" : ".shared", address);
}

bool lift_sts(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;
	struct value address = shared_address(l, &plain, &i->a);

	return store(l, &plain, ".shared", address);
}

bool lift_ldl(struct lift *l, const struct sass_instr *i)
{
	return load(l, i, ".local", local_address(l, i));
}

bool lift_stl(struct lift *l, const struct sass_instr *i)
{
	return store(l, i, ".local", local_address(l, i));
}

bool lift_ldc(struct lift *l, const struct sass_instr *i)
{
	int64_t type = i->field[SASS_F_TYPE];
	uint32_t offset = (uint32_t)i->field[SASS_F_OFFSET];
	unsigned int bank = (unsigned int)i->field[SASS_F_BANK];

	if (type > TYPE_64)
		return refuse(l, " of type %u", (unsigned int)type);
	if (i->field[SASS_F_MODE])
		return refuse(l, " in mode %u", (unsigned int)i->field[SASS_F_MODE]);
	if (i->a.reg != SASS_RZ)
		return bank_indexed(l, bank, source_bits(l, &i->a), offset, types[type], registers_of(type));
	if (type == TYPE_64)
		write_64(l, i->d, bank_64(l, bank, offset));
	else if (type == TYPE_32)
		write_32(l, i->d, bank_32(l, bank, offset));
	else
		write_32(l, i->d,
			 compute32(l, type == TYPE_U8 || type == TYPE_U16 ? "bfe.u32" : "bfe.s32", "%s, %u, %u",
				   in_register(l, bank_32(l, bank, offset & ~3u)).text, offset % 4 * 8,
				   type >= TYPE_U16 ? 16u : 8u));
	return true;
}

bool lift_uldc(struct lift *l, const struct sass_instr *i)
{
	uint32_t offset = (uint32_t)i->field[SASS_F_OFFSET];
	unsigned int bank = (unsigned int)i->field[SASS_F_BANK];
	int64_t type = i->field[SASS_F_TYPE];

	if (i->field[SASS_F_INDEXED] && type <= TYPE_64)
		return bank_indexed(l, bank, register_name(l, true, (unsigned int)i->field[SASS_F_INDEX] & 63), offset,
				    types[type], registers_of(type));
	if (type == TYPE_64)
		write_64(l, i->d, bank_64(l, bank, offset));
	else if (type == TYPE_32)
		write_32(l, i->d, bank_32(l, bank, offset));
	else if (type < TYPE_32)
		write_32(l, i->d,
			 compute32(l, type == TYPE_U8 || type == TYPE_U16 ? "bfe.u32" : "bfe.s32", "%s, %u, %u",
				   in_register(l, bank_32(l, bank, offset & ~3u)).text, offset % 4 * 8,
				   type >= TYPE_U16 ? 16u : 8u));
	else
		return refuse(l, " of 128 bits");
	return true;
}

/* With ZFILL the lower bits of the address are the number of bytes that are not read. Zeroes take their place. */
static struct value filled(struct lift *l, const struct sass_instr *i, unsigned int bytes, struct value *from)
{
	struct value low, high, missing, count;

	unpack(l, *from, &low, &high);
	low = compute32(l, "add.u32", "%s, %lld", low.text, (long long)i->field[SASS_F_OFFSET]);
	missing = compute32(l, "and.b32", "%s, %u", low.text, bytes - 1);
	*from = compute64(l, "sub.u64", "%s, %s", from->text, compute64(l, "cvt.u64.u32", "%s", missing.text).text);
	count = compute32(l, "sub.u32", "%u, %s", bytes, missing.text);
	return compute32(l, "selp.b32", "%s, 0, %s", count.text,
			 predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]).text);
}

/*
 * Global to shared memory. Where the predicate does not hold, zeroes are written. A uniform register adds to one of the
 * addresses.
 */
static bool copy(struct lift *l, const struct sass_instr *i, bool uniform_target)
{
	struct sass_operand to = {.kind = SASS_REGISTER, .reg = i->d};
	int64_t type = i->field[SASS_F_TYPE];
	unsigned int bytes;
	struct sass_instr plain = *i;
	struct value from, target, count;
	char statement[200];
	int length;

	if (type < TYPE_32 || type > TYPE_128)
		return refuse(l, " of type %u", (unsigned int)type);
	bytes = 4u << (type - TYPE_32);
	plain.field[SASS_F_WIDE] = 1;
	plain.field[SASS_F_HAS_U] &= !uniform_target;
	from = in_register_64(l, address_of(l, &plain));
	plain.field[SASS_F_HAS_U] = uniform_target;
	plain.field[SASS_F_SCALE] = 0;
	plain.field[SASS_F_OFFSET] = i->field[SASS_F_OFFSET_TO];
	target = shared_address(l, &plain, &to);
	length = snprintf(statement, sizeof(statement), "cp.async.%s.shared.global [%s+%lld], ",
			  bytes == 16 && !i->field[SASS_F_CACHED] ? "cg" : "ca", target.text,
			  (long long)plain.field[SASS_F_OFFSET]);
	if (i->field[SASS_F_FILL])
		count = filled(l, i, bytes, &from);
	else
		count = compute32(l, "selp.b32", "%u, 0, %s", bytes,
				  predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT]).text);
	emit_guarded(l, "%.*s[%s+%lld], %u, %s", length, statement, from.text, (long long)i->field[SASS_F_OFFSET],
		     bytes, count.text);
	return true;
}

bool lift_ldgsts(struct lift *l, const struct sass_instr *i)
{
	return copy(l, i, false);
}

bool lift_ldgsts_u(struct lift *l, const struct sass_instr *i)
{
	return copy(l, i, true);
}

bool lift_ldgdepbar(struct lift *l, const struct sass_instr *i)
{
	emit_guarded(l, "cp.async.commit_group");
	return true;
}

/* Only the scoreboard of LDGSTS has a counterpart. */
bool lift_depbar(struct lift *l, const struct sass_instr *i)
{
	if (i->field[SASS_F_LESS] && i->field[SASS_F_BARRIER] == 0)
		emit_guarded(l, "cp.async.wait_group %u", (unsigned int)i->field[SASS_F_COUNT]);
	return true;
}

bool lift_membar(struct lift *l, const struct sass_instr *i)
{
	static const char *const scopes[] = {"cta", "cta", "gpu", "sys"};

	/* sm_75 has one strength */
	emit_guarded(l, "fence.%s.%s", i->field[SASS_F_STRENGTH] & 2 && l->cubin->architecture >= 80 ? "acq_rel" : "sc",
		     scopes[i->field[SASS_F_SCOPE] & 3]);
	return true;
}

/* The predicate: whether the address is of the space. */
bool lift_qspc(struct lift *l, const struct sass_instr *i)
{
	static const char *const spaces[] = {"isspacep.global", "isspacep.local", "isspacep.shared", NULL};
	const char *space = spaces[i->field[SASS_F_SPACE]];
	struct value a = generic_address_of(l, i);

	if (!space && i->d == SASS_RZ && !l->function->cluster[0]) { /* the memory of another block of the cluster */
		write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], value_of("%%pf"));
		return true;
	}
	if (!space || i->d != SASS_RZ)
		return refuse(l, " of space %u", (unsigned int)i->field[SASS_F_SPACE]);
	if (i->field[SASS_F_OFFSET] || a.text[0] != '%')
		a = compute64(l, "add.s64", "%s, %lld", a.text, (long long)i->field[SASS_F_OFFSET]);
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], compute_predicate(l, space, "%s", a.text));
	return true;
}

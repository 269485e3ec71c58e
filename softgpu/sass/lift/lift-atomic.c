/* SPDX-License-Identifier: Apache-2.0 */
/* Atomic operations. */
#include <stdio.h>

#include "sass/lift/lifting.h"

static const char *const operations[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch"};

enum { OPERATION_ADD = 0, OPERATION_AND = 5, OPERATION_EXCH = 8, OPERATION_COUNT };

/* Types: U32, S32, U64, F32, F16x2, S64, F64. */
enum { TYPE_U32, TYPE_S32, TYPE_U64, TYPE_F32, TYPE_F16X2, TYPE_S64, TYPE_F64, TYPE_BF16X2, TYPE_COUNT };

static bool is_wide(int64_t type)
{
	return type == TYPE_U64 || type == TYPE_S64 || type == TYPE_F64;
}

/* PTX's suffix. NULL: not such an operation. */
static const char *suffix_of(int64_t operation, int64_t type)
{
	static const char *const types[] = {"u32", "s32", "u64", "f32", "noftz.f16x2", "s64", "f64", "noftz.bf16x2"};

	if (operation >= OPERATION_COUNT || type >= TYPE_COUNT)
		return NULL;
	if (operation >= OPERATION_AND)
		return is_wide(type) ? "b64" : "b32";
	if (type == TYPE_S64 && operation == OPERATION_ADD)
		return "u64";
	return types[type];
}

static struct value data_of(struct lift *l, const struct sass_operand *o, bool wide)
{
	if (!wide)
		return in_register(l, source_bits(l, o));
	return source_64(l, o);
}

static void write_old(struct lift *l, const struct sass_instr *i, const char *statement, struct value old, bool wide)
{
	emit_guarded(l, "%s", statement);
	if (i->d == SASS_RZ)
		return;
	if (wide)
		write_64(l, i->d, old);
	else
		write_32(l, i->d, old);
}

static bool atomic(struct lift *l, const struct sass_instr *i, const char *space, const char *order,
		   struct value address)
{
	int64_t operation = i->field[SASS_F_OPERATION], type = i->field[SASS_F_TYPE];
	const char *suffix = suffix_of(operation, type);
	bool wide = is_wide(type);
	struct value old, data;
	char statement[200];

	if (!suffix)
		return refuse(l, " of operation %u and type %u", (unsigned int)operation, (unsigned int)type);
	data = data_of(l, &i->b, wide);
	/* A loop with `atom` may wait for other threads, and lanes that leave it go ahead of the rest. */
	if (i->d == SASS_RZ && operation != OPERATION_EXCH) {
		emit_guarded(l, "red%s%s.%s.%s [%s+%lld], %s", order, space, operations[operation], suffix,
			     address.text, (long long)i->field[SASS_F_OFFSET], data.text);
		return true;
	}
	old = temporary(l, wide ? TEMPORARY_64 : TEMPORARY_32);
	snprintf(statement, sizeof(statement), "atom%s%s.%s.%s %s, [%s+%lld], %s", order, space, operations[operation],
		 suffix, old.text, address.text, (long long)i->field[SASS_F_OFFSET], data.text);
	write_old(l, i, statement, old, wide);
	return true;
}

static bool compare_and_swap(struct lift *l, const struct sass_instr *i, const char *space, const char *order,
			     struct value address)
{
	static const bool takes[8] = {[TYPE_U32] = true, [TYPE_S32] = true, [TYPE_U64] = true, [TYPE_S64] = true};
	bool wide = is_wide(i->field[SASS_F_TYPE]);
	struct value expected = data_of(l, &i->b, wide), data = data_of(l, &i->c, wide),
		     old = temporary(l, wide ? TEMPORARY_64 : TEMPORARY_32);
	char statement[200];

	if (!takes[i->field[SASS_F_TYPE]] || i->field[SASS_F_TEST] == 2)
		return refuse(l, " of type %u", (unsigned int)i->field[SASS_F_TYPE]);
	snprintf(statement, sizeof(statement), "atom%s%s.cas.%s %s, [%s+%lld], %s, %s", order, space,
		 wide ? "b64" : "b32", old.text, address.text, (long long)i->field[SASS_F_OFFSET], expected.text,
		 data.text);
	if (i->field[SASS_F_TEST]) { /* CAST: the result is whether the value was stored */
		struct value stored;

		emit_guarded(l, "%s", statement);
		stored = compute_predicate(l, wide ? "setp.eq.u64" : "setp.eq.u32", "%s, %s", old.text, expected.text);
		if (wide)
			write_64(l, i->d, compute64(l, "selp.b64", "1, 0, %s", stored.text));
		else
			write_32(l, i->d, one_if(l, stored));
		return true;
	}
	write_old(l, i, statement, old, wide);
	return true;
}

/* From sm_90 on integers have fewer types, and floating point numbers instructions of their own. */
static int64_t integer_type(const struct lift *l, const struct sass_instr *i)
{
	int64_t type = i->field[SASS_F_TYPE];

	if (l->cubin->architecture < 90 || type < TYPE_F32)
		return type;
	return type == TYPE_F32 ? TYPE_S64 : TYPE_COUNT;
}

/* The predicate says that it is done: it is where the address is not global, too. */
static bool generic(struct lift *l, const struct sass_instr *i)
{
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], value_of("%%pt"));
	return atomic(l, i, "", scope_of(l, i), generic_address_of(l, i));
}

bool lift_atom(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;

	plain.field[SASS_F_TYPE] = integer_type(l, i);
	return generic(l, &plain);
}

bool lift_atomg(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;

	plain.field[SASS_F_TYPE] = integer_type(l, i);
	return atomic(l, &plain, ".global", scope_of(l, i), address_of(l, i));
}

bool lift_atoms(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;
	struct value address = shared_address(l, &plain, &i->a);

	plain.field[SASS_F_TYPE] = integer_type(l, i);
	return atomic(l, &plain, ".shared", ".relaxed.cta", address);
}

bool lift_atom_cas(struct lift *l, const struct sass_instr *i)
{
	write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0], value_of("%%pt"));
	return compare_and_swap(l, i, "", scope_of(l, i), generic_address_of(l, i));
}

bool lift_atomg_cas(struct lift *l, const struct sass_instr *i)
{
	return compare_and_swap(l, i, ".global", scope_of(l, i), address_of(l, i));
}

bool lift_atoms_cas(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;
	struct value address = shared_address(l, &plain, &i->a);

	return compare_and_swap(l, &plain, ".shared", ".relaxed.cta", address);
}

static bool reduce(struct lift *l, const struct sass_instr *i, int64_t type)
{
	int64_t operation = i->field[SASS_F_OPERATION];
	const char *suffix = suffix_of(operation, type), *order = scope_of(l, i);
	struct value address = address_of(l, i), data;

	if (!suffix)
		return refuse(l, " of operation %u and type %u", (unsigned int)operation, (unsigned int)type);
	data = data_of(l, &i->b, is_wide(type));
	emit_guarded(l, "red%s.global.%s.%s [%s+%lld], %s", order, operations[operation], suffix, address.text,
		     (long long)i->field[SASS_F_OFFSET], data.text);
	return true;
}

bool lift_red(struct lift *l, const struct sass_instr *i)
{
	return reduce(l, i, integer_type(l, i));
}

/* Adds the number of the lanes: each one adds 1. */
bool lift_atoms_popc(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;
	struct value address = shared_address(l, &plain, &i->a);

	if (i->d != SASS_RZ)
		return refuse(l, " with a result");
	emit_guarded(l, "red.relaxed.cta.shared.add.u32 [%s+%lld], 1", address.text,
		     (long long)plain.field[SASS_F_OFFSET]);
	return true;
}

/* The types of floating point atomics of sm_90. */
static int64_t float_type(const struct sass_instr *i)
{
	switch (i->field[SASS_F_FTYPE]) {
	case 0:
		return TYPE_F16X2;
	case 3:
		return TYPE_BF16X2;
	case 9:
	case 12:
		return TYPE_F32;
	case 15:
		return TYPE_F64;
	default:
		return TYPE_COUNT;
	}
}

bool lift_redf(struct lift *l, const struct sass_instr *i)
{
	return reduce(l, i, float_type(i));
}

bool lift_atomf(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;

	plain.field[SASS_F_TYPE] = float_type(i);
	return generic(l, &plain);
}

bool lift_atomgf(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;

	plain.field[SASS_F_TYPE] = float_type(i);
	return atomic(l, &plain, ".global", scope_of(l, i), address_of(l, i));
}

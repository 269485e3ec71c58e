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

/*
 * An arrival at a barrier in shared memory, as mbarrier of sm_80 has it. The lower word of the barrier is 2^30 minus
 * the arrivals that a phase needs. Bit 31 of the upper word is the phase's parity, and the other bits are 2^31 minus
 * the arrivals that are missing. So the last arrival's carry changes the parity, and 2^31 minus the needed arrivals is
 * to be added. It is not yet added if lanes of one instruction arrive for several phases: the other bits are then less
 * than 2^30, and count the arrivals since the first of these phases was complete. `d`: the barrier before the arrival.
 */
static void arrive(struct lift *l, unsigned int d, struct value address, int64_t offset)
{
	struct value low = temporary(l, TEMPORARY_32), high = temporary(l, TEMPORARY_32), needed, missing, reload, late,
		     phases, since, last;

	emit_guarded(l, "ld.relaxed.cta.shared.u32 %s, [%s+%lld]", low.text, address.text, (long long)offset);
	emit_guarded(l, "atom.relaxed.cta.shared.add.u32 %s, [%s+%lld], 1", high.text, address.text,
		     (long long)offset + 4);
	needed = compute32(l, "sub.u32", "0x40000000, %s", low.text);
	reload = compute32(l, "sub.u32", "0x80000000, %s", needed.text);
	missing = compute32(l, "and.b32", "%s, 0x7fffffff", high.text);
	late = compute_predicate(l, "setp.lt.u32", "%s, 0x40000000", missing.text);
	phases = compute32(l, "div.u32", "%s, %s", missing.text, compute32(l, "max.u32", "%s, 1", needed.text).text);
	since = compute32(l, "sub.u32", "%s, %s", missing.text,
			  compute32(l, "mul.lo.u32", "%s, %s", phases.text, needed.text).text);
	since = compute32(l, "selp.b32", "%s, %s, %s", since.text, missing.text, late.text);
	last = compute_predicate(l, "setp.eq.u32", "%s, %s", compute32(l, "add.u32", "%s, 1", since.text).text,
				 compute32(l, "selp.b32", "%s, 0x80000000, %s", needed.text, late.text).text);
	emit(l, "@%s red.relaxed.cta.shared.add.u32 [%s+%lld], %s", with_guard(l, last).text, address.text,
	     (long long)offset + 4, reload.text);
	if (d == SASS_RZ)
		return;
	phases = compute32(l, "selp.b32", "%s, 0, %s", compute32(l, "add.u32", "%s, 1", phases.text).text, late.text);
	high = compute32(l, "mad.lo.u32", "%s, %s, %s", phases.text, reload.text, high.text);
	write_64(l, d, pack(l, low, high));
}

/* Atomics without a source: a count of the lanes, each of which adds 1, and an arrival at a barrier. */
bool lift_atoms_self(struct lift *l, const struct sass_instr *i)
{
	enum { ARRIVE = 9, POPC_INC = 10 };
	struct sass_instr plain = *i;
	struct value address = shared_address(l, &plain, &i->a);
	int64_t operation = i->field[SASS_F_OPERATION], type = i->field[SASS_F_TYPE];

	if (operation == ARRIVE && type == TYPE_U64)
		arrive(l, i->d, address, plain.field[SASS_F_OFFSET]);
	else if (operation == POPC_INC && type == TYPE_U32 && i->d == SASS_RZ)
		emit_guarded(l, "red.relaxed.cta.shared.add.u32 [%s+%lld], 1", address.text,
			     (long long)plain.field[SASS_F_OFFSET]);
	else
		return refuse(l, " of operation %u and type %u%s", (unsigned int)operation, (unsigned int)type,
			      i->d == SASS_RZ ? "" : " with a result");
	return true;
}

/* An arrival once the thread's copies to shared memory are complete: here the thread waits for them. */
bool lift_arrives(struct lift *l, const struct sass_instr *i)
{
	struct sass_instr plain = *i;
	struct value address = shared_address(l, &plain, &i->a);

	emit_guarded(l, "cp.async.wait_all");
	arrive(l, SASS_RZ, address, plain.field[SASS_F_OFFSET]);
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

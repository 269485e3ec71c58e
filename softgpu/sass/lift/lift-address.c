/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of memory. */
#include "sass/lift/lifting.h"

/* A uniform register adds to the address, unless it names a descriptor. */
static bool has_uniform(const struct sass_instr *i)
{
	return i->field[SASS_F_HAS_U] && !i->field[SASS_F_DESCRIPTOR];
}

static struct value sum(struct lift *l, struct value a, struct value b)
{
	if (is_text(a, "0"))
		return b;
	return is_text(b, "0") ? a : compute64(l, "add.u64", "%s, %s", a.text, b.text);
}

static struct value zero_extended(struct lift *l, struct value v)
{
	return is_text(v, "0") ? v : compute64(l, "cvt.u64.u32", "%s", v.text);
}

struct value address_of(struct lift *l, const struct sass_instr *i)
{
	struct sass_operand u = {.kind = SASS_UNIFORM, .reg = (uint8_t)(i->field[SASS_F_U] & 63)};
	bool wide = i->field[SASS_F_WIDE], with_u = has_uniform(i);
	struct value a;

	if (!wide)
		a = zero_extended(l, source_bits(l, &i->a));
	else if (with_u && !i->field[SASS_F_WIDE_A])
		a = zero_extended(l, source_bits(l, &i->a));
	else
		a = source_64(l, &i->a);
	if (with_u)
		a = sum(l, a, wide ? source_64(l, &u) : zero_extended(l, register_name(l, true, u.reg)));
	return a;
}

/* No address of a host and none of a function has this upper half. */
struct value generic_address_of(struct lift *l, const struct sass_instr *i)
{
	struct value a = address_of(l, i), low, high, shared, is;

	if (!l->shared_window)
		return a;
	l->uses_shared = true;
	a = in_register_64(l, a);
	unpack(l, a, &low, &high);
	is = compute_predicate(l, "setp.eq.u32", "%s, 0x%x", high.text, SASS_SHARED_WINDOW);
	shared = compute64(l, "add.u64", "%%shared64, %s", zero_extended(l, low).text);
	shared = compute64(l, "cvta.shared.u64", "%s", shared.text);
	return compute64(l, "selp.b64", "%s, %s, %s", shared.text, a.text, is.text);
}

struct value shared_address(struct lift *l, struct sass_instr *i, const struct sass_operand *o)
{
	struct value a = source_bits(l, o), u;
	unsigned int scale = (unsigned int)i->field[SASS_F_SCALE];

	l->uses_shared = true;
	if (scale && !is_text(a, "0"))
		a = compute32(l, "shl.b32", "%s, %u", a.text, scale + 1);
	if (i->field[SASS_F_HAS_U] && !i->field[SASS_F_DESCRIPTOR]) {
		u = register_name(l, true, (unsigned int)i->field[SASS_F_U] & 63);
		a = is_text(a, "0") ? u : compute32(l, "add.u32", "%s, %s", a.text, u.text);
	}
	a = is_text(a, "0") ? value_of("%%shared") : compute32(l, "add.u32", "%%shared, %s", a.text);
	/* %shared is below 0: only the sum of all is an address */
	if (l->function->shared_base && i->field[SASS_F_OFFSET]) {
		a = compute32(l, "add.u32", "%s, %lld", a.text, (long long)i->field[SASS_F_OFFSET]);
		i->field[SASS_F_OFFSET] = 0;
	}
	return a;
}

struct value local_address(struct lift *l, const struct sass_instr *i)
{
	struct value a = source_bits(l, &i->a), u;

	l->uses_local = true;
	if (i->field[SASS_F_HAS_U]) {
		u = register_name(l, true, (unsigned int)i->field[SASS_F_U] & 63);
		a = is_text(a, "0") ? u : compute32(l, "add.u32", "%s, %s", a.text, u.text);
	}
	return is_text(a, "0") ? value_of("%%local") : compute32(l, "add.u32", "%%local, %s", a.text);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of memory. */
#include <string.h>

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

static uint32_t writes_of(const struct lift *l, const struct sass_operand *o)
{
	return l->register_writes[o->kind == SASS_UNIFORM][o->reg];
}

static bool same_register(const struct sass_operand *a, const struct sass_operand *b)
{
	return a->kind == b->kind && a->reg == b->reg;
}

/* NULL: there is none. */
static const struct kept_address *find_kept(const struct lift *l, const struct kept_address *like)
{
	for (unsigned int n = 0; n < SASS_KEPT_ADDRESSES; n++) {
		const struct kept_address *k = &l->kept_addresses[n];

		if (k->known && k->local == like->local && k->scale == like->scale && same_register(&k->a, &like->a) &&
		    same_register(&k->u, &like->u) && k->a_writes == like->a_writes && k->u_writes == like->u_writes)
			return k;
	}
	return NULL;
}

/*
 * The sum of `base`, a register that is shifted, and a uniform register, if they are there. The same registers have
 * one sum, so that their accesses have the same register in PTX, too, and the bounds are checked together.
 */
static struct value sum_32(struct lift *l, const struct sass_instr *i, const struct sass_operand *o, const char *base)
{
	struct kept_address new = {.known = true, .local = !strcmp(base, "%local"), .a = *o};
	struct value a = source_bits(l, o), u = value_of("0");
	const struct kept_address *kept;

	new.scale = (unsigned int)i->field[SASS_F_SCALE];
	if (has_uniform(i)) {
		new.u = (struct sass_operand){.kind = SASS_UNIFORM, .reg = (uint8_t)(i->field[SASS_F_U] & 63)};
		new.u_writes = writes_of(l, &new.u);
		u = source_bits(l, &new.u);
	}
	if (is_text(a, "0") && is_text(u, "0"))
		return value_of("%s", base);
	new.a_writes = writes_of(l, &new.a);
	kept = find_kept(l, &new);
	if (kept)
		return kept->value;
	if (new.scale && !is_text(a, "0"))
		a = compute32(l, "shl.b32", "%s, %u", a.text, new.scale + 1);
	if (is_text(a, "0"))
		a = u;
	else if (!is_text(u, "0"))
		a = compute32(l, "add.u32", "%s, %s", a.text, u.text);
	new.value = compute32(l, "add.u32", "%s, %s", base, a.text);
	if (o->kind == SASS_REGISTER || o->kind == SASS_UNIFORM)
		l->kept_addresses[l->next_kept_address++ % SASS_KEPT_ADDRESSES] = new;
	return new.value;
}

struct value shared_address(struct lift *l, struct sass_instr *i, const struct sass_operand *o)
{
	struct value a = sum_32(l, i, o, "%shared");

	l->uses_shared = true;
	/* %shared is below 0: only the sum of all is an address */
	if (l->function->shared_base && i->field[SASS_F_OFFSET]) {
		a = compute32(l, "add.u32", "%s, %lld", a.text, (long long)i->field[SASS_F_OFFSET]);
		i->field[SASS_F_OFFSET] = 0;
	}
	return a;
}

struct value local_address(struct lift *l, const struct sass_instr *i)
{
	l->uses_local = true;
	return sum_32(l, i, &i->a, "%local");
}

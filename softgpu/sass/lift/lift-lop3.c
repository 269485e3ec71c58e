/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LOP3 by its truth table. The software GPU follows addresses through `and`, `or` and `xor`, and not through `lop3`: a
 * function of two inputs has these.
 */
#include "sass/lift/lifting.h"

#define ONES "0xffffffff"

/* A function of `count` inputs. The first one is the highest bit of the index into the table. */
struct function {
	unsigned int count, table;
	struct value in[3];
};

/* The table without input `n`, which has the value `bit`. */
static unsigned int table_without(const struct function *f, unsigned int n, unsigned int bit)
{
	unsigned int place = f->count - 1 - n, low = (1u << place) - 1, table = 0;

	for (unsigned int at = 0; at < 1u << (f->count - 1); at++) {
		unsigned int index = (at & ~low) << 1 | bit << place | (at & low);

		table |= (f->table >> index & 1) << at;
	}
	return table;
}

static void drop(struct function *f, unsigned int n, unsigned int bit)
{
	f->table = table_without(f, n, bit);
	f->count--;
	for (; n < f->count; n++)
		f->in[n] = f->in[n + 1];
}

/* Drops inputs that are constant in all bits, and those that the result does not depend on. */
static void simplify(struct function *f)
{
	for (unsigned int n = f->count; n--;) {
		if (is_text(f->in[n], ONES))
			drop(f, n, 1);
		else if (is_text(f->in[n], "0") || is_text(f->in[n], "0x0") ||
			 table_without(f, n, 0) == table_without(f, n, 1))
			drop(f, n, 0);
	}
}

static struct value invert(struct lift *l, struct value v, bool is_inverted)
{
	return is_inverted ? compute32(l, "not.b32", "%s", v.text) : v;
}

/* Both inputs count, so that these ten tables are all. */
static struct value of_two(struct lift *l, const struct function *f)
{
	static const struct {
		const char *operation;
		bool not_a, not_b, not_result;
	} how[16] = {
		[0x1] = {"or.b32", .not_result = true},  [0x2] = {"and.b32", .not_a = true},
		[0x4] = {"and.b32", .not_b = true},      [0x6] = {"xor.b32"},
		[0x7] = {"and.b32", .not_result = true}, [0x8] = {"and.b32"},
		[0x9] = {"xor.b32", .not_result = true}, [0xb] = {"or.b32", .not_a = true},
		[0xd] = {"or.b32", .not_b = true},       [0xe] = {"or.b32"},
	};
	struct value a = invert(l, in_register(l, f->in[0]), how[f->table].not_a);
	struct value b = invert(l, f->in[1], how[f->table].not_b);

	return invert(l, compute32(l, how[f->table].operation, "%s, %s", a.text, b.text), how[f->table].not_result);
}

static struct value result_of(struct lift *l, struct function *f)
{
	switch (f->count) {
	case 0:
		return value_of("%s", f->table ? ONES : "0");
	case 1:
		return invert(l, f->in[0], f->table == 1);
	case 2:
		return of_two(l, f);
	default:
		for (unsigned int n = 0; n < 3; n++)
			f->in[n] = in_register(l, f->in[n]);
		return compute32(l, "lop3.b32", "%s, %s, %s, 0x%x", f->in[0].text, f->in[1].text, f->in[2].text,
				 f->table);
	}
}

bool lift_lop3(struct lift *l, const struct sass_instr *i)
{
	struct function f = {3,
			     (unsigned int)i->field[SASS_F_LUT],
			     {source_bits(l, &i->a), source_bits(l, &i->b), source_bits(l, &i->c)}};
	struct value r;

	simplify(&f);
	r = result_of(l, &f);
	if (i->field[SASS_F_P0] != SASS_PT) {
		struct value is = compute_predicate(l, "setp.ne.u32", "%s, 0", r.text);

		write_predicate(l, 0, (unsigned int)i->field[SASS_F_P0],
				combine(l, i->field[SASS_F_AND] ? 0 : 1, is,
					predicate(l, (unsigned int)i->field[SASS_F_PC], i->field[SASS_F_PC_NOT])));
	}
	write_32(l, i->d, r);
	return true;
}

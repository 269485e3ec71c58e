/* SPDX-License-Identifier: Apache-2.0 */
/* Integers of 8 and 16 bits in registers. */
#include <stdio.h>

#include "sass/lift/lifting.h"

bool lift_idp(struct lift *l, const struct sass_instr *i)
{
	const char *types = i->field[SASS_F_SIGNED]     ? i->field[SASS_F_SIGNED_B] ? "s32.s32" : "s32.u32"
			    : i->field[SASS_F_SIGNED_B] ? "u32.s32"
							: "u32.u32";
	struct value a = in_register(l, source_bits(l, &i->a)), b = in_register(l, source_bits(l, &i->b)),
		     c = in_register(l, source_bits(l, &i->c));
	char operation[24];

	snprintf(operation, sizeof(operation), "%s.%s",
		 !i->field[SASS_F_TWO]   ? "dp4a"
		 : i->field[SASS_F_HIGH] ? "dp2a.hi"
					 : "dp2a.lo",
		 types);
	write_32(l, i->d, compute32(l, operation, "%s, %s, %s", a.text, b.text, c.text));
	return true;
}

/* |a - b| + c */
bool lift_vabsdiff(struct lift *l, const struct sass_instr *i)
{
	struct value a = in_register(l, source_bits(l, &i->a)), b = in_register(l, source_bits(l, &i->b)),
		     c = in_register(l, source_bits(l, &i->c));

	write_32(l, i->d,
		 compute32(l, i->field[SASS_F_SIGNED] ? "sad.s32" : "sad.u32", "%s, %s, %s", a.text, b.text, c.text));
	return true;
}

bool lift_vabsdiff4(struct lift *l, const struct sass_instr *i)
{
	const char *types = i->field[SASS_F_SIGNED] ? ".s32.s32.s32" : ".u32.u32.u32";
	struct value a = in_register(l, source_bits(l, &i->a)), b = in_register(l, source_bits(l, &i->b)),
		     c = in_register(l, source_bits(l, &i->c));
	char operation[40];

	snprintf(operation, sizeof(operation), "vabsdiff4%s%s", types, i->field[SASS_F_SUM] ? ".add" : "");
	write_32(l, i->d, compute32(l, operation, "%s, %s, %s", a.text, b.text, c.text));
	return true;
}

static struct value clamp(struct lift *l, struct value v, bool to_signed, bool wide)
{
	static const char *const least[] = {"0", "0", "-128", "-32768"}, *const most[] = {"255", "65535", "127",
											  "32767"};
	unsigned int n = (to_signed ? 2 : 0) + wide;

	return compute32(l, "min.s32", "%s, %s", compute32(l, "max.s32", "%s, %s", v.text, least[n]).text, most[n]);
}

/* Clamps a signed number to the range of a smaller type. */
bool lift_i2i(struct lift *l, const struct sass_instr *i)
{
	struct value v =
		clamp(l, in_register(l, source_bits(l, &i->b)), i->field[SASS_F_SIGNED], i->field[SASS_F_WIDE]);

	write_32(l, i->d, compute32(l, "and.b32", "%s, %s", v.text, i->field[SASS_F_WIDE] ? "0xffff" : "0xff"));
	return true;
}

/* Two signed numbers, clamped to a smaller type, below the lower bits of c. */
bool lift_i2ip(struct lift *l, const struct sass_instr *i)
{
	static const char *const sizes[] = {"8", "16", "2", "4"};
	unsigned int size = (unsigned int)i->field[SASS_F_SIZE];
	struct value a = in_register(l, source_bits(l, &i->a)), b = in_register(l, source_bits(l, &i->b)),
		     c = source_bits(l, &i->c);
	char operation[40];

	if (size == 1 && !is_text(c, "0"))
		return refuse(l, " with a third number");
	snprintf(operation, sizeof(operation), "cvt.pack.sat.%c%s.s32%s", i->field[SASS_F_SIGNED] ? 's' : 'u',
		 sizes[size], size == 1 ? "" : ".b32");
	if (size == 1)
		write_32(l, i->d, compute32(l, operation, "%s, %s", a.text, b.text));
	else
		write_32(l, i->d, compute32(l, operation, "%s, %s, %s", a.text, b.text, in_register(l, c).text));
	return true;
}

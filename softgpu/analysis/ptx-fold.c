/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idioms of compilers put the way that shapes are found for. `x << 32 >> n` is the low half of x, extended and
 * multiplied: what indexing with an int becomes that is kept in 64 bits, as the loops over a grid's threads do it. Its
 * shifts would lose what is known of the lanes.
 */
#include <string.h>

#include "analysis/ptx-body.h"

/* Largest distance of the two shifts. */
#define REACH 32

static bool is_shift(const struct ptx_instr *i, const char *name, const struct ptx_instr *of)
{
	return i->op && !strcmp(i->op->name, name) && ptx_types[i->type].bits == 64 && i->guard < 0 && i->count == 3 &&
	       i->ops[0].kind == PTX_OP_REG && i->ops[1].kind == PTX_OP_REG && i->ops[2].kind == PTX_OP_INT &&
	       (!of || i->ops[1].reg == of->ops[0].reg);
}

struct names {
	int32_t a, b;
	bool hit;
};

static void compare(void *data, int32_t reg)
{
	struct names *names = data;

	names->hit |= reg == names->a || reg == names->b;
}

/* Makes `i`, which shifts the result of `shl` back, a multiplication of what `shl` shifts. */
static bool multiply(struct ptx_body *body, struct ptx_instr *i, const struct ptx_instr *shl)
{
	uint8_t type = ptx_types[i->type].cls == 's' ? PTX_S32 : PTX_U32;
	uint64_t bits = i->ops[2].imm;
	struct ptx_operand *ops;

	/* the factor is a number of that type */
	if (bits > 32 || bits < (type == PTX_S32 ? 2 : 1))
		return true;
	ops = ptx_alloc(&body->arena, 3 * sizeof(*ops));
	if (!ops)
		return false;
	ops[0] = i->ops[0];
	ops[1] = shl->ops[1];
	ops[2] = i->ops[2];
	ops[2].imm = 1ull << (32 - bits);
	i->ops = ops;
	i->type = type;
	i->mods = M(WIDE);
	i->op = ptx_opcode_find("mul", 3, type, PTX_NONE, i->mods);
	return true;
}

/* Folds all that shifts back what instruction `at`, a shift by 32, has made. */
static bool fold(struct ptx_body *body, uint32_t at, uint32_t end)
{
	const struct ptx_instr *shl = &body->instrs[at];
	struct names names = {shl->ops[0].reg, shl->ops[1].reg, shl->ops[0].reg == shl->ops[1].reg};

	for (uint32_t k = at + 1; k < end && k <= at + REACH && !names.hit; k++) {
		struct ptx_instr *i = &body->instrs[k];

		if (is_shift(i, "shr", shl) && !multiply(body, i, shl))
			return ptx_body_fail(body, PTX_NO_MEMORY, i->line, "`%s` needs too much memory to compile",
					     body->function->name);
		ptx_instr_defs(body, i, compare, &names);
	}
	return true;
}

bool ptx_body_fold(struct ptx_body *body)
{
	for (uint32_t n = 0; n < body->block_count; n++) {
		const struct ptx_block *b = &body->blocks[n];

		for (uint32_t k = b->first; k < b->last; k++)
			if (is_shift(&body->instrs[k], "shl", NULL) && body->instrs[k].ops[2].imm == 32 &&
			    !fold(body, k, b->last))
				return false;
	}
	return true;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface instructions: the operands of all lanes go to one call of the runtime. */
#include "lower/ptx-emit.h"
#include "lower/ptx-lower.h"
#include "runtime/ptx-tex.h"

#define LANE_WORDS (PTX_LANES * 4) /* bytes of one operand of all lanes */
#define AREA_BYTES 1024            /* of data and extra */

static void put(struct lower *l, LLVMValueRef value, LLVMValueRef area, uint64_t at)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, value, field(l, area, at)), 4);
}

/* Stores so many elements of a vector, or the operand itself as the only one, from `*at` on. */
static bool put_elements(struct lower *l, const struct ptx_operand *o, unsigned count, unsigned type,
			 LLVMValueRef area, uint64_t *at)
{
	unsigned bytes = ptx_types[type].bits <= 32 ? 4 : 8;

	if (o->kind == PTX_OP_VECTOR ? o->count < count : count != 1)
		return false;
	for (unsigned n = 0; n < count; n++) {
		LLVMValueRef v = get(l, o->kind == PTX_OP_VECTOR ? &o->elements[n] : o, type);

		if (*at + bytes * PTX_LANES > AREA_BYTES)
			return false;
		put(l, resize(l, v, bytes * 8, false), area, *at);
		*at += bytes * PTX_LANES;
	}
	return true;
}

static bool put_coords(struct lower *l, const struct ptx_instr *i, const struct ptx_operand *o, uint64_t *at)
{
	unsigned count = ptx_geometry_coords(i->tex->geometry), n = 0;
	unsigned type = i->tex->float_coords ? PTX_F32 : PTX_S32;
	struct ptx_operand rest = *o;

	if (o->kind != PTX_OP_VECTOR)
		return put_elements(l, o, count, type, l->mem.data, at);
	if (o->count < count)
		return false;
	if (ptx_geometry_layered(i->tex->geometry)) {
		if (!put_elements(l, &o->elements[0], 1, PTX_U32, l->mem.data, at))
			return false;
		n = 1;
	}
	rest.elements += n;
	rest.count = (uint8_t)(o->count - n);
	return put_elements(l, &rest, count - n, type, l->mem.data, at);
}

/* Stores the operands behind the coordinates of a fetch: level or derivatives, then offsets of texels. */
static bool put_modifiers(struct lower *l, const struct ptx_instr *i, unsigned next, uint64_t at)
{
	unsigned dims = ptx_geometry_dims(i->tex->geometry);
	uint64_t extra = 2 * LANE_WORDS; /* behind the handles */

	if (i->tex->lod == PTX_LOD_LEVEL) {
		if (next == i->count || !put_elements(l, &i->ops[next++], 1, i->tex->float_coords ? PTX_F32 : PTX_S32,
						      l->mem.addresses, &extra))
			return false;
	} else if (i->tex->lod == PTX_LOD_GRADIENTS) {
		for (unsigned n = 0; n < 2; n++)
			if (next == i->count ||
			    !put_elements(l, &i->ops[next++], dims, PTX_F32, l->mem.addresses, &extra))
				return false;
	}
	if (i->tex->offsets) {
		/* a single value is one of a depth comparison, unless there is one dimension */
		if (i->ops[next].kind != PTX_OP_VECTOR && dims != 1)
			return false;
		if (!put_elements(l, &i->ops[next++], dims, PTX_S32, l->mem.data, &at))
			return false;
	}
	return next == i->count;
}

static LLVMValueRef result(struct lower *l, unsigned n, unsigned bits)
{
	LLVMValueRef v = LLVMBuildLoad2(l->b, type_for(l, int_type(l, bits)),
					field(l, l->mem.extra, n * bits / 8 * PTX_LANES), "");

	LLVMSetAlignment(v, 4);
	return v;
}

/* Four floats as two pairs of halves: the first of each goes down. */
static void take_halves(struct lower *l, const struct ptx_instr *i)
{
	for (unsigned n = 0; n < 2; n++) {
		LLVMValueRef half[2];

		for (unsigned k = 0; k < 2; k++)
			half[k] = resize(l, half_bits(l, to_float(l, result(l, 2 * n + k, 32), PTX_F32), PTX_F16, 0),
					 32, false);
		half[1] = LLVMBuildShl(l->b, half[1], int_const(l, 32, 16), "");
		set(l, &i->ops[0].elements[n], LLVMBuildOr(l->b, half[0], half[1], ""), false);
	}
}

static void take_results(struct lower *l, const struct ptx_instr *i)
{
	const struct ptx_tex *tex = i->tex;
	unsigned bits = tex->operation == PTX_SURF_LOAD && ptx_types[i->type].bits == 64 ? 64 : 32;
	const struct ptx_operand *to = &i->ops[0];

	if (i->type == PTX_F16X2) {
		take_halves(l, i);
		return;
	}
	for (unsigned n = 0; n < tex->count; n++) {
		const struct ptx_operand *o = to->kind == PTX_OP_VECTOR ? &to->elements[n] : to;
		LLVMValueRef v;

		if (o->kind == PTX_OP_SINK)
			continue;
		v = result(l, n, bits);
		if (tex->operation == PTX_IS_TYPE)
			v = resize(l, v, 1, false);
		set(l, o, v, false);
	}
}

static bool result_fits(const struct ptx_instr *i)
{
	const struct ptx_operand *to = &i->ops[0];

	return to->kind == PTX_OP_VECTOR ? to->count == i->tex->count : i->tex->count == 1;
}

bool emit_tex(struct lower *l, const struct ptx_instr *i)
{
	const struct ptx_tex *tex = i->tex;
	bool store = i->op->flags & PTX_F_NO_DST, fetch = tex->operation <= PTX_TEX_GATHER;
	unsigned next = store ? 0 : 1;
	uint64_t at = 0, extra = 2 * LANE_WORDS;
	LLVMValueRef args[8];

	if (!store && !result_fits(i))
		return false;
	l->at.lanes = l->version.width;
	LLVMSetAlignment(LLVMBuildStore(l->b, get(l, &i->ops[next++], PTX_U64), l->mem.addresses), 8);
	if (tex->geometry && (next == i->count || !put_coords(l, i, &i->ops[next++], &at)))
		return false;
	if (fetch && !put_modifiers(l, i, next, at))
		return false;
	if (tex->operation == PTX_TEX_QUERY && (i->count == 3) != tex->query_level)
		return false;
	if (tex->query_level && !put_elements(l, &i->ops[next], 1, PTX_S32, l->mem.addresses, &extra))
		return false;
	if (store && (next + 1 != i->count || !put_elements(l, &i->ops[next], tex->count, i->type, l->mem.data, &at)))
		return false;
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, l->low->sites[l->at.instr]);
	args[2] = l->version.width == 1 ? scalar_const(l->type.i32, 1) : l->at.mask;
	args[3] = l->mem.addresses;
	args[4] = l->mem.data;
	args[5] = field(l, l->mem.addresses, 2 * LANE_WORDS);
	args[6] = l->mem.extra;
	args[7] = l->fn.thread;
	call_runtime(l, "ptx_rt_tex", l->type.void_type, args, 8);
	if (!store)
		take_results(l, i);
	return true;
}

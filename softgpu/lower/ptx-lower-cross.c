/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crossings between the full and the masked version of a kernel: where they are, and how registers pass from one to
 * the other in the warp's frame.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "lower/ptx-lower.h"

bool lower_no_memory(struct ptx_body *body)
{
	return ptx_body_fail(body, PTX_NO_MEMORY, 0, "`%s` needs too much memory to compile", body->function->name);
}

/* ---- what both versions agree on ---- */

static void find_reentries(struct ptx_body *body, struct ptx_lowering *low)
{
	bool any = false;

	for (uint32_t n = 0; n < body->block_count; n++) {
		const struct ptx_block *b = &body->blocks[n];

		if (b->divergent && b->ipdom != PTX_NO_BLOCK)
			low->reenter[b->ipdom] = true;
		any |= b->divergent;
	}
	for (uint32_t n = 0; n < body->block_count && any; n++)
		if (body->blocks[n].barrier && body->blocks[n].succ[0] != PTX_NO_BLOCK)
			low->reenter[body->blocks[n].succ[0]] = true;
	/* lanes meet in front of a barrier, not inside it */
	for (uint32_t n = 0; n < body->block_count; n++)
		if (body->blocks[n].first == body->blocks[n].last && body->blocks[n].succ[0] == PTX_NO_BLOCK)
			low->reenter[n] = false;
}

static bool add_site(struct ptx_body *body, struct ptx_lowering *low, uint32_t k)
{
	const struct ptx_instr *i = &body->instrs[k];
	struct ptx_site *s;

	low->sites[k] = low->site_count;
	s = ptx_grow(&body->arena, (void **)&low->site_list, &low->site_count, &low->site_room, sizeof(*s));
	if (!s)
		return lower_no_memory(body);
	s->line = lower_line(body, i->line);
	s->provenance = PTX_NO_PROVENANCE;
	if (i->tex)
		s->tex = *i->tex;
	s->space = i->space;
	s->type = i->type;
	s->size = (uint8_t)(ptx_types[i->type].bits / 8);
	s->count = i->mods & M(V8) ? 8 : i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1;
	s->unused = i->unused;
	s->write = i->op->flags & (PTX_F_STORE | PTX_F_ATOM | PTX_F_WRITE);
	for (unsigned m = PTX_MOD_AND; m <= PTX_MOD_EXCH; m++)
		if ((i->op->flags & (PTX_F_ATOM | PTX_F_WRITE)) && (i->mods >> m & 1))
			s->operation = (uint8_t)m;
	if (i->op->flags & PTX_F_CALL)
		s->operation = (uint8_t)ptx_external_find(i->call);
	for (unsigned n = 0; n < i->count; n++)
		if (i->ops[n].kind == PTX_OP_MEM)
			s->imm = i->ops[n].reg >= 0 ? (int64_t)i->ops[n].imm : 0;
	return true;
}

bool prepare_lowering(struct ptx_body *body, struct ptx_lowering *low, unsigned lanes)
{
	uint64_t at = PTX_FRAME_HEAD;

	low->reenter = ptx_alloc(&body->arena, body->block_count + 1u);
	low->slots = ptx_alloc(&body->arena, (body->reg_count + 1u) * sizeof(*low->slots));
	low->sites = ptx_alloc(&body->arena, (body->instr_count + 1u) * sizeof(*low->sites));
	if (!low->reenter || !low->slots || !low->sites)
		return lower_no_memory(body);
	if (lanes > 1)
		find_reentries(body, low);
	for (uint32_t r = 0; r < body->reg_count; r++) {
		unsigned bits = ptx_types[body->regs[r].type].bits;
		uint64_t bytes = body->masked_shapes[r].kind == PTX_UNIFORM ? 16 : bits * PTX_LANES / 8;

		low->slots[r] = (uint32_t)at;
		at += (bytes + 63) & ~63ull;
	}
	if (at > (64u << 20))
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, body->function->line, "`%s` has too many registers",
				     body->function->name);
	low->pending_at = (uint32_t)at;
	low->frame_bytes = (uint32_t)at + 4 * body->block_count;
	if (body->has_warp_loop && !warp_loop_lay_out(body, low))
		return false;
	for (uint32_t k = 0; k < body->instr_count; k++) {
		low->sites[k] = UINT32_MAX;
		if ((body->instrs[k].op->flags & (PTX_F_LOAD | PTX_F_STORE | PTX_F_ATOM | PTX_F_CALL | PTX_F_SITE |
						     PTX_F_TEX)) &&
		    !add_site(body, low, k))
			return false;
	}
	return true;
}

/* ---- crossing over ---- */

/* More copies than this make optimising take minutes; quick code keeps next to nothing in registers anyway. */
#define MANY_COPIES 16384

static uint64_t count_registers(const struct ptx_body *body, const uint64_t *set)
{
	uint64_t count = 0;

	for (size_t w = 0; w < body->words; w++)
		count += (uint64_t)__builtin_popcountll(set[w]);
	return count;
}

static bool copies_dominate(const struct lower *l)
{
	const struct ptx_body *body = l->body;
	uint64_t copies = 0;

	for (uint32_t n = 0; n < body->block_count; n++) {
		if (body->blocks[n].divergent)
			copies += count_registers(body, body->blocks[n].live_out);
		if (l->low->reenter[n])
			copies += count_registers(body, body->blocks[n].live_in);
	}
	return copies > MANY_COPIES;
}

/* Chooses the registers that are always in the frame. */
static void choose_resident(struct lower *l)
{
	const struct ptx_body *body = l->body;

	for (uint32_t n = 0; n < body->block_count; n++)
		for (size_t w = 0; w < body->words; w++)
			l->regs.passed_on[w] |= body->blocks[n].live_in[w];
	/* as values, all that is live anywhere behind a call would pass through each subroutine */
	if (l->version.width == 1 && body->subroutine_count)
		memcpy(l->regs.resident, l->regs.passed_on, body->words * sizeof(*l->regs.resident));
	if (l->version.width > 1 && (l->version.masked ? body->block_count > PTX_MAX_BLOCKS_IN_REGISTERS
						       : l->version.quick || copies_dominate(l)))
		memcpy(l->regs.resident, l->regs.passed_on, body->words * sizeof(*l->regs.resident));
}

bool prepare_registers(struct lower *l)
{
	const struct ptx_body *body = l->body;
	struct lower_registers *regs = &l->regs;

	regs->storage = ptx_alloc(&l->body->arena, (body->reg_count + 1u) * sizeof(*regs->storage));
	regs->resident = ptx_alloc(&l->body->arena, (body->words + 1) * sizeof(*regs->resident));
	regs->passed_on = ptx_alloc(&l->body->arena, (body->words + 1) * sizeof(*regs->passed_on));
	if (!regs->storage || !regs->resident || !regs->passed_on)
		return false;
	choose_resident(l);
	return true;
}

void place_registers(struct lower *l)
{
	for (uint32_t r = 0; r < l->body->reg_count; r++)
		l->regs.storage[r] = PTX_HELD(l->body, l->regs.resident, r)
					     ? slot(l, r)
					     : LLVMBuildAlloca(l->b, storage_type(l, r), "");
}

static void clear(struct lower *l, uint32_t reg)
{
	LLVMSetAlignment(LLVMBuildStore(l->b, LLVMConstNull(storage_type(l, reg)), l->regs.storage[reg]), 1);
}

/*
 * A register that is read before it is written is 0, not undefined: LLVM may do anything with the latter. In the full
 * version such a register is live where the kernel begins. In the masked one, registers that a block passes on may be
 * read for waiting lanes, too; the others are written first, for all lanes. LLVM takes long over registers with two
 * stores: half of the passes' time in a kernel of 13,000 instructions.
 */
void clear_registers(struct lower *l)
{
	const struct ptx_body *body = l->body;
	const uint64_t *read = l->version.masked ? l->regs.passed_on : body->blocks[0].live_in;
	bool all = l->version.masked && body->block_count <= PTX_MAX_BLOCKS_IN_REGISTERS;

	for (uint32_t r = 0; r < body->reg_count; r++)
		if (!PTX_HELD(body, l->regs.resident, r) && (all || PTX_HELD(body, read, r)))
			clear(l, r);
}

/* The same, where a warp begins: the rest of the frame is defined, and not read before it is written. */
void clear_resident(struct lower *l)
{
	for (uint32_t r = 0; r < l->body->reg_count; r++)
		if (PTX_HELD(l->body, l->regs.resident, r) && PTX_HELD(l->body, l->body->blocks[0].live_in, r))
			clear(l, r);
}

LLVMValueRef slot(struct lower *l, uint32_t reg)
{
	return field(l, l->fn.frame, l->low->slots[reg]);
}

LLVMTypeRef storage_type(struct lower *l, uint32_t reg)
{
	LLVMTypeRef type = int_type(l, ptx_types[l->body->regs[reg].type].bits);

	return reg_shape(l, (int32_t)reg) == PTX_VARYING ? LLVMVectorType(type, PTX_LANES) : type;
}

/* The next one of a set of so many registers from `r` on, or `count`. */
static uint32_t next_of(const uint64_t *set, uint32_t r, uint32_t count)
{
	while (r < count && !(set[r >> 6] >> (r & 63)))
		r = (r | 63) + 1;
	return r < count ? r + (uint32_t)__builtin_ctzll(set[r >> 6] >> (r & 63)) : count;
}

void copy_live(struct lower *l, const uint64_t *live, uint32_t count, bool save)
{
	for (uint32_t r = 0; (r = next_of(live, r, count)) < count; r++) {
		LLVMValueRef from, to, value;

		if (PTX_HELD(l->body, l->regs.resident, r))
			continue;
		from = save ? l->regs.storage[r] : slot(l, r);
		to = save ? slot(l, r) : l->regs.storage[r];
		value = LLVMBuildLoad2(l->b, storage_type(l, r), from, "");
		LLVMSetAlignment(value, 1);
		value = LLVMBuildStore(l->b, value, to);
		LLVMSetAlignment(value, 1);
	}
}

void store_head(struct lower *l, uint64_t offset, LLVMValueRef value)
{
	LLVMBuildStore(l->b, value, field(l, l->fn.frame, offset));
}

LLVMValueRef load_head(struct lower *l, uint64_t offset)
{
	return LLVMBuildLoad2(l->b, l->type.i32, field(l, l->fn.frame, offset), "");
}

static void mark_live(void *data, int32_t reg)
{
	PTX_SET((uint64_t *)data, reg);
}

static void mark_dead(void *data, int32_t reg)
{
	((uint64_t *)data)[reg >> 6] &= ~(1ull << (reg & 63));
}

struct ptx_exit *add_exit(struct lower *l, uint32_t instr)
{
	struct ptx_body *body = l->body;
	const struct ptx_block *b = &body->blocks[l->at.block];
	struct ptx_exit *e =
		ptx_grow(&body->arena, (void **)&l->low->exits, &l->low->exit_count, &l->low->exit_room, sizeof(*e));

	/* in the middle of a block, any may be live */
	if (!e || !(e->live = ptx_alloc(&body->arena, (body->reg_count / 64 + 2u) * sizeof(*e->live)))) {
		lower_no_memory(body);
		return NULL;
	}
	e->block = l->at.block;
	e->instr = instr;
	e->others = PTX_NO_BLOCK;
	memcpy(e->live, b->live_out, body->words * sizeof(*e->live));
	if (instr == AT_BRANCH)
		return e;
	if (b->condition >= 0)
		mark_live(e->live, b->condition);
	for (uint32_t k = b->last; k-- > instr;) {
		ptx_instr_defs(body, &body->instrs[k], mark_dead, e->live);
		ptx_instr_uses(body, &body->instrs[k], mark_live, e->live);
	}
	return e;
}

void emit_leave(struct lower *l, const struct ptx_exit *e)
{
	LLVMValueRef all = scalar_const(l->type.i32, UINT32_MAX);

	copy_live(l, e->live, l->body->reg_count, true);
	store_head(l, offsetof(struct ptx_frame, live), all);
	store_head(l, offsetof(struct ptx_frame, thread), l->fn.thread);
	store_head(l, offsetof(struct ptx_frame, entry), scalar_const(l->type.i32, (uint64_t)(e - l->low->exits)));
	LLVMBuildRet(l->b, scalar_const(l->type.i32, PTX_LEAVE_OTHER));
}

static struct ptx_exit *find_exit(struct lower *l)
{
	for (uint32_t n = 0; n < l->low->exit_count; n++)
		if (l->low->exits[n].block == l->at.block && l->low->exits[n].instr == l->at.instr)
			return &l->low->exits[n];
	return add_exit(l, l->at.instr);
}

/* An aside leaves as the block does when all lanes are there, and takes those that stand by along. */
static const struct ptx_exit *exit_at_hand(struct lower *l)
{
	struct ptx_exit *e = find_exit(l);

	if (!e || !l->at.keep)
		return e;
	e->others = l->own.if_conversion.blocks[l->at.block].others;
	for (size_t w = 0; w < l->body->words; w++)
		e->live[w] |= l->at.keep[w];
	return e;
}

void leave_unless(struct lower *l, LLVMValueRef ok)
{
	LLVMBasicBlockRef go = new_bb(l, "go"), leave = new_bb(l, "leave");
	const struct ptx_exit *e = exit_at_hand(l);

	branch_likely(l, ok, go, leave);
	LLVMPositionBuilderAtEnd(l->b, leave);
	if (e) {
		store_head(l, offsetof(struct ptx_frame, taken), l->at.mask);
		store_head(l, offsetof(struct ptx_frame, other), LLVMBuildNot(l->b, l->at.mask, ""));
		emit_leave(l, e);
	}
	LLVMPositionBuilderAtEnd(l->b, go);
}

/* A scalar in the full version, with or without offsets, that is a vector in the masked one. */
static bool widens(const struct lower *l, uint32_t reg)
{
	return reg_shape(l, (int32_t)reg) == PTX_VARYING && l->body->shapes[reg].kind != PTX_VARYING;
}

/* A vector as the full version keeps it, and whether the lanes fit. */
static LLVMValueRef narrow(struct lower *l, uint32_t reg, LLVMValueRef *fits)
{
	const struct ptx_shape *s = &l->body->shapes[reg];
	LLVMValueRef value = read_reg(l, (int32_t)reg, PTX_LANES), base, expected, zero = scalar_const(l->type.i32, 0);
	unsigned bits = ptx_types[l->body->regs[reg].type].bits;

	base = LLVMBuildExtractElement(l->b, value, zero, "");
	if (s->kind == PTX_OFFSETS)
		base = LLVMBuildSub(l->b, base, scalar_const(int_type(l, bits), (uint64_t)s->offsets[0]), "");
	if (!fits)
		return base;
	expected = splat(l, base, PTX_LANES);
	if (s->kind == PTX_OFFSETS)
		expected = LLVMBuildAdd(l->b, expected, lane_consts(l, bits, s->offsets), "");
	value = mask_bits(l, LLVMBuildICmp(l->b, LLVMIntEQ, value, expected, ""));
	*fits = LLVMBuildAnd(l->b, *fits,
			     LLVMBuildICmp(l->b, LLVMIntEQ, value, scalar_const(l->type.i32, UINT32_MAX), ""), "");
	return base;
}

/* All lanes have met again: goes back to the full version if what it assumes about shapes holds. */
void try_return(struct lower *l, LLVMBasicBlockRef stay)
{
	const uint64_t *live = l->body->blocks[l->at.block].live_in;
	LLVMBasicBlockRef test = new_bb(l, "met"), back = new_bb(l, "back");
	LLVMValueRef ok = scalar_const(l->type.i1, 1), value, all;

	all = LLVMBuildICmp(l->b, LLVMIntEQ, l->at.mask, scalar_const(l->type.i32, UINT32_MAX), "");
	/* the full version takes each barrier for one at which all lanes arrive and which lets all lanes go on */
	if (l->body->blocks[l->at.block].barrier)
		all = LLVMBuildAnd(l->b, all,
				   LLVMBuildNot(l->b, LLVMBuildLoad2(l->b, l->type.i1, l->own.masked.parted, ""), ""),
				   "");
	LLVMBuildCondBr(l->b, all, test, stay);
	LLVMPositionBuilderAtEnd(l->b, test);
	for (uint32_t r = 0; (r = next_of(live, r, l->body->boundary_count)) < l->body->boundary_count; r++)
		if (widens(l, r))
			narrow(l, r, &ok);
	LLVMBuildCondBr(l->b, ok, back, stay);
	LLVMPositionBuilderAtEnd(l->b, back);
	for (uint32_t r = 0; (r = next_of(live, r, l->body->boundary_count)) < l->body->boundary_count; r++) {
		if (widens(l, r)) {
			value = narrow(l, r, NULL);
		} else if (PTX_BIT(l->regs.resident, r)) {
			continue;
		} else {
			value = LLVMBuildLoad2(l->b, storage_type(l, r), l->regs.storage[r], "");
			LLVMSetAlignment(value, 1);
		}
		LLVMSetAlignment(LLVMBuildStore(l->b, value, slot(l, r)), 1);
	}
	store_head(l, offsetof(struct ptx_frame, entry), scalar_const(l->type.i32, l->at.block + 1));
	LLVMBuildRet(l->b, scalar_const(l->type.i32, PTX_LEAVE_OTHER));
}

/* Values that the full version keeps as scalars come as such. */
void enter_masked(struct lower *l, const struct ptx_exit *e)
{
	LLVMValueRef *values = calloc(l->body->reg_count + 1u, sizeof(LLVMValueRef)), store;

	if (!values) {
		lower_no_memory(l->body);
		return;
	}
	for (int pass = 0; pass < 2; pass++)
		for (uint32_t r = 0; (r = next_of(e->live, r, l->body->reg_count)) < l->body->reg_count; r++) {
			const struct ptx_shape *s = &l->body->shapes[r];
			unsigned bits = ptx_types[l->body->regs[r].type].bits;

			if (PTX_HELD(l->body, l->regs.resident, r) && !widens(l, r))
				continue;
			if (pass) {
				store = LLVMBuildStore(l->b, values[r], l->regs.storage[r]);
				LLVMSetAlignment(store, 1);
				continue;
			}
			values[r] = LLVMBuildLoad2(l->b, widens(l, r) ? int_type(l, bits) : storage_type(l, r), slot(l, r), "");
			LLVMSetAlignment(values[r], 1);
			if (widens(l, r))
				values[r] = splat(l, values[r], PTX_LANES);
			if (s->kind == PTX_OFFSETS)
				values[r] = LLVMBuildAdd(l->b, values[r], lane_consts(l, bits, s->offsets), "");
		}
	free(values);
}

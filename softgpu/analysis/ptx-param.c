/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters between functions become registers; and what a call of a function outside the module becomes. */
#include <string.h>

#include "analysis/ptx-inline.h"

static unsigned lanes_of(const struct ptx_instr *i)
{
	return i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1;
}

static struct ptx_operand *param_operand(const struct ptx_instr *i)
{
	struct ptx_operand *o;

	if (!(i->op->flags & (PTX_F_LOAD | PTX_F_STORE)))
		return NULL;
	o = &i->ops[i->op->flags & PTX_F_LOAD ? 1 : 0];
	if (o->kind != PTX_OP_MEM || o->reg >= 0 || !o->symbol || o->symbol->kind != PTX_SYM_PARAM ||
	    ptx_is_kernel_param(o->symbol))
		return NULL;
	return o;
}

static struct ptx_slot *slot_of(struct ptx_body *body, struct ptx_instance *n, uint64_t offset, unsigned bytes)
{
	static const uint8_t types[9] = {[1] = PTX_B8, [2] = PTX_B16, [4] = PTX_B32, [8] = PTX_B64};
	struct ptx_slot *s;

	for (unsigned k = 0; k < n->slot_count; k++) {
		s = &n->slots[k];
		if (s->offset == offset && s->bytes == bytes)
			return s;
		if (s->offset < offset + bytes && offset < s->offset + s->bytes)
			return NULL;
	}
	if (n->slot_count == PTX_MAX_SLOTS || bytes > 8 || offset + bytes > n->symbol.size)
		return NULL;
	s = &n->slots[n->slot_count++];
	*s = (struct ptx_slot){offset, bytes, ptx_body_register(body, types[bytes])};
	return s;
}

static bool refuse_call(struct ptx_body *body, const struct ptx_instr *i)
{
	const char *name = i->call->callee->name;

	/* the device runtime library calls the second ones */
	if (strstr(name, "cudaCDP") || strstr(name, "__cuda_syscall_cnp"))
		return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line,
				     "launching kernels from a kernel (`%s`) is not supported", name);
	return ptx_body_fail(body, PTX_UNRESOLVED, i->line, "the function `%s` is not defined", name);
}

static bool check_slots(struct ptx_body *body)
{
	for (uint32_t k = 0; k < body->instr_count; k++) {
		const struct ptx_instr *i = &body->instrs[k];
		struct ptx_operand *o = param_operand(i);

		for (unsigned e = 0; o && e < lanes_of(i); e++) {
			unsigned bytes = ptx_types[i->type].bits / 8;
			struct ptx_instance *n = (struct ptx_instance *)(uintptr_t)o->symbol;

			if (!slot_of(body, n, o->imm + e * bytes, bytes))
				n->memory = true;
		}
		if (i->op == &ptx_branch_call)
			continue;
		if ((i->op->flags & PTX_F_CALL) && i->op != &ptx_real_call && !ptx_external_find(i->call))
			return refuse_call(body, i);
		for (uint32_t a = 0; (i->op->flags & PTX_F_CALL) && a < i->call->arg_count + i->call->ret_count; a++) {
			const struct ptx_symbol *s =
				a < i->call->arg_count ? i->call->args[a] : i->call->rets[a - i->call->arg_count];
			struct ptx_instance *n = (struct ptx_instance *)(uintptr_t)s;

			if (i->op == &ptx_real_call)
				n->memory = true;
			else if (!slot_of(body, n, 0, (unsigned)s->size) || n->memory)
				return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line,
						     "the call of `%s` is not supported", i->call->callee->name);
		}
	}
	return body->status == PTX_OK;
}

/* A load or store of one value becomes a move, which there is none of for bytes. */
static void make_move(struct ptx_instr *i)
{
	i->mods = 0;
	i->count = 2;
	if (ptx_types[i->type].bits == 8) {
		i->type = i->type2 = ptx_types[i->type].cls == 's' ? PTX_S8 : PTX_U8;
		i->op = ptx_opcode_find("cvt", 3, i->type, i->type2, 0);
	} else {
		i->op = ptx_opcode_find("mov", 3, i->type, PTX_NONE, 0);
	}
}

static bool rewrite_param(struct ptx_body *body, const struct ptx_instr *i, struct ptx_operand *memory)
{
	struct ptx_instance *n = (struct ptx_instance *)(uintptr_t)memory->symbol;
	struct ptx_operand *value = &i->ops[i->op->flags & PTX_F_LOAD ? 0 : 1];
	unsigned bytes = ptx_types[i->type].bits / 8;

	if (n->memory) {
		struct ptx_instr *copy = ptx_inline_append(body, i);

		if (!copy)
			return false;
		ptx_inline_place(n);
		copy->space = PTX_LOCAL;
		return true;
	}
	if ((value->kind == PTX_OP_VECTOR ? value->count : 1) != lanes_of(i))
		return ptx_body_fail(body, PTX_INVALID, i->line, "`%s` needs %u values", i->op->name,
				     lanes_of(i));
	for (unsigned e = 0; e < lanes_of(i); e++) {
		struct ptx_operand reg = {.kind = PTX_OP_REG, .reg2 = -1};
		struct ptx_operand other = value->kind == PTX_OP_VECTOR ? value->elements[e] : *value;
		struct ptx_instr *copy = ptx_inline_append(body, i);
		bool load = i->op->flags & PTX_F_LOAD;

		if (!copy)
			return false;
		reg.reg = slot_of(body, n, memory->imm + e * bytes, bytes)->reg;
		make_move(copy);
		copy->ops = ptx_alloc(&body->arena, 2 * sizeof(*copy->ops));
		if (!copy->ops)
			return ptx_inline_no_memory(body);
		copy->ops[load ? 1 : 0] = reg;
		copy->ops[load ? 0 : 1] = other;
	}
	return true;
}

static bool rewrite_call(struct ptx_body *body, const struct ptx_instr *i)
{
	struct ptx_instr *copy = ptx_inline_append(body, i);
	uint32_t count = i->call->arg_count;

	if (!copy)
		return false;
	copy->count = (uint8_t)(count + 1);
	copy->ops = ptx_alloc(&body->arena, 6 * sizeof(*copy->ops));
	if (!copy->ops)
		return ptx_inline_no_memory(body);
	copy->ops[0] = (struct ptx_operand){.kind = PTX_OP_SINK, .reg = -1, .reg2 = -1};
	for (uint32_t a = 0; a <= count; a++) {
		const struct ptx_symbol *s = a ? i->call->args[a - 1] : i->call->ret_count ? i->call->rets[0] : NULL;

		/* a later access may have turned the parameter into a memory variable */
		if (s && ((const struct ptx_instance *)s)->memory)
			return ptx_body_fail(body, PTX_NOT_SUPPORTED, i->line, "the call of `%s` is not supported",
					     i->call->callee->name);
		if (s)
			copy->ops[a] = (struct ptx_operand){
				.kind = PTX_OP_REG,
				.reg2 = -1,
				.reg = slot_of(body, (struct ptx_instance *)(uintptr_t)s, 0, (unsigned)s->size)->reg,
			};
	}
	return true;
}

bool ptx_body_params(struct ptx_body *body)
{
	struct ptx_instr *old = body->instrs;
	uint32_t count = body->instr_count;
	uint32_t *starts = ptx_alloc(&body->arena, (count + 1) * sizeof(*starts));

	if (!starts)
		return ptx_inline_no_memory(body);
	if (!check_slots(body))
		return false;
	ptx_check_passed(body);
	body->instrs = NULL;
	body->instr_count = body->instr_room = 0;
	for (uint32_t k = 0; k < count; k++) {
		struct ptx_operand *o = param_operand(&old[k]);
		bool ok;

		starts[k] = body->instr_count;
		if (o)
			ok = rewrite_param(body, &old[k], o);
		else if (old[k].op == &ptx_branch_call)
			ok = ptx_rewrite_branch_call(body, &old[k]);
		else if ((old[k].op->flags & PTX_F_CALL) && old[k].op != &ptx_real_call)
			ok = rewrite_call(body, &old[k]);
		else
			ok = ptx_inline_append(body, &old[k]);
		if (!ok)
			return false;
		/* the address of a parameter that lives in memory */
		for (unsigned n = 0; !o && n < old[k].count; n++) {
			const struct ptx_symbol *s = old[k].ops[n].symbol;

			if (old[k].ops[n].kind == PTX_OP_SYMBOL && s && s->kind == PTX_SYM_PARAM &&
			    !ptx_is_kernel_param(s))
				ptx_inline_place((struct ptx_instance *)(uintptr_t)s);
		}
	}
	starts[count] = body->instr_count;
	for (uint32_t n = 0; n < body->label_count; n++)
		body->labels[n] = starts[body->labels[n]];
	for (uint32_t n = 0; n < body->routine_count; n++) {
		body->routines[n].first = starts[body->routines[n].first];
		body->routines[n].last = starts[body->routines[n].last];
	}
	return body->status == PTX_OK;
}

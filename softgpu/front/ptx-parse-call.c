/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls and returns. Parameters are passed in .param variables only: where the text has registers or constants instead,
 * a variable without a name takes them over, with a store before the call or the return and a load behind it.
 */
#include <string.h>

#include "front/ptx-opcodes.h"
#include "front/ptx-parse.h"

/* The arguments and results of a call that have no .param variable of their own. */
struct passed {
	struct ptx_symbol *symbol;
	struct ptx_operand value;
	uint32_t number; /* in its list */
};

struct arguments {
	const struct ptx_symbol **list;
	struct passed *passed;
	uint32_t count, room, passed_count, passed_room;
};

/* Halves are loaded and stored as bits. */
static unsigned plain_type(unsigned type)
{
	if (!strchr("hHyYUS", ptx_types[type].cls))
		return type;
	return ptx_types[type].bits == 16 ? PTX_B16 : PTX_B32;
}

/* A load of a parameter to a register, or a store of a value to one. */
static bool append_access(struct ptx_parser *p, const struct ptx_symbol *param, const struct ptx_operand *value,
			  bool load, const struct ptx_instr *like)
{
	struct ptx_instr *i = ptx_parse_append(p);
	struct ptx_operand *ops = ptx_alloc(&p->module->arena, 2 * sizeof(*ops));
	unsigned type = plain_type(param->type);

	if (!i || !ops)
		return ptx_parse_no_memory(p);
	ops[load ? 1 : 0] = (struct ptx_operand){.kind = PTX_OP_MEM, .reg = -1, .reg2 = -1, .symbol = param};
	ops[load ? 0 : 1] = *value;
	*i = (struct ptx_instr){.op = ptx_opcode_find(load ? "ld" : "st", 2, type, PTX_NONE, M(PARAM)),
				.name = load ? "ld.param" : "st.param",
				.mods = M(PARAM),
				.type = (uint8_t)type,
				.space = PTX_PARAM,
				.count = 2,
				.guard = like ? like->guard : -1,
				.guard_negate = like && like->guard_negate,
				.line = like ? like->line : p->token.line,
				.ops = ops};
	return i->op || ptx_parse_fail(p, PTX_NOT_SUPPORTED, "a parameter of type `%s` is not supported",
				       ptx_types[param->type].text);
}

/* Turns a predicate into the number that is passed for it, or back. */
static bool append_change(struct ptx_parser *p, struct ptx_operand predicate, struct ptx_operand number, bool to_number,
			  const struct ptx_instr *like)
{
	struct ptx_instr *i = ptx_parse_append(p);
	struct ptx_operand *ops = ptx_alloc(&p->module->arena, 4 * sizeof(*ops));

	if (!i || !ops)
		return ptx_parse_no_memory(p);
	for (unsigned n = 1; n < 4; n++)
		ops[n] = (struct ptx_operand){.kind = PTX_OP_INT, .reg = -1, .reg2 = -1};
	*i = (struct ptx_instr){.op = to_number ? ptx_opcode_find("selp", 4, PTX_B32, PTX_NONE, 0)
						: ptx_opcode_find("setp", 4, PTX_B32, PTX_NONE, M(NE)),
				.name = to_number ? "selp.b32" : "setp.ne.b32",
				.mods = to_number ? 0 : M(NE),
				.type = PTX_B32,
				.count = to_number ? 4 : 3,
				.guard = like ? like->guard : -1,
				.guard_negate = like && like->guard_negate,
				.line = like ? like->line : p->token.line,
				.ops = ops};
	ops[0] = to_number ? number : predicate;
	if (to_number) {
		ops[1].imm = 1;
		ops[3] = predicate;
	} else {
		ops[1] = number;
	}
	return true;
}

static bool append_move(struct ptx_parser *p, const struct ptx_symbol *param, const struct ptx_operand *value,
			bool load, const struct ptx_instr *like)
{
	struct ptx_operand number = {.kind = PTX_OP_REG, .reg2 = -1};
	struct ptx_symbol s = {0};

	if (value->kind != PTX_OP_REG || p->function->regs[value->reg].type != PTX_PRED)
		return append_access(p, param, value, load, like);
	if (!ptx_parse_registers(p, &s, PTX_B32, 1))
		return false;
	number.reg = (int32_t)s.index;
	if (load)
		return append_access(p, param, &number, true, like) && append_change(p, *value, number, false, like);
	return append_change(p, *value, number, true, like) && append_access(p, param, &number, false, like);
}

static bool add_passed(struct ptx_parser *p, struct arguments *a, const struct ptx_symbol **slot)
{
	struct passed *passed = ptx_grow(&p->module->arena, (void **)&a->passed, &a->passed_count, &a->passed_room,
					 sizeof(*passed));

	if (!passed || !(passed->symbol = ptx_alloc(&p->module->arena, sizeof(*passed->symbol))))
		return ptx_parse_no_memory(p);
	passed->number = a->count - 1;
	passed->symbol->name = "(argument)";
	passed->symbol->kind = PTX_SYM_PARAM;
	passed->symbol->space = PTX_PARAM;
	*slot = passed->symbol;
	return ptx_parse_argument(p, &passed->value);
}

static bool parse_list(struct ptx_parser *p, struct arguments *a)
{
	ptx_parse_expect(p, '(');
	while (p->token.kind && p->token.kind != ')') {
		const struct ptx_symbol *s = NULL, **slot;

		slot = ptx_grow(&p->module->arena, (void **)&a->list, &a->count, &a->room, sizeof(*slot));
		if (!slot)
			return ptx_parse_no_memory(p);
		if (p->token.kind == PTX_TOK_NAME)
			s = ptx_parse_symbol(p, p->token.text, p->token.length);
		if (s && s->kind == PTX_SYM_PARAM) {
			*slot = s;
			ptx_parse_next(p);
		} else if (!add_passed(p, a, slot)) {
			return false;
		}
		if (!ptx_parse_accept(p, ','))
			break;
	}
	return ptx_parse_expect(p, ')');
}

/* A register is as large as the parameter, but for small ones; a predicate is one. */
static bool agrees(const struct ptx_parser *p, const struct ptx_symbol *formal, const struct ptx_operand *value)
{
	const struct ptx_type_info *type = &ptx_types[formal->type], *reg;

	if (value->kind != PTX_OP_REG || formal->size != type->bits / 8)
		return true;
	reg = &ptx_types[p->function->regs[value->reg].type];
	if (reg->cls == 'p' || formal->predicate)
		return reg->cls == 'p' && formal->predicate;
	return type->bits < 32 || reg->bits == type->bits;
}

/* Are there as many as the function was declared with? */
static bool check_counts(struct ptx_parser *p, const struct ptx_function *fn, const struct arguments *args,
			 const struct arguments *rets)
{
	bool open = fn && fn->param_count && !fn->params[fn->param_count - 1]->size;

	if (!fn || (rets->count == fn->ret_count && (args->count == fn->param_count || open)))
		return true;
	return ptx_parse_fail(p, PTX_INVALID, "Call with %u arguments and %u results of `%.80s`, which has %u and %u",
			      args->count, rets->count, fn->name, fn->param_count, fn->ret_count);
}

/* Only now is it known what the function wants. */
static bool give_types(struct ptx_parser *p, struct arguments *a, struct ptx_symbol **formals, uint32_t count)
{
	for (uint32_t n = 0; n < a->passed_count; n++) {
		struct passed *passed = &a->passed[n];
		const struct ptx_symbol *formal = passed->number < count ? formals[passed->number] : NULL;

		if (formal && !agrees(p, formal, &passed->value))
			return ptx_parse_fail(p, PTX_INVALID, "argument %u does not agree with parameter `%.80s`",
					      passed->number + 1, formal->name);
		if (formal)
			passed->symbol->type = formal->type;
		else if (passed->value.kind == PTX_OP_REG)
			passed->symbol->type = p->function->regs[passed->value.reg].type;
		else
			return ptx_parse_fail(p, PTX_INVALID, "an argument whose type is not known");
		passed->symbol->size = ptx_types[passed->symbol->type].bits / 8;
		passed->symbol->align = passed->symbol->size ? passed->symbol->size : 1;
	}
	return true;
}

/* The target of a call: a function, or a pointer and, behind the arguments, the functions that it may point to. */
static bool parse_target(struct ptx_parser *p, struct ptx_call *call)
{
	const struct ptx_symbol *s = ptx_parse_symbol(p, p->token.text, p->token.length);

	if (p->token.kind != PTX_TOK_NAME)
		return ptx_parse_expect(p, PTX_TOK_NAME);
	if (s && s->kind == PTX_SYM_FUNCTION) {
		call->callee = s;
		ptx_parse_next(p);
		return true;
	}
	if (!s || s->kind == PTX_SYM_REGISTER || s->kind == PTX_SYM_FAMILY) {
		struct ptx_token name = p->token;

		if (name.text[0] == '%' || s) {
			if (!ptx_parse_argument(p, &call->pointer))
				return false;
			if (call->pointer.kind == PTX_OP_REG)
				return true;
		}
		p->token = name;
	}
	return ptx_parse_fail(p, PTX_INVALID, "`%.*s` is not a function that was declared before",
			      (int)(p->token.length < 100 ? p->token.length : 100), p->token.text);
}

static bool parse_prototype_label(struct ptx_parser *p, struct ptx_call *call)
{
	if (p->token.kind != PTX_TOK_NAME)
		return ptx_parse_expect(p, PTX_TOK_NAME);
	call->prototype = ptx_parse_prototype_label(p, &p->token);
	ptx_parse_next(p);
	return call->prototype;
}

static const struct ptx_function *declared_as(const struct ptx_call *call)
{
	const struct ptx_targets *targets;

	if (call->callee)
		return call->callee->function;
	targets = call->prototype->targets;
	return targets && targets->count ? targets->list[0]->function : call->prototype->function;
}

static bool parse_parts(struct ptx_parser *p, struct ptx_call *call, struct arguments *rets, struct arguments *args)
{
	bool more;

	if (p->token.kind == '(' && !(parse_list(p, rets) && ptx_parse_expect(p, ',')))
		return false;
	if (!parse_target(p, call))
		return false;
	more = ptx_parse_accept(p, ',');
	if (more && p->token.kind == '(') {
		if (!parse_list(p, args))
			return false;
		more = ptx_parse_accept(p, ',');
	}
	if (call->callee)
		return !more || ptx_parse_expect(p, ';');
	return more ? parse_prototype_label(p, call) : ptx_parse_expect(p, ',');
}

bool ptx_parse_call(struct ptx_parser *p, struct ptx_instr *i)
{
	struct ptx_call *call = ptx_alloc(&p->module->arena, sizeof(*call));
	struct arguments rets = {0}, args = {0};
	const struct ptx_function *fn;
	struct ptx_instr copy = *i, *last;

	if (!call)
		return ptx_parse_no_memory(p);
	if (!parse_parts(p, call, &rets, &args))
		return false;
	call->rets = rets.list;
	call->ret_count = rets.count;
	call->args = args.list;
	call->arg_count = args.count;
	fn = declared_as(call);
	if (!check_counts(p, fn, &args, &rets))
		return false;
	if (!give_types(p, &args, fn ? fn->params : NULL, fn ? fn->param_count : 0) ||
	    !give_types(p, &rets, fn ? fn->rets : NULL, fn ? fn->ret_count : 0))
		return false;
	p->function->instr_count--;
	for (uint32_t n = 0; n < args.passed_count; n++)
		if (!append_move(p, args.passed[n].symbol, &args.passed[n].value, false, &copy))
			return false;
	last = ptx_parse_append(p);
	if (!last)
		return ptx_parse_no_memory(p);
	*last = copy;
	last->call = call;
	for (uint32_t n = 0; n < rets.passed_count; n++)
		if (rets.passed[n].value.kind != PTX_OP_SINK &&
		    !append_move(p, rets.passed[n].symbol, &rets.passed[n].value, true, &copy))
			return false;
	return true;
}

static bool open_param(struct ptx_parser *p, struct ptx_symbol *param, bool load)
{
	struct ptx_operand value = {.kind = PTX_OP_REG, .reg2 = -1};
	struct ptx_symbol *s;

	if (!param->register_name)
		return true;
	s = ptx_parse_declare(p, &p->symbols, param->register_name, strlen(param->register_name));
	if (!s || !ptx_parse_registers(p, s, param->predicate ? PTX_PRED : param->type, 1))
		return false;
	s->kind = PTX_SYM_REGISTER;
	param->reg = value.reg = (int32_t)s->index;
	return !load || append_move(p, param, &value, true, NULL);
}

bool ptx_parse_open_function(struct ptx_parser *p)
{
	struct ptx_function *fn = p->function;

	for (uint32_t n = 0; n < fn->ret_count; n++)
		if (!open_param(p, fn->rets[n], false))
			return false;
	for (uint32_t n = 0; n < fn->param_count; n++)
		if (!open_param(p, fn->params[n], true))
			return false;
	return true;
}

bool ptx_parse_return(struct ptx_parser *p, struct ptx_instr *i)
{
	struct ptx_function *fn = p->function;
	struct ptx_instr copy = {0}, *last;
	bool any = false;

	for (uint32_t n = 0; n < fn->ret_count; n++)
		any |= fn->rets[n]->register_name != NULL;
	if (!any)
		return true;
	if (i) {
		copy = *i;
		fn->instr_count--;
	}
	for (uint32_t n = 0; n < fn->ret_count; n++) {
		struct ptx_operand value = {.kind = PTX_OP_REG, .reg = fn->rets[n]->reg, .reg2 = -1};

		if (fn->rets[n]->register_name && !append_move(p, fn->rets[n], &value, false, i ? &copy : NULL))
			return false;
	}
	if (!i)
		return true;
	last = ptx_parse_append(p);
	if (!last)
		return ptx_parse_no_memory(p);
	*last = copy;
	return true;
}

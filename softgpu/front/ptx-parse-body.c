/* SPDX-License-Identifier: Apache-2.0 */
/* Function bodies: registers, labels and instructions. */
#include <stdlib.h>
#include <string.h>

#include "front/ptx-opcodes.h"
#include "front/ptx-parse.h"
#include "front/ptx-tex-instr.h"

#define MAX_REGISTERS (1u << 20)
#define MOST_OPERANDS 7

static const char *const modifiers[PTX_MOD_COUNT] = {
#define X(id, text) [PTX_MOD_##id] = text,
	PTX_MODIFIERS(X)
#undef X
};

/* Other spellings, and hints that change speed only. */
static const struct {
	const char *text;
	enum ptx_modifier modifier;
} aliases[] = {
	{"shared::cluster", PTX_MOD_SHARED}, {"mmio", PTX_MOD_RELAXED},
	{"shared::cta", PTX_MOD_SHARED},   {"param::entry", PTX_MOD_PARAM},
	{"param::func", PTX_MOD_PARAM},    {"L1::evict_unchanged", PTX_MOD_HINT},
	{"L1::evict_first", PTX_MOD_HINT}, {"L1::evict_last", PTX_MOD_HINT},
	{"L1::no_allocate", PTX_MOD_HINT}, {"L2::64B", PTX_MOD_HINT},
	{"L2::128B", PTX_MOD_HINT},        {"L2::256B", PTX_MOD_HINT},
	{"L2::evict_last", PTX_MOD_HINT},  {"L2::evict_normal", PTX_MOD_HINT},
	{"L2::evict_first", PTX_MOD_HINT}, {"L1", PTX_MOD_CA},
	{"L2", PTX_MOD_CG},
};

static bool same(const char *text, const char *name, size_t length)
{
	return strlen(text) == length && !memcmp(text, name, length);
}

static bool no_memory(struct ptx_parser *p)
{
	return ptx_parse_fail(p, PTX_NO_MEMORY, "out of memory while reading `%s`", p->function->name);
}

/* Splits a mnemonic; false if a part of it is unknown. With `lenient`, takes in what it knows. */
static bool split_name(struct ptx_instr *i, const char *name, size_t length, size_t *first, bool lenient)
{
	const char *at = memchr(name, '.', length), *end = name + length, *dot;

	*first = at ? (size_t)(at - name) : length;
	for (; at; at = dot) {
		size_t part;
		unsigned type, m;

		at++;
		dot = memchr(at, '.', (size_t)(end - at));
		part = (size_t)((dot ? dot : end) - at);
		type = ptx_parse_type(at, part);
		if (type && i->type2 && lenient)
			continue;
		if (type && i->type2)
			return false;
		if (type) {
			*(i->type ? &i->type2 : &i->type) = (uint8_t)type;
			continue;
		}
		for (m = 0; m < PTX_MOD_COUNT && !same(modifiers[m], at, part); m++)
			;
		for (size_t a = 0; m == PTX_MOD_COUNT && a < sizeof(aliases) / sizeof(aliases[0]); a++)
			if (same(aliases[a].text, at, part))
				m = aliases[a].modifier;
		if (m == PTX_MOD_COUNT && lenient)
			continue;
		if (m == PTX_MOD_COUNT)
			return false;
		i->mods |= (ptx_mods)1 << m;
	}
	return true;
}

static unsigned space_of(ptx_mods mods)
{
	if (mods & M(GLOBAL))
		return PTX_GLOBAL;
	if (mods & M(SHARED))
		return PTX_SHARED;
	if (mods & M(LOCAL))
		return PTX_LOCAL;
	if (mods & M(CONST))
		return PTX_CONST;
	return mods & M(PARAM) ? PTX_PARAM : PTX_GENERIC;
}

/* [handle, {coordinates}]: two operands, of which the second may be missing. */
static bool parse_tex_address(struct ptx_parser *p, struct ptx_operand *ops, struct ptx_instr *i)
{
	struct ptx_operand *handle = &ops[i->count++];

	ptx_parse_next(p);
	if (!ptx_parse_operand(p, handle, false, 1))
		return false;
	if (ptx_parse_accept(p, ',')) {
		if (i->count == MOST_OPERANDS || !ptx_parse_operand(p, &ops[i->count++], false, 0))
			return false;
		/* the operand before the coordinates */
		if (p->token.kind == ',')
			return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "`%s`: samplers of their own are not supported",
					      i->name);
	}
	return ptx_parse_expect(p, ']');
}

/* [map, {coordinates}], or a plain address. */
static bool parse_tensor_address(struct ptx_parser *p, struct ptx_operand *ops, struct ptx_instr *i)
{
	if (!ptx_parse_address(p, &ops[i->count++]))
		return false;
	if (p->token.kind == ',') {
		ptx_parse_next(p);
		if (i->count == MOST_OPERANDS || !ptx_parse_operand(p, &ops[i->count++], false, 0))
			return ptx_parse_fail(p, PTX_INVALID, "`%s`: coordinates must follow the address", i->name);
	}
	return ptx_parse_expect(p, ']');
}

/* result|predicate: is what a fetch found in memory? */
static bool parse_resident(struct ptx_parser *p, struct ptx_operand *result)
{
	struct ptx_operand o = {0};

	ptx_parse_next(p);
	if (p->token.kind != PTX_TOK_NAME || !ptx_parse_named(p, &o, false) || o.select ||
	    (o.kind != PTX_OP_SINK && (o.kind != PTX_OP_REG || p->function->regs[o.reg].type != PTX_PRED)))
		return ptx_parse_fail(p, PTX_INVALID, "`|` must be followed by a predicate");
	result->reg2 = o.reg;
	return true;
}

/* A texture before the brackets, which then have a sampler. */
static bool is_texture(const struct ptx_parser *p, const struct ptx_instr *i, const struct ptx_operand *o)
{
	bool fetch = i->tex->operation == PTX_TEX_FETCH || i->tex->operation == PTX_TEX_GATHER;

	return fetch && (o->kind == PTX_OP_REG ? ptx_types[p->function->regs[o->reg].type].bits == 64
					       : o->kind == PTX_OP_SYMBOL);
}

static unsigned handle_place(const struct ptx_instr *i)
{
	if (i->tex->operation == PTX_IS_TYPE)
		return MOST_OPERANDS;
	return i->op->flags & PTX_F_NO_DST ? 0 : 1;
}

static bool parse_operands(struct ptx_parser *p, struct ptx_instr *i)
{
	struct ptx_operand ops[MOST_OPERANDS];
	unsigned handle = MOST_OPERANDS; /* which one is in brackets, of a texture instruction */

	memset(ops, 0, sizeof(ops));
	while (p->token.kind && p->token.kind != ';') {
		if (i->count == MOST_OPERANDS)
			return ptx_parse_fail(p, PTX_INVALID, "too many operands for `%s`", i->name);
		bool label = (i->op->flags & PTX_F_BRANCH) && ptx_parse_is_last_operand(i), ok;

		if (i->op->family == PTX_FAMILY_MOV_VECTOR && p->token.kind == PTX_TOK_NAME && p->token.text[0] == '%')
			ok = ptx_parse_special_vector(p, &ops[i->count++]);
		else if (i->tex && p->token.kind == '[')
			ok = (handle = i->count, parse_tex_address(p, ops, i));
		else if ((i->op->flags & PTX_F_TENSOR) && p->token.kind == '[')
			ok = parse_tensor_address(p, ops, i);
		else
			ok = ptx_parse_operand(p, &ops[i->count++], label, 0);
		if (!ok || (i->tex && i->count == 1 && p->token.kind == '|' && !parse_resident(p, &ops[0])))
			return false;
		if (!ptx_parse_accept(p, ','))
			break;
	}
	if (i->tex && handle == handle_place(i) + 1 && is_texture(p, i, &ops[handle - 1]))
		return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "`%s`: samplers of their own are not supported", i->name);
	if (i->tex && handle != handle_place(i))
		return ptx_parse_fail(p, PTX_INVALID, "Address expected for instruction '%s'", i->name);
	/* a policy changes speed only */
	if ((i->mods & M(POLICY)) && !(i->op->flags & PTX_F_WORDS) && i->count)
		i->count--;
	for (unsigned n = 0; n < i->count; n++) {
		if (((ops[n].kind == PTX_OP_REG && ops[n].select) || ops[n].minus) && i->op->family != PTX_FAMILY_VIDEO)
			return ptx_parse_fail(p, PTX_INVALID, "`%s` cannot have selectors or signs", i->name);
		if (ops[n].negate && (ops[n].kind != PTX_OP_REG || p->function->regs[ops[n].reg].type != PTX_PRED))
			return ptx_parse_fail(p, PTX_INVALID, "`%s`: ! before what is no predicate", i->name);
	}
	i->ops = ptx_alloc(&p->module->arena, (i->count + 1u) * sizeof(ops[0]));
	if (!i->ops)
		return no_memory(p);
	memcpy(i->ops, ops, i->count * sizeof(ops[0]));
	if (i->tex)
		ptx_parse_tex_operands(i);
	return ptx_parse_check_operands(p, i);
}

struct ptx_instr *ptx_parse_append(struct ptx_parser *p)
{
	struct ptx_function *fn = p->function;

	return ptx_grow(&p->module->arena, (void **)&fn->instrs, &fn->instr_count, &p->instr_room,
			sizeof(struct ptx_instr));
}

/*
 * Is this PTX, for the text's version and target? A body that is read later was checked with the text. *operands: as
 * ptx_form_legal() has it.
 */
static bool check_form(struct ptx_parser *p, const struct ptx_token *name, const char **operands)
{
	char why[160];

	*operands = NULL;
	if (p->around || !p->dialect.target || p->dialect.version > PTX_FORMS_VERSION || name->text[0] == '.' || name->text[0] == '%' ||
	    ptx_form_legal(name->text, name->length, &p->dialect, operands, why, sizeof(why)))
		return true;
	p->token.line = name->line;
	return ptx_parse_fail(p, PTX_INVALID, "%s", why);
}

/* An instruction that the compiler does not implement, so that its operands are checked. */
static bool make_unknown(struct ptx_parser *p, struct ptx_instr *i, const char *operands)
{
	struct ptx_opcode *op = ptx_alloc(&p->module->arena, sizeof(*op));
	size_t first;

	if (!op)
		return no_memory(p);
	*op = (struct ptx_opcode){.name = i->name, .operands = operands, .flags = PTX_F_UNKNOWN};
	if (operands[0] != 't' && operands[0] != 'r')
		op->flags |= PTX_F_NO_DST;
	i->op = op;
	i->type = i->type2 = PTX_NONE;
	i->mods = 0;
	return split_name(i, i->name, strlen(i->name), &first, true);
}

/* Finds out what a name means. It is copied once for all that follow. */
static bool read_name(struct ptx_parser *p, struct ptx_instr *i, const struct ptx_token *name)
{
	const char *operands;
	size_t first;
	bool known;

	if (!check_form(p, name, &operands))
		return false;
	i->name = ptx_strndup(&p->module->arena, name->text, name->length);
	if (!i->name)
		return no_memory(p);
	if (ptx_parse_tex_name(p, i, i->name, name->length, &first))
		known = i->tex;
	else
		known = split_name(i, i->name, name->length, &first, false);
	i->op = known ? ptx_opcode_find(i->name, first, i->type, i->tex ? PTX_NONE : i->type2, i->mods) : NULL;
	if (i->op && !ptx_opcode_complete(i->op, i->type, i->mods, p->module))
		i->op = NULL;
	if (!i->op && (i->op = ptx_words_find(i->name, name->length))) {
		i->type = i->type2 = PTX_NONE;
		i->mods = 0;
		split_name(i, i->name, name->length, &first, true);
	}
	if (!i->op && operands && !make_unknown(p, i, operands))
		return false;
	i->space = (uint8_t)space_of(i->mods);
	return true;
}

/* The same, from what was found out last time. Each texture instruction has a description of its own. */
static bool recall_name(struct ptx_parser *p, struct ptx_instr *i, const struct ptx_token *name)
{
	struct ptx_mnemonic *m = &p->mnemonics[ptx_parse_hash(name->text, name->length) % PTX_MNEMONICS];

	if (m->length == name->length && !memcmp(m->name, name->text, name->length)) {
		i->name = m->name;
		i->op = m->op;
		i->mods = m->mods;
		i->type = m->type;
		i->type2 = m->type2;
		i->space = m->space;
		return true;
	}
	if (!read_name(p, i, name))
		return false;
	if (!i->tex)
		*m = (struct ptx_mnemonic){i->name, name->length, i->op, i->mods, i->type, i->type2, i->space};
	return true;
}

static unsigned bytes_unused(const struct ptx_instr *i, uint32_t used)
{
	unsigned bytes = ptx_types[i->type].bits / 8 * (i->mods & M(V8) ? 8 : i->mods & M(V4) ? 4 : i->mods & M(V2) ? 2 : 1);
	unsigned last = used ? 32 - (unsigned)__builtin_clz(used) : bytes;

	return i->op->flags & PTX_F_LOAD && last < bytes ? bytes - last : 0;
}

static bool parse_instruction(struct ptx_parser *p, const struct ptx_token *name, int32_t guard, bool negate)
{
	struct ptx_instr *i = ptx_parse_append(p);

	if (!i)
		return no_memory(p);
	if (!recall_name(p, i, name))
		return false;
	i->line = name->line;
	i->guard = guard;
	i->guard_negate = negate;
	if (i->op)
		i->unused = (uint8_t)bytes_unused(i, p->used_bytes);
	p->used_bytes = 0;
	if (!i->op) {
		if (name->text[0] == '.' || name->text[0] == '%')
			return ptx_parse_fail(p, PTX_INVALID, "`%.*s` is not an instruction",
					      (int)(name->length < 100 ? name->length : 100), name->text);
		/* skips one instruction: braces and brackets may hold anything but a ';' */
		while (p->token.kind && p->token.kind != ';')
			ptx_parse_next(p);
		return ptx_parse_expect(p, ';');
	}
	if (i->op->flags & PTX_F_CALL)
		return ptx_parse_call(p, i) && ptx_parse_expect(p, ';');
	p->uncompiled = i->op->flags & PTX_F_UNKNOWN;
	if (!parse_operands(p, i))
		return false;
	if (p->uncompiled) {
		i->op = NULL;
		i->tex = NULL;
		i->ops = NULL;
		i->count = 0;
		return ptx_parse_expect(p, ';');
	}
	if ((i->op->flags & PTX_F_RET) && !ptx_parse_return(p, i))
		return false;
	if (i->tex && i->count)
		return ptx_parse_tex_rest(p, i) && ptx_parse_expect(p, ';');
	if ((i->mods & M(V8)) && (i->op->flags & (PTX_F_LOAD | PTX_F_STORE)) && !ptx_parse_eight(p, i))
		return false;
	if (i->type == PTX_B128 && (i->op->flags & (PTX_F_LOAD | PTX_F_STORE)) && !ptx_parse_wide_access(p, i))
		return false;
	return ptx_parse_expect(p, ';');
}

/* Gives a symbol its registers. */
bool ptx_parse_registers(struct ptx_parser *p, struct ptx_symbol *s, unsigned type, uint64_t count)
{
	struct ptx_function *fn = p->function;

	if (count > MAX_REGISTERS || fn->reg_count + count > MAX_REGISTERS)
		return ptx_parse_fail(p, PTX_INVALID, "`%s` has too many registers", fn->name);
	s->index = fn->reg_count;
	s->count = (uint32_t)count;
	s->type = (uint8_t)type;
	for (uint64_t n = 0; n < count; n++) {
		struct ptx_register *r = ptx_grow(&p->module->arena, (void **)&fn->regs, &fn->reg_count, &p->reg_room,
						  sizeof(*r));

		if (!r)
			return no_memory(p);
		r->type = (uint8_t)type;
	}
	return true;
}

/* Directives may be written without spaces: .reg.v2.f32 begins with .reg. */
static void first_word(struct ptx_parser *p)
{
	const char *dot = NULL;

	if (p->token.kind == PTX_TOK_NAME && p->token.text[0] == '.')
		dot = memchr(p->token.text + 1, '.', p->token.length - 1);
	if (dot) {
		p->lexer.at = dot;
		p->token.length = (size_t)(dot - p->token.text);
	}
}

static bool parse_registers(struct ptx_parser *p)
{
	unsigned type = PTX_NONE, lanes;

	ptx_parse_next(p);
	first_word(p);
	lanes = ptx_token_is(&p->token, ".v2") ? 2 : ptx_token_is(&p->token, ".v4") ? 4 : 0;
	if (lanes)
		ptx_parse_next(p);
	if (p->token.kind == PTX_TOK_NAME && p->token.text[0] == '.')
		type = ptx_parse_type(p->token.text + 1, p->token.length - 1);
	if (!type || (lanes && type == PTX_PRED) || !strchr("busfhHp", ptx_types[type].cls))
		return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "registers of type `%.*s` are not supported",
				      (int)(p->token.length < 40 ? p->token.length : 40), p->token.text);
	ptx_parse_next(p);
	do {
		struct ptx_symbol *s = p->token.kind == PTX_TOK_NAME
					       ? ptx_parse_declare(p, &p->symbols, p->token.text, p->token.length)
					       : NULL;
		uint64_t count = 1;

		if (!ptx_parse_expect(p, PTX_TOK_NAME) || !s)
			return false;
		s->kind = PTX_SYM_REGISTER;
		if (ptx_parse_accept(p, '<')) {
			s->kind = PTX_SYM_FAMILY;
			if (!ptx_parse_integer(p, &count) || !ptx_parse_expect(p, '>'))
				return false;
		}
		s->lanes = (uint8_t)lanes;
		if (count > MAX_REGISTERS || !ptx_parse_registers(p, s, type, lanes ? count * lanes : count))
			return ptx_parse_fail(p, PTX_INVALID, "`%s` has too many registers", p->function->name);
		s->count = (uint32_t)count;
	} while (ptx_parse_accept(p, ','));
	return ptx_parse_expect(p, ';');
}

static bool parse_place(struct ptx_parser *p)
{
	uint64_t file, line, column;

	return ptx_parse_integer(p, &file) && ptx_parse_integer(p, &line) && ptx_parse_integer(p, &column);
}

/* .loc FILE LINE COLUMN {, function_name LABEL {+ OFFSET}, inlined_at FILE LINE COLUMN} has no ; at its end. */
static bool parse_location(struct ptx_parser *p)
{
	uint64_t offset;

	ptx_parse_next(p);
	if (!parse_place(p))
		return false;
	while (ptx_parse_accept(p, ',')) {
		bool name = ptx_token_is(&p->token, "function_name");

		if (!name && !ptx_token_is(&p->token, "inlined_at"))
			return ptx_parse_expect(p, ';');
		ptx_parse_next(p);
		if (name ? !ptx_parse_expect(p, PTX_TOK_NAME) ||
				    (ptx_parse_accept(p, '+') && !ptx_parse_integer(p, &offset))
			 : !parse_place(p))
			return false;
	}
	return true;
}

/* An instruction that is refused by this name once the kernel is compiled. */
static bool append_unsupported(struct ptx_parser *p, const char *name, size_t length)
{
	struct ptx_instr *i = ptx_parse_append(p);

	if (!i)
		return no_memory(p);
	i->name = ptx_strndup(&p->module->arena, name, length);
	i->line = p->token.line;
	i->guard = -1;
	return i->name || no_memory(p);
}

static bool is_string(const struct ptx_token *token, const char *text)
{
	size_t length = strlen(text);

	return token->kind == PTX_TOK_STRING && token->length == length + 2 && !memcmp(token->text + 1, text, length);
}

/*
 * Four pragmas matter here. One allows a vector to be read where only its first bytes exist. Texts that are made from
 * machine code have the second in the place of an instruction that PTX cannot express. They have the third if the graph
 * has returns to calls that a lane has not made, and the fourth if the entry is a function that kernels call.
 */
static bool parse_pragma(struct ptx_parser *p)
{
	static const char used[] = "used_bytes_mask", unsupported[] = "vcuda_unsupported ";
	const char *text;

	ptx_parse_next(p);
	text = p->token.text;
	if (p->token.kind == PTX_TOK_STRING && p->token.length > sizeof(used) && !memcmp(text + 1, used, sizeof(used) - 1))
		p->used_bytes = (uint32_t)strtoul(text + sizeof(used), NULL, 0);
	else if (p->token.kind == PTX_TOK_STRING && p->token.length > sizeof(unsupported) &&
		 !memcmp(text + 1, unsupported, sizeof(unsupported) - 1) &&
		 !append_unsupported(p, text + sizeof(unsupported), p->token.length - sizeof(unsupported) - 1))
		return false;
	p->function->reconverges |= is_string(&p->token, "vcuda_reconverge");
	p->function->callee |= is_string(&p->token, "vcuda_callee");
	return ptx_parse_expect(p, PTX_TOK_STRING) && ptx_parse_expect(p, ';');
}

static bool parse_body_directive(struct ptx_parser *p)
{
	unsigned line = p->token.line;

	first_word(p);
	if (ptx_token_is(&p->token, ".reg"))
		return parse_registers(p);
	if (ptx_token_is(&p->token, ".local") || ptx_token_is(&p->token, ".shared") ||
	    ptx_token_is(&p->token, ".param") || ptx_token_is(&p->token, ".const") ||
	    ptx_token_is(&p->token, ".global"))
		return ptx_parse_variable(p, 0);
	if (ptx_token_is(&p->token, ".pragma"))
		return parse_pragma(p);
	if (ptx_token_is(&p->token, ".loc"))
		return parse_location(p);
	if (ptx_token_is(&p->token, ".file")) {
		while (p->token.kind && p->token.line == line)
			ptx_parse_next(p);
		return true;
	}
	return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "`%.*s` is not supported in a function",
			      (int)(p->token.length < 60 ? p->token.length : 60), p->token.text);
}

static bool parse_guard(struct ptx_parser *p, int32_t *guard, bool *negate)
{
	struct ptx_operand o = {0};

	ptx_parse_next(p);
	*negate = ptx_parse_accept(p, '!');
	if (p->token.kind != PTX_TOK_NAME || !ptx_parse_named(p, &o, false) || o.kind != PTX_OP_REG || o.select ||
	    p->function->regs[o.reg].type != PTX_PRED)
		return ptx_parse_fail(p, PTX_INVALID, "a guard must be a predicate register");
	*guard = o.reg;
	return true;
}

/* The functions or labels that a call or a branch may go to. */
static bool parse_targets(struct ptx_parser *p, struct ptx_symbol *label, bool labels)
{
	struct ptx_targets *targets = ptx_alloc(&p->module->arena, sizeof(*targets));
	const struct ptx_symbol **slot;
	uint32_t room = 0;

	if (!targets)
		return no_memory(p);
	do {
		ptx_parse_next(p);
		if (p->token.kind != PTX_TOK_NAME)
			return ptx_parse_expect(p, PTX_TOK_NAME);
		slot = ptx_grow(&p->module->arena, (void **)&targets->list, &targets->count, &room, sizeof(*slot));
		if (!slot)
			return no_memory(p);
		*slot = labels ? ptx_parse_label(p, &p->token) : ptx_parse_symbol(p, p->token.text, p->token.length);
		if (!*slot || (!labels && (*slot)->kind != PTX_SYM_FUNCTION))
			return ptx_parse_fail(p, PTX_INVALID, "`%.*s` is not a function that was declared before",
					      (int)(p->token.length < 100 ? p->token.length : 100), p->token.text);
		ptx_parse_next(p);
	} while (p->token.kind == ',');
	label->targets = targets;
	return ptx_parse_expect(p, ';');
}

static bool parse_statement(struct ptx_parser *p)
{
	struct ptx_token name;
	struct ptx_symbol *label;
	int32_t guard = -1;
	bool negate = false;

	if (p->token.kind == PTX_TOK_NAME && p->token.text[0] == '.')
		return parse_body_directive(p);
	if (ptx_parse_accept(p, ';'))
		return true;
	if (p->token.kind == '@' && !parse_guard(p, &guard, &negate))
		return false;
	name = p->token;
	if (!ptx_parse_expect(p, PTX_TOK_NAME))
		return false;
	if (guard < 0 && ptx_parse_accept(p, ':')) {
		label = ptx_parse_label(p, &name);
		if (!label)
			return false;
		if (p->function->labels[label->index] != UINT32_MAX)
			return ptx_parse_fail(p, PTX_INVALID, "the label `%s` stands twice", label->name);
		p->function->labels[label->index] = p->function->instr_count;
		if (ptx_token_is(&p->token, ".callprototype"))
			return ptx_parse_prototype(p, label);
		if (ptx_token_is(&p->token, ".calltargets") || ptx_token_is(&p->token, ".branchtargets"))
			return parse_targets(p, label, ptx_token_is(&p->token, ".branchtargets"));
		return true;
	}
	return parse_instruction(p, &name, guard, negate);
}

bool ptx_parse_body(struct ptx_parser *p)
{
	p->instr_room = p->reg_room = 0;
	ptx_parse_begin_labels(p);
	do {
		if (ptx_parse_accept(p, '{')) {
			if (!ptx_parse_open_scope(p) || (p->depth == 1 && !ptx_parse_open_function(p)))
				return false;
		} else if (p->token.kind == '}') {
			p->closing = p->token;
			ptx_parse_next(p);
			if (!ptx_parse_leave_scope(p))
				return false;
		} else if (!p->token.kind) {
			return ptx_parse_fail(p, PTX_INVALID, "the module ends inside `%s`", p->function->name);
		} else if (!parse_statement(p)) {
			return false;
		}
	} while (p->depth);
	ptx_parse_end_labels(p);
	return ptx_parse_return(p, NULL) && p->status == PTX_OK;
}

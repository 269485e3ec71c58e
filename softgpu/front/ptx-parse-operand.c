/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of instructions. */
#include <string.h>

#include "front/ptx-parse.h"

/* %r17 is register 17 of the family declared as %r<32>. */
static const struct ptx_symbol *find_register(struct ptx_parser *p, const struct ptx_token *name, int32_t *reg)
{
	size_t digits = name->length;
	const struct ptx_symbol *s = ptx_parse_symbol(p, name->text, name->length);
	uint64_t number = 0;

	if (s && s->kind == PTX_SYM_REGISTER)
		*reg = (int32_t)s->index;
	if (s)
		return s;
	while (digits && name->text[digits - 1] >= '0' && name->text[digits - 1] <= '9')
		digits--;
	if (digits == name->length || name->length - digits > 7)
		return NULL;
	for (size_t i = digits; i < name->length; i++)
		number = number * 10 + (uint64_t)(name->text[i] - '0');
	s = ptx_parse_symbol(p, name->text, digits);
	if (!s || s->kind != PTX_SYM_FAMILY || number >= s->count)
		return NULL;
	*reg = (int32_t)(s->index + number * (s->lanes ? s->lanes : 1));
	return s;
}

/* v.x: one register of a vector. */
static bool find_part(struct ptx_parser *p, const struct ptx_token *name, int32_t *reg)
{
	static const char parts[] = "xyzwrgba";
	struct ptx_token whole = *name;
	const struct ptx_symbol *s;
	const char *part = name->length > 2 ? strchr(parts, name->text[name->length - 1]) : NULL;
	unsigned n = part ? (unsigned)(part - parts) % 4 : 0;

	if (!part || !*part || name->text[name->length - 2] != '.')
		return false;
	whole.length -= 2;
	s = find_register(p, &whole, reg);
	if (!s || *reg < 0 || n >= s->lanes)
		return false;
	*reg += (int32_t)n;
	return true;
}

/* The registers of a vector that begins at o->reg. */
static bool spread(struct ptx_parser *p, struct ptx_operand *o, unsigned lanes)
{
	int32_t first = o->reg;

	*o = (struct ptx_operand){.kind = PTX_OP_VECTOR, .reg = -1, .reg2 = -1, .count = (uint8_t)lanes};
	o->elements = ptx_alloc(&p->module->arena, lanes * sizeof(*o->elements));
	if (!o->elements)
		return ptx_parse_no_memory(p);
	for (unsigned n = 0; n < lanes; n++)
		o->elements[n] = (struct ptx_operand){.kind = PTX_OP_REG, .reg = first + (int32_t)n, .reg2 = -1};
	return true;
}

/* %r1.b0, %r1.h10: how much of the name is the register's; 0 if it does not end in a selector. */
static size_t before_selector(const struct ptx_token *name, uint16_t *select)
{
	size_t at = name->length, digits;
	uint16_t value = 0;

	while (at && name->text[at - 1] >= '0' && name->text[at - 1] <= '7')
		at--;
	digits = name->length - at;
	if (!digits || digits > 4 || at < 3 || name->text[at - 2] != '.' || !strchr("bh", name->text[at - 1]))
		return 0;
	for (size_t n = 0; n < digits; n++)
		value |= (uint16_t)((name->text[name->length - 1 - n] - '0') << 3 * n);
	*select = (uint16_t)(value | digits << 12 | (name->text[at - 1] == 'h') << 15);
	return at - 2;
}

static bool parse_offset(struct ptx_parser *p, uint64_t *imm)
{
	uint64_t value;
	bool minus;

	while (p->token.kind == '+' || p->token.kind == '-') {
		minus = p->token.kind == '-';
		ptx_parse_next(p);
		if (!ptx_parse_product(p, &value))
			return false;
		*imm += minus ? -value : value;
	}
	return true;
}

bool ptx_parse_named(struct ptx_parser *p, struct ptx_operand *o, bool label)
{
	struct ptx_token name = p->token, whole;
	const struct ptx_symbol *s;

	o->reg = o->reg2 = -1;
	if (label) {
		s = ptx_parse_prototype_label(p, &name);
		o->kind = PTX_OP_LABEL;
		o->symbol = s;
		o->reg = s ? (int32_t)s->index : 0;
		ptx_parse_next(p);
		return s;
	}
	ptx_parse_next(p);
	if (name.length == 1 && name.text[0] == '_') {
		o->kind = PTX_OP_SINK;
	} else if ((s = find_register(p, &name, &o->reg))) {
		o->kind = o->reg >= 0 ? PTX_OP_REG : PTX_OP_SYMBOL;
		o->symbol = s;
		if (o->kind == PTX_OP_SYMBOL && s->kind == PTX_SYM_FAMILY)
			return ptx_parse_fail(p, PTX_INVALID, "`%s` needs a register number", s->name);
		if (o->kind == PTX_OP_REG && s->lanes)
			return !o->negate && !o->minus ? spread(p, o, s->lanes)
						       : ptx_parse_fail(p, PTX_INVALID, "a sign before a vector");
	} else if (whole = name, (whole.length = before_selector(&name, &o->select)) &&
				 find_register(p, &whole, &o->reg) && o->reg >= 0) {
		o->kind = PTX_OP_REG;
	} else if (find_part(p, &name, &o->reg)) {
		o->kind = PTX_OP_REG;
	} else if (name.text[0] == '%') {
		char text[32] = "";

		memcpy(text, name.text, name.length < sizeof(text) - 1 ? name.length : sizeof(text) - 1);
		if (ptx_special_constant(text, &o->imm)) {
			o->kind = PTX_OP_INT;
			return true;
		}
		o->symbol = ptx_special_reserved(text, &o->imm);
		o->kind = o->symbol ? PTX_OP_SYMBOL : PTX_OP_SPECIAL;
		o->reg = o->symbol ? -1 : ptx_special_find(text);
	}
	if (o->kind == PTX_OP_NONE || (o->kind == PTX_OP_SPECIAL && o->reg < 0)) {
		p->token = name;
		return ptx_parse_fail(
			p, name.text[0] == '%' && memchr(name.text, '.', name.length) ? PTX_NOT_SUPPORTED : PTX_INVALID,
			"`%.*s` is not declared", (int)(name.length < 100 ? name.length : 100), name.text);
	}
	return o->kind != PTX_OP_SYMBOL || parse_offset(p, &o->imm);
}

static bool parse_literal(struct ptx_parser *p, struct ptx_operand *o)
{
	struct ptx_constant v;

	o->reg = o->reg2 = -1;
	if (!ptx_parse_constant(p, &v))
		return false;
	o->kind = v.kind == PTX_CONST_REAL ? PTX_OP_FLOAT : PTX_OP_INT;
	o->single = v.single;
	o->imm = v.single ? v.bits : v.value;
	return true;
}

/* Where an operand begins: is it a constant expression? A ! or a - may also stand before a register. */
static bool at_constant(const struct ptx_parser *p)
{
	const char *at = p->lexer.at;

	if (p->token.kind == PTX_TOK_NAME)
		return ptx_token_is(&p->token, "WARP_SZ");
	if (p->token.kind != '!' && p->token.kind != '-')
		return true;
	while (at < p->lexer.end && (*at == ' ' || *at == '\t'))
		at++;
	if (p->lexer.end - at >= 7 && !memcmp(at, "WARP_SZ", 7))
		return true;
	return at < p->lexer.end && memchr("0123456789.(-+~!", *at, 16);
}

bool ptx_parse_address(struct ptx_parser *p, struct ptx_operand *o)
{
	ptx_parse_next(p);
	if (p->token.kind == PTX_TOK_NAME) {
		if (!ptx_parse_named(p, o, false))
			return false;
		if ((o->kind != PTX_OP_REG && o->kind != PTX_OP_SYMBOL) || o->select)
			return ptx_parse_fail(p, PTX_INVALID, "an address must be a register, a symbol or a number");
		if (!parse_offset(p, &o->imm))
			return false;
	} else {
		if (!ptx_parse_number(p, &o->imm))
			return false;
		o->reg = o->reg2 = -1;
	}
	o->kind = PTX_OP_MEM;
	return true;
}

static bool parse_memory(struct ptx_parser *p, struct ptx_operand *o)
{
	if (!ptx_parse_address(p, o) || !ptx_parse_expect(p, ']'))
		return false;
	/* says how the address is looked up, and nothing about what is there */
	if (ptx_token_is(&p->token, ".unified"))
		ptx_parse_next(p);
	return true;
}

static bool parse_vector(struct ptx_parser *p, struct ptx_operand *o, unsigned depth)
{
	ptx_parse_next(p);
	o->kind = PTX_OP_VECTOR;
	o->reg = o->reg2 = -1;
	o->elements = ptx_alloc(&p->module->arena, 8 * sizeof(*o));
	if (!o->elements)
		return ptx_parse_no_memory(p);
	do {
		if (o->count == 8)
			return ptx_parse_fail(p, PTX_INVALID, "more than 8 elements in a vector");
		if (!ptx_parse_operand(p, &o->elements[o->count++], false, depth + 1))
			return false;
		if (o->elements[o->count - 1].select)
			return ptx_parse_fail(p, PTX_INVALID, "a selector inside a vector");
	} while (ptx_parse_accept(p, ','));
	return ptx_parse_expect(p, '}');
}

bool ptx_parse_special_vector(struct ptx_parser *p, struct ptx_operand *o)
{
	char name[32] = "";

	o->kind = PTX_OP_VECTOR;
	o->reg = o->reg2 = -1;
	o->count = 4;
	o->elements = ptx_alloc(&p->module->arena, 4 * sizeof(*o->elements));
	if (!o->elements)
		return ptx_parse_no_memory(p);
	for (unsigned n = 0; n < 4 && p->token.length < sizeof(name) - 3; n++) {
		memcpy(name, p->token.text, p->token.length);
		name[p->token.length] = '.';
		name[p->token.length + 1] = "xyzw"[n];
		o->elements[n] = (struct ptx_operand){.kind = PTX_OP_SPECIAL, .reg = ptx_special_find(name), .reg2 = -1};
	}
	if (!name[0] || o->elements[0].reg < 0)
		return ptx_parse_fail(p, PTX_INVALID, "`%.*s` has no parts", (int)(p->token.length < 100 ? p->token.length : 100),
				      p->token.text);
	ptx_parse_next(p);
	return true;
}

bool ptx_parse_argument(struct ptx_parser *p, struct ptx_operand *o)
{
	return ptx_parse_operand(p, o, false, 1);
}

bool ptx_parse_operand(struct ptx_parser *p, struct ptx_operand *o, bool label, unsigned depth)
{
	if (depth > 1)
		return ptx_parse_fail(p, PTX_INVALID, "a vector inside a vector");
	if (p->token.kind == '[')
		return parse_memory(p, o);
	if (p->token.kind == '{')
		return parse_vector(p, o, depth);
	if (at_constant(p))
		return parse_literal(p, o);
	o->negate = ptx_parse_accept(p, '!');
	o->minus = !o->negate && ptx_parse_accept(p, '-');
	if (!ptx_parse_named(p, o, label))
		return false;
	if (o->kind == PTX_OP_VECTOR && depth)
		return ptx_parse_fail(p, PTX_INVALID, "a vector inside a vector");
	if (o->kind == PTX_OP_REG && p->token.kind == '|') {
		struct ptx_operand second = {0};

		ptx_parse_next(p);
		if (!ptx_parse_named(p, &second, false) || (second.kind != PTX_OP_REG && second.kind != PTX_OP_SINK))
			return ptx_parse_fail(p, PTX_INVALID, "`|` must be followed by a register");
		o->reg2 = second.reg;
	} else if (o->kind == PTX_OP_SINK && ptx_parse_accept(p, '|')) {
		struct ptx_operand second = {0};

		if (!ptx_parse_named(p, &second, false))
			return false;
		o->reg2 = second.reg;
	}
	return true;
}

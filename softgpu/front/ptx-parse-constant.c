/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant expressions: integers of 64 bits, signed unless a literal or a cast says otherwise, and f64. The grammar is
 * C's, without assignments.
 */
#include <string.h>

#include "front/ptx-parse.h"

#define MAX_DEPTH 64

struct operation {
	char text[3];
	unsigned level; /* the higher, the tighter it binds */
};

/* Where two begin alike, the longer one comes first. */
static const struct operation operations[] = {
	{"||", 1}, {"&&", 2}, {"|", 3},	 {"^", 4},  {"&", 5}, {"==", 6}, {"!=", 6}, {"<<", 8}, {">>", 8},
	{"<=", 7}, {">=", 7}, {"<", 7}, {">", 7}, {"+", 9}, {"-", 9},	{"*", 10}, {"/", 10}, {"%", 10},
};

static bool bad(struct ptx_parser *p, const char *what)
{
	return ptx_parse_fail(p, PTX_INVALID, "a constant expression %s", what);
}

static double real(const struct ptx_constant *v)
{
	double value;

	if (v->kind == PTX_CONST_REAL) {
		memcpy(&value, &v->value, sizeof(value));
		return value;
	}
	return v->kind == PTX_CONST_SIGNED ? (double)(int64_t)v->value : (double)v->value;
}

static void set_real(struct ptx_constant *v, double value)
{
	v->kind = PTX_CONST_REAL;
	memcpy(&v->value, &value, sizeof(value));
}

static void set_truth(struct ptx_constant *v, bool truth)
{
	v->kind = PTX_CONST_SIGNED;
	v->value = truth;
}

/* The operator that the token begins; its second character is the next token if it is adjacent. */
static const struct operation *operation_at(const struct ptx_parser *p)
{
	const char *text = p->token.text;
	bool two = p->token.kind && text + 1 < p->lexer.end;

	if (p->token.kind > 127 || !p->token.kind)
		return NULL;
	for (size_t n = 0; n < sizeof(operations) / sizeof(operations[0]); n++) {
		const char *o = operations[n].text;

		if (o[0] == text[0] && (!o[1] || (two && o[1] == text[1])))
			return &operations[n];
	}
	return NULL;
}

static bool on_reals(struct ptx_parser *p, const char *o, struct ptx_constant *a, const struct ptx_constant *b)
{
	double x = real(a), y = real(b);

	switch (o[0] << 8 | o[1]) {
	case '+' << 8:
		set_real(a, x + y);
		return true;
	case '-' << 8:
		set_real(a, x - y);
		return true;
	case '*' << 8:
		set_real(a, x * y);
		return true;
	case '/' << 8:
		set_real(a, x / y);
		return true;
	case '<' << 8:
		set_truth(a, x < y);
		return true;
	case '>' << 8:
		set_truth(a, x > y);
		return true;
	case '<' << 8 | '=':
		set_truth(a, x <= y);
		return true;
	case '>' << 8 | '=':
		set_truth(a, x >= y);
		return true;
	case '=' << 8 | '=':
		set_truth(a, x == y);
		return true;
	case '!' << 8 | '=':
		set_truth(a, x != y);
		return true;
	default:
		return bad(p, "has a floating point number where only integers may stand");
	}
}

static bool divide(struct ptx_parser *p, bool rest, bool sign, struct ptx_constant *a, uint64_t y)
{
	uint64_t x = a->value;

	if (!y)
		return bad(p, "divides by 0");
	if (sign && y == UINT64_MAX)
		a->value = rest ? 0 : -x;
	else if (sign)
		a->value = (uint64_t)(rest ? (int64_t)x % (int64_t)y : (int64_t)x / (int64_t)y);
	else
		a->value = rest ? x % y : x / y;
	return true;
}

static uint64_t shifted(bool left, bool sign, uint64_t x, uint64_t by)
{
	uint64_t all = sign && x >> 63 ? UINT64_MAX : 0;

	if (by > 63)
		return left ? 0 : all;
	if (left)
		return x << by;
	return by ? x >> by | all << (64 - by) : x;
}

/* a = a o b; integers of different signedness are unsigned together, a shift has the type of its left side */
static bool combine(struct ptx_parser *p, const char *o, struct ptx_constant *a, const struct ptx_constant *b)
{
	bool shift = !strcmp(o, "<<") || !strcmp(o, ">>"), sign;
	uint64_t x = a->value, y = b->value;

	if (a->kind == PTX_CONST_REAL || b->kind == PTX_CONST_REAL)
		return on_reals(p, o, a, b);
	sign = a->kind == PTX_CONST_SIGNED && (shift || b->kind == PTX_CONST_SIGNED);
	a->kind = sign ? PTX_CONST_SIGNED : PTX_CONST_UNSIGNED;
	switch (o[0] << 8 | o[1]) {
	case '+' << 8:
		a->value = x + y;
		return true;
	case '-' << 8:
		a->value = x - y;
		return true;
	case '*' << 8:
		a->value = x * y;
		return true;
	case '&' << 8:
		a->value = x & y;
		return true;
	case '|' << 8:
		a->value = x | y;
		return true;
	case '^' << 8:
		a->value = x ^ y;
		return true;
	case '/' << 8:
	case '%' << 8:
		return divide(p, o[0] == '%', sign, a, y);
	}
	if (shift) {
		a->value = shifted(o[0] == '<', sign, x, y);
		return true;
	}
	/* flipping the sign bit makes signed order unsigned */
	if (sign && strchr("<>", o[0])) {
		x ^= 1ull << 63;
		y ^= 1ull << 63;
	}
	set_truth(a, !strcmp(o, "&&")   ? x && y
		     : !strcmp(o, "||") ? x || y
		     : !strcmp(o, "==") ? x == y
		     : !strcmp(o, "!=") ? x != y
		     : !strcmp(o, "<")  ? x < y
		     : !strcmp(o, "<=") ? x <= y
		     : !strcmp(o, ">")  ? x > y
					: x >= y);
	return true;
}

static bool choice(struct ptx_parser *p, struct ptx_constant *v, unsigned depth);

static bool literal(struct ptx_parser *p, struct ptx_constant *v)
{
	const struct ptx_token *t = &p->token;

	*v = (struct ptx_constant){.value = t->value};
	if (t->kind == PTX_TOK_INT) {
		bool suffix = strchr("uU", t->text[t->length - 1]);

		v->kind = suffix || t->value >> 63 ? PTX_CONST_UNSIGNED : PTX_CONST_SIGNED;
	} else if (t->kind == PTX_TOK_SINGLE) {
		uint32_t bits = (uint32_t)t->value;
		float narrow;

		memcpy(&narrow, &bits, sizeof(narrow));
		set_real(v, narrow);
		v->single = true;
		v->bits = bits;
	} else if (t->kind == PTX_TOK_DOUBLE) {
		v->kind = PTX_CONST_REAL;
	} else if (ptx_token_is(t, "WARP_SZ")) {
		*v = (struct ptx_constant){.kind = PTX_CONST_SIGNED, .value = 32};
	} else {
		return ptx_parse_expect(p, PTX_TOK_INT);
	}
	ptx_parse_next(p);
	return true;
}

static bool unary(struct ptx_parser *p, struct ptx_constant *v, unsigned depth);

/* (expression), or a cast: (.s64) or (.u64) */
static bool in_brackets(struct ptx_parser *p, struct ptx_constant *v, unsigned depth)
{
	bool to_signed = ptx_token_is(&p->token, ".s64"), cast = to_signed || ptx_token_is(&p->token, ".u64");

	if (!cast)
		return choice(p, v, depth) && ptx_parse_expect(p, ')');
	ptx_parse_next(p);
	if (!ptx_parse_expect(p, ')') || !unary(p, v, depth))
		return false;
	if (v->kind == PTX_CONST_REAL)
		return bad(p, "casts a floating point number");
	v->kind = to_signed ? PTX_CONST_SIGNED : PTX_CONST_UNSIGNED;
	return true;
}

static bool unary(struct ptx_parser *p, struct ptx_constant *v, unsigned depth)
{
	int sign = p->token.kind;

	if (depth > MAX_DEPTH)
		return bad(p, "is nested too deeply");
	if (sign == '(') {
		ptx_parse_next(p);
		return in_brackets(p, v, depth + 1);
	}
	if (sign != '-' && sign != '+' && sign != '!' && sign != '~')
		return literal(p, v);
	ptx_parse_next(p);
	if (!unary(p, v, depth + 1))
		return false;
	if (sign == '~' && v->kind == PTX_CONST_REAL)
		return bad(p, "has a floating point number where only integers may stand");
	if (sign == '!')
		set_truth(v, v->kind == PTX_CONST_REAL ? real(v) == 0 : !v->value);
	else if (sign == '~')
		v->value = ~v->value;
	else if (sign == '-' && v->kind == PTX_CONST_REAL)
		v->value ^= 1ull << 63;
	else if (sign == '-')
		v->value = -v->value;
	if (sign == '-' && v->single)
		v->bits ^= 1u << 31;
	v->single &= sign == '-' || sign == '+';
	return true;
}

static bool binary(struct ptx_parser *p, struct ptx_constant *v, unsigned level, unsigned depth)
{
	const struct operation *o;
	struct ptx_constant right;

	if (!unary(p, v, depth))
		return false;
	while ((o = operation_at(p)) && o->level >= level) {
		ptx_parse_next(p);
		if (o->text[1])
			ptx_parse_next(p);
		if (depth > MAX_DEPTH)
			return bad(p, "is nested too deeply");
		if (!binary(p, &right, o->level + 1, depth + 1) || !combine(p, o->text, v, &right))
			return false;
		v->single = false;
	}
	return true;
}

static bool choice(struct ptx_parser *p, struct ptx_constant *v, unsigned depth)
{
	struct ptx_constant yes, no;

	if (depth > MAX_DEPTH)
		return bad(p, "is nested too deeply");
	if (!binary(p, v, 1, depth) || !ptx_parse_accept(p, '?'))
		return p->status == PTX_OK;
	if (!choice(p, &yes, depth + 1) || !ptx_parse_expect(p, ':') || !choice(p, &no, depth + 1))
		return false;
	*v = (v->kind == PTX_CONST_REAL ? real(v) != 0 : v->value != 0) ? yes : no;
	return true;
}

bool ptx_parse_constant(struct ptx_parser *p, struct ptx_constant *v)
{
	return choice(p, v, 0);
}

bool ptx_parse_product(struct ptx_parser *p, uint64_t *value)
{
	struct ptx_constant v;

	*value = 0;
	if (!binary(p, &v, 10, 0))
		return false;
	if (v.kind == PTX_CONST_REAL)
		return bad(p, "is not an integer");
	*value = v.value;
	return true;
}

bool ptx_parse_number(struct ptx_parser *p, uint64_t *value)
{
	struct ptx_constant v;

	*value = 0;
	if (!choice(p, &v, 0))
		return false;
	if (v.kind == PTX_CONST_REAL)
		return bad(p, "is not an integer");
	*value = v.value;
	return true;
}

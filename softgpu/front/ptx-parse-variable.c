/* SPDX-License-Identifier: Apache-2.0 */
/* Variables and their initial values; declarations, which parameters share with them. */
#include <stdlib.h>
#include <string.h>

#include "front/ptx-parse.h"

#define MAX_VARIABLE_BYTES (1ull << 36)
#define MAX_INIT_BYTES (256ull << 20)
#define MAX_CONSTANT_BYTES (64u << 10)

unsigned ptx_parse_space(const struct ptx_token *token)
{
	static const struct {
		const char *name;
		unsigned space;
	} spaces[] = {{".global", PTX_GLOBAL},
		      {".shared", PTX_SHARED},
		      {".local", PTX_LOCAL},
		      {".const", PTX_CONST},
		      {".param", PTX_PARAM}};

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++)
		if (ptx_token_is(token, spaces[i].name))
			return spaces[i].space;
	return PTX_GENERIC;
}

static void parse_attribute(struct ptx_parser *p, struct ptx_declaration *d)
{
	ptx_parse_expect(p, '(');
	if (!ptx_token_is(&p->token, ".managed"))
		ptx_parse_fail(p, PTX_NOT_SUPPORTED, "attribute `%.*s` is not supported", (int)p->token.length,
			       p->token.text);
	else if (d->space != PTX_GLOBAL)
		ptx_parse_fail(p, PTX_INVALID, "only a .global variable can be managed");
	d->managed = true;
	ptx_parse_next(p);
	ptx_parse_expect(p, ')');
}

/* The product of the dimensions must not overflow: NVIDIA's assembler takes 2^70 bytes for none. */
static bool multiply_size(struct ptx_declaration *d, uint64_t n)
{
	bool global = d->space == PTX_GLOBAL || d->space == PTX_CONST;

	return !__builtin_mul_overflow(d->size, n, &d->size) &&
	       d->size <= (global ? MAX_VARIABLE_BYTES : PTX_MAX_SPACE_BYTES);
}

static void parse_dimensions(struct ptx_parser *p, struct ptx_declaration *d)
{
	d->open_array = false;
	d->dimension_count = 0;
	while (ptx_parse_accept(p, '[')) {
		uint64_t n = 0;

		if (p->token.kind == ']' && !d->dimension_count)
			d->open_array = true;
		else if (ptx_parse_number(p, &n) && !multiply_size(d, n))
			ptx_parse_fail(p, PTX_INVALID, "the array `%.*s` is too large", (int)d->name_length, d->name);
		ptx_parse_expect(p, ']');
		if (d->dimension_count == PTX_MAX_DIMENSIONS)
			ptx_parse_fail(p, PTX_NOT_SUPPORTED, "an array of more than %u dimensions is not supported",
				       PTX_MAX_DIMENSIONS);
		else
			d->dimensions[d->dimension_count++] = n;
	}
}

/*
 * A reference to a texture or surface is a variable with the handle of the object that it is bound to: the runtime
 * library writes it. Only names at module scope are bound.
 */
static bool is_reference(const struct ptx_token *token, struct ptx_declaration *d)
{
	if (d->space != PTX_GLOBAL || (!ptx_token_is(token, ".texref") && !ptx_token_is(token, ".surfref")))
		return false;
	d->reference = true;
	return true;
}

/* [.align N] [.ptr [space] [.align N]] [.vN] .type name [dims]; a parameter without a name is not PTX. */
bool ptx_parse_declaration(struct ptx_parser *p, struct ptx_declaration *d)
{
	uint64_t value;

	d->lanes = 1;
	while (p->token.kind == PTX_TOK_NAME && p->token.text[0] == '.') {
		unsigned type = ptx_parse_type(p->token.text + 1, p->token.length - 1);
		bool align = ptx_token_is(&p->token, ".align"), attribute = ptx_token_is(&p->token, ".attribute");

		if (type)
			d->type = type;
		else if (is_reference(&p->token, d))
			d->type = PTX_B64;
		else if (ptx_token_is(&p->token, ".v2") || ptx_token_is(&p->token, ".v4"))
			d->lanes = (unsigned)(p->token.text[2] - '0');
		else if (!align && !attribute && !ptx_token_is(&p->token, ".ptr") && !ptx_parse_space(&p->token))
			return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "`%.*s` is not supported in a declaration",
					      (int)p->token.length, p->token.text);
		ptx_parse_next(p);
		if (attribute)
			parse_attribute(p, d);
		if (align && ptx_parse_integer(p, &value)) {
			if (!value || value > 65536 || (value & (value - 1)))
				return ptx_parse_fail(p, PTX_INVALID, "the alignment must be a power of two");
			/* in a parameter, what follows .ptr is about the pointee: it never needs less than the type */
			if (!d->type)
				d->align = value;
		}
	}
	if (!d->type)
		return ptx_parse_fail(p, PTX_INVALID, "a declaration without a type");
	d->size = ptx_types[d->type].bits / 8 * d->lanes;
	if (d->align < d->size && !d->align)
		d->align = d->size;
	if (!d->align)
		d->align = 1;
	d->name = p->token.text;
	d->name_length = p->token.length;
	if (!ptx_parse_expect(p, PTX_TOK_NAME))
		return false;
	parse_dimensions(p, d);
	return p->status == PTX_OK;
}

struct init {
	uint8_t *bytes;
	uint64_t size, used, room;
	struct ptx_reloc **tail;
};

static bool init_put(struct ptx_parser *p, struct init *init, const void *value, unsigned bytes)
{
	if (init->used + bytes > init->size)
		return ptx_parse_fail(p, PTX_INVALID, "more initial values than the variable has room for");
	if (init->used + bytes > init->room) {
		uint64_t least = init->used + bytes, room = least < 128 ? 256 : 2 * least;
		uint8_t *bigger = ptx_has_room(room) ? realloc(init->bytes, room) : NULL;

		if (!bigger)
			return ptx_parse_no_memory(p);
		memset(bigger + init->room, 0, room - init->room);
		init->bytes = bigger;
		init->room = room;
	}
	memcpy(init->bytes + init->used, value, bytes);
	init->used += bytes;
	return true;
}

static bool init_address(struct ptx_parser *p, struct init *init, unsigned bytes)
{
	bool generic = ptx_token_is(&p->token, "generic");
	struct ptx_reloc *reloc = ptx_alloc(&p->module->arena, sizeof(*reloc));
	uint64_t zero = 0, addend = 0;

	if (!reloc)
		return ptx_parse_no_memory(p);
	if (generic) {
		ptx_parse_next(p);
		ptx_parse_expect(p, '(');
	}
	reloc->symbol = ptx_parse_symbol(p, p->token.text, p->token.length);
	if (!reloc->symbol || bytes != 8 ||
	    (reloc->symbol->kind != PTX_SYM_VARIABLE && reloc->symbol->kind != PTX_SYM_FUNCTION))
		return ptx_parse_fail(p, reloc->symbol ? PTX_NOT_SUPPORTED : PTX_INVALID,
				      "`%.*s` cannot be an initial value", (int)p->token.length, p->token.text);
	ptx_parse_next(p);
	if (generic)
		ptx_parse_expect(p, ')');
	while (p->token.kind == '+' || p->token.kind == '-') {
		bool minus = p->token.kind == '-';

		ptx_parse_next(p);
		if (!ptx_parse_product(p, &addend))
			return false;
		reloc->addend = (int64_t)((uint64_t)reloc->addend + (minus ? -addend : addend));
	}
	reloc->offset = init->used;
	reloc->bytes = (uint8_t)bytes;
	*init->tail = reloc;
	init->tail = &reloc->next;
	return init_put(p, init, &zero, bytes);
}

static uint16_t half_of(double value, bool bfloat)
{
	_Float16 half = (_Float16)value;
	float narrow = (float)value;
	uint32_t bits;
	uint16_t word;

	memcpy(&bits, &narrow, sizeof(bits));
	memcpy(&word, &half, sizeof(word));
	return bfloat ? (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16) : word;
}

/* The bits of a number in a type of `bytes`; a literal of an f32 is its bits. */
static uint64_t bits_in_type(const struct ptx_constant *v, unsigned type)
{
	double wide;
	float narrow;
	uint32_t bits;

	if (v->single)
		return v->bits;
	if (v->kind != PTX_CONST_REAL || ptx_types[type].bits == 64)
		return v->value;
	memcpy(&wide, &v->value, sizeof(wide));
	if (ptx_types[type].bits == 16)
		return half_of(wide, type == PTX_BF16);
	narrow = (float)wide;
	memcpy(&bits, &narrow, sizeof(bits));
	return bits;
}

static bool init_value(struct ptx_parser *p, struct init *init, unsigned type)
{
	unsigned bytes = ptx_types[type].bits / 8;
	struct ptx_constant v;
	uint64_t bits[2] = {0};

	if (p->token.kind == PTX_TOK_NAME && !ptx_token_is(&p->token, "WARP_SZ"))
		return init_address(p, init, bytes);
	if (!ptx_parse_constant(p, &v))
		return false;
	bits[0] = bits_in_type(&v, type);
	return init_put(p, init, bits, bytes);
}

/* A vector has all of its values. */
static bool init_vector(struct ptx_parser *p, struct init *init, const struct ptx_declaration *d)
{
	if (d->lanes == 1)
		return init_value(p, init, d->type);
	ptx_parse_expect(p, '{');
	for (unsigned lane = 0; p->status == PTX_OK && lane < d->lanes; lane++)
		if (!lane || ptx_parse_expect(p, ','))
			init_value(p, init, d->type);
	return ptx_parse_expect(p, '}');
}

/*
 * The braces are those of the array's dimensions. Each may have fewer values than it has room for, down to none: the
 * others are 0. `bytes`: the size of an element of the array.
 */
static void init_array(struct ptx_parser *p, struct init *init, const struct ptx_declaration *d, unsigned dimension,
		       uint64_t bytes)
{
	uint64_t count = d->dimension_count - dimension ? d->dimensions[dimension] : 0, begin = init->used, n = 0;

	if (dimension == d->dimension_count) {
		init_vector(p, init, d);
		return;
	}
	if (count)
		bytes /= count;
	if (!ptx_parse_expect(p, '{'))
		return;
	do {
		if (!n && p->token.kind == '}')
			break;
		if (count && n == count)
			ptx_parse_fail(p, PTX_INVALID, "more initial values than the variable has room for");
		else if (bytes > init->size - init->used)
			ptx_parse_fail(p, PTX_NOT_SUPPORTED, "initial values of %llu bytes are not supported",
				       (unsigned long long)(init->used + bytes));
		if (p->status != PTX_OK)
			return;
		init_array(p, init, d, dimension + 1, bytes);
		init->used = begin + ++n * bytes;
	} while (p->status == PTX_OK && ptx_parse_accept(p, ','));
	ptx_parse_expect(p, '}');
}

static bool refuse_empty(struct ptx_parser *p, const struct ptx_declaration *d)
{
	return ptx_parse_fail(p, PTX_INVALID, "the array `%.*s` has no elements", (int)d->name_length, d->name);
}

static bool parse_initialiser(struct ptx_parser *p, struct ptx_declaration *d, struct ptx_variable *v,
			      struct ptx_reloc **relocs)
{
	struct init init = {.size = d->open_array ? MAX_INIT_BYTES : d->size, .tail = relocs};

	if (d->size > MAX_INIT_BYTES)
		return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "an initialised variable of %llu bytes is not supported",
				      (unsigned long long)d->size);
	init_array(p, &init, d, 0, d->size);
	if (p->status == PTX_OK && d->open_array && !init.used)
		return refuse_empty(p, d);
	if (p->status == PTX_OK && d->open_array)
		d->size = v->size = init.used;
	if (p->status == PTX_OK) {
		uint8_t *copy = ptx_alloc(&p->module->arena, d->size);

		if (copy && init.bytes)
			memcpy(copy, init.bytes, init.room < d->size ? init.room : d->size);
		v->init = copy;
		if (!copy)
			ptx_parse_no_memory(p);
	}
	free(init.bytes);
	return p->status == PTX_OK;
}

/* NVIDIA's assembler has the same limit of a text's constants. */
static bool count_constant(struct ptx_parser *p, const struct ptx_declaration *d)
{
	if (d->space != PTX_CONST)
		return true;
	if (__builtin_add_overflow(p->constant_bytes, d->size, &p->constant_bytes) ||
	    p->constant_bytes > MAX_CONSTANT_BYTES)
		return ptx_parse_fail(p, PTX_INVALID, "with `%.*s` there are more than %u KiB of constants",
				      (int)d->name_length, d->name, MAX_CONSTANT_BYTES >> 10);
	return true;
}

static bool define_global(struct ptx_parser *p, struct ptx_declaration *d, struct ptx_symbol *symbol, bool visible)
{
	struct ptx_module *m = p->module;
	uint32_t count = m->variable_count, count2 = count;
	struct ptx_variable *v = ptx_grow(&m->arena, (void **)&m->variables, &count, &m->variable_room, sizeof(*v));
	struct ptx_symbol **s =
		ptx_grow(&m->arena, (void **)&m->variable_symbols, &count2, &m->symbol_room, sizeof(*s));
	struct ptx_reloc **r;

	count2 = m->variable_count;
	r = ptx_grow(&m->arena, (void **)&m->relocs, &count2, &m->reloc_room, sizeof(*r));
	if (!v || !s || !r)
		return ptx_parse_no_memory(p);
	*v = (struct ptx_variable){.name = symbol->name,
				   .size = d->size,
				   .align = d->align,
				   .managed = d->managed,
				   .constant = d->space == PTX_CONST,
				   .visible = visible};
	*s = symbol;
	*r = NULL;
	m->indivisible |= p->function != NULL;
	symbol->index = m->variable_count++;
	if (ptx_parse_accept(p, '='))
		parse_initialiser(p, d, v, r);
	else if (d->open_array)
		return refuse_empty(p, d);
	symbol->size = v->size;
	return p->status == PTX_OK && count_constant(p, d);
}

bool ptx_parse_place(struct ptx_parser *p, uint64_t *end, struct ptx_symbol *symbol)
{
	symbol->offset = (*end + symbol->align - 1) & ~(symbol->align - 1);
	if (__builtin_add_overflow(symbol->offset, symbol->size, end) || *end > PTX_MAX_SPACE_BYTES)
		return ptx_parse_fail(p, PTX_INVALID, "`%s` is too large for its state space", symbol->name);
	return true;
}

static bool place_variable(struct ptx_parser *p, struct ptx_declaration *d, struct ptx_symbol *symbol, bool visible)
{
	if (symbol->dynamic) {
		p->module->dynamic_shared |= !p->function;
		if (p->function)
			p->function->dynamic_shared = true;
		return true;
	}
	if (d->space == PTX_SHARED)
		return true; /* each kernel has its own place for it */
	if (d->space == PTX_LOCAL && p->function)
		return ptx_parse_place(p, &p->function->local_bytes, symbol);
	if (d->space == PTX_PARAM && p->function)
		symbol->kind = PTX_SYM_PARAM;
	else if (d->space == PTX_LOCAL || d->space == PTX_PARAM)
		return ptx_parse_fail(p, PTX_NOT_SUPPORTED, "`%s`: this state space is not supported at module scope",
				      symbol->name);
	else if (!symbol->is_extern && p->function && p->module->facts)
		return ptx_parse_fail(p, PTX_INVALID, "what was known of `%s` does not fit it", p->function->name);
	else if (!symbol->is_extern)
		return define_global(p, d, symbol, visible);
	return true;
}

/* Lets the initial value cover all of a variable, also after a larger common variable of its name came. */
static bool enlarge(struct ptx_parser *p, struct ptx_variable *v, uint64_t size)
{
	uint8_t *bytes;

	if (size <= v->size)
		return true;
	if (v->init) {
		bytes = ptx_alloc(&p->module->arena, size);
		if (!bytes) {
			ptx_parse_fail(p, PTX_NO_MEMORY, "no memory for `%s`", v->name);
			return false;
		}
		memcpy(bytes, v->init, v->size);
		v->init = bytes;
	}
	v->size = size;
	return true;
}

/*
 * The symbol that a declaration defines; NULL: none of its own, because it only repeats one (`*again`) or there is no
 * memory. Among common variables the largest counts, among weak ones the first; a strong one counts before both.
 */
static struct ptx_symbol *define_symbol(struct ptx_parser *p, struct ptx_declaration *d, unsigned linkage, bool *again)
{
	struct ptx_symbol *old = p->function ? NULL : ptx_parse_find_linked(p, d->name, d->name_length, linkage);
	struct ptx_variable *v;

	*again = false;
	if (!old)
		return ptx_parse_declare(p, &p->symbols, d->name, d->name_length);
	if (old->kind != PTX_SYM_VARIABLE || old->space != d->space) {
		ptx_parse_fail(p, PTX_INVALID, "`%s` is declared twice", old->name);
		return NULL;
	}
	*again = linkage & PTX_LINK_EXTERN;
	if (old->is_extern || *again) {
		old->text = p->text;
		return *again ? NULL : old;
	}
	v = d->space == PTX_GLOBAL || d->space == PTX_CONST ? &p->module->variables[old->index] : NULL;
	if (v && old->common && (linkage & PTX_LINK_COMMON)) {
		if (!count_constant(p, d) || !enlarge(p, v, d->size))
			return NULL;
		v->align = v->align > d->align ? v->align : d->align;
		old->size = v->size;
		old->text = p->text;
		*again = true;
		return NULL;
	}
	if (v && (old->weak || old->common) && !(linkage & (PTX_LINK_WEAK | PTX_LINK_COMMON))) {
		v->visible = false;
		return old;
	}
	if (linkage & (PTX_LINK_WEAK | PTX_LINK_COMMON)) {
		struct ptx_symbol *extra = ptx_alloc(&p->module->arena, sizeof(*extra));

		old->text = p->text;
		if (extra)
			*extra = (struct ptx_symbol){.name = old->name, .line = p->token.line};
		else
			ptx_parse_no_memory(p);
		return extra;
	}
	ptx_parse_fail(p, PTX_INVALID, "`%s` is defined twice", old->name);
	return NULL;
}

bool ptx_parse_variable(struct ptx_parser *p, unsigned linkage)
{
	struct ptx_declaration d = {.space = ptx_parse_space(&p->token)};
	bool is_extern = linkage & PTX_LINK_EXTERN, visible = linkage & ~(unsigned)PTX_LINK_EXTERN, again;
	struct ptx_symbol *symbol;

	ptx_parse_next(p);
	do {
		if (!ptx_parse_declaration(p, &d))
			return false;
		if (!is_extern && (!d.size || (d.open_array && (d.space == PTX_SHARED || d.space == PTX_LOCAL))))
			return refuse_empty(p, &d);
		symbol = define_symbol(p, &d, linkage, &again);
		if (again)
			continue;
		if (!symbol)
			return false;
		symbol->kind = PTX_SYM_VARIABLE;
		symbol->space = (uint8_t)d.space;
		symbol->type = (uint8_t)d.type;
		symbol->reference = d.reference;
		symbol->size = d.size;
		symbol->align = d.align;
		symbol->is_extern = is_extern;
		symbol->dynamic = d.space == PTX_SHARED && is_extern;
		if (!p->function)
			ptx_parse_mark_linked(p, symbol, linkage);
		if (!place_variable(p, &d, symbol, visible))
			return false;
	} while (ptx_parse_accept(p, ','));
	return ptx_parse_expect(p, ';');
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices that the registers of a warp hold together: the runtime does the work, between two lists of registers. */
#include <stdio.h>
#include <string.h>

#include "lower/ptx-emit.h"
#include "lower/ptx-lower-access.h"
#include "runtime/ptx-matrix.h"

#define MOST_REGISTERS 8
#define LIST_BYTES (MOST_REGISTERS * PTX_LANES * 8)

static const struct {
	const char *word;
	uint8_t element;
} elements[] = {
	{"f16", PTX_EL_F16}, {"bf16", PTX_EL_BF16}, {"tf32", PTX_EL_TF32}, {"f32", PTX_EL_F32},	  {"f64", PTX_EL_F64},
	{"s8", PTX_EL_S8},   {"u8", PTX_EL_U8},	    {"s4", PTX_EL_S4},	   {"u4", PTX_EL_U4},	  {"b1", PTX_EL_B1},
	{"s32", PTX_EL_S32}, {"e4m3", PTX_EL_E4M3}, {"e5m2", PTX_EL_E5M2},
	{"e2m1", PTX_EL_E2M1}, {"e2m3", PTX_EL_E2M3}, {"e3m2", PTX_EL_E3M2},
};

#define E(id) (1u << PTX_EL_##id)
#define BYTES (E(S8) | E(U8))
#define NIBBLES (E(S4) | E(U4))
#define FP8 (E(E4M3) | E(E5M2))
#define SMALL (E(E2M1) | E(E2M3) | E(E3M2))

enum form { MMA, WMMA, SPARSE };

/* Which elements of A and B each shape is defined for. */
static const struct {
	uint16_t m, n, k;
	uint8_t form; /* enum form */
	uint32_t elements;
} shapes[] = {
	{8, 8, 4, MMA, E(F16) | E(F64)},
	{16, 8, 4, MMA, E(TF32) | E(F64)},
	{16, 8, 8, MMA, E(F16) | E(BF16) | E(TF32) | E(F64)},
	{16, 8, 16, MMA, E(F16) | E(BF16) | E(F64) | BYTES | FP8},
	{8, 8, 16, MMA, BYTES},
	{16, 8, 32, MMA, BYTES | NIBBLES | FP8 | SMALL},
	{8, 8, 32, MMA, NIBBLES},
	{16, 8, 64, MMA, NIBBLES},
	{8, 8, 128, MMA, E(B1)},
	{16, 8, 128, MMA, E(B1)},
	{16, 8, 256, MMA, E(B1)},
	{16, 16, 16, WMMA, E(F16) | E(BF16) | BYTES},
	{8, 32, 16, WMMA, E(F16) | E(BF16) | BYTES},
	{32, 8, 16, WMMA, E(F16) | E(BF16) | BYTES},
	{16, 16, 8, WMMA, E(TF32)},
	{8, 8, 4, WMMA, E(F64)},
	{8, 8, 32, WMMA, NIBBLES},
	{8, 8, 128, WMMA, E(B1)},
	{16, 8, 8, SPARSE, E(TF32)},
	{16, 8, 16, SPARSE, E(F16) | E(BF16) | E(TF32)},
	{16, 8, 32, SPARSE, E(F16) | E(BF16) | BYTES},
	{16, 8, 64, SPARSE, BYTES | NIBBLES | FP8 | SMALL},
	{16, 8, 128, SPARSE, NIBBLES},
};

/* The words of an instruction's name. */
struct named {
	unsigned m, n, k;
	uint8_t types[4];
	unsigned type_count, rows, columns; /* how often row and col are written */
	bool a_col, b_row, shape_first; /* the shape comes before the layouts */
};

static bool read_name(const struct ptx_instr *i, struct named *s)
{
	const char *at = ptx_words_of(i), *word;
	size_t length;

	memset(s, 0, sizeof(*s));
	while ((length = ptx_word_next(&at, &word))) {
		if (*word == 'm' && sscanf(word, "m%un%uk%u", &s->m, &s->n, &s->k) == 3) {
			s->shape_first = !s->rows && !s->columns;
			continue;
		}
		if (length == 3 && !memcmp(word, "row", 3)) {
			s->b_row |= s->rows + s->columns == 1;
			s->rows++;
		} else if (length == 3 && !memcmp(word, "col", 3)) {
			s->a_col |= s->rows + s->columns == 0;
			s->columns++;
		}
		for (size_t n = 0; n < sizeof(elements) / sizeof(elements[0]); n++)
			if (strlen(elements[n].word) == length && !memcmp(elements[n].word, word, length)) {
				if (s->type_count == 4)
					return false;
				s->types[s->type_count++] = elements[n].element;
			}
	}
	return ptx_word(i, "sync") && ptx_word(i, "aligned");
}

static bool shape_has(const struct named *s, enum form form, unsigned element)
{
	for (size_t n = 0; n < sizeof(shapes) / sizeof(shapes[0]); n++)
		if (shapes[n].m == s->m && shapes[n].n == s->n && shapes[n].k == s->k && shapes[n].form == form)
			return shapes[n].elements >> element & 1;
	return false;
}

static unsigned count_of(const struct ptx_operand *o)
{
	return o->kind == PTX_OP_VECTOR ? o->count : 1;
}

static const struct ptx_operand *register_of(const struct ptx_operand *o, unsigned n)
{
	return o->kind == PTX_OP_VECTOR ? &o->elements[n] : o;
}

/* Register lists of the instruction at hand, one after the other. */
static LLVMValueRef list(struct lower *l, unsigned n)
{
	if (!l->mem.operands)
		l->mem.operands = entry_alloca(l, LLVMArrayType2(l->type.i64, 4 * LIST_BYTES / 8));
	return field(l, l->mem.operands, n * LIST_BYTES);
}

static void spill_list(struct lower *l, const struct ptx_operand *o, unsigned type, LLVMValueRef to)
{
	unsigned bytes = ptx_types[type].bits / 8 * PTX_LANES;

	l->at.lanes = l->version.width;
	for (unsigned n = 0; n < count_of(o); n++)
		LLVMSetAlignment(LLVMBuildStore(l->b, get(l, register_of(o, n), type), field(l, to, n * bytes)), 4);
}

static void fill_list(struct lower *l, const struct ptx_operand *o, unsigned type, LLVMValueRef from)
{
	unsigned bits = ptx_types[type].bits;

	l->at.lanes = l->version.width;
	for (unsigned n = 0; n < count_of(o); n++) {
		LLVMValueRef v = LLVMBuildLoad2(l->b, type_for(l, int_type(l, bits)),
						field(l, from, n * bits / 8 * PTX_LANES), "");

		LLVMSetAlignment(v, 4);
		set(l, register_of(o, n), v, false);
	}
}

static bool fits(const struct ptx_operand *o, unsigned rows, unsigned columns, unsigned element, bool wmma)
{
	unsigned needed = ptx_fragment_registers(rows, columns, element);

	/* fragments of f16 always have eight registers in wmma: some hold what others hold */
	if (wmma && element == PTX_EL_F16 && (rows == 16 ? columns : rows) != 0)
		return count_of(o) == 8 || count_of(o) == needed;
	return count_of(o) == needed;
}

static bool accumulates(unsigned element, unsigned sum)
{
	switch (element) {
	case PTX_EL_F16:
	case PTX_EL_E4M3:
	case PTX_EL_E5M2:
	case PTX_EL_E2M1:
	case PTX_EL_E2M3:
	case PTX_EL_E3M2:
		return sum == PTX_EL_F16 || sum == PTX_EL_F32;
	case PTX_EL_BF16:
	case PTX_EL_TF32:
		return sum == PTX_EL_F32;
	case PTX_EL_F64:
		return sum == PTX_EL_F64;
	default:
		return sum == PTX_EL_S32;
	}
}

/* The two of a pair that differ only in their sign or their split of bits go together. */
static bool go_together(unsigned a, unsigned b)
{
	return a == b || ((BYTES >> a & 1) && (BYTES >> b & 1)) || ((NIBBLES >> a & 1) && (NIBBLES >> b & 1)) ||
	       (((FP8 | SMALL) >> a & 1) && ((FP8 | SMALL) >> b & 1));
}

static bool read_operation(const struct ptx_instr *i, enum form form, struct ptx_mma *o, uint32_t *flags)
{
	bool wmma = form == WMMA, bits;
	struct named s;
	uint32_t rounds;

	if (!read_name(i, &s) || s.rows + s.columns != 2 || s.shape_first == wmma)
		return false;
	/* the old form of wmma names only d and c */
	if (wmma && s.type_count == 2)
		*o = (struct ptx_mma){.a = PTX_EL_F16, .b = PTX_EL_F16, .c = s.types[1], .d = s.types[0]};
	else if (s.type_count == 4)
		*o = (struct ptx_mma){.a = s.types[1], .b = s.types[2], .c = s.types[3], .d = s.types[0]};
	else
		return false;
	o->m = (uint8_t)s.m;
	o->n = (uint8_t)s.n;
	o->k = (uint16_t)s.k;
	bits = o->a == PTX_EL_B1;
	*flags = (ptx_word(i, "satfinite") ? PTX_MMA_SATURATE : 0) | (ptx_word(i, "xor") ? PTX_MMA_XOR : 0) |
		 (ptx_word(i, "and") ? PTX_MMA_AND : 0) | (s.a_col ? PTX_MMA_A_COL : 0) |
		 (s.b_row ? PTX_MMA_B_ROW : 0) | (ptx_word(i, "rz") ? PTX_MMA_RZ : 0) |
		 (ptx_word(i, "rm") ? PTX_MMA_RM : 0) | (ptx_word(i, "rp") ? PTX_MMA_RP : 0);
	rounds = *flags & PTX_MMA_ROUND;
	if (rounds && (o->a != PTX_EL_F64 || (rounds & (rounds - 1)) || ptx_word(i, "rn")))
		return false;
	if (!shape_has(&s, form, o->a) || !go_together(o->a, o->b) || !accumulates(o->a, o->c) ||
	    !accumulates(o->a, o->d))
		return false;
	/* numbers of less than 8 bits, and results of mixed types, only in the form that says so */
	if (ptx_word(i, "kind::f8f6f4")
		    ? !((FP8 | SMALL) >> o->a & 1) || (o->k == 16 && (SMALL >> o->b & 1)) || o->c != o->d
		    : (SMALL >> o->a & 1) || (SMALL >> o->b & 1))
		return false;
	if (bits != ptx_word(i, "popc") || bits != !!(*flags & (PTX_MMA_XOR | PTX_MMA_AND)))
		return false;
	/* only the oldest shape, and fragments, come in other orders */
	return wmma || (o->a == PTX_EL_F16 && o->k == 4) || (!s.a_col && !s.b_row);
}

static bool operands_fit(const struct ptx_instr *i, const struct ptx_mma *o, enum form form)
{
	bool wmma = form == WMMA;

	if (form == MMA && o->a == PTX_EL_F16 && o->k == 4)
		return count_of(&i->ops[0]) == (o->d == PTX_EL_F16 ? 4 : 8) && count_of(&i->ops[1]) == 2 &&
		       count_of(&i->ops[2]) == 2 && count_of(&i->ops[3]) == (o->c == PTX_EL_F16 ? 4 : 8);
	return fits(&i->ops[0], o->m, o->n, o->d, false) &&
	       fits(&i->ops[1], o->m, form == SPARSE ? o->k / 2u : o->k, o->a, wmma) &&
	       fits(&i->ops[2], o->k, o->n, o->b, wmma) && fits(&i->ops[3], o->m, o->n, o->c, false);
}

static void multiply(struct lower *l, const struct ptx_instr *i, const struct ptx_mma *o, uint32_t flags)
{
	unsigned type = o->a == PTX_EL_F64 ? PTX_F64 : PTX_B32;
	LLVMValueRef args[6];
	uint64_t packed;

	memcpy(&packed, o, 8);
	args[0] = scalar_const(l->type.i64, packed);
	args[1] = scalar_const(l->type.i32, flags);
	for (unsigned n = 1; n < 4; n++) {
		args[1 + n] = list(l, n);
		spill_list(l, &i->ops[n], type, args[1 + n]);
	}
	if (flags & PTX_MMA_SPARSE)
		spill_list(l, &i->ops[4], PTX_B32, field(l, args[2], count_of(&i->ops[1]) * PTX_LANES * 4));
	args[5] = list(l, 0);
	call_runtime(l, "ptx_rt_mma", l->type.void_type, args, 6);
	fill_list(l, &i->ops[0], type, args[5]);
}

bool emit_mma(struct lower *l, const struct ptx_instr *i)
{
	enum form form = i->op->arg ? WMMA : MMA;
	uint32_t flags;
	struct ptx_mma o;

	if (l->version.width == 1 || !read_operation(i, form, &o, &flags) || !operands_fit(i, &o, form))
		return false;
	multiply(l, i, &o, flags);
	return true;
}

/* The last operand selects the lanes that have the metadata. */
bool emit_mma_sparse(struct lower *l, const struct ptx_instr *i)
{
	uint32_t flags;
	struct ptx_mma o;

	if (l->version.width == 1 || !read_operation(i, SPARSE, &o, &flags) || !operands_fit(i, &o, SPARSE) ||
	    count_of(&i->ops[4]) != 1 || i->ops[5].imm >= 4 / ptx_sparse_lanes(o.k, o.a))
		return false;
	multiply(l, i, &o, flags | PTX_MMA_SPARSE | (uint32_t)i->ops[5].imm << PTX_MMA_SELECTOR);
	return true;
}

/* ---- fragments in memory ---- */

/* An address or a number that all lanes share. */
static LLVMValueRef shared_by_all(struct lower *l, LLVMValueRef v)
{
	LLVMValueRef args[2] = {l->at.mask, scalar_const(l->type.i1, 0)}, lane;

	if (!is_vector(v))
		return v;
	lane = LLVMBuildAnd(l->b, intrinsic(l, "llvm.cttz", l->type.i32, args, 2), scalar_const(l->type.i32, 31), "");
	return LLVMBuildExtractElement(l->b, v, lane, "");
}

static LLVMValueRef tile_address(struct lower *l, const struct ptx_instr *i, bool store)
{
	const struct ptx_operand *o = &i->ops[store ? 0 : 1];
	struct access a;

	access_describe(l, i, &a);
	l->at.lanes = operand_kind(l, o) == PTX_UNIFORM ? 1 : l->version.width;
	return shared_by_all(l, LLVMBuildAdd(l->b, access_address(l, &a),
					     int_const(l, 64, (uint64_t)access_immediate(&a)), ""));
}

static bool describe_tile(const struct ptx_instr *i, bool store, struct ptx_tile *t, uint64_t *stride)
{
	const struct ptx_operand *o = &i->ops[store ? 1 : 0];
	unsigned rows, columns;
	struct named s;
	bool packed;

	if (!read_name(i, &s) || s.type_count != 1 || s.rows + s.columns != 1 ||
	    i->ops[store ? 0 : 1].kind != PTX_OP_MEM)
		return false;
	*t = (struct ptx_tile){.part = ptx_word(i, "a")   ? PTX_MATRIX_A
				       : ptx_word(i, "b") ? PTX_MATRIX_B
							  : PTX_MATRIX_C,
			       .element = s.types[0],
			       .m = (uint8_t)s.m,
			       .n = (uint8_t)s.n,
			       .k = (uint16_t)s.k,
			       .col_major = s.columns == 1,
			       .registers = (uint8_t)count_of(o)};
	if (store ? !ptx_word(i, "d") : ptx_word(i, "a") + ptx_word(i, "b") + ptx_word(i, "c") != 1)
		return false;
	rows = t->part == PTX_MATRIX_B ? s.k : s.m;
	columns = t->part == PTX_MATRIX_A ? s.k : s.n;
	*stride = t->col_major ? rows : columns;
	packed = ptx_element_bits[t->element] < 8;
	if (packed && t->col_major != (t->part == PTX_MATRIX_B))
		return false;
	if (t->part != PTX_MATRIX_C)
		return shape_has(&s, WMMA, t->element) && fits(o, rows, columns, t->element, true);
	for (unsigned e = 0; e < PTX_EL_COUNT; e++)
		if (shape_has(&s, WMMA, e) && accumulates(e, t->element))
			return fits(o, rows, columns, t->element, false);
	return false;
}

static bool move_tile(struct lower *l, const struct ptx_instr *i, bool store)
{
	unsigned type;
	LLVMValueRef args[7];
	struct ptx_tile t;
	uint64_t packed, stride;

	if (l->version.width == 1 || !describe_tile(i, store, &t, &stride))
		return false;
	type = t.element == PTX_EL_F64 ? PTX_F64 : PTX_B32;
	memcpy(&packed, &t, 8);
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, l->low->sites[l->at.instr]);
	args[2] = scalar_const(l->type.i64, packed);
	args[3] = tile_address(l, i, store);
	args[4] = scalar_const(l->type.i64, stride);
	if (i->count == 3) {
		l->at.lanes = operand_kind(l, &i->ops[2]) == PTX_UNIFORM ? 1 : l->version.width;
		args[4] = resize(l, shared_by_all(l, get(l, &i->ops[2], PTX_U32)), 64, false);
	}
	args[5] = list(l, 0);
	args[6] = l->fn.thread;
	if (store)
		spill_list(l, &i->ops[1], type, args[5]);
	call_runtime(l, store ? "ptx_rt_tile_store" : "ptx_rt_tile_load", l->type.void_type, args, 7);
	if (!store)
		fill_list(l, &i->ops[0], type, args[5]);
	return true;
}

bool emit_tile_load(struct lower *l, const struct ptx_instr *i)
{
	return move_tile(l, i, false);
}

bool emit_tile_store(struct lower *l, const struct ptx_instr *i)
{
	return move_tile(l, i, true);
}

/* The bits of the numbers that ldmatrix makes bytes of; 0: none, it moves 16 bits; 1: it does what is not supported. */
static unsigned narrow_bits(const struct ptx_instr *i)
{
	unsigned bits = ptx_word(i, "b6x16_p32") ? 6 : ptx_word(i, "b4x16_p64") ? 4 : 0;

	if (ptx_word(i, "m8n8"))
		return bits || !ptx_word(i, "b16") || ptx_word(i, "b8x16") || ptx_word(i, "m8n16");
	return ptx_word(i, "m8n16") && ptx_word(i, "b8x16") && bits && !ptx_word(i, "trans") && !ptx_word(i, "b16") ? bits : 1;
}

/* ldmatrix and stmatrix */
bool emit_matrix_rows(struct lower *l, const struct ptx_instr *i)
{
	unsigned narrow = narrow_bits(i);
	bool store = i->op->arg;
	const struct ptx_operand *o = &i->ops[store ? 1 : 0];
	unsigned count = ptx_word(i, "x4") ? 4 : ptx_word(i, "x2") ? 2 : 1;
	LLVMValueRef args[7];
	struct access a;

	if (l->version.width == 1 || !ptx_word(i, "sync") || !ptx_word(i, "aligned") || narrow == 1 ||
	    (narrow && store) || count_of(o) != count || i->ops[store ? 0 : 1].kind != PTX_OP_MEM)
		return false;
	access_describe(l, i, &a);
	spill_addresses(l, &a);
	args[0] = l->fn.ctx;
	args[1] = scalar_const(l->type.i32, a.site);
	args[2] = scalar_const(l->type.i32, count);
	args[3] = scalar_const(l->type.i32, narrow ? narrow : ptx_word(i, "trans"));
	args[4] = l->mem.addresses;
	args[5] = list(l, 0);
	args[6] = l->fn.thread;
	if (store)
		spill_list(l, o, PTX_B32, args[5]);
	call_runtime(l,
		     store    ? "ptx_rt_rows_store"
		     : narrow ? "ptx_rt_rows_widen"
			      : "ptx_rt_rows_load",
		     l->type.void_type, args, 7);
	if (!store)
		fill_list(l, o, PTX_B32, args[5]);
	return true;
}

bool emit_movmatrix(struct lower *l, const struct ptx_instr *i)
{
	LLVMValueRef args[2] = {list(l, 1), list(l, 0)};

	if (l->version.width == 1 || !ptx_word(i, "sync") || !ptx_word(i, "trans"))
		return false;
	spill_list(l, &i->ops[1], PTX_B32, args[0]);
	call_runtime(l, "ptx_rt_rows_transpose", l->type.void_type, args, 2);
	fill_list(l, &i->ops[0], PTX_B32, args[1]);
	return true;
}

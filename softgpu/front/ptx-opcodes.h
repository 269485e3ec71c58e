/* SPDX-License-Identifier: Apache-2.0 */
/* What the compiler knows about each instruction: one row says what may be written and how it is compiled. */
#ifndef VCUDA_BACKEND_CPU_PTX_OPCODES_H
#define VCUDA_BACKEND_CPU_PTX_OPCODES_H

#include "front/ptx-ir.h"

struct lower;

/* How the shape of a result follows from the shapes of the sources; see ptx-shape.c. */
enum ptx_shape_rule {
	PTX_SHAPE_NONE, /* no result */
	PTX_SHAPE_PURE, /* uniform if all sources are, else varying */
	PTX_SHAPE_MOV,
	PTX_SHAPE_ADD,
	PTX_SHAPE_SUB,
	PTX_SHAPE_MUL, /* low half */
	PTX_SHAPE_MAD,
	PTX_SHAPE_MUL_WIDE,
	PTX_SHAPE_MAD_WIDE,
	PTX_SHAPE_SHL,
	PTX_SHAPE_AND,
	PTX_SHAPE_OR,
	PTX_SHAPE_SHR,
	PTX_SHAPE_CVT,
	PTX_SHAPE_CVTA,
	PTX_SHAPE_LOAD,
	PTX_SHAPE_UNIFORM, /* the same for all active lanes, whatever the sources */
	PTX_SHAPE_VARYING,
};

enum {
	PTX_F_EFFECT = 1 << 0, /* not a plain value: a guard becomes a branch around it */
	PTX_F_BARRIER = 1 << 1,
	PTX_F_WARP = 1 << 2, /* lanes see one another */
	PTX_F_BRANCH = 1 << 3,
	PTX_F_EXIT = 1 << 4,
	PTX_F_RET = 1 << 5,
	PTX_F_CALL = 1 << 6,
	PTX_F_LOAD = 1 << 7,
	PTX_F_STORE = 1 << 8,
	PTX_F_ATOM = 1 << 9,
	PTX_F_NO_DST = 1 << 10, /* operand 0 is a source */
	PTX_F_CARRY_IN = 1 << 11,
	PTX_F_STACK = 1 << 12, /* of a thread's stack; replaced by plain instructions in ptx-stack.c */
	PTX_F_WORDS = 1 << 16, /* its name is checked against a list of words; see ptx-words.c */
	PTX_F_SITE = 1 << 17,  /* accesses memory through the runtime */
	PTX_F_WRITE = 1 << 18, /* and writes there */
	PTX_F_WAIT = 1 << 19,  /* a loop with it may wait for other threads */
	PTX_F_TEX = 1 << 20, /* texture or surface: ptx_instr.tex says the rest */
	PTX_F_TYPE2 = 1 << 21, /* may have a second type, which the emitter looks at */
	PTX_F_TENSOR = 1 << 22, /* coordinates stand behind an address, in its brackets; two operands */
};

/*
 * What an operand that is a register, or a vector of them, may be:
 * - `t` of the instruction's type, `T` of its second one (the first, if there is one only); `w` and `W` the same, or
 *   larger; `v` of its type, or a vector that makes up one; `d` of twice its type
 * - `h`, `u`, `l` an integer of 16, 32, 64 bits; `b` any 32 bits; `f` an f32; `p` a predicate
 * - `a` an address, `A` one of 32 or 64 bits
 * - `B` any 32 bits, or more; `o` a predicate or an integer of 32 bits; `s` an mbarrier's state, or its parity
 * - `P` a policy and `K` a mask, which are there if the name says so
 * - `r`, `c` a matrix of the first and the last type of the name, `R` one of smaller numbers
 * - `n`, `N` the result and the source of a conversion of packed small numbers
 * - `-` nothing that is a register, or looked at elsewhere
 * A `?` behind a letter: the operand may be missing.
 */
struct ptx_opcode {
	const char *name;
	uint32_t types;      /* mask over enum ptx_type of the first type; bit 0: none written */
	ptx_mods mods;       /* what may be written */
	const char *operands; /* a letter each, see below */
	uint8_t shape;
	uint32_t flags;
	bool (*emit)(struct lower *l, const struct ptx_instr *i); /* false: this combination is not supported */
	int arg;                                                  /* for emit */
};

/* The row that accepts this name (up to its first dot), types (type2: PTX_NONE if there is none) and modifiers, or NULL. */
const struct ptx_opcode *ptx_opcode_find(const char *name, size_t length, unsigned type, unsigned type2, ptx_mods mods);
/*
 * Whether it has the modifiers that one of its kind must have. Texts for compute capabilities before 2.0 need not say how
 * an instruction rounds, and those before ISA 3.2 not how mad.f32 does: to nearest.
 */
bool ptx_opcode_complete(const struct ptx_opcode *op, unsigned type, ptx_mods mods, const struct ptx_module *module);
size_t ptx_opcode_table(const struct ptx_opcode **table);

/*
 * Instructions with grammars of their own: the row with the longest name that `name` begins with, if all of the words
 * after it may be written; or NULL.
 */
const struct ptx_opcode *ptx_words_find(const char *name, size_t length);
/* Is this one of the words of an instruction's name, after its row's? */
bool ptx_word(const struct ptx_instr *i, const char *word);
/* The first word at or after *at, which moves behind it; its length, 0 at the end. */
size_t ptx_word_next(const char **at, const char **word);
const char *ptx_words_of(const struct ptx_instr *i); /* where its words begin */

bool emit_mov(struct lower *l, const struct ptx_instr *i);
bool emit_mov_vector(struct lower *l, const struct ptx_instr *i);
bool emit_binary(struct lower *l, const struct ptx_instr *i);
bool emit_carry(struct lower *l, const struct ptx_instr *i);
bool emit_minmax(struct lower *l, const struct ptx_instr *i);
bool emit_int_pair(struct lower *l, const struct ptx_instr *i);
bool emit_mul(struct lower *l, const struct ptx_instr *i);
bool emit_mul24(struct lower *l, const struct ptx_instr *i);
bool emit_divrem(struct lower *l, const struct ptx_instr *i);
bool emit_unary(struct lower *l, const struct ptx_instr *i);
bool emit_shift(struct lower *l, const struct ptx_instr *i);
bool emit_bits(struct lower *l, const struct ptx_instr *i);
bool emit_fns(struct lower *l, const struct ptx_instr *i);
bool emit_bfind(struct lower *l, const struct ptx_instr *i);
bool emit_bfe(struct lower *l, const struct ptx_instr *i);
bool emit_bfi(struct lower *l, const struct ptx_instr *i);
bool emit_prmt(struct lower *l, const struct ptx_instr *i);
bool emit_shf(struct lower *l, const struct ptx_instr *i);
bool emit_lop3(struct lower *l, const struct ptx_instr *i);
bool emit_sad(struct lower *l, const struct ptx_instr *i);
bool emit_dp2a(struct lower *l, const struct ptx_instr *i);
bool emit_szext(struct lower *l, const struct ptx_instr *i);
bool emit_dp4a(struct lower *l, const struct ptx_instr *i);
bool emit_cnot(struct lower *l, const struct ptx_instr *i);
bool emit_setp(struct lower *l, const struct ptx_instr *i);
bool emit_set(struct lower *l, const struct ptx_instr *i);
bool emit_selp(struct lower *l, const struct ptx_instr *i);
bool emit_slct(struct lower *l, const struct ptx_instr *i);
bool emit_float2(struct lower *l, const struct ptx_instr *i);
bool emit_float1(struct lower *l, const struct ptx_instr *i);
bool emit_fminmax(struct lower *l, const struct ptx_instr *i);
bool emit_testp(struct lower *l, const struct ptx_instr *i);
bool emit_copysign(struct lower *l, const struct ptx_instr *i);
bool emit_half(struct lower *l, const struct ptx_instr *i);
bool emit_cvt(struct lower *l, const struct ptx_instr *i);
bool emit_cvta(struct lower *l, const struct ptx_instr *i);
bool emit_isspacep(struct lower *l, const struct ptx_instr *i);
bool emit_ld(struct lower *l, const struct ptx_instr *i);
bool emit_st(struct lower *l, const struct ptx_instr *i);
bool emit_atom(struct lower *l, const struct ptx_instr *i);
bool emit_fence(struct lower *l, const struct ptx_instr *i);
bool emit_nothing(struct lower *l, const struct ptx_instr *i);
bool emit_barrier(struct lower *l, const struct ptx_instr *i);
bool emit_shfl(struct lower *l, const struct ptx_instr *i);
bool emit_vote(struct lower *l, const struct ptx_instr *i);
bool emit_match(struct lower *l, const struct ptx_instr *i);
bool emit_activemask(struct lower *l, const struct ptx_instr *i);
bool emit_redux(struct lower *l, const struct ptx_instr *i);
bool emit_trap(struct lower *l, const struct ptx_instr *i);
bool emit_bad_target(struct lower *l, const struct ptx_instr *i);
bool emit_tex(struct lower *l, const struct ptx_instr *i);
bool emit_call(struct lower *l, const struct ptx_instr *i);
bool emit_mma(struct lower *l, const struct ptx_instr *i);
bool emit_tile_load(struct lower *l, const struct ptx_instr *i);
bool emit_tile_store(struct lower *l, const struct ptx_instr *i);
bool emit_matrix_rows(struct lower *l, const struct ptx_instr *i);
bool emit_cvt_small(struct lower *l, const struct ptx_instr *i);
bool emit_cvt_narrow(struct lower *l, const struct ptx_instr *i);
bool emit_cvt_pack(struct lower *l, const struct ptx_instr *i);
bool emit_video(struct lower *l, const struct ptx_instr *i);
bool emit_cp_async(struct lower *l, const struct ptx_instr *i);
bool emit_cp_bulk(struct lower *l, const struct ptx_instr *i);
bool emit_reduce_bulk(struct lower *l, const struct ptx_instr *i);
bool emit_store_async(struct lower *l, const struct ptx_instr *i);
bool emit_fill_bulk(struct lower *l, const struct ptx_instr *i);
bool emit_tensor_load(struct lower *l, const struct ptx_instr *i);
bool emit_tensor_store(struct lower *l, const struct ptx_instr *i);
bool emit_tensor_prefetch(struct lower *l, const struct ptx_instr *i);
bool emit_tensor_replace(struct lower *l, const struct ptx_instr *i);
bool emit_tensor_publish(struct lower *l, const struct ptx_instr *i);
bool emit_try_cancel(struct lower *l, const struct ptx_instr *i);
bool emit_query_cancel(struct lower *l, const struct ptx_instr *i);
bool emit_cp_arrive(struct lower *l, const struct ptx_instr *i);
bool emit_mbarrier_set(struct lower *l, const struct ptx_instr *i);
bool emit_mbarrier_arrive(struct lower *l, const struct ptx_instr *i);
bool emit_mbarrier_test(struct lower *l, const struct ptx_instr *i);
bool emit_mbarrier_pending(struct lower *l, const struct ptx_instr *i);
bool emit_elect(struct lower *l, const struct ptx_instr *i);
bool emit_cluster(struct lower *l, const struct ptx_instr *i);
bool emit_cluster_wait(struct lower *l, const struct ptx_instr *i);
bool emit_policy(struct lower *l, const struct ptx_instr *i);
bool emit_movmatrix(struct lower *l, const struct ptx_instr *i);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of instructions: a row says how an instruction may be written and which function lowers it. */
#ifndef VCUDA_BACKEND_CPU_PTX_OPCODES_H
#define VCUDA_BACKEND_CPU_PTX_OPCODES_H

#include "front/ptx-ir.h"

/* Instructions that one function lowers: emit_NAME() in lower/, the second name here. */
/* clang-format off */
#define PTX_FAMILIES(X) \
	X(MOV, mov) X(MOV_VECTOR, mov_vector) X(BINARY, binary) X(CARRY, carry) X(MINMAX, minmax) \
	X(INT_PAIR, int_pair) X(MUL, mul) X(MUL24, mul24) X(DIVREM, divrem) X(UNARY, unary) X(SHIFT, shift) \
	X(BITS, bits) X(FNS, fns) X(BFIND, bfind) X(BFE, bfe) X(BFI, bfi) X(PRMT, prmt) X(SHF, shf) \
	X(LOP3, lop3) X(SAD, sad) X(DP2A, dp2a) X(SZEXT, szext) X(DP4A, dp4a) X(CNOT, cnot) X(SETP, setp) \
	X(SET, set) X(SELP, selp) X(SLCT, slct) X(FLOAT2, float2) X(FLOAT1, float1) X(FMINMAX, fminmax) \
	X(TESTP, testp) X(COPYSIGN, copysign) X(HALF, half) X(CVT, cvt) X(CVTA, cvta) X(ISSPACEP, isspacep) \
	X(LD, ld) X(ST, st) X(ATOM, atom) X(FENCE, fence) X(NOTHING, nothing) X(BARRIER, barrier) X(SHFL, shfl) \
	X(VOTE, vote) X(MATCH, match) X(ACTIVEMASK, activemask) X(REDUX, redux) X(TRAP, trap) \
	X(BAD_TARGET, bad_target) X(TEX, tex) X(CALL, call) X(MMA, mma) X(MMA_SPARSE, mma_sparse) X(TILE_LOAD, tile_load) \
	X(TILE_STORE, tile_store) X(MATRIX_ROWS, matrix_rows) X(CVT_SMALL, cvt_small) X(CVT_NARROW, cvt_narrow) \
	X(CVT_PACK, cvt_pack) X(VIDEO, video) X(CP_ASYNC, cp_async) X(CP_BULK, cp_bulk) \
	X(REDUCE_BULK, reduce_bulk) X(STORE_ASYNC, store_async) X(FILL_BULK, fill_bulk) \
	X(TENSOR_LOAD, tensor_load) X(TENSOR_STORE, tensor_store) X(TENSOR_PREFETCH, tensor_prefetch) \
	X(TENSOR_REPLACE, tensor_replace) X(TENSOR_PUBLISH, tensor_publish) X(TRY_CANCEL, try_cancel) \
	X(QUERY_CANCEL, query_cancel) X(CP_ARRIVE, cp_arrive) X(MBARRIER_SET, mbarrier_set) \
	X(MBARRIER_ARRIVE, mbarrier_arrive) X(MBARRIER_TEST, mbarrier_test) \
	X(MBARRIER_PENDING, mbarrier_pending) X(ELECT, elect) X(CLUSTER, cluster) X(CLUSTER_WAIT, cluster_wait) \
	X(POLICY, policy) X(MOVMATRIX, movmatrix)
/* clang-format on */

enum ptx_family {
	PTX_FAMILY_NONE, /* never lowered: control flow, and what the analysis replaces */
#define X(id, name) PTX_FAMILY_##id,
	PTX_FAMILIES(X)
#undef X
		PTX_FAMILY_COUNT
};

/* The variant of an instruction in its family. */
enum ptx_variant {
	OP_ADD = 1,
	OP_SUB,
	OP_AND,
	OP_OR,
	OP_XOR,
	OP_SHL,
	OP_LSHR,
	OP_ASHR,
	OP_FADD,
	OP_FSUB,
	OP_FMUL,
	OP_FDIV,
	OP_ABS,
	OP_NEG,
	OP_NOT,
	OP_MIN,
	OP_MAX,
	OP_MUL,
	OP_MAD,
	OP_DIV,
	OP_REM,
	OP_BMSK,
	OP_BREV,
	OP_CLZ,
	OP_POPC,
	OP_FMA,
	OP_SIN,
	OP_COS,
	OP_EX2,
	OP_LG2,
	OP_RCP,
	OP_RSQRT,
	OP_SQRT,
	OP_TANH,
	OP_SET,
	OP_AVERAGE,
};

enum ptx_mbarrier_operation {
	PTX_MBARRIER_INIT,
	PTX_MBARRIER_INVAL,
	PTX_MBARRIER_ARRIVE,
	PTX_MBARRIER_DROP,
	PTX_MBARRIER_ARRIVE_TX, /* expects bytes, then arrives */
	PTX_MBARRIER_DROP_TX,
	PTX_MBARRIER_EXPECT_TX,
	PTX_MBARRIER_COMPLETE_TX,
	PTX_MBARRIER_TEST,
	PTX_MBARRIER_TEST_PARITY,
	PTX_MBARRIER_PENDING,
	PTX_MBARRIER_ARRIVE_COPIES, /* cp.async.mbarrier.arrive */
};

/* The rule for the shape of a result from the shapes of the sources; see ptx-shape.c. */
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
	PTX_F_UNKNOWN = 1 << 13, /* not implemented: only its operands are checked */
	PTX_F_WORDS = 1 << 16, /* the whole name is checked against a list of words (ptx-words.c) */
	PTX_F_SITE = 1 << 17,  /* accesses memory through the runtime */
	PTX_F_WRITE = 1 << 18, /* and writes there */
	PTX_F_WAIT = 1 << 19,  /* a loop with it may wait for other threads */
	PTX_F_TEX = 1 << 20, /* texture or surface: ptx_instr.tex says the rest */
	PTX_F_TYPE2 = 1 << 21, /* may have a second type, which the emitter looks at */
	PTX_F_TENSOR = 1 << 22, /* coordinates stand behind an address, in its brackets; two operands */
};

/*
 * Letters of operands, for an operand that is a register or a vector of registers:
 * - `t` of the instruction's type, `T` of its second one (the first, if there is one only); `w` and `W` the same, or
 *   larger; `v` of its type, or a vector that makes up one; `d` of twice its type
 * - `h`, `u`, `l` an integer of 16, 32, 64 bits; `b` any 32 bits; `f` an f32; `p` a predicate
 * - `m` rows or metadata of a matrix, which is any 32 bits; a predicate is legal there, but not compiled
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
	ptx_mods mods;       /* allowed modifiers */
	const char *operands; /* a letter each, see below */
	uint8_t shape;
	uint32_t flags;
	uint8_t family; /* enum ptx_family */
	/* of the families that have them enum ptx_variant or ptx_mbarrier_operation; of others 0 or 1 */
	int arg;
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

#endif

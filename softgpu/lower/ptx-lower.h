/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From PTX to LLVM IR. A kernel has up to two versions:
 *
 * full	  all lanes of the warp are active; registers are scalars, scalar bases or vectors, by their shape.
 * masked any lanes are active: every block has a mask of pending lanes, the lowest block that has any runs next. It
 *assumes uniform shapes only, and is compiled when a warp first needs it.
 *
 * A warp starts in `full` (a partial one in `masked`), leaves it when a branch diverges and returns to it where lanes
 *have met again. Values cross over in the warp's frame. With one lane there is only `full`.
 *
 * Registers are integers of their width (i1 for predicates), so that PTX's untyped moves cost nothing.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_LOWER_H
#define VCUDA_BACKEND_CPU_PTX_LOWER_H

#include "lower/ptx-lower-state.h"

/* Beyond this many blocks the masked version keeps its registers in memory: as values they would need a phi per block.
 */
#define PTX_MAX_BLOCKS_IN_REGISTERS 48

/* ---- ptx-lower-value.c ---- */
LLVMOpcode llvm_opcode(const struct ptx_instr *i); /* of a variant from OP_ADD to OP_FDIV */
void lower_types(struct lower *l);                 /* sets l->type, of l->c */
LLVMTypeRef int_type(struct lower *l, unsigned bits);
LLVMTypeRef type_for(struct lower *l, LLVMTypeRef scalar);              /* a vector of l->at.lanes of it */
LLVMTypeRef float_type(struct lower *l, unsigned type);                 /* for l->at.lanes */
LLVMValueRef int_const(struct lower *l, unsigned bits, uint64_t value); /* for l->at.lanes */
LLVMValueRef scalar_const(LLVMTypeRef type, uint64_t value);
LLVMValueRef splat(struct lower *l, LLVMValueRef value, unsigned lanes);
LLVMValueRef lane_consts(struct lower *l, unsigned bits, const int64_t *values);
bool is_vector(LLVMValueRef value);
unsigned bits_of(LLVMValueRef value);
LLVMValueRef resize(struct lower *l, LLVMValueRef value, unsigned bits, bool is_signed);
LLVMValueRef to_float(struct lower *l, LLVMValueRef value, unsigned type);
LLVMValueRef to_int(struct lower *l, LLVMValueRef value);
enum ptx_shape_kind reg_shape(const struct lower *l, int32_t reg); /* in the version at hand */
enum ptx_shape_kind operand_kind(const struct lower *l, const struct ptx_operand *o);
LLVMValueRef read_reg(struct lower *l, int32_t reg, unsigned lanes);
LLVMValueRef get(struct lower *l, const struct ptx_operand *o, unsigned type);  /* an integer of the type's width */
LLVMValueRef getf(struct lower *l, const struct ptx_operand *o, unsigned type); /* as a float */
void set_reg(struct lower *l, int32_t reg, LLVMValueRef value, bool is_signed);
void set(struct lower *l, const struct ptx_operand *o, LLVMValueRef value, bool is_signed);
LLVMValueRef mask_bits(struct lower *l, LLVMValueRef predicates); /* <32 x i1> to i32 */
LLVMValueRef bits_mask(struct lower *l, LLVMValueRef bits);
LLVMValueRef intrinsic(struct lower *l, const char *name, LLVMTypeRef type, LLVMValueRef *args, unsigned count);
LLVMValueRef call_runtime(struct lower *l, const char *name, LLVMTypeRef result, LLVMValueRef *args, unsigned count);
/*
 * The same for up to four arguments and no result, where it is seldom called: with one lane, it changes no registers,
 * so that values of the loop around it can be in all of them.
 */
void call_seldom(struct lower *l, const char *name, LLVMValueRef *args, unsigned count);
LLVMValueRef field(struct lower *l, LLVMValueRef base, uint64_t offset);
LLVMValueRef entry_alloca(struct lower *l, LLVMTypeRef type);
LLVMValueRef compare(struct lower *l, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef select_of(struct lower *l, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef int2(struct lower *l, const char *name, LLVMValueRef a, LLVMValueRef b);
LLVMBasicBlockRef new_bb(struct lower *l, const char *name);
void branch_likely(struct lower *l, LLVMValueRef condition, LLVMBasicBlockRef likely, LLVMBasicBlockRef unlikely);
LLVMValueRef symbol_address(struct lower *l, const struct ptx_symbol *symbol, uint64_t imm);
LLVMValueRef special_value(struct lower *l, int special);

/* May some of the lanes be elsewhere? */
static inline bool is_partial(const struct lower *l)
{
	return l->version.masked || l->at.keep;
}

static inline bool is_signed_type(unsigned type)
{
	return ptx_types[type].cls == 's';
}

static inline bool is_float_type(unsigned type)
{
	return ptx_types[type].cls == 'f';
}

/* ---- ptx-lower-cross.c ---- */
#define AT_BRANCH UINT32_MAX /* instead of an instruction's number */
bool lower_no_memory(struct ptx_body *body);

/* A line as machine code has it: from the kernel's own, which is 1, so that equal kernels have equal code. 0: no line. */
static inline uint32_t lower_line(const struct ptx_body *body, uint32_t line)
{
	return line ? line - body->function->line + 1 : 0;
}
LLVMValueRef slot(struct lower *l, uint32_t reg); /* a register's place in the frame */
LLVMTypeRef storage_type(struct lower *l, uint32_t reg);
bool prepare_registers(struct lower *l); /* false: no memory */
void place_registers(struct lower *l);   /* in the entry block */
void clear_registers(struct lower *l);
void clear_resident(struct lower *l);
void copy_live(struct lower *l, const uint64_t *live, uint32_t count, bool save); /* of so many registers */
void store_head(struct lower *l, uint64_t offset, LLVMValueRef value); /* of struct ptx_frame */
LLVMValueRef load_head(struct lower *l, uint64_t offset);
struct ptx_exit *add_exit(struct lower *l, uint32_t instr);
void emit_leave(struct lower *l, const struct ptx_exit *e);
void try_return(struct lower *l, LLVMBasicBlockRef stay);
void enter_masked(struct lower *l, const struct ptx_exit *e);

/* ---- ptx-lower-poll.c ---- */
void emit_poll(struct lower *l); /* on a back-edge */
void emit_thread_poll(struct lower *l); /* between two threads that the same code runs */

/* By how many the innermost loop around the block at hand moves a register each round; 0: not known. With one lane. */
int64_t counted_loop_step(struct lower *l, int32_t reg);

/* ---- ptx-lower.c, ptx-lower-masked.c ---- */
/*
 * For code that seldom runs: with one lane, the context, the thread and the cache come from memory there, so that they
 * take no registers of the loop around it. slow_path_end() undoes it.
 */
struct usual {
	LLVMValueRef ctx, thread, cache;
};
struct usual slow_path_begin(struct lower *l);
void slow_path_end(struct lower *l, const struct usual *usual);
LLVMValueRef condition_value(struct lower *l, const struct ptx_block *b, unsigned lanes);
/* Emits the instructions of the block at hand. Lanes come in at the sides of the masked version, one for each exit. */
void emit_instructions(struct lower *l, LLVMBasicBlockRef *sides, LLVMValueRef mask_var);
bool prepare_masked(struct lower *l); /* false: no memory */
void lower_masked(struct lower *l);
/* Emits one version of a kernel as function `name` of l->m. */
bool lower_kernel(struct lower *l, const char *name);
/* In the full version: goes on in the masked one, before the instruction at hand, unless `ok`. */
void leave_unless(struct lower *l, LLVMValueRef ok);

/* ---- ptx-lower-if-convert.c ---- */
struct if_converted {
	LLVMBasicBlockRef start, next; /* NULL: the block is none */
	uint32_t others;               /* the block where the lanes that stand by go on */
	LLVMValueRef lanes, vector;
	uint64_t *keep;
};
/* At the branch of the block at hand, whose lanes part: goes to the asides for them. False: they have to part. */
bool if_conversion_begin(struct lower *l, LLVMValueRef taken);
bool prepare_asides(struct lower *l); /* false: no memory */
/* The block at hand once more, as an aside, if it is one. */
void if_conversion_emit(struct lower *l);

/* ---- ptx-lower-provenance.c ---- */
bool provenance_prepare(struct lower *l); /* false: no memory */
/* The base that is added to a register's variable, which holds a distance; NULL: it holds the register. */
LLVMValueRef provenance_base(struct lower *l, int32_t reg);
/* Whether the instruction makes a distance of one just as it makes an address of one. */
bool provenance_keeps_distance(const struct lower *l, const struct ptx_instr *i);

/* ---- ptx-lower-access.c ---- */
bool prepare_accesses(struct lower *l); /* false: no memory */

/* ---- ptx-lower-stride.c ---- */
bool prepare_strides(struct lower *l); /* false: no memory */
/* Whether other warps may have a turn between the block at hand and `next`. */
bool takes_turn(const struct lower *l, uint32_t next);
void emit_turn(struct lower *l, LLVMBasicBlockRef way);

/* ---- ptx-warp-loop.c ---- */
bool warp_loop_lay_out(struct ptx_body *body, struct ptx_lowering *low);
void warp_loop_begin(struct lower *l);
void warp_loop_resume(struct lower *l, LLVMValueRef choice); /* choice: a switch by where the warp goes on */
void warp_loop_end_round(struct lower *l, LLVMValueRef last);
void end_warp(struct lower *l);

/* ---- ptx-lower-int.c ---- */
void check_widening(struct lower *l, const struct ptx_operand *o, bool sign);

/* ---- ptx-lower-float.c ---- */
LLVMValueRef rounded(struct lower *l, unsigned operation, ptx_mods mods, unsigned type, LLVMValueRef *args,
		     unsigned count, LLVMTypeRef result);
LLVMValueRef saturate(struct lower *l, LLVMValueRef value);
LLVMValueRef flush(struct lower *l, LLVMValueRef value); /* subnormals to zero, keeping the sign */
LLVMValueRef minmax_value(struct lower *l, const struct ptx_instr *i, LLVMValueRef *v);

/* ---- ptx-lower-small.c ---- */
/* Nearest, ties to even, at `bits` low bits of an f32 taken as an integer; they are cut off by the caller. */
LLVMValueRef nearest_even(struct lower *l, LLVMValueRef word, unsigned bits);
LLVMValueRef no_less_than_zero(struct lower *l, LLVMValueRef v); /* NaN stays */

/* ---- ptx-lower-half.c: numbers of 16 bits; type: PTX_F16 or PTX_BF16 ---- */
LLVMValueRef half_value(struct lower *l, LLVMValueRef bits, unsigned type);			 /* as f32 */
LLVMValueRef half_bits(struct lower *l, LLVMValueRef value, unsigned type, ptx_mods rounding); /* of an f32 or f64 */
LLVMValueRef half_part(struct lower *l, const struct ptx_operand *o, unsigned type, unsigned part);
LLVMValueRef flush_half(struct lower *l, LLVMValueRef bits);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that is being lifted: what the files of lift*.c share. */
#ifndef VCUDA_SASS_LIFTING_H
#define VCUDA_SASS_LIFTING_H

#include "common/reserved-shared.h"
#include "sass/cubin/cubin.h"
#include "sass/lift/decode.h"
#include "sass/lift/web.h"
#include "sass/cubin/text.h"

/* How deep calls may be that are lifted in their places. */
#define SASS_CALL_DEPTH 16

/* A PTX operand: the name of a register, or a constant. */
struct value {
	char text[24];
};

/* The pair of registers n and n + 1 has the value of a 64-bit register, in this basic block and under this guard. */
struct pair {
	struct value value;
	bool known, guarded;
	uint8_t guard; /* of uniform predicates from 8 */
	bool guard_not;
	uint32_t guard_writes;
};

/* A lower half of a 64-bit sum, and the value that it is the lower half of, if the upper half is in the next register.
 */
struct pair_term {
	struct sass_operand low;
	struct value pair;            /* empty: none */
	uint32_t writes, next_writes; /* of both registers, when the term was noted */
};

/* The lower half of a 64-bit sum, by the predicate that has its carry. */
struct lower_sum {
	bool known, uniform, has_shifted;
	uint8_t d;
	uint32_t d_writes;
	unsigned int shift, count;
	struct pair_term shifted, term[3];
};

/* The sum of an access's registers. It holds in this basic block, until one of the registers is written. */
struct kept_address {
	bool known, local;
	unsigned int scale;
	struct sass_operand a, u; /* registers */
	uint32_t a_writes, u_writes;
	struct value value;
};

#define SASS_KEPT_ADDRESSES 8

struct lift {
	const struct sass_cubin *cubin;
	const struct sass_function *function;
	struct sass_instr instr;
	const struct sass_instr *i; /* the one at hand: `instr` */
	struct sass_text body;
	struct webs *webs;
	char guard[16]; /* "@%p0 ", or nothing */
	unsigned int temporaries[4];
	struct pair pairs[2][256]; /* of general and of uniform registers */
	struct {
		bool known;
		uint32_t number;
	} constants[256]; /* that general registers have in this basic block */
	uint32_t predicate_writes[16], register_writes[2][256];
	struct lower_sum lower_sums[16]; /* of uniform predicates from 8 */
	struct kept_address kept_addresses[SASS_KEPT_ADDRESSES];
	unsigned int next_kept_address;
	bool keeps_sum; /* the predicate that is written is the carry of the sum just noted */
	struct {
		bool set;
		uint8_t predicate;
		struct value value;
	} pending[2];
	bool uses_shared, uses_reserved, uses_local, uses_bank2, uses_result; /* of a barrier */
	bool calls;
	struct value entry_stack, entry_return[2]; /* the registers as they were when a callee began */
	bool calls_addresses; /* of functions in other sections, or the function is one: local memory is the cubin's */
	/*
	 * The lanes of the warp's common operations in this basic block, as WARPSYNC, BRA.DIV or BRA.CONV says; empty:
	 * those that are active. REDUX.OR makes a uniform register for these of a mask that each lane has.
	 */
	struct value members, mask_of[64];
	bool uses_members;
	bool exclusive;             /* `members` ends at BSYNC, and is `outer_members` from there on */
	struct value outer_members; /* as `members` */
	bool voted;                 /* in this basic block a vote of PT has chosen the lane of an atomic */
	bool shared_window; /* addresses of shared memory are made of SASS_SHARED_WINDOW */
	/* By instruction: a jump leads there; a call comes back there; its address is taken; a jump table has it. */
	bool *target, *returned, *taken, *table;
	bool *reached;          /* scratch of lift-body.c, all false between regions */
	bool *marked;           /* scratch of BRX, all false before and behind it */
	bool *polls;            /* a load of shared memory that waits for another thread */
	bool *converged;        /* BRA.CONV leads there, and nothing else does */
	struct value relocated; /* the operand of the kind SASS_RELOCATED */
	bool compares_returns;  /* else calls are lifted in their places */
	bool diverged_operations; /* lanes do a common operation from both sides of a branch, in a function that both call */
	/* The calls whose functions are being lifted. The last entry has the number of the function's instance. */
	unsigned int instances, depth;
	struct {
		uint32_t callee; /* an instruction */
		unsigned int instance;
		uint32_t back; /* where a call that this instance makes returns to */
	} calls_open[SASS_CALL_DEPTH + 1];
	uint64_t steps; /* of searches through all instructions */
	unsigned int labels;
	char *error;
	size_t room;
	bool failed, no_memory;
};

enum special_register { SASS_SR_SWINHI = 0x2f, SASS_SR_BLOCK_OF_CLUSTER = 0x88 };

enum temporary { TEMPORARY_32, TEMPORARY_64, TEMPORARY_PREDICATE, TEMPORARY_16 };

/* ---- lift-value.c ---- */
struct value value_of(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct value temporary(struct lift *l, enum temporary kind);
bool is_text(struct value v, const char *text);

/* A PTX statement without its semicolon; the second one has effect only where the instruction's guard holds. */
void emit(struct lift *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
void emit_guarded(struct lift *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Not supported: the format says what of the instruction. */
bool refuse(struct lift *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A new register with the result of `OPERATION result, operands`. */
struct value compute32(struct lift *l, const char *operation, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
struct value compute64(struct lift *l, const char *operation, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
struct value compute_predicate(struct lift *l, const char *operation, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

struct value register_name(struct lift *l, bool uniform, unsigned int number);   /* "0" for the register that is zero */
struct value register_result(struct lift *l, bool uniform, unsigned int number); /* of one that is written */
struct value in_register(struct lift *l, struct value v);                        /* of 32 bits */
struct value in_register_64(struct lift *l, struct value v);

/* Sources: raw bits; as an integer with its sign; as an f32, an f64 with sign and absolute value. */
struct value source_bits(struct lift *l, const struct sass_operand *o);
struct value source_integer(struct lift *l, const struct sass_operand *o);
struct value source_f32(struct lift *l, const struct sass_operand *o);
struct value source_f64(struct lift *l, const struct sass_operand *o);
struct value source_64(struct lift *l, const struct sass_operand *o); /* without its modifiers */
void keep_pair(struct lift *l, bool uniform, unsigned int first, struct value v);

/* Predicates: `not` of the field; true and false are %pt and %pf. */
struct value predicate(struct lift *l, unsigned int number, bool negated);
struct value named_predicate(struct lift *l, bool uniform, unsigned int number); /* one that is read */
struct value predicate_result(struct lift *l, unsigned int number);              /* the name of one that is written */
struct value named_predicate_result(struct lift *l, bool uniform, unsigned int number);
bool has_uniform_predicates(const struct lift *l);                               /* of the instruction at hand */
struct value guard_value(struct lift *l);
struct value combine(struct lift *l, unsigned int operation, struct value a, struct value b); /* 0 and, 1 or, 2 xor */
struct value one_if(struct lift *l, struct value p);                                          /* 32 bits */
/* Where the guard holds, and `p`. */
struct value with_guard(struct lift *l, struct value p);

struct value pack(struct lift *l, struct value low, struct value high);
void unpack(struct lift *l, struct value pair, struct value *low, struct value *high);

/* Results, where the guard holds. A predicate is written behind everything else. */
void write_32(struct lift *l, unsigned int number, struct value v);
void write_64(struct lift *l, unsigned int number, struct value v);
void write_predicate(struct lift *l, unsigned int slot, unsigned int number, struct value v);
/* To be called before a statement writes the registers by itself. */
void forget_pairs(struct lift *l, bool uniform, unsigned int first, unsigned int count);
void forget_all_pairs(struct lift *l);

bool writes_uniform(const struct lift *l);
struct value destination(struct lift *l, unsigned int offset);

/* ---- lift-bank.c ---- */
struct value bank_32(struct lift *l, unsigned int bank, uint32_t offset);
struct value bank_64(struct lift *l, unsigned int bank, uint32_t offset);
/* A load of PTX type `type` from the bank at a register plus `offset`; `count` registers of the destination. */
bool bank_indexed(struct lift *l, unsigned int bank, struct value index, uint32_t offset, const char *type,
		  unsigned int count);
/* The address of a relocation's variable: 64 bits. */
struct value variable_address(struct lift *l, const struct sass_relocation *r);
/* The number of the external function at this place of bank 4, as the value of its address. */
#define SASS_EXTERNAL_BASE UINT32_C(0x7f000000)

/* ---- lift.c ---- */
bool lift_decode(struct lift *l, uint32_t n, struct sass_instr *i); /* the nth instruction; false: it is unknown */
/* Where an instruction jumps or calls: the offset in the function. */
bool target_of(const struct lift *l, const struct sass_instr *i, uint32_t *target); /* false: not an instruction */
bool is_converged_jump(const struct sass_instr *i); /* BRA.CONV */
bool lift_at(struct lift *l, uint32_t n);
/* To be asked before a search through all instructions. False: the code is made to take long. */
bool may_search(struct lift *l);
/* To be asked before a search that is not needed. False: searches have taken half of their time. */
bool may_take(struct lift *l, uint64_t steps);
bool jump_target(struct lift *l, const struct sass_instr *i, uint32_t *target);
/* Marks the instructions that a BRX may jump to: those that the cubin names, or all that are in tables. */
bool mark_targets(struct lift *l, const struct sass_instr *i, bool *marked);

/* ---- lift-poll.c ---- */
/* Sets `polls` for the loop that the jump closes, if it is one. */
void find_polls(struct lift *l, const struct sass_instr *jump, uint32_t target);

/* ---- lift-relocation.c ---- */
/* Applies the relocation of the instruction at hand to its operand, if there is one. */
bool relocate(struct lift *l);
/* The function that the call at hand names, and that the cubin does not have; NULL: it is none. */
const char *external_callee(const struct lift *l);
/* The offset of the function that the call at an offset names, which is behind the kernel. False: it is none. */
bool local_callee(const struct lift *l, uint32_t address, uint32_t *target);

/* ---- lift-integer.c ---- */
/* Writes both predicates of a comparison: of `is`, and of its opposite, each combined with the third one. */
void write_comparison(struct lift *l, const struct sass_instr *i, struct value is);

/* ---- lift-pair.c ---- */
/*
 * A sum with a carry, before its results are written: the terms and, for LEA, the term that is shifted; NULL: none. And
 * after they are written.
 */
void note_lower_sum(struct lift *l, const struct sass_instr *i, const struct sass_operand *shifted, unsigned int shift,
		    const struct sass_operand *terms, unsigned int count);
void close_lower_sum(struct lift *l, const struct sass_instr *i);
/*
 * Writes a sum that takes the carry of a noted one, as the upper half of one sum of 64 bits. For LEA, `shifted_high` is
 * the upper half of the shifted term, or its sign is. False: the sums do not belong together, and nothing is written.
 */
bool write_upper_sum(struct lift *l, const struct sass_instr *i, const struct sass_operand *shifted_high, bool sign,
		     const struct sass_operand *high, unsigned int count);
void forget_sums(struct lift *l);
bool joins_pairs(void); /* as sass_lift_join() says */

/* ---- lift-float.c ---- */
const char *rounding(int64_t field);
/* The comparison of `compare`; NULL: always false for 0, else always true. */
const char *float_comparison(int64_t how);
/* The sources of a minimum or maximum as PTX's .xorsign.abs wants them; `signs`: the bits of an immediate's signs. */
bool keep_signs(struct lift *l, const struct sass_instr *i, struct sass_operand *a, struct sass_operand *b,
		uint32_t signs);

/* ---- lift-warp.c ---- */
struct value present_lanes(struct lift *l); /* those that are here */
struct value active_lanes(struct lift *l);  /* those that are here and pass the guard */
void set_members(struct lift *l, struct value members);
void forget_members(struct lift *l); /* to be called where lanes come or leave */

/* ---- lift-body.c ---- */
bool goes_on(const struct sass_instr *i); /* whether the next instruction follows */
bool lift_body(struct lift *l);
/* The instructions that a call leads to, in its place, where `p` holds. */
bool lift_callee(struct lift *l, struct value p, uint32_t target);

/* ---- lift-callee.c ---- */
uint32_t frame_of(const struct lift *l);       /* bytes of the stack */
uint32_t local_bytes_of(const struct lift *l); /* bytes of local memory */
/* Calls the function at the 64-bit address. */
void call_address(struct lift *l, struct value address);
/* Begins a function that is called so; and its return where `p` holds. */
void callee_begin(struct lift *l);
void callee_return(struct lift *l, struct value p);
struct value is_return_to_caller(struct lift *l, struct value low, struct value high);

static inline bool is_callee(const struct lift *l)
{
	return l->function->entry;
}

/* ---- lift-control.c ---- */
void jump_if(struct lift *l, struct value p, uint32_t target);
unsigned int instance_of(const struct lift *l);

/* ---- lift-address.c ---- */
/* The 64-bit address of the first source, without the field `offset`. */
struct value address_of(struct lift *l, const struct sass_instr *i);
/* The same where the address may be one of shared memory of sm_90, which has SASS_SHARED_WINDOW above it. */
#define SASS_SHARED_WINDOW UINT32_C(0x01000000)
struct value generic_address_of(struct lift *l, const struct sass_instr *i);
/* The same in shared memory: 32 bits. With `offset` where the bytes do not begin at 0; then `offset` becomes 0. */
struct value shared_address(struct lift *l, struct sass_instr *i, const struct sass_operand *o);
struct value local_address(struct lift *l, const struct sass_instr *i);

/* ---- lift-memory.c ---- */
/* ".relaxed.gpu" and the like for atomics; "" for weak accesses. */
const char *scope_of(struct lift *l, const struct sass_instr *i);

#define X(name) bool lift_##name(struct lift *l, const struct sass_instr *i);
SASS_FUNCTIONS(X)
#undef X

#endif

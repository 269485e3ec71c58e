/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kernel made ready to compile: calls inlined, basic blocks in the order in which they run, what is live where,
 * and the shape of every register.
 *
 * Order of blocks: topological with every loop contiguous, its header first and its only latch last. The lowest block
 * that has pending lanes always runs next, so lanes that split meet again at the immediate post-dominator at the
 * latest.
 */
#ifndef VCUDA_BACKEND_CPU_PTX_BODY_H
#define VCUDA_BACKEND_CPU_PTX_BODY_H

#include "front/ptx-opcodes.h"

#define PTX_LANES 32
#define PTX_NO_BLOCK UINT32_MAX
#define PTX_NO_INSTR UINT32_MAX

/*
 * The limit of a kernel with all that it calls. Measured with 212,147 instructions of machine code: quick code of both
 * versions takes 27 s of a processor and 1.3 GB.
 */
#define PTX_MOST_INSTRUCTIONS 262144
/* From here on functions stand in it once, see ptx-outline.c. */
#define PTX_MOST_INLINED 65536

enum ptx_shape_kind {
	PTX_BOTTOM,  /* never written */
	PTX_UNIFORM, /* one scalar for the warp */
	PTX_OFFSETS, /* a scalar base plus a constant per lane, modulo the register's width */
	PTX_VARYING,
};

struct ptx_shape {
	uint8_t kind;
	uint8_t zeros; /* number of low bits of the scalar that are known to be 0 */
	bool known;    /* the scalar is the constant `value` */
	uint64_t value;
	const int64_t *offsets; /* PTX_LANES of them; the least is not below -2^31 */
};

/* The origin of a register's value, in the order in which guesses are given up. */
enum ptx_origin_kind {
	PTX_ORIGIN_NOTHING, /* yet */
	PTX_ORIGIN_NUMBER,  /* no address */
	PTX_ORIGIN_ROOTED,  /* an address from a parameter */
	PTX_ORIGIN_ANYTHING,
};

/* The parameter that an address comes from; see ptx-provenance.c. */
struct ptx_origin {
	uint8_t kind;
	bool exact;     /* the parameter's value itself */
	uint8_t zeros;  /* low bits known to be 0, of a number, or of an address minus the parameter */
	uint32_t param; /* index of the parameter */
};

enum ptx_along_kind {
	PTX_ALONG_NOTHING, /* yet */
	PTX_ALONG_KNOWN,
	PTX_ALONG_ANYTHING,
};

/* The change of a register from a block to the next one along x; see ptx-prefetch.c. */
struct ptx_along {
	uint8_t kind;
	int64_t by;
};

struct ptx_block {
	uint32_t first, last; /* instructions [first, last) */
	int32_t condition;    /* predicate register of the branch, or -1 */
	bool negate, barrier;
	bool reconverges;       /* begins with a warp operation: lanes wait for those that it names */
	uint32_t succ[2]; /* taken, not taken (only with a condition); PTX_NO_BLOCK: the thread ends */
	uint32_t ipdom;   /* PTX_NO_BLOCK: the end */
	bool divergent;   /* lanes may part at its end */
	bool waits;       /* in a loop that may wait for other threads */
	uint32_t latch;   /* of the innermost loop around it, or PTX_NO_BLOCK */
	uint32_t stride;  /* of a latch: an access that may move far from round to round, or PTX_NO_INSTR */
	uint64_t *live_in, *live_out, *use, *def;
};

struct ptx_body {
	struct ptx_arena arena;
	const struct ptx_kernel *kernel;
	struct ptx_function *function;
	struct ptx_error *error;
	enum ptx_status status;
	uint32_t blockdim[3], threads;
	struct ptx_instr *instrs;
	uint32_t instr_count, instr_room;
	struct ptx_register *regs;
	uint32_t reg_count, reg_room;
	uint32_t *labels, label_count, label_room;
	struct ptx_block *blocks; /* while the graph is built: in text order; then in running order */
	uint32_t block_count, block_room;
	uint32_t choices; /* targets of all brx.idx */
	uint64_t local_bytes;         /* of each thread: the kernel's own, then the stack of its calls */
	struct ptx_routine *routines; /* functions that are called, each once, then the kernel; see ptx-inline.h */
	uint32_t routine_count;
	uint8_t *called;        /* per function of the module: enum ptx_called, of calls by name */
	uint32_t *subroutine;   /* per function: which routine it is then */
	bool has_calls;            /* of routines */
	uint32_t subroutine_count; /* number of functions that run as subroutines */
	uint64_t static_shared;
	bool irreducible, has_barrier, has_warp, has_waits, has_reconvergence, misses, has_signals, has_strides,
		uses_dynamic_shared;
	bool has_warp_loop; /* warps take turns in the full version by themselves; see ptx-warp-loop.c */
	uint64_t *warp_loop_saved;  /* registers that warps save when they take turns */
	int32_t carry; /* the condition code register, or -1 */
	/*
	 * The registers' shapes while all lanes run together, and while some wait: a register that waiting lanes may
	 * still need when others write it (`blend`) has no shape then.
	 */
	struct ptx_shape *shapes, *masked_shapes;
	uint64_t *blend;
	struct ptx_origin *origins; /* per register */
	struct ptx_along *along;    /* per register, with 32 lanes */
	uint32_t boundary_count;      /* registers from here on are live within blocks only; see ptx-region.c */
	size_t words;               /* of a set of the others */
};

#define PTX_BIT(set, n) ((set)[(n) >> 6] >> ((n)&63) & 1)
/* Whether a register may be live between blocks and is in the set. */
#define PTX_HELD(body, set, n) ((uint32_t)(n) < (body)->boundary_count && PTX_BIT(set, n))
#define PTX_SET(set, n) ((set)[(n) >> 6] |= 1ull << ((n)&63))

/* Whether warps of a block run in turns, each with a stack of its own. With 32 lanes. */
static inline bool ptx_body_turns(const struct ptx_body *body)
{
	return (body->has_barrier || body->has_waits || body->has_strides) && !body->has_warp_loop;
}

/* Per block, what is written, and what is live where one begins, in it and in all that may run after it. */
struct ptx_rest {
	uint64_t *defs, *live;
	bool known;
};

/* The passes, in order; each returns false with body->error set. */
bool ptx_body_inline(struct ptx_body *body);
bool ptx_body_blocks(struct ptx_body *body);
bool ptx_body_order(struct ptx_body *body);
bool ptx_body_reconverge(struct ptx_body *body); /* a part of the one before */
bool ptx_body_fold(struct ptx_body *body);
bool ptx_body_region_boundary(struct ptx_body *body); /* a part of the next one */
bool ptx_body_live(struct ptx_body *body);
bool ptx_body_rest(struct ptx_body *body, struct ptx_rest *rest); /* false: no memory */
bool ptx_body_shapes(struct ptx_body *body, unsigned lanes);
bool ptx_body_in_loop(const struct ptx_body *body, uint32_t block);
/*
 * Chooses the lanes, and finds the shapes for them. `scalar`: whether code of one lane is wanted for a while. It is set
 * to false where threads work together, or a block may run for long: no block changes its code.
 */
bool ptx_body_width(struct ptx_body *body, unsigned *lanes, bool *scalar);

/* Calls each(data, instruction) for all instructions, in order, again and again until no call has said that something changed. */
void ptx_body_fixpoint(const struct ptx_body *body, bool (*each)(void *data, const struct ptx_instr *instr), void *data);

/*
 * Whether a kernel, of 32 lanes, does little else than to move memory once. Vectors of 32 bytes are best for that where
 * 64 are possible: a vector addition of 16 Mi elements takes 7.2 ms with them and 8.1 without, on an EPYC, since its
 * processor then fetches ahead better. Other kernels take up to half as long again.
 */
bool ptx_body_streams(const struct ptx_body *body);

bool ptx_body_origins(struct ptx_body *body);
void ptx_body_strides(struct ptx_body *body); /* with 32 lanes */
bool ptx_body_along(struct ptx_body *body);   /* with 32 lanes */

/* Less than what a grid is wide, and more than rows of most matrices, which the second cache keeps. */
#define PTX_FAR_STEP (64 << 10)
/* Whether instructions [from, to), a loop's, may move the address by more than a small constant. */
bool ptx_body_moves(const struct ptx_body *body, uint32_t from, uint32_t to, int32_t reg);
/* The first block of the loop that ends in block `latch`. */
uint32_t header_of(const struct ptx_body *body, uint32_t latch);

/* With rounds: bytes of a register that a warp keeps while others have their turns. */
uint32_t ptx_saved_bytes(const struct ptx_body *body, uint32_t reg);

/* Whether warps take turns at the end of the loop with this latch. */
static inline bool ptx_begins_warp_loop(const struct ptx_body *body, uint32_t latch)
{
	return body->blocks[latch].stride != PTX_NO_INSTR;
}

bool ptx_body_fail(struct ptx_body *body, enum ptx_status status, unsigned line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* Calls `visit` for every register that an instruction reads or writes. */
void ptx_instr_uses(const struct ptx_body *body, const struct ptx_instr *i, void (*visit)(void *, int32_t), void *data);
void ptx_instr_defs(const struct ptx_body *body, const struct ptx_instr *i, void (*visit)(void *, int32_t), void *data);

/* Do lanes name those that take part in it, or do all? */
bool ptx_instr_reconverges(const struct ptx_instr *i);

struct ptx_block *ptx_body_block(struct ptx_body *body, uint32_t first, uint32_t last);
int32_t ptx_body_register(struct ptx_body *body, unsigned type);

#endif

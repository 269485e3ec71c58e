/* SPDX-License-Identifier: Apache-2.0 */
/* What the two passes share that make one list of instructions of a kernel and all that it calls. */
#ifndef VCUDA_BACKEND_CPU_PTX_INLINE_H
#define VCUDA_BACKEND_CPU_PTX_INLINE_H

#include "ptx-body.h"

#define PTX_MAX_SLOTS 64

/* A part of a .param variable that is passed in a register. */
struct ptx_slot {
	uint64_t offset;
	unsigned bytes;
	int32_t reg;
};

/* A .param or .local variable of one instance of a function. */
struct ptx_instance {
	struct ptx_symbol symbol; /* first: operands point to it; its offset is in the routine's frame */
	struct ptx_slot slots[PTX_MAX_SLOTS];
	unsigned slot_count;
	struct ptx_routine *routine;
	bool memory; /* accesses overlap, its address is taken or a real call passes it: it lives in local memory */
	bool placed;
};

/* A function that is called for real, with all that is inlined into it; or the kernel. */
struct ptx_routine {
	const struct ptx_symbol *symbol; /* NULL: the kernel */
	const struct ptx_function *fn;
	uint64_t frame_bytes;
	uint32_t entry;       /* label */
	uint32_t first, last; /* instructions [first, last) */
	int32_t top;          /* the register with the end of the frame, where it moves; or -1 */
	uint64_t *saves;      /* per register: where it is saved in the frame, 0: nowhere yet */
};

/* A frame's first words: where to go back to, and the caller's frame if that moves. */
#define PTX_FRAME_RETURN 0
#define PTX_FRAME_CALLER 8
#define PTX_FRAME_FIRST 16

/* A call that is not inlined; operand 0 is the function's address. */
extern const struct ptx_opcode ptx_real_call;

bool ptx_inline_no_memory(struct ptx_body *body);
uint32_t ptx_inline_label(struct ptx_body *body);
struct ptx_instr *ptx_inline_append(struct ptx_body *body, const struct ptx_instr *i);
bool ptx_inline_branch(struct ptx_body *body, const struct ptx_instr *like, uint32_t label, int32_t guard);
void ptx_inline_place(struct ptx_instance *n);
bool ptx_is_kernel_param(const struct ptx_symbol *s);

/* ---- ptx-param.c ---- */
/* Turns parameters that are passed between functions into registers, where nothing keeps them in memory. */
bool ptx_body_params(struct ptx_body *body);

/* ---- ptx-routine.c ---- */
/* The routines of a kernel, itself last. */
bool ptx_find_routines(struct ptx_body *body);
/* Per instruction, what is live behind the real calls of routines that may run again before they have returned. */
bool ptx_live_calls(struct ptx_body *body, uint64_t ***calls);

/* ---- ptx-stack.c ---- */
/* Where a routine's results and parameters lie in its frame, results first; returns their end. */
uint64_t ptx_frame_layout(const struct ptx_function *fn, uint64_t *offsets);
/* A branch to the label whose key a register holds, else to `bad`. */
bool ptx_append_choice(struct ptx_body *body, const struct ptx_instr *like, int32_t reg, const uint64_t *keys,
		       const uint32_t *labels, uint32_t count, uint32_t bad);
/* Ends the kernel: a thread called or branched to something that is not there. */
bool ptx_append_bad_target(struct ptx_body *body, const struct ptx_instr *like);
/* Replaces real calls, returns from routines and what changes the stack by plain instructions. */
bool ptx_body_stack(struct ptx_body *body);

#endif

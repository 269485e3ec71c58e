/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that two passes share: they make one list of the instructions of a kernel and all that it calls. */
#ifndef VCUDA_BACKEND_CPU_PTX_INLINE_H
#define VCUDA_BACKEND_CPU_PTX_INLINE_H

#include "analysis/ptx-body.h"

#define PTX_MAX_SLOTS 64
/* Instructions while the list is made; then PTX_MOST_INSTRUCTIONS. */
#define PTX_MOST_IN_BETWEEN 400000

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
	struct ptx_routine *routine; /* the routine whose frame has it; for a subroutine the kernel */
	bool memory; /* accesses overlap, its address is taken or a real call passes it: it lives in local memory */
	bool placed;
};

/* The forms of a call by name of a function that is not recursive. */
enum ptx_called {
	PTX_CALL_NONE,   /* the function's instructions */
	PTX_CALL_FRAME,  /* a real call: it needs the stack, or what it calls does */
	PTX_CALL_BRANCH, /* a branch to the only copy of its instructions, as a subroutine */
};

/*
 * A function whose instructions are there once, with all that is inlined into it; or the kernel. Either each call has a
 * frame of its own; or the function is a subroutine: no call of it begins before the last one has returned, so its
 * variables and parameters have one place each, registers if possible, and a call is a branch there and one back.
 */
struct ptx_routine {
	const struct ptx_symbol *symbol; /* NULL: the kernel */
	const struct ptx_function *fn;
	uint64_t frame_bytes;
	uint32_t entry;       /* label */
	uint32_t first, last; /* instructions [first, last) */
	int32_t top;          /* the register with the end of the frame, where it moves; or -1 */
	bool subroutine;
	struct ptx_instance **formals;          /* of a subroutine: its results and its parameters, */
	int32_t back;                           /* the register that says where to return to, as a number from 0, */
	uint32_t leave;                         /* the label that leads there, */
	uint32_t *backs, back_count, back_room; /* and the labels behind its calls */
	uint64_t *saves;                        /* per register: where it is saved in the frame, 0: nowhere yet */
};

/* A frame's first words: where to go back to, and the caller's frame if that moves. */
#define PTX_FRAME_RETURN 0
#define PTX_FRAME_CALLER 8
#define PTX_FRAME_FIRST 16

/* A call that is not inlined; operand 0 is the function's address. */
extern const struct ptx_opcode ptx_real_call;
/* A call of a subroutine. */
extern const struct ptx_opcode ptx_branch_call;

bool ptx_inline_no_memory(struct ptx_body *body);
uint32_t ptx_inline_label(struct ptx_body *body);
struct ptx_instr *ptx_inline_append(struct ptx_body *body, const struct ptx_instr *i);
bool ptx_inline_branch(struct ptx_body *body, const struct ptx_instr *like, uint32_t label, int32_t guard);
void ptx_inline_place(struct ptx_instance *n);
bool ptx_is_kernel_param(const struct ptx_symbol *s);

/* Appends an instruction at the line of `like`, under its guard. The operands are copied. */
struct ptx_instr *ptx_inline_emit(struct ptx_body *body, const struct ptx_instr *like, const char *name, unsigned type,
				  ptx_mods mods, unsigned count, const struct ptx_operand *ops);

/* ---- ptx-outline.c ---- */
/*
 * A kernel with more instructions, with all that it calls, has subroutines: PTX_MOST_INLINED. Tests set a smaller
 * number.
 */
extern uint32_t ptx_most_inlined;
/* Says which functions calls by name go to, instead of being inlined. */
bool ptx_body_outline(struct ptx_body *body);

/* ---- ptx-subroutine.c ---- */
/* Finds the parameters of subroutines that have to be in memory. */
void ptx_check_passed(struct ptx_body *body);
/* Replaces a call of a subroutine by moves of its arguments, the call, and moves of its results. */
bool ptx_rewrite_branch_call(struct ptx_body *body, const struct ptx_instr *i);
/* And the call itself in the end: `number` is a register for which subroutine is meant. */
struct ptx_gate {
	int32_t number;
	uint32_t label;
};
bool ptx_expand_branch_call(struct ptx_body *body, const struct ptx_gate *gate, const struct ptx_instr *i);
/* Where they begin if there are many of them, and return from, once all their calls are known. */
bool ptx_append_gate(struct ptx_body *body, const struct ptx_gate *gate);
bool ptx_append_leaves(struct ptx_body *body);

/* ---- ptx-param.c ---- */
/* Turns parameters that are passed between functions into registers, where nothing keeps them in memory. */
bool ptx_body_params(struct ptx_body *body);

/* ---- ptx-routine.c ---- */
/* The routines of a kernel, itself last. */
bool ptx_routines_find(struct ptx_body *body);
/* The kind of the calls of a function that is defined. */
enum ptx_called ptx_call_kind(const struct ptx_body *body, const struct ptx_call *call);
/* Per instruction, what is live behind the real calls of routines that may run again before they have returned. */
bool ptx_live_calls(struct ptx_body *body, uint64_t ***calls);

/* ---- ptx-stack.c ---- */
/* The offsets of a routine's results and parameters in its frame, results first; returns their end. */
uint64_t ptx_frame_layout(const struct ptx_function *fn, uint64_t *offsets);
/* A branch to the label whose key a register holds, else to `bad`; or no matter where, if that is PTX_NO_LABEL. */
#define PTX_NO_LABEL UINT32_MAX
bool ptx_append_choice(struct ptx_body *body, const struct ptx_instr *like, int32_t reg, const uint64_t *keys,
		       const uint32_t *labels, uint32_t count, uint32_t bad);
/* Ends the kernel: a thread called or branched to something that is not there. */
bool ptx_append_bad_target(struct ptx_body *body, const struct ptx_instr *like);
/* Replaces real calls, returns from routines and what changes the stack by plain instructions. */
bool ptx_body_stack(struct ptx_body *body);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the code generator while it emits one version of a kernel. Each structure has one owner file, which sets
 * it up. */
#ifndef VCUDA_BACKEND_CPU_PTX_LOWER_STATE_H
#define VCUDA_BACKEND_CPU_PTX_LOWER_STATE_H

#include <llvm-c/Core.h>

#include "lower/ptx-lowering.h"

/* ptx-lower-value.c */
struct lower_types {
	LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, f16, bf16, ptr, void_type;
};

/* jit/ptx-compile.c */
struct lower_version {
	unsigned width; /* lanes of the kernel's code: 32 or 1 */
	bool masked, quick;
	bool checked; /* each access goes through the runtime, which may drop it */
};

/* ptx-lower.c: the LLVM function. `thread` and `from` are values of the thread, or the warp, at hand. */
struct lower_function {
	LLVMValueRef value, ctx, thread, frame;
	LLVMBasicBlockRef entry;       /* allocas and loads of the context */
	LLVMBasicBlockRef each_thread; /* where the next thread, or the next warp, begins; NULL: there is none */
	LLVMBasicBlockRef each_block;  /* where the next thread block begins; NULL: there is none */
	LLVMValueRef first_thread, first_from; /* the thread that it begins with, and that thread's `from` */
	LLVMValueRef from;                     /* full: where the warp goes on */
	LLVMBasicBlockRef *starts;             /* per block: `check` in the masked version */
};

/* ptx-lower.c: members of struct ptx_context, and lists of 128 times 64 bits. */
struct lower_memory {
	LLVMValueRef params, shared, shared_bytes, local, cache, cancel;
	LLVMValueRef addresses, data, extra; /* the lists, in the order of a runtime function's arguments */
	LLVMValueRef operands;               /* room for four lists of eight registers, or NULL until it is needed */
};

/* ptx-lower.c: the instruction at hand. */
struct lower_place {
	uint32_t block, instr;
	const struct ptx_instr *i;
	unsigned lanes;    /* that it works on: width, or 1 */
	LLVMValueRef mask; /* of the block, i32; all ones in the full version */
	LLVMValueRef mask_vector;
	const uint64_t *keep; /* in an aside: registers that waiting lanes still need; else NULL */
	bool distances;       /* its operands are distances, see provenance_keeps_distance() */
};

/* ptx-lower-cross.c */
struct lower_registers {
	LLVMValueRef *storage; /* per register */
	uint64_t *passed_on;   /* registers that some block passes on to another */
	uint64_t *resident;    /* registers that are always in the warp's frame: no copies where versions cross */
};

/* ptx-lower-masked.c */
struct lower_masked {
	LLVMValueRef *pending;    /* per block */
	LLVMValueRef live;        /* lanes that have not exited */
	LLVMValueRef wait_rounds; /* how often a waiting loop was gone round */
	LLVMValueRef parted;      /* lanes came apart to the last barrier, and some may wait there for their release */
};

/* An access of a loop that may stride through memory: a variable, or NULL, and how much to prefetch. */
struct stride {
	LLVMValueRef address;
	unsigned bytes;
};

/* ptx-lower-stride.c; in the full version */
struct lower_strides {
	struct stride *strides; /* per instruction */
	LLVMValueRef *lasts;    /* per latch: the address of the striding access in the last round, or NULL */
};

/* ptx-warp-loop.c; in the full version where warps take turns in it, else all NULL */
struct lower_warp_loop {
	LLVMBasicBlockRef next_warp, warp_ended;
	LLVMValueRef next_thread, next_last, ended_thread; /* what comes to these blocks */
};

/* ptx-lower.c; with one lane: variables, see slow_path_begin() */
struct lower_slow_path {
	LLVMValueRef ctx, thread;
};

/* ptx-lower-provenance.c; with one lane, or NULL */
struct lower_provenances {
	struct provenance *provenances;
	LLVMValueRef *bases; /* values of parameters by their places */
};

/* ptx-lower-access.c */
struct lower_accesses {
	LLVMValueRef *ranges; /* with one lane: per site, two variables of the range that it hit last, or NULL */
	bool *covered;        /* per instruction: an earlier check of the same block covers this access */
	unsigned gathers;     /* that were compiled inline */
};

struct lower {
	struct ptx_body *body;
	struct ptx_lowering *low;
	LLVMContextRef c;
	LLVMModuleRef m;
	LLVMBuilderRef b;
	struct lower_types type;
	struct lower_version version;
	struct lower_function fn;
	struct lower_memory mem;
	struct lower_place at;
	struct lower_registers regs;
	/* Each for its owner, mostly. */
	struct {
		struct lower_masked masked;
		struct lower_strides stride;
		struct lower_warp_loop warp_loop;
		struct lower_slow_path slow_path;
		struct lower_provenances provenance;
		struct lower_accesses access;
		struct {
			struct if_converted *blocks; /* ptx-lower-if-convert.c; of the full version, per block */
		} if_conversion;
		struct {
			bool unwatched; /* ptx-lower-poll.c: some loops do not ask whether the launch was cancelled */
		} poll;
	} own;
};

#endif

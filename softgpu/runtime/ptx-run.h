/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by compiled code and the functions that it calls. Compiled code reads struct ptx_context by offset. */
#ifndef VCUDA_BACKEND_CPU_PTX_RUN_H
#define VCUDA_BACKEND_CPU_PTX_RUN_H

#include "front/ptx-ir.h"
#include "runtime/ptx-tex.h"

/*
 * The part of memory that an access was last found to lie in; start > end while nothing is cached. room: at how many
 * distances from the start the site's span fits, if it has one.
 */
struct ptx_cached_range {
	uint64_t start, end, room;
};

#define PTX_SITE_LANES 32
#define PTX_NO_PROVENANCE UINT32_MAX

/* One memory instruction, for the slow paths and for reports. */
struct ptx_site {
	uint32_t line;
	uint8_t space, size, count; /* element bytes, elements per lane */
	uint8_t unused;             /* number of trailing bytes of all elements that the memory need not have */
	bool write;
	uint8_t type;           /* atomics */
	uint8_t operation;      /* enum ptx_modifier of an atomic */
	struct ptx_tex tex;     /* texture and surface instructions */
	int64_t imm;            /* added to every address before the check */
	const int64_t *offsets; /* per lane, or NULL */
	int64_t low, high;      /* the smallest and the largest of `offsets` */
	uint32_t provenance;          /* the parameter that points into the range to begin with, or PTX_NO_PROVENANCE */
	bool aligned;           /* accesses have the alignment of that parameter */
	uint64_t span;          /* bytes of one bounds check; 0 outside of the full version */
};

struct ptx_context {
	/* Read by compiled code. */
	const uint8_t *params;
	uint8_t *shared;
	uint64_t shared_bytes;
	uint8_t *local;                 /* of thread 0; each thread has local_stride bytes */
	struct ptx_cached_range *cache; /* an entry for each site */
	const volatile bool *cancel;    /* never NULL here */
	uint32_t ctaid[3], nctaid[3];
	uint64_t dynamic_bytes;
	const uint64_t *variables; /* addresses of the module's; code that is kept cannot hold them */
	uint64_t workspace; /* of a cooperative launch: %envreg2 and, its upper half, %envreg1 */
	uint32_t smid, nsmid;
	uint64_t gridid;
	uint64_t more; /* blocks to run after the present one, if their warps never wait; such code counts them, too */
	/* Not read by compiled code. */
	uint64_t local_bytes;
	const struct ptx_launch *launch;
	const struct ptx_binary *binary;
	struct ptx_thread *thread;
	struct ptx_fault *fault;
	uint32_t caller_live; /* in a function: lanes of the warp that had not exited when it was called; else 0 */
};

/* Entry and exit of a version of a kernel: the head of a warp's frame, which live registers follow. */
struct ptx_frame {
	uint32_t entry;        /* entry point in the version that runs next */
	uint32_t live;         /* lanes that have not exited */
	uint32_t taken, other; /* lanes that go either way after a divergent branch */
	uint32_t thread;       /* in code that loops over the warps of a block: the present thread */
	uint32_t left;         /* in a loop of warps: bits of the warps that have not ended */
};

/* Instead of where a whole warp goes on: it has ended in the masked version. */
#define PTX_WARP_ENDED 0x2000000u

#define PTX_FRAME_HEAD 64

enum ptx_leave { PTX_LEAVE_DONE, PTX_LEAVE_OTHER };

/*
 * thread: the number of the first thread of the warp; of the block, with one lane. Where warps take no turns, the full
 * version goes on with the whole warps that follow, and maybe with blocks.
 */
typedef uint32_t (*ptx_code)(struct ptx_context *ctx, uint32_t thread, struct ptx_frame *frame);

/* For the functions that compiled code calls, a part of each stack. Device printf needs the most of them, below 32 KiB. */
#define PTX_RUNTIME_STACK (128ull << 10)
#define PTX_RUNTIME_STACK_USED (32ull << 10)

/* One version of a kernel, and the stack that a fiber needs to run it. */
struct ptx_machine_code {
	ptx_code code;
	uint64_t stack;
	bool quick;
	/* Quick code only, atomic: its run time so far, and the run time after which better code is requested */
	uint64_t ran_ns, worth_ns;
	bool hot; /* atomic: better code was asked for */
	struct ptx_machine_code *older; /* blocks may still run it */
};

enum ptx_binary_state { PTX_BINARY_NEW, PTX_BINARY_BUSY, PTX_BINARY_READY, PTX_BINARY_FAILED };

struct ptx_binary {
	struct ptx_binary *next;
	struct ptx_kernel *kernel;
	/* atomic: where this one has scalar or standalone code, the binary that later blocks run; NULL: none yet */
	struct ptx_binary *better;
	bool scalar;
	uint32_t line; /* of the kernel: machine code counts lines from there, from 1 */
	/* atomic: better code takes the place of quick code while blocks run; masked: NULL until a warp needs it */
	struct ptx_machine_code *full, *masked;
	enum ptx_binary_state state; /* this, the next two and the kernel's list: under the module's lock */
	bool completing;             /* the masked version is being compiled */
	/* Makes the masked version if no thread has; from any thread. False: the log says why it cannot be. */
	bool (*complete)(struct ptx_binary *binary);
	/* Has quick code replaced, in the background; from any thread. */
	void (*improve)(struct ptx_binary *binary, bool masked);
	enum ptx_status status;      /* why it failed */
	struct ptx_error error;
	struct ptx_site *sites;
	int64_t (*offsets)[PTX_SITE_LANES]; /* the sites' `offsets` */
	uint32_t blockdim[3], threads;
	/*
	 * From here on: plain numbers about the kernel for this block shape, which the cache keeps just as they are. No
	 * pointers, and nothing that a new process would not find the same.
	 */
	unsigned lanes; /* 32 or 1 */
	uint32_t site_count;
	uint64_t frame_bytes;
	uint64_t static_shared, local_stride;
	bool standalone; /* `full` is the masked version without a full one: it runs one warp to its end */
	bool fibers;     /* warps wait for one another: each needs a stack */
	bool warp_loop;     /* whole warps take turns in the full version by themselves */
	bool waits;      /* a loop may wait for other threads */
	bool strides;    /* a loop may stride through memory, and blocks say nothing to one another */
};

/* Ends the block with a fault; does not return. */
void ptx_fault_at(struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind, uint64_t address,
		  uint32_t thread) __attribute__((noreturn));
/* The same, of an access that is not of the site's size. */
void ptx_fault_bytes(struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind, uint64_t address,
		     uint64_t bytes, uint32_t thread) __attribute__((noreturn));

/* The line of the text for one that machine code has; 0: it is not known. */
static inline uint32_t ptx_line_of(const struct ptx_binary *binary, uint32_t line)
{
	return line ? binary->line + line - 1 : 0;
}

/* Fills in a fault's report. site: NULL, or the instruction's. */
void ptx_fault_describe(const struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind,
			uint64_t address, uint64_t bytes, uint32_t thread, struct ptx_fault *fault);
/*
 * An access that is not allowed: where the device lets it pass, its address; where the device drops it, zeroes that it
 * may read and write, of the OS thread's until the next call. Else it faults.
 */
uint8_t *ptx_stray(struct ptx_context *ctx, const struct ptx_site *site, enum ptx_fault_kind kind, uint64_t address,
		   uint64_t bytes, uint32_t thread);

/* The host address of an access of a lane, checked; see ptx_stray(). */
uint8_t *ptx_check_lane(struct ptx_context *ctx, uint32_t site, uint64_t address, uint32_t thread);
/* The same for accesses that are not of the site's size: `align` is a power of two. Not for local memory. */
uint8_t *ptx_check_span(struct ptx_context *ctx, uint32_t site, uint64_t address, uint64_t bytes, uint64_t align,
			uint32_t thread);
/* The first `limit` bytes, at most, of a NUL-terminated string; NULL if these run out of readable memory. */
const char *ptx_check_string(struct ptx_context *ctx, uint64_t address, size_t limit, size_t *length);

/* Called when a launch begins: looks up the ranges that are known by then. */
void ptx_check_provenances(struct ptx_context *ctx);

bool ptx_check_bytes(struct ptx_context *ctx, uint64_t address, size_t bytes);

/* Called by compiled code. */
void ptx_rt_check(struct ptx_context *ctx, uint32_t site, uint64_t base, uint32_t thread);
/* Whether so many bytes are in one range, which is remembered, and aligned for an element of the site. */
uint32_t ptx_rt_reach(struct ptx_context *ctx, uint32_t site, uint64_t from, uint64_t bytes);
void ptx_rt_load(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *addresses, void *data,
		 uint32_t thread);
void ptx_rt_store(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *addresses, const void *data,
		  uint32_t thread);
void ptx_rt_atom(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *addresses, const uint64_t *data,
		 uint64_t *old, uint32_t thread);
/* Applies the site's operation at one checked place. ftz: an addition of f32 takes subnormals for 0. */
void ptx_atom_apply(const struct ptx_site *site, uint8_t *at, bool ftz, uint64_t operand);
/* One element of vectors. */
void ptx_rt_atom_part(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *addresses,
		      const uint64_t *data, uint64_t *old, uint32_t thread, uint32_t part);
/* The atomic of 128 bits: in each list all lower halves come first, then the upper ones. */
void ptx_rt_atom_wide(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *addresses,
		      const uint64_t *data, uint64_t *old, uint32_t thread);
/* An id that no program can name */
#define PTX_CLUSTER_BARRIER UINT32_MAX
uint64_t ptx_rt_sync(struct ptx_context *ctx, uint32_t line, uint32_t id, uint32_t lanes, uint32_t live);
uint64_t ptx_rt_barrier(struct ptx_context *ctx, uint32_t line, uint32_t id, uint32_t count, uint32_t lanes,
			uint32_t live, uint32_t kind, uint32_t predicates);
void ptx_rt_park(struct ptx_context *ctx, uint32_t line, uint32_t live);
void ptx_rt_yield(struct ptx_context *ctx, uint32_t line);
void ptx_rt_turn(struct ptx_context *ctx, uint64_t last);
void ptx_rt_cancelled(struct ptx_context *ctx, uint32_t line, uint32_t thread);
void ptx_rt_trap(struct ptx_context *ctx, uint32_t line, uint32_t thread);
void ptx_rt_bad_target(struct ptx_context *ctx, uint32_t line, uint32_t thread);
void ptx_rt_shfl(uint32_t mode, uint32_t mask, const uint32_t *in, const uint32_t *out_p, uint32_t *out);
/* groups: NULL, or for each lane of the mask the lanes that it works with. */
void ptx_rt_match(uint32_t all, uint32_t mask, const uint32_t *groups, const uint64_t *values, uint32_t *out,
		  uint32_t *same);
/* operation: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor, and of these: */
enum { PTX_REDUX_SIGNED = 8, PTX_REDUX_FLOAT = 16, PTX_REDUX_ABS = 32, PTX_REDUX_NAN = 64 };
/* The lanes of `here` that can go on: each live lane that its mask names is here, and has the same mask. */
uint32_t ptx_rt_meet(uint32_t here, uint32_t live, const uint32_t *masks);
void ptx_rt_redux(uint32_t operation, uint32_t mask, const uint32_t *groups, const uint32_t *values, uint32_t *out);
/* Operations of ptx_rt_round(): one of these, the modifier of the rounding shifted by 8, the type shifted by 16 */
enum {
	ROUND_ADD,
	ROUND_SUB,
	ROUND_MUL,
	ROUND_DIV,
	ROUND_FMA,
	ROUND_SQRT,
	ROUND_FROM_S64,
	ROUND_FROM_U64,
	ROUND_NARROW
};
void ptx_rt_round(uint32_t operation, uint32_t lanes, const void *a, const void *b, const void *c, void *out);
uint64_t ptx_rt_clock(void);
uint64_t ptx_rt_nanoseconds(void);
/* live: the warp's lanes that have not exited */
uint64_t ptx_rt_call(struct ptx_context *ctx, uint32_t site, uint32_t mask, const uint64_t *arguments, uint64_t *result,
		     uint32_t thread, uint32_t live);

#endif

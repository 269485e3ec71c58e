/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software GPU's compiler: PTX text in, kernels that run one thread block at a time out.
 *
 * The device (device/, texture/, module/) allocates memory, orders work and hands out blocks. The compiler (front/,
 * analysis/, runtime/, lower/, jit/) knows PTX and LLVM and nothing of streams. Semantics: NVIDIA's PTX ISA.
 *
 * Thread-safety: a module may be used by any number of threads once ptx_module_create() has returned.
 * ptx_kernel_prepare() locks internally. ptx_run_blocks() is called by many threads at once.
 */
#ifndef VCUDA_BACKEND_CPU_KERNEL_H
#define VCUDA_BACKEND_CPU_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ptx_module;
struct ptx_kernel;
struct ptx_binary;

enum ptx_status {
	PTX_OK = 0,
	PTX_INVALID,		/* not PTX, or malformed: CUDA_ERROR_INVALID_PTX */
	PTX_NOT_SUPPORTED,	/* well-formed, but an instruction or feature is not implemented */
	PTX_NO_MEMORY,
	PTX_UNRESOLVED,		/* an .extern symbol has no definition */
};

/* The reason of a refusal, for the log: the line in the PTX text (1-based, 0 if none) and a sentence. */
struct ptx_error {
	unsigned line;
	char text[240];
};

/* A .global or .const variable. `init` holds `size` bytes, or is NULL for all zeroes. Owned by the module. */
struct ptx_variable {
	const char *name;
	size_t size, align;
	const void *init;
	bool constant;		/* .const */
	bool managed;		/* .attribute(.managed) */
	bool visible;		/* .visible, .weak or .common: cuModuleGetGlobal finds it */
};

struct ptx_param {
	size_t offset, size;
};

struct ptx_kernel_info {
	const char *name;
	unsigned param_count;
	const struct ptx_param *params;	/* param_count entries */
	size_t param_bytes;		/* size of the parameter buffer */
	size_t static_shared;		/* bytes */
	size_t reserved_shared;		/* those of them that a GPU reserves beside the block's limit */
	size_t local_bytes;		/* bytes per thread */
	unsigned max_threads;		/* .maxntid product, or 0 */
	unsigned registers;		/* an honest estimate for cuFuncGetAttribute; at least 1 */
	bool is_bounded;		/* by .maxntid, .reqntid or .maxnreg: bounds of the compiler's options do not count */
	bool uses_dynamic_shared;	/* declares an .extern .shared array */
	bool uses_heap;			/* the kernel's module declares malloc() or free() */
	unsigned ptx_version, target_sm;/* e.g. 90 for PTX 9.0, 75 for sm_75 */
};

/*
 * Builds in the background, once a process, what the code of the first kernel needs. The call is optional and does not
 * block.
 */
void ptx_start(void);

/*
 * Parses a whole PTX module. `text` need not be NUL-terminated and is copied. Bodies of functions are checked for
 * syntax only, and that only if the cache does not say that this text was good; unsupported instructions are found by
 * ptx_kernel_prepare().
 */
enum ptx_status ptx_module_create(const char *text, size_t length, struct ptx_module **module, struct ptx_error *error);
/*
 * The same for several texts that are linked: .extern, .visible, .weak and .common symbols of one name are one symbol. A
 * symbol that no text defines is found when it is used.
 */
struct ptx_text {
	const char *text;
	size_t length;
};
enum ptx_status ptx_module_link(const struct ptx_text *texts, size_t count, struct ptx_module **module,
				struct ptx_error *error);
void ptx_module_destroy(struct ptx_module *module);

/*
 * From now on each load of a text of which nothing is kept first calls `announce`: most probably a kernel will be
 * compiled. It must not wait. NULL: no more.
 */
void ptx_module_announce_new(void (*announce)(void));

size_t ptx_module_variables(const struct ptx_module *module, const struct ptx_variable **variables);
/*
 * Tells the module where variable `index` lives. The device layer does so for all of them before the first
 * ptx_kernel_prepare(), and then copies ptx_variable.init there (ptx_module_relocate() patches pointers between variables).
 */
void ptx_module_place(struct ptx_module *module, size_t index, uint64_t address);
enum ptx_status ptx_module_relocate(struct ptx_module *module, size_t index, void *image, struct ptx_error *error);

size_t ptx_module_kernels(const struct ptx_module *module);
struct ptx_kernel *ptx_module_kernel(struct ptx_module *module, size_t index);
struct ptx_kernel *ptx_module_find_kernel(struct ptx_module *module, const char *name);
const struct ptx_kernel_info *ptx_kernel_info(const struct ptx_kernel *kernel);

/*
 * Compiles a kernel for a block shape (cached in memory; the caller may ask again at every launch). The binary lives as
 * long as the module. `blockdim` is {x, y, z}. The error names the instruction that is not implemented.
 */
enum ptx_status ptx_kernel_prepare(struct ptx_kernel *kernel, const uint32_t blockdim[3], const struct ptx_binary **binary,
				   struct ptx_error *error);

/* Whether blocks may wait for one another: then no block is to be kept back for a thread that runs another. */
bool ptx_binary_waits(const struct ptx_binary *binary);

/* A range of addresses that kernels may touch. */
struct ptx_range {
	uint64_t start, end;	/* [start, end) */
	bool writable;
};

/* All of them, sorted by start, without overlap. Immutable while any block runs; owned by the device layer. */
struct ptx_memory_map {
	size_t count;
	const struct ptx_range *ranges;
};

enum ptx_fault_kind {
	PTX_FAULT_NONE = 0,
	PTX_FAULT_ILLEGAL_ADDRESS,	/* CUDA_ERROR_ILLEGAL_ADDRESS */
	PTX_FAULT_MISALIGNED,		/* CUDA_ERROR_MISALIGNED_ADDRESS */
	PTX_FAULT_TRAP,			/* trap: CUDA_ERROR_LAUNCH_FAILED */
	PTX_FAULT_ASSERT,		/* CUDA_ERROR_ASSERT */
	PTX_FAULT_BARRIER,		/* a block that can never pass its barrier: CUDA_ERROR_LAUNCH_FAILED */
	PTX_FAULT_BAD_TARGET,		/* a call or branch to no function or label: CUDA_ERROR_INVALID_PC */
	/* copies of tensors: CUDA_ERROR_ILLEGAL_INSTRUCTION */
	PTX_FAULT_TENSOR_MAP,		/* the object is not a tensor map */
	PTX_FAULT_TENSOR_BEGIN,		/* of a box that begins amid 16 bytes; address: its element of dimension 0 */
	PTX_FAULT_TENSOR_NEGATIVE,	/* to before the tensor; address: the element, bytes: of which dimension */
	PTX_FAULT_TENSOR_CORNER,	/* by a map whose base pixels may lie outside; address: by how much, bytes: as above */
	PTX_FAULT_CANCELLED,		/* `cancel` was set: CUDA_ERROR_LAUNCH_TIMEOUT */
};

/* The access of the first faulting thread. */
struct ptx_fault {
	enum ptx_fault_kind kind;
	uint64_t address;
	uint32_t bytes;
	bool write;
	const char *space;	/* "global", "shared", "local", "const", "param", "generic", "texture", "surface" */
	uint32_t block[3], thread[3];
	unsigned line;		/* PTX line, 0 if not known */
	bool own;		/* `address` is an offset in shared memory, or in a thread's local memory */
	const struct ptx_kernel *kernel; /* whose text `line` is of; NULL: not known */
};

/* The result of a forbidden access: the kernel ends, the access is done, or it reads zeroes and writes nothing. */
enum ptx_stray { PTX_STRAY_FAULTS, PTX_STRAY_PASSES, PTX_STRAY_IS_DROPPED };

struct ptx_texture_table;

struct ptx_launch {
	const struct ptx_binary *binary;
	uint32_t grid[3], block[3];
	size_t dynamic_shared;		/* bytes */
	const void *params;		/* param_bytes bytes, aligned as its parameters are, readable for the whole launch */
	const struct ptx_memory_map *memory;
	const struct ptx_texture_table *textures; /* texture and surface objects (ptx-tex.h), or NULL */
	const volatile bool *cancel;	/* checked at barriers and on back-edges; may be NULL */
	uint64_t serial;		/* not 0, unique: threads keep prepared data for later blocks of the launch */
	void *device;			/* opaque to the compiler; passed to the device printf sink and to `stray` */
	void (*print)(void *device, const char *text, size_t length);
	/*
	 * Asked about each access that the map does not allow, or that is misaligned; by any thread. Only global memory may
	 * pass. NULL: all of them fault.
	 */
	enum ptx_stray (*stray)(void *device, const struct ptx_fault *fault);
	/*
	 * Whether such an access of global memory passes as one did before: asked first, because it is quick. NULL: none
	 * does.
	 */
	bool (*is_known_stray)(void *device, uint64_t address, uint64_t bytes, bool write);
	/* For malloc() and free() in the kernel; NULL: there is no heap. 0 and false: the call failed. */
	void *heap;
	uint64_t (*allocate)(void *heap, uint64_t bytes);
	bool (*release)(void *heap, uint64_t address);
	/* For cudaGraphSetConditional() in the kernel. False: the condition does not exist. */
	bool (*decide)(uint64_t condition, uint32_t value);
	/*
	 * The code for the launch's block shape of the function at an address (common/sass-callee.h). May take long. Else
	 * the fault of the kernel. NULL: there are no functions.
	 */
	enum ptx_fault_kind (*callee)(void *device, uint64_t address, const struct ptx_binary **binary);
	uint64_t workspace;		/* device address of a cooperative launch's own memory; 0: not cooperative */
	/*
	 * Gives the number of another block that the calling thread also runs; false: there is none. NULL: blocks do
	 * not wait for one another. A thread asks for up to `share` blocks at once. It asks for more, up to `resident`,
	 * when all its blocks wait for others.
	 */
	bool (*claim)(void *owner, uint64_t *index);
	/*
	 * Called now and then while all that a thread has wait for long, or for memory. Gives back how many nanoseconds the
	 * thread is to sleep each time before it looks again, until something moves. May be NULL.
	 */
	uint64_t (*stalled)(void *owner);
	void *owner;
	uint32_t share, resident;
	uint32_t multiprocessors;	/* %nsmid: threads that run blocks have numbers below it; 0 is as 1 */
};

/*
 * Memory of resident blocks: local and shared memory, stacks, registers. All blocks of the process have `bytes` of it
 * together, 256 MiB until this is called, which is before any block runs. A block waits until there is room, and a
 * launch runs fewer blocks side by side. Where more code has to be compiled for resident blocks, their stacks may take
 * the sum up to twice that.
 */
void ptx_limit_memory(uint64_t bytes);

/*
 * Has the memory of blocks beyond the first 32 MiB charged. Where `take` refuses, a block waits, or fails if no other
 * block has any memory. Called before any block runs.
 */
void ptx_charge_memory(bool (*take)(uint64_t bytes), void (*give)(uint64_t bytes));

/* Whether any is charged. */
bool ptx_memory_is_charged(void);

/* Takes back the memory of threads that run no block. */
void ptx_release_memory(void);

/*
 * For a launch whose blocks must all be resident at a time: reserves `bytes` for them. The reserved bytes beyond 32 MiB
 * are charged. False: the charge was refused.
 */
bool ptx_reserve_memory(uint64_t bytes);
void ptx_unreserve_memory(uint64_t bytes);

/*
 * Modules and machine code ask `room` whether they may take about `bytes` more of the host's memory. False:
 * PTX_NO_MEMORY. Called before the first module is loaded.
 */
void ptx_ask_for_memory(bool (*room)(uint64_t bytes));

/* The memory of one block of a launch, bytes. If it is above the limit, ptx_run_blocks() fails. */
uint64_t ptx_launch_memory(const struct ptx_launch *launch);

/* The best number of consecutive blocks for one call, side by side; 1: the number does not matter. */
uint32_t ptx_launch_side(const struct ptx_launch *launch);

/*
 * Code that is compiled from now on checks each access by itself, so that an access can be dropped. Such code is slow.
 * Before any kernel is prepared.
 */
void ptx_check_accesses(void);

/*
 * Runs `count` blocks of the launch from number `index` (x fastest) on, and those that `claim` gave, to their ends on the calling thread. Returns true if
 * all ended well, else false with `fault` filled in; after a fault no thread of that block runs on, and no later block is begun. Never crashes the process,
 * whatever the kernel does.
 */
bool ptx_run_blocks(const struct ptx_launch *launch, uint64_t index, uint64_t count, struct ptx_fault *fault);

#endif

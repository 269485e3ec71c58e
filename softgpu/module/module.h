/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules, their functions, libraries and their kernels. A library belongs to no context: a module of it is made in
 * each context that uses it, with variables of its own. All calls with the lock held unless they say otherwise.
 */
#ifndef VCUDA_CPU_MODULE_H
#define VCUDA_CPU_MODULE_H

#include "device/context.h"
#include "module/image.h"
#include "kernel.h"
#include "common/list.h"
#include "module/managed.h"

/* The parsed parts of an image; an image of several containers has several. */
struct softgpu_program {
	unsigned int count;
	uint64_t bytes; /* of text, which the parts keep */
	unsigned int max_registers; /* of a thread; 0: no bound */
	struct softgpu_machine_code *code; /* the only part is its outline: constants are at offsets of one bank; or NULL */
	struct ptx_module *part[SOFTGPU_IMAGE_TEXTS];
};

/* No lock needed. */
CUresult softgpu_program_parse(const struct softgpu_image *image, struct softgpu_program *program);
void softgpu_program_free(struct softgpu_program *program);
/* More text that a module keeps. False: others have too much, and the log says so. */
bool softgpu_text_count(uint64_t bytes);
void softgpu_text_uncount(uint64_t bytes);
struct ptx_kernel *softgpu_program_kernel(const struct softgpu_program *program, const char *name);
/*
 * Names of kernels from number `first` on, each with its NUL, as many as fit; and how many there are. With the lock held.
 * CUDA_ERROR_INVALID_VALUE: not even the first one fits.
 */
CUresult softgpu_program_names(const struct softgpu_program *program, uint32_t first, char *to, size_t bytes, uint32_t *count,
			   uint32_t *total);

/* The driver's error for the compiler's, after a line in the log: what could not be done, and where. No lock needed. */
CUresult softgpu_compile_error(enum ptx_status status, const char *what, const struct ptx_error *error);

struct CUmod_st {
	struct CUctx_st *context;
	struct CUlib_st *library; /* NULL: loaded by itself */
	struct softgpu_owned owned;   /* by the context */
	struct vcuda_list in_library;
	struct vcuda_list functions, callees;
	unsigned int refs; /* one for the module itself, each queued launch and each running compilation */
	struct softgpu_program program;
	uint64_t *addresses[SOFTGPU_IMAGE_TEXTS]; /* of each part's variables */
	struct softgpu_managed *managed;          /* the library's, else `own` */
	struct softgpu_managed own;
	bool complete; /* all variables have places and values: before that nothing of it is handed out */
};

/*
 * Makes a module of a program, and takes the program over, if it succeeds. `managed`: the library's variables that all
 * its modules share, each of which has its place; NULL: the module is to have its own, and is not complete before each
 * of them has its place.
 */
CUresult softgpu_module_make(struct CUctx_st *context, struct CUlib_st *library, struct softgpu_managed *managed,
			 struct softgpu_program *program, struct CUmod_st **module);

/* Managed variables have their places: gives the module's variables their values. */
CUresult softgpu_module_complete(struct CUmod_st *module);

/* Waits for all that the context was given. Drops the lock meanwhile. */
void softgpu_module_settle(struct CUctx_st *context);

/* Waits for the module's launches, then destroys it. Drops the lock meanwhile. */
void softgpu_module_unload(struct CUmod_st *module);
void softgpu_module_put(struct CUmod_st *module);

/* A variable's place. Either result may be NULL. */
CUresult softgpu_module_global(struct CUmod_st *module, const char *name, CUdeviceptr *address, size_t *bytes);

/* The number of bytes of .const in the module. */
size_t softgpu_module_constants(const struct CUmod_st *module);

struct CUfunc_st {
	struct CUmod_st *module;
	struct vcuda_list node; /* in the module */
	struct ptx_kernel *named;   /* in the program */
	struct ptx_kernel *kernel;  /* the same, or the one that was made from machine code */
	struct softgpu_lifted *lifted; /* has that; NULL: there is none */
	char *refusal; /* why the machine code cannot be translated, for the launch; NULL: it can */
	bool in_making; /* a thread translates the machine code */
	const struct ptx_kernel_info *info;
	unsigned int registers;            /* of a thread, within all bounds */
	int max_dynamic;                   /* bytes of dynamic shared memory that a launch may ask for */
	int carveout;                      /* a hint, kept for the program */
	const struct ptx_binary *prepared; /* the binary for `prepared_block` */
	uint32_t prepared_block[3];
	bool warned; /* an access beside an allocation was reported; with the lock */
};

/*
 * The function of that name, made at the first call. Drops the lock while machine code is translated. After a success
 * the module and its context are there as before.
 */
CUresult softgpu_module_function(struct CUmod_st *module, const char *name, struct CUfunc_st **function);

/* The function that a handle names in this context; a kernel of a library counts as its function there. As above. */
CUresult softgpu_function_find(struct CUctx_st *context, CUfunction handle, struct CUfunc_st **function);

/* The number of blocks of that many threads that run on a multiprocessor at once. */
size_t softgpu_function_blocks_per_sm(const struct CUfunc_st *function, unsigned int threads, size_t dynamic);

struct CUkern_st {
	struct CUlib_st *library;
	struct vcuda_list node; /* in the library */
	char *name;
	int max_dynamic, carveout;  /* for functions to come; -1 and -2: not set */
	struct CUfunc_st *function; /* in the context with this id, the last one used */
	uint64_t context_id;
};

CUresult softgpu_kernel_function(struct CUkern_st *kernel, struct CUctx_st *context, struct CUfunc_st **function);
CUresult softgpu_function_set(struct CUfunc_st *function, CUfunction_attribute attribute, int value);

/*
 * A launch in two steps, without the lock: copies the parameters into memory that the caller frees, an error or not;
 * and launches with them.
 */
CUresult softgpu_launch_pack(CUfunction f, void **params, void **extra, void **packed, size_t *bytes);
CUresult softgpu_launch_packed(CUfunction f, const uint32_t grid[3], const uint32_t block[3], uint32_t shared,
			       bool cooperative, CUstream stream, void *packed, size_t bytes);

#endif

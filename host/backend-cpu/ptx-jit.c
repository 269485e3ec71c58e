/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LLVM IR to machine code. One JIT per module; each version of each kernel is an object of its own name. Compiled code
 * can call only what is listed here.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "ptx-lower.h"

/* From the compiler's own library: half precision where the host has no instruction for it. */
extern float __extendhfsf2(_Float16);
extern _Float16 __truncsfhf2(float);
extern _Float16 __truncdfhf2(double);

/* One version of a kernel, and the stack that a fiber needs to run it. */
struct compiled {
	ptx_code code;
	uint64_t stack;
};

/* For the functions that compiled code calls: device printf needs the most of them, below 32 KiB. */
#define RUNTIME_STACK (128ull << 10)
/* The largest frame that is run: 32 warps of it must fit into the address space with ease. */
#define MAX_FRAME (16ull << 20)
/* What a GPU has. */
#define MAX_LOCAL (512u << 10)

struct ptx_jit {
	LLVMOrcLLJITRef orc;
	LLVMTargetMachineRef machine;
	unsigned counter;
	pthread_mutex_t lock;
};

#define FUNCTION(name) {#name, (uintptr_t)name}
static const struct {
	const char *name;
	uintptr_t address;
} functions[] = {
	FUNCTION(ptx_rt_check),
	FUNCTION(ptx_rt_load),
	FUNCTION(ptx_rt_store),
	FUNCTION(ptx_rt_atom),
	FUNCTION(ptx_rt_barrier),
	FUNCTION(ptx_rt_yield),
	FUNCTION(ptx_rt_cancelled),
	FUNCTION(ptx_rt_trap),
	FUNCTION(ptx_rt_shfl),
	FUNCTION(ptx_rt_match),
	FUNCTION(ptx_rt_redux),
	FUNCTION(ptx_rt_round),
	FUNCTION(ptx_rt_clock),
	FUNCTION(ptx_rt_nanoseconds),
	FUNCTION(ptx_rt_call),
	FUNCTION(sinf),
	FUNCTION(cosf),
	FUNCTION(exp2f),
	FUNCTION(log2f),
	FUNCTION(tanhf),
	FUNCTION(fmaf),
	FUNCTION(fma),
	FUNCTION(floorf),
	FUNCTION(floor),
	FUNCTION(ceilf),
	FUNCTION(ceil),
	FUNCTION(truncf),
	FUNCTION(trunc),
	/* the rounding mode is never changed while compiled code runs */
	{"roundevenf", (uintptr_t)rintf},
	{"roundeven", (uintptr_t)rint},
	FUNCTION(memcpy),
	FUNCTION(memset),
	FUNCTION(memmove),
	FUNCTION(__extendhfsf2),
	FUNCTION(__truncsfhf2),
	FUNCTION(__truncdfhf2),
};

#define FUNCTION_COUNT (sizeof(functions) / sizeof(functions[0]))

static bool report(struct ptx_error *error, LLVMErrorRef problem)
{
	char *text;

	if (!problem)
		return true;
	text = LLVMGetErrorMessage(problem);
	ptx_error_set(error, 0, "the compiler failed: %.180s", text);
	LLVMDisposeErrorMessage(text);
	return false;
}

static LLVMTargetMachineRef host_machine(void)
{
	char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
	char *message = NULL;
	LLVMTargetRef target;
	LLVMTargetMachineRef machine = NULL;

	if (!LLVMGetTargetFromTriple(triple, &target, &message))
		machine = LLVMCreateTargetMachine(target, triple, cpu, features, LLVMCodeGenLevelDefault, LLVMRelocPIC,
						  LLVMCodeModelJITDefault);
	LLVMDisposeMessage(message);
	LLVMDisposeMessage(features);
	LLVMDisposeMessage(cpu);
	LLVMDisposeMessage(triple);
	return machine;
}

static bool define_functions(struct ptx_jit *jit, struct ptx_error *error)
{
	LLVMOrcCSymbolMapPair pairs[FUNCTION_COUNT];

	for (size_t n = 0; n < FUNCTION_COUNT; n++) {
		pairs[n].Name = LLVMOrcLLJITMangleAndIntern(jit->orc, functions[n].name);
		pairs[n].Sym.Address = functions[n].address;
		pairs[n].Sym.Flags.GenericFlags = LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
		pairs[n].Sym.Flags.TargetFlags = 0;
	}
	return report(error, LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit->orc),
						   LLVMOrcAbsoluteSymbols(pairs, FUNCTION_COUNT)));
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialise(void)
{
	LLVMInitializeX86TargetInfo();
	LLVMInitializeX86Target();
	LLVMInitializeX86TargetMC();
	LLVMInitializeX86AsmPrinter();
}

static struct ptx_jit *create_jit(struct ptx_error *error)
{
	struct ptx_jit *jit = calloc(1, sizeof(*jit));

	if (!jit)
		return NULL;
	pthread_once(&once, initialise);
	pthread_mutex_init(&jit->lock, NULL);
	jit->machine = host_machine();
	if (!jit->machine) {
		ptx_error_set(error, 0, "LLVM has no code generator for this processor");
	} else if (report(error, LLVMOrcCreateLLJIT(&jit->orc, NULL)) && define_functions(jit, error)) {
		return jit;
	}
	ptx_jit_destroy(jit);
	return NULL;
}

void ptx_jit_destroy(struct ptx_jit *jit)
{
	LLVMErrorRef problem;

	if (!jit)
		return;
	if (jit->orc) {
		problem = LLVMOrcDisposeLLJIT(jit->orc);
		if (problem)
			LLVMConsumeError(problem);
	}
	if (jit->machine)
		LLVMDisposeTargetMachine(jit->machine);
	pthread_mutex_destroy(&jit->lock);
	free(jit);
}

static void lower_types(struct lower *l)
{
	l->i1 = LLVMInt1TypeInContext(l->c);
	l->i8 = LLVMInt8TypeInContext(l->c);
	l->i16 = LLVMInt16TypeInContext(l->c);
	l->i32 = LLVMInt32TypeInContext(l->c);
	l->i64 = LLVMInt64TypeInContext(l->c);
	l->f16 = LLVMHalfTypeInContext(l->c);
	l->bf16 = LLVMBFloatTypeInContext(l->c);
	l->f32 = LLVMFloatTypeInContext(l->c);
	l->f64 = LLVMDoubleTypeInContext(l->c);
	l->ptr = LLVMPointerTypeInContext(l->c, 0);
	l->void_type = LLVMVoidTypeInContext(l->c);
}

static bool optimise(struct lower *l, LLVMTargetMachineRef machine, struct ptx_error *error)
{
	LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
	bool ok;

	LLVMPassBuilderOptionsSetLoopVectorization(options, 0);
	LLVMPassBuilderOptionsSetSLPVectorization(options, 0);
	LLVMPassBuilderOptionsSetLoopUnrolling(options, 0);
	ok = report(error, LLVMRunPasses(l->m, "default<O2>", machine, options));
	LLVMDisposePassBuilderOptions(options);
	return ok;
}

/* What LLVM says while it makes machine code. */
struct messages {
	struct ptx_error *error;
	uint64_t frame_bytes; /* the function's own, all spilled registers included */
	bool failed;
};

#define FRAME_SIZE_TEXT "stack frame size ("

static void note_message(LLVMDiagnosticInfoRef info, void *data)
{
	struct messages *messages = data;
	char *text = LLVMGetDiagInfoDescription(info);
	const char *size = strstr(text, FRAME_SIZE_TEXT);

	if (size) {
		messages->frame_bytes = strtoull(size + strlen(FRAME_SIZE_TEXT), NULL, 10);
	} else if (LLVMGetDiagInfoSeverity(info) == LLVMDSError) {
		messages->failed = true;
		ptx_error_set(messages->error, 0, "the compiler failed: %.180s", text);
	}
	LLVMDisposeMessage(text);
}

static void target_attributes(struct lower *l, LLVMTargetMachineRef machine)
{
	char *cpu = LLVMGetTargetMachineCPU(machine), *features = LLVMGetTargetMachineFeatureString(machine);

	LLVMAddTargetDependentFunctionAttr(l->fn, "target-cpu", cpu);
	LLVMAddTargetDependentFunctionAttr(l->fn, "target-features", features);
	LLVMAddTargetDependentFunctionAttr(l->fn, "no-trapping-math", "true");
	/* a "warning" at any size: how note_message() learns the size */
	LLVMAddTargetDependentFunctionAttr(l->fn, "warn-stack-size", "0");
	LLVMDisposeMessage(features);
	LLVMDisposeMessage(cpu);
}

static bool finish_module(struct lower *l, struct ptx_jit *jit, const char *name, struct compiled *result,
			  struct ptx_error *error)
{
	struct messages messages = {.error = error};
	LLVMMemoryBufferRef object = NULL;
	LLVMOrcExecutorAddress address = 0;
	char *message = NULL;
	bool ok;

	target_attributes(l, jit->machine);
	if (LLVMVerifyModule(l->m, LLVMReturnStatusAction, &message)) {
		ptx_error_set(error, 0, "the compiler made bad code: %.180s", message);
		LLVMDisposeMessage(message);
		return false;
	}
	LLVMDisposeMessage(message);
	message = NULL;
	if (!optimise(l, jit->machine, error))
		return false;
	LLVMContextSetDiagnosticHandler(l->c, note_message, &messages);
	if (LLVMTargetMachineEmitToMemoryBuffer(jit->machine, l->m, LLVMObjectFile, &message, &object)) {
		ptx_error_set(error, 0, "the compiler failed: %.180s", message);
		LLVMDisposeMessage(message);
		return false;
	}
	LLVMContextSetDiagnosticHandler(l->c, NULL, NULL);
	if (messages.failed || messages.frame_bytes > MAX_FRAME) {
		ptx_error_set(error, l->body->function->line, "`%s` needs too many registers at once",
			      l->body->function->name);
		LLVMDisposeMemoryBuffer(object);
		return false;
	}
	result->stack = messages.frame_bytes + RUNTIME_STACK;
	ok = report(error, LLVMOrcLLJITAddObjectFile(jit->orc, LLVMOrcLLJITGetMainJITDylib(jit->orc), object)) &&
	     report(error, LLVMOrcLLJITLookup(jit->orc, &address, name));
	result->code = (ptx_code)(uintptr_t)address;
	return ok;
}

/* One version of a kernel; the caller holds the module's lock. */
static enum ptx_status compile(struct ptx_body *body, struct ptx_lowering *low, unsigned lanes, bool masked,
			       struct compiled *result, struct ptx_error *error)
{
	struct ptx_module *module = body->function->module;
	struct lower l = {.body = body, .low = low, .width = lanes, .masked = masked};
	enum ptx_status status = PTX_OK;
	LLVMTargetDataRef layout;
	char name[40];

	if (!module->jit && !(module->jit = create_jit(error)))
		return PTX_NO_MEMORY;
	snprintf(name, sizeof(name), "ptx_kernel_%u", module->jit->counter++);
	l.c = LLVMContextCreate();
	l.m = LLVMModuleCreateWithNameInContext(name, l.c);
	l.b = LLVMCreateBuilderInContext(l.c);
	lower_types(&l);
	body->error = error;
	layout = LLVMCreateTargetDataLayout(module->jit->machine);
	LLVMSetModuleDataLayout(l.m, layout);
	LLVMDisposeTargetData(layout);
	if (!lower_kernel(&l, name))
		status = body->status;
	else if (!finish_module(&l, module->jit, name, result, error))
		status = PTX_NO_MEMORY;
	LLVMDisposeBuilder(l.b);
	LLVMDisposeModule(l.m);
	LLVMContextDispose(l.c);
	return status;
}

static bool analyse(struct ptx_body *body, unsigned *lanes)
{
	if (!ptx_body_inline(body) || !ptx_body_blocks(body) || !ptx_body_order(body) || !ptx_body_live(body))
		return false;
	return ptx_body_width(body, lanes);
}

enum ptx_status ptx_jit_kernel(struct ptx_kernel *kernel, const uint32_t blockdim[3], struct ptx_binary *binary,
			       struct ptx_error *error)
{
	struct ptx_body *body = calloc(1, sizeof(*body));
	struct ptx_lowering *low;
	struct compiled full = {NULL, 0};
	enum ptx_status status;

	if (!body)
		return PTX_NO_MEMORY;
	body->arena.limit = 1ull << 30;
	body->function = kernel->function;
	body->error = error;
	memcpy(body->blockdim, blockdim, sizeof(body->blockdim));
	body->threads = blockdim[0] * blockdim[1] * blockdim[2];
	body->static_shared = kernel->info.static_shared;
	binary->body = body;
	low = binary->lowering = ptx_alloc(&body->arena, sizeof(*low));
	if (!low || !analyse(body, &binary->lanes))
		return body->status ? body->status : PTX_NO_MEMORY;
	/* local memory of neighbouring threads stays aligned */
	body->local_bytes = (body->local_bytes + 15) & ~15ull;
	if (body->local_bytes > MAX_LOCAL) {
		ptx_error_set(error, body->function->line, "`%s` needs more than %u KiB of local memory per thread",
			      kernel->info.name, MAX_LOCAL >> 10);
		return PTX_NOT_SUPPORTED;
	}
	if (!prepare_lowering(body, low, binary->lanes))
		return body->status;
	status = compile(body, low, binary->lanes, false, &full, error);
	binary->full = full.code;
	binary->full_stack = full.stack;
	binary->sites = low->site_list;
	binary->site_count = low->site_count;
	binary->static_shared = body->static_shared;
	binary->local_stride = body->local_bytes;
	binary->frame_bytes = low->frame_bytes + 4ull * body->block_count;
	/* a loop may wait for another warp of the block */
	binary->fibers = binary->lanes > 1 && (body->has_barrier || body->has_waits);
	binary->zero_frame = body->block_count > PTX_MAX_BLOCKS_IN_REGISTERS;
	return status;
}

enum ptx_status ptx_jit_masked(struct ptx_binary *binary, struct ptx_error *error)
{
	struct compiled masked;
	enum ptx_status status = compile(binary->body, binary->lowering, binary->lanes, true, &masked, error);

	if (status == PTX_OK) {
		binary->masked_stack = masked.stack;
		__atomic_store_n(&binary->masked, masked.code, __ATOMIC_RELEASE);
	}
	return status;
}

void ptx_binary_free(struct ptx_binary *binary)
{
	if (binary->body)
		ptx_arena_free(&binary->body->arena);
	free(binary->body);
	free(binary);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One version of a kernel to machine code: LLVM's passes and code generator. Everything of LLVM's lives for one
 * compilation only, so any number of threads may compile at once.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "ptx-compile.h"

/* For the functions that compiled code calls: device printf needs the most of them, below 32 KiB. */
#define RUNTIME_STACK (128ull << 10)
/* The largest frame that is run: 32 warps of it must fit into the address space with ease. */
#define MAX_FRAME (16ull << 20)

bool ptx_compile_report(struct ptx_error *error, LLVMErrorRef problem)
{
	char *text;

	if (!problem)
		return true;
	text = LLVMGetErrorMessage(problem);
	ptx_error_set(error, 0, "the compiler failed: %.180s", text);
	LLVMDisposeErrorMessage(text);
	return false;
}

static void initialise(void)
{
	LLVMInitializeX86TargetInfo();
	LLVMInitializeX86Target();
	LLVMInitializeX86TargetMC();
	LLVMInitializeX86AsmPrinter();
}

void ptx_compile_start(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, initialise);
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
	ok = ptx_compile_report(error, LLVMRunPasses(l->m, "default<O2>", machine, options));
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

/* The object file of a lowered module; NULL with `error` set. */
static LLVMMemoryBufferRef emit(struct lower *l, LLVMTargetMachineRef machine, uint64_t *stack, struct ptx_error *error)
{
	struct messages messages = {.error = error};
	LLVMMemoryBufferRef object = NULL;
	char *message = NULL;

	target_attributes(l, machine);
	if (LLVMVerifyModule(l->m, LLVMReturnStatusAction, &message)) {
		ptx_error_set(error, 0, "the compiler made bad code: %.180s", message);
		LLVMDisposeMessage(message);
		return NULL;
	}
	LLVMDisposeMessage(message);
	message = NULL;
	if (!optimise(l, machine, error))
		return NULL;
	LLVMContextSetDiagnosticHandler(l->c, note_message, &messages);
	if (LLVMTargetMachineEmitToMemoryBuffer(machine, l->m, LLVMObjectFile, &message, &object)) {
		ptx_error_set(error, 0, "the compiler failed: %.180s", message);
		LLVMDisposeMessage(message);
		return NULL;
	}
	LLVMContextSetDiagnosticHandler(l->c, NULL, NULL);
	if (messages.failed || messages.frame_bytes > MAX_FRAME) {
		ptx_error_set(error, l->body->function->line, "`%s` needs too many registers at once",
			      l->body->function->name);
		LLVMDisposeMemoryBuffer(object);
		return NULL;
	}
	*stack = messages.frame_bytes + RUNTIME_STACK;
	return object;
}

enum ptx_status ptx_compile(struct ptx_body *body, struct ptx_lowering *low, const struct ptx_version *version,
			    LLVMMemoryBufferRef *object, uint64_t *stack, struct ptx_error *error)
{
	struct lower l = {.body = body, .low = low, .width = version->lanes, .masked = version->masked};
	enum ptx_status status = PTX_OK;
	LLVMTargetMachineRef machine;
	LLVMTargetDataRef layout;

	ptx_compile_start();
	machine = host_machine();
	if (!machine) {
		ptx_error_set(error, 0, "LLVM has no code generator for this processor");
		return PTX_NO_MEMORY;
	}
	l.c = LLVMContextCreate();
	l.m = LLVMModuleCreateWithNameInContext(version->name, l.c);
	l.b = LLVMCreateBuilderInContext(l.c);
	lower_types(&l);
	body->error = error;
	layout = LLVMCreateTargetDataLayout(machine);
	LLVMSetModuleDataLayout(l.m, layout);
	LLVMDisposeTargetData(layout);
	if (!lower_kernel(&l, version->name))
		status = body->status;
	else if (!(*object = emit(&l, machine, stack, error)))
		status = PTX_NO_MEMORY;
	LLVMDisposeBuilder(l.b);
	LLVMDisposeModule(l.m);
	LLVMContextDispose(l.c);
	LLVMDisposeTargetMachine(machine);
	return status;
}

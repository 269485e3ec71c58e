/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One version of a kernel to machine code: LLVM's passes and code generator. Any number of threads may compile at once:
 * what they use of LLVM is theirs while they compile.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include "jit/ptx-compile.h"
#include "lower/ptx-lower.h"

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

/*
 * The pass that the option leaves out changed no kernel of softgpu/bench, and took up to a tenth of the time of
 * optimised code. An LLVM without such an option ignores it.
 */
static void initialise(void)
{
	static const char *const options[] = {"", "-disable-x86-domain-reassignment"};

	LLVMParseCommandLineOptions(2, options, "");
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

static LLVMTargetMachineRef create_machine(bool quick)
{
	char *triple = LLVMGetDefaultTargetTriple(), *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
	char *message = NULL;
	LLVMTargetRef target;
	LLVMTargetMachineRef machine = NULL;

	if (!LLVMGetTargetFromTriple(triple, &target, &message))
		machine = LLVMCreateTargetMachine(target, triple, cpu, features,
						  quick ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault, LLVMRelocPIC,
						  LLVMCodeModelSmall);
	LLVMDisposeMessage(message);
	LLVMDisposeMessage(features);
	LLVMDisposeMessage(cpu);
	LLVMDisposeMessage(triple);
	return machine;
}

/*
 * Machines that no compilation uses, of quick and of optimised code. A machine and its tables of the processor take a
 * tenth of the time of a small kernel to make.
 */
static LLVMTargetMachineRef idle_machines[2];

static LLVMTargetMachineRef take_machine(bool quick)
{
	LLVMTargetMachineRef machine = __atomic_exchange_n(&idle_machines[quick], NULL, __ATOMIC_ACQ_REL);

	return machine ? machine : create_machine(quick);
}

static void give_machine(bool quick, LLVMTargetMachineRef machine)
{
	LLVMTargetMachineRef other = __atomic_exchange_n(&idle_machines[quick], machine, __ATOMIC_ACQ_REL);

	if (other)
		LLVMDisposeTargetMachine(other);
}

/*
 * Chosen by measuring. Quick code: what keeps the code generator from drowning, no more. Instcombine was half of that,
 * and the code generator combines as much without it. mem2reg finds as much as sroa for two thirds of the time: no
 * variable has parts. Optimised code runs as fast as with all of -O2, for a third of the time: it has no functions to
 * inline, and its vectors are made already. gvn leaves loads out: its search of memory took up to a third of the
 * time of a masked version, and kernels ran as fast even without gvn. One round of instcombine need not be its last:
 * LLVM ends the process over that unless it is told not to look.
 */
#define QUICK_PASSES "function(mem2reg,early-cse,simplifycfg)"
#define OPTIMISED_PASSES                                                                                               \
	"function(sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm),"         \
	"gvn<no-memdep>,instcombine<no-verify-fixpoint>,dse,simplifycfg)"

static bool optimise(struct lower *l, LLVMTargetMachineRef machine, bool quick, struct ptx_error *error)
{
	LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
	bool ok;

	ok = ptx_compile_report(error, LLVMRunPasses(l->m, quick ? QUICK_PASSES : OPTIMISED_PASSES, machine, options));
	LLVMDisposePassBuilderOptions(options);
	return ok;
}

/* LLVM's messages while it makes machine code. */
struct messages {
	struct ptx_error *error;
	uint64_t frame_bytes; /* of all functions, all spilled registers included */
	bool failed;
};

#define FRAME_SIZE_TEXT "stack frame size ("

static void note_message(LLVMDiagnosticInfoRef info, void *data)
{
	struct messages *messages = data;
	char *text = LLVMGetDiagInfoDescription(info);
	const char *size = strstr(text, FRAME_SIZE_TEXT);

	if (size) {
		messages->frame_bytes += strtoull(size + strlen(FRAME_SIZE_TEXT), NULL, 10);
	} else if (LLVMGetDiagInfoSeverity(info) == LLVMDSError) {
		messages->failed = true;
		ptx_error_set(messages->error, 0, "the compiler failed: %.180s", text);
	}
	LLVMDisposeMessage(text);
}

/*
 * Functions that keep all registers do not have `vzeroupper`. LLVM 19 puts it in front of their returns, behind the
 * restored registers, and so clears the upper halves of the caller's vector registers. NULL: there is no memory.
 */
static char *features_of_keepers(const char *features)
{
	static const char more[] = "-vzeroupper";
	size_t room = strlen(features) + sizeof(more) + 1;
	char *all = malloc(room);

	if (all)
		snprintf(all, room, "%s%s%s", features, *features ? "," : "", more);
	return all;
}

static bool target_attributes(struct lower *l, LLVMTargetMachineRef machine)
{
	char *cpu = LLVMGetTargetMachineCPU(machine), *features = LLVMGetTargetMachineFeatureString(machine),
	     *keepers = features_of_keepers(features);
	bool has_memory = keepers;

	/* also of what keeps registers: which ones there are follows from the features */
	for (LLVMValueRef fn = LLVMGetFirstFunction(l->m); fn && keepers; fn = LLVMGetNextFunction(fn)) {
		bool keeps = LLVMGetFunctionCallConv(fn) == LLVMPreserveAllCallConv;

		if (LLVMIsDeclaration(fn))
			continue;
		LLVMAddTargetDependentFunctionAttr(fn, "target-cpu", cpu);
		LLVMAddTargetDependentFunctionAttr(fn, "target-features", keeps ? keepers : features);
		LLVMAddTargetDependentFunctionAttr(fn, "no-trapping-math", "true");
		/* a "warning" at any size: how note_message() learns the size */
		LLVMAddTargetDependentFunctionAttr(fn, "warn-stack-size", "0");
		if (l->version.width == 1 || !ptx_body_streams(l->body))
			continue;
		LLVMAddTargetDependentFunctionAttr(fn, "prefer-vector-width", "256");
		LLVMAddTargetDependentFunctionAttr(fn, "min-legal-vector-width", "0");
	}
	LLVMDisposeMessage(features);
	LLVMDisposeMessage(cpu);
	free(keepers);
	return has_memory;
}

static bool verify(struct lower *l, struct ptx_error *error)
{
	char *message = NULL;
	bool ok = !LLVMVerifyModule(l->m, LLVMReturnStatusAction, &message);

	if (!ok)
		ptx_error_set(error, 0, "the compiler made bad code: %.180s", message);
	LLVMDisposeMessage(message);
	return ok;
}

/* For looking at what is slow: the optimised code and the object file as DIR/KERNEL-VERSION.ll and .o. */
static void dump(struct lower *l, LLVMMemoryBufferRef object)
{
	const char *folder = getenv("VCUDA_CPU_DUMP");
	char path[1024], *message = NULL;
	FILE *f;

	if (!folder)
		return;
	snprintf(path, sizeof(path), "%s/%.200s-%s.ll", folder, l->body->function->name,
		 l->version.masked ? "masked" : "full");
	if (LLVMPrintModuleToFile(l->m, path, &message))
		LLVMDisposeMessage(message);
	memcpy(strrchr(path, '.'), ".o", 3);
	f = fopen(path, "w");
	if (!f)
		return;
	fwrite(LLVMGetBufferStart(object), 1, LLVMGetBufferSize(object), f);
	fclose(f);
}

/* The object file of an optimised module; NULL with `error` set. */
static LLVMMemoryBufferRef emit(struct lower *l, LLVMTargetMachineRef machine, uint64_t *stack, struct ptx_error *error)
{
	struct messages messages = {.error = error};
	LLVMMemoryBufferRef object = NULL;
	char *message = NULL;

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
	*stack = messages.frame_bytes + PTX_RUNTIME_STACK;
	dump(l, object);
	return object;
}

static void open_module(struct lower *l, const char *name, LLVMTargetMachineRef machine)
{
	LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);

	l->c = LLVMContextCreate();
	l->m = LLVMModuleCreateWithNameInContext(name, l->c);
	l->b = LLVMCreateBuilderInContext(l->c);
	lower_types(l);
	LLVMSetModuleDataLayout(l->m, layout);
	LLVMDisposeTargetData(layout);
}

static void close_module(struct lower *l)
{
	LLVMDisposeBuilder(l->b);
	LLVMDisposeModule(l->m);
	LLVMContextDispose(l->c);
}

/* The masked version goes on where the full one leaves: those places are found by making the full one. */
static enum ptx_status find_exits(struct ptx_plan *plan, bool checked, LLVMTargetMachineRef machine)
{
	struct lower l = {.body = &plan->body,
			  .low = &plan->low,
			  .version = {.width = plan->lanes, .checked = checked}};
	bool ok;

	open_module(&l, "full", machine);
	ok = lower_kernel(&l, "full");
	close_module(&l);
	return ok ? PTX_OK : plan->body.status;
}

static double lap(struct timespec *since)
{
	struct timespec now;
	double ms;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ms = (double)(now.tv_sec - since->tv_sec) * 1e3 + (double)(now.tv_nsec - since->tv_nsec) * 1e-6;
	*since = now;
	return ms;
}

static enum ptx_status compile(struct ptx_plan *plan, struct ptx_version version, LLVMTargetMachineRef machine,
			       const char *name, LLVMMemoryBufferRef *object, uint64_t *stack, struct ptx_times *times)
{
	struct lower l = {.body = &plan->body,
			  .low = &plan->low,
			  .version = {.width = plan->lanes,
				      .masked = version.masked || version.standalone,
				      .quick = version.quick,
				      .checked = version.checked}};
	enum ptx_status status = PTX_NO_MEMORY;
	struct timespec since = {0};

	lap(&since);
	open_module(&l, name, machine);
	if (!lower_kernel(&l, name)) {
		status = plan->body.status;
		goto close;
	}
	if (!target_attributes(&l, machine))
		goto close;
	times->lowering += lap(&since);
	if (!verify(&l, plan->body.error) || !optimise(&l, machine, version.quick, plan->body.error))
		goto close;
	times->passes = lap(&since);
	*object = emit(&l, machine, stack, plan->body.error);
	if (*object)
		status = PTX_OK;
	times->emission = lap(&since);
close:
	close_module(&l);
	return status;
}

enum ptx_status ptx_compile(struct ptx_plan *plan, struct ptx_version version, const char *name,
			    LLVMMemoryBufferRef *object, uint64_t *stack, struct ptx_times *times,
			    struct ptx_error *error)
{
	enum ptx_status status = PTX_OK;
	LLVMTargetMachineRef machine;
	struct timespec since = {0};

	ptx_compile_start();
	plan->body.error = error;
	machine = take_machine(version.quick);
	if (!machine) {
		ptx_error_set(error, 0, "LLVM has no code generator for this processor");
		return PTX_NO_MEMORY;
	}
	lap(&since);
	if (version.masked)
		status = find_exits(plan, version.checked, machine);
	if (version.standalone)
		memset(plan->low.reenter, 0, plan->body.block_count * sizeof(*plan->low.reenter));
	times->lowering = lap(&since);
	if (status == PTX_OK)
		status = compile(plan, version, machine, name, object, stack, times);
	give_machine(version.quick, machine);
	return status;
}

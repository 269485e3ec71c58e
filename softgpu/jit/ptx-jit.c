/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine code into memory. One JIT per module; each version of each kernel is an object whose function has a name of
 * its own. Compiled code can call only what is listed here.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/TargetMachine.h>

#include "runtime/ptx-async.h"
#include "jit/ptx-compile.h"
#include "runtime/ptx-matrix.h"

/* From the compiler's own library: half precision where the host has no instruction for it. */
extern float __extendhfsf2(_Float16);
extern _Float16 __truncsfhf2(float);
extern _Float16 __truncdfhf2(double);

struct ptx_jit {
	LLVMOrcLLJITRef orc;
};

#define FUNCTION(name) {#name, (uintptr_t)name}
static const struct {
	const char *name;
	uintptr_t address;
} functions[] = {
	FUNCTION(ptx_rt_check),
	FUNCTION(ptx_rt_reach),
	FUNCTION(ptx_rt_load),
	FUNCTION(ptx_rt_store),
	FUNCTION(ptx_rt_atom),
	FUNCTION(ptx_rt_atom_part),
	FUNCTION(ptx_rt_atom_wide),
	FUNCTION(ptx_rt_barrier),
	FUNCTION(ptx_rt_sync),
	FUNCTION(ptx_rt_park),
	FUNCTION(ptx_rt_yield),
	FUNCTION(ptx_rt_turn),
	FUNCTION(ptx_rt_cancelled),
	FUNCTION(ptx_rt_trap),
	FUNCTION(ptx_rt_bad_target),
	FUNCTION(ptx_rt_shfl),
	FUNCTION(ptx_rt_match),
	FUNCTION(ptx_rt_tex),
	FUNCTION(ptx_rt_meet),
	FUNCTION(ptx_rt_redux),
	FUNCTION(ptx_rt_round),
	FUNCTION(ptx_rt_clock),
	FUNCTION(ptx_rt_nanoseconds),
	FUNCTION(ptx_rt_call),
	FUNCTION(ptx_rt_mbarrier),
	FUNCTION(ptx_rt_copy_async),
	FUNCTION(ptx_rt_copy_bulk),
	FUNCTION(ptx_rt_copy_some),
	FUNCTION(ptx_rt_copy_near),
	FUNCTION(ptx_rt_reduce_bulk),
	FUNCTION(ptx_rt_store_async),
	FUNCTION(ptx_rt_fill_bulk),
	FUNCTION(ptx_rt_tensor_load),
	FUNCTION(ptx_rt_tensor_store),
	FUNCTION(ptx_rt_tensor_reduce),
	FUNCTION(ptx_rt_tensor_prefetch),
	FUNCTION(ptx_rt_tensor_replace),
	FUNCTION(ptx_rt_tensor_publish),
	FUNCTION(ptx_rt_mma),
	FUNCTION(ptx_rt_tile_load),
	FUNCTION(ptx_rt_tile_store),
	FUNCTION(ptx_rt_rows_load),
	FUNCTION(ptx_rt_rows_widen),
	FUNCTION(ptx_rt_rows_store),
	FUNCTION(ptx_rt_rows_transpose),
	FUNCTION(sinf),
	FUNCTION(cosf),
	FUNCTION(sincosf), /* LLVM makes these two of sinf and cosf, and of exp2f of an integer */
	FUNCTION(ldexpf),
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

static bool define_functions(struct ptx_jit *jit, struct ptx_error *error)
{
	LLVMOrcCSymbolMapPair pairs[FUNCTION_COUNT];

	for (size_t n = 0; n < FUNCTION_COUNT; n++) {
		pairs[n].Name = LLVMOrcLLJITMangleAndIntern(jit->orc, functions[n].name);
		pairs[n].Sym.Address = functions[n].address;
		pairs[n].Sym.Flags.GenericFlags = LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable;
		pairs[n].Sym.Flags.TargetFlags = 0;
	}
	return ptx_compile_report(error, LLVMOrcJITDylibDefine(LLVMOrcLLJITGetMainJITDylib(jit->orc),
							       LLVMOrcAbsoluteSymbols(pairs, FUNCTION_COUNT)));
}

/* The linker needs no features of the processor, which take longer to find than all the rest. */
static LLVMOrcLLJITBuilderRef plain_builder(void)
{
	LLVMOrcLLJITBuilderRef builder = LLVMOrcCreateLLJITBuilder();
	char *triple = LLVMGetDefaultTargetTriple(), *message = NULL;
	LLVMTargetMachineRef machine = NULL;
	LLVMTargetRef target;

	if (!LLVMGetTargetFromTriple(triple, &target, &message))
		machine = LLVMCreateTargetMachine(target, triple, "", "", LLVMCodeGenLevelNone, LLVMRelocPIC,
						  LLVMCodeModelSmall);
	/* takes the machine over */
	if (machine)
		LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
			builder, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine));
	LLVMDisposeMessage(message);
	LLVMDisposeMessage(triple);
	return builder;
}

static struct ptx_jit *create_jit(struct ptx_error *error)
{
	struct ptx_jit *jit = calloc(1, sizeof(*jit));

	if (!jit)
		return NULL;
	ptx_compile_start();
	if (ptx_compile_report(error, LLVMOrcCreateLLJIT(&jit->orc, plain_builder())) && define_functions(jit, error))
		return jit;
	ptx_jit_destroy(jit);
	return NULL;
}

static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t spare_made = PTHREAD_COND_INITIALIZER;
static struct ptx_jit *spare;
static bool spare_begun;

void ptx_jit_make_spare(void)
{
	struct ptx_error ignored = {0};
	struct ptx_jit *made;
	bool needed;

	pthread_mutex_lock(&spare_lock);
	needed = !spare && !spare_begun;
	spare_begun |= needed;
	pthread_mutex_unlock(&spare_lock);
	if (!needed)
		return;
	made = create_jit(&ignored);
	pthread_mutex_lock(&spare_lock);
	spare = made;
	spare_begun = false;
	pthread_cond_broadcast(&spare_made);
	pthread_mutex_unlock(&spare_lock);
}

/* One that is being made is there before another could be. */
static struct ptx_jit *take_spare(void)
{
	struct ptx_jit *taken;

	pthread_mutex_lock(&spare_lock);
	while (spare_begun)
		pthread_cond_wait(&spare_made, &spare_lock);
	taken = spare;
	spare = NULL;
	pthread_mutex_unlock(&spare_lock);
	return taken;
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
	free(jit);
}

/* Measured: what the linker keeps of a small object, with its share of the module's own linker. */
#define LINK_BYTES (128u << 10)

bool ptx_jit_link(struct ptx_module *module, const void *object, size_t size, const char *name, ptx_code *code,
		  struct ptx_error *error)
{
	LLVMOrcExecutorAddress address = 0;
	LLVMMemoryBufferRef buffer;
	LLVMOrcResourceTrackerRef tracker;
	LLVMErrorRef problem;
	bool ok;

	if (!ptx_has_room(LINK_BYTES + 2 * (uint64_t)size))
		return false;
	pthread_mutex_lock(&module->link);
	if (!module->jit)
		module->jit = take_spare();
	if (!module->jit)
		module->jit = create_jit(error);
	pthread_mutex_unlock(&module->link);
	if (!module->jit)
		return false;
	buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(object, size, name);
	tracker = LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(module->jit->orc));
	ok = ptx_compile_report(error, LLVMOrcLLJITAddObjectFileWithRT(module->jit->orc, tracker, buffer)) &&
	     ptx_compile_report(error, LLVMOrcLLJITLookup(module->jit->orc, &address, name));
	/* another attempt may use the name */
	problem = ok ? NULL : LLVMOrcResourceTrackerRemove(tracker);
	if (problem)
		LLVMConsumeError(problem);
	LLVMOrcReleaseResourceTracker(tracker);
	*code = (ptx_code)(uintptr_t)address;
	return ok;
}

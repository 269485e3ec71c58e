/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostmem BACKEND: uses host memory of cuMemCreate() in many ways and counts the probes that fail.
 * hostmem ask [compare FILE]: what the driver does where the documentation does not say it; FILE has expected lines.
 */
#include "ask.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	CUfunction step, count;
} kernels;

bool has_places;
size_t granule;

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
			  ".visible .entry step(.param .u64 p, .param .u32 k, .param .u32 n)\n{\n"
			  ".reg .u64 %a, %o; .reg .u32 %i, %k, %n, %x, %b, %t; .reg .pred %q;\n"
			  "ld.param.u64 %a, [p]; ld.param.u32 %k, [k]; ld.param.u32 %n, [n];\n"
			  "mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %b, %t, %i;\n"
			  "setp.ge.u32 %q, %i, %n; @%q ret;\n"
			  "mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o; ld.global.u32 %x, [%a];\n"
			  "mad.lo.u32 %x, %x, %k, 1; st.global.u32 [%a], %x; ret;\n}\n"
			  ".visible .entry count(.param .u64 p, .param .u32 rounds)\n{\n"
			  ".reg .u64 %a; .reg .u32 %i, %n, %x; .reg .pred %q;\n"
			  "ld.param.u64 %a, [p]; ld.param.u32 %n, [rounds]; mov.u32 %i, 0;\n"
			  "loop:\natom.global.sys.add.u32 %x, [%a], 1; add.u32 %i, %i, 1;\n"
			  "setp.lt.u32 %q, %i, %n; @%q bra loop; ret;\n}\n";

/* ---- memory ---- */

CUmemAllocationProp properties(CUmemLocationType type, int id, CUmemAllocationHandleType handle_types)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = handle_types, .location = {type, id}};
}

CUmemGenericAllocationHandle create(CUmemLocationType type, size_t granules)
{
	CUmemAllocationProp prop = properties(type, 0, CU_MEM_HANDLE_TYPE_NONE);
	CUmemGenericAllocationHandle handle = 0;

	OK(cuMemCreate(&handle, granules * granule, &prop, 0));
	return handle;
}

CUresult give(CUdeviceptr p, size_t bytes, CUmemLocationType type, int id, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {{type, id}, flags};

	return cuMemSetAccess(p, bytes, &access, 1);
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes)
{
	CUdeviceptr p = 0;

	OK(cuMemAddressReserve(&p, bytes, 0, 0, 0));
	OK(cuMemMap(p, bytes, 0, handle, 0));
	OK(give(p, bytes, CU_MEM_LOCATION_TYPE_DEVICE, 0, RW));
	OK(give(p, bytes, CU_MEM_LOCATION_TYPE_HOST, 0, RW));
	return p;
}

void unmap(CUdeviceptr p, size_t bytes)
{
	OK(cuMemUnmap(p, bytes));
	OK(cuMemAddressFree(p, bytes));
}

/* ---- processors ---- */

static sigjmp_buf out_of_access;

static void leave(int signal)
{
	(void)signal;
	siglongjmp(out_of_access, 1);
}

static bool faults(CUdeviceptr p, bool writes)
{
	struct sigaction old_segv, old_bus, action = {.sa_handler = leave};
	bool has_faulted = true;

	sigaction(SIGSEGV, &action, &old_segv);
	sigaction(SIGBUS, &action, &old_bus);
	if (!sigsetjmp(out_of_access, 1)) {
		uint32_t value = *words(p);

		if (writes)
			*words(p) = value;
		has_faulted = false;
	}
	sigaction(SIGSEGV, &old_segv, NULL);
	sigaction(SIGBUS, &old_bus, NULL);
	return has_faulted;
}

bool read_faults(CUdeviceptr p)
{
	return faults(p, false);
}

bool write_faults(CUdeviceptr p)
{
	return faults(p, true);
}

/* ---- kernels ---- */

void step(CUdeviceptr p, uint32_t k, uint32_t n)
{
	void *arguments[] = {&p, &k, &n};

	OK(cuLaunchKernel(kernels.step, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
	OK(cuCtxSynchronize());
}

void count(CUdeviceptr p, uint32_t rounds)
{
	void *arguments[] = {&p, &rounds};

	OK(cuLaunchKernel(kernels.count, 1, 1, 1, 256, 1, 1, 0, NULL, arguments, NULL));
}

static void start(void)
{
	CUmemAllocationProp prop = properties(CU_MEM_LOCATION_TYPE_DEVICE, 0, CU_MEM_HANDLE_TYPE_NONE);
	CUcontext context;
	CUmodule module;

	probe_begin("start", "");
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&kernels.step, module, "step"));
	OK(cuModuleGetFunction(&kernels.count, module, "count"));
	OK(cuMemGetAllocationGranularity(&granule, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

/* ---- all of them ---- */

static void (*const probes[])(void) = {
	probe_codes, probe_access, probe_use,   probe_copies, probe_layouts,
	probe_pools, probe_life,   probe_forks, probe_share,  probe_reset,
};

static sigjmp_buf next_probe;
static pid_t first_process;

static void abandon(int signal)
{
	if (getpid() != first_process)
		_exit(128 + signal);
	siglongjmp(next_probe, signal);
}

/* Where a driver answers otherwise a processor may have no access; the probes of the next file begin then. */
static void run(void (*probe)(void))
{
	int number = sigsetjmp(next_probe, 1);

	if (number)
		probe_expect(false, __FILE__, __LINE__, "ended by a signal", number);
	else
		probe();
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "ask"))
		return ask(NULL);
	if (argc == 4 && !strcmp(argv[1], "ask") && !strcmp(argv[2], "compare"))
		return ask(argv[3]);
	has_places = argc > 1 && !strcmp(argv[1], "cpu");
	start();
	if (argc > 2)
		return share_child(atoi(argv[2]));
	first_process = getpid();
	signal(SIGSEGV, abandon);
	signal(SIGBUS, abandon);
	for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++)
		run(probes[i]);
	return probe_end("hostmem");
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accesses beside an allocation: kinds of access times distances. Without an argument with the default bounds, which
 * are those of a GPU: what is in the 2 MiB granule of an allocation passes. With the argument `exact` each is a fault,
 * with `check` each is reported, reads give zeros and writes are dropped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "softgpu/backend-cpu.h"
#include "protocol/backend.h"

#define BYTES 4096
#define FILL 0xa5
#define GRANULE (2ll << 20)
#define UNSET 0x5e5e5e5e

static const struct vcuda_backend_ops *cuda;
static enum mode { NATIVE, EXACT, CHECK } mode;
static int log_file, terminal;

/* Parameters: the address, and where a load's value goes. 4 blocks of 256 threads; one of them is number 549. */
#define KERNEL(name, body)                                                                                             \
	".visible .entry " name "(.param .u64 " name "_p, .param .u64 " name "_o)\n{\n"                                \
	"	.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<12>; .reg .b64 %rd<12>;\n"                                   \
	"	.shared .align 128 .b8 " name "_tile[128];\n	.shared .align 8 .b64 " name "_bar;\n"                 \
	"	ld.param.u64 %rd1, [" name "_p];\n	ld.param.u64 %rd9, [" name "_o];\n"                            \
	"	mov.u32 %r1, %tid.x;\n	mov.u32 %r2, %ctaid.x;\n	mov.b32 %r4, 7;\n	mov.b32 %r5, 7;\n"                         \
	"	mov.b32 %r6, 7;\n	mov.b32 %r7, 7;\n" body "	ret;\n}\n"
#define ONE "	shl.b32 %r3, %r2, 8;\n	add.s32 %r3, %r3, %r1;\n	setp.ne.u32 %p1, %r3, 549;\n	@%p1 bra OUT;\n"
#define TELL "	st.global.u32 [%rd9], %r4;\nOUT:\n"
/* The last lane of each warp is at the address, the others before it; the first warps' lanes go downwards. */
#define WARP                                                                                                           \
	"	and.b32 %r3, %r1, 31;\n	sub.u32 %r3, 31, %r3;\n	mul.wide.u32 %rd2, %r3, 4;\n	sub.u64 %rd1, %rd1, "           \
	"%rd2;\n"
/* The same by a way that has no shape. */
#define GATHER                                                                                                         \
	"	mul.lo.u32 %r3, %r1, 7;\n	and.b32 %r3, %r3, 31;\n	mul.wide.u32 %rd2, %r3, 4;\n"                              \
	"	sub.u64 %rd1, %rd1, %rd2;\n"
#define FIRST "	setp.ne.u32 %p1, %r1, 31;\n	@%p1 bra OUT;\n"

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n" KERNEL(
	"ld_one", ONE "	ld.global.u32 %r4, [%rd1];\n" TELL) KERNEL("st_one",
								   ONE "	st.global.u32 [%rd1], %r4;\nOUT:\n")
	KERNEL("ld_byte", ONE "	ld.global.u8 %h1, [%rd1];\n	cvt.u32.u16 %r4, %h1;\n" TELL) KERNEL(
		"st_byte",
		ONE "	st.global.u8 [%rd1], %r4;\nOUT:\n") KERNEL("ld_v4", ONE
								   "	ld.global.v4.u32 {%r4, %r5, %r6, %r7}, "
								   "[%rd1];\n" TELL) KERNEL("st_v4", ONE
											    "	st.global.v4.u32 "
											    "[%rd1], {%r4, %r5, %r6, "
											    "%r7};\nOUT:\n")
		KERNEL("ld_generic", ONE "	ld.u64 %rd3, [%rd1];\n	cvt.u32.u64 %r4, %rd3;\n" TELL) KERNEL(
			"st_volatile",
			ONE "	st.volatile.global.u32 [%rd1], %r4;\nOUT:\n") KERNEL("ld_all",
										     "	ld.global.u32 %r4, "
										     "[%rd1];\n" FIRST TELL)
			KERNEL("st_all", "	st.global.u32 [%rd1], %r4;\n") KERNEL(
				"ld_warp", WARP "	ld.global.u32 %r4, [%rd1];\n" FIRST TELL)
				KERNEL("st_warp", WARP "	st.global.u32 [%rd1], %r4;\n") KERNEL(
					"ld_gather", GATHER "	ld.global.u32 %r4, [%rd1];\n	setp.ne.u32 %p1, %r3, "
							    "0;\n	@%p1 bra OUT;\n" TELL)
					KERNEL("st_gather", GATHER "	st.global.u32 [%rd1], %r4;\n") KERNEL(
						"atom_add",
						ONE "	atom.global.add.u32 "
						    "%r4, [%rd1], 1;\n" TELL) KERNEL("atom_cas",
										     ONE "	atom.global.cas.b32 "
											 "%r4, [%rd1], 0, 1;\n" TELL)
						KERNEL("red_add", ONE "	red.global.add.u32 [%rd1], 1;\nOUT:\n") KERNEL(
							"cp_async", ONE "	mov.u32 %r8, cp_async_tile;\n	"
									"cp.async.ca.shared.global [%r8], [%rd1], 16;\n"
									"	cp.async.wait_all;\n	ld.shared.u32 "
									"%r4, [cp_async_tile];\n" TELL)
							KERNEL("bulk_in", ONE
							       "	mov.u32 %r8, bulk_in_tile;\n	mov.u32 %r9, "
							       "bulk_in_bar;\n"
							       "	mbarrier.init.shared.b64 [%r9], 1;\n	"
							       "mbarrier.arrive.expect_tx.shared.b64 %rd4, [%r9], 16;\n"
							       "	cp.async.bulk.shared::cluster.global.mbarrier::"
							       "complete_tx::bytes [%r8], [%rd1], 16, [%r9];\n"
							       "	ld.shared.u32 %r4, [bulk_in_tile];\n" TELL)
								KERNEL("bulk_out",
								       ONE "	mov.u32 %r8, bulk_out_tile;\n"
									   "	cp.async.bulk.global.shared::cta.bulk_"
									   "group [%rd1], [%r8], 16;\nOUT:\n")
	/* the offset is the address in shared memory, and from a thread's own memory on */
	KERNEL("ld_shared", ONE "	cvt.u32.u64 %r8, %rd1;\n	ld.shared.u32 %r4, [%r8];\n" TELL) KERNEL(
		"st_shared", ONE "	cvt.u32.u64 %r8, %rd1;\n	st.shared.u32 [%r8], %r4;\nOUT:\n")
		KERNEL("st_shared_all", "	cvt.u32.u64 %r8, %rd1;\n	st.shared.u32 [%r8], %r4;\n")
			KERNEL("atom_shared",
			       ONE "	cvt.u32.u64 %r8, %rd1;\n	atom.shared.add.u32 %r4, [%r8], 1;\n" TELL)
				KERNEL("ld_local", "	.local .align 16 .b8 own[64];\n" ONE
						   "	mov.u64 %rd2, own;\n	add.u64 %rd2, %rd2, %rd1;\n"
						   "	ld.local.u32 %r4, [%rd2];\n" TELL)
					KERNEL("st_local", "	.local .align 16 .b8 own[64];\n" ONE
							   "	mov.u64 %rd2, own;\n	add.u64 %rd2, %rd2, %rd1;\n"
							   "	st.local.u32 [%rd2], %r4;\nOUT:\n");

/* The loads come first, so that nothing has stored to their memory yet. */
static const char *const kinds[] = {"ld_one",    "ld_byte",   "ld_v4",       "ld_generic", "ld_all",
				    "ld_warp",   "ld_gather", "cp_async",    "bulk_in",    "st_one",
				    "st_byte",   "st_v4",     "st_volatile", "st_all",     "st_warp",
				    "st_gather", "atom_add",  "atom_cas",    "red_add",    "bulk_out"};

/* From the allocation's start, which is 1 MiB into a granule; near: within the granule. */
static const struct distance {
	int64_t offset;
	bool near;
} distances[] = {
	{BYTES, true},        {BYTES + 256, true}, {BYTES + 65536, true},      {GRANULE / 2 - 16, true},
	{-16, true},          {-65536, true},      {-GRANULE / 2 + 256, true}, {GRANULE, false},
	{2 * GRANULE, false}, {1ll << 40, false},  {-2 * GRANULE, false},
};

static const struct fixed {
	const char *kernel;
	uint64_t address;
} fixed[] = {
	{"ld_shared", 1024},    {"st_shared", 1024}, {"st_shared_all", 1024}, {"atom_shared", 1024},
	{"st_shared", 1048576}, {"ld_local", 65536}, {"st_local", 65536},
};

struct run {
	CUcontext context;
	CUmodule module;
	CUdeviceptr memory, out;
	uint32_t told;
	char log[16384];
};

static void begin(struct run *r)
{
	assert_int_equal(cuda->cuCtxCreate_v2(&r->context, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&r->memory, BYTES), CUDA_SUCCESS);
	assert_int_equal(r->memory % GRANULE, GRANULE / 2);
	assert_int_equal(cuda->cuModuleLoadData(&r->module, ptx), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&r->out, 4), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD8_v2(r->memory, FILL, BYTES), CUDA_SUCCESS);
}

static void end(struct run *r)
{
	assert_int_equal(cuda->cuCtxDestroy_v2(r->context), CUDA_SUCCESS);
}

static void read_log(struct run *r)
{
	ssize_t n = pread(log_file, r->log, sizeof(r->log) - 1, 0);

	r->log[n > 0 ? n : 0] = 0;
	assert_int_equal(ftruncate(log_file, 0), 0);
	assert_int_equal(lseek(log_file, 0, SEEK_SET), 0);
}

/* Launches and waits; what is logged meanwhile goes to r->log, what a load gave to r->told. */
static CUresult run(struct run *r, const char *kernel, uint64_t address)
{
	void *params[] = {&address, &r->out};
	CUresult result;
	CUfunction f;

	assert_int_equal(cuda->cuMemsetD32_v2(r->out, UNSET, 1), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleGetFunction(&f, r->module, kernel), CUDA_SUCCESS);
	dup2(log_file, STDERR_FILENO);
	result = cuda->cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
	if (result == CUDA_SUCCESS)
		result = cuda->cuCtxSynchronize();
	dup2(terminal, STDERR_FILENO);
	read_log(r);
	if (result == CUDA_SUCCESS)
		assert_int_equal(cuda->cuMemcpyDtoH_v2(&r->told, r->out, 4), CUDA_SUCCESS);
	return result;
}

static unsigned lines(const char *text, const char *with)
{
	unsigned n = 0;

	for (const char *at = strstr(text, with); at; at = strstr(at + 1, with))
		n++;
	return n;
}

static bool judge(const char *kernel, int64_t offset, bool passes, CUresult result, const struct run *r)
{
	const char *wanted = mode == CHECK ? "check: " : passes ? "warning: " : "illegal address";
	CUresult expected = mode == CHECK || passes ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
	bool loads = !strncmp(kernel, "ld", 2) || !strcmp(kernel, "cp_async") || !strcmp(kernel, "bulk_in");
	bool ok = result == expected && strstr(r->log, wanted) && strstr(r->log, kernel) &&
		  (mode == CHECK || lines(r->log, "vcuda-cpu: ") == 1); /* a sanitizer has lines of its own */

	/* unused memory is 0, and a checked access also gives 0 */
	if (ok && loads && result == CUDA_SUCCESS && r->told)
		ok = false;
	if (!ok)
		print_message("%s at %+lld: %d, not %d, told %x; the log has %s", kernel, (long long)offset, result,
			      expected, r->told, *r->log ? r->log : "nothing\n");
	return ok;
}

/* Each kind at each distance, each in a process's state of its own as far as memory goes. */
static void table(void **state)
{
	unsigned good = 0, all = 0;
	struct run r;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(*kinds); k++)
		for (size_t d = 0; d < sizeof(distances) / sizeof(*distances); d++, all++) {
			begin(&r);
			good += judge(kinds[k], distances[d].offset, mode == NATIVE && distances[d].near,
				      run(&r, kinds[k], r.memory + (uint64_t)distances[d].offset), &r);
			end(&r);
		}
	for (size_t n = 0; n < sizeof(fixed) / sizeof(*fixed); n++, all++) {
		begin(&r);
		good += judge(fixed[n].kernel, (int64_t)fixed[n].address, false,
			      run(&r, fixed[n].kernel, fixed[n].address), &r);
		end(&r);
	}
	print_message("%u of %u accesses as wanted\n", good, all);
	assert_int_equal(good, all);
}

/* A page without an allocation counts once a store has been there, and once only. */
static void pages_count(void **state)
{
	size_t before, after;
	struct run r;

	begin(&r);
	for (int n = 0; n < 3; n++) {
		assert_int_equal(cuda->cuMemGetInfo_v2(&before, NULL), CUDA_SUCCESS);
		run(&r, n == 0 ? "ld_one" : "st_one", r.memory + 3 * 65536);
		assert_int_equal(cuda->cuMemGetInfo_v2(&after, NULL), CUDA_SUCCESS);
		assert_int_equal(before - after, n == 1 ? 4096 : 0);
	}
	end(&r);
}

/* An access that has passed does so no more when its granule has no allocation any more. */
static void follows_the_table(void **state)
{
	const size_t bytes = 7 * GRANULE / 2;
	CUdeviceptr other;
	struct run r;

	begin(&r);
	assert_int_equal(cuda->cuMemAlloc_v2(&other, bytes), CUDA_SUCCESS);
	for (int n = 0; n < 6; n++)
		assert_int_equal(run(&r, n % 2 ? "ld_all" : "st_all", other + bytes), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemFree_v2(other), CUDA_SUCCESS);
	assert_int_equal(run(&r, "ld_all", other + bytes), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest native[] = {cmocka_unit_test(table), cmocka_unit_test(pages_count),
					    cmocka_unit_test(follows_the_table)};
	const struct CMUnitTest others[] = {cmocka_unit_test(table)};

	mode = argc < 2 ? NATIVE : !strcmp(argv[1], "check") ? CHECK : EXACT;
	if (argc > 1)
		setenv("VCUDA_CPU_BOUNDS", argv[1], 1);
	log_file = memfd_create("log", 0);
	terminal = dup(STDERR_FILENO);
	if (log_file < 0 || terminal < 0)
		return 1;
	cuda = vcuda_backend_cpu();
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 1;
	return mode == NATIVE ? cmocka_run_group_tests(native, NULL, NULL) : cmocka_run_group_tests(others, NULL, NULL);
}

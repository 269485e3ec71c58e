/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of kernels on the software GPU: the error at the next synchronisation, the line in the log, a context that
 * stays failed, and a working next context. That is with VCUDA_CPU_BOUNDS=exact. With the argument `pages`: the default
 * bounds. With `check`: accesses that are reported and dropped.
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
#include <time.h>
#include <unistd.h>

#include "softgpu/backend-cpu.h"
#include "protocol/backend.h"

static const struct vcuda_backend_ops *cuda;
static int log_file, terminal, output_file, output;

#define KERNEL(name, body)                                                                                             \
	".visible .entry " name "(.param .u64 " name "_p)\n{\n"                                                        \
	"	.reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;\n"                                                \
	"	ld.param.u64 %rd1, [" name "_p];\n	mov.u32 %r1, %tid.x;\n	mov.u32 %r2, %ctaid.x;\n" body "	ret;\n}\n"

/* Where one thread only does it, that is thread 37 of block 2. */
#define ONE "	shl.b32 %r3, %r2, 8;\n	add.s32 %r3, %r3, %r1;\n	setp.ne.u32 %p1, %r3, 549;\n	@%p1 bra OUT;\n"

/* Both results of a type, in 16 bytes. */
#define DIVIDE(sign, bits, r, at)                                                                                      \
	"	div." sign bits " %" r "3, %" r "2, %" r "1;\n	st.global.b" bits " [%rd1+" at "], %" r "3;\n"         \
	"	rem." sign bits " %" r "3, %" r "2, %" r "1;\n	st.global.b" bits " [%rd1+8+" at "], %" r "3;\n"

static const char ptx[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
	".const .align 4 .u32 fixed = 5;\n"
	".global .align 1 .b8 claim[6] = {110, 32, 62, 32, 48, 0};\n"        /* n > 0 */
	".global .align 1 .b8 source[5] = {97, 46, 99, 117, 0};\n"           /* a.cu */
	".global .align 1 .b8 whose[7] = {107, 40, 105, 110, 116, 41, 0};\n" /* k(int) */
	".extern .func __assertfail(.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);\n"
	/* never ends, and each call has a variable of its own */
	".func (.param .b32 r) deeper(.param .b32 n)\n{\n	.local .align 4 .b8 own[64];\n	.reg .b32 %r<4>;\n"
	"	ld.param.u32 %r1, [n];\n	st.local.u32 [own], %r1;\n	add.u32 %r2, %r1, 1;\n"
	"	{\n	.param .b32 v;\n	.param .b32 w;\n	st.param.b32 [v], %r2;\n	call (w), deeper, (v);\n"
	"	ld.param.b32 %r2, [w];\n	}\n	ld.local.u32 %r3, [own];\n	add.u32 %r2, %r2, %r3;\n"
	"	st.param.b32 [r], %r2;\n	ret;\n}\n"
	KERNEL("store", "	st.global.u32 [%rd1], %r1;\n")
	KERNEL("past_end", ONE "	st.global.u32 [%rd1+4096], %r1;\nOUT:\n")
	KERNEL("far_past_end", ONE "	st.global.u32 [%rd1+4194304], %r1;\nOUT:\n")
	KERNEL("below", ONE "	ld.global.u32 %r4, [%rd1+-8];\n	st.global.u32 [%rd1], %r4;\nOUT:\n")
	KERNEL("misaligned", ONE "	ld.global.u64 %rd2, [%rd1+4];\n	st.global.u64 [%rd1], %rd2;\nOUT:\n")
	KERNEL("null", ONE "	mov.u64 %rd2, 0;\n	ld.global.u32 %r4, [%rd2];\n	st.global.u32 [%rd1], %r4;\nOUT:\n")
	KERNEL("local", "	.local .align 4 .b8 array[64];\n" ONE
	       "	mov.u32 %r4, array;\n	add.s32 %r4, %r4, %r3;\n	and.b32 %r4, %r4, -4;\n"
	       "	st.local.u32 [%r4+65536], %r1;\nOUT:\n")
	KERNEL("shared", "	.shared .align 4 .b8 tile[64];\n" ONE
	       "	mov.u32 %r4, tile;\n	st.shared.u32 [%r4+1048576], %r1;\nOUT:\n")
	KERNEL("trapped", ONE "	trap;\nOUT:\n")
	KERNEL("endless", "AGAIN:\n	ld.volatile.global.u32 %r4, [%rd1];\n	setp.ne.u32 %p2, %r4, 12345;\n"
	       "	@%p2 bra AGAIN;\n")
	KERNEL("endless_alone", "	mov.u32 %r4, 1;\nAGAIN:\n	add.u32 %r4, %r4, 2;\n	setp.ne.u32 %p2, %r4, 0;\n"
	       "	@%p2 bra AGAIN;\n	st.global.u32 [%rd1], %r4;\n")
	KERNEL("half_barrier", "	and.b32 %r4, %r1, 32;\n	setp.eq.u32 %p1, %r4, 0;\n	@%p1 bra ODD;\n"
	       "	barrier.sync 3, 256;\n	bra.uni OUT;\nODD:\n	barrier.sync 4, 256;\nOUT:\n")
	KERNEL("endless_barrier", "AGAIN:\n	bar.sync 0;\n	bra.uni AGAIN;\n")
	KERNEL("endless_sleep", "AGAIN:\n	nanosleep.u32 1000;\n	ld.volatile.global.u32 %r4, [%rd1];\n"
	       "	setp.ne.u32 %p2, %r4, 12345;\n	@%p2 bra AGAIN;\n")
	/* taken by the first thread that comes, and never given back */
	KERNEL("endless_lock", "AGAIN:\n	atom.global.cas.b32 %r4, [%rd1], 0, 1;\n	setp.ne.u32 %p2, %r4, 0;\n"
	       "	@%p2 bra AGAIN;\n")
	KERNEL("null_store", ONE "	mov.u64 %rd2, 0;\n	st.u32 [%rd2], %r1;\nOUT:\n")
	KERNEL("misaligned_shared", "	.shared .align 8 .b8 tile[64];\n" ONE
	       "	mov.u32 %r4, tile;\n	st.shared.u32 [%r4+2], %r1;\nOUT:\n")
	KERNEL("misaligned_atom", ONE "	atom.global.add.u32 %r4, [%rd1+2], 1;\nOUT:\n")
	KERNEL("wild_atom", ONE "	atom.global.add.u32 %r4, [%rd1+1048576], 1;\nOUT:\n")
	KERNEL("change_constant", ONE "	mov.u64 %rd2, fixed;\n	cvta.const.u64 %rd2, %rd2;\n	st.u32 [%rd2], %r1;\n"
	       "	atom.global.add.u32 %r4, [%rd2], 1000;\nOUT:\n")
	KERNEL("read_constant", ONE "	ld.const.u32 %r4, [fixed];\n	st.global.u32 [%rd1], %r4;\nOUT:\n")
	KERNEL("asserted", ONE "	mov.u64 %rd2, claim;\n	cvta.global.u64 %rd2, %rd2;\n	mov.u32 %r4, 77;\n"
	       "	mov.u64 %rd4, source;\n	cvta.global.u64 %rd4, %rd4;\n	mov.u64 %rd5, whose;\n"
	       "	cvta.global.u64 %rd5, %rd5;\n	mov.u64 %rd3, 1;\n	{\n	.param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;\n"
	       "	st.param.b64 [a], %rd2;\n	st.param.b64 [b], %rd4;\n	st.param.b32 [c], %r4;\n"
	       "	st.param.b64 [d], %rd5;\n	st.param.b64 [e], %rd3;\n	call.uni __assertfail, (a, b, c, d, e);\n	}\n"
	       "OUT:\n")
	KERNEL("deep", ONE "	{\n	.param .b32 v;\n	.param .b32 w;\n	st.param.b32 [v], %r1;\n	call (w), deeper, (v);\n"
	       "	ld.param.b32 %r4, [w];\n	}\n	st.global.u32 [%rd1], %r4;\nOUT:\n")
	KERNEL("no_map", ONE "	cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {%r1, %r1}];\nOUT:\n")
	KERNEL("amid_16_bytes", ONE "	cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd1, {-3, 0}];\nOUT:\n")
	KERNEL("before_tensor", "	.shared .align 128 .b8 box[64];\n" ONE
	       "	cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {4, -1}], [box];\nOUT:\n")
	KERNEL("by_corner", "	.shared .align 128 .b8 box[64];\n" ONE
	       "	cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [%rd1+128, {4, 1, 0}], "
	       "[box];\nOUT:\n")
	KERNEL("wild_call", ONE "	mov.u64 %rd2, 4096;\n"
	       "PROTO: .callprototype _ ();\n	call %rd2, (), PROTO;\nOUT:\n")
	KERNEL("divide_all", "	.reg .b16 %h<4>; .reg .b32 %w<4>; .reg .b64 %l<4>;\n	setp.ne.u32 %p1, %r1, 9;\n"
	       "	@%p1 bra OUT;\n	ld.global.u64 %l1, [%rd1+1024];\n	sub.u64 %l2, %l1, 9;\n"
	       "	cvt.u32.u64 %w1, %l1;\n	cvt.u32.u64 %w2, %l2;\n	cvt.u16.u64 %h1, %l1;\n	cvt.u16.u64 %h2, %l2;\n"
	       DIVIDE("u", "16", "h", "0") DIVIDE("s", "16", "h", "16") DIVIDE("u", "32", "w", "32")
	       DIVIDE("s", "32", "w", "48") DIVIDE("u", "64", "l", "64") DIVIDE("s", "64", "l", "80") "OUT:\n")
	KERNEL("divide", "	mov.u32 %r4, 0;\n	div.u32 %r5, %r1, %r4;\n	rem.u32 %r6, %r1, %r4;\n"
	       "	mov.u32 %r7, -2147483648;\n	sub.s32 %r4, %r4, 1;\n	div.s32 %r7, %r7, %r4;\n"
	       "	setp.ne.u32 %p1, %r1, 9;\n	@%p1 bra OUT;\n"
	       "	st.global.u32 [%rd1], %r5;\n	st.global.u32 [%rd1+4], %r6;\n	st.global.u32 [%rd1+8], %r7;\nOUT:\n");

static const struct fault {
	const char *kernel;
	CUresult error;
	const char *log[3];
	const char *line; /* text at the line of the PTX that the log names; NULL: one of several lines */
} faults[] = {
	{"past_end",
	 CUDA_ERROR_ILLEGAL_ADDRESS,
	 {"illegal address: a store of 4 bytes", "block (2,0,0), thread (37,0,0)"},
	 "st.global"},
	{"below",
	 CUDA_ERROR_ILLEGAL_ADDRESS,
	 {"illegal address: a load of 4 bytes", "block (2,0,0), thread (37,0,0)"},
	 "ld.global"},
	{"misaligned",
	 CUDA_ERROR_MISALIGNED_ADDRESS,
	 {"misaligned address: a load of 8 bytes", "thread (37,0,0)"},
	 "ld.global"},
	{"null", CUDA_ERROR_ILLEGAL_ADDRESS, {"a load of 4 bytes at 0x0 (global)", "thread (37,0,0)"}, "ld.global"},
	{"local", CUDA_ERROR_ILLEGAL_ADDRESS, {"illegal address", "(local)", "thread (37,0,0)"}, "st.local"},
	{"shared", CUDA_ERROR_ILLEGAL_ADDRESS, {"illegal address", "(shared)", "thread (37,0,0)"}, "st.shared"},
	{"no_map",
	 CUDA_ERROR_ILLEGAL_INSTRUCTION,
	 {"no tensor map of 2 dimensions at 0x", "block (2,0,0), thread (37,0,0)"},
	 "cp.async.bulk.prefetch.tensor"},
	{"trapped", CUDA_ERROR_LAUNCH_FAILED, {"trap", "block (2,0,0), thread (37,0,0)"}, "trap;"},
	{"half_barrier", CUDA_ERROR_LAUNCH_FAILED, {"128 wait at barrier 4)"}, "barrier.sync 4"},
	{"null_store",
	 CUDA_ERROR_ILLEGAL_ADDRESS,
	 {"a store of 4 bytes at 0x0", "block (2,0,0), thread (37,0,0)"},
	 "st.u32"},
	{"misaligned_shared",
	 CUDA_ERROR_MISALIGNED_ADDRESS,
	 {"misaligned address", "(shared)", "thread (37,0,0)"},
	 "st.shared"},
	{"misaligned_atom", CUDA_ERROR_MISALIGNED_ADDRESS, {"misaligned address", "thread (37,0,0)"}, "atom."},
	{"wild_atom", CUDA_ERROR_ILLEGAL_ADDRESS, {"illegal address", "block (2,0,0), thread (37,0,0)"}, "atom."},
	{"asserted", CUDA_ERROR_ASSERT, {"assertion failed", "block (2,0,0), thread (37,0,0)"}, "call.uni"},
	{"deep", CUDA_ERROR_ILLEGAL_ADDRESS, {"illegal address", "(local)", "block (2,0,0), thread (37,0,0)"}, NULL},
	{"wild_call",
	 CUDA_ERROR_INVALID_PC,
	 {"a call through a pointer that is not a function's", "thread (37,0,0)"},
	 ".entry"},
	{"endless_barrier", CUDA_ERROR_LAUNCH_TIMEOUT, {"ran for longer than 0.5 s"}, NULL},
	{"endless_sleep", CUDA_ERROR_LAUNCH_TIMEOUT, {"ran for longer than 0.5 s"}, NULL},
	{"endless_lock", CUDA_ERROR_LAUNCH_TIMEOUT, {"ran for longer than 0.5 s"}, NULL},
	{"endless", CUDA_ERROR_LAUNCH_TIMEOUT, {"ran for longer than 0.5 s"}, NULL},
	{"endless_alone", CUDA_ERROR_LAUNCH_TIMEOUT, {"ran for longer than 0.5 s"}, NULL},
};

struct run {
	CUcontext context;
	CUmodule module;
	CUdeviceptr memory;
};

static void begin(struct run *r)
{
	assert_int_equal(cuda->cuCtxCreate_v2(&r->context, 0, 0), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleLoadData(&r->module, ptx), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemAlloc_v2(&r->memory, 4096), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemsetD8_v2(r->memory, 0, 4096), CUDA_SUCCESS);
}

/* Launches and waits; what is logged meanwhile goes to log_file. */
static CUresult run(struct run *r, const char *kernel)
{
	void *params[] = {&r->memory};
	CUresult result;
	CUfunction f;

	assert_int_equal(cuda->cuModuleGetFunction(&f, r->module, kernel), CUDA_SUCCESS);
	dup2(log_file, STDERR_FILENO);
	result = cuda->cuLaunchKernel(f, 4, 1, 1, 256, 1, 1, 0, NULL, params, NULL);
	if (result == CUDA_SUCCESS)
		result = cuda->cuCtxSynchronize();
	dup2(terminal, STDERR_FILENO);
	return result;
}

/* The text of the log since the last call. */
static const char *log_text(void)
{
	static char text[4096];
	ssize_t n = pread(log_file, text, sizeof(text) - 1, 0);

	text[n > 0 ? n : 0] = 0;
	assert_int_equal(ftruncate(log_file, 0), 0);
	assert_int_equal(lseek(log_file, 0, SEEK_SET), 0);
	return text;
}

/* The line of the kernel's first instruction that has this text. */
static int line_of(const char *kernel, const char *instruction)
{
	char entry[64];
	const char *at;
	int line = 1;

	snprintf(entry, sizeof(entry), ".entry %s(", kernel);
	at = strstr(strstr(ptx, entry), instruction);
	for (const char *c = ptx; c < at; c++)
		line += *c == '\n';
	return line;
}

static void check_log(const struct fault *f)
{
	const char *text = log_text();
	char line[64];

	if (!strstr(text, f->kernel))
		fail_msg("no '%s' in the log: %s", f->kernel, text);
	for (int n = 0; n < 3 && f->log[n]; n++)
		if (!strstr(text, f->log[n]))
			fail_msg("no '%s' in the log: %s", f->log[n], text);
	snprintf(line, sizeof(line), ", line %d of the PTX\n", f->line ? line_of(f->kernel, f->line) : 0);
	if (f->line && !strstr(text, line))
		fail_msg("no '%s' in the log: %s", line, text);
}

/* One context after the other in this one process. */
static void each_fault(void **state)
{
	CUdeviceptr more;
	struct run r;

	for (size_t n = 0; n < sizeof(faults) / sizeof(*faults); n++) {
		const struct fault *f = &faults[n];
		CUresult result;

		begin(&r);
		result = run(&r, f->kernel);
		if (result != f->error)
			fail_msg("%s ended with %d, not %d", f->kernel, (int)result, (int)f->error);
		assert_int_equal(cuda->cuCtxSynchronize(), f->error);
		assert_int_equal(cuda->cuMemAlloc_v2(&more, 4), f->error);
		check_log(f);
		assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
		begin(&r);
		assert_int_equal(run(&r, "store"), CUDA_SUCCESS);
		assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
		assert_string_equal(log_text(), "");
	}
}

/* Memory that is a tensor, with a map at the beginning, and one of images behind it. */
static void begin_tensor(struct run *r)
{
	const cuuint64_t dim[] = {16, 4, 2}, strides[] = {64, 256};
	const cuuint32_t box[] = {4, 2}, steps[] = {1, 1, 1};
	const int lower = -1, upper = -1;
	CUtensorMap map;

	begin(r);
	assert_int_equal(cuda->cuTensorMapEncodeTiled(&map, 2, 2, (void *)(uintptr_t)r->memory, (void *)dim,
						      (void *)strides, (void *)box, (void *)steps, 0, 0, 0, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(r->memory, &map, sizeof(map)), CUDA_SUCCESS);
	assert_int_equal(cuda->cuTensorMapEncodeIm2col(&map, 2, 3, (void *)(uintptr_t)r->memory, (void *)dim,
						       (void *)strides, (void *)&lower, (void *)&upper, 4, 2,
						       (void *)steps, 0, 0, 0, 0),
			 CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyHtoD_v2(r->memory + sizeof(map), &map, sizeof(map)), CUDA_SUCCESS);
}

/* Faults of a box whose map is valid. */
static void tensor_places(void **state)
{
	static const struct fault wrong[] = {
		{"amid_16_bytes",
		 CUDA_ERROR_ILLEGAL_INSTRUCTION,
		 {"a box of a tensor that begins at element -3 of dimension 0, which is no multiple of 16 bytes",
		  "block (2,0,0), thread (37,0,0)"},
		 "cp.async.bulk.prefetch.tensor"},
		{"before_tensor",
		 CUDA_ERROR_ILLEGAL_INSTRUCTION,
		 {"a store to a negative place of a tensor, element -1 of dimension 1", "block (2,0,0), thread (37,0,0)"},
		 "cp.async.bulk.tensor"},
		{"by_corner",
		 CUDA_ERROR_ILLEGAL_INSTRUCTION,
		 {"a store by a map of images with a corner outside of them (-1 in dimension 1)",
		  "block (2,0,0), thread (37,0,0)"},
		 "cp.async.bulk.tensor"},
	};
	struct run r;

	for (int n = 0; n < 3; n++) {
		begin_tensor(&r);
		assert_int_equal(run(&r, wrong[n].kernel), CUDA_ERROR_ILLEGAL_INSTRUCTION);
		check_log(&wrong[n]);
		assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
	}
}

static void use_after_free(void **state)
{
	struct run r;

	begin(&r);
	assert_int_equal(cuda->cuMemFree_v2(r.memory), CUDA_SUCCESS);
	assert_int_equal(run(&r, "store"), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_non_null(strstr(log_text(), "kernel store: illegal address: a store of 4 bytes"));
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

/* Memory of the process that no call has registered: neither read nor written. */
static void host_memory(void **state)
{
	uint32_t *mine = calloc(1024, sizeof(*mine));
	CUdeviceptr address = (uintptr_t)mine;
	struct run r;

	assert_non_null(mine);
	begin(&r);
	r.memory = address;
	assert_int_equal(run(&r, "store"), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_non_null(strstr(log_text(), "kernel store: illegal address: a store of 4 bytes"));
	for (int n = 0; n < 1024; n++)
		assert_int_equal(mine[n], 0);
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
	begin(&r);
	r.memory = address;
	assert_int_equal(run(&r, "below"), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_non_null(strstr(log_text(), "kernel below: illegal address: a load of 4 bytes"));
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
	free(mine);
}

/* The output of assert(), with all its arguments. */
static void assertion(void **state)
{
	char text[256];
	ssize_t bytes;
	struct run r;

	begin(&r);
	fflush(stdout);
	dup2(output_file, STDOUT_FILENO);
	assert_int_equal(run(&r, "asserted"), CUDA_ERROR_ASSERT);
	fflush(stdout);
	dup2(output, STDOUT_FILENO);
	log_text();
	bytes = pread(output_file, text, sizeof(text) - 1, 0);
	assert_true(bytes > 0);
	text[bytes] = 0;
	assert_string_equal(text, "a.cu:77: k(int): block: [2,0,0], thread: [37,0,0] Assertion `n > 0` failed.\n");
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

/* Programs that ask find that there is a limit. */
static void limit_is_told(void **state)
{
	int has = 0;

	assert_int_equal(cuda->cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT, 0), CUDA_SUCCESS);
	assert_int_equal(has, 1);
}

/* Beside an allocation, but in its 2 MiB; what is further away, or at 0, is a fault as ever. */
static void whole_pages(void **state)
{
	static const char *const fine[] = {"past_end", "below"};
	struct run r;

	for (int n = 0; n < 2; n++) {
		begin(&r);
		assert_int_equal(run(&r, fine[n]), CUDA_SUCCESS);
		assert_non_null(strstr(log_text(), "warning: kernel"));
		assert_int_equal(run(&r, fine[n]), CUDA_SUCCESS);
		assert_string_equal(log_text(), "");
		assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
	}
	begin(&r);
	assert_int_equal(run(&r, "misaligned"), CUDA_ERROR_MISALIGNED_ADDRESS);
	log_text();
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
	begin(&r);
	assert_int_equal(run(&r, "null"), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_non_null(strstr(log_text(), "a load of 4 bytes at 0x0"));
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
	begin(&r);
	assert_int_equal(run(&r, "far_past_end"), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_non_null(strstr(log_text(), "a store of 4 bytes"));
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

static bool is_access(const struct fault *f)
{
	return f->error == CUDA_ERROR_ILLEGAL_ADDRESS || f->error == CUDA_ERROR_MISALIGNED_ADDRESS;
}

static void freed_checked(void **state)
{
	struct run r;

	begin(&r);
	assert_int_equal(cuda->cuMemFree_v2(r.memory), CUDA_SUCCESS);
	assert_int_equal(run(&r, "store"), CUDA_SUCCESS);
	assert_non_null(strstr(log_text(), "check: kernel store: illegal address: a store of 4 bytes"));
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

/* Accesses are reported as without the check, and the kernel goes on. Other faults end the kernel as always. */
static void each_checked(void **state)
{
	struct run r;

	for (size_t n = 0; n < sizeof(faults) / sizeof(*faults); n++) {
		const struct fault *f = &faults[n];
		CUresult result;
		uint32_t word;

		begin(&r);
		result = run(&r, f->kernel);
		/* a kernel that has lost its stack faults at any address */
		if (!strcmp(f->kernel, "deep")) {
			log_text();
		} else {
			if (result != (is_access(f) ? CUDA_SUCCESS : f->error))
				fail_msg("%s ended with %d", f->kernel, (int)result);
			check_log(f);
		}
		if (result == CUDA_SUCCESS) {
			assert_int_equal(cuda->cuMemcpyDtoH_v2(&word, r.memory, 4), CUDA_SUCCESS);
			assert_int_equal(word, 0);
		}
		assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
	}
}

/* No fault on a GPU: all ones, the dividend, and what overflows to itself. */
static void division(void **state)
{
	uint32_t out[3];
	struct run r;

	begin(&r);
	assert_int_equal(run(&r, "divide"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(out, r.memory, sizeof(out)), CUDA_SUCCESS);
	assert_int_equal(out[0], UINT32_MAX);
	assert_int_equal(out[1], 9);
	assert_int_equal(out[2], 0x80000000);
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

/* The same for each type, and with what the compiler cannot know. */
static void division_of_all_types(void **state)
{
	uint64_t out[12], minus_nine = UINT64_MAX - 8;
	struct run r;

	begin(&r);
	assert_int_equal(run(&r, "divide_all"), CUDA_SUCCESS);
	assert_int_equal(cuda->cuMemcpyDtoH_v2(out, r.memory, sizeof(out)), CUDA_SUCCESS);
	for (int n = 0; n < 12; n++) {
		uint64_t mask = UINT64_MAX >> (n < 4 ? 48 : n < 8 ? 32 : 0);

		assert_int_equal(out[n], n % 2 ? minus_nine & mask : mask);
	}
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

/* A limit is a kernel's own: many that end in time may take longer together. */
static void limit_is_for_one(void **state)
{
	struct timespec begun, now;
	struct run r;

	begin(&r);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	do {
		assert_int_equal(run(&r, "store"), CUDA_SUCCESS);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec - begun.tv_sec < 2);
	assert_int_equal(cuda->cuCtxDestroy_v2(r.context), CUDA_SUCCESS);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest exact[] = {
		cmocka_unit_test(each_fault),    cmocka_unit_test(tensor_places),
		cmocka_unit_test(use_after_free), cmocka_unit_test(host_memory),
		cmocka_unit_test(assertion),     cmocka_unit_test(division),
		cmocka_unit_test(division_of_all_types),
		cmocka_unit_test(limit_is_told), cmocka_unit_test(limit_is_for_one),
	};
	const struct CMUnitTest whole[] = {cmocka_unit_test(whole_pages)};
	const struct CMUnitTest checked[] = {
		cmocka_unit_test(freed_checked), cmocka_unit_test(each_checked), cmocka_unit_test(tensor_places),
		cmocka_unit_test(assertion),     cmocka_unit_test(division),     cmocka_unit_test(division_of_all_types),
	};
	bool pages = argc > 1 && !strcmp(argv[1], "pages"), check = argc > 1 && !strcmp(argv[1], "check");

	setenv("VCUDA_CPU_TIME_LIMIT", "0.5", 1);
	unsetenv("VCUDA_CPU_BOUNDS");
	if (!pages)
		setenv("VCUDA_CPU_BOUNDS", check ? "check" : "exact", 1);
	log_file = memfd_create("log", 0);
	output_file = memfd_create("output", 0);
	terminal = dup(STDERR_FILENO);
	output = dup(STDOUT_FILENO);
	if (log_file < 0 || output_file < 0 || terminal < 0 || output < 0)
		return 1;
	cuda = vcuda_backend_cpu();
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 1;
	if (check)
		return cmocka_run_group_tests(checked, NULL, NULL);
	return pages ? cmocka_run_group_tests(whole, NULL, NULL) : cmocka_run_group_tests(exact, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefetches of a kernel's memory, and the widths of its vectors. Only speed shows them, so the tests read the code. A
 * prefetched address may also be invalid.
 */
#include "softgpu/test/harness.h"

#include <dirent.h>
#include <sys/mman.h>
#include <unistd.h>

#define KERNEL(body)                                                                                                   \
	PTX_HEAD ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %p<8>;\n.reg .b32 %r<16>;\n"        \
		 ".reg .f32 %f<8>;\n.reg .b64 %l<16>;\nld.param.u64 %l1, [p0];\nld.param.u64 %l2, [p1];\n"             \
		 "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %tid.y;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\n" body    \
		 "ret;\n}\n"
/* The data of a block side by side: its row number %r5 of 1024 words, at `at` of it. */
#define ROWS(at)                                                                                                       \
	at "shl.b32 %r5, %r2, 10;\nadd.s32 %r6, %r6, %r5;\nmul.wide.s32 %l3, %r6, 4;\nadd.s64 %l4, %l1, %l3;\n"        \
	   "add.s64 %l5, %l2, %l3;\nld.global.f32 %f1, [%l5];\nst.global.f32 [%l4], %f1;\n"
#define ALONG "mad.lo.s32 %r6, %r3, %r4, %r1;\n"
#define SHIFTED "shl.b32 %r7, %r3, 5;\nadd.s32 %r6, %r1, %r7;\n"
#define DOWN "mul.lo.s32 %r7, %r3, 8192;\nadd.s32 %r6, %r1, %r7;\n"
#define NOWHERE "mov.u32 %r6, %r1;\n"
#define LOOP(step)                                                                                                     \
	"mov.u32 %r5, 0;\nmov.u64 %l3, %l2;\n$loop:\nld.global.u32 %r6, [%l3];\nadd.u32 %r7, %r7, %r6;\n"              \
	"add.s64 %l3, %l3, " step ";\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 8;\n@%p1 bra $loop;\n"               \
	"st.global.u32 [%l1], %r7;\n"
#define INDEXED(step)                                                                                                  \
	"mov.u32 %r5, 0;\n$loop:\nmul.wide.s32 %l4, %r5, 4;\nadd.s64 %l3, %l2, %l4;\nld.global.u32 %r6, [%l3];\n"      \
	"add.u32 %r7, %r7, %r6;\nadd.s32 %r5, %r5, " step ";\nsetp.lt.u32 %p1, %r5, 32;\n@%p1 bra $loop;\n"            \
	"st.global.u32 [%l1], %r7;\n"

static char folder[] = "/tmp/test-ptx-ahead-XXXXXX";

/* The number of occurrences of `what` in the code of a block of x * y threads. */
static unsigned int count(const char *text, uint32_t x, uint32_t y, const char *what)
{
	static char code[1 << 20];
	struct ptx_module *m = load(text);
	const struct ptx_binary *binary;
	struct ptx_error error;
	unsigned int found = 0;
	char path[64];
	FILE *f;

	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), (uint32_t[3]){x, y, 1}, &binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	ptx_module_destroy(m);
	snprintf(path, sizeof(path), "%s/k-full.ll", folder);
	f = fopen(path, "r");
	assert_non_null(f);
	code[fread(code, 1, sizeof(code) - 1, f)] = 0;
	fclose(f);
	for (const char *at = code; (at = strstr(at, what)); at++)
		found++;
	return found;
}

#define FETCHES "call void @llvm.prefetch"
#define NARROW "\"prefer-vector-width\"=\"256\""

/* Two lines of 64 bytes each of what is read and what is written. */
static void rows(void **state)
{
	(void)state;
	assert_int_equal(count(KERNEL(ROWS(ALONG)), 32, 8, FETCHES), 4);
	assert_int_equal(count(KERNEL(ROWS(SHIFTED)), 32, 8, FETCHES), 4);
	/* a single row: the processor's own prefetcher follows it */
	assert_int_equal(count(KERNEL(ROWS(ALONG)), 256, 1, FETCHES), 0);
	/* the next block goes on elsewhere, or with the same */
	assert_int_equal(count(KERNEL(ROWS(SHIFTED)), 64, 4, FETCHES), 0);
	assert_int_equal(count(KERNEL(ROWS(DOWN)), 32, 8, FETCHES), 0);
	assert_int_equal(count(KERNEL(ROWS(NOWHERE)), 32, 8, FETCHES), 0);
}

static void loops_of_one_lane(void **state)
{
	(void)state;
	assert_int_equal(count(KERNEL(LOOP("16")), 4, 1, FETCHES), 1);
	assert_int_equal(count(KERNEL(LOOP("-32")), 4, 1, FETCHES), 1);
	assert_int_equal(count(KERNEL(INDEXED("4")), 4, 1, FETCHES), 1);
	/* in one line for long, and farther than is known to be worth it */
	assert_int_equal(count(KERNEL(LOOP("4")), 4, 1, FETCHES), 0);
	assert_int_equal(count(KERNEL(INDEXED("1")), 4, 1, FETCHES), 0);
	assert_int_equal(count(KERNEL(LOOP("512")), 4, 1, FETCHES), 0);
	/* addresses with different steps */
	assert_int_equal(count(KERNEL(LOOP("16") "bra.uni $end;\n$end:\n"), 4, 1, FETCHES), 1);
	assert_int_equal(count(KERNEL(LOOP("%l2")), 4, 1, FETCHES), 0);
}

/* A loop of whole warps, whose addresses move on by a register or a constant. */
#define STRIDES(step)                                                                                                  \
	"mov.u32 %r8, %nctaid.x;\nmul.wide.u32 %l8, %r8, 4096;\nmul.wide.u32 %l3, %r1, 4;\nadd.s64 %l4, %l1, %l3;\n"   \
	"mul.wide.u32 %l7, %r1, 8;\nadd.s64 %l5, %l2, %l7;\nmov.u32 %r5, 0;\n$loop:\nld.global.f64 %l6, [%l5];\n"      \
	"ld.global.u32 %r6, [%l4];\nld.global.u32 %r7, [%l1];\nadd.u32 %r6, %r6, %r7;\nst.global.u32 [%l4], %r6;\n"    \
	"ld.global.u32 %r7, [%l4+4];\nst.global.f64 [%l5], %l6;\nadd.s64 %l5, %l5, " step ";\nadd.s64 %l4, %l4, " step \
	";\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 8;\n@%p1 bra $loop;\n"

#define TO_SECOND ", i32 0, i32 2, i32 1)"

/* The data of a warp's next round: two lines of four-byte words and four of eight-byte ones, read and written. */
static void next_rounds(void **state)
{
	(void)state;
	assert_int_equal(count(KERNEL(STRIDES("%l8")), 256, 1, TO_SECOND), 12);
	assert_int_equal(count(KERNEL(STRIDES("%l8")), 256, 1, FETCHES), 12);
	/* with a stack for each warp, it would push those out of the first cache; and no farther than a row */
	assert_int_equal(count(KERNEL(STRIDES("%l8") "bar.sync 0;\n"), 256, 1, FETCHES), 0);
	assert_int_equal(count(KERNEL(STRIDES("1024")), 256, 1, FETCHES), 0);
}

#define SIX                                                                                                            \
	"ex2.approx.f32 %f1, %f1;\nadd.f32 %f2, %f1, %f1;\nmul.f32 %f1, %f2, %f1;\nfma.rn.f32 %f1, %f1, %f2, %f1;\n"   \
	"add.f32 %f1, %f1, %f2;\nmul.f32 %f2, %f1, %f1;\n"

static void vectors(void **state)
{
	(void)state;
	assert_int_equal(count(KERNEL(ROWS(ALONG)), 256, 1, NARROW), 1);
	/* arithmetic, a loop, and lanes that are anywhere */
	assert_int_equal(count(KERNEL(ROWS(ALONG) SIX "st.global.f32 [%l4], %f1;\n"), 256, 1, NARROW), 0);
	assert_int_equal(count(KERNEL(ROWS(ALONG) SIX "st.global.f32 [%l4], %f1;\nst.global.f32 [%l4+4], %f2;\n"), 256,
			       1, NARROW),
			 1);
	assert_int_equal(count(KERNEL(LOOP("16")), 256, 1, NARROW), 0);
	assert_int_equal(
		count(KERNEL("mul.lo.u32 %r5, %r1, %r1;\nmul.wide.u32 %l3, %r5, 4;\nadd.s64 %l4, %l1, %l3;\n"
			     "st.global.u32 [%l4], %r5;\nst.global.u32 [%l1], %r5;\nst.global.u32 [%l2], %r5;\n"),
		      256, 1, NARROW),
		0);
}

/* The last rows end where memory does. */
static void at_the_end(void **state)
{
	size_t bytes = 8 * 4096, page = (size_t)sysconf(_SC_PAGESIZE);
	char *memory = mmap(NULL, 2 * bytes + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	float *to = (float *)(void *)memory, *from = (float *)(void *)(memory + bytes);
	void *params[2] = {to, from};
	struct ptx_fault fault;
	struct ptx_module *m;

	(void)state;
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory, 2 * bytes, PROT_READ | PROT_WRITE), 0);
	for (size_t n = 0; n < bytes / 4; n++)
		from[n] = (float)n;
	map.count = 0;
	add_range(to, 2 * bytes, true);
	m = load(KERNEL(ROWS(ALONG)));
	assert_true(launch(m, 32, 32, 8, 0, params, &fault));
	ptx_module_destroy(m);
	assert_memory_equal(to, from, bytes);
	munmap(memory, 2 * bytes + page);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? setenv("VCUDA_CPU_DUMP", folder, 1) : -1;
}

static int remove_folder(void **state)
{
	DIR *d = opendir(folder);

	(void)state;
	for (struct dirent *e; (e = readdir(d));)
		unlinkat(dirfd(d), e->d_name, 0);
	closedir(d);
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows),    cmocka_unit_test(loops_of_one_lane), cmocka_unit_test(next_rounds),
		cmocka_unit_test(vectors), cmocka_unit_test(at_the_end),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}

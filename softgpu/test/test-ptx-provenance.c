/* SPDX-License-Identifier: Apache-2.0 */
/* Code checks against the allocation that a parameter points into: nothing may depend on that guess. */
#include <math.h>

#include "softgpu/test/harness.h"

#define LANES 4 /* so few threads run one after the other */
#define WARP 32

/* %l1 and %l2: the parameters; %r1: the thread; %l3: its place in the first one, which is written */
#define HEAD                                                                                                           \
	PTX_HEAD ".visible .entry k(.param .u64 p0, .param .u64 p1)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<16>;\n"        \
		 ".reg .b64 %l<16>;\nld.param.u64 %l1, [p0];\nld.param.u64 %l2, [p1];\nmov.u32 %r1, %tid.x;\n"         \
		 "mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\n"
#define END "st.global.u32 [%l3], %r5;\nret;\n}\n"

static _Alignas(64) uint32_t out[WARP];
static unsigned threads = LANES;
/*
 * `in` is the target of the second parameter; beside it are memory that the kernel may not access, and another
 * allocation
 */
static _Alignas(64) uint32_t memory[256];
#define IN (memory + 64)
#define IN_COUNT 64u
#define OTHER (memory + 192)

static bool run(const char *body, const void *in, struct ptx_fault *fault)
{
	char text[16384];
	const void *params[2] = {out, in};
	struct ptx_module *m;
	bool ok;

	map.count = 0;
	add_range(out, sizeof(out), true);
	add_range(IN, IN_COUNT * 4, false);
	add_range(OTHER, 64 * 4, false);
	for (unsigned n = 0; n < 256; n++)
		memory[n] = 1000 + n;
	memset(out, 0, sizeof(out));
	snprintf(text, sizeof(text), "%s%s%s", HEAD, body, END);
	m = load(text);
	ok = launch(m, 1, threads, 1, 0, params, fault);
	ptx_module_destroy(m);
	return ok;
}

static void good(const char *body, const void *in, uint32_t first, uint32_t step)
{
	struct ptx_fault fault;

	assert_true(run(body, in, &fault));
	for (unsigned n = 0; n < threads; n++)
		assert_int_equal(out[n], first + n * step);
}

static void bad(const char *body, const void *in, enum ptx_fault_kind kind, const void *address, uint32_t thread)
{
	struct ptx_fault fault;

	assert_false(run(body, in, &fault));
	assert_int_equal(fault.kind, kind);
	assert_int_equal(fault.address, (uintptr_t)address);
	assert_int_equal(fault.thread[0], thread);
}

/* in[index + thread] */
#define INDEX(index)                                                                                                   \
	"add.s32 %r2, %r1, " index ";\nmul.wide.s32 %l4, %r2, 4;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5];\n"
/* the same by way of a register that LLVM does not see through as an index */
#define PLAIN(index)                                                                                                   \
	"add.s32 %r2, %r1, " index                                                                                     \
	";\ncvt.s64.s32 %l4, %r2;\nshl.b64 %l4, %l4, 2;\nadd.s64 %l5, %l4, %l2;\nld.global.u32 %r5, [%l5];\n"

static void bounds(void **state)
{
	(void)state;
	good(INDEX("0"), IN, 1064, 1);
	good(INDEX("60"), IN, 1124, 1);
	bad(INDEX("61"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
	bad(INDEX("-1"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	bad(INDEX("-2147483648"), IN, PTX_FAULT_ILLEGAL_ADDRESS, (void *)((uintptr_t)IN - (8ull << 30)), 0);
	good(PLAIN("60"), IN, 1124, 1);
	bad(PLAIN("61"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
	bad(PLAIN("-1"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	/* unsigned: far beyond, not in front */
	bad("sub.u32 %r2, %r1, 1;\nmul.wide.u32 %l4, %r2, 4;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5];\n", IN,
	    PTX_FAULT_ILLEGAL_ADDRESS, (void *)((uintptr_t)IN + 4 * 0xffffffffull), 0);
	/* several of one register, checked along: the second is out */
	bad("mul.wide.u32 %l4, %r1, 64;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5];\nld.global.u32 %r6, "
	    "[%l5+64];\n",
	    IN, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
	/* a vector across the end */
	bad("mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l5, %l2, %l4;\nld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%l5];\n",
	    IN + 52, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
	/* a parameter that points in front of what is read, with an index that makes up for it */
	good(INDEX("8"), IN - 8, 1064, 1);
	good(PLAIN("8"), IN - 8, 1064, 1);
	/* from one allocation into another */
	good(INDEX("128"), IN, 1192, 1);
	good(PLAIN("128"), IN, 1192, 1);
	bad(INDEX("100"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN + 100, 0);
}

/* Pointers into the inside of an allocation: indices from zero on are checked as they are, others are good as well. */
static void inside(void **state)
{
	const char *const edge = "mul.wide.s32 %l4, %r2, 4;\nadd.s64 %l5, %l2, %l4;\n";
	char body[512];

	(void)state;
	good(INDEX("56"), IN + 4, 1124, 1);
	bad(INDEX("57"), IN + 4, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
	good(INDEX("-4"), IN + 4, 1064, 1);
	bad(INDEX("-5"), IN + 4, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	bad(INDEX("-1"), IN + 63, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 2);
	bad(INDEX("0"), IN + 64, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 0);
	good(INDEX("-4"), IN + 64, 1124, 1);
	bad(INDEX("0"), (const char *)IN + 6, PTX_FAULT_MISALIGNED, (const char *)IN + 6, 0);
	/* a sum that goes round the end of all addresses */
	bad(INDEX("4"), (void *)(uintptr_t)-16, PTX_FAULT_ILLEGAL_ADDRESS, NULL, 0);
	bad(INDEX("-8"), (void *)16, PTX_FAULT_ILLEGAL_ADDRESS, (void *)(uintptr_t)-16, 0);
	/* constants on top of the index, which may be what takes it out, and what takes it back in */
	snprintf(body, sizeof(body), "add.s32 %%r2, %%r1, 58;\n%sld.global.u32 %%r5, [%%l5+8];\n", edge);
	good(body, IN, 1124, 1);
	bad(body, IN + 1, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
	snprintf(body, sizeof(body), "sub.s32 %%r2, %%r1, 2;\n%sld.global.u32 %%r5, [%%l5+8];\n", edge);
	good(body, IN, 1064, 1);
	bad(body, IN - 1, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	snprintf(body, sizeof(body), "add.s32 %%r2, %%r1, 2;\n%sld.global.u32 %%r5, [%%l5+-8];\n", edge);
	good(body, IN, 1064, 1);
	bad(body, IN - 1, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	/* several at once, from below the address to above it */
	snprintf(body, sizeof(body),
		 "add.s32 %%r2, %%r1, 1;\n%sld.global.u32 %%r5, [%%l5];\nld.global.u32 %%r6, [%%l5+-4];\n"
		 "ld.global.u32 %%r7, [%%l5+4];\nadd.s32 %%r5, %%r5, %%r6;\nadd.s32 %%r5, %%r5, %%r7;\n",
		 edge);
	good(body, IN, 3 * 1065, 3);
	good(body, IN + 58, 3 * 1123, 3);
	bad(body, IN - 1, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	bad(body, IN + 59, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
}

#define MOST_VALUES 24

/*
 * A loop that reads from two allocations in turns, so that the runtime looks each time, with more numbers than there
 * are registers of either kind: it must find all of them as they were.
 */
static void registers(void **state)
{
	char body[12288];
	int n = 0;
	uint32_t sums[MOST_VALUES] = {0}, sum = 0;
	float fractions[MOST_VALUES] = {0};

	(void)state;
	n += snprintf(body + n, sizeof(body) - (size_t)n, ".reg .b32 %%a<%d>;\n.reg .f32 %%f<%d>;\nmov.u32 %%r4, 0;\n",
		      MOST_VALUES, MOST_VALUES + 1);
	for (int k = 0; k < MOST_VALUES; k++)
		n += snprintf(body + n, sizeof(body) - (size_t)n, "mov.u32 %%a%d, 0;\nmov.f32 %%f%d, 0f00000000;\n", k,
			      k);
	n += snprintf(body + n, sizeof(body) - (size_t)n,
		      "$again:\nand.b32 %%r2, %%r4, 1;\nshl.b32 %%r2, %%r2, 7;\nadd.s32 %%r2, %%r2, %%r4;\n"
		      "mul.wide.s32 %%l4, %%r2, 4;\nadd.s64 %%l5, %%l2, %%l4;\nld.global.u32 %%r5, [%%l5];\n"
		      "cvt.rn.f32.u32 %%f%d, %%r5;\n",
		      MOST_VALUES);
	for (int k = 0; k < MOST_VALUES; k++)
		n += snprintf(body + n, sizeof(body) - (size_t)n,
			      "mad.lo.u32 %%a%d, %%a%d, %d, %%r5;\nfma.rn.f32 %%f%d, %%f%d, 0f3F000000, %%f%d;\n", k, k,
			      k + 3, k, k, k ? k - 1 : MOST_VALUES);
	n += snprintf(body + n, sizeof(body) - (size_t)n,
		      "add.s32 %%r4, %%r4, 1;\nsetp.lt.s32 %%p1, %%r4, 9;\n@%%p1 bra $again;\nmov.u32 %%r5, 0;\n");
	for (int k = 0; k < MOST_VALUES; k++)
		n += snprintf(body + n, sizeof(body) - (size_t)n,
			      "mul.lo.u32 %%r5, %%r5, 31;\nxor.b32 %%r5, %%r5, %%a%d;\nmov.b32 %%r6, %%f%d;\n"
			      "xor.b32 %%r5, %%r5, %%r6;\n",
			      k, k);
	assert_true((size_t)n < sizeof(body));
	for (uint32_t i = 0; i < 9; i++) {
		uint32_t read = 1064 + (i & 1) * 128 + i;

		for (uint32_t k = 0; k < MOST_VALUES; k++) {
			sums[k] = sums[k] * (k + 3) + read;
			fractions[k] = fmaf(fractions[k], 0.5f, k ? fractions[k - 1] : (float)read);
		}
	}
	for (unsigned k = 0; k < MOST_VALUES; k++) {
		uint32_t bits;

		memcpy(&bits, &fractions[k], sizeof(bits));
		sum = (sum * 31) ^ sums[k] ^ bits;
	}
	good(body, IN, sum, 0);
}

static void strides(void **state)
{
	(void)state;
	/* elements of structures: the place in one is not a multiple of its size */
	good("mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5+4];\n", IN, 1065, 4);
	good("mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5+12];\n", IN + 48, 1115, 4);
	bad("mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5+12];\n", IN + 49,
	    PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
	good("mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5+-4];\n", IN + 1, 1064, 4);
	bad("mul.wide.u32 %l4, %r1, 16;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5+-8];\n", IN + 1,
	    PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	/* bytes */
	good("mul.wide.u32 %l4, %r1, 1;\nadd.s64 %l5, %l2, %l4;\nld.global.u8 %r5, [%l5+252];\nand.b32 %r5, %r5, 0;\n",
	     IN, 0, 0);
	bad("mul.wide.u32 %l4, %r1, 1;\nadd.s64 %l5, %l2, %l4;\nld.global.u8 %r5, [%l5+253];\n", IN,
	    PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 3);
}

static void alignment(void **state)
{
	const char *in = (const char *)IN;

	(void)state;
	bad(INDEX("0"), in + 2, PTX_FAULT_MISALIGNED, in + 2, 0);
	bad(PLAIN("0"), in + 1, PTX_FAULT_MISALIGNED, in + 1, 0);
	bad("mul.wide.u32 %l4, %r1, 2;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5];\n", IN, PTX_FAULT_MISALIGNED,
	    in + 2, 1);
	bad("mul.wide.u32 %l4, %r1, 8;\nadd.s64 %l5, %l2, %l4;\nld.global.v4.u32 {%r5, %r6, %r7, %r8}, [%l5];\n", IN,
	    PTX_FAULT_MISALIGNED, in + 8, 1);
}

static void others(void **state)
{
	(void)state;
	/* read-only memory is no root for stores */
	bad("mul.wide.u32 %l4, %r1, 4;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5];\nst.global.u32 [%l5], %r5;\n",
	    IN, PTX_FAULT_ILLEGAL_ADDRESS, IN, 0);
	/* a register that a thread reads before it is written holds 0, not the parameter */
	bad("setp.gt.u32 %p1, %r1, 1;\n@%p1 bra $skip;\nld.param.u64 %l6, [p1];\n$skip:\nmul.wide.u32 %l4, %r1, 4;\n"
	    "add.s64 %l5, %l6, %l4;\nld.global.u32 %r5, [%l5];\n",
	    IN, PTX_FAULT_ILLEGAL_ADDRESS, (void *)8, 2);
	/* a number that is added to a pointer which was loaded, or to another parameter */
	good("mov.u64 %l6, 4;\nmul.lo.u64 %l7, %l6, 2;\nadd.s64 %l5, %l2, %l7;\nld.global.u32 %r5, [%l5];\n", IN, 1066,
	     0);
	good("sub.s64 %l6, %l2, %l1;\nadd.s64 %l5, %l1, %l6;\nld.global.u32 %r5, [%l5];\n", IN, 1064, 0);
	/* one register, two parameters */
	bad("mov.u64 %l6, %l2;\nsetp.gt.u32 %p1, %r1, 2;\n@%p1 mov.u64 %l6, 0;\nmul.wide.u32 %l4, %r1, 4;\n"
	    "add.s64 %l5, %l6, %l4;\nld.global.u32 %r5, [%l5];\n",
	    IN, PTX_FAULT_ILLEGAL_ADDRESS, (void *)12, 3);
	/* no pointer at all */
	bad(INDEX("0"), (void *)5, PTX_FAULT_MISALIGNED, (void *)5, 0);
	bad(INDEX("0"), NULL, PTX_FAULT_ILLEGAL_ADDRESS, NULL, 0);
}

/* Registers that are not as wide as the instruction: what is checked is what is accessed, cut and extended alike. */
static void widths(void **state)
{
	const char *const access = "add.s64 %l5, %l2, %l4;\nld.global.u32 %r5, [%l5];\n";
	char body[512];

	(void)state;
	snprintf(body, sizeof(body), "mov.u64 %%l6, 0x500000000000;\ncvt.s64.s32 %%l4, %%l6;\n%s", access);
	good(body, IN, 1064, 0);
	snprintf(body, sizeof(body),
		 "mov.u64 %%l6, 0x50000000ffff;\ncvt.s64.s16 %%l4, %%l6;\nmul.lo.s64 %%l4, %%l4, -4;\n%s", access);
	good(body, IN, 1065, 0);
	snprintf(body, sizeof(body), "mov.u32 %%r6, 65535;\ncvt.u64.u16 %%l4, %%r6;\nmul.lo.s64 %%l4, %%l4, 4;\n%s",
		 access);
	bad(body, IN, PTX_FAULT_ILLEGAL_ADDRESS, (void *)((uintptr_t)IN + 4 * 65535), 0);
	/* not from the parameter itself, so that only the address is checked */
	snprintf(body, sizeof(body),
		 "xor.b64 %%l2, %%l2, 1;\nxor.b64 %%l2, %%l2, 1;\nmov.u64 %%l6, 0x500000000000;\ncvt.s64.s32 %%l4, "
		 "%%l6;\n%s",
		 access);
	good(body, IN, 1064, 0);
	/* checked along with the first one, whose index is another by then; of both, the second is reported */
	snprintf(body, sizeof(body),
		 "mov.u32 %%r6, 65535;\nmul.wide.s32 %%l4, %%r6, 4;\n%smov.u32 %%r6, 0;\n"
		 "ld.global.u32 %%r6, [%%l5+4];\nadd.u32 %%r5, %%r5, %%r6;\n",
		 access);
	bad(body, IN, PTX_FAULT_ILLEGAL_ADDRESS, (void *)((uintptr_t)IN + 4 * 65536), 0);
	bad("mul.wide.u32 %l4, %r1, 4;\nadd.s64 %l5, %l2, %l4;\ncvt.u32.u64 %r6, %l5;\nld.global.u32 %r5, [%r6];\n", IN,
	    PTX_FAULT_ILLEGAL_ADDRESS, (void *)(uintptr_t)(int64_t)(int32_t)(uintptr_t)IN, 0);
}

#define PAIRS "mul.wide.s32 %l4, %r1, 8;\nadd.s64 %l5, %l2, %l4;\nld.global.v2.u32 {%r5, %r6}, [%l5];\n"
/* in[thread] and in[thread + 128], twice */
#define IN_TURNS                                                                                                       \
	"mov.u32 %r5, 0;\nmov.u32 %r6, 0;\n$again:\nand.b32 %r7, %r6, 1;\nshl.b32 %r7, %r7, 7;\n"                      \
	"add.s32 %r2, %r1, %r7;\nmul.wide.s32 %l4, %r2, 4;\nadd.s64 %l5, %l2, %l4;\nld.global.u32 %r8, [%l5];\n"       \
	"add.u32 %r5, %r5, %r8;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p1, %r6, 4;\n@%p1 bra $again;\n"

/* Warps compare a span, with what is known of the parameter when the launch begins and of what was hit last. */
static void warps(void **state)
{
	const char *odd = (const char *)IN + 2;

	(void)state;
	threads = WARP;
	good(INDEX("0"), IN, 1064, 1);
	good(INDEX("32"), IN, 1096, 1);
	bad(INDEX("33"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 31);
	bad(INDEX("-1"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	bad(INDEX("63"), IN, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 1);
	good(INDEX("-32"), IN + 32, 1064, 1);
	/* into another allocation than the parameter, or from none at all */
	good(INDEX("128"), IN, 1192, 1);
	good(INDEX("-128"), OTHER, 1064, 1);
	good(INDEX("4"), IN - 4, 1064, 1);
	bad(INDEX("3"), IN - 4, PTX_FAULT_ILLEGAL_ADDRESS, IN - 1, 0);
	good(IN_TURNS, IN, 4512, 4);
	bad(IN_TURNS, IN + 1 + 32, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 31);
	bad(INDEX("0"), odd, PTX_FAULT_MISALIGNED, odd, 0);
	bad(INDEX("20"), odd, PTX_FAULT_MISALIGNED, odd + 80, 0);
	good(PAIRS, IN, 1064, 2);
	bad(PAIRS, IN + 1, PTX_FAULT_MISALIGNED, IN + 1, 0);
	bad(PAIRS, IN + 2, PTX_FAULT_ILLEGAL_ADDRESS, IN + 64, 31);
	threads = LANES;
}

/* A parameter that is taken apart, as the mathematics of doubles does: its halves are numbers of 32 bits. */
static void halves(void **state)
{
	uint64_t both = (uint64_t)(uintptr_t)IN;

	(void)state;
	good("mov.b64 {%r2, %r3}, %l2;\nxor.b32 %r5, %r2, %r3;\nadd.s32 %r5, %r5, %r1;\n", IN,
	     (uint32_t)both ^ (uint32_t)(both >> 32), 1);
	/* and put together are an address again */
	good("mov.b64 {%r2, %r3}, %l2;\nadd.s32 %r2, %r2, 4;\nmov.b64 %l5, {%r2, %r3};\nld.global.u32 %r5, [%l5];\n"
	     "add.s32 %r5, %r5, %r1;\n",
	     IN, 1065, 1);
	/* nothing is known of how they are aligned */
	bad("mov.b64 {%r2, %r3}, %l2;\nadd.s32 %r2, %r2, 2;\nmov.b64 %l5, {%r2, %r3};\nld.global.u32 %r5, [%l5];\n", IN,
	    PTX_FAULT_MISALIGNED, (char *)IN + 2, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds),    cmocka_unit_test(inside), cmocka_unit_test(strides),
		cmocka_unit_test(alignment), cmocka_unit_test(others), cmocka_unit_test(registers),
		cmocka_unit_test(widths),    cmocka_unit_test(warps),  cmocka_unit_test(halves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

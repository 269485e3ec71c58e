/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that cannot be inlined: recursion, pointers to functions, stacks; and branches with an index. */
#include "softgpu/test/harness.h"

/* A module of some functions and a kernel that reads %a, of the thread, and writes %x. */
#define KERNEL(functions, body)                                                                                        \
	PTX_HEAD functions ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"                            \
			   ".reg .pred %p<8>;\n.reg .b32 %r<16>, %a, %x;\n.reg .b64 %l<16>;\n"                         \
			   "ld.param.u64 %l1, [p_out];\nld.param.u64 %l2, [p_in];\nmov.u32 %r1, %tid.x;\n"             \
			   "mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l4, %l2, %l3;\nadd.s64 %l4, %l4, %l3;\n"               \
			   "ld.global.u32 %a, [%l4];\nadd.s64 %l3, %l1, %l3;\n" body                                   \
			   "st.global.u32 [%l3], %x;\nret;\n}\n"
#define CALL(function, to, from)                                                                                       \
	"{\n.param .b32 v;\n.param .b32 w;\nst.param.b32 [v], " from ";\ncall (w), " function ", (v);\n"               \
	"ld.param.b32 " to ", [w];\n}\n"
/* Through the pointer in %l5. */
#define CALL_POINTER(to, from)                                                                                         \
	"{\n.param .b32 v;\n.param .b32 w;\nst.param.b32 [v], " from ";\n"                                             \
	"proto: .callprototype (.param .b32 _) _ (.param .b32 _);\ncall (w), %l5, (v), proto;\n"                       \
	"ld.param.b32 " to ", [w];\n}\n"
#define FUNCTION(name, body)                                                                                           \
	".func (.param .b32 r) " name "(.param .b32 n)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\n"    \
	"ld.param.u32 %r1, [n];\n" body "st.param.b32 [r], %r2;\nret;\n}\n"
#define DECLARE(name) ".func (.param .b32 r) " name "(.param .b32 n);\n"

#define FIB                                                                                                            \
	DECLARE("fib")                                                                                                 \
	FUNCTION("fib", "setp.lt.u32 %p1, %r1, 2;\nmov.u32 %r2, %r1;\n@%p1 bra $end;\nadd.s32 %r3, %r1, -1;\n"         \
		 CALL("fib", "%r4", "%r3") "add.s32 %r3, %r1, -2;\n" CALL("fib", "%r5", "%r3")                         \
		 "add.s32 %r2, %r4, %r5;\n$end:\n")

static uint32_t fib(uint32_t n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

/* Lanes of one warp call to different depths, and meet again for the vote. */
static void recursion(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n % 11;
	run_binary(KERNEL(FIB, CALL("fib", "%x", "%a")), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], fib(n % 11));
	run_binary(KERNEL(FIB, "setp.eq.u32 %p1, %a, 3;\nmov.u32 %r2, 0;\n@%p1 bra $no;\n" CALL("fib", "%r2", "%a")
			  "$no:\nsetp.gt.u32 %p2, %r2, 12;\nvote.sync.ballot.b32 %r3, %p2, -1;\nadd.s32 %x, %r2, %r3;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++) {
		uint32_t votes = 0;

		for (unsigned lane = 0; lane < 32; lane++)
			votes |= (uint32_t)(fib((n / 32 * 32 + lane) % 11) > 12) << lane;
		assert_int_equal(out32[n], (n % 11 == 3 ? 0 : fib(n % 11)) + votes);
	}
}

/*
 * State that lives across a recursive call: a predicate, a 64-bit register, a local variable whose address is passed
 * on.
 */
#define DEEP_HEAD ".func (.param .b32 r) deep(.param .b32 n, .param .b64 p)"
#define DEEP                                                                                                           \
	DEEP_HEAD ";\n" DEEP_HEAD "\n{\n.local .align 8 .b8 own[24];\n"                                                \
		  ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\nld.param.u32 %r1, [n];\n"                    \
		  "ld.param.u64 %l1, [p];\nand.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 1;\n"                           \
		  "mul.wide.u32 %l2, %r1, 1000;\nmov.u64 %l3, own;\ncvta.local.u64 %l4, %l3;\n"                        \
		  "st.local.u32 [own+16], %r1;\nsetp.eq.u32 %p2, %r1, 0;\n@%p2 bra $end;\nadd.s32 %r3, %r1, -1;\n"      \
		  CALL_DEEP("%r3", "%l4")                                                                              \
		  "ld.local.u32 %r4, [own+8];\nadd.s32 %r3, %r3, %r4;\ncvt.u32.u64 %r5, %l2;\n"                        \
		  "add.s32 %r3, %r3, %r5;\n@%p1 add.s32 %r3, %r3, 1;\nst.u32 [%l1+8], %r3;\n"                          \
		  "st.param.b32 [r], %r3;\nret;\n$end:\nld.u32 %r4, [%l1+16];\nst.u32 [%l1+8], %r4;\n"                 \
		  "st.param.b32 [r], %r4;\nret;\n}\n"
#define CALL_DEEP(n, p)                                                                                                \
	"{\n.param .b32 v;\n.param .b64 w;\n.param .b32 x;\nst.param.b32 [v], " n ";\nst.param.b64 [w], " p ";\n"      \
	"call (x), deep, (v, w);\nld.param.b32 %r3, [x];\n}\n"

static uint32_t deep(uint32_t n, uint32_t caller, uint32_t *left)
{
	uint32_t mine = 0, r;

	if (!n)
		return *left = caller;
	r = deep(n - 1, n, &mine);
	r += mine + 1000 * n + (n & 1);
	return *left = r;
}

static void frames(void **state)
{
	uint32_t left, r;

	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n % 7;
	run_binary(KERNEL(DEEP, ".local .align 8 .b8 mine[24];\nmov.u64 %l5, mine;\ncvta.local.u64 %l5, %l5;\n"
				"st.local.u32 [mine+16], 77;\n" CALL_DEEP("%a", "%l5")
				"ld.local.u32 %r6, [mine+8];\nmad.lo.u32 %x, %r6, 65536, %r3;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++) {
		r = deep(n % 7, 77, &left);
		assert_int_equal(out32[n], left * 65536 + r);
	}
}

/* All lanes of all warps pass a barrier and add up over the warp in each call. */
#define SUM                                                                                                            \
	DECLARE("sum")                                                                                                 \
	FUNCTION("sum", "mov.u32 %r2, 1;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra $end;\nbar.sync 0;\n"                      \
		 "redux.sync.add.s32 %r3, %r1, -1;\nadd.s32 %r4, %r1, -1;\n" CALL("sum", "%r5", "%r4")                 \
		 "add.s32 %r2, %r3, %r5;\n$end:\n")

static void barriers(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = 5;
	run_binary(KERNEL(SUM, CALL("sum", "%x", "%a")), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], 1 + 32 * (5 + 4 + 3 + 2 + 1));
}

#define TABLE                                                                                                          \
	FIB FUNCTION("plus", "add.s32 %r2, %r1, 100;\n")                                                               \
	FUNCTION("warp", "activemask.b32 %r3;\npopc.b32 %r3, %r3;\nadd.s32 %r2, %r3, %r1;\n")                           \
	".global .align 8 .u64 table[4] = {0, plus, fib, warp};\n"
#define LOAD_POINTER "mov.u64 %l6, table;\nmul.wide.u32 %l7, %r2, 8;\nadd.s64 %l6, %l6, %l7;\nld.global.u64 %l5, [%l6];\n"

/* Lanes of one warp call different functions, out of a table in memory or by name. */
static void pointers(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n % 9;
	run_binary(KERNEL(TABLE, "and.b32 %r2, %r1, 3;\nmax.u32 %r2, %r2, 1;\n" LOAD_POINTER CALL_POINTER("%x", "%a")), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 4 < 2 ? n % 9 + 100 : n % 4 == 2 ? fib(n % 9) : n % 9 + 8);
	run_binary(KERNEL(TABLE, "mov.u64 %l6, plus;\nmov.u64 %l7, fib;\nsetp.gt.u32 %p1, %a, 4;\n"
				 "selp.b64 %l5, %l6, %l7, %p1;\n" CALL_POINTER("%x", "%a")),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 9 > 4 ? n % 9 + 100 : fib(n % 9));
}

static struct ptx_fault fault_of(const char *text)
{
	struct ptx_module *m = load_binary(text, 32);
	void *params[2] = {out32, in32};
	struct ptx_fault fault;

	assert_false(launch(m, 1, THREADS, 1, 0, params, &fault));
	ptx_module_destroy(m);
	return fault;
}

static void bad_pointers(void **state)
{
	struct ptx_fault fault;

	(void)state;
	/* null, one beside a function, and memory */
	fault = fault_of(KERNEL(TABLE, "mov.u32 %r2, 0;\n" LOAD_POINTER CALL_POINTER("%x", "%a")));
	assert_int_equal(fault.kind, PTX_FAULT_BAD_TARGET);
	fault = fault_of(KERNEL(TABLE, "mov.u64 %l5, plus;\nadd.s64 %l5, %l5, 1;\n" CALL_POINTER("%x", "%a")));
	assert_int_equal(fault.kind, PTX_FAULT_BAD_TARGET);
	fault = fault_of(KERNEL(TABLE, "setp.eq.u32 %p1, %r1, 37;\nmov.u64 %l5, plus;\n@%p1 mov.u64 %l5, %l1;\n"
				CALL_POINTER("%x", "%a") "bar.sync 0;\n"));
	assert_int_equal(fault.kind, PTX_FAULT_BAD_TARGET);
	assert_int_equal(fault.thread[0], 37);
	/* a function's address is no memory */
	fault = fault_of(KERNEL(TABLE, "mov.u64 %l5, plus;\nld.global.u32 %x, [%l5];\n"));
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	fault = fault_of(KERNEL(DECLARE("endless") FUNCTION("endless", CALL("endless", "%r2", "%r1") "add.s32 %r2, %r2, 1;\n"),
				CALL("endless", "%x", "%a")));
	assert_int_equal(fault.kind, PTX_FAULT_ILLEGAL_ADDRESS);
	assert_string_equal(fault.space, "local");
}

static void branch_tables(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n % 3;
	run_binary(KERNEL("", "list: .branchtargets $a, $b, $a;\nsetp.ne.u32 %p1, %r1, 5;\nmov.u32 %x, 3;\n"
			      "@%p1 brx.idx %a, list;\nbra $end;\n$a:\nadd.s32 %x, %a, 10;\nbra $end;\n"
			      "$b:\nmov.u32 %x, 20;\n$end:\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n == 5 ? 3 : n % 3 == 1 ? 20 : n % 3 + 10);
	assert_int_equal(fault_of(KERNEL("", "list: .branchtargets $a;\nbrx.idx %a, list;\n$a:\nmov.u32 %x, 1;\n")).kind,
			 PTX_FAULT_BAD_TARGET);
}

/* Every thread takes as much as its own number says, twice in a loop whose memory is given back. */
#define TAKE                                                                                                           \
	DECLARE("take")                                                                                                \
	FUNCTION("take", "setp.eq.u32 %p1, %r1, 0;\nmov.u32 %r2, 0;\n@%p1 bra $end;\nmul.wide.u32 %l1, %r1, 4;\n"       \
		 "mov.u32 %r5, 0;\n$again:\nstacksave.u64 %l4;\nalloca.u64 %l2, %l1, 16;\nadd.s64 %l3, %l2, %l1;\n"     \
		 "st.local.u32 [%l3+-4], %r1;\nadd.s32 %r3, %r1, -1;\n" CALL("take", "%r4", "%r3")                     \
		 "ld.local.u32 %r2, [%l3+-4];\nadd.s32 %r2, %r2, %r4;\nstackrestore.u64 %l4;\nadd.s32 %r5, %r5, 1;\n"   \
		 "setp.lt.u32 %p2, %r5, 2;\n@%p2 bra $again;\n$end:\n")

static void stacks(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n % 6;
	run_binary(KERNEL(TAKE, CALL("take", "%x", "%a")), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n % 6 * (n % 6 + 1) / 2);
	run_binary(KERNEL("", "add.s32 %r2, %a, 4;\nalloca.u32 %r3, %r2;\nst.local.u32 [%r3], %r1;\nalloca.u32 %r4, %r2, 32;\n"
			      "st.local.u32 [%r4], %a;\nld.local.u32 %r5, [%r3];\nand.b32 %r6, %r4, 31;\n"
			      "mad.lo.u32 %x, %r6, 1000, %r5;\n"),
		   32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n);
	assert_int_equal(fault_of(KERNEL("", "alloca.u32 %r3, 1000000;\nst.local.u32 [%r3+999996], %r1;\n")).kind,
			 PTX_FAULT_ILLEGAL_ADDRESS);
}

/* Several texts: what each says to be another's, weak and common symbols, and names that are each text's own. */
static void linked(void **state)
{
	static const char first[] = PTX_HEAD
		".extern .func (.param .b32 r) twice(.param .b32 n);\n.extern .global .align 4 .u32 seven;\n"
		".common .global .align 4 .b32 both;\n.weak .global .align 4 .u32 some = 1;\n"
		FUNCTION("own", "add.s32 %r2, %r1, 1;\n")
		".weak " FUNCTION("either", "mov.u32 %r2, 1000;\n")
		".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"
		".reg .b32 %r<16>;\n.reg .b64 %l<4>;\nld.param.u64 %l1, [p_out];\nmov.u32 %r1, %tid.x;\n"
		"mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\n" CALL("twice", "%r2", "%r1") CALL("own", "%r2", "%r2")
		CALL("either", "%r3", "%r1") "ld.global.u32 %r4, [seven];\nld.global.u32 %r5, [some];\n"
		"ld.global.u32 %r6, [both];\nadd.s32 %r2, %r2, %r3;\nadd.s32 %r2, %r2, %r4;\nadd.s32 %r2, %r2, %r5;\n"
		"add.s32 %r2, %r2, %r6;\nst.global.u32 [%l3], %r2;\nret;\n}\n";
	static const char second[] = PTX_HEAD
		".visible .global .align 4 .u32 seven = 7;\n.visible .global .align 4 .u32 some = 20;\n"
		".common .global .align 8 .b8 both[64];\n"
		FUNCTION("own", "shl.b32 %r2, %r1, 1;\n")
		".weak " FUNCTION("either", "mov.u32 %r2, 2000;\n")
		".visible " FUNCTION("twice", CALL("own", "%r2", "%r1"));
	struct ptx_text texts[2] = {{first, strlen(first)}, {second, sizeof(second)}};
	const struct ptx_variable *v;
	struct ptx_module *m;
	struct ptx_error error;
	struct ptx_fault fault;
	void *params[2] = {out32, in32};
	static _Alignas(64) char store[8][64];

	(void)state;
	for (unsigned order = 0; order < 2; order++) {
		if (ptx_module_link(texts, 2, &m, &error) != PTX_OK)
			fail_msg("line %u: %s", error.line, error.text);
		map.count = 0;
		add_range(out32, sizeof(out32), true);
		memset(store, 0, sizeof(store));
		for (size_t n = 0, count = ptx_module_variables(m, &v); n < count; n++) {
			add_range(store[n], v[n].size, true);
			ptx_module_place(m, n, (uintptr_t)store[n]);
			if (v[n].init)
				memcpy(store[n], v[n].init, v[n].size);
			if (!strcmp(v[n].name, "both"))
				assert_int_equal(v[n].size, 64);
		}
		assert_true(launch(m, 1, THREADS, 1, 0, params, &fault));
		for (unsigned n = 0; n < THREADS; n++)
			assert_int_equal(out32[n], 2 * n + 1 + (order ? 2000 : 1000) + 7 + 20);
		ptx_module_destroy(m);
		texts[0] = (struct ptx_text){second, strlen(second)};
		texts[1] = (struct ptx_text){first, strlen(first)};
	}
	texts[1] = texts[0];
	assert_int_equal(ptx_module_link(texts, 2, &m, &error), PTX_INVALID);
	assert_non_null(strstr(error.text, "seven"));
}

/* The initial value of a common variable also covers a larger variable of the same name. */
static void larger_common(void **state)
{
	static const char text[] = PTX_HEAD
		".common .global .align 4 .u32 big = 9;\n.common .global .align 4 .b8 big[4194304];\n";
	const struct ptx_variable *v;
	struct ptx_module *m;
	struct ptx_error error;

	(void)state;
	if (ptx_module_create(text, sizeof(text), &m, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_int_equal(ptx_module_variables(m, &v), 1);
	assert_int_equal(v->size, 4194304);
	assert_int_equal(((const uint8_t *)v->init)[0], 9);
	for (uint64_t n = 1; n < v->size; n++)
		assert_int_equal(((const uint8_t *)v->init)[n], 0);
	ptx_module_destroy(m);
}

#define PLUS(n) FUNCTION("plus", "add.s32 %r2, %r1, " n ";\n")

static void refused(const char *text, enum ptx_status want, const char *part)
{
	struct ptx_module *m;
	struct ptx_error error;
	enum ptx_status status = ptx_module_create(text, strlen(text), &m, &error);

	if (status != want || !strstr(error.text, part))
		fail_msg("%u, not %u: `%s` lacks `%s`", status, want, error.text, part);
}

/* A second name, in calls before and behind the directive, in a table, and as a pointer, which is the function's. */
static void aliases(void **state)
{
	(void)state;
	for (unsigned n = 0; n < THREADS; n++)
		in32[2 * n] = n;
	run_binary(KERNEL(DECLARE("other") DECLARE("third") FUNCTION("early", CALL("other", "%r2", "%r1")) PLUS("5")
			  ".alias other, plus;\n.alias third, other;\n.global .align 8 .u64 table[4] = {0, other, third, plus};\n",
			  CALL("early", "%r3", "%a") CALL("third", "%r3", "%r3") "and.b32 %r2, %r1, 1;\nadd.u32 %r2, %r2, 1;\n"
			  LOAD_POINTER CALL_POINTER("%x", "%r3") "mov.u64 %l8, plus;\nsetp.eq.u64 %p1, %l5, %l8;\n"
			  "mov.u64 %l8, other;\nsetp.eq.and.u64 %p1, %l5, %l8, %p1;\n@!%p1 mov.u32 %x, 0;\n"), 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n + 15);
	/* the directive at the very end */
	run_binary(KERNEL(DECLARE("other") PLUS("7"), CALL("other", "%x", "%a")) ".alias other, plus;\n", 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n + 7);
	refused(PTX_HEAD PLUS("1") ".alias other, plus;\n", PTX_INVALID, "other");
	refused(PTX_HEAD ".func other(.param .b32 n);\n" PLUS("1") ".alias other, plus;\n", PTX_INVALID, "other");
	refused(PTX_HEAD DECLARE("other") PLUS("1") ".alias other, plus;\n.alias other, plus;\n", PTX_INVALID, "already");
	refused(PTX_HEAD DECLARE("other") PLUS("1") ".alias other, plus;\n.alias plus, other;\n", PTX_INVALID, "already");
	refused(PTX_HEAD DECLARE("other") PLUS("1") ".alias other, plus;\n" FUNCTION("other", "mov.u32 %r2, 0;\n"), PTX_INVALID,
		"alias");
}

static void refused_call(const char *text)
{
	struct ptx_module *module;
	struct ptx_error error;

	assert_int_equal(ptx_module_create(text, strlen(text), &module, &error), PTX_INVALID);
	assert_non_null(strstr(error.text, "Call with"));
}

/* A result that only the caller, or only the function has: refused, as ptxas does. */
static void results(void **state)
{
	(void)state;
	refused_call(KERNEL(".func none(.param .b32 n)\n{\nret;\n}\n", CALL("none", "%r2", "%a") "mov.u32 %x, %a;\n"));
	refused_call(KERNEL(FUNCTION("some", "mov.u32 %r2, 5;\n"),
		       "{\n.param .b32 v;\nst.param.b32 [v], %a;\ncall some, (v);\n}\nmov.u32 %x, %a;\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(larger_common),
		cmocka_unit_test(recursion),
		cmocka_unit_test(frames),
		cmocka_unit_test(barriers),
		cmocka_unit_test(pointers),
		cmocka_unit_test(bad_pointers),
		cmocka_unit_test(branch_tables),
		cmocka_unit_test(stacks),
		cmocka_unit_test(linked),
		cmocka_unit_test(aliases),
		cmocka_unit_test(results),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that would be too large with all calls inlined: functions stand in them once. */
#include "softgpu/test/harness.h"
#include "test/ptx/random-kernel.h"
#include "test/seed.h"
#include "softgpu/analysis/ptx-body.h"
#include "softgpu/analysis/ptx-inline.h"

#define CALLS 240
#define STEPS 300
_Static_assert(CALLS * STEPS > PTX_MOST_INLINED, "a kernel that calls leaf() CALLS times has subroutines");

static char *text, *end;

static void add(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	end += vsprintf(end, format, args);
	va_end(args);
}

static void begin(void)
{
	text = end = malloc(1u << 20);
	assert_non_null(text);
	add("%s", PTX_HEAD ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);\n");
}

static void begin_kernel(void)
{
	add(".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n.reg .pred %%p<8>;\n.reg .b32 %%r<16>, "
	    "%%x;\n"
	    ".reg .b64 %%l<16>;\nld.param.u64 %%l1, [p_out];\nmov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%l3, %%r1, 4;\n"
	    "add.s64 %%l3, %%l1, %%l3;\nmov.u32 %%x, %%r1;\n");
}

static void end_kernel(void)
{
	add("st.global.u32 [%%l3], %%x;\nret;\n}\n");
}

static void call(const char *function, const char *to, const char *from)
{
	add("{\n.param .b32 v;\n.param .b32 w;\nst.param.b32 [v], %s;\ncall (w), %s, (v);\nld.param.b32 %s, [w];\n}\n",
	    from, function, to);
}

static void run(const char *how)
{
	setenv("VCUDA_CPU_COMPILE", how, 1);
	memset(out32, 0, sizeof(out32));
	printed_length = 0;
	run_binary(text, 32);
}

/* ---- leaf(n): many steps, of which odd numbers do half; half(n): two leaves, if n is a multiple of three ---- */

static void add_leaf(void)
{
	add(".func (.param .b32 r) leaf(.param .b32 n)\n{\n.reg .pred %%p<2>;\n.reg .b32 %%r<4>;\nld.param.u32 %%r1, "
	    "[n];\n"
	    "and.b32 %%r2, %%r1, 1;\nsetp.ne.u32 %%p1, %%r2, 0;\n@%%p1 bra $odd;\n");
	for (unsigned k = 0; k < STEPS; k++)
		add("mad.lo.u32 %%r1, %%r1, 3, %u;\n%s", k, k == STEPS / 2 ? "$odd:\n" : "");
	add("st.param.b32 [r], %%r1;\nret;\n}\n");
}

static uint32_t leaf(uint32_t n)
{
	for (unsigned k = n & 1 ? STEPS / 2 + 1 : 0; k < STEPS; k++)
		n = n * 3 + k;
	return n;
}

static void add_half(void)
{
	add(".func (.param .b32 r) half(.param .b32 n)\n{\n.reg .pred %%p<2>;\n.reg .b32 %%r<8>;\nld.param.u32 %%r1, "
	    "[n];\n"
	    "rem.u32 %%r2, %%r1, 3;\nsetp.ne.u32 %%p1, %%r2, 0;\nmov.u32 %%r3, 5;\n@%%p1 bra $end;\n");
	call("leaf", "%r3", "%r1");
	add("add.u32 %%r4, %%r3, %%r1;\n");
	call("leaf", "%r4", "%r4");
	add("xor.b32 %%r3, %%r3, %%r4;\n$end:\nst.param.b32 [r], %%r3;\nret;\n}\n");
}

static uint32_t half(uint32_t n)
{
	return n % 3 ? 5 : leaf(n) ^ leaf(leaf(n) + n);
}

/* ---- swap(n, s): with its neighbour, over a barrier; s is written in other parts than it is read ---- */

static void add_swap(void)
{
	add(".shared .align 4 .b8 all[%u];\n.func (.param .b32 r) swap(.param .b32 n, .param .align 8 .b8 s[16])\n{\n"
	    ".local .align 8 .b8 own[16];\n.reg .b32 %%r<16>;\n.reg .b64 %%l<8>;\nld.param.u32 %%r1, [n];\n"
	    "ld.param.v2.u32 {%%r2, %%r3}, [s];\nld.param.u64 %%l1, [s+8];\nst.local.u64 [own+8], %%l1;\n"
	    "mov.u32 %%r4, %%tid.x;\nshl.b32 %%r5, %%r4, 2;\nmov.u32 %%r6, all;\nadd.u32 %%r7, %%r6, %%r5;\n"
	    "mad.lo.u32 %%r1, %%r1, %%r2, %%r3;\nst.shared.u32 [%%r7], %%r1;\nbar.sync 0;\nxor.b32 %%r5, %%r5, 4;\n"
	    "add.u32 %%r7, %%r6, %%r5;\nld.shared.u32 %%r8, [%%r7];\nbar.sync 0;\nld.local.u32 %%r9, [own+8];\n"
	    "add.u32 %%r8, %%r8, %%r9;\n",
	    4 * THREADS);
	for (unsigned k = 0; k < STEPS; k++)
		add("mad.lo.u32 %%r8, %%r8, 5, %u;\n", k);
	add("st.param.b32 [r], %%r8;\nret;\n}\n");
}

static void call_swap(unsigned k)
{
	add("{\n.param .b32 v;\n.param .align 8 .b8 s[16];\n.param .b32 w;\nst.param.b32 [v], %%x;\n"
	    "mov.b64 %%l5, {%%r1, %%x};\nst.param.b64 [s], %%l5;\nmov.u64 %%l6, %u;\nst.param.b64 [s+8], %%l6;\n"
	    "call (w), swap, (v, s);\nld.param.b32 %%x, [w];\n}\n",
	    k);
}

static void swap(uint32_t x[THREADS], unsigned number)
{
	uint32_t sent[THREADS];

	for (unsigned n = 0; n < THREADS; n++)
		sent[n] = x[n] * n + x[n];
	for (unsigned n = 0; n < THREADS; n++) {
		x[n] = sent[n ^ 1] + number;
		for (unsigned k = 0; k < STEPS; k++)
			x[n] = x[n] * 5 + k;
	}
}

/* Two calls in a loop, one of them by some lanes only, and enough in a row that no kernel has. */
static void too_large(void **state)
{
	uint32_t want[THREADS];

	(void)state;
	begin();
	add_leaf();
	add_half();
	add_swap();
	begin_kernel();
	for (unsigned k = 0; k < CALLS; k++)
		k % 2 ? call("half", "%x", "%x") : call_swap(k);
	add("mov.u32 %%r9, 0;\n$again:\n");
	call_swap(7);
	add("and.b32 %%r4, %%x, 2;\nsetp.eq.u32 %%p1, %%r4, 0;\n@%%p1 bra $skip;\n");
	call("half", "%r5", "%r9");
	add("add.u32 %%x, %%x, %%r5;\n$skip:\nadd.u32 %%r9, %%r9, 1;\nsetp.lt.u32 %%p2, %%r9, 5;\n@%%p2 bra $again;\n");
	end_kernel();
	for (unsigned n = 0; n < THREADS; n++)
		want[n] = n;
	for (unsigned k = 0; k < CALLS; k++)
		if (k % 2)
			for (unsigned n = 0; n < THREADS; n++)
				want[n] = half(want[n]);
		else
			swap(want, k);
	for (unsigned k = 0; k < 5; k++) {
		swap(want, 7);
		for (unsigned n = 0; n < THREADS; n++)
			want[n] += want[n] & 2 ? half(k) : 0;
	}
	for (unsigned round = 0; round < 2; round++) {
		run(round ? "optimised" : "auto");
		assert_memory_equal(out32, want, sizeof(want));
	}
	free(text);
}

/* With no barrier, and each thread by itself. */
static void alone(void **state)
{
	(void)state;
	begin();
	add_leaf();
	add_half();
	begin_kernel();
	for (unsigned k = 0; k < CALLS; k++)
		call(k % 3 ? "leaf" : "half", "%x", "%x");
	end_kernel();
	for (unsigned round = 0; round < 2; round++) {
		run(round ? "optimised" : "auto");
		for (unsigned n = 0; n < THREADS; n++) {
			uint32_t x = n;

			for (unsigned k = 0; k < CALLS; k++)
				x = k % 3 ? leaf(x) : half(x);
			assert_int_equal(out32[n], x);
		}
	}
	free(text);
}

/* ---- what needs the stack ---- */

/* A function that takes as much stack as it is told, and one that calls itself; both call leaf(). */
static void add_deep(void)
{
	add(".func (.param .b32 r) takes(.param .b32 n)\n{\n.reg .b32 %%r<8>;\n.reg .b64 %%l<8>;\nld.param.u32 %%r1, "
	    "[n];\n"
	    "and.b32 %%r2, %%r1, 12;\nadd.u32 %%r2, %%r2, 8;\ncvt.u64.u32 %%l1, %%r2;\nalloca.u64 %%l2, %%l1, 8;\n"
	    "st.local.u32 [%%l2], %%r1;\n");
	call("leaf", "%r3", "%r1");
	add("ld.local.u32 %%r4, [%%l2];\nxor.b32 %%r3, %%r3, %%r4;\n");
	for (unsigned k = 0; k < 30; k++)
		add("mad.lo.u32 %%r3, %%r3, 7, %u;\n", k);
	add("st.param.b32 [r], %%r3;\nret;\n}\n");
	add(".func (.param .b32 r) self(.param .b32 n);\n.func (.param .b32 r) self(.param .b32 n)\n{\n.reg .pred "
	    "%%p<2>;\n"
	    ".reg .b32 %%r<8>;\nld.param.u32 %%r1, [n];\nmov.u32 %%r2, 1;\nsetp.eq.u32 %%p1, %%r1, 0;\n@%%p1 bra "
	    "$end;\n"
	    "sub.u32 %%r3, %%r1, 1;\nmul.lo.u32 %%r6, %%r1, 77;\n");
	call("leaf", "%r4", "%r1");
	call("self", "%r5", "%r3");
	call("leaf", "%r5", "%r5");
	add("add.u32 %%r2, %%r4, %%r5;\nadd.u32 %%r2, %%r2, %%r6;\n$end:\nst.param.b32 [r], %%r2;\nret;\n}\n");
}

static uint32_t takes(uint32_t n)
{
	uint32_t x = leaf(n) ^ n;

	for (unsigned k = 0; k < 30; k++)
		x = x * 7 + k;
	return x;
}

static uint32_t self(uint32_t n)
{
	return n ? leaf(n) + leaf(self(n - 1)) + 77 * n : 1;
}

/* The result of a leaf survives the calls behind it. */
static void stacks(void **state)
{
	(void)state;
	begin();
	add_leaf();
	add_deep();
	begin_kernel();
	for (unsigned k = 0; k < CALLS; k++)
		call(k % 2 ? "leaf" : "takes", "%x", "%x");
	add("and.b32 %%r4, %%r1, 3;\n");
	call("self", "%r5", "%r4");
	add("xor.b32 %%x, %%x, %%r5;\n");
	end_kernel();
	for (unsigned round = 0; round < 2; round++) {
		run(round ? "optimised" : "auto");
		for (unsigned n = 0; n < THREADS; n++) {
			uint32_t x = n;

			for (unsigned k = 0; k < CALLS; k++)
				x = k % 2 ? leaf(x) : takes(x);
			assert_int_equal(out32[n], x ^ self(n & 3));
		}
	}
	free(text);
}

/* A function without parameters or a result, which prints. */
static void prints(void **state)
{
	(void)state;
	begin();
	add(".global .align 1 .b8 what[4] = {37, 117, 32, 0};\n"
	    ".func says(.param .b32 n)\n{\n.local .align 8 .b8 d[8];\n.reg .pred %%p<2>;\n.reg .b32 %%r<4>;\n"
	    ".reg .b64 %%l<4>;\nld.param.u32 %%r1, [n];\nmov.u32 %%r2, %%tid.x;\n");
	for (unsigned k = 0; k < 20; k++)
		add("add.u32 %%r1, %%r1, 1;\n");
	add("setp.ne.u32 %%p1, %%r2, 33;\n@%%p1 ret;\nst.local.u32 [d], %%r1;\nmov.u64 %%l1, d;\n"
	    "cvta.local.u64 %%l1, %%l1;\nmov.u64 %%l2, what;\ncvta.global.u64 %%l2, %%l2;\n{\n.param .b64 p0;\n"
	    "st.param.b64 [p0], %%l2;\n.param .b64 p1;\nst.param.b64 [p1], %%l1;\n.param .b32 q;\n"
	    "call.uni (q), vprintf, (p0, p1);\nld.param.b32 %%r3, [q];\n}\nret;\n}\n");
	begin_kernel();
	for (unsigned k = 0; k < 3; k++)
		add("{\n.param .b32 v;\nmov.u32 %%r2, %u;\nst.param.b32 [v], %%r2;\ncall says, (v);\n}\n", 20 + k);
	end_kernel();
	ptx_most_inlined = 0;
	run("auto");
	assert_string_equal(printed, "40 41 42 ");
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n);
	free(text);
}

/* ---- many functions, called to and fro ---- */

#define MANY 120
#define ROUNDS 6

static void many_functions(void **state)
{
	char name[16];

	(void)state;
	begin();
	for (unsigned f = 0; f < MANY; f++) {
		add(".func (.param .b32 r) f%u(.param .b32 n)\n{\n.reg .b32 %%r<4>;\nld.param.u32 %%r1, [n];\n", f);
		for (unsigned k = 0; k < 100; k++)
			add("mad.lo.u32 %%r1, %%r1, 3, %u;\n", f + k);
		add("st.param.b32 [r], %%r1;\nret;\n}\n");
	}
	begin_kernel();
	for (unsigned k = 0; k < ROUNDS * MANY; k++) {
		sprintf(name, "f%u", k / MANY % 2 ? MANY - 1 - k % MANY : k % MANY);
		call(name, "%x", "%x");
	}
	end_kernel();
	run("auto");
	for (unsigned n = 0; n < THREADS; n++) {
		uint32_t x = n;

		for (unsigned k = 0; k < ROUNDS * MANY; k++)
			for (unsigned j = 0; j < 100; j++)
				x = x * 3 + (k / MANY % 2 ? MANY - 1 - k % MANY : k % MANY) + j;
		assert_int_equal(out32[n], x);
	}
	free(text);
}

/* Some lanes call before all shuffle. */
static void meetings(void **state)
{
	uint32_t x[THREADS];

	(void)state;
	begin();
	add_leaf();
	begin_kernel();
	for (unsigned k = 0; k < CALLS; k++)
		call("leaf", "%x", "%x");
	add("mov.u32 %%r5, 0;\n$again:\nshr.u32 %%r4, %%x, 3;\nand.b32 %%r4, %%r4, 1;\nsetp.ne.u32 %%p1, %%r4, 0;\n"
	    "@%%p1 bra $call;\n$join:\nshfl.sync.bfly.b32 %%r6, %%x, 1, 31, -1;\nadd.u32 %%r5, %%r5, 1;\n"
	    "mad.lo.u32 %%x, %%x, 3, %%r6;\nsetp.lt.u32 %%p2, %%r5, 8;\n@%%p2 bra $again;\nbra $done;\n$call:\n");
	call("leaf", "%x", "%x");
	add("bra $join;\n$done:\nsetp.eq.u32 %%p3, %%r1, 5;\n@%%p3 bra $end;\n");
	call("leaf", "%x", "%x");
	add("$end:\n");
	end_kernel();
	run("auto");
	for (unsigned n = 0; n < THREADS; n++)
		for (unsigned k = 0; k < CALLS; k++)
			x[n] = leaf(k ? x[n] : n);
	for (unsigned round = 0; round < 8; round++) {
		for (unsigned n = 0; n < THREADS; n++)
			x[n] = x[n] & 8 ? leaf(x[n]) : x[n];
		for (unsigned n = 0; n < THREADS; n += 2) {
			uint32_t other = x[n + 1];

			x[n + 1] = x[n + 1] * 3 + x[n];
			x[n] = x[n] * 3 + other;
		}
	}
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n == 5 ? x[n] : leaf(x[n]));
	free(text);
}

/* ---- the same results as with all inlined ---- */

static void run_random(const struct random_kernel *k, struct ptx_module *m, uint8_t *out, uint8_t *in)
{
	void *params[2] = {out, in};
	struct ptx_fault fault;

	memset(out, 0, RANDOM_OUT);
	if (!launch(m, k->blocks, k->threads, 1, 0, params, &fault))
		fail_msg("kernel %lu: fault %d at line %u", (unsigned long)k->seed, fault.kind, fault.line);
}

static unsigned count_calls(const char *from)
{
	unsigned count = 0;

	while ((from = strstr(from, "call (")))
		from++, count++;
	return count;
}

static void random_kernels(void **state)
{
	uint8_t *in = malloc(RANDOM_IN), *out[2] = {malloc(RANDOM_OUT), malloc(RANDOM_OUT)};
	unsigned compared = 0;

	(void)state;
	assert_true(in && out[0] && out[1]);
	setenv("VCUDA_CPU_COMPILE", "auto", 1);
	for (unsigned n = 0; n < RANDOM_IN; n++)
		in[n] = (uint8_t)(n * 2654435761u >> 13);
	for (uint64_t seed = test_seed(); compared < 6; seed++) {
		struct random_kernel k;

		random_kernel_make(&k, seed);
		text = random_kernel_text(&k, NULL);
		for (unsigned round = 0; count_calls(text) > 2 && round < 2; round++) {
			struct ptx_module *m;

			ptx_most_inlined = round ? 0 : PTX_MOST_INLINED;
			map.count = 0;
			add_range(in, RANDOM_IN, false);
			add_range(out[round], RANDOM_OUT, true);
			m = load(text);
			run_random(&k, m, out[round], in);
			ptx_module_destroy(m);
			if (round && memcmp(out[0], out[1], RANDOM_OUT))
				fail_msg("kernel %lu", (unsigned long)seed);
			compared += round;
		}
		free(text);
		random_kernel_free(&k);
	}
	free(in);
	free(out[0]);
	free(out[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(too_large),      cmocka_unit_test(alone),    cmocka_unit_test(stacks),
		cmocka_unit_test(many_functions), cmocka_unit_test(meetings), cmocka_unit_test(prints),
		cmocka_unit_test(random_kernels),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Large texts, whose bodies are read when a kernel needs them: what that costs does not grow with the rest. Large
 * kernels. */
#include <time.h>

#include "softgpu/test/harness.h"
#include "softgpu/runtime/ptx-run.h"
#include "softgpu/front/ptx-source.h"

#define MANY_NAMES 20000
#define MANY_KERNELS 300
#define MANY_FUNCTIONS 16000

static struct ptx_module *load_large(char *text, const char *end)
{
	struct ptx_module *m;
	struct ptx_error error;

	if (ptx_module_create(text, (size_t)(end - text), &m, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	free(text);
	assert_non_null(m->facts);
	return m;
}

static char *start_large(char **text, size_t size)
{
	*text = malloc(size);
	assert_non_null(*text);
	return *text + sprintf(*text, "%s", PTX_HEAD);
}

/* Declarations at a text's start add no cost to each later kernel. */
static void many_names(void **state)
{
	struct ptx_error error = {0};
	struct ptx_module *m;
	char *text, *end = start_large(&text, 32 * MANY_NAMES + 64 * MANY_KERNELS + 100);
	size_t used;

	(void)state;
	for (unsigned n = 0; n < MANY_NAMES; n++)
		end += sprintf(end, ".global .u32 a%u;\n", n);
	for (unsigned n = 0; n < MANY_KERNELS; n++)
		end += sprintf(end, ".visible .entry k%u()\n{\nret;\n}\n", n);
	m = load_large(text, end);
	used = m->arena.used;
	for (unsigned n = 0; n < MANY_KERNELS; n++)
		if (ptx_source_read(ptx_module_kernel(m, n), &error) != PTX_OK)
			fail_msg("kernel %u: %s", n, error.text);
	assert_true(m->arena.used - used < 4096 * MANY_KERNELS);
	ptx_module_destroy(m);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Bodies are read in the order of calls: going to and fro in the text takes no longer than reading it in order. */
static void any_order(void **state)
{
	struct ptx_error error = {0};
	struct ptx_module *m;
	char *text, *end = start_large(&text, 96 * MANY_FUNCTIONS + 100);
	double start = seconds(), loaded;

	(void)state;
	for (unsigned n = 0; n < MANY_FUNCTIONS; n++)
		end += sprintf(end, ".func f%u() {ret;}\n.const .u8 a%u;\n", n, n);
	end += sprintf(end, ".visible .entry k()\n{\n");
	for (unsigned n = 0; n < MANY_FUNCTIONS / 2; n++)
		end += sprintf(end, "call f%u;\ncall f%u;\n", n, MANY_FUNCTIONS - 1 - n);
	end += sprintf(end, "ret;\n}\n");
	m = load_large(text, end);
	loaded = seconds();
	assert_int_equal(ptx_source_read(ptx_module_kernel(m, 0), &error), PTX_OK);
	assert_true(seconds() - loaded < 3 * (loaded - start));
	ptx_module_destroy(m);
}

/*
 * As many instructions as quick code is made of in seconds. Each has a register of its own, which few other blocks
 * need; lanes part before each section, and come together for a barrier now and then.
 */
#define SECTIONS 1100
#define SECTION 60

static char *add_section(char *end, unsigned n)
{
	unsigned at = n * (SECTION + 2) + 10;

	end += sprintf(end,
		       "shr.u32 %%r1, %%x, %u;\nand.b32 %%r1, %%r1, 1;\nsetp.ne.u32 %%p1, %%r1, 0;\n@%%p1 bra $l%u;\n",
		       n % 8, n);
	end += sprintf(end, "xor.b32 %%r%u, %%x, %u;\n", at, n);
	for (unsigned k = 0; k < SECTION; k++, at++)
		end += sprintf(end, "mad.lo.u32 %%r%u, %%r%u, 3, %u;\n", at + 1, at, k);
	end += sprintf(end, "add.u32 %%x, %%x, %%r%u;\n$l%u:\n", at, n);
	return end + sprintf(end, "add.u32 %%x, %%x, 1;\n%s", n % 16 ? "" : "bar.sync 0;\n");
}

static uint32_t sections(uint32_t x)
{
	for (unsigned n = 0; n < SECTIONS; n++) {
		if (!(x >> n % 8 & 1)) {
			uint32_t r = x ^ n;

			for (unsigned k = 0; k < SECTION; k++)
				r = r * 3 + k;
			x += r;
		}
		x++;
	}
	return x;
}

static void many_instructions(void **state)
{
	char *text, *end = start_large(&text, 64ul * SECTIONS * SECTION + 1000);
	struct ptx_module *m;

	(void)state;
	end += sprintf(
		end,
		".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n.reg .pred %%p<4>;\n"
		".reg .b32 %%r<%u>, %%x;\n.reg .b64 %%l<8>;\nld.param.u64 %%l1, [p_out];\nmov.u32 %%x, %%tid.x;\n"
		"mul.wide.u32 %%l3, %%x, 4;\nadd.s64 %%l3, %%l1, %%l3;\n",
		SECTIONS * (SECTION + 2) + 20);
	for (unsigned n = 0; n < SECTIONS; n++)
		end = add_section(end, n);
	strcpy(end, "st.global.u32 [%l3], %x;\nret;\n}\n");
	m = load_binary(text, 32);
	launch_binary(m, 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], sections(n));
	ptx_module_destroy(m);
	free(text);
}

#define MANY_TARGETS 1000

/* The optimiser's time grows with the square of a brx.idx's targets: with many of them the code stays quick. */
static void many_targets(void **state)
{
	const uint32_t block[3] = {32, 1, 1};
	const struct ptx_binary *binary;
	struct ptx_error error = {0};
	struct ptx_module *m;
	char *text, *end = start_large(&text, 128 * MANY_TARGETS + 1000);

	(void)state;
	setenv("VCUDA_CPU_COMPILE", "optimised", 1);
	end += sprintf(end, ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %%r<4>;\n.reg .b64 %%l<2>;\n"
			    "ld.param.u64 %%l1, [p];\nmov.u32 %%r1, %%tid.x;\nT: .branchtargets L0");
	for (unsigned n = 1; n < MANY_TARGETS; n++)
		end += sprintf(end, ", L%u", n);
	end += sprintf(end, ";\nbrx.idx %%r1, T;\n");
	for (unsigned n = 0; n < MANY_TARGETS; n++)
		end += sprintf(end, "L%u: xor.b32 %%r1, %%r1, %u;\nbra E;\n", n, n + 1);
	end += sprintf(end, "E: st.global.u32 [%%l1], %%r1;\nret;\n}\n");
	assert_int_equal(ptx_module_create(text, (size_t)(end - text), &m, &error), PTX_OK);
	free(text);
	if (ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error) != PTX_OK)
		fail_msg("line %u: %s", error.line, error.text);
	assert_true(binary->full->quick);
	unsetenv("VCUDA_CPU_COMPILE");
	ptx_module_destroy(m);
}

#define MANY_CALLS 200u

/*
 * A place of the kernel that many others jump to, and that jumps back to each of them, as machine code calls a
 * function: from inside a loop, and each time only some lanes.
 */
static void many_calls(void **state)
{
	char *text, *end = start_large(&text, 256ul * MANY_CALLS + 2000);
	struct ptx_module *m;

	(void)state;
	end += sprintf(
		end,
		".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n.reg .pred %%p<4>;\n.reg .b32 %%r<8>, "
		"%%x;\n"
		".reg .b64 %%l<8>;\nld.param.u64 %%l1, [p_out];\nmov.u32 %%x, %%tid.x;\nmul.wide.u32 %%l3, %%x, 4;\n"
		"add.s64 %%l3, %%l1, %%l3;\nmov.u32 %%r1, 0;\nL:\n");
	for (unsigned n = 0; n < MANY_CALLS; n++)
		end += sprintf(
			end,
			"shr.u32 %%r2, %%x, %u;\nand.b32 %%r2, %%r2, 1;\nsetp.ne.u32 %%p1, %%r2, 0;\n@%%p1 bra R%u;\n"
			"mov.u32 %%r3, %u;\nbra F;\nR%u: add.u32 %%x, %%x, 1;\n",
			n % 8, n, n, n);
	end += sprintf(
		end,
		"add.u32 %%r1, %%r1, 1;\nsetp.lt.u32 %%p1, %%r1, 3;\n@%%p1 bra L;\nst.global.u32 [%%l3], %%x;\nret;\n"
		"F: mad.lo.u32 %%x, %%x, 3, %%r3;\n");
	for (unsigned n = 0; n < MANY_CALLS; n++)
		end += sprintf(end, "setp.eq.u32 %%p2, %%r3, %u;\n@%%p2 bra R%u;\n", n, n);
	strcpy(end, "trap;\n}\n");
	m = load_binary(text, 32);
	launch_binary(m, 32);
	for (unsigned lane = 0; lane < THREADS; lane++) {
		uint32_t x = lane;

		for (unsigned k = 0; k < 3 * MANY_CALLS; k++)
			x = (x >> k % MANY_CALLS % 8 & 1 ? x : x * 3 + k % MANY_CALLS) + 1;
		assert_int_equal(out32[lane], x);
	}
	ptx_module_destroy(m);
	free(text);
}

/* As many as are taken. */
#define MOST_LOOPS 400u

/* Loops in loops: the outermost one runs three times, the others once. */
static char *nested(unsigned depth)
{
	char *text, *end = start_large(&text, 128ul * depth + 2000);

	end += sprintf(
		end,
		".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n.reg .pred %%p<4>;\n.reg .b32 %%r<8>, "
		"%%x;\n"
		".reg .b64 %%l<8>;\nld.param.u64 %%l1, [p_out];\nmov.u32 %%x, %%tid.x;\nmul.wide.u32 %%l3, %%x, 4;\n"
		"add.s64 %%l3, %%l1, %%l3;\nmov.u32 %%r1, 0;\n");
	for (unsigned n = 0; n < depth; n++)
		end += sprintf(end, "L%u: add.u32 %%r1, %%r1, 1;\n", n);
	for (unsigned n = depth; n-- > 1;)
		end += sprintf(end, "setp.eq.u32 %%p1, %%r1, %u;\n@%%p1 bra L%u;\n", UINT32_MAX - n, n);
	sprintf(end,
		"add.u32 %%x, %%x, %%r1;\nsetp.lt.u32 %%p1, %%r1, %u;\n@%%p1 bra L0;\nst.global.u32 [%%l3], "
		"%%x;\nret;\n}\n",
		3 * depth);
	return text;
}

static void nested_loops(void **state)
{
	const uint32_t block[3] = {32, 1, 1};
	const struct ptx_binary *binary;
	struct ptx_error error = {0};
	struct ptx_module *m;
	char *text = nested(MOST_LOOPS);

	(void)state;
	m = load_binary(text, 32);
	launch_binary(m, 32);
	for (unsigned lane = 0; lane < THREADS; lane++)
		assert_int_equal(out32[lane], lane + MOST_LOOPS * (1 + 2 + 3));
	ptx_module_destroy(m);
	free(text);

	text = nested(MOST_LOOPS + 2);
	assert_int_equal(ptx_module_create(text, strlen(text), &m, &error), PTX_OK);
	free(text);
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, &error), PTX_NOT_SUPPORTED);
	assert_non_null(strstr(error.text, "loops are nested too deeply"));
	ptx_module_destroy(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(many_calls),   cmocka_unit_test(nested_loops),
					   cmocka_unit_test(many_targets), cmocka_unit_test(many_names),
					   cmocka_unit_test(any_order),    cmocka_unit_test(many_instructions)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Quick code first, optimised code once it is hot, and no waiting for code that only another kernel needs. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "softgpu/test/harness.h"
#include "common/log.h"
#include "softgpu/front/ptx-statistics.h"
#include "softgpu/jit/ptx-tier.h"
#include "softgpu/jit/ptx-version.h"

/* x = x * 3 + n, so many times; odd lanes do less. `loop`: a loop of one round comes before the end. */
static char *kernel_of(unsigned steps, bool loop)
{
	char *text = malloc(1000 + 64ul * steps);
	int n = sprintf(text, "%s",
			PTX_HEAD ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"
				 ".reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %l<8>;\n"
				 "ld.param.u64 %l1, [p_out];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\n"
				 "mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\n"
				 "and.b32 %r3, %r1, 1;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra $odd;\n");

	for (unsigned k = 0; k < steps; k++)
		n += sprintf(text + n, "mad.lo.u32 %%r2, %%r2, 3, %u;\n%s", k, k == steps / 2 ? "$odd:\n" : "");
	if (loop)
		n += sprintf(text + n, "mov.u32 %%r4, 0;\n$again:\nadd.u32 %%r4, %%r4, 1;\nsetp.lt.u32 %%p2, %%r4, 1;\n"
				       "@%%p2 bra $again;\n");
	strcpy(text + n, "st.global.u32 [%l3], %r2;\nret;\n}\n");
	return text;
}

static char *large_kernel(unsigned steps)
{
	return kernel_of(steps, true);
}

static uint32_t expected(unsigned steps, uint32_t thread)
{
	uint32_t x = thread;

	for (unsigned k = thread & 1 ? steps / 2 + 1 : 0; k < steps; k++)
		x = x * 3 + k;
	return x;
}

static void run_large(struct ptx_module *m, unsigned steps)
{
	memset(out32, 0, sizeof(out32));
	launch_binary(m, 32);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], expected(steps, n));
}

static const struct ptx_binary *binary_of(struct ptx_module *m)
{
	const uint32_t block[3] = {THREADS, 1, 1};
	const struct ptx_binary *b;
	struct ptx_error error;

	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &b, &error), PTX_OK);
	return b;
}

static const struct ptx_machine_code *full_of(struct ptx_module *m)
{
	return __atomic_load_n(&binary_of(m)->full, __ATOMIC_ACQUIRE);
}

static const struct ptx_machine_code *masked_of(struct ptx_module *m)
{
	return __atomic_load_n(&binary_of(m)->masked, __ATOMIC_ACQUIRE);
}

static void run_until_hot(struct ptx_module *m)
{
	const struct ptx_machine_code *full = full_of(m);

	while (!__atomic_load_n(&full->hot, __ATOMIC_RELAXED))
		launch_binary(m, 32);
}

static bool is_quick(const struct ptx_machine_code *code)
{
	return code && code->quick;
}

/* Lanes of the smaller one part within the full version. */
static void switches_at(unsigned steps, bool has_masked)
{
	char *text = large_kernel(steps);
	struct ptx_module *m = load_binary(text, 32);
	const struct ptx_binary *b = binary_of(m);
	struct ptx_statistics before, after;

	assert_true(full_of(m)->quick);
	run_large(m, steps);
	assert_int_equal(is_quick(masked_of(m)), has_masked);
	/* code that runs for less time than its compilation takes is not optimised */
	ptx_statistics_get(&before);
	ptx_tier_wait();
	ptx_statistics_get(&after);
	assert_int_equal(after.compiled, before.compiled);
	while (is_quick(full_of(m)) || is_quick(masked_of(m)))
		launch_binary(m, 32);
	assert_non_null(b->full->older);
	assert_ptr_equal(binary_of(m), b);
	run_large(m, steps);
	ptx_tier_wait();
	ptx_module_destroy(m);
	free(text);
}

static void switches(void **state)
{
	(void)state;
	switches_at(400, true);
	switches_at(60, false);
}

/* One block of a launch that was made with this binary. */
static void run_with(const struct ptx_binary *b, void *out, size_t bytes)
{
	void *params[2] = {out, in32};
	struct ptx_launch l = {
		.grid = {1, 1, 1}, .block = {THREADS, 1, 1}, .params = params, .memory = &map, .binary = b};
	struct ptx_fault fault;

	memset(out, 0, bytes);
	assert_true(ptx_run_blocks(&l, 0, 1, &fault));
}

/* A kernel without loops has scalar code first, another binary of 32 lanes once it is hot, and then optimised code. */
static void scalar(void **state)
{
	char *text = kernel_of(400, false);
	struct ptx_module *m = load_binary(text, 32);
	const struct ptx_binary *b = binary_of(m), *better;
	uint64_t ran;

	(void)state;
	assert_true(b->scalar && b->full->quick);
	assert_int_equal(b->lanes, 1);
	run_large(m, 400);
	assert_null(b->masked);
	while (!__atomic_load_n(&b->full->hot, __ATOMIC_RELAXED))
		launch_binary(m, 32);
	ptx_tier_wait();
	better = binary_of(m);
	ran = __atomic_load_n(&b->full->ran_ns, __ATOMIC_RELAXED);
	assert_ptr_equal(better, b->better);
	assert_int_equal(better->lanes, 32);
	assert_true(better->full->quick && !better->scalar);
	run_large(m, 400);
	/* lanes part in it, and a launch that was made before runs it, too */
	assert_non_null(masked_of(m));
	run_with(b, out32, sizeof(out32));
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], expected(400, n));
	assert_true(__atomic_load_n(&b->full->ran_ns, __ATOMIC_RELAXED) == ran);
	while (is_quick(full_of(m)))
		launch_binary(m, 32);
	assert_ptr_equal(binary_of(m), better);
	run_large(m, 400);
	ptx_tier_wait();
	ptx_module_destroy(m);
	free(text);
}

/* Threads that work together, blocks that may run for long, and small kernels have code of 32 lanes. */
static void not_scalar(void **state)
{
	static const struct {
		const char *body;
		unsigned steps;
		bool scalar;
	} kernels[] = {
		{"", 40, true},
		{"", 10, false},
		{"bar.sync 0;\n", 40, false},
		{".shared .u32 s[32];\nst.shared.u32 [s], %r1;\n", 40, false},
		{"shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;\n", 40, false},
		{"$again:\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p1, %r1, 40;\n@%p1 bra $again;\n", 40, false},
	};

	(void)state;
	for (size_t k = 0; k < sizeof(kernels) / sizeof(*kernels); k++) {
		char text[4096];
		struct ptx_module *m;
		int n = sprintf(
			text, PTX_HEAD
			".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n.reg .pred %%p<4>;\n"
			".reg .b32 %%r<8>;\n.reg .b64 %%l<4>;\nld.param.u64 %%l1, [p_out];\nmov.u32 %%r1, %%tid.x;\n");

		for (unsigned step = 0; step < kernels[k].steps; step++)
			n += sprintf(text + n, "mad.lo.u32 %%r1, %%r1, %%r1, %u;\n", step);
		sprintf(text + n, "%sst.global.u32 [%%l1], %%r1;\nret;\n}\n", kernels[k].body);
		m = load_binary(text, 32);
		assert_int_equal(binary_of(m)->scalar, kernels[k].scalar);
		ptx_module_destroy(m);
	}
}

/* A block of one thread often runs for long, and ends in the code that it began in. */
static void one_lane_at_once(void **state)
{
	const uint32_t one[3] = {1, 1, 1};
	char *text = large_kernel(120);
	struct ptx_module *m = load_binary(text, 32);
	const struct ptx_binary *b;
	struct ptx_error error;

	(void)state;
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), one, &b, &error), PTX_OK);
	assert_false(b->full->quick);
	ptx_module_destroy(m);
	free(text);
}

#define STEPS 96
#define LOCALS 12

/* A loop with two ways in, lanes of each, and registers that live for a few instructions only. */
static char *two_ways_in(void)
{
	char *text = malloc(1000 + STEPS * (200ul + 100 * LOCALS));
	int n = sprintf(text,
			PTX_HEAD ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"
				 ".reg .pred %%p<4>;\n.reg .b32 %%r<8>;\n.reg .b64 %%l<8>, %%x, %%q<%u>;\n"
				 "ld.param.u64 %%l1, [p_out];\nmov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%l3, %%r1, 8;\n"
				 "add.s64 %%l3, %%l1, %%l3;\ncvt.u64.u32 %%x, %%r1;\nmov.u32 %%r2, 0;\n"
				 "and.b32 %%r3, %%r1, 1;\nsetp.ne.u32 %%p1, %%r3, 0;\n@%%p1 bra $s%u;\n",
			STEPS * LOCALS, STEPS / 2);

	for (unsigned k = 0; k < STEPS; k++) {
		n += sprintf(text + n, "$s%u:\nadd.u64 %%q%u, %%x, %u;\n", k, k * LOCALS, k);
		for (unsigned m = 1; m < LOCALS; m++)
			n += sprintf(text + n, "mad.lo.u64 %%q%u, %%q%u, 3, %%x;\n", k * LOCALS + m,
				     k * LOCALS + m - 1);
		n += sprintf(text + n,
			     "mov.u64 %%x, %%q%u;\nand.b64 %%l4, %%x, 16;\nsetp.ne.u64 %%p2, %%l4, 0;\n"
			     "@%%p2 bra $t%u;\nadd.u64 %%x, %%x, 7;\n$t%u:\n",
			     k * LOCALS + LOCALS - 1, k, k);
	}
	strcpy(text + n, "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p3, %r2, 2;\n@%p3 bra $s0;\n"
			 "st.global.u64 [%l3], %x;\nret;\n}\n");
	return text;
}

static uint64_t through_both(uint32_t thread)
{
	uint64_t x = thread, q;

	for (unsigned k = thread & 1 ? STEPS / 2 : 0; k < 2 * STEPS; k++) {
		q = x + k % STEPS;
		for (unsigned m = 1; m < LOCALS; m++)
			q = q * 3 + x;
		x = q & 16 ? q : q + 7;
	}
	return x;
}

/* Registers that do not leave their basic block cost the other basic blocks no stack. */
static void short_lives(void **state)
{
	char *text = two_ways_in();
	struct ptx_module *m = load_binary(text, 64);

	(void)state;
	memset(out64, 0, sizeof(out64));
	launch_binary(m, 64);
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out64[n], through_both(n));
	assert_in_range(full_of(m)->stack, 1, 1 << 20);
	ptx_tier_wait();
	ptx_module_destroy(m);
	free(text);
}

/*
 * A kernel of many branches has the masked version alone first. Once that is hot, another binary with both versions
 * takes its place.
 */
static void standalone(void **state)
{
	char *text = two_ways_in();
	struct ptx_module *m = load_binary(text, 64);
	const struct ptx_binary *b = binary_of(m), *better;

	(void)state;
	assert_true(b->standalone && b->full->quick);
	assert_int_equal(b->lanes, 32);
	while ((better = binary_of(m)) == b)
		launch_binary(m, 64);
	assert_null(b->masked);
	assert_ptr_equal(better, b->better);
	assert_false(better->standalone || better->full->quick);
	assert_non_null(better->masked);
	assert_in_range(better->masked->stack, 1, 1 << 20);
	run_with(b, out64, sizeof(out64));
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out64[n], through_both(n));
	ptx_tier_wait();
	ptx_module_destroy(m);
	free(text);
}

/* A block of fewer threads than a warp has lanes stays with the masked version alone, which is optimised once hot. */
static void small_block(void **state)
{
	const uint32_t block[3] = {20, 1, 1};
	char *text = large_kernel(60);
	struct ptx_module *m = load_binary(text, 32);
	void *params[2] = {out32, in32};
	const struct ptx_binary *b, *later;
	struct ptx_fault fault;
	struct ptx_error error;

	(void)state;
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &b, &error), PTX_OK);
	assert_true(b->standalone && b->full->quick);
	while (is_quick(__atomic_load_n(&b->full, __ATOMIC_ACQUIRE)))
		assert_true(launch(m, 1, block[0], 1, 0, params, &fault));
	memset(out32, 0, sizeof(out32));
	assert_true(launch(m, 1, block[0], 1, 0, params, &fault));
	for (unsigned n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n < block[0] ? expected(60, n) : 0);
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &later, &error), PTX_OK);
	assert_ptr_equal(later, b);
	assert_null(b->masked);
	ptx_tier_wait();
	ptx_module_destroy(m);
	free(text);
}

static bool large_done;

static void *prepare_large(void *module)
{
	binary_of(module);
	__atomic_store_n(&large_done, true, __ATOMIC_RELEASE);
	return NULL;
}

/* A small kernel does not wait for a huge kernel that came first. A second launch of the huge one waits and gets it. */
static void no_waiting(void **state)
{
	char *huge = large_kernel(40000), *small = large_kernel(10);
	struct ptx_module *m = load_binary(huge, 32), *other;
	pthread_t threads[2];

	(void)state;
	for (unsigned n = 0; n < 2; n++)
		pthread_create(&threads[n], NULL, prepare_large, m);
	usleep(20000);
	other = load_binary(small, 32);
	run_large(other, 10);
	assert_false(__atomic_load_n(&large_done, __ATOMIC_ACQUIRE));
	for (unsigned n = 0; n < 2; n++)
		pthread_join(threads[n], NULL);
	assert_null(ptx_module_kernel(m, 0)->binaries->next);
	/* and it stays quick */
	ptx_tier_wait();
	assert_true(binary_of(m)->full->quick);
	ptx_module_destroy(other);
	ptx_module_destroy(m);
	free(huge);
	free(small);
}

/* A module that goes while it is compiled in the background. */
static void gone_meanwhile(void **state)
{
	char *text = large_kernel(1500);
	struct ptx_module *m = load_binary(text, 32);

	(void)state;
	run_until_hot(m);
	usleep(10000);
	ptx_module_destroy(m);
	ptx_tier_wait();
	free(text);
}

/* Compiling has an end, whatever the program. */
static void limits(void **state)
{
	const uint32_t block[3] = {THREADS, 1, 1};
	char *huge = large_kernel(265000);
	struct ptx_module *m = load_binary(huge, 32);
	const struct ptx_binary *b;
	struct ptx_error error;

	(void)state;
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &b, &error), PTX_NOT_SUPPORTED);
	assert_non_null(strstr(error.text, "`test` has 265"));
	assert_non_null(strstr(error.text, "more than 262144"));
	assert_int_equal(ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &b, &error), PTX_NOT_SUPPORTED);
	ptx_module_destroy(m);
	free(huge);
}

/* A compiler's message about code that is made while a kernel runs is in the log. */
static void masked_fails(void **state)
{
	char *text = large_kernel(120), log[1000];
	struct ptx_module *m = load_binary(text, 32);
	void *params[2] = {out32, in32};
	struct ptx_fault fault;

	(void)state;
	assert_true(binary_of(m)->full);
	/* as if it were not known: nothing that compiles once fails then but for want of memory */
	ptx_module_kernel(m, 0)->function->instrs[0].op = NULL;
	vcuda_log_capture(log, sizeof(log));
	assert_false(launch(m, 1, THREADS, 1, 0, params, &fault));
	vcuda_log_capture(NULL, 0);
	assert_int_equal(fault.kind, PTX_FAULT_TRAP);
	assert_non_null(strstr(log, "kernel test"));
	assert_non_null(strstr(log, "`ld.param.u64` is not supported"));
	ptx_module_destroy(m);
	free(text);
}

/* A program that ends while the background thread compiles ends at once, with its own status. */
static void ends(void **state)
{
	int status = -1;

	(void)state;
	if (!fork()) {
		char *text = large_kernel(1500);

		alarm(600);
		run_until_hot(load_binary(text, 32));
		free(text);
		exit(7);
	}
	wait(&status);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends),        cmocka_unit_test(switches),     cmocka_unit_test(one_lane_at_once),
		cmocka_unit_test(short_lives), cmocka_unit_test(no_waiting),   cmocka_unit_test(gone_meanwhile),
		cmocka_unit_test(limits),      cmocka_unit_test(masked_fails), cmocka_unit_test(scalar),
		cmocka_unit_test(not_scalar),  cmocka_unit_test(standalone),   cmocka_unit_test(small_block),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that another process compiles: what comes back, and what is made of an end without a result. */
#include <pthread.h>
#include <unistd.h>

#include "softgpu/test/harness.h"
#include "softgpu/backend-cpu.h"
#include "softgpu/jit/ptx-tier.h"

static struct {
	enum vcuda_compile_end end;
	size_t cut; /* number of bytes that are missing at the end of the result */
	unsigned count;
	_Atomic unsigned background;
	_Atomic bool waits; /* jobs in the background, until they are unwanted */
	_Atomic bool waiting;
} plan;

static enum vcuda_compile_end wait_until_unwanted(const struct vcuda_compile_job *job)
{
	plan.waiting = true;
	while (!__atomic_load_n(job->unwanted, __ATOMIC_RELAXED))
		usleep(1000);
	plan.waiting = false;
	return VCUDA_COMPILE_UNWANTED;
}

static enum vcuda_compile_end run(const struct vcuda_compile_job *job, void **result, size_t *bytes, char *why,
				  size_t size)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	bool ok;

	assert_true(!job->background || job->unwanted);
	if (job->background && plan.waits)
		return wait_until_unwanted(job);
	pthread_mutex_lock(&lock);
	plan.count++;
	plan.background += job->background;
	snprintf(why, size, "as planned");
	ok = plan.end == VCUDA_COMPILE_DONE &&
	     vcuda_cpu_compile(job->module, job->order, job->order_bytes, result, bytes);
	if (ok)
		*bytes -= plan.cut < *bytes ? plan.cut : *bytes;
	pthread_mutex_unlock(&lock);
	return ok ? VCUDA_COMPILE_DONE : plan.end;
}

static const struct vcuda_compiler compiler = {.run = run};

static int reset(void **state)
{
	(void)state;
	memset(&plan, 0, sizeof(plan));
	return 0;
}

static const char sum[] = HEAD32("add.u32 %x, %a, %b;\n");
W32(want_sum, a + b)

/* The parser says no more of the function than a version before 3.2 does: it is read with its module. */
static const char whole[] = ".version 3.1\n.target sm_20\n.address_size 64\n.version 9.0\n.target sm_75\n"
			    ".visible .entry test(.param .u64 p_out, .param .u64 p_in)\n{\n"
			    ".reg .b32 %r<4>;\n.reg .b64 %l<4>;\nld.param.u64 %l1, [p_out];\nmov.u32 %r1, %tid.x;\n"
			    "mul.wide.u32 %l2, %r1, 4;\nadd.s64 %l3, %l1, %l2;\nst.global.u32 [%l3], %r1;\nret;\n}\n";

static void comes_back(void **state)
{
	struct ptx_module *m;

	(void)state;
	check32("sum", sum, want_sum);
	assert_int_equal(plan.count, 1);
	m = load_binary(whole, 32);
	memset(out32, 0, sizeof(out32));
	launch_binary(m, 32);
	for (uint32_t n = 0; n < THREADS; n++)
		assert_int_equal(out32[n], n);
	ptx_module_destroy(m);
	assert_int_equal(plan.count, 2);
}

static enum ptx_status prepare(struct ptx_module *m, struct ptx_error *error)
{
	const uint32_t block[3] = {THREADS, 1, 1};
	const struct ptx_binary *binary;

	return ptx_kernel_prepare(ptx_module_kernel(m, 0), block, &binary, error);
}

/* A failure stays, and a lack of memory may pass. */
static void ends_without(void **state)
{
	struct ptx_module *m = load_binary(sum, 32);
	struct ptx_error error;

	(void)state;
	plan.end = VCUDA_COMPILE_NO_MEMORY;
	assert_int_equal(prepare(m, &error), PTX_NO_MEMORY);
	assert_string_equal(error.text, "as planned");
	plan.end = VCUDA_COMPILE_FAILED;
	for (unsigned n = 0; n < 2; n++) {
		assert_int_equal(prepare(m, &error), PTX_INVALID);
		assert_string_equal(error.text, "as planned");
	}
	assert_int_equal(plan.count, 2);
	ptx_module_destroy(m);
	plan.end = VCUDA_COMPILE_DONE;
	check32("sum", sum, want_sum);
}

static void says_what_is_wrong(void **state)
{
	struct ptx_error here, there;
	struct ptx_module *m = load_binary(HEAD32("multimem.ld_reduce.global.add.u32 %x, [%l1];\n"), 32);

	(void)state;
	assert_int_equal(prepare(m, &there), PTX_NOT_SUPPORTED);
	ptx_module_destroy(m);
	vcuda_cpu_compile_with(NULL);
	m = load_binary(HEAD32("multimem.ld_reduce.global.add.u32 %x, [%l1];\n"), 32);
	assert_int_equal(prepare(m, &here), PTX_NOT_SUPPORTED);
	ptx_module_destroy(m);
	vcuda_cpu_compile_with(&compiler);
	assert_int_equal(here.line, there.line);
	assert_string_equal(here.text, there.text);
}

static void makes_no_sense(void **state)
{
	struct ptx_error error;

	(void)state;
	for (plan.cut = 1; plan.cut < 1u << 20; plan.cut *= 3) {
		struct ptx_module *m = load_binary(sum, 32);

		assert_int_equal(prepare(m, &error), PTX_INVALID);
		assert_non_null(strstr(error.text, "makes no sense"));
		ptx_module_destroy(m);
	}
}

static char *large_kernel(void)
{
	const unsigned steps = 1500;
	char *text = malloc(2000 + 64ul * steps);
	int n = sprintf(text, "%s", REGISTERS "mul.wide.u32 %l3, %r1, 4;\nadd.s64 %l3, %l1, %l3;\nmov.u32 %r2, %r1;\n");

	for (unsigned k = 0; k < steps; k++)
		n += sprintf(text + n, "mad.lo.u32 %%r2, %%r2, 3, %u;\n", k);
	strcpy(text + n, "st.global.u32 [%l3], %r2;\nret;\n}\n");
	return text;
}

/* Better code is compiled in the background, until its module is gone. */
static void goes_with_its_module(void **state)
{
	char *text = large_kernel();
	struct ptx_module *m = load_binary(text, 32);

	(void)state;
	while (!plan.background)
		launch_binary(m, 32);
	ptx_tier_wait();
	assert_int_equal(plan.background, 1);
	ptx_module_destroy(m);
	plan.waits = true;
	m = load_binary(text, 32);
	while (!plan.waiting)
		launch_binary(m, 32);
	ptx_module_destroy(m);
	ptx_tier_wait();
	assert_false(plan.waiting);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(comes_back, reset),           cmocka_unit_test_setup(ends_without, reset),
		cmocka_unit_test_setup(says_what_is_wrong, reset),   cmocka_unit_test_setup(makes_no_sense, reset),
		cmocka_unit_test_setup(goes_with_its_module, reset),
	};

	vcuda_cpu_compile_with(&compiler);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

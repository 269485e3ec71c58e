/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX that is refused when it is loaded: the code, and the line and the reason in the log, from each call that loads.
 * The wrong instruction is in a kernel that is never launched, behind a correct kernel.
 */
#include "softgpu/test/backend-cpu-test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/machine-code.h"

/* Ten lines; what a case has is at line 10. */
#define FRAME                                                                                                          \
	".version %s\n.target %s\n.address_size 64\n.visible .entry good() { ret; }\n"                                 \
	".visible .entry never(.param .u64 p)\n{\n.reg .b32 %%r<9>; .reg .b64 %%l<9>; .reg .f32 %%f<9>;\n"              \
	".reg .pred %%p<9>;\nld.param.u64 %%l1, [p];\n%s\nret;\n}\n"

static const struct refusal {
	const char *version, *target, *text;
	CUresult result;
	unsigned line;
	const char *why;
} refusals[] = {
	{"9.0", "sm_90", "frobnicate.u32 %r1, %r2;", CUDA_ERROR_INVALID_PTX, 10,
	 "Not a name of any known instruction: 'frobnicate'"},
	{"9.0", "sm_90", "add.foo.u32 %r1, %r2, %r3;", CUDA_ERROR_INVALID_PTX, 10, "Unknown modifier '.foo'"},
	{"9.0", "sm_90", "add.volatile.u32 %r1, %r2, %r3;", CUDA_ERROR_INVALID_PTX, 10,
	 "Illegal modifier '.volatile' for instruction 'add'"},
	{"9.0", "sm_90", "sin.approx.f64 %l1, %l2;", CUDA_ERROR_INVALID_PTX, 10,
	 "Unexpected instruction types specified for 'sin'"},
	{"9.0", "sm_90", "sin.f32 %f1, %f2;", CUDA_ERROR_INVALID_PTX, 10, "sin"},
	{"9.0", "sm_90", "mul.u32 %r1, %r2, %r3;", CUDA_ERROR_INVALID_PTX, 10, "mul"},
	{"9.0", "sm_90", "add.u32 5, %r2, %r3;", CUDA_ERROR_INVALID_PTX, 10, "Result register required"},
	{"9.0", "sm_90", "add.u32 %r1, %r2, 1.5;", CUDA_ERROR_INVALID_PTX, 10, "Arguments mismatch"},
	{"9.0", "sm_90", "add.u32 %r1, %r2, [%l1];", CUDA_ERROR_INVALID_PTX, 10, "Address is not allowed"},
	{"9.0", "sm_90", "ld.global.u32 %r1, %l1;", CUDA_ERROR_INVALID_PTX, 10, "Address expected"},
	{"9.0", "sm_90", "ld.global.v2.u32 %r1, [%l1];", CUDA_ERROR_INVALID_PTX, 10, "vector size mismatch"},
	{"9.0", "sm_90", "add.u32 %r1, %r2, %tid.x;", CUDA_ERROR_INVALID_PTX, 10, "Special register"},
	{"7.0", "sm_80", "fence.proxy.async;", CUDA_ERROR_INVALID_PTX, 10, "requires PTX ISA .version 8.0 or later"},
	{"9.0", "sm_80", "elect.sync %r1|%p1, -1;", CUDA_ERROR_INVALID_PTX, 10, "requires .target sm_90 or higher"},
	{"9.0", "sm_90", "setmaxnreg.inc.sync.aligned.u32 64;", CUDA_ERROR_INVALID_PTX, 10, "'sm_90'"},
	/* not implemented, but looked at */
	{"9.0", "sm_90", "multimem.ld_reduce.global.add.u32 %r1;", CUDA_ERROR_INVALID_PTX, 10, "operands"},
	{"7.0", "sm_90", "ret;", CUDA_ERROR_INVALID_PTX, 2, "PTX .version 7.0 does not support .target sm_90"},
	{"9.9", "sm_90", "ret;", CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 1, "Unsupported .version 9.9; current version is '9.0'"},
	{"9.0", "sm_131", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "sm_131"},
	/* for other devices: the setting that makes this one such a device is named */
	{"9.0", "sm_90a", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2,
	 "Program with .target 'sm_90a' cannot be compiled to architecture 'sm_120'"},
	{"9.0", "sm_90a", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "set VCUDA_CPU_COMPUTE=9.0"},
	{"9.0", "sm_90f", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "sm_90f"},
	{"9.0", "sm_100a", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "set VCUDA_CPU_COMPUTE=10.0"},
	{"9.0", "sm_100f", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "set VCUDA_CPU_COMPUTE=10.0"},
	{"9.0", "sm_103f", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "set VCUDA_CPU_COMPUTE=10.3"},
	{"9.0", "sm_110a", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "set VCUDA_CPU_COMPUTE=11.0"},
	{"9.0", "sm_121", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "set VCUDA_CPU_COMPUTE=12.1"},
	{"9.0", "sm_121f", "ret;", CUDA_ERROR_NO_BINARY_FOR_GPU, 2, "set VCUDA_CPU_COMPUTE=12.1"},
};

static const char *text_of(const struct refusal *r)
{
	static char text[1024];

	snprintf(text, sizeof(text), FRAME, r->version, r->target, r->text);
	return text;
}

static void expect_log(const struct refusal *r, const char *log)
{
	char line[32];

	snprintf(line, sizeof(line), "line %u ", r->line);
	if (!strstr(log, line) || !strstr(log, r->why))
		fail_msg("%s: the log says: %s", r->text, log);
}

static void refused_at_load(void **state)
{
	char errors[400];
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	CUmodule module;

	for (size_t n = 0; n < sizeof(refusals) / sizeof(refusals[0]); n++) {
		const struct refusal *r = &refusals[n];
		void *values[] = {errors, (void *)sizeof(errors)};

		assert_int_equal(cuda->cuModuleLoadData(&module, text_of(r)), r->result);
		assert_int_equal(cuda->cuModuleLoadDataEx(&module, text_of(r), 2, options, values), r->result);
		expect_log(r, errors);
	}
}

static void refused_in_a_library(void **state)
{
	CUlibrary library;

	for (size_t n = 0; n < sizeof(refusals) / sizeof(refusals[0]); n++)
		assert_int_equal(cuda->cuLibraryLoadData(&library, text_of(&refusals[n]), NULL, NULL, 0, NULL, NULL, 0),
				 refusals[n].result);
}

static void refused_by_the_linker(void **state)
{
	for (size_t n = 0; n < sizeof(refusals) / sizeof(refusals[0]); n++) {
		const char *text = text_of(&refusals[n]);
		void *link;

		assert_int_equal(cuda->cuLinkCreate_v2(0, NULL, NULL, &link), CUDA_SUCCESS);
		assert_int_equal(cuda->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)text, strlen(text) + 1, "text",
							0, NULL, NULL),
				 refusals[n].result);
		assert_int_equal(cuda->cuLinkDestroy(link), CUDA_SUCCESS);
	}
}

/* Targets that a device of 12.0 accepts. */
static void taken_at_load(void **state)
{
	static const char *const targets[] = {"sm_50", "sm_90", "sm_100", "sm_101", "sm_110", "sm_120", "sm_120a", "sm_120f"};

	for (size_t n = 0; n < sizeof(targets) / sizeof(targets[0]); n++) {
		const struct refusal right = {"9.0", targets[n], "ret;", CUDA_SUCCESS, 0, ""};
		CUmodule module;

		assert_int_equal(cuda->cuModuleLoadData(&module, text_of(&right)), CUDA_SUCCESS);
		assert_int_equal(launch(function(module, "good"), 1, 1, NULL, NULL), CUDA_SUCCESS);
		assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	}
}

/* A driver is given machine code there, and does not look at the PTX's version. */
static void newer_for_machine_code(void **state)
{
	const struct refusal newer = {"9.9", "sm_120", "ret;", CUDA_SUCCESS, 0, ""};
	const struct refusal other = {"9.9", "sm_90a", "ret;", CUDA_SUCCESS, 0, ""};
	char text[1200];
	CUmodule module;

	snprintf(text, sizeof(text), "%s%s", VCUDA_FOR_MACHINE_CODE, text_of(&newer));
	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_SUCCESS);
	assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	snprintf(text, sizeof(text), "%s%s", VCUDA_FOR_MACHINE_CODE, text_of(&other));
	assert_int_equal(cuda->cuModuleLoadData(&module, text), CUDA_ERROR_NO_BINARY_FOR_GPU);
}

/* PTX that is not implemented is loaded, as it is natively, and refused when it is launched. */
static void loaded_and_not_launched(void **state)
{
	static const struct refusal loads[] = {
		{"9.0", "sm_90", "multimem.ld_reduce.global.add.u32 %r1, [%l1];", CUDA_SUCCESS, 0, ""},
		{"9.0", "sm_90", "txq.channel_order.b32 %r1, [%l1];", CUDA_SUCCESS, 0, ""},
	};

	for (size_t n = 0; n < sizeof(loads) / sizeof(loads[0]); n++) {
		uint64_t p = 0;
		void *params[] = {&p};
		CUmodule module;

		assert_int_equal(cuda->cuModuleLoadData(&module, text_of(&loads[n])), CUDA_SUCCESS);
		assert_int_equal(launch(function(module, "good"), 1, 1, NULL, NULL), CUDA_SUCCESS);
		assert_int_equal(launch(function(module, "never"), 1, 1, NULL, params), CUDA_ERROR_NOT_SUPPORTED);
		assert_int_equal(cuda->cuModuleUnload(module), CUDA_SUCCESS);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		IN_CONTEXT(refused_at_load),
		IN_CONTEXT(refused_in_a_library),
		IN_CONTEXT(refused_by_the_linker),
		IN_CONTEXT(taken_at_load),
		IN_CONTEXT(newer_for_machine_code),
		IN_CONTEXT(loaded_and_not_launched),
	};

	start_device();
	setenv("VCUDA_CPU_COMPUTE", "12.0", 1);
	if (cuda->cuInit(0) != CUDA_SUCCESS)
		return 2;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

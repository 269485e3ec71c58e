/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has kernels compiled, one for each line of stdin, and writes a line with the result of the launch:
 *
 * - targets N: a branch to one of N targets. The time that it takes to compile grows with N, and the memory as well.
 * - steps N: so many instructions in a row.
 * - mixed N: so many pairs of instructions of seven registers. NVIDIA's compiler takes half a minute for 60,000.
 * - launches N: the last kernel runs so often.
 * - unload: the module of the last kernel goes; the line says "0".
 */
#include "pair.h"

#define LINE_BYTES 64

static CUmodule module;
static CUfunction function;

static void unload(void)
{
	if (module)
		OK(cuModuleUnload(module));
	module = NULL;
}

static void write_targets(FILE *text, unsigned int count)
{
	fputs("list: .branchtargets t0", text);
	for (unsigned int i = 1; i < count; i++)
		fprintf(text, ", t%u", i);
	fputs(";\nbrx.idx %r1, list;\n", text);
	for (unsigned int i = 0; i < count; i++)
		fprintf(text, "t%u: add.u32 %%r2, %%r2, %u; bra end;\n", i, i);
	fputs("end:\n", text);
}

static void write_steps(FILE *text, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		fprintf(text, "mad.lo.u32 %%r2, %%r2, 3, %u;\n", i);
}

static void write_mixed(FILE *text, unsigned int count)
{
	fputs(".reg .b32 %m<7>;\n", text);
	for (unsigned int i = 0; i < 7; i++)
		fprintf(text, "add.u32 %%m%u, %%r1, %u;\n", i, i);
	for (unsigned int i = 0; i < count; i++)
		fprintf(text, "mad.lo.u32 %%m%u, %%m%u, %%m%u, %u;\nxor.b32 %%m%u, %%m%u, %%r1;\n", i % 7, i * 3 % 7,
			i * 5 % 7, i * 7, i * 2 % 7, i % 5);
	fputs("mov.u32 %r2, %m0;\n", text);
}

static char *make_text(void (*write_body)(FILE *text, unsigned int count), unsigned int count)
{
	size_t bytes;
	char *made;
	FILE *text = open_memstream(&made, &bytes);

	CHECK(text);
	fputs(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry large(.param .u64 p)\n{\n"
	      ".reg .b32 %r<3>;\n.reg .b64 %l<4>;\nld.param.u64 %l1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, %r1;\n",
	      text);
	write_body(text, count);
	fputs("mul.wide.u32 %l2, %r1, 4;\nadd.s64 %l3, %l1, %l2;\nst.global.u32 [%l3], %r2;\nret;\n}\n", text);
	CHECK(!fclose(text));
	return made;
}

static CUresult launch(unsigned int count)
{
	CUdeviceptr memory;
	void *parameters[] = {&memory};
	CUresult result = CUDA_SUCCESS;

	OK(cuMemAlloc_v2(&memory, 4096));
	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++)
		result = cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, NULL, parameters, NULL);
	if (result == CUDA_SUCCESS)
		result = cuCtxSynchronize();
	OK(cuMemFree_v2(memory));
	return result;
}

static CUresult compile(char *text)
{
	unload();
	OK(cuModuleLoadData(&module, text));
	free(text);
	OK(cuModuleGetFunction(&function, module, "large"));
	return launch(1);
}

int main(void)
{
	char line[LINE_BYTES];
	unsigned int count;

	start();
	while (fgets(line, sizeof(line), stdin)) {
		CUresult result = CUDA_SUCCESS;

		if (sscanf(line, "targets %u", &count) == 1)
			result = compile(make_text(write_targets, count));
		else if (sscanf(line, "steps %u", &count) == 1)
			result = compile(make_text(write_steps, count));
		else if (sscanf(line, "mixed %u", &count) == 1)
			result = compile(make_text(write_mixed, count));
		else if (sscanf(line, "launches %u", &count) == 1)
			result = launch(count);
		else
			unload();
		printf("%d\n", (int)result);
		fflush(stdout);
	}
	return 0;
}

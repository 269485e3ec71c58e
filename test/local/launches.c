/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many launches in a row, of which a GPU's back end makes all but the first by graphs that it keeps: they are what they
 * were called with, in order, and fail as launches do.
 */
#include <stddef.h>

#include "api.h"

enum { MANY = 300, WORDS = 1024 };

/*
 * mix(u32 *p, u32 a): p[0] = p[0] * 5 + a, and p[1] counts; shape(u32 *p, u32 at): p[at] = threads of all blocks;
 * wide(u32 *p, u32 at, u32 filler[200]): p[at] = the last of these; deep(u32 *p, u32 at): by 16 KiB of local memory;
 * pair(u32 *p, u32 at): in clusters of two blocks; wild(): a store to nowhere.
 */
static const char ptx[] =
	".version 7.8\n.target sm_50\n.address_size 64\n"
	".visible .entry mix(.param .u64 p, .param .u32 a)\n{\n"
	".reg .b32 %r<6>; .reg .b64 %l<2>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [a];\n"
	"ld.global.u32 %r2, [%l1];\nmad.lo.u32 %r2, %r2, 5, %r1;\nst.global.u32 [%l1], %r2;\n"
	"ld.global.u32 %r3, [%l1+4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%l1+4], %r3;\nret;\n}\n"
	".visible .entry shape(.param .u64 p, .param .u32 at)\n{\n"
	".reg .b32 %r<4>; .reg .b64 %l<3>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [at];\n"
	"mul.wide.u32 %l2, %r1, 4;\nadd.u64 %l1, %l1, %l2;\nmov.u32 %r2, 1;\nred.global.add.u32 [%l1], %r2;\nret;\n}\n"
	".visible .entry wide(.param .u64 p, .param .u32 at, .param .align 4 .b8 f[800])\n{\n"
	".reg .b32 %r<4>; .reg .b64 %l<3>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [at];\n"
	"mul.wide.u32 %l2, %r1, 4;\nadd.u64 %l1, %l1, %l2;\nld.param.u32 %r2, [f+796];\nst.global.u32 [%l1], %r2;\nret;\n}\n"
	".visible .entry deep(.param .u64 p, .param .u32 at)\n{\n"
	".local .align 4 .b8 mine[16384];\n.reg .b32 %r<6>; .reg .b64 %l<5>; .reg .pred %q;\nld.param.u64 %l1, [p];\n"
	"ld.param.u32 %r1, [at];\nmov.u64 %l3, mine;\nmul.wide.u32 %l2, %r1, 4;\nadd.u64 %l4, %l3, %l2;\n"
	"add.u32 %r2, %r1, 7;\nst.local.u32 [%l4], %r2;\nadd.u64 %l1, %l1, %l2;\nld.local.u32 %r3, [%l4];\n"
	"st.global.u32 [%l1], %r3;\nret;\n}\n"
	".visible .entry wild(.param .u64 p, .param .u32 at)\n{\n"
	".reg .b32 %r<2>; .reg .b64 %l<2>;\nmov.u64 %l1, 8;\nmov.u32 %r1, 1;\nst.global.u32 [%l1], %r1;\nret;\n}\n";

static const char cluster_ptx[] = ".version 7.8\n.target sm_90\n.address_size 64\n"
				  ".visible .entry pair(.param .u64 p, .param .u32 at)\n.reqnctapercluster 2, 1, 1\n{\n"
				  ".reg .b32 %r<4>; .reg .b64 %l<3>;\nld.param.u64 %l1, [p];\nld.param.u32 %r1, [at];\n"
				  "mul.wide.u32 %l2, %r1, 4;\nadd.u64 %l1, %l1, %l2;\nmov.u32 %r2, %cluster_nctarank;\n"
				  "st.global.u32 [%l1], %r2;\nret;\n}\n";

static CUmodule module;
static CUdeviceptr memory;

static CUfunction function(const char *name)
{
	CUfunction f;

	OK(cuModuleGetFunction(&f, module, name));
	return f;
}

static CUresult launch(CUfunction f, unsigned int blocks, unsigned int threads, unsigned int at, CUstream stream)
{
	void *params[] = {&memory, &at};

	return cuLaunchKernel(f, blocks, 1, 1, threads, 1, 1, 0, stream, params, NULL);
}

static void clear(void)
{
	OK(cuMemsetD32Async(memory, 0, WORDS, NULL));
	OK(cuCtxSynchronize());
}

static void read_all(uint32_t words[WORDS])
{
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(words, memory, WORDS * sizeof(*words)));
}

/* Each depends on the one before it; streams change hands where the default one takes part. */
static void in_order(CUstream other)
{
	CUfunction mix = function("mix");
	uint32_t words[WORDS], expected = 0;

	clear();
	for (unsigned int i = 0; i < 10 * MANY; i++) {
		OK(launch(mix, 1, 1, i, i / 7 % 2 ? other : NULL));
		expected = expected * 5 + i;
	}
	read_all(words);
	CHECK(words[0] == expected && words[1] == 10 * MANY);
}

/* Functions, shapes and sizes of parameters change from one to the next. */
static void in_turns(CUstream stream)
{
	CUfunction shape = function("shape"), wide = function("wide"), deep = function("deep");
	uint32_t words[WORDS], filler[200] = {0}, at;
	void *params[] = {&memory, &at, filler};

	clear();
	for (unsigned int i = 0; i < MANY; i++) {
		at = 3 * i;
		OK(launch(shape, 1 + i % 5, 1 + i % 33, at, stream));
		at++;
		filler[199] = 1000 + i;
		OK(cuLaunchKernel(wide, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
		OK(launch(deep, 1, 1, at + 1, stream));
	}
	read_all(words);
	for (unsigned int i = 0; i < MANY; i++) {
		CHECK(words[3 * i] == (1 + i % 5) * (1 + i % 33));
		CHECK(words[3 * i + 1] == 1000 + i);
		CHECK(words[3 * i + 2] == 3 * i + 2 + 7);
	}
}

/* A module goes whose function was launched last, and comes again, maybe to the same place. */
static void across_unloads(CUstream stream)
{
	uint32_t words[WORDS];

	clear();
	for (unsigned int round = 0; round < 5; round++) {
		CUfunction shape = function("shape");

		for (unsigned int i = 0; i < MANY; i++)
			OK(launch(shape, 2, 3, round, stream));
		OK(cuModuleUnload(module));
		OK(cuModuleLoadData(&module, ptx));
	}
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
	for (unsigned int i = 0; i < MANY; i++)
		OK(launch(function("deep"), 1, 1, 100 + i, stream));
	read_all(words);
	for (unsigned int round = 0; round < 5; round++)
		CHECK(words[round] == 6 * MANY);
	for (unsigned int i = 0; i < MANY; i++)
		CHECK(words[100 + i] == 107 + i);
}

/* Kernels with clusters of their own, between others of the same stream: neither gets what the other has. */
static void with_clusters(CUstream stream)
{
	uint32_t words[WORDS];
	CUfunction shape = function("shape"), pair;
	CUmodule with;
	int has;

	OK(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 0));
	if (!has)
		return;
	OK(cuModuleLoadData(&with, cluster_ptx));
	OK(cuModuleGetFunction(&pair, with, "pair"));
	clear();
	for (unsigned int i = 0; i < MANY; i++) {
		OK(launch(shape, 3, 1, 2 * i, stream));
		OK(launch(pair, 2, 1, 2 * i + 1, stream));
	}
	read_all(words);
	for (unsigned int i = 0; i < MANY; i++)
		CHECK(words[2 * i] == 3 && words[2 * i + 1] == 2);
	OK(cuModuleUnload(with));
}

/* Streams come and go, more at a time than have a graph each. */
static void many_streams(void)
{
	CUfunction shape = function("shape");
	CUstream streams[100];
	uint32_t words[WORDS];

	clear();
	for (unsigned int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < 100; i++)
			OK(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		for (unsigned int k = 0; k < 40; k++)
			for (unsigned int i = 0; i < 100; i++)
				OK(launch(shape, 1, 1, i, streams[i]));
		for (unsigned int i = 0; i < 100; i++)
			OK(cuStreamDestroy_v2(streams[i]));
	}
	read_all(words);
	for (unsigned int i = 0; i < 100; i++)
		CHECK(words[i] == 80);
}

/* An invalid launch fails at its call, and a fault at the wait. */
static void errors(CUstream stream)
{
	CUfunction shape = function("shape"), wild = function("wild");
	uint32_t words[WORDS];

	clear();
	for (unsigned int i = 0; i < MANY; i++) {
		OK(launch(shape, 1, 1, 0, stream));
		GIVES(launch(shape, 0, 1, 0, stream), CUDA_ERROR_INVALID_VALUE);
		GIVES(launch(shape, 1, 4096, 0, stream), CUDA_ERROR_INVALID_VALUE);
	}
	read_all(words);
	CHECK(words[0] == MANY);
	OK(launch(wild, 1, 1, 0, stream));
	GIVES(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
	GIVES(launch(shape, 1, 1, 0, stream), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* The same kernel with all parameters and with a part in turns, so often that the worker has a graph of its own for it. */
static void with_part_in_turns(CUstream stream)
{
	struct {
		CUdeviceptr p;
		uint32_t at, filler[200];
	} packed = {memory, 0, {0}};
	size_t bytes, whole = offsetof(__typeof__(packed), filler) + sizeof(packed.filler);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	CUfunction wide = function("wide");
	uint32_t words[WORDS];

	clear();
	for (uint32_t i = 0; i < 600; i++) {
		bytes = i % 2 ? whole - 4 : whole;
		packed.at = i % 2 ? 9 : 7;
		packed.filler[199] = i;
		OK(cuLaunchKernel(wide, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
	}
	read_all(words);
	CHECK(words[7] == 598);
}

/* Packed parameters, of which the program gives the last one in part: NCCL does. Also in a graph. */
static void with_part_of_parameters(CUstream stream)
{
	struct {
		CUdeviceptr p;
		uint32_t at, beyond;
	} packed = {memory, 3, 77};
	size_t bytes = offsetof(__typeof__(packed), beyond) + 4, all = offsetof(__typeof__(packed), beyond);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
			 CU_LAUNCH_PARAM_END};
	CUfunction wide = function("wide"), shape = function("shape");
	uint32_t words[WORDS];
	CUgraphExec exec;
	CUgraph graph;

	clear();
	OK(cuLaunchKernel(wide, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
	GIVES(cuLaunchKernel(shape, 2, 1, 1, 32, 1, 1, 0, stream, NULL, extra), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
	extra[3] = &all;
	OK(cuLaunchKernel(shape, 2, 1, 1, 32, 1, 1, 0, stream, NULL, extra));
	extra[3] = &bytes;
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	packed.at = 5;
	OK(cuLaunchKernel(wide, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
	extra[3] = &all;
	OK(cuLaunchKernel(shape, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	read_all(words);
	bytes = 0;
	extra[3] = &bytes;
	GIVES(cuLaunchKernel(wide, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra), CUDA_ERROR_INVALID_VALUE);
	/* The word that `wide` stores is not given. */
	CHECK(words[3] >= 64 && words[5] >= 32);
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

int main(void)
{
	CUcontext context;
	CUstream blocking, stream;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, ptx));
	OK(cuMemAlloc_v2(&memory, WORDS * sizeof(uint32_t)));
	OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	in_order(blocking);
	in_turns(stream);
	in_turns(NULL);
	across_unloads(stream);
	with_clusters(stream);
	many_streams();
	with_part_of_parameters(stream);
	with_part_in_turns(stream);
	errors(stream);
	printf("launches: passed\n");
	return 0;
}

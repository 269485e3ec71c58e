/* SPDX-License-Identifier: Apache-2.0 */
/* Inputs of the worker's fuzzer: a program that a guest could run, and commands with arguments that decode. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "protocol/calls.h"
#include "protocol/random-abi.h"
#include "ring/ring.h"
#include "test/fuzz/fuzz-worker.h"
#include "test/unit/protocol/codec-test.h"

#define ARENA_BYTES (64u * 1024)

size_t LLVMFuzzerMutate(uint8_t *data, size_t bytes, size_t room) __attribute__((weak));

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .global .align 4 .u32 g = 7;\n"
			  ".visible .entry k(.param .u64 a, .param .u32 n)\n{\n.reg .b32 %r<4>; .reg .b64 %d<4>;\n"
			  "ld.param.u64 %d1, [a];\nld.param.u32 %r1, [n];\nst.global.u32 [%d1], %r1;\nret;\n}\n";

/* ---- records ---- */

struct input {
	uint8_t *at, *end;
};

static void put_record(struct input *in, unsigned int number, const void *arguments, size_t bytes)
{
	uint16_t head[2] = {(uint16_t)number, (uint16_t)((bytes + 7) / 8)};

	if ((size_t)(in->end - in->at) < sizeof(head) + head[1] * 8u)
		return;
	memcpy(in->at, head, sizeof(head));
	memset(in->at + sizeof(head), 0, head[1] * 8u);
	memcpy(in->at + sizeof(head), arguments, bytes);
	in->at += sizeof(head) + head[1] * 8u;
}

/* Encodes a call with the arguments of its struct, and puts it. */
#define PUT(in, name, ...)                                                                                             \
	do {                                                                                                           \
		static uint64_t buffer_[VCUDA_COMMAND_MAX / 8];                                                        \
		struct vcuda_writer w_ = vcuda_writer_init(buffer_, sizeof(buffer_));                                  \
		struct vcuda_args_##name a_ = {__VA_ARGS__};                                                           \
                                                                                                                       \
		vcuda_encode_##name(&w_, &a_);                                                                         \
		put_record(in, VCUDA_OP_##name, buffer_, (size_t)(w_.at - (uint8_t *)buffer_));                        \
	} while (0)

#define REFER(n) ((void *)(uintptr_t)(FUZZ_WORKER_REFERENCE | (n)))

/* The words of replies, in the order of the calls. The software GPU has no graphs. */
enum {
	CONTEXT,
	IMAGE,
	MODULE,
	MANAGED,
	FUNCTION,
	MEMORY,
	STREAM,
	EVENT,
	GRAPH,
	IMAGE_2 = GRAPH,
	LIBRARY,
	LINK = LIBRARY + 3
};

static void put_program(struct input *in)
{
	struct {
		uint64_t memory;
		uint32_t n, zero;
	} parameters = {FUZZ_WORKER_REFERENCE | MEMORY, 5, 0};

	put_record(in, 0x8000, ptx, sizeof(ptx));
	PUT(in, vcudaImageStaged, .total = sizeof(ptx), .bytes = sizeof(ptx));
	PUT(in, cuModuleLoadData, .image = REFER(IMAGE));
	PUT(in, cuModuleGetFunction, .hmod = REFER(MODULE), .name = "k");
	PUT(in, cuMemAlloc_v2, .bytesize = 4096);
	PUT(in, cuStreamCreateWithPriority, .flags = 1);
	PUT(in, cuEventCreate, .Flags = 0);
	PUT(in, vcudaLaunchKernel, .f = REFER(FUNCTION), .gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32,
	    .blockDimY = 1, .blockDimZ = 1, .hStream = REFER(STREAM), .paramBytes = 12,
	    .params = (uint8_t *)&parameters);
	PUT(in, cuEventRecordWithFlags, .hEvent = REFER(EVENT), .hStream = REFER(STREAM));
	PUT(in, cuStreamSynchronize, .hStream = REFER(STREAM));
}

static void put_copies(struct input *in)
{
	PUT(in, cuMemcpyHtoD_v2, .dstDevice = (CUdeviceptr)REFER(MEMORY), .srcHost = (void *)FUZZ_WORKER_MAPPED,
	    .ByteCount = 512);
	PUT(in, cuMemcpyDtoHAsync_v2, .dstHost = (void *)FUZZ_WORKER_MAPPED, .srcDevice = (CUdeviceptr)REFER(MEMORY),
	    .ByteCount = 4096, .hStream = REFER(STREAM));
	PUT(in, cuMemsetD32Async, .dstDevice = (CUdeviceptr)REFER(MEMORY), .ui = 3, .N = 1024,
	    .hStream = REFER(STREAM));
	PUT(in, cuMemHostRegister_v2, .p = (void *)FUZZ_WORKER_MAPPED, .bytesize = 8192);
	PUT(in, cuCtxSynchronize);
}

static void put_graph(struct input *in)
{
	PUT(in, vcudaGraphCreate);
	PUT(in, vcudaGraphAddEmpty, .graph = REFER(GRAPH));
	PUT(in, vcudaGraphAddMemset, .graph = REFER(GRAPH), .dst = (CUdeviceptr)REFER(MEMORY), .elementSize = 4,
	    .width = 16, .height = 1);
	PUT(in, vcudaGraphFinish, .graph = REFER(GRAPH));
	PUT(in, vcudaGraphLaunch, .graph = REFER(GRAPH), .hStream = REFER(STREAM));
	PUT(in, vcudaGraphDestroy, .graph = REFER(GRAPH));
}

/* An object of each further kind, and a use of most. A reference that fits none moves on (fuzz-worker.c). */
static void put_objects(struct input *in)
{
	PUT(in, vcudaImageStaged, .total = sizeof(ptx), .bytes = sizeof(ptx));
	PUT(in, cuLibraryLoadData, .image = REFER(IMAGE_2));
	PUT(in, cuLibraryGetKernel, .library = REFER(LIBRARY), .name = "k");
	PUT(in, vcudaLinkCreate, .count = 0);
	PUT(in, vcudaLinkAdd, .link = REFER(LINK), .image = REFER(IMAGE_2), .type = 1, .name = "part");
	PUT(in, vcudaLinkComplete, .link = REFER(LINK));
	PUT(in, vcudaMemPoolCreate, .dev = 0);
	PUT(in, cuMemAllocFromPoolAsync, .bytesize = 4096, .pool = REFER(0));
	PUT(in, vcudaMemCreate, .size = 2 << 20);
	PUT(in, cuMemAddressReserve, .size = 2 << 20);
	PUT(in, vcudaArrayCreate, .descriptor = {.Width = 16, .Height = 16, .Format = 0x20, .NumChannels = 1});
	PUT(in, vcudaTextureCreate, .resource = {.type = 0, .array = FUZZ_WORKER_REFERENCE});
	PUT(in, vcudaSurfaceCreate, .resource = {.type = 0, .array = FUZZ_WORKER_REFERENCE});
	PUT(in, vcudaRandomCreate, .type = VCUDA_RANDOM_PHILOX);
	PUT(in, vcudaFunctionInfo, .func = REFER(0));
	PUT(in, vcudaModuleNames, .hmod = REFER(0), .bytes = 256);
	PUT(in, vcudaLibraryNames, .library = REFER(0), .bytes = 256);
	PUT(in, cuCtxSynchronize);
}

/* ---- commands that decode ---- */

static unsigned int number_of(const char *name)
{
	for (unsigned int op = 0; op < VCUDA_OP_LIMIT; op++)
		if (vcuda_call_table[op].name && !strcmp(vcuda_call_table[op].name, name))
			return op;
	abort();
}

/* Most words become references or small numbers: few calls get far with others. */
static void make_sense(struct codec_random *random, uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		switch (codec_random_word(random) % 4) {
		case 0:
			words[i] = FUZZ_WORKER_REFERENCE | codec_random_word(random) % 16;
			break;
		case 1:
			words[i] = codec_random_word(random) % 17;
			break;
		case 2:
			words[i] = codec_random_word(random) % 8 ? words[i] : FUZZ_WORKER_MAPPED;
			break;
		default:;
		}
	}
}

static void put_call(struct codec_random *random, struct input *in)
{
	static _Alignas(8) uint8_t memory[ARENA_BYTES];
	static uint64_t encoded[VCUDA_COMMAND_MAX / 8];
	const struct codec_case *c = &codec_cases[codec_random_word(random) % codec_case_count];
	struct vcuda_writer w = vcuda_writer_init(encoded, sizeof(encoded));
	struct vcuda_arena arena = {memory, memory + sizeof(memory)};
	void *args = calloc(1, c->args_size);
	size_t bytes;

	c->fill(random, &arena, args);
	c->encode(&w, args);
	free(args);
	bytes = (size_t)(w.at - (uint8_t *)encoded);
	if (w.error || bytes > FUZZ_WORKER_RECORD)
		return;
	make_sense(random, encoded, bytes / 8);
	put_record(in, number_of(c->name), encoded, bytes);
}

/* 0 to 7: the seeds in the tree. */
size_t fuzz_seed(unsigned int number, uint8_t *buffer, size_t room)
{
	struct codec_random random = {number + 1ull};
	struct input in = {buffer, buffer + room};

	put_program(&in);
	if (number & 1)
		put_copies(&in);
	if (number & 2)
		put_graph(&in);
	if (number & 4)
		put_objects(&in);
	for (unsigned int i = 0; number > 7 && i < number % 8; i++)
		put_call(&random, &in);
	return (size_t)(in.at - buffer);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t bytes, size_t room, unsigned int seed)
{
	struct codec_random random = {seed + 1ull};
	struct input in = {data + bytes, data + room};

	switch (codec_random_word(&random) % 4) {
	case 0:
		for (unsigned int i = 0; i <= seed % 3; i++)
			put_call(&random, &in);
		return (size_t)(in.at - data);
	case 1:
		if (bytes > 8) {
			uint64_t reference = FUZZ_WORKER_REFERENCE | codec_random_word(&random) % 32;

			memcpy(data + codec_random_word(&random) % (bytes / 4 - 1) * 4, &reference, 8);
		}
		return bytes;
	default:
		return LLVMFuzzerMutate(data, bytes, room);
	}
}

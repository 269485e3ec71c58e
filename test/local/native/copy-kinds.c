/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory the ends of the driver's copies may have. An end that the call names host memory, or memory of any kind,
 * may be anywhere; an end that it names device memory must not be pageable. NVIDIA's driver 580 answers so on an H200.
 * The program runs natively as well.
 */
#include "test/local/native/native.h"

#define BYTES 4096
#define WIDTH 16
#define PITCH 64

enum kind { DEVICE_A, DEVICE_B, PAGEABLE, PINNED, REGISTERED, KINDS };

static const char *const kinds[] = {"device A", "device B", "pageable", "pinned", "registered"};
static const CUmemorytype types[] = {CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED};
static const char type_letters[] = "HDU";
static uint64_t memory[KINDS];
static CUstream stream;

static bool is_device(enum kind k)
{
	return k == DEVICE_A || k == DEVICE_B;
}

/* Each kind holds its own number. */
static void fill(void)
{
	for (int k = 0; k < KINDS; k++)
		if (is_device((enum kind)k))
			CALL(cuMemsetD8_v2, memory[k], (unsigned char)k, (size_t)BYTES);
		else
			memset((void *)memory[k], k, BYTES);
	CALL(cuCtxSynchronize, );
}

static int first_byte(enum kind k)
{
	unsigned char byte = 0;

	CALL(cuCtxSynchronize, );
	if (!is_device(k))
		return *(unsigned char *)memory[k];
	CALL(cuMemcpyDtoH_v2, &byte, memory[k], (size_t)1);
	return byte;
}

/* A captured copy, launched. */
static int captured(CUresult (*copy)(), uint64_t to, uint64_t from)
{
	CUgraph graph = NULL;
	CUgraphExec exec = NULL;
	int result;

	CALL(cuStreamBeginCapture_v2, stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	result = (int)copy(to, from, (size_t)WIDTH, stream);
	CALL(cuStreamEndCapture, stream, &graph);
	if (!result)
		result = (int)CALL(cuGraphInstantiateWithFlags, &exec, graph, 0ull);
	if (!result)
		result = (int)CALL(cuGraphLaunch, exec, stream);
	CALL(cuStreamSynchronize, stream);
	return result;
}

static int copy_1d(int call, uint64_t to, uint64_t from)
{
	switch (call) {
	case 0:
		return (int)CALL(cuMemcpyHtoD_v2, to, from, (size_t)WIDTH);
	case 1:
		return (int)CALL(cuMemcpyDtoH_v2, to, from, (size_t)WIDTH);
	case 2:
		return (int)CALL(cuMemcpyDtoD_v2, to, from, (size_t)WIDTH);
	case 3:
		return (int)CALL(cuMemcpyHtoDAsync_v2, to, from, (size_t)WIDTH, NULL);
	case 4:
		return (int)CALL(cuMemcpyDtoHAsync_v2, to, from, (size_t)WIDTH, NULL);
	case 5:
		return captured((CUresult(*)())function(cuda, "cuMemcpyHtoDAsync_v2"), to, from);
	default:
		return captured((CUresult(*)())function(cuda, "cuMemcpyDtoHAsync_v2"), to, from);
	}
}

static const struct {
	const char *name;
	CUmemorytype to, from;
} calls[] = {
	{"cuMemcpyHtoD", CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
	{"cuMemcpyDtoH", CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
	{"cuMemcpyDtoD", CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE},
	{"cuMemcpyHtoDAsync", CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
	{"cuMemcpyDtoHAsync", CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
	{"captured cuMemcpyHtoDAsync", CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST},
	{"captured cuMemcpyDtoHAsync", CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE},
};

static bool may_be(CUmemorytype type, enum kind k)
{
	return type != CU_MEMORYTYPE_DEVICE || k != PAGEABLE;
}

static void compare(const char *call, CUmemorytype to_type, CUmemorytype from_type, enum kind to, enum kind from,
		    int result)
{
	bool works = may_be(to_type, to) && may_be(from_type, from);
	char what[128];

	snprintf(what, sizeof(what), "%s to %s from %s", call, kinds[to], kinds[from]);
	expect(what, result, works ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
	strcat(what, ": byte");
	expect(what, first_byte(to), works ? (int)from : (int)to);
}

static int copy_box(CUmemorytype to_type, CUmemorytype from_type, uint64_t to, uint64_t from, size_t depth)
{
	CUDA_MEMCPY2D c = {.dstMemoryType = to_type,
			   .dstHost = (void *)to,
			   .dstDevice = to,
			   .dstPitch = PITCH,
			   .srcMemoryType = from_type,
			   .srcHost = (void *)from,
			   .srcDevice = from,
			   .srcPitch = PITCH,
			   .WidthInBytes = WIDTH,
			   .Height = 2};
	CUDA_MEMCPY3D d = {.dstMemoryType = to_type,
			   .dstHost = (void *)to,
			   .dstDevice = to,
			   .dstPitch = PITCH,
			   .srcMemoryType = from_type,
			   .srcHost = (void *)from,
			   .srcDevice = from,
			   .srcPitch = PITCH,
			   .srcHeight = 2,
			   .dstHeight = 2,
			   .WidthInBytes = WIDTH,
			   .Height = 2,
			   .Depth = depth};

	return (int)(depth == 1 ? CALL(cuMemcpy2D_v2, &c) : CALL(cuMemcpy3D_v2, &d));
}

static void pair(enum kind to, enum kind from)
{
	char call[64];

	for (int i = 0; i < (int)(sizeof(calls) / sizeof(*calls)); i++) {
		fill();
		compare(calls[i].name, calls[i].to, calls[i].from, to, from, copy_1d(i, memory[to], memory[from]));
	}
	for (int t = 0; t < 3; t++)
		for (int f = 0; f < 3; f++)
			for (size_t depth = 1; depth <= 2; depth++) {
				fill();
				snprintf(call, sizeof(call), "cuMemcpy%zuD (%c, %c)", depth + 1, type_letters[t],
					 type_letters[f]);
				compare(call, types[t], types[f], to, from,
					copy_box(types[t], types[f], memory[to], memory[from], depth));
			}
}

int main(void)
{
	CUcontext context;

	cuda = dlopen("libcuda.so.1", RTLD_NOW);
	if (!cuda || CALL(cuInit, 0) || CALL(cuDevicePrimaryCtxRetain, &context, 0) || CALL(cuCtxSetCurrent, context) ||
	    CALL(cuStreamCreate, &stream, 1) || CALL(cuMemAlloc_v2, &memory[DEVICE_A], (size_t)BYTES) ||
	    CALL(cuMemAlloc_v2, &memory[DEVICE_B], (size_t)BYTES) ||
	    CALL(cuMemHostAlloc, &memory[PINNED], (size_t)BYTES, 0)) {
		fprintf(stderr, "no device, or no memory\n");
		return 2;
	}
	memory[PAGEABLE] = (uint64_t)aligned_alloc(BYTES, BYTES);
	memory[REGISTERED] = (uint64_t)aligned_alloc(BYTES, BYTES);
	if (!memory[PAGEABLE] || !memory[REGISTERED] ||
	    CALL(cuMemHostRegister_v2, memory[REGISTERED], (size_t)BYTES, 0)) {
		fprintf(stderr, "no registered memory\n");
		return 2;
	}
	for (int to = 0; to < KINDS; to++)
		for (int from = 0; from < KINDS; from++)
			if (to != from)
				pair((enum kind)to, (enum kind)from);
	printf("copy-kinds: %d probes, %d differ\n", probes, different);
	return different != 0;
}

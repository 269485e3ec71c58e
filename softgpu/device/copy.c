/* SPDX-License-Identifier: Apache-2.0 */
/* Copies. The ranges of a copy are checked at the call; long copies are cut into pieces that several threads run. */
#include <stdlib.h>
#include <string.h>

#include "device/arena.h"
#include "device/copy.h"
#include "device/memory.h"
#include "device/stream.h"

#define PIECE (4u << 20)

/* The call itself copies up to this much pageable memory out, since the caller may reuse it at once. */
#define TAKEN_BYTES (64u << 10)

struct copy {
	struct softgpu_op op;
	char *to;
	const char *from;
	size_t bytes;
	size_t piece;
};

static void copy_run(struct softgpu_op *op, uint64_t unit, uint64_t count)
{
	struct copy *copy = (struct copy *)op;
	size_t at = unit * copy->piece, n = copy->bytes - at;

	if (n > copy->piece)
		n = copy->piece;
	memmove(copy->to + at, copy->from + at, n);
}

static void copy_finish(struct softgpu_op *op)
{
	free(op);
}

/* For an operation on the stack of the waiting thread. */
static void copy_keep(struct softgpu_op *op)
{
	(void)op;
}

static void prepare(struct copy *copy, uint64_t to, uint64_t from, size_t bytes)
{
	uint64_t distance = to > from ? to - from : from - to;

	*copy = (struct copy){
		.op.run = copy_run,
		.op.copies = true,
		.to = (char *)(uintptr_t)to,
		.from = (const char *)(uintptr_t)from,
		.bytes = bytes,
		/* Parts that overlap are moved as a whole. */
		.piece = distance < bytes ? bytes : PIECE,
	};
	copy->op.units = (bytes + copy->piece - 1) / copy->piece;
}

static CUresult copy_sync(struct CUctx_st *c, uint64_t to, uint64_t from, size_t bytes)
{
	struct copy copy;

	prepare(&copy, to, from, bytes);
	copy.op.finish = copy_keep;
	softgpu_submit(&c->null_stream, &copy.op, true);
	return softgpu_stream_wait(&c->null_stream);
}

static CUresult copy_async(struct CUstream_st *stream, uint64_t to, uint64_t from, size_t bytes, bool take)
{
	size_t size = sizeof(struct copy) + (take ? bytes : 0);
	struct copy *copy = malloc(size);

	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (take)
		from = (uint64_t)(uintptr_t)memcpy(copy + 1, (const void *)(uintptr_t)from, bytes);
	prepare(copy, to, from, bytes);
	copy->op.finish = copy_finish;
	copy->op.bytes = size;
	softgpu_submit(stream, &copy->op, false);
	return CUDA_SUCCESS;
}

bool softgpu_copy_device_side(uint64_t address, size_t bytes, bool write)
{
	return softgpu_range_spans(address, bytes, write);
}

bool softgpu_copy_host_side(uint64_t address, size_t bytes, bool write)
{
	uint64_t start, length;

	if (!address || address + bytes < address)
		return false;
	softgpu_arena_range(&start, &length);
	if (address >= start + length || address + bytes <= start)
		return true;
	return softgpu_copy_device_side(address, bytes, write);
}

enum sides {
	HOST_TO_DEVICE,
	DEVICE_TO_HOST,
	DEVICE_TO_DEVICE,
};

static bool check(enum sides sides, uint64_t to, uint64_t from, size_t bytes)
{
	if (sides == DEVICE_TO_HOST ? !softgpu_copy_host_side(to, bytes, true)
				    : !softgpu_copy_device_side(to, bytes, true))
		return false;
	return sides == HOST_TO_DEVICE ? softgpu_copy_host_side(from, bytes, false)
				       : softgpu_copy_device_side(from, bytes, false);
}

static CUresult copy_now(enum sides sides, uint64_t to, uint64_t from, size_t bytes)
{
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS || bytes == 0)
		return result == CUDA_SUCCESS ? softgpu_leave(result) : result;
	if (!check(sides, to, from, bytes))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	return softgpu_leave(copy_sync(c, to, from, bytes));
}

static CUresult copy_later(enum sides sides, uint64_t to, uint64_t from, size_t bytes, CUstream handle)
{
	struct CUstream_st *stream;
	struct CUctx_st *c;
	bool take = sides == HOST_TO_DEVICE && bytes <= TAKEN_BYTES;
	CUresult result = softgpu_enter_with(&c, sizeof(struct copy) + (take ? bytes : 0));

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, handle);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (bytes == 0)
		return softgpu_leave(CUDA_SUCCESS);
	if (!check(sides, to, from, bytes))
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	take = take && !softgpu_range_spans(from, bytes, false);
	return softgpu_leave(copy_async(stream, to, from, bytes, take));
}

CUresult softgpu_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
	return copy_now(HOST_TO_DEVICE, dstDevice, (uint64_t)(uintptr_t)srcHost, ByteCount);
}

CUresult softgpu_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_now(DEVICE_TO_HOST, (uint64_t)(uintptr_t)dstHost, srcDevice, ByteCount);
}

CUresult softgpu_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
	return copy_now(DEVICE_TO_DEVICE, dstDevice, srcDevice, ByteCount);
}

CUresult softgpu_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream)
{
	return copy_later(HOST_TO_DEVICE, dstDevice, (uint64_t)(uintptr_t)srcHost, ByteCount, hStream);
}

CUresult softgpu_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return copy_later(DEVICE_TO_HOST, (uint64_t)(uintptr_t)dstHost, srcDevice, ByteCount, hStream);
}

CUresult softgpu_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream)
{
	return copy_later(DEVICE_TO_DEVICE, dstDevice, srcDevice, ByteCount, hStream);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-dimensional copies. Pinned memory is named to the worker, but for a little of it; pageable memory goes through
 * staging blocks, a part at a time, or is pinned for the copy where that is offered and it is much. What a synchronous
 * function of CUDA's does with the legacy default stream, its _ptds twin does with the per-thread one.
 */
#include "copy/copy.h"

#include <string.h>

#include "guest/client/call.h"
#include "graph/capture.h"
#include "copy/direct.h"
#include "protocol/guest-calls.h"
#include "stream/pace.h"
#include "core/peer.h"
#include "ring/ring.h"
#include "guest/client/session.h"
#include "memory/shadow.h"
#include "guest/client/stage-queue.h"
#include "guest/client/stage-turns.h"
#include "guest/client/stage.h"
#include "stream/stream.h"
#include "core/thread.h"

/*
 * How much goes in commands themselves: behind what a stream has to do, what NVIDIA's driver takes at once as well. The
 * worker copies it once more, so that of what is waited for, and of what the default stream gets when it has nothing to
 * do, only little does.
 */
#define IN_COMMANDS (64u * 1024)
#define IN_WAITED_COMMANDS (4u * 1024)
#define COMMAND_PART (32u * 1024)

/* Up to that the calling thread alone is as fast as with others that have to wake up first. */
#define IN_QUEUE (512u * 1024)

/* Of the memory in which NVIDIA's driver keeps what streams have not got to yet, and which a place in a queue has its
 * share of. */
#define PLACE_BYTES (4u * 1024)

static size_t part_of(size_t rest)
{
	return rest < COMMAND_PART ? rest : COMMAND_PART;
}

/* What happens when the application's memory is read for the first time happens here, where no lock is held. */
static void touch(const char *src, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4096)
		(void)*(const volatile char *)(src + i);
	(void)*(const volatile char *)(src + bytes - 1);
}

static _Atomic bool others_look;

void vcuda_copy_for_others(void)
{
	others_look = true;
}

/*
 * The synchronous function, with the default stream: nothing is to be waited for if that has nothing left to do.
 * CUDA_ERROR_NOT_READY: it has.
 */
static CUresult send_if_settled(uint64_t dst, const char *src, size_t bytes)
{
	CUresult result;

	vcuda_call_only_settled();
	result = vcuda_call_vcudaCopyIn(dst, bytes, (const uint8_t *)src);
	vcuda_call_any();
	return result;
}

static CUresult send_and_wait(uint64_t dst, const char *src, size_t bytes)
{
	CUresult result;

	vcuda_thread()->call_sync = true;
	result = vcuda_call_vcudaCopyIn(dst, bytes, (const uint8_t *)src);
	if (result == CUDA_SUCCESS)
		vcuda_call_settles();
	return result;
}

/*
 * The software GPU keeps what its streams have not got to yet, with no queue to be full: who has given it so much waits
 * for his stream. A GPU's streams are paced.
 */
#define MOST_KEPT (64u << 20)

static CUresult keep_within(size_t bytes, CUstream stream)
{
	static _Atomic size_t kept;

	if (strcmp(vcuda_session.host.backend, "cpu") || atomic_fetch_add(&kept, bytes) + bytes <= MOST_KEPT)
		return CUDA_SUCCESS;
	kept = 0;
	return vcuda_stream_wait(stream);
}

static CUresult send_later(uint64_t dst, const char *src, size_t bytes, CUstream stream)
{
	CUresult result = keep_within(bytes, stream);

	if (result == CUDA_SUCCESS)
		result = vcuda_pace(stream, (unsigned int)((bytes + PLACE_BYTES - 1) / PLACE_BYTES));

	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS; done += part_of(bytes - done))
		result = vcuda_call_vcudaCopyInAsync(dst + done, stream, part_of(bytes - done),
						     (const uint8_t *)src + done);
	return result;
}

/* Each of these three returns true if the copy was made, or failed: `result`. */

static bool send_async(uint64_t dst, const char *src, size_t bytes, CUstream stream, CUresult *result)
{
	if (bytes > IN_COMMANDS)
		return false;
	touch(src, bytes);
	*result = send_later(dst, src, bytes, stream);
	return true;
}

static bool send_on_stream(uint64_t dst, const char *src, size_t bytes, CUstream stream, CUresult *result)
{
	if (bytes > IN_WAITED_COMMANDS)
		return false;
	touch(src, bytes);
	*result = send_later(dst, src, bytes, stream);
	if (*result == CUDA_SUCCESS)
		*result = vcuda_stream_wait(stream);
	return true;
}

static bool host_takes_copies_in(void)
{
	return vcuda_session.transport->host_minor >= vcuda_call_table[VCUDA_OP_vcudaCopyIn].since_minor;
}

/* Memory that others look at, and what may be refused, is copied when the function returns. */
static bool may_return(void)
{
	return !vcuda_shadow_any && !others_look && !vcuda_thread()->call_sync;
}

static bool send_by_default(uint64_t dst, const char *src, size_t bytes, CUresult *result)
{
	*result = CUDA_ERROR_NOT_READY;
	if (bytes <= IN_WAITED_COMMANDS) {
		touch(src, bytes);
		if (may_return())
			*result = send_if_settled(dst, src, bytes);
	}
	if (*result == CUDA_ERROR_NOT_READY && may_return() && bytes <= IN_QUEUE &&
	    vcuda_stage_queue_in(dst, src, bytes, result))
		return true;
	if (*result == CUDA_ERROR_NOT_READY && bytes <= IN_WAITED_COMMANDS)
		*result = send_and_wait(dst, src, bytes);
	if (*result != CUDA_ERROR_NOT_READY)
		return true;
	*result = CUDA_SUCCESS;
	return false;
}

static bool send_in(uint64_t dst, const char *src, size_t bytes, CUstream stream, bool async, CUresult *result)
{
	if (!host_takes_copies_in())
		return false;
	return async    ? send_async(dst, src, bytes, stream, result)
	       : stream ? send_on_stream(dst, src, bytes, stream, result)
			: send_by_default(dst, src, bytes, result);
}

static CUresult blocks_in(uint64_t dst, const char *src, size_t bytes, CUstream stream, bool async)
{
	CUresult result = CUDA_SUCCESS;
	void *memory;
	uint32_t block;

	if (vcuda_stage_turns((void *)(uintptr_t)src, dst, bytes, true, stream, &result))
		return result;
	block = vcuda_stage_take(&memory);
	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
		size_t part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;

		memcpy(memory, src + done, part);
		result = vcuda_call_vcudaStageHtoD(dst + done, block, part, stream, async || stream);
		done += part;
	}
	vcuda_stage_give(block);
	return result;
}

static CUresult stage_in(uint64_t dst, const char *src, size_t bytes, CUstream stream, bool async)
{
	CUresult result = CUDA_SUCCESS;
	struct vcuda_span done;

	if (send_in(dst, src, bytes, stream, async, &result))
		return result;
	result = vcuda_direct_copy((void *)(uintptr_t)src, dst, bytes, true, stream, &done);
	if (result == CUDA_SUCCESS && done.from)
		result = blocks_in(dst, src, done.from, stream, async);
	if (result == CUDA_SUCCESS && done.to < bytes)
		result = blocks_in(dst + done.to, src + done.to, bytes - done.to, stream, async);
	return result;
}

static CUresult blocks_out(char *dst, uint64_t src, size_t bytes, CUstream stream, int on_stream)
{
	CUresult result = CUDA_SUCCESS;
	void *memory;
	uint32_t block;

	if (vcuda_stage_turns(dst, src, bytes, false, stream, &result))
		return result;
	block = vcuda_stage_take(&memory);
	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
		size_t part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;

		result = vcuda_call_vcudaStageDtoH(src + done, block, part, stream, on_stream);
		if (result == CUDA_SUCCESS)
			memcpy(dst + done, memory, part);
		done += part;
	}
	if (result == CUDA_SUCCESS && !on_stream)
		vcuda_call_settles();
	vcuda_stage_give(block);
	return result;
}

static CUresult stage_out(char *dst, uint64_t src, size_t bytes, CUstream stream, int on_stream)
{
	struct vcuda_span done;
	CUresult result = vcuda_direct_copy(dst, src, bytes, false, stream, &done);

	if (result == CUDA_SUCCESS && done.from)
		result = blocks_out(dst, src, done.from, stream, on_stream);
	if (result == CUDA_SUCCESS && done.to < bytes)
		result = blocks_out(dst + done.to, src + done.to, bytes - done.to, stream, on_stream);
	return result;
}

/*
 * CUDA has a copy of pinned memory made when the function returns. Where nothing runs that could tell, which is where
 * nothing can be writing to that memory either, it is read here and now instead, and whatever comes next finds the copy
 * made. True: that was done, or failed.
 */
static bool window_sent(uint64_t dst, const void *src, size_t bytes, CUresult *result)
{
	if (bytes > VCUDA_STAGE_PIECE || !may_return() || !host_takes_copies_in() || !vcuda_call_is_idle())
		return false;
	touch(src, bytes);
	return vcuda_stage_queue_idle(dst, src, bytes, result);
}

static CUresult window_in(uint64_t dst, const void *src, size_t bytes, CUstream stream, bool async)
{
	CUresult result;

	if (!async && !stream && window_sent(dst, src, bytes, &result))
		return result;
	if (!async && !stream) {
		result = vcuda_call_cuMemcpyHtoD_v2(dst, src, bytes);
		if (result == CUDA_SUCCESS)
			vcuda_call_settles();
		return result;
	}
	result = vcuda_call_cuMemcpyHtoDAsync_v2(dst, src, bytes, stream);
	return result == CUDA_SUCCESS && !async ? vcuda_stream_wait(stream) : result;
}

static CUresult window_out(void *dst, uint64_t src, size_t bytes, CUstream stream, bool async)
{
	CUresult result;

	if (!async && !stream) {
		result = vcuda_call_cuMemcpyDtoH_v2(dst, src, bytes);
		if (result == CUDA_SUCCESS)
			vcuda_call_settles();
		return result;
	}
	result = vcuda_call_cuMemcpyDtoHAsync_v2(dst, src, bytes, stream);
	return result == CUDA_SUCCESS && !async ? vcuda_stream_wait(stream) : result;
}

static CUresult host_to_host(void *dst, const void *src, size_t bytes, CUstream stream)
{
	CUresult result = vcuda_stream_wait(stream);

	if (result == CUDA_SUCCESS)
		memmove(dst, src, bytes);
	return result;
}

static CUresult dispatch(uint64_t dst, enum vcuda_place to, uint64_t src, enum vcuda_place from, size_t bytes,
			 CUstream stream, bool async)
{
	bool on_device = to == VCUDA_PLACE_DEVICE && from == VCUDA_PLACE_DEVICE,
	     in_windows = to == VCUDA_PLACE_WINDOW && from == VCUDA_PLACE_WINDOW;
	int on_stream = async || stream;

	/* The device reads and writes windows too: then nothing is waited for here. */
	if (on_device || (in_windows && async))
		return vcuda_call_cuMemcpyDtoDAsync_v2(dst, src, bytes, stream);
	if (to == VCUDA_PLACE_DEVICE && from == VCUDA_PLACE_WINDOW)
		return window_in(dst, (const void *)src, bytes, stream, async);
	if (to == VCUDA_PLACE_DEVICE)
		return stage_in(dst, (const char *)src, bytes, stream, async);
	if (from == VCUDA_PLACE_DEVICE && to == VCUDA_PLACE_WINDOW)
		return window_out((void *)dst, src, bytes, stream, async);
	if (from == VCUDA_PLACE_DEVICE)
		return stage_out((char *)dst, src, bytes, stream, on_stream);
	return host_to_host((void *)dst, (const void *)src, bytes, stream);
}

/* An end as CUDA describes it. */
static CUmemorytype type_of(enum vcuda_side side)
{
	return side == VCUDA_SIDE_HOST     ? CU_MEMORYTYPE_HOST
	       : side == VCUDA_SIDE_DEVICE ? CU_MEMORYTYPE_DEVICE
					   : CU_MEMORYTYPE_UNIFIED;
}

static bool captured(struct vcuda_copy_end dst, struct vcuda_copy_end src, size_t bytes, CUstream resolved,
		     CUresult *result)
{
	CUgraphNodeParams p = {.type = CU_GRAPH_NODE_TYPE_MEMCPY};

	p.memcpy.copyParams = (CUDA_MEMCPY3D){
		.srcMemoryType = type_of(src.side),
		.srcHost = (void *)src.address,
		.srcDevice = src.address,
		.dstMemoryType = type_of(dst.side),
		.dstHost = (void *)dst.address,
		.dstDevice = dst.address,
		.WidthInBytes = bytes,
		.Height = 1,
		.Depth = 1,
	};
	return vcuda_capture_takes(resolved, &p, result);
}

static CUresult copy(struct vcuda_copy_end dst, struct vcuda_copy_end src, size_t bytes, CUstream stream, bool async)
{
	struct vcuda_operand to, from;
	CUresult result;

	if (!bytes)
		return CUDA_SUCCESS;
	result = vcuda_operand_find(dst.address, bytes, dst.side, &to);
	if (result == CUDA_SUCCESS)
		result = vcuda_operand_find(src.address, bytes, src.side, &from);
	if (result != CUDA_SUCCESS)
		return result;
	if (!async)
		result = vcuda_capture_refuses(stream);
	if (result != CUDA_SUCCESS || (async && vcuda_capture_any() && captured(dst, src, bytes, stream, &result)))
		return result;
	vcuda_thread()->call_sync = to.unsure || from.unsure;
	result = dispatch(dst.address, to.place, src.address, from.place, bytes, stream, async);
	vcuda_thread()->call_sync = false;
	return result;
}

CUresult vcuda_copy(struct vcuda_copy_end dst, struct vcuda_copy_end src, size_t bytes, CUstream stream, bool async)
{
	struct vcuda_context *before;
	CUresult result = vcuda_stream_visit(&stream, &before);

	if (result != CUDA_SUCCESS)
		return result;
	result = copy(dst, src, bytes, stream, async);
	vcuda_stream_return(before);
	return result;
}

/* ---- the API: each function and its twin with the per-thread default stream ---- */

#define HOST(p) ((struct vcuda_copy_end){.address = (uintptr_t)(p), .side = VCUDA_SIDE_HOST})
#define DEVICE(p) ((struct vcuda_copy_end){.address = (p), .side = VCUDA_SIDE_DEVICE})
#define ANY(p) ((struct vcuda_copy_end){.address = (p), .side = VCUDA_SIDE_ANY})

#define SYNC_COPY(name, dst_type, src_type, to, from)                                                                  \
	VCUDA_EXPORT CUresult name(dst_type dst, src_type src, size_t bytes)                                           \
	{                                                                                                              \
		return vcuda_copy(to(dst), from(src), bytes, NULL, false);                                             \
	}                                                                                                              \
	VCUDA_EXPORT CUresult name##_ptds(dst_type dst, src_type src, size_t bytes)                                    \
	{                                                                                                              \
		return vcuda_copy(to(dst), from(src), bytes, CU_STREAM_PER_THREAD, false);                             \
	}

#define ASYNC_COPY(name, dst_type, src_type, to, from)                                                                 \
	VCUDA_EXPORT CUresult name(dst_type dst, src_type src, size_t bytes, CUstream stream)                          \
	{                                                                                                              \
		return vcuda_copy(to(dst), from(src), bytes, stream, true);                                            \
	}

/* clang-format off */
SYNC_COPY(cuMemcpy, CUdeviceptr, CUdeviceptr, ANY, ANY)
SYNC_COPY(cuMemcpyHtoD_v2, CUdeviceptr, const void *, DEVICE, HOST)
SYNC_COPY(cuMemcpyDtoH_v2, void *, CUdeviceptr, HOST, DEVICE)
SYNC_COPY(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, DEVICE, DEVICE)
ASYNC_COPY(cuMemcpyAsync, CUdeviceptr, CUdeviceptr, ANY, ANY)
ASYNC_COPY(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, DEVICE, HOST)
ASYNC_COPY(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, HOST, DEVICE)
ASYNC_COPY(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, DEVICE, DEVICE)
/* clang-format on */

static CUresult copy_peer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes, CUstream stream,
			  bool async)
{
	CUresult result = vcuda_peer_begin(to, from, async);

	if (result == CUDA_SUCCESS)
		result = vcuda_copy(ANY(dst), ANY(src), bytes, stream, async);
	return async ? result : vcuda_peer_end(to, from, stream, result);
}

VCUDA_EXPORT CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes)
{
	return copy_peer(dst, to, src, from, bytes, NULL, false);
}

VCUDA_EXPORT CUresult cuMemcpyPeer_ptds(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes)
{
	return copy_peer(dst, to, src, from, bytes, CU_STREAM_PER_THREAD, false);
}

VCUDA_EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t bytes,
					CUstream stream)
{
	return copy_peer(dst, to, src, from, bytes, stream, true);
}

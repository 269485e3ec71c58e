/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-dimensional copies. Pinned memory is named to the worker, but for a little of it; pageable memory goes through
 * staging blocks, a part at a time, or is pinned for the copy where that is offered and it is much. What a synchronous
 * function of CUDA's does with the legacy default stream, its _ptds twin does with the per-thread one.
 */
#include "copy/copy.h"

#include <string.h>

#include "core/hooks.h"
#include "core/request.h"
#include "memory/memory.h"
#include "copy/direct.h"
#include "protocol/guest-calls.h"
#include "core/init.h"
#include "ring/ring.h"
#include "guest/client/session.h"
#include "copy/stage-queue.h"
#include "copy/double-buffer.h"
#include "guest/client/stage.h"
#include "stream/stream.h"

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

/*
 * In the functions below `how` is the stream's context and whether the worker has to check an address (wait). Where a
 * function returns bool, true means that the copy was made, or failed: *result.
 */

/* The synchronous copy on the default stream, if nothing has to be waited for. CUDA_ERROR_NOT_READY: something has. */
static CUresult send_if_drained(const struct call_options *how, uint64_t dst, const char *src, size_t bytes)
{
	const struct call_options options = {.context = how->context, .only_drained = true};

	return vcuda_call_vcudaCopyIn_with(&options, dst, bytes, (const uint8_t *)src);
}

/* Notes that the default stream of the context has nothing left to do, after a call that succeeded. */
static CUresult note_drained(const struct call_options *how, const struct call_receipt *receipt, CUresult result)
{
	if (result == CUDA_SUCCESS && how->context)
		client_call_drained(how->context, receipt);
	return result;
}

static CUresult send_and_wait(const struct call_options *how, uint64_t dst, const char *src, size_t bytes)
{
	struct call_receipt receipt;
	const struct call_options options = {.context = how->context, .wait = true, .receipt = &receipt};

	return note_drained(how, &receipt, vcuda_call_vcudaCopyIn_with(&options, dst, bytes, (const uint8_t *)src));
}

/*
 * The software GPU keeps what its streams have not got to yet, with no queue to be full: who has given it so much waits
 * for his stream. A GPU's streams are paced.
 */
#define MOST_SAVED (64u << 20)

static CUresult keep_within(const struct call_options *how, size_t bytes, CUstream stream)
{
	static _Atomic size_t kept;

	if (libcuda_host_is_gpu() || atomic_fetch_add(&kept, bytes) + bytes <= MOST_SAVED)
		return CUDA_SUCCESS;
	kept = 0;
	return libcuda_stream_wait(how, stream);
}

static CUresult send_later(const struct call_options *how, uint64_t dst, const char *src, size_t bytes, CUstream stream)
{
	CUresult result = keep_within(how, bytes, stream);

	if (result == CUDA_SUCCESS)
		result = libcuda_throttle_take(how, stream, (unsigned int)((bytes + PLACE_BYTES - 1) / PLACE_BYTES));

	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS; done += part_of(bytes - done))
		result = vcuda_call_vcudaCopyInAsync_with(how, dst + done, stream, part_of(bytes - done),
							  (const uint8_t *)src + done);
	return result;
}

static bool send_async(const struct call_options *how, uint64_t dst, const char *src, size_t bytes, CUstream stream,
		       CUresult *result)
{
	if (bytes > IN_COMMANDS)
		return false;
	touch(src, bytes);
	*result = send_later(how, dst, src, bytes, stream);
	return true;
}

static bool send_on_stream(const struct call_options *how, uint64_t dst, const char *src, size_t bytes, CUstream stream,
			   CUresult *result)
{
	if (bytes > IN_WAITED_COMMANDS)
		return false;
	touch(src, bytes);
	*result = send_later(how, dst, src, bytes, stream);
	if (*result == CUDA_SUCCESS)
		*result = libcuda_stream_wait(how, stream);
	return true;
}

static bool host_takes_copies_in(void)
{
	return client_session.transport->host_minor >= vcuda_call_table[VCUDA_OP_vcudaCopyIn].since_minor;
}

/* A copy to memory that others read, or that may be refused, is made when the function returns. */
static bool may_return(const struct call_options *how)
{
	return !libcuda_mirror_ops() && !libcuda_memory_is_watched && !how->wait;
}

static bool send_by_default(const struct call_options *how, uint64_t dst, const char *src, size_t bytes,
			    CUresult *result)
{
	*result = CUDA_ERROR_NOT_READY;
	if (bytes <= IN_WAITED_COMMANDS) {
		touch(src, bytes);
		if (may_return(how))
			*result = send_if_drained(how, dst, src, bytes);
	}
	if (*result == CUDA_ERROR_NOT_READY && may_return(how) && bytes <= IN_QUEUE &&
	    libcuda_stage_queue_in(libcuda_request_context(how), dst, src, bytes, result))
		return true;
	if (*result == CUDA_ERROR_NOT_READY && bytes <= IN_WAITED_COMMANDS)
		*result = send_and_wait(how, dst, src, bytes);
	if (*result != CUDA_ERROR_NOT_READY)
		return true;
	*result = CUDA_SUCCESS;
	return false;
}

static bool send_in(const struct call_options *how, uint64_t dst, const char *src, size_t bytes, CUstream stream,
		    bool async, CUresult *result)
{
	if (!host_takes_copies_in())
		return false;
	return async    ? send_async(how, dst, src, bytes, stream, result)
	       : stream ? send_on_stream(how, dst, src, bytes, stream, result)
			: send_by_default(how, dst, src, bytes, result);
}

static CUresult blocks_in(const struct call_options *how, uint64_t dst, const char *src, size_t bytes, CUstream stream,
			  bool async)
{
	CUresult result = CUDA_SUCCESS;
	void *memory;
	uint32_t block;

	if (libcuda_stage_double_buffer(how, (void *)(uintptr_t)src, dst, bytes, true, stream, &result))
		return result;
	block = client_stage_take(&memory);
	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
		size_t part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;

		memcpy(memory, src + done, part);
		result = vcuda_call_vcudaStageHtoD_with(how, dst + done, block, part, stream, async || stream);
		done += part;
	}
	client_stage_give(block);
	return result;
}

static CUresult stage_in(const struct call_options *how, uint64_t dst, const char *src, size_t bytes, CUstream stream,
			 bool async)
{
	CUresult result = CUDA_SUCCESS;
	struct libcuda_span done;

	if (send_in(how, dst, src, bytes, stream, async, &result))
		return result;
	result = libcuda_direct_copy(how, (void *)(uintptr_t)src, dst, bytes, true, stream, &done);
	if (result == CUDA_SUCCESS && done.from)
		result = blocks_in(how, dst, src, done.from, stream, async);
	if (result == CUDA_SUCCESS && done.to < bytes)
		result = blocks_in(how, dst + done.to, src + done.to, bytes - done.to, stream, async);
	return result;
}

static CUresult blocks_out(const struct call_options *how, char *dst, uint64_t src, size_t bytes, CUstream stream,
			   int on_stream)
{
	struct call_options options = *how;
	CUresult result = CUDA_SUCCESS;
	struct call_receipt receipt;
	void *memory;
	uint32_t block;

	if (libcuda_stage_double_buffer(how, dst, src, bytes, false, stream, &result))
		return result;
	options.receipt = &receipt;
	block = client_stage_take(&memory);
	for (size_t done = 0; done < bytes && result == CUDA_SUCCESS;) {
		size_t part = bytes - done < VCUDA_STAGE_BLOCK_BYTES ? bytes - done : VCUDA_STAGE_BLOCK_BYTES;

		result = vcuda_call_vcudaStageDtoH_with(&options, src + done, block, part, stream, on_stream);
		if (result == CUDA_SUCCESS)
			memcpy(dst + done, memory, part);
		done += part;
	}
	if (!on_stream)
		note_drained(how, &receipt, result);
	client_stage_give(block);
	return result;
}

static CUresult stage_out(const struct call_options *how, char *dst, uint64_t src, size_t bytes, CUstream stream,
			  int on_stream)
{
	struct libcuda_span done;
	CUresult result = libcuda_direct_copy(how, dst, src, bytes, false, stream, &done);

	if (result == CUDA_SUCCESS && done.from)
		result = blocks_out(how, dst, src, done.from, stream, on_stream);
	if (result == CUDA_SUCCESS && done.to < bytes)
		result = blocks_out(how, dst + done.to, src + done.to, bytes - done.to, stream, on_stream);
	return result;
}

/*
 * CUDA has a copy of pinned memory made when the function returns. Where nothing runs that could tell, nothing can
 * write to that memory either: then it is read here and now, and work submitted later sees the copied data.
 */
static bool mapped_copy_sent(const struct call_options *how, uint64_t dst, const void *src, size_t bytes,
			     CUresult *result)
{
	struct libcuda_context *c = libcuda_request_context(how);

	if (bytes > LIBCUDA_STAGE_PIECE || !may_return(how) || !host_takes_copies_in() || !libcuda_context_is_idle(c))
		return false;
	touch(src, bytes);
	return libcuda_stage_queue_idle(c, dst, src, bytes, result);
}

static CUresult mapped_copy_in(const struct call_options *how, uint64_t dst, const void *src, size_t bytes,
			       CUstream stream, bool async)
{
	struct call_options options = *how;
	struct call_receipt receipt;
	CUresult result;

	if (!async && !stream && mapped_copy_sent(how, dst, src, bytes, &result))
		return result;
	if (!async && !stream) {
		options.receipt = &receipt;
		return note_drained(how, &receipt, vcuda_call_cuMemcpyHtoD_v2_with(&options, dst, src, bytes));
	}
	result = vcuda_call_cuMemcpyHtoDAsync_v2_with(how, dst, src, bytes, stream);
	return result == CUDA_SUCCESS && !async ? libcuda_stream_wait(how, stream) : result;
}

static CUresult mapped_copy_out(const struct call_options *how, void *dst, uint64_t src, size_t bytes, CUstream stream,
				bool async)
{
	struct call_options options = *how;
	struct call_receipt receipt;
	CUresult result;

	if (!async && !stream) {
		options.receipt = &receipt;
		return note_drained(how, &receipt, vcuda_call_cuMemcpyDtoH_v2_with(&options, dst, src, bytes));
	}
	result = vcuda_call_cuMemcpyDtoHAsync_v2_with(how, dst, src, bytes, stream);
	return result == CUDA_SUCCESS && !async ? libcuda_stream_wait(how, stream) : result;
}

static CUresult host_to_host(const struct call_options *how, void *dst, const void *src, size_t bytes, CUstream stream)
{
	CUresult result = libcuda_stream_wait(how, stream);

	if (result == CUDA_SUCCESS)
		memmove(dst, src, bytes);
	return result;
}

static CUresult dispatch(const struct call_options *how, uint64_t dst, enum libcuda_memory_kind to, uint64_t src,
			 enum libcuda_memory_kind from, size_t bytes, CUstream stream, bool async)
{
	bool on_device = to == LIBCUDA_MEMORY_DEVICE && from == LIBCUDA_MEMORY_DEVICE,
	     in_mappings = to == LIBCUDA_MEMORY_MAPPED && from == LIBCUDA_MEMORY_MAPPED;
	int on_stream = async || stream;

	/* The device reads and writes mappings too: then nothing is waited for here. */
	if (on_device || (in_mappings && async))
		return vcuda_call_cuMemcpyDtoDAsync_v2_with(how, dst, src, bytes, stream);
	if (to == LIBCUDA_MEMORY_DEVICE && from == LIBCUDA_MEMORY_MAPPED)
		return mapped_copy_in(how, dst, (const void *)src, bytes, stream, async);
	if (to == LIBCUDA_MEMORY_DEVICE)
		return stage_in(how, dst, (const char *)src, bytes, stream, async);
	if (from == LIBCUDA_MEMORY_DEVICE && to == LIBCUDA_MEMORY_MAPPED)
		return mapped_copy_out(how, (void *)dst, src, bytes, stream, async);
	if (from == LIBCUDA_MEMORY_DEVICE)
		return stage_out(how, (char *)dst, src, bytes, stream, on_stream);
	return host_to_host(how, (void *)dst, (const void *)src, bytes, stream);
}

static CUresult find_ends(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes,
			  struct libcuda_operand *to, struct libcuda_operand *from)
{
	CUresult result = libcuda_operand_find(dst.address, bytes, dst.side, to);

	return result == CUDA_SUCCESS ? libcuda_operand_find(src.address, bytes, src.side, from) : result;
}

CUresult libcuda_copy_check(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes)
{
	struct libcuda_operand to, from;

	return find_ends(dst, src, bytes, &to, &from);
}

CUresult libcuda_copy(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes, CUstream stream,
		      bool async)
{
	struct libcuda_operand to, from;
	struct call_options how;
	CUresult result = libcuda_stream_visit(&stream, &how);

	if (result != CUDA_SUCCESS || !bytes)
		return result;
	result = find_ends(dst, src, bytes, &to, &from);
	if (result != CUDA_SUCCESS)
		return result;
	how.wait = to.unsure || from.unsure;
	return dispatch(&how, dst.address, to.kind, src.address, from.kind, bytes, stream, async);
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-dimensional copies. copy-policy.c chooses the form of a copy between host memory and the device. A form that
 * cannot be used now leaves the copy to a simpler one: direct, striped, queued.
 */
#include "copy/copy.h"

#include <string.h>

#include "copy/copy-policy.h"
#include "copy/direct.h"
#include "copy/double-buffer.h"
#include "copy/stage-queue.h"
#include "core/init.h"
#include "core/request.h"
#include "guest/client/session.h"
#include "memory/mapped-host.h"
#include "protocol/guest-calls.h"
#include "stream/stream.h"

/* The bytes in one command. */
#define INLINE_PART ((size_t)32 * 1024)

/* NVIDIA's driver keeps outstanding bytes in memory of which each queue credit has a share. */
#define CREDIT_BYTES (4u * 1024)

/* The software GPU keeps outstanding bytes without a limit: a thread waits for its stream after so many. */
#define MOST_OUTSTANDING (64u << 20)

/* ---- inline ---- */

static CUresult limit_outstanding(const struct libcuda_transfer *t)
{
	static _Atomic size_t outstanding;

	if (libcuda_host_is_gpu() || atomic_fetch_add(&outstanding, t->bytes) + t->bytes <= MOST_OUTSTANDING)
		return CUDA_SUCCESS;
	outstanding = 0;
	return libcuda_stream_wait(t->how, t->stream);
}

static CUresult copy_inline(const struct libcuda_transfer *t)
{
	CUresult result = limit_outstanding(t);

	libcuda_transfer_touch(t);
	if (result == CUDA_SUCCESS)
		result = libcuda_throttle_take(t->how, t->stream,
					       (unsigned int)((t->bytes + CREDIT_BYTES - 1) / CREDIT_BYTES));
	for (size_t done = 0, part; done < t->bytes && result == CUDA_SUCCESS; done += part) {
		part = t->bytes - done < INLINE_PART ? t->bytes - done : INLINE_PART;
		result = vcuda_call_vcudaCopyInAsync_with(t->how, t->device + done, t->stream, part,
							  (const uint8_t *)t->host + done);
	}
	return result;
}

/* ---- mapped memory ---- */

static CUresult call_mapped(const struct libcuda_transfer *t, const struct call_options *how)
{
	if (libcuda_transfer_is_plain(t))
		return t->to_device ? vcuda_call_cuMemcpyHtoD_v2_with(how, t->device, t->host, t->bytes)
				    : vcuda_call_cuMemcpyDtoH_v2_with(how, t->host, t->device, t->bytes);
	return t->to_device ? vcuda_call_cuMemcpyHtoDAsync_v2_with(how, t->device, t->host, t->bytes, t->stream)
			    : vcuda_call_cuMemcpyDtoHAsync_v2_with(how, t->host, t->device, t->bytes, t->stream);
}

static CUresult copy_mapped(const struct libcuda_transfer *t)
{
	struct call_options options = *t->how;
	struct call_receipt receipt;
	CUresult result;

	options.receipt = &receipt;
	result = call_mapped(t, &options);
	if (result != CUDA_SUCCESS || t->async)
		return result;
	if (t->stream)
		return libcuda_stream_wait(t->how, t->stream);
	if (options.context)
		client_call_drained(options.context, &receipt);
	return CUDA_SUCCESS;
}

/* ---- pageable memory ---- */

static CUresult copy_staged(const struct libcuda_transfer *t, enum libcuda_copy_form form)
{
	CUresult result;

	if (form >= LIBCUDA_COPY_STRIPED && libcuda_stage_double_buffer(t, &result))
		return result;
	return libcuda_stage_queue_copy(t);
}

static CUresult copy_staged_part(const struct libcuda_transfer *t, size_t from, size_t to)
{
	struct libcuda_transfer part = libcuda_transfer_part(t, from, to);

	return from < to ? copy_staged(&part, libcuda_copy_form_of(&part, LIBCUDA_MEMORY_PAGEABLE)) : CUDA_SUCCESS;
}

static CUresult copy_direct(const struct libcuda_transfer *t)
{
	struct libcuda_span done;
	CUresult result = libcuda_direct_copy(t, &done);

	if (result == CUDA_SUCCESS)
		result = copy_staged_part(t, 0, done.from);
	return result == CUDA_SUCCESS ? copy_staged_part(t, done.to, t->bytes) : result;
}

/* ---- */

static CUresult copy_pageable(const struct libcuda_transfer *t)
{
	enum libcuda_copy_form form = libcuda_copy_form_of(t, LIBCUDA_MEMORY_PAGEABLE);

	if (form == LIBCUDA_COPY_INLINE &&
	    client_session.transport->host_minor >= vcuda_call_table[VCUDA_OP_vcudaCopyInAsync].since_minor)
		return copy_inline(t);
	return form == LIBCUDA_COPY_DIRECT ? copy_direct(t) : copy_staged(t, form);
}

static CUresult transfer(const struct libcuda_transfer *t, enum libcuda_memory_kind host)
{
	CUresult result;

	if (host == LIBCUDA_MEMORY_PAGEABLE)
		return copy_pageable(t);
	if (libcuda_copy_form_of(t, host) == LIBCUDA_COPY_QUEUED && libcuda_stage_queue_copy_idle(t, &result))
		return result;
	return copy_mapped(t);
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
	bool to_device = to == LIBCUDA_MEMORY_DEVICE, from_device = from == LIBCUDA_MEMORY_DEVICE,
	     both_mapped = to == LIBCUDA_MEMORY_MAPPED && from == LIBCUDA_MEMORY_MAPPED;
	struct libcuda_transfer t = {
		how, (char *)(to_device ? src : dst), to_device ? dst : src, bytes, stream, to_device, async};

	/* The device accesses mapped memory on both sides: then no wait is needed here. */
	if ((to_device && from_device) || (both_mapped && async))
		return vcuda_call_cuMemcpyDtoDAsync_v2_with(how, dst, src, bytes, stream);
	if (!to_device && !from_device)
		return host_to_host(how, (void *)dst, (const void *)src, bytes, stream);
	return transfer(&t, to_device ? from : to);
}

static CUresult find_ends(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes,
			  struct libcuda_operand *to, struct libcuda_operand *from)
{
	return libcuda_operands_find((struct libcuda_place){dst.address, dst.side},
				     (struct libcuda_place){src.address, src.side}, bytes, to, from);
}

CUresult libcuda_copy_check(struct libcuda_copy_end dst, struct libcuda_copy_end src, size_t bytes)
{
	struct libcuda_operand to, from;

	return find_ends(dst, src, bytes, &to, &from);
}

/* A part for each registration of host memory. */
static CUresult copy_pieces(const struct call_options *how, uint64_t dst, enum libcuda_memory_kind to, uint64_t src,
			    enum libcuda_memory_kind from, size_t bytes, CUstream stream, bool async)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t done = 0, piece; done < bytes && result == CUDA_SUCCESS; done += piece) {
		piece = libcuda_host_piece(src + done, libcuda_host_piece(dst + done, bytes - done));
		result = dispatch(how, dst + done, to, src + done, from, piece, stream, async);
	}
	return result;
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
	result = copy_pieces(&how, dst.address, to.kind, src.address, from.kind, bytes, stream, async);
	return result == CUDA_SUCCESS && to.seen && !async ? libcuda_stream_wait(&how, stream) : result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a one-dimensional copy between host memory and the device is made: four forms, and the table that chooses one by
 * direction, size, kind of memory and state of the stream.
 */
#ifndef VCUDA_COPY_POLICY_H
#define VCUDA_COPY_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/client/call.h"
#include "memory/range.h"
#include "protocol/cuda-abi.h"

/* Direct leaves a copy that it cannot make to striped, striped leaves it to queued, and inline to queued. */
enum libcuda_copy_form {
	LIBCUDA_COPY_INLINE,  /* the bytes travel in commands: vcudaCopyInAsync */
	LIBCUDA_COPY_QUEUED,  /* a piece at a time through a staging block: vcudaStageIn, vcudaStageHtoD, vcudaStageDtoH
			       */
	LIBCUDA_COPY_STRIPED, /* by several threads through several staging blocks: vcudaStageTurns */
	LIBCUDA_COPY_DIRECT,  /* the device accesses the host memory: cuMemcpyHtoD and the like, vcudaCopyDirect */
};

/* A copy between host memory and the device. */
struct libcuda_transfer {
	const struct call_options *how; /* the stream's context; `wait`: the worker has to check the device address */
	char *host;
	uint64_t device;
	size_t bytes;    /* not 0 */
	CUstream stream; /* resolved */
	bool to_device;
	bool async; /* the function may return before the stream has reached the copy */
};

/* The form of a copy; `host`: LIBCUDA_MEMORY_MAPPED or LIBCUDA_MEMORY_PAGEABLE. Thread-safe. */
enum libcuda_copy_form libcuda_copy_form_of(const struct libcuda_transfer *t, enum libcuda_memory_kind host);

/* The bytes [from, to) of a copy. */
static inline struct libcuda_transfer libcuda_transfer_part(const struct libcuda_transfer *t, size_t from, size_t to)
{
	struct libcuda_transfer part = *t;

	part.host += from;
	part.device += from;
	part.bytes = to - from;
	return part;
}

/* Page faults of the application's memory happen here, where no lock is held. */
static inline void libcuda_transfer_touch(const struct libcuda_transfer *t)
{
	for (size_t i = 0; i < t->bytes; i += 4096)
		(void)*(const volatile char *)(t->host + i);
	(void)*(const volatile char *)(t->host + t->bytes - 1);
}

/* A synchronous copy on the legacy default stream. */
static inline bool libcuda_transfer_is_plain(const struct libcuda_transfer *t)
{
	return !t->async && !t->stream;
}

#endif

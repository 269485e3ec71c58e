/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that wait for a value in memory, and write one. A wait holds no thread: the operation starts once the value
 * is there. When a kernel, copy or stream write ends, the scheduler checks the waits. Stores of host threads and of
 * running kernels give no notice, so one thread polls while any wait is queued: after 20 us, then more seldom, every
 * millisecond in the end. Without waits it sleeps.
 */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "device/memory.h"
#include "common/start-thread.h"
#include "device/stream.h"

#define MOST_OPS VCUDA_MEMORY_OPS_MAX

struct value_op {
	struct softgpu_op op;
	bool wide;          /* 64 bits, else 32 */
	unsigned int flags; /* comparison of a wait */
	uint64_t address, value;
};

/* ---- the thread that looks ---- */

#define FIRST_NAP_US 20
#define LONGEST_NAP_US 1000

static pthread_mutex_t waits_lock = PTHREAD_MUTEX_INITIALIZER; /* a plain one of its own lets the thread sleep without the scheduler's */
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static unsigned int waits;   /* number of queued waits */
static unsigned int changes; /* number of changes of `waits` */

static void count_wait(int change)
{
	pthread_mutex_lock(&waits_lock);
	waits += (unsigned int)change;
	changes++;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&waits_lock);
}

/* Sleeps while there is no wait; tells whether anything has changed since `*seen`. */
static bool await_waits(unsigned int *seen)
{
	bool changed;

	pthread_mutex_lock(&waits_lock);
	while (!waits)
		pthread_cond_wait(&more, &waits_lock);
	changed = *seen != changes;
	*seen = changes;
	pthread_mutex_unlock(&waits_lock);
	return changed;
}

static void *look(void *unused)
{
	unsigned int us = FIRST_NAP_US, seen = 0;

	for (;;) {
		if (await_waits(&seen))
			us = FIRST_NAP_US;
		nanosleep(&(struct timespec){.tv_nsec = us * 1000L}, NULL);
		us = us * 2 < LONGEST_NAP_US ? us * 2 : LONGEST_NAP_US;
		softgpu_lock();
		softgpu_schedule_again();
		softgpu_unlock();
	}
	return unused;
}

/* With the scheduler's lock held. */
static bool start_thread(void)
{
	static bool started;

	if (!started)
		started = vcuda_thread_start(look, NULL);
	return started;
}

/* ---- one operation ---- */

/* Where it is, if a stream may reach it there; looked up each time, as memory may go meanwhile. NULL: nowhere. */
static void *memory_of(const struct value_op *v, bool write)
{
	const struct softgpu_range *r = softgpu_range_find(v->address, v->wide ? 8 : 4);

	if (!r || r->kind == SOFTGPU_ARRAY_MEMORY || (write && !r->copy_writes))
		return NULL;
	return (void *)(uintptr_t)v->address;
}

static bool fulfilled(const struct value_op *v, uint64_t now)
{
	uint64_t mask = v->wide ? UINT64_MAX : UINT32_MAX, value = v->value & mask;

	switch (v->flags) {
	case CU_STREAM_WAIT_VALUE_GEQ: /* compares numbers that wrap around */
		return ((now - value) & mask) <= mask / 2;
	case CU_STREAM_WAIT_VALUE_EQ:
		return now == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return (now & value) != 0;
	default: /* CU_STREAM_WAIT_VALUE_NOR */
		return (~(now | value) & mask) != 0;
	}
}

static bool wait_due(const struct softgpu_op *op)
{
	const struct value_op *v = (const struct value_op *)op;
	void *p = memory_of(v, false);

	if (!p)
		return true; /* to fail */
	return fulfilled(v, v->wide ? __atomic_load_n((uint64_t *)p, __ATOMIC_ACQUIRE)
				    : __atomic_load_n((uint32_t *)p, __ATOMIC_ACQUIRE));
}

static bool wait_start(struct softgpu_op *op)
{
	return memory_of((struct value_op *)op, false) ||
	       !softgpu_context_fail(op->stream->context, CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void wait_finish(struct softgpu_op *op)
{
	count_wait(-1);
	softgpu_wake_waiters();
	free(op);
}

static bool write_start(struct softgpu_op *op)
{
	struct value_op *v = (struct value_op *)op;
	void *p = memory_of(v, true);

	if (!p)
		return !softgpu_context_fail(op->stream->context, CUDA_ERROR_ILLEGAL_ADDRESS);
	if (v->wide)
		__atomic_store_n((uint64_t *)p, v->value, __ATOMIC_SEQ_CST);
	else
		__atomic_store_n((uint32_t *)p, (uint32_t)v->value, __ATOMIC_SEQ_CST);
	return true;
}

static void write_finish(struct softgpu_op *op)
{
	softgpu_wake_waiters();
	free(op);
}

/* ---- a batch ---- */

/* Which of the union's members it is, and how wide. */
static bool is_wait(const CUstreamBatchMemOpParams *p)
{
	return p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static CUresult make(const CUstreamBatchMemOpParams *p, struct value_op **made)
{
	/* Both members have the same layout. */
	struct value_op v = {
		.wide = p->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
			p->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64,
		.flags = p->waitValue.flags,
		.address = p->waitValue.address,
		.value = p->waitValue.value64,
	};

	if (v.address % (v.wide ? 8 : 4) || !memory_of(&v, !is_wait(p)))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_wait(p)) {
		v.op.due = wait_due;
		v.op.start = wait_start;
		v.op.finish = wait_finish;
	} else {
		v.op.start = write_start;
		v.op.finish = write_finish;
	}
	*made = malloc(sizeof(**made));
	if (!*made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	**made = v;
	return CUDA_SUCCESS;
}

static CUresult check(const CUstreamBatchMemOpParams *p)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		if (p->waitValue.flags & CU_STREAM_WAIT_VALUE_FLUSH)
			return CUDA_ERROR_NOT_SUPPORTED;
		return p->waitValue.flags <= CU_STREAM_WAIT_VALUE_NOR ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return p->writeValue.flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_BARRIER: /* all that is before it in the stream has ended, for everybody to see */
		return p->memoryBarrier.flags > CU_STREAM_MEMORY_BARRIER_TYPE_GPU ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* All of them or none. */
static CUresult make_all(const CUstreamBatchMemOpParams *params, unsigned int count, struct value_op **ops,
			 unsigned int *made)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; i < count && result == CUDA_SUCCESS; i++) {
		result = check(&params[i]);
		if (result != CUDA_SUCCESS || params[i].operation == CU_STREAM_MEM_OP_BARRIER)
			continue;
		result = make(&params[i], &ops[*made]);
		if (result == CUDA_SUCCESS)
			(*made)++;
	}
	while (result != CUDA_SUCCESS && *made)
		free(ops[--*made]);
	return result;
}

CUresult softgpu_cuStreamBatchMemOp_v2(CUstream hStream, unsigned count, void *params, unsigned flags)
{
	struct value_op *ops[MOST_OPS];
	struct CUstream_st *stream;
	unsigned int made = 0;
	struct CUctx_st *c;
	CUresult result = softgpu_enter(&c);

	if (result != CUDA_SUCCESS)
		return result;
	stream = softgpu_stream_find(c, hStream);
	if (!stream)
		return softgpu_leave(CUDA_ERROR_INVALID_HANDLE);
	if (!params || !count || count > MOST_OPS || flags)
		return softgpu_leave(CUDA_ERROR_INVALID_VALUE);
	if (!start_thread())
		return softgpu_leave(CUDA_ERROR_OUT_OF_MEMORY);
	result = make_all(params, count, ops, &made);
	for (unsigned int i = 0; i < made; i++) {
		if (ops[i]->op.due)
			count_wait(1);
		softgpu_submit(stream, &ops[i]->op, false);
	}
	return softgpu_leave(result);
}

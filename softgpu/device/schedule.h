/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ordering and execution of work.
 *
 * One lock guards every object of the back end. Work is a list of operations in each stream; an operation consists of
 * `units` that any threads may run at once (a kernel's blocks, pieces of a copy), claimed in increasing order, or of
 * none (a marker). Every operation has a sequence number from one counter, so "all that was submitted before" is a
 * comparison:
 *   - only the first operation of a stream may start;
 *   - one of a blocking stream waits until its context's NULL stream holds nothing older, and the other way round;
 *   - one that waits for an event record waits until that record is done;
 *   - one in a stream that gathers waits until its context holds nothing older, and all wait for what is older in a
 *     stream that holds;
 *   - one that waits for a value in memory waits until it is there.
 * Threads that wait for work run it too: a small copy or kernel that is waited for at once never changes threads.
 */
#ifndef VCUDA_CPU_SCHEDULE_H
#define VCUDA_CPU_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/list.h"
#include "ops.h"

struct softgpu_record;

struct softgpu_op {
	struct softgpu_op *next;   /* in its stream */
	struct vcuda_list ready; /* on the ready list while it has unclaimed units */
	struct CUstream_st *stream;
	uint64_t seq;
	uint64_t bytes;      /* of the host's memory that it holds, where that may be much */
	uint64_t units;      /* 0: a marker, done when it may start */
	uint64_t chunk;      /* units claimed at a time, to begin with */
	uint64_t most;       /* at most, where they are short */
	bool in_rows;        /* units take longer in small pieces, so that these are for the very end only */
	uint64_t claimed;    /* atomic; beyond `units` once all are taken */
	unsigned int active; /* threads that run units */
	bool started;
	bool copies;   /* copies or sets memory, and is no kernel */
	bool external; /* run elsewhere after start(): the runner calls softgpu_op_done(); `units` is 0 */
	struct softgpu_record *after; /* may not start before this is done; NULL: none */
	/*
	 * Whether memory lets it start, NULL: always. Asked with the lock held and the operation first in its stream:
	 * at each submission, at each end, and in softgpu_schedule_again(). A context that ends waits for it while some
	 * operation of the context runs; then all operations that have not started are dropped.
	 */
	bool (*due)(const struct softgpu_op *op);
	/*
	 * Called once with the lock held, before the first unit; false: the operation has failed and set its context's
	 * error.
	 */
	bool (*start)(struct softgpu_op *op);
	/* Runs units from `unit` on, more than one only if they are claimed so; without the lock. */
	void (*run)(struct softgpu_op *op, uint64_t unit, uint64_t count);
	/*
	 * With the lock held, when all is done, or was dropped because the context failed or ends. May free the
	 * operation.
	 */
	void (*finish)(struct softgpu_op *op);
};

/* A stream's queue; the other members of a stream are in stream.h. */
struct CUstream_st {
	struct CUctx_st *context;
	struct vcuda_list node; /* in its context's list of streams */
	struct vcuda_list busy; /* in the list of streams with work */
	struct softgpu_op *head, **tail;
	uint64_t last; /* the newest operation's number */
	unsigned int flags;
	unsigned int refs; /* the handle, each waiting thread, and work in the queue */
	int priority;
	bool legacy;   /* a context's NULL stream; part of the context */
	bool blocking; /* ordered against the NULL stream */
	/* Made for one operation of the context as a whole: it comes after all that is older, or all that is newer
	 * after it. */
	bool gathers, holds;
	/* The work is part of an operation that was submitted before. */
	bool inner;
};

void softgpu_lock(void);
void softgpu_unlock(void);

/* The functions below are called with the lock held, and return with it. */

/*
 * Queues `op`. With `caller_runs`, an operation of one unit that can start at once wakes no worker, and true is
 * returned: the caller must then wait for it, which runs it.
 */
bool softgpu_submit(struct CUstream_st *stream, struct softgpu_op *op, bool caller_runs);

/* Starts operations whose due() has become true. */
void softgpu_schedule_again(void);

/* An external operation, which was started, has ended. */
void softgpu_op_done(struct softgpu_op *op);

/* From a unit that runs, without the lock: takes another one. False: all are taken. */
bool softgpu_op_claim(struct softgpu_op *op, uint64_t *unit);

/* No further units of `op` start. */
void softgpu_op_abandon(struct softgpu_op *op);

/* The number of the newest operation of all. */
uint64_t softgpu_submitted(void);

/*
 * Whether one operation more may be submitted, which holds so many bytes: each that has not ended takes memory of the
 * host.
 */
bool softgpu_has_room(uint64_t bytes);

/* Whether nothing runs or may start, so that only another thread's action can end an operation. */
bool softgpu_is_stuck(void);

/*
 * The operations to wait for: all that match and have a number <= last. The caller holds references to the objects that
 * it names.
 */
struct softgpu_scope {
	struct CUctx_st *context;   /* NULL: all contexts */
	struct CUstream_st *stream; /* NULL: all streams; a NULL stream includes the blocking streams */
	struct softgpu_record *record;  /* NULL, or: only until this is done */
	uint64_t last;
};

bool softgpu_scope_done(const struct softgpu_scope *scope);
/* Drops the lock while it waits. */
void softgpu_wait(const struct softgpu_scope *scope);

/* Sleeps until some operation has ended or softgpu_wake_waiters() is called. */
void softgpu_wait_any(void);
void softgpu_wake_waiters(void);

/*
 * A kernel that one worker runs does nothing but wait: if others are ready and no worker is free, they get one. Gives
 * back how many nanoseconds that kernel's worker is to sleep each time before it looks again.
 */
uint64_t softgpu_worker_stalled(void);

/* Starts the workers, once. False: no thread could be started. */
bool softgpu_workers_start(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One call from a guest thread to the worker: begin, encode, submit, decode, end. The generated vcuda_call_*()
 * functions are made of these; hand-written code uses those functions and not these.
 *
 * begin() takes the process's ring lock and submit() lets it go: the order of the commands is the order of the calls.
 * All functions are safe to call from any thread.
 */
#ifndef VCUDA_CALL_H
#define VCUDA_CALL_H

#include "protocol/calls.h"
#include "ring/ring.h"

#define VCUDA_EXPORT __attribute__((visibility("default")))

/* Exports `name`, which is the function `as`, of the same file. */
#define VCUDA_SAME(name, as) extern __typeof__(as) name __attribute__((alias(VCUDA_SYMBOL(as)), visibility("default")))
#define VCUDA_SYMBOL(function) #function

struct vcuda_call {
	struct vcuda_writer writer;
	struct vcuda_reader reader;
	struct vcuda_command *command;
	uint64_t seq, position; /* `position`: of its end in the ring */
	_Atomic uint64_t *work; /* of what gets something to do by it (known.h) */
	uint32_t slot;
	int cancel_state; /* the thread's, outside of the call */
	bool sync;
	unsigned int op;
	CUresult result; /* the worker's, of one that was waited for */
};

/*
 * Connects if need be, waits for room in the ring, reserves `bytes` for the arguments and fills the command's header
 * with the thread's current context. Errors: CUDA_ERROR_NOT_INITIALIZED, the session's lost error (sticky),
 * CUDA_ERROR_INVALID_VALUE (too large), CUDA_ERROR_NOT_SUPPORTED (the worker's protocol minor does not know the call),
 * CUDA_ERROR_NOT_READY (vcuda_call_only_settled).
 */
CUresult vcuda_call_begin(struct vcuda_call *call, unsigned int op, size_t bytes);

/* Publishes. A sync call waits and returns the worker's result; an async one returns at once. */
CUresult vcuda_call_submit(struct vcuda_call *call);

/* After decoding a reply: CUDA_ERROR_UNKNOWN, logged, if the reply was malformed. */
CUresult vcuda_call_check(struct vcuda_call *call);

/* Gives the reply slot back. Always called after a successful begin. */
void vcuda_call_end(struct vcuda_call *call);

/*
 * A context is settled if nothing that its default stream waits for has been queued since that had nothing left to do.
 * The first function says that it had none when the calling thread's last call, which was waited for, reached it. A
 * call made between the other two is refused with CUDA_ERROR_NOT_READY if the calling context is not settled.
 */
void vcuda_call_settles(void);
void vcuda_call_only_settled(void);
void vcuda_call_any(void);

/*
 * A context is idle if it is settled, and nothing was queued in any other stream either since all had nothing left to
 * do, which the first function says of the calling thread's last call. Until somebody queues something, nothing on the
 * device can tell when a copy is made. False as well where the process had several contexts.
 */
void vcuda_call_idles(void);
bool vcuda_call_is_idle(void);

/* Whether it has taken what ends at a position. */
bool vcuda_call_is_taken(uint64_t position);

/* Looks whether it is there still: CUDA_SUCCESS, or the session's error from now on. */
CUresult vcuda_call_worker_lives(void);

/* Whether a thread that looks at memory lets the worker run. */
bool vcuda_call_may_look(void);

/* Whether a stream that got to a mark (pace.h) has done what it had, and nothing has been printed. */
bool vcuda_call_offers_marks(void);

/* The ring lies in `shm`: calls can be made from now on. Called once, by the session. */
void vcuda_call_attach(void *shm);

/* From the session's beginning on the time that threads wait is counted (thread.h), and the worker counts too. */
void vcuda_call_profile(void);

/* The device is a GPU: waiters sleep later. */
void vcuda_call_wait_for_gpu(void);

/* The shared area of the session that calls are made in. */
struct vcuda_shm *vcuda_call_shm(void);

/*
 * Waits until blocked(argument), which looks at the shared area, is false: on this processor for a while, then asleep.
 * Returns the session's error if it ends before.
 */
CUresult vcuda_call_wait_while(bool (*blocked)(void *argument), void *argument);

/* CUDA_SUCCESS, or why no call may be made: CUDA_ERROR_NOT_INITIALIZED (cuInit first; also in a forked child),
 * DEINITIALIZED. */
CUresult vcuda_require_init(void);

/* The same and CUDA_ERROR_INVALID_CONTEXT if the calling thread has no current context. */
CUresult vcuda_require_context(void);

#endif

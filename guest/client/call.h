/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One command from a guest thread to the worker. Nothing here knows CUDA: a command has a number, a context is a name
 * that the worker gave, a result is the worker's.
 *
 * All functions are safe to call from any thread.
 *
 * Results: 0, a value of enum call_error, or a positive number: the worker's result, or the error that ended the
 * session.
 */
#ifndef VCUDA_CALL_H
#define VCUDA_CALL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/wire.h"
#include "ring/ring.h"

enum call_error {
	CALL_NOT_CONNECTED = -1,
	CALL_TOO_LARGE = -2,   /* the arguments do not fit a command */
	CALL_UNKNOWN = -3,     /* the worker's protocol minor does not have the command */
	CALL_NOT_DRAINED = -4, /* options.only_drained */
	CALL_MALFORMED = -5,   /* arguments that changed while they were encoded */
	CALL_BAD_ANSWER = -6,  /* the worker's answer does not decode */
};

/* The context in which commands execute. A program embeds one in each of its contexts. */
struct call_context {
	_Atomic(void *) id;             /* the worker's name; NULL: none */
	uint64_t drained_seq, idle_seq; /* under the ring lock, see client_call_drained() */
};

/* The place of a command in the ring: its number, and the position of its end, which only grows. */
struct call_receipt {
	uint64_t seq, position;
};

/* The state of a program for each of its threads. */
struct call_thread {
	uint32_t number;                /* small; goes with each command */
	uint32_t waits, queued, stalls; /* answers awaited, commands not waited for, times that the ring was full */
	uint64_t waited_ns;             /* for answers and room; counted after client_call_profile() */
	uint64_t first_seq, last_seq;   /* of the commands since first_seq was set to 0 */
};

/* The commands of one stream of the program. */
struct call_queue {
	_Atomic uint64_t issued;   /* position of the end of the last command that gave the stream work */
	_Atomic bool non_blocking; /* the default stream does not wait for this one */
	_Atomic bool launched;     /* the last command was a launch */
};

struct call_options {
	struct call_context *context; /* NULL: the calling thread's current one */
	bool wait;                    /* an asynchronous command waits for its result */
	bool only_drained;            /* send nothing unless the context is drained */
	bool internal;                /* part of another call of the library: no throttle, mirrors or output */
	/* Work for the thread while it waits for the answer; returns false if there is none now. May be NULL. */
	bool (*meanwhile)(void *argument);
	void *argument;
	struct call_receipt *receipt; /* filled by client_call(). May be NULL. */
};

/* A command with its arguments. */
struct call_request {
	unsigned int op;
	size_t bytes; /* largest number of bytes that encode() writes */
	/* Writes the arguments, with the process's ring lock held: it makes no call. */
	void (*encode)(struct vcuda_writer *writer, const void *arguments);
	/* Reads the answer of a call that succeeded. NULL: the answer has no values. */
	void (*decode)(struct vcuda_reader *reader, void *arguments);
	void *arguments;
	struct call_queue *queue; /* of the stream; NULL: the stream is not tracked */
};

struct client_call {
	/* The caller fills these in. */
	const struct call_request *request;
	const struct call_options *options;
	struct call_context *context; /* of the options, else the thread's current one; may be NULL */
	struct call_thread *thread;
	bool launches;

	/* client_call() sets these. */
	bool sync;     /* the call waits for the answer */
	bool answered; /* the worker has answered */
	int result;    /* of the worker, if it has answered */

	struct vcuda_writer writer;
	struct vcuda_command *command;
	struct call_receipt receipt;
	uint32_t slot;
	int cancel_state; /* of the thread, outside of the call */
};

/*
 * Waits for room in the ring, encodes, publishes. A synchronous call waits for the answer, decodes it, and returns the
 * worker's result; an asynchronous one returns 0 at once. The process's ring lock is held from the wait for room until
 * the command is published, so the order of the commands is the order of the calls. Errors: those of enum call_error,
 * the session's error.
 */
int client_call(struct client_call *call);

/*
 * A context is drained if no work that its default stream depends on is outstanding. The receipt is of a call that
 * waited for that stream.
 */
void client_call_drained(struct call_context *context, const struct call_receipt *receipt);
bool client_call_is_drained(const struct call_context *context);

/*
 * A context is idle if no work of any stream is outstanding. The receipt is of a call that waited for all streams.
 */
void client_call_idle(struct call_context *context, const struct call_receipt *receipt);

/* Whether the context is idle, where the process has no other context. */
bool client_call_is_idle(const struct call_context *context);

/* The commands of all queues, of all non-blocking queues, and of streams that are not tracked. */
extern struct call_queue client_call_all, client_call_non_blocking, client_call_untracked;

/* Whether the worker has taken the command that ends at the position. */
bool client_call_is_taken(uint64_t position);

/* Wakes the worker's dispatcher. Returns 0 or the session's error. */
int client_call_ring_doorbell(void);

/* Asks the transport whether the worker is still there. Returns 0 or the session's error. */
int client_call_worker_check(void);

/* Whether the worker can run while a thread polls memory. */
bool client_call_may_poll(void);

/* Calls can be made from now on, in the shared area. Called once, by the session. */
void client_call_attach(void *shm);

/*
 * Waiting times are counted while there is a bit, and the worker does what the bits say (VCUDA_PROFILE_*,
 * protocol/activity-rows.h). Before client_call_attach() the bits hold from the session's start on.
 */
void client_call_profile(uint32_t set, uint32_t clear);

/* The number of places that a piece of device work takes in its stream's queue: more while the worker measures it. */
unsigned int client_call_places(void);

/*
 * The observer is called for each command by the thread that issues it, with the process's ring lock held. It makes no
 * calls, and sees the commands in their order. NULL: there is no observer. Once set, it stays.
 */
typedef void (*client_call_observe)(uint64_t seq, const struct client_call *call);
extern _Atomic(client_call_observe) client_call_observer;

/* The device is a GPU: waiting threads poll longer before they sleep. */
void client_call_wait_for_gpu(void);

/* The shared area of the session. */
struct vcuda_shm *client_call_shm(void);

/*
 * Waits until blocked(argument), which reads the shared area, is false: polls for a while, then sleeps. Returns 0 or
 * the error that ended the session.
 */
int client_call_wait_while(bool (*blocked)(void *argument), void *argument);

/*
 * For the restore thread alone. Closes sections (section.h) and the ring: no thread writes to the shared area from then
 * on, and none but the restore thread uses the transport's descriptors. Calls wait, and so do answers. False: not
 * within `ms`; then all is open.
 */
bool client_call_close(unsigned int ms);
void client_call_open(void);

/* Wakes the threads that wait for the worker, so that they look again. */
void client_call_wake(void);

/* In a forked child: gives up what other threads have begun. */
void client_call_forked(void);

#endif

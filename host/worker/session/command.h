/* SPDX-License-Identifier: Apache-2.0 */
/* The command that a thread runs, and the errors of asynchronous commands. Thread-safe. */
#ifndef VCUDA_COMMAND_H
#define VCUDA_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct vcuda_command;
struct worker_session;

/* From now on the thread runs `c`, which stays valid until the next call. */
void worker_command_begin(const struct vcuda_command *c);

/*
 * The object of an id as worker_handle_get() gives it. The command uses the object until worker_command_end(). NULL
 * also where the command uses too many.
 */
void *worker_command_use(struct worker_session *s, uint64_t id, uint32_t kinds);

/* The thread's command has ended: gives back what it used, and starts the destructions that waited for it. */
void worker_command_end(struct worker_session *s);

/* The thread's command; NULL: none. */
const struct vcuda_command *worker_command(void);

/* The device may wait for what the process writes before it ends what the thread's command gives it. */
void worker_command_note_wait(void);

/* Whether that is so of the thread's last command. */
bool worker_command_may_wait(void);

/* The id of the context that the thread's command was issued in, 0: none. */
uint64_t worker_command_context(void);

/* The staging block `block`, or NULL if there is none or `bytes` does not fit. */
void *worker_command_stage(struct worker_session *s, uint32_t block, uint64_t bytes);

/*
 * Whether an earlier asynchronous command of the same guest thread in the same context has failed, and no synchronous
 * command has reported that.
 */
bool worker_command_has_error(struct worker_session *s);

/* Keeps the error of an asynchronous command; the first error of a context stays. */
void worker_command_record_error(struct worker_session *s, const struct vcuda_command *c, CUresult error);

/* Returns and forgets the error that was kept for the thread and context of `c`; CUDA_SUCCESS: none. */
CUresult worker_command_take_error(struct worker_session *s, const struct vcuda_command *c);

#endif

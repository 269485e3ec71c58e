/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queries of streams and events, and waits for them. The guest answers where it knows the answer: no work was issued
 * since the worker reported completion. The position of a command's end in the ring, which only grows, gives the order
 * of commands.
 *
 * Only the worker knows that a context has failed. A thread therefore gets answers of the guest for about 50 us after
 * an answer of the worker.
 */
#ifndef VCUDA_COMPLETION_H
#define VCUDA_COMPLETION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"
#include "core/object.h"
#include "guest/client/call.h"

struct libcuda_context;

/*
 * The functions of the same names, of a resolved stream or an event of the context `c`. Captures are the caller's
 * concern. Another thread may destroy the event meanwhile.
 */
CUresult libcuda_completion_stream_query(struct libcuda_context *c, CUstream resolved);
CUresult libcuda_completion_stream_wait(struct libcuda_context *c, CUstream resolved);
CUresult libcuda_completion_event_query(struct libcuda_context *c, struct libcuda_object *event);
CUresult libcuda_completion_event_wait(struct libcuda_context *c, struct libcuda_object *event);
CUresult libcuda_completion_context_wait(struct libcuda_context *c);

/* Whether the event is known to be done. */
bool libcuda_completion_event_is_done(const struct libcuda_object *event);

/* The command of the receipt has recorded the event. */
void libcuda_completion_event_recorded(struct libcuda_object *event, const struct call_receipt *receipt);

/* The stream has been created, and is tracked from now on; it has been destroyed. non_blocking: CU_STREAM_NON_BLOCKING.
 */
void libcuda_completion_stream_begin(CUstream stream, bool non_blocking);
void libcuda_completion_stream_end(CUstream stream);

#endif

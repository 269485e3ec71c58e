/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions whether something is done, and waits for it, which are answered here where the answer is known: nothing was
 * issued since the worker said so. What came before what is told by where commands end in the ring, a position that
 * only grows.
 *
 * A context's fault is the worker's to tell. So a thread has such answers only for some 50 us after the worker has
 * answered it.
 */
#ifndef VCUDA_KNOWN_H
#define VCUDA_KNOWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"
#include "core/object.h"
#include "guest/client/call.h"

struct vcuda_context;

/*
 * The functions of the same names, of a resolved stream or an event of the context `c`. Captures are the caller's
 * concern. Another thread may destroy the event meanwhile.
 */
CUresult vcuda_known_stream_query(struct vcuda_context *c, CUstream resolved);
CUresult vcuda_known_stream_wait(struct vcuda_context *c, CUstream resolved);
CUresult vcuda_known_event_query(struct vcuda_context *c, struct vcuda_object *event);
CUresult vcuda_known_event_wait(struct vcuda_context *c, struct vcuda_object *event);
CUresult vcuda_known_context_wait(struct vcuda_context *c);

/* Whether nobody has to wait for an event. */
bool vcuda_known_is_done(const struct vcuda_object *event);

/* The command of the receipt has recorded the event. */
void vcuda_known_recorded(struct vcuda_object *event, const struct call_receipt *receipt);

/* A stream was made, which is not looked after before that; it has ended. `apart`: CU_STREAM_NON_BLOCKING. */
void vcuda_known_stream_begin(CUstream stream, bool apart);
void vcuda_known_stream_end(CUstream stream);

/* Where the commands of a resolved stream are noted; NULL: it is not tracked. */
struct call_queue *vcuda_known_queue(CUstream resolved);

#endif

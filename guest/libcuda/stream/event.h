/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of events and waits for them, on a resolved stream, in its context. For an event of several processes they
 * are in force when the call returns: another process, with its own worker, may act on them at once.
 */
#ifndef VCUDA_EVENT_H
#define VCUDA_EVENT_H

#include "protocol/cuda-abi.h"
#include "core/object.h"

CUresult libcuda_event_record(const struct call_options *how, struct libcuda_object *event, CUstream resolved,
			      unsigned int flags);
CUresult libcuda_event_wait(const struct call_options *how, CUstream resolved, const struct libcuda_object *event,
			    unsigned int flags);

/* The same for all streams of a context. */
CUresult libcuda_event_record_context(struct libcuda_object *event, struct libcuda_context *context);
CUresult libcuda_event_wait_context(struct libcuda_context *context, const struct libcuda_object *event);

#endif

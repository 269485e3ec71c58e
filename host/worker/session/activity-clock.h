/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sources of device times: events, and for each context the events ("bases") whose time on the host's clock was
 * measured. The caller holds a lock around all calls but activity_base_make().
 */
#ifndef VCUDA_WORKER_ACTIVITY_CLOCK_H
#define VCUDA_WORKER_ACTIVITY_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

struct worker_session;

/* An event that several may name: the end of one piece of work may be the begin of the next one. */
struct activity_stamp {
	CUevent event;
	unsigned int uses;
	struct activity_stamp *next; /* of the spare ones */
};

/* The time of an event is told as a float of ms after a base. */
struct activity_base {
	struct activity_stamp *stamp;
	double ns;                  /* of the monotonic clock */
	double rate;                /* ns of the host's clock for one of the device's */
	unsigned int uses;          /* number of pieces of work whose times are measured from this base */
	struct activity_base *next; /* older ones */
};

/* A place for each of the streams that were used last. */
#define ACTIVITY_STREAMS 64

struct activity_context {
	uint64_t id; /* 0: there is none */
	uint64_t number;
	CUcontext context;
	CUstream stream;             /* for bases; NULL: there is none yet */
	struct activity_base *bases; /* the newest one first */
	uint64_t measured_ns;        /* time of the measurement */
	uint64_t event_ns;           /* from one event to the next one behind it; 0: not measured */
	bool is_measuring;
	struct activity_stamp *spare;
	/* The end of the last work of a stream, as reported. */
	struct {
		CUstream stream;
		uint64_t seq, end; /* seq: of its command, 0: none */
	} last[ACTIVITY_STREAMS];
};

/* NULL: there is none. */
struct activity_stamp *activity_stamp_take(struct worker_session *s, struct activity_context *context);
/* Ends one use. */
void activity_stamp_give(struct activity_context *context, struct activity_stamp *stamp);

/* The calls that measurements need are there. */
bool activity_clock_is_possible(const struct worker_session *s);

/*
 * Gives the first stamp of three the time that `base` is to have, in the current context. `stream` is made where it is
 * NULL. `event_ns` is measured where it is 0. False: the driver fails. May wait for the driver.
 */
bool activity_base_make(struct worker_session *s, struct activity_base *base, CUstream *stream, uint64_t *event_ns,
			struct activity_stamp *stamps[3]);

/* The base becomes the context's newest one. The context is current. Gives back older ones that no work needs. */
void activity_base_add(struct worker_session *s, struct activity_context *context, struct activity_base *base);

/* ns of the monotonic clock. False: the driver fails. */
bool activity_base_tell(struct worker_session *s, const struct activity_base *base, const struct activity_stamp *stamp,
			double *ns);

/* The context's events end with it, but for what running commands name. */
void activity_context_clear(struct activity_context *context);

/* ---- times of work ---- */

struct activity_span {
	CUstream stream;
	uint64_t seq; /* of the command */
	uint64_t begin, end;
};

/*
 * The events around work are earlier and later than the work: takes `lead` and `trail` off, as far as something is
 * left.
 */
void activity_span_shrink(struct activity_span *span, uint64_t lead, uint64_t trail);

/* Times of one stream do not overlap: a span that would is moved behind the one before it. */
void activity_span_order(struct activity_context *context, struct activity_span *span);

#endif

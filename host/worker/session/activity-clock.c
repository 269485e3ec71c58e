/* SPDX-License-Identifier: Apache-2.0 */
#include "session/activity-clock.h"

#include <stdlib.h>

#include "common/deadline.h"
#include "protocol/backend.h"
#include "session/session.h"

/* The base is measured so often; the shortest interval counts. */
#define BASE_TRIES 5

/* The number of times that two consecutive events are measured. On a GPU with other users most pairs are apart. */
#define EVENT_TRIES 16
#define MOST_EVENT_NS 4000u

/* The shortest time of an activity. NVIDIA's CUPTI reports 0.51 us for an empty kernel (H200, driver 580). */
#define SHORTEST_NS 500u

/* Clocks run apart by less; else the base was measured badly. */
#define MOST_DRIFT 0.001

/* ---- events ---- */

struct activity_stamp *activity_stamp_take(struct worker_session *s, struct activity_context *context)
{
	struct activity_stamp *stamp = context->spare;

	if (stamp) {
		context->spare = stamp->next;
		stamp->uses = 1;
		return stamp;
	}
	stamp = calloc(1, sizeof(*stamp));
	if (!stamp || s->ops->cuEventCreate(&stamp->event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
		free(stamp);
		return NULL;
	}
	stamp->uses = 1;
	return stamp;
}

void activity_stamp_give(struct activity_context *context, struct activity_stamp *stamp)
{
	if (--stamp->uses)
		return;
	stamp->next = context->spare;
	context->spare = stamp;
}

/* ---- bases ---- */

bool activity_clock_is_possible(const struct worker_session *s)
{
	return s->ops->cuStreamCreateWithPriority && s->ops->cuEventRecordWithFlags && s->ops->cuEventQuery &&
	       s->ops->cuEventElapsedTime_v2 && s->ops->cuEventSynchronize;
}

static bool record(struct worker_session *s, CUstream stream, const struct activity_stamp *stamp)
{
	return s->ops->cuEventRecordWithFlags(stamp->event, stream, 0) == CUDA_SUCCESS;
}

/* Two events; the first becomes the base. Each happens between two looks at the clock: the shortest time wins. */
static bool measure_base(struct worker_session *s, CUstream stream, struct activity_stamp *stamps[2], double *ns)
{
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < BASE_TRIES; i++) {
		uint64_t before = vcuda_now_ns(), took;
		struct activity_stamp *better = stamps[1];

		if (!record(s, stream, better) || s->ops->cuEventSynchronize(better->event) != CUDA_SUCCESS)
			break;
		took = vcuda_now_ns() - before;
		if (took >= shortest)
			continue;
		shortest = took;
		*ns = (double)before + (double)took / 2;
		stamps[1] = stamps[0];
		stamps[0] = better;
	}
	return shortest != UINT64_MAX;
}

/* The shortest time between two events that follow each other. 0: the driver fails. */
static uint64_t measure_event(struct worker_session *s, CUstream stream, struct activity_stamp *stamps[2])
{
	float shortest = MOST_EVENT_NS / 1e6f, ms;

	for (int i = 0; i < EVENT_TRIES; i++) {
		if (!record(s, stream, stamps[0]) || !record(s, stream, stamps[1]) ||
		    s->ops->cuEventSynchronize(stamps[1]->event) != CUDA_SUCCESS ||
		    s->ops->cuEventElapsedTime_v2(&ms, stamps[0]->event, stamps[1]->event) != CUDA_SUCCESS)
			return 0;
		if (ms < shortest)
			shortest = ms < 0 ? 0 : ms;
	}
	/* 0 is no measurement. */
	return (uint64_t)((double)shortest * 1e6) + 1;
}

bool activity_base_make(struct worker_session *s, struct activity_base *base, CUstream *stream, uint64_t *event_ns,
			struct activity_stamp *stamps[3])
{
	if (!stamps[0] || !stamps[1] || !stamps[2])
		return false;
	if (!*stream && s->ops->cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0) != CUDA_SUCCESS)
		return false;
	if (!*event_ns)
		*event_ns = measure_event(s, *stream, &stamps[1]);
	return *event_ns && measure_base(s, *stream, stamps, &base->ns);
}

static void drop_old_bases(struct activity_context *context)
{
	struct activity_base **at = context->bases ? &context->bases->next : NULL, *b;

	while (at && (b = *at)) {
		if (b->uses) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		activity_stamp_give(context, b->stamp);
		free(b);
	}
}

/* By how much the clocks have run apart since the base before, which is told of both. */
static void compare(struct worker_session *s, struct activity_base *base)
{
	struct activity_base *before = base->next;
	double rate;
	float ms;

	base->rate = 1;
	if (!before || s->ops->cuEventElapsedTime_v2(&ms, before->stamp->event, base->stamp->event) != CUDA_SUCCESS)
		return;
	rate = (base->ns - before->ns) / ((double)ms * 1e6);
	if (rate > 1 - MOST_DRIFT && rate < 1 + MOST_DRIFT)
		before->rate = base->rate = rate;
}

void activity_base_add(struct worker_session *s, struct activity_context *context, struct activity_base *base)
{
	base->next = context->bases;
	context->bases = base;
	compare(s, base);
	drop_old_bases(context);
}

bool activity_base_tell(struct worker_session *s, const struct activity_base *base, const struct activity_stamp *stamp,
			double *ns)
{
	float ms;

	if (s->ops->cuEventElapsedTime_v2(&ms, base->stamp->event, stamp->event) != CUDA_SUCCESS)
		return false;
	*ns = base->ns + (double)ms * 1e6 * base->rate;
	return true;
}

void activity_context_clear(struct activity_context *context)
{
	struct activity_stamp *stamp;
	struct activity_base *b;

	while ((b = context->bases)) {
		context->bases = b->next;
		activity_stamp_give(context, b->stamp);
		free(b);
	}
	while ((stamp = context->spare)) {
		context->spare = stamp->next;
		free(stamp);
	}
	*context = (struct activity_context){0};
}

/* ---- times of work ---- */

void activity_span_shrink(struct activity_span *span, uint64_t lead, uint64_t trail)
{
	uint64_t length = span->end - span->begin, spare = length > SHORTEST_NS ? length - SHORTEST_NS : 0;

	if (lead + trail > spare) {
		lead = spare * lead / (lead + trail);
		trail = spare - lead;
	}
	span->begin += lead;
	span->end -= trail;
}

void activity_span_order(struct activity_context *context, struct activity_span *span)
{
	uint64_t key = (uintptr_t)span->stream * 0x9e3779b97f4a7c15u >> 58;
	uint64_t by;

	_Static_assert(ACTIVITY_STREAMS == 64, "as many as keys");
	if (context->last[key].stream == span->stream && context->last[key].seq > span->seq)
		return;
	if (context->last[key].stream == span->stream && context->last[key].end > span->begin) {
		by = context->last[key].end - span->begin;
		span->begin += by;
		span->end += by;
	}
	context->last[key].stream = span->stream;
	context->last[key].seq = span->seq;
	context->last[key].end = span->end;
}

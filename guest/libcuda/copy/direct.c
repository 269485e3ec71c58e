/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/direct.h"

#include <pthread.h>
#include <stdatomic.h>

#include "core/request.h"
#include "protocol/guest-calls.h"
#include "guest/client/session.h"
#include "stream/stream.h"
#include "core/thread.h"

/* A huge page. The ends that do not fill one go by staging: a processor copies small pages faster. */
#define GRAIN ((size_t)2 << 20)

/* The parts of a copy, of which one is pinned at a time: enough that the first pin and the last release cost little. */
#define PARTS 4
#define LEAST_PART ((size_t)8 << 20)
#define LARGEST_PART ((size_t)32 << 20)

struct copy {
	const struct libcuda_transfer *transfer;
	size_t part, end;
	size_t next;                       /* begin of the next part to pin */
	struct libcuda_span ahead, behind; /* pinned: to be copied, and copied already; empty: none is */
	bool refused;
};

static bool is_empty(const struct libcuda_span *span)
{
	return span->from == span->to;
}

static void unpin(struct copy *c, struct libcuda_span *span)
{
	struct client_transport *t = client_session.transport;

	libcuda_thread()->calls.waits++;
	/* Where it fails the pages stay pinned, and charged, until the context's end. */
	t->ops->direct_unpin(t, c->transfer->host + span->from, span->to - span->from);
	*span = (struct libcuda_span){0};
}

/* False: there was nothing to do. */
static bool pin_ahead(struct copy *c)
{
	struct client_transport *t = client_session.transport;
	struct libcuda_span span = {c->next, c->end - c->next < c->part ? c->end : c->next + c->part};

	if (c->refused || !is_empty(&c->ahead) || is_empty(&span))
		return false;
	libcuda_thread()->calls.waits++;
	c->refused = t->ops->direct_pin(t, c->transfer->host + span.from, span.to - span.from, !c->transfer->to_device);
	if (c->refused)
		return true;
	c->ahead = span;
	c->next = span.to;
	return true;
}

static bool unpin_behind(struct copy *c)
{
	if (is_empty(&c->behind))
		return false;
	unpin(c, &c->behind);
	return true;
}

/* While the device copies. */
static bool work(void *copy)
{
	return pin_ahead(copy) || unpin_behind(copy);
}

static _Atomic bool ready;

/* The first copies begin it, and go by staging until it is done; so do those after the end of the context it was in. */
static bool is_ready(const struct call_options *how)
{
	int answer = 0;

	if (!atomic_load(&ready) && vcuda_call_vcudaDirectReady_with(how, &answer) == CUDA_SUCCESS && answer)
		atomic_store(&ready, true);
	return atomic_load(&ready);
}

static CUresult copy_part(struct copy *c, const struct libcuda_span *part)
{
	struct call_options options = *c->transfer->how;
	CUresult result;

	options.meanwhile = work;
	options.argument = c;
	result = vcuda_call_vcudaCopyDirect_with(&options, c->transfer->device + part->from,
						 (uintptr_t)c->transfer->host + part->from, c->transfer->to_device,
						 part->to - part->from, c->transfer->stream);
	if (result == CUDA_ERROR_NOT_READY)
		atomic_store(&ready, false);
	return result;
}

static CUresult copy_parts(struct copy *c, struct libcuda_span *done)
{
	CUresult result = CUDA_SUCCESS;

	pin_ahead(c);
	while (result == CUDA_SUCCESS && !is_empty(&c->ahead)) {
		struct libcuda_span part = c->ahead;

		c->ahead = (struct libcuda_span){0};
		result = copy_part(c, &part);
		unpin_behind(c);
		c->behind = part;
		if (result == CUDA_SUCCESS) {
			done->to = part.to;
			pin_ahead(c);
		}
	}
	unpin_behind(c);
	if (!is_empty(&c->ahead))
		unpin(c, &c->ahead);
	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static bool is_offered(void)
{
	const struct client_transport *t = client_session.transport;

	return t->direct && t->host_minor >= vcuda_call_table[VCUDA_OP_vcudaCopyDirect].since_minor;
}

CUresult libcuda_direct_copy(const struct libcuda_transfer *t, struct libcuda_span *done)
{
	uintptr_t address = (uintptr_t)t->host;
	size_t start = -address % GRAIN, end = t->bytes - (address + t->bytes) % GRAIN;
	struct copy c = {.transfer = t, .next = start, .end = end};
	CUresult result;
	int cancel_state;

	*done = (struct libcuda_span){0};
	if (!is_offered() || !is_ready(t->how))
		return CUDA_SUCCESS;
	c.part = (end - start) / PARTS / GRAIN * GRAIN;
	c.part = c.part < LEAST_PART ? LEAST_PART : c.part > LARGEST_PART ? LARGEST_PART : c.part;
	/* Nothing is pinned until the stream's earlier work is done. */
	result = libcuda_stream_wait(t->how, t->stream);
	if (result != CUDA_SUCCESS)
		return result;
	*done = (struct libcuda_span){start, start};
	/* A thread that is cancelled in here would leave pages pinned. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	result = copy_parts(&c, done);
	pthread_setcancelstate(cancel_state, NULL);
	if (is_empty(done))
		*done = (struct libcuda_span){0};
	return result;
}

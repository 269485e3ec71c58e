/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/stage-queue.h"

#include <pthread.h>
#include <string.h>

#include "session/activity.h"
#include "session/command.h"
#include "common/probe.h"

/* Parts of the staging area that the guest gets back one after the other, and how much is in one at least. */
#define FLIGHTS 8
#define FLIGHT_BYTES (64u * 1024)

/* The most contexts that have a stream and events. Copies of other contexts are waited for. */
#define LINES 4

/*
 * NVIDIA's driver puts copies up to this size from memory that is not pinned into its commands. From 64 KiB on the
 * device's copy engine is faster.
 */
#define IN_DRIVER_BYTES (32u * 1024)

struct line {
	uint64_t id; /* of the context; 0: there is none */
	CUcontext context;
	CUstream stream;
	CUevent before, flown[FLIGHTS];
	unsigned int events;   /* of `flown` */
	unsigned int followed; /* of the copies that commands made */
	bool default_waits;    /* the default stream, for all copies so far */
};

struct flight {
	uint32_t block, ticket;
};

/* The nth flight from the first on has its event at (first + n) % FLIGHTS. The flight `open` has no event yet. */
static struct {
	pthread_mutex_t lock;
	_Atomic bool any; /* changes under the lock; later commands may read it without the lock */
	struct line lines[LINES], *line;
	struct flight flights[FLIGHTS], open;
	unsigned int first, count;
	unsigned int ending;           /* contexts that end just now */
	size_t open_bytes;             /* 0: nothing is open */
	_Atomic unsigned int commands; /* that have left a copy in a default stream, counted around */
	char own[IN_DRIVER_BYTES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- with the lock held ---- */

/* The context's handles may mean nothing in another. Returns the one that was current. */
static CUcontext enter(struct worker_session *s, const struct line *l)
{
	CUcontext before = NULL;

	s->ops->cuCtxGetCurrent(&before);
	if (before != l->context)
		s->ops->cuCtxSetCurrent(l->context);
	return before;
}

static void leave(struct worker_session *s, const struct line *l, CUcontext before)
{
	if (before != l->context)
		s->ops->cuCtxSetCurrent(before);
}

static void end_line(struct worker_session *s, struct line *l)
{
	CUcontext before = enter(s, l);

	while (l->events)
		s->ops->cuEventDestroy_v2(l->flown[--l->events]);
	if (l->before)
		s->ops->cuEventDestroy_v2(l->before);
	if (l->stream)
		s->ops->cuStreamDestroy_v2(l->stream);
	leave(s, l, before);
	*l = (struct line){0};
}

static CUresult begin_line(struct worker_session *s, struct line *l, uint64_t id)
{
	CUresult result = s->ops->cuCtxGetCurrent(&l->context);

	l->id = id;
	l->followed = atomic_load(&queue.commands) - 1;
	if (result == CUDA_SUCCESS)
		result = s->ops->cuStreamCreateWithPriority(&l->stream, CU_STREAM_NON_BLOCKING, 0);
	if (result == CUDA_SUCCESS)
		result = s->ops->cuEventCreate(&l->before, CU_EVENT_DISABLE_TIMING);
	while (l->events < FLIGHTS && result == CUDA_SUCCESS)
		if ((result = s->ops->cuEventCreate(&l->flown[l->events], CU_EVENT_DISABLE_TIMING)) == CUDA_SUCCESS)
			l->events++;
	if (result != CUDA_SUCCESS)
		end_line(s, l);
	return result;
}

static void publish(struct worker_session *s, struct flight f)
{
	struct vcuda_shm *shm = s->shm;

	atomic_store(&shm->handovers[f.block].count, f.ticket);
}

/* The first has been read, or never will be. */
static void land(struct worker_session *s)
{
	publish(s, queue.flights[queue.first]);
	queue.first = (queue.first + 1) % FLIGHTS;
	queue.count--;
}

static void land_all(struct worker_session *s)
{
	while (queue.count)
		land(s);
	if (queue.open_bytes)
		publish(s, queue.open);
	queue.open_bytes = 0;
	atomic_store(&queue.any, false);
}

static void wait_for_first(struct worker_session *s)
{
	VCUDA_PROBE(copies_wait_begin);
	s->ops->cuEventSynchronize(queue.line->flown[queue.first]);
	VCUDA_PROBE(copies_wait_end);
	land(s);
}

/* Gives what is open an event. */
static void close_open(struct worker_session *s)
{
	unsigned int at;

	if (!queue.open_bytes)
		return;
	if (queue.count == FLIGHTS)
		wait_for_first(s);
	at = (queue.first + queue.count) % FLIGHTS;
	queue.flights[at] = queue.open;
	queue.count++;
	queue.open_bytes = 0;
	/* Where it cannot be had, nothing is read any more once the stream has been waited for. */
	if (s->ops->cuEventRecordWithFlags(queue.line->flown[at], queue.line->stream, 0) != CUDA_SUCCESS) {
		s->ops->cuStreamSynchronize(queue.line->stream);
		land_all(s);
	}
}

static void land_what_is_through(struct worker_session *s)
{
	while (queue.count && s->ops->cuEventQuery(queue.line->flown[queue.first]) != CUDA_ERROR_NOT_READY)
		land(s);
}

static void drain(struct worker_session *s)
{
	CUcontext before = enter(s, queue.line);

	close_open(s);
	while (queue.count)
		wait_for_first(s);
	atomic_store(&queue.any, false);
	leave(s, queue.line, before);
}

/* The stream and events of the command's context; NULL: they cannot be had. Nothing is on its way in another one then.
 */
static struct line *find_line(struct worker_session *s)
{
	uint64_t id = worker_command_context();
	struct line *l = queue.lines;

	if (queue.line && queue.line->id == id)
		return queue.line;
	if (!s->ops->cuStreamCreateWithPriority || !s->ops->cuEventRecordWithFlags || !s->ops->cuEventQuery ||
	    !s->ops->cuStreamWaitEvent)
		return NULL;
	if (atomic_load(&queue.any))
		drain(s);
	queue.line = NULL;
	/* The current context may be unknown (id 0), and free lines have id 0: return none of them. */
	if (!id)
		return NULL;
	while (l < queue.lines + LINES && l->id != id)
		l++;
	if (l < queue.lines + LINES)
		return queue.line = l;
	for (l = queue.lines; l < queue.lines + LINES && l->id; l++)
		continue;
	/* While a context ends this may be that context, whose new line would never be removed. */
	if (l == queue.lines + LINES || queue.ending || begin_line(s, l, id) != CUDA_SUCCESS)
		return NULL;
	return queue.line = l;
}

/* The copy has been issued: its part of the block is the guest's again when the stream is through. */
static void add(struct worker_session *s, const struct worker_staged *copy)
{
	if (queue.open_bytes && queue.open.block != copy->block)
		close_open(s);
	queue.open = (struct flight){copy->block, copy->ticket};
	queue.open_bytes += copy->bytes;
	queue.line->default_waits = false;
	atomic_store(&queue.any, true);
	if (queue.open_bytes < FLIGHT_BYTES)
		return;
	close_open(s);
	land_what_is_through(s);
}

/* Has the device make what comes next in the stream wait. False: it cannot, or not in this context. */
static bool precede(struct worker_session *s, CUstream stream)
{
	struct line *l = queue.line;

	if (l->id != worker_command_context())
		return false;
	close_open(s);
	/* The guest may wait for its block, while others of its threads launch on and on. */
	land_what_is_through(s);
	atomic_store(&queue.any, queue.count > 0);
	if (!queue.count || (!stream && l->default_waits))
		return true;
	if (s->ops->cuStreamWaitEvent(stream, l->flown[(queue.first + queue.count - 1) % FLIGHTS], 0) != CUDA_SUCCESS)
		return false;
	l->default_waits |= !stream;
	return true;
}

/* The line's stream waits for the work of the default stream. */
static CUresult follow_default(struct worker_session *s, struct line *l)
{
	unsigned int commands = atomic_load(&queue.commands);
	CUresult result = s->ops->cuEventRecordWithFlags(l->before, NULL, 0);

	if (result == CUDA_SUCCESS)
		result = s->ops->cuStreamWaitEvent(l->stream, l->before, 0);
	if (result == CUDA_SUCCESS)
		l->followed = commands;
	return result;
}

static CUresult copy_in_line(struct worker_session *s, const struct worker_staged *copy, const void *from)
{
	CUresult result;

	worker_activity_begin(s, queue.line->stream);
	result = s->ops->cuMemcpyHtoDAsync_v2(copy->to, from, copy->bytes, queue.line->stream);
	worker_activity_end(s, queue.line->stream);
	return result;
}

/* ---- from outside ---- */

void worker_stage_queue_follow(void)
{
	atomic_fetch_add(&queue.commands, 1);
}

static CUresult put_now(struct worker_session *s, const struct worker_staged *copy)
{
	CUresult result;

	worker_activity_begin(s, NULL);
	result = s->ops->cuMemcpyHtoD_v2(copy->to, copy->from, copy->bytes);
	worker_activity_end(s, NULL);
	publish(s, (struct flight){copy->block, copy->ticket});
	return result;
}

CUresult worker_stage_queue_put(struct worker_session *s, const struct worker_staged *copy)
{
	/* The software GPU's threads take longer to wake up than the one that waits takes for the copy. */
	bool with_gpu = strcmp(s->ops->name, "cpu");
	CUresult result;
	struct line *l;

	pthread_mutex_lock(&queue.lock);
	if (!with_gpu && atomic_load(&queue.any))
		drain(s);
	l = with_gpu ? find_line(s) : NULL;
	/* Where it cannot be made to come behind, it is made where the others are. */
	if (l && l->followed != atomic_load(&queue.commands) && follow_default(s, l) != CUDA_SUCCESS)
		l = NULL;
	if (l) {
		result = copy_in_line(s, copy, copy->from);
		add(s, copy);
	}
	pthread_mutex_unlock(&queue.lock);
	return l ? result : put_now(s, copy);
}

/* Where it can be read by the driver's call: pinned memory is read by the device, later, and that takes it longer. */
static const void *take_in(const struct worker_staged *copy)
{
	return copy->bytes <= sizeof(queue.own) ? memcpy(queue.own, copy->from, copy->bytes) : copy->from;
}

/*
 * The copy waits for the default stream on the device, and this call waits for that stream: so the device starts the
 * copy at once, and the guest goes on as early as possible. The copy may wait for long. Until the guest has its answer
 * no other copy is put behind it, and no command waits for it.
 */
CUresult worker_stage_queue_put_behind(struct worker_session *s, const struct worker_staged *copy)
{
	CUresult result = CUDA_SUCCESS, before;
	struct line *l;

	pthread_mutex_lock(&queue.lock);
	l = find_line(s);
	if (l) {
		result = follow_default(s, l);
		if (result == CUDA_SUCCESS)
			result = copy_in_line(s, copy, take_in(copy));
	}
	pthread_mutex_unlock(&queue.lock);
	if (!l)
		return put_now(s, copy);
	before = s->ops->cuStreamSynchronize(NULL);
	pthread_mutex_lock(&queue.lock);
	/* Where the context has ended meanwhile, so has the copy. */
	if (find_line(s))
		add(s, copy);
	else
		publish(s, (struct flight){copy->block, copy->ticket});
	pthread_mutex_unlock(&queue.lock);
	return result != CUDA_SUCCESS ? result : before;
}

bool worker_stage_queue_any(void)
{
	return atomic_load(&queue.any);
}

void worker_stage_queue_look(struct worker_session *s)
{
	CUcontext before;

	pthread_mutex_lock(&queue.lock);
	if (atomic_load(&queue.any)) {
		before = enter(s, queue.line);
		close_open(s);
		land_what_is_through(s);
		atomic_store(&queue.any, queue.count > 0);
		leave(s, queue.line, before);
	}
	pthread_mutex_unlock(&queue.lock);
}

void worker_stage_queue_drain(struct worker_session *s)
{
	pthread_mutex_lock(&queue.lock);
	if (atomic_load(&queue.any))
		drain(s);
	pthread_mutex_unlock(&queue.lock);
}

void worker_stage_queue_precede(struct worker_session *s, CUstream stream)
{
	if (!worker_stage_queue_any())
		return;
	pthread_mutex_lock(&queue.lock);
	if (atomic_load(&queue.any) && !precede(s, stream))
		drain(s);
	pthread_mutex_unlock(&queue.lock);
}

void worker_stage_queue_close(struct worker_session *s, CUcontext context)
{
	pthread_mutex_lock(&queue.lock);
	queue.ending++;
	if (atomic_load(&queue.any))
		drain(s);
	queue.line = NULL;
	for (struct line *l = queue.lines; l < queue.lines + LINES; l++)
		if (l->id && (!context || l->context == context))
			end_line(s, l);
	pthread_mutex_unlock(&queue.lock);
}

void worker_stage_queue_reopen(void)
{
	pthread_mutex_lock(&queue.lock);
	queue.ending--;
	pthread_mutex_unlock(&queue.lock);
}

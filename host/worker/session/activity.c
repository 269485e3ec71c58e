/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No call of the driver that may wait is made with the lock held: an event is recorded by the thread whose command it
 * is for, in between.
 */
#include "session/activity.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "common/deadline.h"
#include "protocol/activity-rows.h"
#include "protocol/handlers.h"
#include "session/command.h"
#include "session/session.h"

#define MOST_COMMANDS 65536u
#define MOST_WORK 32768u
#define MOST_CONTEXTS 16

/* So many pieces of work are looked at for one answer, and so many while the lock is held. */
#define MOST_LOOKS 1024u
#define LOOKS_AT_ONCE 32u

/*
 * A first launch may load or compile the kernel after the event in front of it has happened. The driver's call gives
 * the device the kernel shortly before it returns.
 */
#define LONGEST_SUBMISSION_NS 50000u

/*
 * An event's time is told as a float of ms after a base, which is another event whose time on the host's clock was
 * measured. After this time there is a new base: the two clocks run apart, and the float has steps of half a
 * microsecond.
 */
#ifndef BASE_NS
#define BASE_NS 5000000000u
#endif

/* The base is measured so often; the shortest interval counts. */
#define BASE_TRIES 5

struct base {
	CUevent event;
	double ns;         /* of the monotonic clock */
	unsigned int uses; /* pieces of work whose time is told after it */
	struct base *next; /* older ones */
};

struct activity_context {
	uint64_t id; /* 0: there is none */
	uint64_t number;
	CUcontext context;
	CUstream stream;      /* for bases; NULL: there is none yet */
	struct base *bases;   /* the newest one first */
	uint64_t measured_ns; /* when it was measured */
	bool is_measuring;
	CUevent *spare;
	unsigned int spares, room;
};

struct row {
	uint64_t seq, what, begin, end;
};

enum work_state {
	WORK_FREE,
	WORK_BEGUN, /* its command runs */
	WORK_GIVEN, /* to the device */
	WORK_KNOWN, /* the row is complete, and the events are given back */
};

struct work {
	enum work_state state;
	struct activity_context *context;
	struct base *base;
	struct row row;
	CUevent begin, end;
	uint64_t earliest; /* the work did not begin before, in ns; 0: not known */
};

static struct {
	pthread_mutex_t lock;
	/* The nth is at n % MOST_COMMANDS; those before commands_read have been read. */
	struct row commands[MOST_COMMANDS];
	uint64_t commands_added, commands_read;
	struct work work[MOST_WORK];
	unsigned int work_count, next_free, next_look; /* next_*: where the search goes on */
	struct activity_context contexts[MOST_CONTEXTS];
	uint64_t context_count; /* so far */
	uint64_t lost;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The work of the thread's command; `work` is NULL: none. */
static __thread struct {
	struct work *work;
	uint64_t seq;
	CUevent end;
} running;

/* Whether the guest profiles. */
static bool is_wanted(const struct worker_session *s)
{
	const struct vcuda_shm *shm = s->shm;

	return atomic_load_explicit(&shm->profile, memory_order_relaxed) & VCUDA_PROFILE_ACTIVITIES;
}

static uint64_t what_of(const struct vcuda_command *c)
{
	return c->op | (uint64_t)c->thread << 32;
}

void worker_activity_command(const struct vcuda_command *c, uint64_t begin, uint64_t end)
{
	pthread_mutex_lock(&all.lock);
	if (all.commands_added - all.commands_read < MOST_COMMANDS)
		all.commands[all.commands_added++ % MOST_COMMANDS] = (struct row){c->seq, what_of(c), begin, end};
	else
		all.lost++;
	pthread_mutex_unlock(&all.lock);
}

/* ---- events and bases; with the lock held, in the context ---- */

static CUevent take_event(struct worker_session *s, struct activity_context *context)
{
	CUevent event = NULL;

	if (context->spares)
		return context->spare[--context->spares];
	return s->ops->cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS ? event : NULL;
}

static void give_event(struct worker_session *s, struct activity_context *context, CUevent event)
{
	CUevent *more = context->spare;

	if (context->spares == context->room) {
		more = realloc(more, (context->room + 64) * sizeof(*more));
		if (!more) {
			s->ops->cuEventDestroy_v2(event);
			return;
		}
		context->spare = more;
		context->room += 64;
	}
	context->spare[context->spares++] = event;
}

/* Gives older bases back that no work needs. */
static void drop_bases(struct worker_session *s, struct activity_context *context)
{
	struct base **at = context->bases ? &context->bases->next : NULL, *b;

	while (at && (b = *at)) {
		if (b->uses) {
			at = &b->next;
			continue;
		}
		*at = b->next;
		give_event(s, context, b->event);
		free(b);
	}
}

/* ---- bases; without the lock, in the context ---- */

/* Two events; the first becomes the base. Each happens between two looks at the clock: the shortest time wins. */
static bool measure(struct worker_session *s, CUstream stream, CUevent events[2], double *ns)
{
	uint64_t shortest = UINT64_MAX;

	for (int i = 0; i < BASE_TRIES; i++) {
		uint64_t before = vcuda_now_ns(), took;
		CUevent better = events[1];

		if (s->ops->cuEventRecordWithFlags(events[1], stream, 0) != CUDA_SUCCESS ||
		    s->ops->cuEventSynchronize(events[1]) != CUDA_SUCCESS)
			break;
		took = vcuda_now_ns() - before;
		if (took >= shortest)
			continue;
		shortest = took;
		*ns = (double)before + (double)took / 2;
		events[1] = events[0];
		events[0] = better;
	}
	return shortest != UINT64_MAX;
}

static bool has_calls(const struct worker_session *s)
{
	return s->ops->cuStreamCreateWithPriority && s->ops->cuEventRecordWithFlags && s->ops->cuEventQuery &&
	       s->ops->cuEventElapsedTime_v2 && s->ops->cuEventSynchronize;
}

/* Makes a base of two events, of which one is left. False: the driver fails. */
static bool make_base(struct worker_session *s, struct base *b, CUstream *stream, CUevent events[2])
{
	return events[0] && events[1] &&
	       (*stream || s->ops->cuStreamCreateWithPriority(stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS) &&
	       measure(s, *stream, events, &b->ns);
}

/* ---- contexts, with the lock held ---- */

/* The context of the thread's command; NULL: there is no room for it. */
static struct activity_context *find_context(struct worker_session *s)
{
	uint64_t id = worker_command_context();
	struct activity_context *unused = NULL;

	for (unsigned int i = 0; id && i < MOST_CONTEXTS; i++) {
		if (all.contexts[i].id == id)
			return &all.contexts[i];
		if (!all.contexts[i].id)
			unused = &all.contexts[i];
	}
	if (!unused || !has_calls(s) || s->ops->cuCtxGetCurrent(&unused->context) != CUDA_SUCCESS)
		return NULL;
	unused->id = id;
	unused->number = ++all.context_count;
	return unused;
}

static bool has_new_base(const struct activity_context *context)
{
	return context->is_measuring || (context->bases && vcuda_now_ns() - context->measured_ns < BASE_NS);
}

/* The context gets a base. The lock is given up meanwhile. */
static void add_base(struct worker_session *s, struct activity_context *context)
{
	struct base *b = calloc(1, sizeof(*b));
	uint64_t number = context->number;
	CUstream stream = context->stream;
	CUevent events[2];
	bool is_made;

	context->is_measuring = true;
	for (int i = 0; i < 2; i++)
		events[i] = take_event(s, context);
	pthread_mutex_unlock(&all.lock);
	is_made = b && make_base(s, b, &stream, events);
	pthread_mutex_lock(&all.lock);
	/* The context may have ended meanwhile, and what was made has ended with it. */
	if (context->number != number) {
		free(b);
		return;
	}
	context->is_measuring = false;
	context->stream = stream;
	context->measured_ns = vcuda_now_ns();
	for (int i = is_made; i < 2; i++)
		if (events[i])
			give_event(s, context, events[i]);
	if (is_made) {
		b->event = events[0];
		b->next = context->bases;
		context->bases = b;
		drop_bases(s, context);
	} else {
		free(b);
	}
}

/* ---- work, with the lock held ---- */

static void leave_work(struct worker_session *s, struct work *w, enum work_state state)
{
	if (w->begin)
		give_event(s, w->context, w->begin);
	if (w->end)
		give_event(s, w->context, w->end);
	w->base->uses--;
	w->state = state;
	all.work_count -= state == WORK_FREE;
	all.lost += state == WORK_FREE;
}

static struct work *free_work(void)
{
	if (all.work_count == MOST_WORK)
		return NULL;
	while (all.work[all.next_free].state != WORK_FREE)
		all.next_free = (all.next_free + 1) % MOST_WORK;
	all.work_count++;
	return &all.work[all.next_free];
}

/* NULL: the work is not measured, and is lost. */
static struct work *take_work(struct worker_session *s)
{
	const struct vcuda_command *c = worker_command();
	struct activity_context *context = find_context(s);
	uint64_t number = context ? context->number : 0;
	struct work *w;

	if (context && !has_new_base(context))
		add_base(s, context);
	/* Another thread makes the first base. */
	while (context && context->number == number && !context->bases && context->is_measuring) {
		pthread_mutex_unlock(&all.lock);
		sched_yield();
		pthread_mutex_lock(&all.lock);
	}
	w = context && context->number == number && context->bases ? free_work() : NULL;
	if (!w) {
		all.lost++;
		return NULL;
	}
	*w = (struct work){.state = WORK_BEGUN, .context = context, .base = context->bases};
	w->base->uses++;
	w->row = (struct row){.seq = c->seq, .what = what_of(c) | VCUDA_ACTIVITY_ON_DEVICE};
	w->begin = take_event(s, context);
	w->end = take_event(s, context);
	if (w->begin && w->end)
		return w;
	leave_work(s, w, WORK_FREE);
	return NULL;
}

/* Work that has ended is known then, or lost. The context is current. */
static void look_at_work(struct worker_session *s, struct work *w)
{
	float after, taken;
	CUresult result = s->ops->cuEventQuery(w->end);
	double begin;

	if (result == CUDA_ERROR_NOT_READY)
		return;
	if (result != CUDA_SUCCESS || s->ops->cuEventElapsedTime_v2(&after, w->base->event, w->begin) != CUDA_SUCCESS ||
	    s->ops->cuEventElapsedTime_v2(&taken, w->begin, w->end) != CUDA_SUCCESS) {
		leave_work(s, w, WORK_FREE);
		return;
	}
	begin = w->base->ns + (double)after * 1e6;
	w->row.begin = (uint64_t)begin;
	w->row.end = (uint64_t)(begin + (double)taken * 1e6);
	if (w->row.begin + LONGEST_SUBMISSION_NS < w->earliest)
		w->row.begin = w->earliest < w->row.end ? w->earliest : w->row.end;
	leave_work(s, w, WORK_KNOWN);
}

/* ---- around commands ---- */

void worker_activity_begin(struct worker_session *s, CUstream stream)
{
	struct work *w;
	CUevent begin = NULL;

	running.work = NULL;
	if (!is_wanted(s))
		return;
	pthread_mutex_lock(&all.lock);
	w = take_work(s);
	if (w) {
		begin = w->begin;
		running.seq = w->row.seq;
		running.end = w->end;
	}
	pthread_mutex_unlock(&all.lock);
	/* The command is in the context, so that the events are there until the command ends. */
	if (w && s->ops->cuEventRecordWithFlags(begin, stream, 0) != CUDA_SUCCESS) {
		pthread_mutex_lock(&all.lock);
		if (w->state == WORK_BEGUN && w->row.seq == running.seq)
			leave_work(s, w, WORK_FREE);
		pthread_mutex_unlock(&all.lock);
		w = NULL;
	}
	running.work = w;
}

static bool is_launch(unsigned int op)
{
	return op == VCUDA_OP_vcudaLaunchKernel || op == VCUDA_OP_vcudaLaunchClusters ||
	       op == VCUDA_OP_vcudaGraphLaunch;
}

void worker_activity_end(struct worker_session *s, CUstream stream)
{
	struct work *w = running.work;
	CUresult result;
	uint64_t now;

	if (!w)
		return;
	running.work = NULL;
	now = vcuda_now_ns();
	result = s->ops->cuEventRecordWithFlags(running.end, stream, 0);
	pthread_mutex_lock(&all.lock);
	/* The context may be about to end, and the place be another command's. */
	if (w->state == WORK_BEGUN && w->row.seq == running.seq) {
		w->earliest = is_launch(worker_command()->op) ? now : 0;
		if (result == CUDA_SUCCESS)
			w->state = WORK_GIVEN;
		else
			leave_work(s, w, WORK_FREE);
	}
	pthread_mutex_unlock(&all.lock);
}

static void forget_context(struct worker_session *s, struct activity_context *context)
{
	CUcontext before = NULL;
	struct base *b;

	s->ops->cuCtxGetCurrent(&before);
	s->ops->cuCtxSetCurrent(context->context);
	for (unsigned int i = 0; i < MOST_WORK; i++) {
		struct work *w = &all.work[i];

		if (w->context != context)
			continue;
		if (w->state == WORK_GIVEN)
			look_at_work(s, w);
		if (w->state == WORK_GIVEN || w->state == WORK_BEGUN)
			leave_work(s, w, WORK_FREE);
	}
	s->ops->cuCtxSetCurrent(before);
	while ((b = context->bases)) {
		context->bases = b->next;
		free(b);
	}
	free(context->spare);
	*context = (struct activity_context){0};
}

void worker_activity_forget(struct worker_session *s, uint64_t context)
{
	pthread_mutex_lock(&all.lock);
	for (unsigned int i = 0; i < MOST_CONTEXTS; i++)
		if (context && all.contexts[i].id == context)
			forget_context(s, &all.contexts[i]);
	pthread_mutex_unlock(&all.lock);
}

/* ---- the guest's question, with the lock held ---- */

static bool add_row(struct vcuda_args_vcudaActivities *a, const struct row *r)
{
	uint64_t *words = a->rows + a->used;

	if (a->words - a->used < VCUDA_ACTIVITY_WORDS)
		return false;
	words[VCUDA_ACTIVITY_SEQ] = r->seq;
	words[VCUDA_ACTIVITY_WHAT] = r->what;
	words[VCUDA_ACTIVITY_BEGIN] = r->begin;
	words[VCUDA_ACTIVITY_END] = r->end;
	a->used += VCUDA_ACTIVITY_WORDS;
	return true;
}

/* Returns whether the answer has room for more. */
static bool read_place(struct worker_session *s, struct vcuda_args_vcudaActivities *a, struct work *w,
		       CUcontext *current)
{
	if (w->state == WORK_GIVEN) {
		if (*current != w->context->context)
			s->ops->cuCtxSetCurrent(w->context->context);
		*current = w->context->context;
		look_at_work(s, w);
	}
	if (w->state == WORK_KNOWN) {
		if (!add_row(a, &w->row))
			return false;
		w->state = WORK_FREE;
		all.work_count--;
	}
	return true;
}

/*
 * Looks at some pieces of work, from where the last one ended. No context stays current. Returns how many places are
 * left to be looked at, of `places`.
 */
static unsigned int read_some_work(struct worker_session *s, struct vcuda_args_vcudaActivities *a, unsigned int places)
{
	CUcontext current = NULL;
	unsigned int looks = 0;

	for (; places && looks < LOOKS_AT_ONCE; places--) {
		struct work *w = &all.work[all.next_look];

		looks += w->state == WORK_GIVEN;
		if (!read_place(s, a, w, &current)) {
			places = 0;
			break;
		}
		all.next_look = (all.next_look + 1) % MOST_WORK;
	}
	if (current)
		s->ops->cuCtxSetCurrent(NULL);
	return places;
}

static void read_commands(struct vcuda_args_vcudaActivities *a)
{
	while (all.commands_read < all.commands_added && add_row(a, &all.commands[all.commands_read % MOST_COMMANDS]))
		all.commands_read++;
}

CUresult vcuda_handle_vcudaActivities(struct worker_session *s, struct vcuda_args_vcudaActivities *a)
{
	unsigned int places = MOST_WORK;

	a->used = 0;
	pthread_mutex_lock(&all.lock);
	for (unsigned int looks = 0; places && looks < MOST_LOOKS; looks += LOOKS_AT_ONCE) {
		places = read_some_work(s, a, places);
		/* Commands go on in between. */
		pthread_mutex_unlock(&all.lock);
		pthread_mutex_lock(&all.lock);
	}
	read_commands(a);
	a->lost = all.lost;
	a->pending = all.work_count;
	pthread_mutex_unlock(&all.lock);
	a->now = vcuda_now_ns();
	return CUDA_SUCCESS;
}

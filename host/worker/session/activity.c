/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock is not held during calls of the driver that may wait. A thread releases the lock to record the event of its
 * own command.
 */
#include "session/activity.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "common/deadline.h"
#include "protocol/activity-rows.h"
#include "protocol/handlers.h"
#include "session/activity-clock.h"
#include "session/command.h"
#include "session/session.h"

#define MOST_COMMANDS 65536u
#define MOST_WORK 32768u
#define MOST_CONTEXTS 16

/* Limits for the pieces of work that are looked at for one answer, and while the lock is held. */
#define MOST_LOOKS 1024u
#define LOOKS_AT_ONCE 32u

/*
 * A first launch may load or compile the kernel after the event in front of it has happened. The driver's call gives
 * the device the kernel shortly before it returns.
 */
#define LONGEST_SUBMISSION_NS 50000u

/*
 * After this time a context has a new base (activity-clock.h): the host's clock and the device's run apart, and the
 * float has steps of half a microsecond.
 */
#ifndef BASE_NS
#define BASE_NS 5000000000u
#endif

/*
 * A call that gives an idle device its work in less time is known to be what the device waited for behind the event in
 * front. In a longer one the thread may have slept.
 */
#define LONGEST_CALL_NS 10000u

struct row {
	uint64_t seq, what, begin, end;
};

enum work_state {
	WORK_FREE,
	WORK_BEGUN, /* the worker runs its command */
	WORK_GIVEN, /* to the device */
	WORK_KNOWN, /* the row is complete, and the events are given back */
};

struct work {
	enum work_state state;
	struct activity_context *context;
	struct activity_base *base;
	struct row row;
	CUstream stream;
	struct activity_stamp *begin, *end;
	bool is_chained;    /* `begin` is the end of the work before it */
	uint64_t submitted; /* ns for which the device waited for the call behind `begin` */
	uint64_t earliest;  /* the work did not begin before, in ns; 0: not known */
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
	/* The last piece of work; `end` is NULL: there is none. */
	struct {
		uint64_t seq, number; /* number: of the context */
		struct activity_context *context;
		CUstream stream;
		struct activity_stamp *begin, *end;
	} last;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The work of the thread's command; `work` is NULL: none. */
static __thread struct {
	struct work *work;
	uint64_t seq, number; /* number: of the context */
	bool is_chained;
	CUevent begin, end;
	uint64_t begun; /* time at which `begin` was recorded */
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
	if (!unused || !activity_clock_is_possible(s) || s->ops->cuCtxGetCurrent(&unused->context) != CUDA_SUCCESS)
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
	struct activity_base *b = calloc(1, sizeof(*b));
	uint64_t number = context->number, event_ns = context->event_ns;
	CUstream stream = context->stream;
	struct activity_stamp *stamps[3];
	bool is_made;

	context->is_measuring = true;
	for (int i = 0; i < 3; i++)
		stamps[i] = activity_stamp_take(s, context);
	pthread_mutex_unlock(&all.lock);
	is_made = b && activity_base_make(s, b, &stream, &event_ns, stamps);
	pthread_mutex_lock(&all.lock);
	/* The context may have ended meanwhile, and what was made has ended with it. */
	if (context->number != number) {
		for (int i = 0; i < 3; i++)
			free(stamps[i]);
		free(b);
		return;
	}
	context->is_measuring = false;
	context->stream = stream;
	context->event_ns = event_ns;
	context->measured_ns = vcuda_now_ns();
	for (int i = is_made; i < 3; i++)
		if (stamps[i])
			activity_stamp_give(context, stamps[i]);
	if (is_made) {
		b->stamp = stamps[0];
		activity_base_add(s, context, b);
	} else {
		free(b);
	}
}

/* ---- work, with the lock held ---- */

static void leave_work(struct work *w, enum work_state state)
{
	if (w->begin)
		activity_stamp_give(w->context, w->begin);
	if (w->end)
		activity_stamp_give(w->context, w->end);
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

static void forget_last(void)
{
	if (all.last.end) {
		activity_stamp_give(all.last.context, all.last.begin);
		activity_stamp_give(all.last.context, all.last.end);
	}
	all.last.begin = all.last.end = NULL;
}

/*
 * The end of the work before it in the stream is the begin of the work, if nothing else was issued in between, and the
 * device has not even begun the work before it: one event fewer, and the device does not wait for one. NULL: the work
 * has an event of its own.
 */
static struct activity_stamp *chain(struct worker_session *s, const struct activity_context *context, uint64_t seq,
				    CUstream stream)
{
	if (!all.last.end || all.last.number != context->number || all.last.seq + 1 != seq ||
	    all.last.stream != stream || s->ops->cuEventQuery(all.last.begin->event) != CUDA_ERROR_NOT_READY)
		return NULL;
	all.last.end->uses++;
	return all.last.end;
}

/* NULL: the work is not measured, and is lost. */
static struct work *take_work(struct worker_session *s, CUstream stream)
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
	*w = (struct work){.state = WORK_BEGUN, .context = context, .base = context->bases, .stream = stream};
	w->base->uses++;
	w->row = (struct row){.seq = c->seq, .what = what_of(c) | VCUDA_ACTIVITY_ON_DEVICE};
	w->begin = chain(s, context, c->seq, stream);
	w->is_chained = w->begin;
	if (!w->begin)
		w->begin = activity_stamp_take(s, context);
	w->end = activity_stamp_take(s, context);
	if (w->begin && w->end)
		return w;
	leave_work(w, WORK_FREE);
	return NULL;
}

/* The device runs kernels for it, of the program or of the driver. */
static bool has_kernels(unsigned int op)
{
	switch (op) {
	case VCUDA_OP_vcudaLaunchKernel:
	case VCUDA_OP_vcudaLaunchClusters:
	case VCUDA_OP_vcudaGraphLaunch:
	case VCUDA_OP_vcudaBlas:
	case VCUDA_OP_vcudaBlasValue:
	case VCUDA_OP_vcudaMatmul:
	case VCUDA_OP_vcudaTransform:
	case VCUDA_OP_vcudaRandom:
	case VCUDA_OP_cuMemcpyDtoD_v2:
	case VCUDA_OP_cuMemcpyDtoDAsync_v2:
	case VCUDA_OP_vcudaBoxDtoD:
		return true;
	}
	return false;
}

/*
 * By how much two events around work are further apart than NVIDIA's CUPTI tells of the work, where the device has all
 * of it at once. An event takes 1.25 us on an H200 (driver 580): copies and memsets are told 1.1 to 1.3 us too long,
 * kernels that write no memory 2.1, and those of PyTorch, which write some, 3.1 (doc/reference/cupti.md).
 */
static uint64_t overhead_of(const struct work *w)
{
	uint64_t event_ns = w->context->event_ns;

	return has_kernels(w->row.what & VCUDA_ACTIVITY_OP) ? event_ns * 5 / 2 : event_ns;
}

static void tell_times(struct work *w, double begin, double taken)
{
	struct activity_span span = {w->stream, w->row.seq, (uint64_t)begin, (uint64_t)(begin + taken)};
	uint64_t overhead = overhead_of(w), lead = overhead / 2;

	if (span.begin + LONGEST_SUBMISSION_NS < w->earliest) {
		activity_span_shrink(&span, w->earliest - span.begin, 0);
		lead = 0;
	}
	if (lead && w->submitted > lead)
		lead = w->submitted;
	activity_span_shrink(&span, lead, overhead - overhead / 2);
	activity_span_order(w->context, &span);
	w->row.begin = span.begin;
	w->row.end = span.end;
}

/* Work that has ended is known then, or lost. The context is current. */
static void look_at_work(struct worker_session *s, struct work *w)
{
	CUresult result = s->ops->cuEventQuery(w->end->event);
	double begin;
	float taken;

	if (result == CUDA_ERROR_NOT_READY)
		return;
	if (result != CUDA_SUCCESS || !activity_base_tell(s, w->base, w->begin, &begin) ||
	    s->ops->cuEventElapsedTime_v2(&taken, w->begin->event, w->end->event) != CUDA_SUCCESS) {
		leave_work(w, WORK_FREE);
		return;
	}
	tell_times(w, begin, taken > 0 ? (double)taken * 1e6 : 0);
	leave_work(w, WORK_KNOWN);
}

/* ---- around commands ---- */

void worker_activity_begin(struct worker_session *s, CUstream stream)
{
	struct work *w;

	running.work = NULL;
	if (!is_wanted(s))
		return;
	pthread_mutex_lock(&all.lock);
	w = take_work(s, stream);
	if (w) {
		running.seq = w->row.seq;
		running.number = w->context->number;
		running.is_chained = w->is_chained;
		running.begin = w->begin->event;
		running.end = w->end->event;
	}
	pthread_mutex_unlock(&all.lock);
	/* The command is in the context, so that the events are there until the command ends. */
	if (w && !running.is_chained && s->ops->cuEventRecordWithFlags(running.begin, stream, 0) != CUDA_SUCCESS) {
		pthread_mutex_lock(&all.lock);
		if (w->state == WORK_BEGUN && w->row.seq == running.seq)
			leave_work(w, WORK_FREE);
		pthread_mutex_unlock(&all.lock);
		w = NULL;
	}
	running.begun = w ? vcuda_now_ns() : 0;
	running.work = w;
}

static bool is_launch(unsigned int op)
{
	return op == VCUDA_OP_vcudaLaunchKernel || op == VCUDA_OP_vcudaLaunchClusters ||
	       op == VCUDA_OP_vcudaGraphLaunch;
}

/*
 * For how long the device waited for the call that has given it the work, which is done at `now`. It did if the event
 * in front has happened: all the time, if the event is the work's own; else an unknown part of it.
 */
static uint64_t submission(struct worker_session *s, uint64_t now)
{
	uint64_t took = now - running.begun;

	if (took > LONGEST_CALL_NS || s->ops->cuEventQuery(running.begin) != CUDA_SUCCESS)
		return 0;
	return running.is_chained ? took / 2 : took;
}

/* With the lock held. */
static void give_work(struct work *w)
{
	w->state = WORK_GIVEN;
	forget_last();
	all.last.seq = w->row.seq;
	all.last.context = w->context;
	all.last.number = running.number;
	all.last.stream = w->stream;
	all.last.begin = w->begin;
	all.last.end = w->end;
	w->begin->uses++;
	w->end->uses++;
}

void worker_activity_end(struct worker_session *s, CUstream stream)
{
	struct work *w = running.work;
	uint64_t now, submitted;
	CUresult result;

	if (!w)
		return;
	running.work = NULL;
	now = vcuda_now_ns();
	submitted = submission(s, now);
	result = s->ops->cuEventRecordWithFlags(running.end, stream, 0);
	pthread_mutex_lock(&all.lock);
	/* The context may be about to end, and the place be another command's. */
	if (w->state == WORK_BEGUN && w->row.seq == running.seq) {
		w->submitted = submitted;
		if (is_launch(worker_command()->op) && now - running.begun > LONGEST_SUBMISSION_NS)
			w->earliest = now;
		if (result == CUDA_SUCCESS)
			give_work(w);
		else
			leave_work(w, WORK_FREE);
	}
	pthread_mutex_unlock(&all.lock);
}

static void forget_context(struct worker_session *s, struct activity_context *context)
{
	CUcontext before = NULL;

	s->ops->cuCtxGetCurrent(&before);
	s->ops->cuCtxSetCurrent(context->context);
	for (unsigned int i = 0; i < MOST_WORK; i++) {
		struct work *w = &all.work[i];

		if (w->context != context)
			continue;
		if (w->state == WORK_GIVEN)
			look_at_work(s, w);
		if (w->state == WORK_GIVEN || w->state == WORK_BEGUN)
			leave_work(w, WORK_FREE);
	}
	s->ops->cuCtxSetCurrent(before);
	if (all.last.context == context)
		forget_last();
	activity_context_clear(context);
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

/* SPDX-License-Identifier: Apache-2.0 */
#include "stream/known.h"

#include <pthread.h>
#include <stddef.h>

#include "guest/client/call.h"
#include "core/context.h"
#include "core/hooks.h"
#include "protocol/guest-calls.h"
#include "stream/pace.h"
#include "core/thread.h"

/* About 50 us, by a clock of 2 to 4 GHz. */
#define HEARD_TICKS (1u << 17)

/* About 0.1 s. */
#define LIVES_TICKS (1u << 28)

#define STREAMS 4096

/*
 * Streams, by their ids' lowest bits. Of two with the same place the younger one is looked after. `id` is 0 while the
 * rest is changed, and no id comes back: who reads the same id before and after has read what is that stream's.
 */
struct stream {
	_Atomic uint64_t id;
	_Atomic bool apart;    /* the default stream does not wait for it */
	_Atomic uint64_t work; /* where the last command ends that gave it something to do */
	_Atomic uint64_t done; /* what was issued before is done */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of changes of ids */
static struct stream streams[STREAMS];

_Atomic uint64_t vcuda_known_other_work;
static _Atomic uint64_t any_work, default_work;
static _Atomic uint64_t apart_work; /* of streams that the default one does not wait for, as far as is known */

static void raise(_Atomic uint64_t *at, uint64_t to)
{
	uint64_t old = atomic_load(at);

	while (old < to && !atomic_compare_exchange_weak(at, &old, to))
		continue;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- streams ---- */

static bool is_default(CUstream resolved)
{
	return !resolved || resolved == CU_STREAM_LEGACY;
}

static struct stream *place_of(CUstream stream)
{
	return &streams[(uintptr_t)stream % STREAMS];
}

/* NULL: it is not looked after. */
static struct stream *find(CUstream stream)
{
	struct stream *s = place_of(stream);

	return atomic_load(&s->id) == (uintptr_t)stream ? s : NULL;
}

void vcuda_known_stream_begin(CUstream stream, bool apart)
{
	struct stream *s = place_of(stream);

	pthread_mutex_lock(&lock);
	atomic_store(&s->id, 0);
	atomic_store(&s->work, 0);
	atomic_store(&s->done, 0);
	atomic_store(&s->apart, apart);
	atomic_store(&s->id, (uintptr_t)stream);
	pthread_mutex_unlock(&lock);
}

void vcuda_known_stream_end(CUstream stream)
{
	struct stream *s = place_of(stream);

	pthread_mutex_lock(&lock);
	if (atomic_load(&s->id) == (uintptr_t)stream)
		atomic_store(&s->id, 0);
	pthread_mutex_unlock(&lock);
}

_Atomic uint64_t *vcuda_known_work(CUstream resolved)
{
	struct stream *s;

	if (is_default(resolved))
		return &default_work;
	s = find(resolved);
	return s ? &s->work : &vcuda_known_other_work;
}

static bool is_apart(const _Atomic uint64_t *work)
{
	if (work == &vcuda_known_other_work || work == &default_work)
		return work != &default_work;
	return atomic_load(&((const struct stream *)((const char *)work - offsetof(struct stream, work)))->apart);
}

bool vcuda_known_issued(_Atomic uint64_t *work, uint64_t position)
{
	bool apart = is_apart(work);

	/* A plain store each: the ring lock has them count up. */
	atomic_store_explicit(work, position, memory_order_relaxed);
	atomic_store_explicit(&any_work, position, memory_order_relaxed);
	if (apart)
		atomic_store_explicit(&apart_work, position, memory_order_relaxed);
	return apart;
}

/*
 * Where the last command ends that a wait for the stream waits for. The default stream waits for others, so that it is
 * anything's. False: that is not known.
 */
static bool find_work(CUstream resolved, uint64_t *work)
{
	struct stream *s;

	if (is_default(resolved)) {
		*work = atomic_load(&any_work);
		return true;
	}
	s = find(resolved);
	if (!s)
		return false;
	*work = later(atomic_load(&s->work), atomic_load(&vcuda_known_other_work));
	return atomic_load(&s->id) == (uintptr_t)resolved;
}

static uint64_t done_by(CUstream resolved, const struct vcuda_context *c)
{
	uint64_t all = atomic_load(&c->waits.all);
	struct stream *s;

	if (is_default(resolved))
		return later(all, atomic_load(&c->waits.ordinary));
	s = find(resolved);
	return s ? later(all, atomic_load(&s->done)) : all;
}

/* What is read last is what work may have been added to. */
static bool is_idle(CUstream resolved, const struct vcuda_context *c)
{
	uint64_t done = done_by(resolved, c), work;

	return find_work(resolved, &work) && work < done;
}

/* The worker has not even seen its last command. */
static bool is_busy(CUstream resolved)
{
	struct stream *s = is_default(resolved) ? NULL : find(resolved);
	uint64_t work = s ? atomic_load(&s->work) : 0;

	return work && !vcuda_call_is_taken(work) && atomic_load(&s->id) == (uintptr_t)resolved &&
	       vcuda_call_may_look();
}

/* ---- contexts ---- */

static uint64_t now(void)
{
	return __builtin_ia32_rdtsc();
}

void vcuda_known_heard(struct vcuda_context *context)
{
	struct vcuda_thread *t = vcuda_thread();

	t->heard_of = context;
	t->heard_at = now();
}

/* Variables that both sides have go over with the worker's answers. */
static bool is_well(const struct vcuda_context *c)
{
	const struct vcuda_thread *t = vcuda_thread();

	return t->heard_of == c && now() - t->heard_at < HEARD_TICKS && !vcuda_mirror_ops();
}

/* Whether nothing can have been printed since that was asked for last. */
static bool is_printed(const struct vcuda_context *c)
{
	uint64_t printed = atomic_load(&c->waits.printed);

	return later(atomic_load(&any_work), atomic_load(&c->waits.learned)) < printed;
}

/* ---- the functions ---- */

/* What the worker has not seen it never will if it is gone, which nobody is told of who does not wait. */
static CUresult not_ready(void)
{
	struct vcuda_thread *t = vcuda_thread();
	uint64_t time = now();
	CUresult result;

	if (time - t->heard_at < LIVES_TICKS)
		return CUDA_ERROR_NOT_READY;
	t->heard_of = NULL;
	t->heard_at = time;
	result = vcuda_call_worker_lives();
	return result == CUDA_SUCCESS ? CUDA_ERROR_NOT_READY : result;
}

static void note_stream(CUstream resolved, struct vcuda_context *c, uint64_t position)
{
	struct stream *s = is_default(resolved) ? NULL : find(resolved);

	if (is_default(resolved))
		raise(&c->waits.ordinary, position);
	else if (s)
		raise(&s->done, position);
}

/* What the calling thread's last call stood behind is done. */
static uint64_t reached(void)
{
	return vcuda_thread()->position;
}

/*
 * Something was found to be done by a question, which only waits behind it tell the output of. Before anybody else can
 * know that it is done.
 */
static void note_learned(struct vcuda_context *c)
{
	raise(&c->waits.learned, reached());
}

CUresult vcuda_known_stream_query(CUstream resolved)
{
	struct vcuda_context *c = vcuda_context_calling();
	CUresult result;

	if (is_idle(resolved, c) && is_well(c))
		return CUDA_SUCCESS;
	if (is_busy(resolved))
		return not_ready();
	result = vcuda_call_cuStreamQuery(resolved);
	if (result == CUDA_SUCCESS) {
		note_learned(c);
		note_stream(resolved, c, reached());
	}
	return result;
}

/*
 * Behind a launch: from a copy to a mark a GPU goes from one of its engines to another, which takes longer than to ask.
 * The calling thread's last command is then the mark that the stream got to, so that is done as well.
 */
static bool waits_by_mark(CUstream resolved, struct vcuda_context *c)
{
	if (!vcuda_thread()->launched || !vcuda_pace_wait(resolved))
		return false;
	vcuda_known_heard(c);
	note_stream(resolved, c, reached() + 1);
	raise(&c->waits.printed, reached() + 1);
	return true;
}

CUresult vcuda_known_stream_wait(CUstream resolved)
{
	struct vcuda_context *c = vcuda_context_calling();
	CUresult result;

	if ((is_idle(resolved, c) && is_printed(c) && is_well(c)) || waits_by_mark(resolved, c))
		return CUDA_SUCCESS;
	result = vcuda_call_cuStreamSynchronize(resolved);
	if (result == CUDA_SUCCESS) {
		note_stream(resolved, c, reached());
		raise(&c->waits.printed, reached());
	}
	return result;
}

CUresult vcuda_known_context_wait(void)
{
	struct vcuda_context *c = vcuda_context_calling();
	uint64_t all = atomic_load(&c->waits.all);
	CUresult result;

	if (atomic_load(&any_work) < all && is_printed(c) && is_well(c))
		return CUDA_SUCCESS;
	/* What the default stream does not wait for is done: so all is, when it has done what it waits for. */
	if (atomic_load(&apart_work) < all && waits_by_mark(NULL, c)) {
		/* Unless another thread has issued some of that in front of the mark. */
		if (atomic_load(&apart_work) < all) {
			raise(&c->waits.all, reached() + 1);
			vcuda_call_idles();
		} else {
			vcuda_call_settles();
		}
		return CUDA_SUCCESS;
	}
	result = vcuda_call_cuCtxSynchronize();
	if (result == CUDA_SUCCESS) {
		raise(&c->waits.all, reached());
		raise(&c->waits.printed, reached());
		vcuda_call_idles();
	}
	return result;
}

/* Of an event that other processes have as well, they know more; of one that another thread ends meanwhile, nobody. */
bool vcuda_known_is_done(const struct vcuda_object *event)
{
	const struct vcuda_context *c = __atomic_load_n(&event->context, __ATOMIC_RELAXED);

	return c && !(event->flags & CU_EVENT_INTERPROCESS) &&
	       atomic_load(&event->recorded) < later(atomic_load(&event->done), atomic_load(&c->waits.all));
}

void vcuda_known_recorded(struct vcuda_object *event)
{
	raise(&event->recorded, vcuda_thread()->position);
}

CUresult vcuda_known_event_query(struct vcuda_object *event)
{
	uint64_t recorded = atomic_load(&event->recorded);
	CUresult result;

	if (vcuda_known_is_done(event) && is_well(vcuda_context_calling()))
		return CUDA_SUCCESS;
	if (!(event->flags & CU_EVENT_INTERPROCESS) && !vcuda_call_is_taken(recorded) && vcuda_call_may_look())
		return not_ready();
	result = vcuda_call_cuEventQuery((CUevent)(uintptr_t)event->id);
	if (result == CUDA_SUCCESS) {
		note_learned(vcuda_context_calling());
		raise(&event->done, reached());
	}
	return result;
}

CUresult vcuda_known_event_wait(struct vcuda_object *event)
{
	struct vcuda_context *c = vcuda_context_calling();
	CUresult result;

	if (vcuda_known_is_done(event) && is_printed(c) && is_well(c))
		return CUDA_SUCCESS;
	result = vcuda_call_cuEventSynchronize((CUevent)(uintptr_t)event->id);
	if (result == CUDA_SUCCESS) {
		raise(&event->done, reached());
		raise(&c->waits.printed, reached());
	}
	return result;
}

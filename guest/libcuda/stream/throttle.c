/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each so many places the stream gets a mark: it writes a number to memory when it gets there. How many marks it has
 * not got to says how far it is behind. That takes no answer of the worker's, which would stand behind all that is
 * queued.
 */
#include "stream/throttle.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/request.h"
#include "protocol/guest-calls.h"
#include "core/hooks.h"
#include "guest/client/session.h"
#include "core/init.h"
#include "core/thread.h"

#define EACH 64  /* places from one mark to the next */
#define QUEUES 8 /* of a context, which its streams share evenly (doc/measured.md) */

/* A waiter looks so often; what is queued takes longer. Now and then it asks whether the stream has failed. */
#define LOOK_US 100
#define LOOKS 100

#define WORDS 1024 /* a page */

_Static_assert(VCUDA_THREAD_PACES == 16, "four bits of a product choose one");

struct vcuda_pace {
	_Atomic bool used;
	_Atomic(CUstream) stream;
	_Atomic(struct vcuda_context *) home;
	_Atomic uint64_t life;       /* of the context: the stream and the word are of that life */
	_Atomic unsigned int places; /* taken since the last mark */
	_Atomic bool light;          /* the last command was one that takes a place only after others */
	pthread_mutex_t marking;     /* held by who marks, and waits for that; who holds it has the record */
	_Atomic(uint32_t *) word;    /* the number of the last mark that the stream has got to; NULL: none yet */
	_Atomic uint32_t mark;
	struct vcuda_pace *next;
};

#define BUCKETS 256

/* Records are never freed, and used again: a thread that has one of a stream that another one destroys looks at it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcuda_pace *buckets[BUCKETS]; /* of streams */
static struct vcuda_pace *unused;

static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The queue of a GPU's stream: an H100's driver made callers wait from 1021 commands on (doc/measured.md). Some are
 * left for what a command takes beside. The software GPU's is as good as endless.
 */
#define GPU_PLACES 900

static uint64_t hash(CUstream stream)
{
	return (uintptr_t)stream * 0x9e3779b97f4a7c15ull;
}

static struct vcuda_pace **bucket_of(CUstream stream)
{
	return &buckets[hash(stream) >> 56];
}

static bool is_alive(const struct vcuda_pace *p)
{
	return atomic_load(&p->life) == atomic_load(&p->home->life);
}

static bool is_of(const struct vcuda_pace *p, const struct vcuda_context *c, CUstream stream)
{
	return atomic_load(&p->used) && p->home == c && atomic_load(&p->stream) == stream && is_alive(p);
}

/* A primary context is used again with another life, on which the refusal of one says nothing. */
static bool is_refused(const struct vcuda_context *c)
{
	return atomic_load(&c->words.refused) == atomic_load(&c->life) + 1;
}

static void refuse(struct vcuda_context *c, uint64_t life)
{
	atomic_store(&c->words.refused, life + 1);
}

/* Whether the record's word can be looked at, by who has counted himself as a reader before he asks. */
static bool is_readable(const struct vcuda_pace *p)
{
	return is_alive(p) && !is_refused(p->home);
}

/* How many marks the stream has not got to; 0 if its context's life has ended. */
static uint32_t behind(struct vcuda_pace *p)
{
	struct vcuda_context *c = p->home;
	uint32_t marks = 0, *word;

	/* Its memory goes only when nobody is in here any more. */
	atomic_fetch_add(&c->words.readers, 1);
	word = atomic_load(&p->word);
	if (is_readable(p) && word)
		marks = atomic_load(&p->mark) - __atomic_load_n(word, __ATOMIC_ACQUIRE);
	atomic_fetch_sub(&c->words.readers, 1);
	return marks;
}

/*
 * A life has begun that lasts until all of the one before is gone. Words that threads have taken in it go as well, and
 * no others are to be had in it.
 */
void vcuda_pace_end_context(struct vcuda_context *context)
{
	refuse(context, atomic_load(&context->life));
	while (atomic_load(&context->words.readers))
		sched_yield();
}

/* ---- records; with the lock held ---- */

static void retire(struct vcuda_pace **at)
{
	struct vcuda_pace *p = *at;

	*at = p->next;
	atomic_store(&p->used, false);
	if (is_alive(p))
		atomic_fetch_sub(&p->home->words.streams, 1);
	p->next = unused;
	unused = p;
}

/* The stream's record, or NULL. Those that ended with their context are retired on the way. */
static struct vcuda_pace *find_locked(struct vcuda_context *c, CUstream stream)
{
	struct vcuda_pace **at = bucket_of(stream);

	while (*at && !is_of(*at, c, stream)) {
		if (is_alive(*at))
			at = &(*at)->next;
		else
			retire(at);
	}
	return *at;
}

/*
 * One that nobody waits with: of an ended life, or of this one if its stream got to all marks. One that has not may be
 * of a stream that was destroyed before it got there: its marks would be taken for others'.
 */
static struct vcuda_pace *take_unused(struct vcuda_context *c)
{
	struct vcuda_pace **at, *p;

	for (at = &unused; (p = *at); at = &p->next) {
		if (is_alive(p) && (p->home != c || behind(p)))
			continue;
		if (pthread_mutex_trylock(&p->marking))
			continue;
		*at = p->next;
		if (!is_alive(p))
			atomic_store(&p->word, NULL);
		p->home = c;
		atomic_store(&p->life, atomic_load(&c->life));
		pthread_mutex_unlock(&p->marking);
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	pthread_mutex_init(&p->marking, NULL);
	p->home = c;
	atomic_store(&p->life, atomic_load(&c->life));
	return p;
}

static struct vcuda_pace *find_or_make(struct vcuda_context *c, CUstream stream)
{
	struct vcuda_pace *p;

	pthread_mutex_lock(&lock);
	p = find_locked(c, stream);
	if (!p && (p = take_unused(c))) {
		atomic_store(&p->places, 0);
		atomic_store(&p->light, false);
		atomic_store(&p->stream, stream);
		atomic_store(&p->used, true);
		p->next = *bucket_of(stream);
		*bucket_of(stream) = p;
		if (atomic_exchange(&c->words.life, p->life) != p->life)
			atomic_store(&c->words.streams, 0);
		atomic_fetch_add(&c->words.streams, 1);
	}
	pthread_mutex_unlock(&lock);
	return p;
}

static struct vcuda_pace *find(struct vcuda_context *c, CUstream stream)
{
	struct vcuda_pace **cached;

	/* Both are the context's default stream. */
	if (stream == CU_STREAM_LEGACY)
		stream = NULL;
	cached = &vcuda_thread()->paces[hash(stream) >> 60];
	if (!*cached || !is_of(*cached, c, stream))
		*cached = find_or_make(c, stream);
	return *cached;
}

/* ---- marks; with the record's mutex held ---- */

/* A new word of the context's; NULL if it has none. `first`: it is the first one of its life. */
static uint32_t *take_word(struct vcuda_context *c, bool *first)
{
	uint64_t life = atomic_load(&c->life);
	uint32_t *word = NULL;
	void *page = NULL;

	pthread_mutex_lock(&words_lock);
	*first = c->words.page_life != life;
	if (*first)
		c->words.page = NULL;
	c->words.page_life = life;
	if (!is_refused(c) && (!c->words.page || c->words.taken == WORDS)) {
		if (!vcuda_hook_pinned || vcuda_hook_pinned(c, &page, WORDS * sizeof(*word)) != CUDA_SUCCESS)
			refuse(c, life);
		c->words.page = page;
		c->words.taken = 0;
	}
	if (c->words.page)
		word = &c->words.page[c->words.taken++];
	pthread_mutex_unlock(&words_lock);
	return word;
}

/* The record's word; NULL: its context has none. */
static uint32_t *word_of(struct vcuda_pace *p, struct vcuda_context *c, bool *first)
{
	*first = false;
	if (!atomic_load(&p->word)) {
		atomic_store(&p->mark, 0);
		atomic_store(&p->word, take_word(c, first));
	}
	return atomic_load(&p->word);
}

static unsigned int busy_streams(const struct vcuda_context *c)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < BUCKETS; i++)
		for (struct vcuda_pace *p = buckets[i]; p; p = p->next)
			n += p->home == c && behind(p);
	pthread_mutex_unlock(&lock);
	return n;
}

/* How many marks a stream may be behind when it gets another one, where so many are. */
static uint32_t marks_for(unsigned int streams)
{
	unsigned int shares = (streams + QUEUES - 1) / QUEUES, marks = GPU_PLACES / EACH / (shares ? shares : 1);

	return marks > 2 ? marks - 2 : 1;
}

static bool is_too_far(struct vcuda_pace *p, struct vcuda_context *c)
{
	uint32_t marks = behind(p);

	/* Most have done their work: they are counted only if it matters. */
	return marks > marks_for(atomic_load(&c->words.streams)) && marks > marks_for(busy_streams(c));
}

static CUresult wait_for_room(struct vcuda_pace *p, struct vcuda_context *c, CUstream stream)
{
	const struct call_options internal = {.context = &c->calls, .internal = true};
	CUresult result = (CUresult)vcuda_session_error();

	for (int i = 1; result == CUDA_SUCCESS && is_of(p, c, atomic_load(&p->stream)) && is_too_far(p, c); i++) {
		usleep(LOOK_US);
		result = i % LOOKS ? (CUresult)vcuda_session_error() : vcuda_call_cuStreamQuery_with(&internal, stream);
		/* All is done: if there is no mark, its command has failed. */
		if (i % LOOKS == 0 && result == CUDA_SUCCESS)
			break;
		if (result == CUDA_ERROR_NOT_READY)
			result = CUDA_SUCCESS;
	}
	return result;
}

static CUresult mark(struct vcuda_pace *p, struct vcuda_context *c, CUstream stream)
{
	uint64_t write[VCUDA_MEMORY_OP_WORDS] = {CU_STREAM_MEM_OP_WRITE_VALUE_32};
	CUresult result;
	bool first;

	if (!word_of(p, c, &first))
		return CUDA_SUCCESS;
	result = wait_for_room(p, c, stream);
	/* The stream or its context may have ended. */
	if (result != CUDA_SUCCESS || !is_of(p, c, atomic_load(&p->stream)))
		return result;
	write[1] = (uintptr_t)atomic_load(&p->word);
	write[2] = atomic_fetch_add(&p->mark, 1) + 1;
	result = vcuda_call_vcudaStreamMemOps_with(
		&(struct call_options){.context = &c->calls, .wait = first, .internal = true}, stream,
		VCUDA_MEMORY_OP_WORDS, write);
	if (result == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	atomic_fetch_sub(&p->mark, 1);
	/* The worker may be older than the call, and the device may not have it. */
	if (!first && result != CUDA_ERROR_NOT_SUPPORTED)
		return result;
	refuse(c, atomic_load(&p->life));
	return CUDA_SUCCESS;
}

/* Other threads with the same stream wait as well, and find it done. */
static CUresult mark_if_due(struct vcuda_pace *p, struct vcuda_context *c, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;
	int cancel;

	/* A thread that is cancelled would keep the mutex. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&p->marking);
	if (atomic_load(&p->places) > EACH && is_of(p, c, atomic_load(&p->stream))) {
		result = mark(p, c, stream);
		/* Not before: the others would go on. */
		atomic_fetch_sub(&p->places, EACH);
	}
	pthread_mutex_unlock(&p->marking);
	pthread_setcancelstate(cancel, NULL);
	return result;
}

CUresult vcuda_pace(const struct call_options *options, CUstream stream, unsigned int places)
{
	bool is_paced = vcuda_host_is_gpu() && !(options && options->internal);
	struct vcuda_context *c = is_paced ? vcuda_request_context(options) : NULL;
	struct vcuda_pace *p = c && !is_refused(c) ? find(c, stream) : NULL;

	/* Without a context the call itself fails. */
	if (!p || (!places && atomic_load(&p->light)))
		return CUDA_SUCCESS;
	if (atomic_load(&p->light) != !places)
		atomic_store(&p->light, !places);
	places += !places;
	if (atomic_fetch_add(&p->places, places) + places <= EACH)
		return CUDA_SUCCESS;
	return mark_if_due(p, c, stream);
}

/* ---- waits ---- */

/* After so many waits in a context it is worth while to have words. */
#define FEW_WAITS 16

/* Who waits for longer than these asks the worker: another thread may have use for the processor, and a stream that has
 * failed gets to no mark. About 100 us, by a clock of 2 to 4 GHz. */
#define WAIT_TICKS (1u << 18)

/* Gives the stream a mark for a wait; 0: it has no word. */
static uint32_t mark_wait(struct vcuda_pace *p, struct vcuda_context *c, CUstream stream, struct call_receipt *receipt)
{
	const struct call_options options = {.context = &c->calls, .internal = true, .receipt = receipt};
	uint32_t number = 0;
	bool first;

	pthread_mutex_lock(&p->marking);
	if (is_of(p, c, atomic_load(&p->stream)) && word_of(p, c, &first)) {
		number = atomic_fetch_add(&p->mark, 1) + 1;
		if (vcuda_call_vcudaStreamMark_with(&options, stream, (uintptr_t)atomic_load(&p->word), number) !=
		    CUDA_SUCCESS) {
			atomic_fetch_sub(&p->mark, 1);
			number = 0;
		}
	}
	pthread_mutex_unlock(&p->marking);
	return number;
}

/* The memory goes only when nobody is in here any more. */
static bool look(struct vcuda_pace *p, struct vcuda_context *c, uint32_t number)
{
	uint64_t start = __builtin_ia32_rdtsc();
	bool there = false;
	uint32_t *word;

	atomic_fetch_add(&c->words.readers, 1);
	word = atomic_load(&p->word);
	while (is_readable(p) && word && !there && __builtin_ia32_rdtsc() - start < WAIT_TICKS) {
		there = (int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - number) >= 0;
		__builtin_ia32_pause();
	}
	atomic_fetch_sub(&c->words.readers, 1);
	return there;
}

/* Whether a mark tells all that an answer of the worker would: nothing printed, no mirrors. */
static bool are_marks_enough(void)
{
	return atomic_load_explicit(&vcuda_call_shm()->marks, memory_order_relaxed) && vcuda_call_may_poll() &&
	       !vcuda_mirror_ops() && vcuda_session.transport->host_minor;
}

bool vcuda_pace_wait(struct vcuda_context *c, CUstream stream, struct call_receipt *receipt)
{
	struct vcuda_pace *p;
	uint32_t number;
	bool there;
	int cancel;

	if (!are_marks_enough() || is_refused(c))
		return false;
	if (atomic_load(&c->words.waits) < FEW_WAITS) {
		atomic_fetch_add(&c->words.waits, 1);
		return false;
	}
	p = find(c, stream);
	if (!p)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	number = mark_wait(p, c, stream, receipt);
	there = number && look(p, c, number);
	pthread_setcancelstate(cancel, NULL);
	/* Code that may print may have been loaded, and launched, in front of the mark. */
	return there && are_marks_enough();
}

void vcuda_pace_end(struct vcuda_context *c, CUstream stream)
{
	struct vcuda_pace **at;

	pthread_mutex_lock(&lock);
	for (at = bucket_of(stream); *at && c; at = &(*at)->next) {
		if (is_of(*at, c, stream)) {
			retire(at);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

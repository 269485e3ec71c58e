/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each so many places the stream gets a mark: it writes a number to memory when it gets there. Before the next part of
 * the queue is filled, the mark before the last one has to be through. That takes no answer of the worker's, which would
 * stand behind all that is queued.
 */
#include "pace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "call.h"
#include "context.h"
#include "guest-calls.h"
#include "memory.h"
#include "session.h"
#include "thread.h"

/*
 * Places that a context's streams have: an H100's driver made callers wait from 1021 on, in each of 8 queues that the
 * streams share evenly (doc/measured.md). Some are left for what a command takes beside.
 */
#define PLACES 900
#define QUEUES 8

#define PARTS 3 /* of the queue: the one that is filled, and those that may have to be waited for */
#define FEWEST 8

/* A waiter looks so often; what is queued takes longer. Now and then it asks whether the stream has failed. */
#define LOOK_US 100
#define LOOKS 100

#define WORDS 1024 /* a page */

_Static_assert(VCUDA_THREAD_PACES == 16, "four bits of a product choose one");

struct vcuda_pace {
	_Atomic bool used;
	_Atomic(CUstream) stream;
	_Atomic(struct vcuda_context *) home;
	_Atomic uint64_t life;	     /* of the context: the stream and the word are of that life */
	_Atomic unsigned int places; /* taken since the last mark */
	pthread_mutex_t marking;
	uint32_t *word; /* the number of the last mark that the stream has got to; NULL: none yet */
	uint32_t mark;
	struct vcuda_pace *next;
};

#define BUCKETS 256

/* Records are never freed, and used again: a thread that has one of a stream that another one destroys looks at it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct vcuda_pace *buckets[BUCKETS]; /* of streams */
static struct vcuda_pace *unused;

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
	return atomic_load_explicit(&p->life, memory_order_relaxed) == atomic_load(&p->home->life);
}

static bool is_of(const struct vcuda_pace *p, const struct vcuda_context *c, CUstream stream)
{
	return atomic_load_explicit(&p->used, memory_order_relaxed) && p->home == c &&
	       atomic_load_explicit(&p->stream, memory_order_relaxed) == stream && is_alive(p);
}

static bool is_before(struct vcuda_pace *p, uint32_t mark)
{
	return (int32_t)(__atomic_load_n(p->word, __ATOMIC_ACQUIRE) - mark) < 0;
}

/* With the lock held. */
static void retire(struct vcuda_pace **at)
{
	struct vcuda_pace *p = *at;

	*at = p->next;
	atomic_store(&p->used, false);
	if (is_alive(p))
		atomic_fetch_sub(&p->home->streams, 1);
	p->next = unused;
	unused = p;
}

/* The stream's record, or NULL. Those that ended with their context are retired on the way. With the lock held. */
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

/* Best one that has a word. With the lock held. */
static struct vcuda_pace *take_unused(struct vcuda_context *c)
{
	struct vcuda_pace **at = &unused, *p;

	while (*at && !((*at)->home == c && is_alive(*at)))
		at = &(*at)->next;
	p = *at;
	if (p) {
		*at = p->next;
		/* The stream that had it may be gone before it got to its marks: they would be taken for others. */
		if (p->word && is_before(p, p->mark))
			p->word = NULL;
		return p;
	}
	/* Words that live stay where they are. */
	for (at = &unused; *at && is_alive(*at); at = &(*at)->next)
		continue;
	p = *at;
	if (p) {
		*at = p->next;
	} else {
		p = calloc(1, sizeof(*p));
		if (!p)
			return NULL;
		pthread_mutex_init(&p->marking, NULL);
	}
	p->word = NULL;
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
		atomic_store(&p->stream, stream);
		atomic_store(&p->used, true);
		p->next = *bucket_of(stream);
		*bucket_of(stream) = p;
		if (atomic_exchange(&c->streams_life, atomic_load(&c->life)) != atomic_load(&c->life)) {
			atomic_store(&c->streams, 0);
			c->words = NULL;
		}
		atomic_fetch_add(&c->streams, 1);
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

static unsigned int part(const struct vcuda_context *c)
{
	unsigned int shares = (atomic_load_explicit(&c->streams, memory_order_relaxed) + QUEUES - 1) / QUEUES;
	unsigned int places = PLACES / PARTS / (shares ? shares : 1);

	return places > FEWEST ? places : FEWEST;
}

/* A new word of the context's; NULL if there is no memory for it. */
static uint32_t *take_word(struct vcuda_context *c)
{
	uint32_t *word = NULL;
	void *page = NULL;

	pthread_mutex_lock(&lock);
	if (c->words && c->words_taken < WORDS)
		word = &c->words[c->words_taken++];
	pthread_mutex_unlock(&lock);
	if (word || vcuda_pinned_alloc(&page, WORDS * sizeof(*word), VCUDA_RANGE_PINNED, 0) != CUDA_SUCCESS)
		return word;
	pthread_mutex_lock(&lock);
	c->words = page;
	c->words_taken = 1;
	pthread_mutex_unlock(&lock);
	return page;
}

/* Waits until the stream has got to a mark. */
static CUresult wait_for(struct vcuda_pace *p, uint32_t mark, CUstream stream)
{
	CUresult result = vcuda_session_error();

	for (int i = 1; result == CUDA_SUCCESS && is_before(p, mark); i++) {
		usleep(LOOK_US);
		result = i % LOOKS ? vcuda_session_error() : vcuda_call_cuStreamQuery(stream);
		/* All is done: if there is no mark, its command has failed. */
		if (i % LOOKS == 0 && result == CUDA_SUCCESS)
			break;
		if (result == CUDA_ERROR_NOT_READY)
			result = CUDA_SUCCESS;
	}
	return result;
}

/* Marks the end of a part, once the parts before the last one are through. */
static CUresult mark(struct vcuda_pace *p, struct vcuda_context *c, CUstream stream)
{
	uint64_t write[VCUDA_MEMORY_OP_WORDS] = {CU_STREAM_MEM_OP_WRITE_VALUE_32};
	CUresult result = CUDA_SUCCESS;

	if (!p->word) {
		p->word = take_word(c);
		p->mark = 0;
	}
	if (!p->word)
		return CUDA_SUCCESS;
	if (p->mark >= PARTS - 1)
		result = wait_for(p, p->mark - (PARTS - 2), stream);
	if (result != CUDA_SUCCESS)
		return result;
	write[1] = (uintptr_t)p->word;
	write[2] = ++p->mark;
	result = vcuda_call_vcudaStreamMemOps(stream, VCUDA_MEMORY_OP_WORDS, write);
	if (result != CUDA_SUCCESS)
		p->mark--;
	/* The worker may be older than the call. */
	return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
}

CUresult vcuda_pace(CUstream stream, unsigned int places)
{
	struct vcuda_context *c = vcuda_context_calling();
	struct vcuda_thread *thread = vcuda_thread();
	struct vcuda_pace *p = c && !thread->marks ? find(c, stream) : NULL;
	CUresult result = CUDA_SUCCESS;
	unsigned int most;
	bool call_sync;
	int cancel;

	/* Without a context the call itself fails. */
	if (!p || atomic_fetch_add(&p->places, places) + places <= part(c))
		return CUDA_SUCCESS;
	/* Other threads with the same stream wait as well, and find it done. A thread that is cancelled must not. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&p->marking);
	thread->marks = true;
	call_sync = thread->call_sync;
	thread->call_sync = false;
	most = part(c);
	if (atomic_load(&p->places) > most && is_alive(p)) {
		result = mark(p, c, stream);
		/* Not before: the others would go on. */
		atomic_fetch_sub(&p->places, most);
	}
	thread->marks = false;
	thread->call_sync = call_sync;
	pthread_mutex_unlock(&p->marking);
	pthread_setcancelstate(cancel, NULL);
	return result;
}

void vcuda_pace_end(CUstream stream)
{
	struct vcuda_context *c = vcuda_context_calling();
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

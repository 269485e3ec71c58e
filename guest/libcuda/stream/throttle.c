/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each so many credits the stream gets a fence: it writes a number to memory when it gets there. How many fences it has
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

#define CREDITS_A_FENCE 64 /* credits from one fence to the next */
#define QUEUES 8           /* of a context, which its streams share evenly (doc/reference/driver-behaviour.md) */

/* A waiter looks so often; what is queued takes longer. Now and then it asks whether the stream has failed. */
#define LOOK_US 100
#define LOOKS 100

#define FENCES_A_PAGE 1024 /* a page */

_Static_assert(LIBCUDA_THREAD_THROTTLES == 16, "four bits of a product choose one");

struct libcuda_throttle {
	_Atomic bool used;
	_Atomic(CUstream) stream;
	_Atomic(struct libcuda_context *) home;
	_Atomic uint64_t generation;  /* of the context: the stream and the word are of that generation */
	_Atomic unsigned int credits; /* taken since the last fence */
	_Atomic bool light;           /* the last command was one that takes a credit only after others */
	pthread_mutex_t fence_lock;   /* held by who fences, and waits for that; who holds it has the record */
	_Atomic(uint32_t *) fence;    /* the number of the last fence that the stream has got to; NULL: none yet */
	_Atomic uint32_t last_fence_value;
	struct libcuda_throttle *next;
};

#define BUCKETS 256

/* Records are never freed, and used again: a thread that has one of a stream that another one destroys looks at it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct libcuda_throttle *buckets[BUCKETS]; /* of streams */
static struct libcuda_throttle *unused;

static pthread_mutex_t fences_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The queue of a GPU's stream: an H100's driver made callers wait from 1021 commands on
 * (doc/reference/driver-behaviour.md). Some are left for what a command takes beside. The software GPU's is as good as
 * endless.
 */
#define GPU_QUEUE_CREDITS 900

static uint64_t hash(CUstream stream)
{
	return (uintptr_t)stream * 0x9e3779b97f4a7c15ull;
}

static struct libcuda_throttle **bucket_of(CUstream stream)
{
	return &buckets[hash(stream) >> 56];
}

static bool is_alive(const struct libcuda_throttle *p)
{
	return atomic_load(&p->generation) == atomic_load(&p->home->generation);
}

static bool is_of(const struct libcuda_throttle *p, const struct libcuda_context *c, CUstream stream)
{
	return atomic_load(&p->used) && p->home == c && atomic_load(&p->stream) == stream && is_alive(p);
}

/* A primary context is used again with another generation, on which the refusal of one says nothing. */
static bool is_refused(const struct libcuda_context *c)
{
	return atomic_load(&c->fences.refused) == atomic_load(&c->generation) + 1;
}

static void refuse(struct libcuda_context *c, uint64_t generation)
{
	atomic_store(&c->fences.refused, generation + 1);
}

/* Whether the record's word can be looked at, by who has counted himself as a reader before he asks. */
static bool is_readable(const struct libcuda_throttle *p)
{
	return is_alive(p) && !is_refused(p->home);
}

/* The number of fences that the stream has not reached; 0 if its context's generation has ended. */
static uint32_t behind(struct libcuda_throttle *p)
{
	struct libcuda_context *c = p->home;
	uint32_t fences = 0, *fence;

	/* The page is freed only when no reader is left. */
	atomic_fetch_add(&c->fences.readers, 1);
	fence = atomic_load(&p->fence);
	if (is_readable(p) && fence)
		fences = atomic_load(&p->last_fence_value) - __atomic_load_n(fence, __ATOMIC_ACQUIRE);
	atomic_fetch_sub(&c->fences.readers, 1);
	return fences;
}

/*
 * A new generation has begun, which lasts until all objects of the old one are gone. Words that threads have taken in
 * it are dropped too, and it gives no further ones.
 */
void libcuda_throttle_end_context(struct libcuda_context *context)
{
	refuse(context, atomic_load(&context->generation));
	while (atomic_load(&context->fences.readers))
		sched_yield();
}

/* ---- records; with the lock held ---- */

static void retire(struct libcuda_throttle **at)
{
	struct libcuda_throttle *p = *at;

	*at = p->next;
	atomic_store(&p->used, false);
	if (is_alive(p))
		atomic_fetch_sub(&p->home->fences.streams, 1);
	p->next = unused;
	unused = p;
}

/* The stream's record, or NULL. Those that ended with their context are retired on the way. */
static struct libcuda_throttle *find_locked(struct libcuda_context *c, CUstream stream)
{
	struct libcuda_throttle **at = bucket_of(stream);

	while (*at && !is_of(*at, c, stream)) {
		if (is_alive(*at))
			at = &(*at)->next;
		else
			retire(at);
	}
	return *at;
}

/*
 * A record that no thread uses: of an ended generation, or of this one if its stream reached all fences. A stream that
 * was destroyed before it reached them may still write fences, which would be taken for another stream's.
 */
static struct libcuda_throttle *take_unused(struct libcuda_context *c)
{
	struct libcuda_throttle **at, *p;

	for (at = &unused; (p = *at); at = &p->next) {
		if (is_alive(p) && (p->home != c || behind(p)))
			continue;
		if (pthread_mutex_trylock(&p->fence_lock))
			continue;
		*at = p->next;
		if (!is_alive(p))
			atomic_store(&p->fence, NULL);
		p->home = c;
		atomic_store(&p->generation, atomic_load(&c->generation));
		pthread_mutex_unlock(&p->fence_lock);
		return p;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	pthread_mutex_init(&p->fence_lock, NULL);
	p->home = c;
	atomic_store(&p->generation, atomic_load(&c->generation));
	return p;
}

static struct libcuda_throttle *find_or_make(struct libcuda_context *c, CUstream stream)
{
	struct libcuda_throttle *p;

	pthread_mutex_lock(&lock);
	p = find_locked(c, stream);
	if (!p && (p = take_unused(c))) {
		atomic_store(&p->credits, 0);
		atomic_store(&p->light, false);
		atomic_store(&p->stream, stream);
		atomic_store(&p->used, true);
		p->next = *bucket_of(stream);
		*bucket_of(stream) = p;
		if (atomic_exchange(&c->fences.generation, p->generation) != p->generation)
			atomic_store(&c->fences.streams, 0);
		atomic_fetch_add(&c->fences.streams, 1);
	}
	pthread_mutex_unlock(&lock);
	return p;
}

static struct libcuda_throttle *find(struct libcuda_context *c, CUstream stream)
{
	struct libcuda_throttle **cached;

	/* Both are the context's default stream. */
	if (stream == CU_STREAM_LEGACY)
		stream = NULL;
	cached = &libcuda_thread()->throttles[hash(stream) >> 60];
	if (!*cached || !is_of(*cached, c, stream))
		*cached = find_or_make(c, stream);
	return *cached;
}

/* ---- fences; with the record's mutex held ---- */

/* A new word of the context's; NULL if it has none. `first`: it is the first one of its generation. */
static uint32_t *fence_take(struct libcuda_context *c, bool *first)
{
	uint64_t generation = atomic_load(&c->generation);
	uint32_t *fence = NULL;
	void *page = NULL;

	pthread_mutex_lock(&fences_lock);
	*first = c->fences.page_generation != generation;
	if (*first)
		c->fences.page = NULL;
	c->fences.page_generation = generation;
	if (!is_refused(c) && (!c->fences.page || c->fences.taken == FENCES_A_PAGE)) {
		if (!libcuda_hook_pinned ||
		    libcuda_hook_pinned(c, &page, FENCES_A_PAGE * sizeof(*fence)) != CUDA_SUCCESS)
			refuse(c, generation);
		c->fences.page = page;
		c->fences.taken = 0;
	}
	if (c->fences.page)
		fence = &c->fences.page[c->fences.taken++];
	pthread_mutex_unlock(&fences_lock);
	return fence;
}

/* The record's word; NULL: its context has none. */
static uint32_t *fence_of(struct libcuda_throttle *p, struct libcuda_context *c, bool *first)
{
	*first = false;
	if (!atomic_load(&p->fence)) {
		atomic_store(&p->last_fence_value, 0);
		atomic_store(&p->fence, fence_take(c, first));
	}
	return atomic_load(&p->fence);
}

static unsigned int busy_streams(const struct libcuda_context *c)
{
	unsigned int n = 0;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < BUCKETS; i++)
		for (struct libcuda_throttle *p = buckets[i]; p; p = p->next)
			n += p->home == c && behind(p);
	pthread_mutex_unlock(&lock);
	return n;
}

/* The number of fences that a stream may be behind when it gets another one, with that many streams. */
static uint32_t fences_allowed(unsigned int streams)
{
	unsigned int shares = (streams + QUEUES - 1) / QUEUES,
		     fences = GPU_QUEUE_CREDITS / CREDITS_A_FENCE / (shares ? shares : 1);

	return fences > 2 ? fences - 2 : 1;
}

static bool is_too_far(struct libcuda_throttle *p, struct libcuda_context *c)
{
	uint32_t fences = behind(p);

	/* Most have done their work: they are counted only if it matters. */
	return fences > fences_allowed(atomic_load(&c->fences.streams)) && fences > fences_allowed(busy_streams(c));
}

static CUresult wait_for_room(struct libcuda_throttle *p, struct libcuda_context *c, CUstream stream)
{
	const struct call_options internal = {.context = &c->calls, .internal = true};
	CUresult result = (CUresult)client_session_error();

	for (int i = 1; result == CUDA_SUCCESS && is_of(p, c, atomic_load(&p->stream)) && is_too_far(p, c); i++) {
		usleep(LOOK_US);
		result =
			i % LOOKS ? (CUresult)client_session_error() : vcuda_call_cuStreamQuery_with(&internal, stream);
		/* All is done: if there is no fence, its command has failed. */
		if (i % LOOKS == 0 && result == CUDA_SUCCESS)
			break;
		if (result == CUDA_ERROR_NOT_READY)
			result = CUDA_SUCCESS;
	}
	return result;
}

static CUresult fence_insert(struct libcuda_throttle *p, struct libcuda_context *c, CUstream stream)
{
	uint64_t write[VCUDA_MEMORY_OP_WORDS] = {CU_STREAM_MEM_OP_WRITE_VALUE_32};
	CUresult result;
	bool first;

	if (!fence_of(p, c, &first))
		return CUDA_SUCCESS;
	result = wait_for_room(p, c, stream);
	/* The stream or its context may have ended. */
	if (result != CUDA_SUCCESS || !is_of(p, c, atomic_load(&p->stream)))
		return result;
	write[1] = (uintptr_t)atomic_load(&p->fence);
	write[2] = atomic_fetch_add(&p->last_fence_value, 1) + 1;
	result = vcuda_call_vcudaStreamMemOps_with(
		&(struct call_options){.context = &c->calls, .wait = first, .internal = true}, stream,
		VCUDA_MEMORY_OP_WORDS, write);
	if (result == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	atomic_fetch_sub(&p->last_fence_value, 1);
	/* The worker may be older than the call, and the device may not have it. */
	if (!first && result != CUDA_ERROR_NOT_SUPPORTED)
		return result;
	refuse(c, atomic_load(&p->generation));
	return CUDA_SUCCESS;
}

/* Other threads with the same stream wait as well, and find it done. */
static CUresult fence_insert_if_due(struct libcuda_throttle *p, struct libcuda_context *c, CUstream stream)
{
	CUresult result = CUDA_SUCCESS;
	int cancel;

	/* A thread that is cancelled would keep the mutex. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&p->fence_lock);
	if (atomic_load(&p->credits) > CREDITS_A_FENCE && is_of(p, c, atomic_load(&p->stream))) {
		result = fence_insert(p, c, stream);
		/* Not before: the others would go on. */
		atomic_fetch_sub(&p->credits, CREDITS_A_FENCE);
	}
	pthread_mutex_unlock(&p->fence_lock);
	pthread_setcancelstate(cancel, NULL);
	return result;
}

CUresult libcuda_throttle_take(const struct call_options *options, CUstream stream, unsigned int credits)
{
	bool is_paced = libcuda_host_is_gpu() && !(options && options->internal);
	struct libcuda_context *c = is_paced ? libcuda_request_context(options) : NULL;
	struct libcuda_throttle *p = c && !is_refused(c) ? find(c, stream) : NULL;

	/* Without a context the call itself fails. */
	if (!p || (!credits && atomic_load(&p->light)))
		return CUDA_SUCCESS;
	if (atomic_load(&p->light) != !credits)
		atomic_store(&p->light, !credits);
	credits = credits ? credits * client_call_places() : 1;
	if (atomic_fetch_add(&p->credits, credits) + credits <= CREDITS_A_FENCE)
		return CUDA_SUCCESS;
	return fence_insert_if_due(p, c, stream);
}

/* ---- waits ---- */

/* After so many waits in a context it is worth while to have words. */
#define FEW_WAITS 16

/* A thread polls a fence for this long and then asks the worker: another thread may need the processor, and a stream
 * that has failed reaches no fence. About 100 us, by a clock of 2 to 4 GHz. */
#define WAIT_TICKS (1u << 18)

/* Gives the stream a fence for a wait; 0: it has no word. */
static uint32_t fence_insert_for_wait(struct libcuda_throttle *p, struct libcuda_context *c, CUstream stream,
				      struct call_receipt *receipt)
{
	const struct call_options options = {.context = &c->calls, .internal = true, .receipt = receipt};
	uint32_t number = 0;
	bool first;

	pthread_mutex_lock(&p->fence_lock);
	if (is_of(p, c, atomic_load(&p->stream)) && fence_of(p, c, &first)) {
		number = atomic_fetch_add(&p->last_fence_value, 1) + 1;
		if (vcuda_call_vcudaStreamMark_with(&options, stream, (uintptr_t)atomic_load(&p->fence), number) !=
		    CUDA_SUCCESS) {
			atomic_fetch_sub(&p->last_fence_value, 1);
			number = 0;
		}
	}
	pthread_mutex_unlock(&p->fence_lock);
	return number;
}

/* The page is freed only when no reader is left. */
static bool look(struct libcuda_throttle *p, struct libcuda_context *c, uint32_t number)
{
	uint64_t start = __builtin_ia32_rdtsc();
	bool there = false;
	uint32_t *fence;

	atomic_fetch_add(&c->fences.readers, 1);
	fence = atomic_load(&p->fence);
	while (is_readable(p) && fence && !there && __builtin_ia32_rdtsc() - start < WAIT_TICKS) {
		there = (int32_t)(__atomic_load_n(fence, __ATOMIC_ACQUIRE) - number) >= 0;
		__builtin_ia32_pause();
	}
	atomic_fetch_sub(&c->fences.readers, 1);
	return there;
}

/* Whether a fence tells all that an answer of the worker would: nothing printed, no mirrors. */
static bool are_fences_enough(void)
{
	return atomic_load_explicit(&client_call_shm()->fences, memory_order_relaxed) && client_call_may_poll() &&
	       !libcuda_mirror_ops() && client_session.transport->host_minor;
}

bool libcuda_throttle_fence_wait(struct libcuda_context *c, CUstream stream, struct call_receipt *receipt)
{
	struct libcuda_throttle *p;
	uint32_t number;
	bool there;
	int cancel;

	if (!are_fences_enough() || is_refused(c))
		return false;
	if (atomic_load(&c->fences.waits) < FEW_WAITS) {
		atomic_fetch_add(&c->fences.waits, 1);
		return false;
	}
	p = find(c, stream);
	if (!p)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	number = fence_insert_for_wait(p, c, stream, receipt);
	there = number && look(p, c, number);
	pthread_setcancelstate(cancel, NULL);
	/* Code that may print may have been loaded, and launched, in front of the fence. */
	return there && are_fences_enough();
}

void libcuda_throttle_end(struct libcuda_context *c, CUstream stream)
{
	struct libcuda_throttle **at;

	pthread_mutex_lock(&lock);
	for (at = bucket_of(stream); *at && c; at = &(*at)->next) {
		if (is_of(*at, c, stream)) {
			retire(at);
			break;
		}
	}
	pthread_mutex_unlock(&lock);
}

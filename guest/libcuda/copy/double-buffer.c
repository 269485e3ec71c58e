/* SPDX-License-Identifier: Apache-2.0 */
#include "copy/double-buffer.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/init.h"
#include "core/request.h"
#include "common/log.h"
#include "guest/client/restore.h"
#include "guest/client/section.h"
#include "guest/client/session.h"
#include "guest/client/stage.h"
#include "protocol/guest-calls.h"
#include "ring/ring.h"
#include "common/start-thread.h"
#include "stream/stream.h"

/* Limits of all striped copies together; the other blocks serve small copies of other threads. */
#define MOST_BLOCKS 9
#define MOST_THREADS 8

/* The share of a copy, in bytes, that is worth the wake-up of a thread. */
#define HELPED (256u * 1024)

/* Copies from the device of this size bypass the caches: 30 instead of 20 GB/s at 64 MiB (H200). */
#define DRAINED (8u << 20)

/* A copy has at least so many pieces, since only one side works during the first and the last; and the least size of a
 * piece, in bytes, for which the worker's calls of the driver take no longer than the piece itself. */
#define PIECES 16
#define LEAST_PIECE (128u * 1024)

/* A thread looks for a piece LOOKS times, then YIELDS times with a yield before each, and then sleeps between looks. It
 * pauses GLANCES times in a look. */
#define LOOKS 30
#define GLANCES 64
#define YIELDS 200
#define NAP_US 50
#define LONGEST_NAP_US 1000

struct copy {
	char *host;
	size_t bytes, piece;
	uint64_t pieces, next; /* `next`: the first piece that no thread has taken; under the lock */
	bool to_device;
	unsigned int count; /* of blocks */
	uint32_t mask, blocks[MOST_BLOCKS];
	unsigned int useful;  /* threads besides the caller's */
	unsigned int threads; /* threads that have a piece of the copy; under the lock */
	bool called;          /* helpers have been called */
	struct copy *following;
};

/* Adaptive: a thread spins for a while, since all see at once that a piece is ready, and none holds the lock long. */
static pthread_mutex_t lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t left = PTHREAD_COND_INITIALIZER;

/* Helpers with low numbers work first, so that they find warm caches and the same processors. */
static struct helper {
	pthread_cond_t called;
	bool asleep, runs;
} helpers[MOST_THREADS];

static struct copy *copies; /* with pieces that no thread has taken; the oldest first */
static unsigned int threads, wanted_threads, held_blocks;
static unsigned int useful; /* of all copies together */
static bool pauses;         /* helpers end */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose_threads(void)
{
	const char *given = getenv("VCUDA_COPY_THREADS");
	long wanted = 0;
	char *end = NULL;
	cpu_set_t ours;

	/* The software GPU's own threads want the processors. */
	if (libcuda_host_is_gpu() && !sched_getaffinity(0, sizeof(ours), &ours))
		wanted = CPU_COUNT(&ours) / 2;
	if (given && *given) {
		long value = strtol(given, &end, 10);

		if (*end || value < 0)
			vcuda_log("VCUDA_COPY_THREADS=%s is not used: give a number from 0 to %d", given, MOST_THREADS);
		else
			wanted = value;
	}
	wanted_threads = wanted > MOST_THREADS ? MOST_THREADS : (unsigned int)wanted;
}

/* ---- pieces ---- */

static _Atomic uint32_t *handover_of(const struct copy *c, uint64_t piece)
{
	return &client_call_shm()->handovers[c->blocks[piece % c->count]].count;
}

/* The value of the block's count when this side owns the block for the piece. */
static uint32_t own_count(const struct copy *c, uint64_t piece)
{
	return (uint32_t)(piece / c->count) * 2 + (c->to_device ? 0 : 1);
}

static void copy_piece(const struct copy *c, uint64_t piece)
{
	void *memory = vcuda_shm_stage(client_call_shm(), c->blocks[piece % c->count]);
	size_t offset = piece * c->piece, bytes = c->bytes - offset < c->piece ? c->bytes - offset : c->piece;

	client_section_enter();
	if (c->to_device)
		client_stage_fill(memory, c->host + offset, bytes);
	else if (c->bytes >= DRAINED)
		client_stage_drain(c->host + offset, memory, bytes);
	else
		memcpy(c->host + offset, memory, bytes);
	atomic_store(handover_of(c, piece), own_count(c, piece) + 1);
	client_section_leave();
}

static void remove_copy(const struct copy *c)
{
	struct copy **at = &copies;

	while (*at && *at != c)
		at = &(*at)->following;
	if (*at) {
		*at = c->following;
		useful -= c->useful;
	}
}

static uint64_t take_piece(struct copy *c)
{
	c->threads++;
	if (c->next + 1 == c->pieces)
		remove_copy(c);
	return c->next++;
}

static bool is_ready(const struct copy *c)
{
	return c->next < c->pieces && atomic_load(handover_of(c, c->next)) == own_count(c, c->next);
}

/* ---- threads; with the lock held ---- */

/* One that has a piece for us now. A thread waits for none in particular: it may be behind a kernel that runs long. */
static struct copy *find_ready(void)
{
	struct copy *c = copies;

	while (c && !is_ready(c))
		c = c->following;
	return c;
}

static void work(struct copy *c)
{
	uint64_t piece = take_piece(c);

	pthread_mutex_unlock(&lock);
	copy_piece(c, piece);
	pthread_mutex_lock(&lock);
	if (!--c->threads)
		pthread_cond_broadcast(&left);
}

/* Looks for the oldest copy's next piece, without the lock, which those need that have one. */
static void look_again(unsigned int times)
{
	const _Atomic uint32_t *turn = handover_of(copies, copies->next);
	uint32_t ours = own_count(copies, copies->next);
	useconds_t nap = NAP_US * (1 + times / 1024);

	pthread_mutex_unlock(&lock);
	for (unsigned int i = 0; i < GLANCES && atomic_load(turn) != ours; i++)
		__builtin_ia32_pause();
	if (times >= LOOKS + YIELDS)
		usleep(nap < LONGEST_NAP_US ? nap : LONGEST_NAP_US);
	else if (times >= LOOKS)
		sched_yield();
	pthread_mutex_lock(&lock);
}

static void *serve(void *helper)
{
	struct helper *h = helper;
	unsigned int looks = 0;

	pthread_mutex_lock(&lock);
	while (!pauses) {
		bool is_useful = h < helpers + useful;
		struct copy *c = is_useful ? find_ready() : NULL;

		if (c) {
			work(c);
			looks = 0;
		} else if (is_useful) {
			look_again(looks++);
		} else {
			h->asleep = true;
			while (h->asleep)
				pthread_cond_wait(&h->called, &lock);
			looks = 0;
		}
	}
	h->runs = false;
	threads--;
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void call_helpers(void)
{
	for (struct helper *h = helpers; h < helpers + useful && h < helpers + wanted_threads; h++) {
		if (h->asleep)
			pthread_cond_signal(&h->called);
		h->asleep = false;
	}
}

/* ---- the caller's ---- */

/* In the order of their numbers, as the worker takes them. False: there are none now. */
static bool take_blocks(struct copy *c)
{
	struct vcuda_shm *shm = client_call_shm();
	uint32_t bit;

	pthread_mutex_lock(&lock);
	while (c->count < c->pieces && held_blocks < MOST_BLOCKS && (bit = client_stage_try())) {
		c->mask |= bit;
		c->count++;
		held_blocks++;
	}
	pthread_mutex_unlock(&lock);
	client_section_enter();
	for (uint32_t block = 0, i = 0; block < VCUDA_STAGE_BLOCKS; block++) {
		if (!(c->mask >> block & 1))
			continue;
		atomic_store(&shm->handovers[block].count, 0);
		c->blocks[i++] = block;
	}
	client_section_leave();
	return c->count;
}

static void give_blocks(const struct copy *c)
{
	pthread_mutex_lock(&lock);
	held_blocks -= c->count;
	pthread_mutex_unlock(&lock);
	for (unsigned int i = 0; i < c->count; i++)
		client_stage_give_tried(c->blocks[i]);
}

/* ---- while the process is locked there are no helpers ---- */

static void pause_helpers(void)
{
	pthread_mutex_lock(&lock);
	pauses = true;
	for (struct helper *h = helpers; h < helpers + MOST_THREADS; h++) {
		if (h->runs && h->asleep)
			pthread_cond_signal(&h->called);
		h->asleep = false;
	}
	pthread_mutex_unlock(&lock);
}

static bool are_paused(void)
{
	bool paused;

	pthread_mutex_lock(&lock);
	paused = !threads;
	pthread_mutex_unlock(&lock);
	return paused;
}

/* The next copy starts new ones. */
static void resume_helpers(void)
{
	pthread_mutex_lock(&lock);
	pauses = false;
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch(void)
{
	static struct client_restore_watch helpers_watch = {
		.pause = pause_helpers, .is_paused = are_paused, .resume = resume_helpers};

	client_restore_watch(&helpers_watch);
}

/* With the lock held. False: the thread cannot be started. */
static bool start_helper(struct helper *h)
{
	/* The application's handlers may give pages of its memory their contents. */
	static const int faults[] = {SIGSEGV, SIGBUS, 0};

	if (h->runs)
		return true;
	pthread_cond_init(&h->called, NULL);
	h->asleep = false;
	h->runs = vcuda_thread_start_with(NULL, faults, serve, h);
	threads += h->runs;
	return h->runs;
}

/* False: not now. */
static bool begin(struct copy *c)
{
	struct copy **at = &copies;
	struct helper *h = helpers;
	bool any;

	pthread_mutex_lock(&lock);
	while (!pauses && h < helpers + wanted_threads && start_helper(h))
		h++;
	any = threads > 0;
	while (any && *at)
		at = &(*at)->following;
	if (any) {
		*at = c;
		useful += c->useful;
	}
	pthread_mutex_unlock(&lock);
	return any;
}

/* Runs while the caller waits for the worker. The first run, once the worker has the command, calls the helpers. */
static bool work_myself(void *copy)
{
	struct copy *c = copy;
	bool ready;

	pthread_mutex_lock(&lock);
	if (!c->called)
		call_helpers();
	c->called = true;
	ready = is_ready(c);
	if (ready)
		work(c);
	pthread_mutex_unlock(&lock);
	return ready;
}

/* The worker is done with the copy. If the copy succeeded, the remaining pieces are ready in the blocks. */
static void end(struct copy *c, bool succeeded)
{
	pthread_mutex_lock(&lock);
	while (succeeded && c->next < c->pieces)
		work(c);
	remove_copy(c);
	while (c->threads)
		pthread_cond_wait(&left, &lock);
	pthread_mutex_unlock(&lock);
}

/* The pieces of a copy, and the threads that it can use. */
static struct copy describe(const struct libcuda_transfer *t)
{
	size_t piece = t->bytes / PIECES & ~(size_t)4095, shares = t->bytes / HELPED;
	struct copy c = {.host = t->host, .bytes = t->bytes, .to_device = t->to_device};

	c.piece = piece < LEAST_PIECE ? LEAST_PIECE : piece > VCUDA_STAGE_BLOCK_BYTES ? VCUDA_STAGE_BLOCK_BYTES : piece;
	c.pieces = (t->bytes - 1) / c.piece + 1;
	c.useful = shares < MOST_THREADS ? (unsigned int)shares : MOST_THREADS;
	return c;
}

bool libcuda_stage_double_buffer(const struct libcuda_transfer *t, CUresult *result)
{
	struct call_options options = *t->how;
	struct copy c = describe(t);
	bool has_begun;
	int cancel_state;

	pthread_once(&once, choose_threads);
	if (!wanted_threads ||
	    client_session.transport->host_minor < vcuda_call_table[VCUDA_OP_vcudaStageTurns].since_minor)
		return false;
	/* The thread that ends the wait may need a block, so none is held meanwhile. */
	*result = libcuda_stream_wait(t->how, t->stream);
	if (*result != CUDA_SUCCESS)
		return true;
	/* A thread that is cancelled here would leave its copy on the stack to the helpers. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	has_begun = take_blocks(&c) && begin(&c);
	if (has_begun) {
		options.meanwhile = work_myself;
		options.argument = &c;
		*result = vcuda_call_vcudaStageTurns_with(&options, t->device, t->to_device, c.mask, (uint32_t)c.piece,
							  t->bytes, t->stream);
		end(&c, *result == CUDA_SUCCESS);
	}
	give_blocks(&c);
	pthread_setcancelstate(cancel_state, NULL);
	return has_begun;
}

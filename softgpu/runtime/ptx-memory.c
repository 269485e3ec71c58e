/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of blocks: an account for the whole process, and the needs of one block. An OS thread keeps the memory of
 * its last blocks. A thread that runs no blocks loses its memory to one that needs it.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "common/deadline.h"
#include "runtime/ptx-thread.h"

#define DEFAULT_LIMIT (256ull << 20)
#define WAIT_NS 5000000

enum { IDLE, RUNS, EMPTIED };

static uint64_t limit = DEFAULT_LIMIT;

/* Used and reserved memory that is not charged, each. */
#define FREE_BYTES (32ull << 20)

/* The account, with its lock. */
static struct {
	pthread_mutex_t lock;
	uint64_t used, reserved;
	uint64_t charged; /* less than is due only where ptx_unreserve_memory() could not have more charged */
	bool (*take)(uint64_t bytes);
	void (*give)(uint64_t bytes);
} account = {.lock = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the list */
static pthread_cond_t given_back = PTHREAD_COND_INITIALIZER;
static struct ptx_thread *threads; /* the first of each OS thread */
static unsigned waiting;           /* atomic: OS threads in ptx_memory_wait() */

void ptx_limit_memory(uint64_t bytes)
{
	limit = bytes;
}

void ptx_charge_memory(bool (*take)(uint64_t bytes), void (*give)(uint64_t bytes))
{
	account.take = take;
	account.give = give;
}

static uint64_t beyond(uint64_t bytes, uint64_t free)
{
	return bytes > free ? bytes - free : 0;
}

/* With the account's lock held. False: the charge was refused. */
static bool settle_charge(void)
{
	uint64_t due = beyond(account.reserved, FREE_BYTES) + beyond(account.used, account.reserved + FREE_BYTES);

	if (!account.take)
		return true;
	if (due > account.charged && !account.take(due - account.charged))
		return false;
	if (due < account.charged)
		account.give(account.charged - due);
	account.charged = due;
	return true;
}

/* ---- OS threads ---- */

void ptx_memory_add(struct ptx_thread *t)
{
	pthread_mutex_lock(&lock);
	t->other = threads;
	threads = t;
	pthread_mutex_unlock(&lock);
}

void ptx_memory_remove(struct ptx_thread *t)
{
	pthread_mutex_lock(&lock);
	for (struct ptx_thread **link = &threads; *link; link = &(*link)->other)
		if (*link == t) {
			*link = t->other;
			break;
		}
	pthread_mutex_unlock(&lock);
}

static bool change(struct ptx_thread *t, int from, int to)
{
	return __atomic_compare_exchange_n(&t->state, &from, to, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void ptx_memory_enter(struct ptx_thread *t)
{
	while (!change(t, IDLE, RUNS))
		sched_yield();
}

static void empty_all(struct ptx_thread *t)
{
	for (; t; t = t->next)
		ptx_thread_empty(t);
}

bool ptx_memory_wanted(void)
{
	return __atomic_load_n(&waiting, __ATOMIC_RELAXED);
}

void ptx_memory_leave(struct ptx_thread *t)
{
	if (ptx_memory_wanted())
		empty_all(t);
	__atomic_store_n(&t->state, IDLE, __ATOMIC_RELEASE);
}

static void empty_idle(void)
{
	pthread_mutex_lock(&lock);
	for (struct ptx_thread *t = threads; t; t = t->other) {
		if (!change(t, IDLE, EMPTIED))
			continue;
		empty_all(t);
		__atomic_store_n(&t->state, IDLE, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
}

/* ---- the account ---- */

bool ptx_memory_is_charged(void)
{
	bool charged;

	pthread_mutex_lock(&account.lock);
	charged = account.charged;
	pthread_mutex_unlock(&account.lock);
	return charged;
}

void ptx_release_memory(void)
{
	empty_idle();
}

/* Adds to a sum of the account, which is its old value if that much cannot be charged. */
static bool add(uint64_t *sum, uint64_t bytes, uint64_t most)
{
	bool ok;

	pthread_mutex_lock(&account.lock);
	ok = bytes <= most && *sum <= most - bytes;
	if (ok) {
		*sum += bytes;
		ok = settle_charge();
		*sum -= ok ? 0 : bytes;
	}
	pthread_mutex_unlock(&account.lock);
	return ok;
}

static bool add_with_idle(uint64_t *sum, uint64_t bytes, uint64_t most)
{
	if (add(sum, bytes, most))
		return true;
	empty_idle();
	return add(sum, bytes, most);
}

bool ptx_reserve_memory(uint64_t bytes)
{
	return add_with_idle(&account.reserved, bytes, UINT64_MAX / 2);
}

/* Threads of the launch may have kept memory, which is charged from now on. */
void ptx_unreserve_memory(uint64_t bytes)
{
	bool ok;

	pthread_mutex_lock(&account.lock);
	account.reserved -= bytes;
	ok = settle_charge();
	pthread_mutex_unlock(&account.lock);
	if (!ok)
		empty_idle();
}

/* Whether no other block would free the memory that this thread's next block needs. */
static bool is_hopeless(const struct ptx_thread *t, const struct ptx_launch *launch)
{
	uint64_t others;

	pthread_mutex_lock(&account.lock);
	others = account.used - t->charged;
	pthread_mutex_unlock(&account.lock);
	return !others || ptx_launch_memory(launch) > limit;
}

static bool take(struct ptx_thread *t, uint64_t bytes, uint64_t most)
{
	if (!add_with_idle(&account.used, bytes, most))
		return false;
	t->charged += bytes;
	return true;
}

/* Stacks have room for runtime functions that few kernels call. The unused part of a stack takes no memory. */
static uint64_t stack_charge(size_t bytes)
{
	size_t unused = PTX_RUNTIME_STACK - PTX_RUNTIME_STACK_USED;

	return bytes > unused ? bytes - unused : bytes;
}

static uint64_t held(const struct ptx_thread *t)
{
	uint64_t bytes = t->shared_room + t->local_room + t->cache_room + t->frames_room;

	for (unsigned w = 0; w < PTX_MAX_WARPS; w++) {
		bytes += stack_charge(t->warps[w].stack_bytes);
		for (const struct ptx_callee *c = t->warps[w].callees; c; c = c->next)
			bytes += stack_charge(c->warp.stack_bytes) + c->frame_room + c->cache_room;
	}
	return bytes;
}

void ptx_memory_settle(struct ptx_thread *t)
{
	uint64_t bytes = held(t);

	pthread_mutex_lock(&account.lock);
	account.used -= t->charged - bytes;
	settle_charge();
	pthread_mutex_unlock(&account.lock);
	t->charged = bytes;
	if (!ptx_memory_wanted())
		return;
	pthread_cond_broadcast(&given_back);
}

/* False: there was none. */
static bool empty_unused(struct ptx_thread *t)
{
	bool any = false;

	for (; t; t = t->next)
		if (!t->busy && t->charged) {
			ptx_thread_empty(t);
			any = true;
		}
	return any;
}

void ptx_memory_wait(struct ptx_thread *t)
{
	struct timespec until = vcuda_deadline(WAIT_NS);

	if (empty_unused(t))
		return;
	__atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED);
	pthread_mutex_lock(&lock);
	pthread_cond_clockwait(&given_back, &lock, CLOCK_MONOTONIC, &until);
	pthread_mutex_unlock(&lock);
	__atomic_sub_fetch(&waiting, 1, __ATOMIC_RELAXED);
}

/* ---- one block ---- */

/*
 * A load under a mask reads nothing for lanes that are not there, but takes a hundred times as long if a page is
 * missing where they would read: on both sides of shared memory there is one. Shared memory itself begins with a page.
 */
#define PAGE 4096u
#define BESIDE (PTX_SITE_LANES * sizeof(uint64_t))

struct need {
	uint32_t warps;
	size_t shared, local, cache, frame, stack;
};

uint32_t ptx_warps(const struct ptx_binary *binary)
{
	return binary->fibers ? (binary->threads + 31) / 32 : 1;
}

static size_t shared_bytes(const struct ptx_launch *launch)
{
	uint64_t own = launch->binary->static_shared;

	return launch->dynamic_shared ? ((own + 127) & ~127ull) + launch->dynamic_shared : own;
}

static struct need need_of(const struct ptx_launch *launch, const struct ptx_machine_code *full)
{
	const struct ptx_binary *b = launch->binary;

	return (struct need){.warps = ptx_warps(b),
			     .shared = PAGE + shared_bytes(launch) + BESIDE,
			     .local = b->local_stride * b->threads + 128,
			     .cache = (b->site_count + 1) * sizeof(struct ptx_cached_range),
			     .frame = (b->frame_bytes + 63) & ~63ull,
			     .stack = full->stack};
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE * PAGE;
}

static uint64_t more(size_t room, size_t bytes)
{
	return bytes > room ? whole_pages(bytes) - room : 0;
}

static uint64_t more_stack(const struct ptx_warp *warp, size_t bytes)
{
	return bytes > warp->stack_bytes ? stack_charge(whole_pages(bytes)) - stack_charge(warp->stack_bytes) : 0;
}

static uint64_t missing(const struct ptx_thread *t, const struct need *n)
{
	uint64_t bytes = more(t->shared_room, n->shared) + more(t->local_room, n->local) +
			 more(t->cache_room, n->cache) + more(t->frames_room, n->frame * n->warps);

	for (uint32_t w = 0; w < n->warps; w++)
		bytes += more_stack(&t->warps[w], n->stack);
	return bytes;
}

uint64_t ptx_launch_memory(const struct ptx_launch *launch)
{
	struct need n = need_of(launch, __atomic_load_n(&launch->binary->full, __ATOMIC_ACQUIRE));

	return whole_pages(n.shared) + whole_pages(n.local) + whole_pages(n.cache) + whole_pages(n.frame * n.warps) +
	       n.warps * stack_charge(whole_pages(n.stack));
}

static bool map(struct ptx_thread *t, const struct need *n)
{
	if (!ptx_thread_grow(&t->shared, &t->shared_room, n->shared) ||
	    !ptx_thread_grow(&t->local, &t->local_room, n->local) ||
	    !ptx_thread_grow(&t->frames, &t->frames_room, n->frame * n->warps) ||
	    !ptx_thread_grow(&t->cache, &t->cache_room, n->cache))
		return false;
	for (uint32_t w = 0; w < n->warps; w++) {
		if (!ptx_thread_stack(&t->warps[w], n->stack))
			return false;
		t->warps[w].frame = (struct ptx_frame *)(void *)((char *)t->frames + w * n->frame);
	}
	return true;
}

/* By an earlier block of the same launch, for the code that runs now: a better one may have been compiled meanwhile. */
bool ptx_memory_is_prepared(const struct ptx_thread *t, const struct ptx_launch *launch)
{
	const struct ptx_machine_code *full = __atomic_load_n(&launch->binary->full, __ATOMIC_ACQUIRE);

	return launch->serial && t->serial == launch->serial && t->full == full->code;
}

/*
 * The memory that a cooperative launch reserved counts extra: its blocks may wait for other launches, whose blocks must
 * not wait for it.
 */
static uint64_t most(enum ptx_share share)
{
	uint64_t reserved;

	pthread_mutex_lock(&account.lock);
	reserved = account.reserved < limit ? account.reserved : limit;
	pthread_mutex_unlock(&account.lock);
	return reserved + (share == PTX_HALF ? limit / 2 : share == PTX_WHOLE ? limit : 2 * limit);
}

/* Blocks of a cooperative launch wait for one another, and so do not wait for those of another launch. */
static uint64_t most_for(const struct ptx_launch *launch, enum ptx_share share)
{
	return most(launch->workspace ? PTX_TWICE : share);
}

enum ptx_provided ptx_memory_provide(struct ptx_thread *t, const struct ptx_launch *launch, enum ptx_share share)
{
	const struct ptx_machine_code *full;
	struct need n;
	uint64_t bytes;
	bool ok;

	if (ptx_memory_is_prepared(t, launch))
		return PTX_PROVIDED;
	t->serial = 0;
	full = __atomic_load_n(&launch->binary->full, __ATOMIC_ACQUIRE);
	n = need_of(launch, full);
	bytes = missing(t, &n);
	if (bytes && !take(t, bytes, most_for(launch, share)))
		return is_hopeless(t, launch) ? PTX_TOO_MUCH : PTX_NOT_NOW;
	ok = map(t, &n);
	if (bytes)
		ptx_memory_settle(t);
	t->full = full->code;
	return ok ? PTX_PROVIDED : PTX_TOO_MUCH;
}

bool ptx_memory_provide_stack(struct ptx_thread *t, struct ptx_warp *warp, size_t bytes)
{
	uint64_t charge = more_stack(warp, bytes);
	bool ok;

	if (charge && !take(t, charge, most(PTX_TWICE)))
		return false;
	ok = ptx_thread_stack(warp, bytes);
	if (charge)
		ptx_memory_settle(t);
	return ok;
}

bool ptx_memory_provide_callee(struct ptx_thread *t, struct ptx_callee *c)
{
	const struct ptx_binary *b = c->ctx.binary;
	size_t cache = (b->site_count + 1) * sizeof(struct ptx_cached_range);
	uint64_t charge =
		more(c->frame_room, b->frame_bytes) + more(c->cache_room, cache) + more_stack(&c->warp, c->code->stack);
	bool ok;

	if (charge && !take(t, charge, most(PTX_TWICE)))
		return false;
	ok = ptx_thread_grow(&c->frame, &c->frame_room, b->frame_bytes) &&
	     ptx_thread_grow(&c->cache, &c->cache_room, cache) && ptx_thread_stack(&c->warp, c->code->stack);
	c->warp.frame = c->frame;
	if (charge)
		ptx_memory_settle(t);
	return ok;
}

void ptx_memory_prepare(struct ptx_thread *t, const struct ptx_launch *launch)
{
	const struct ptx_binary *b = launch->binary;
	struct ptx_context *ctx = &t->ctx;

	ctx->dynamic_bytes = launch->dynamic_shared;
	ctx->shared_bytes = shared_bytes(launch);
	ctx->shared = (uint8_t *)t->shared + PAGE;
	((volatile uint8_t *)t->shared)[PAGE - 1] = 0;
	((volatile uint8_t *)t->shared)[PAGE + ctx->shared_bytes + BESIDE - 1] = 0;
	ctx->local_bytes = b->local_stride * b->threads;
	ctx->local = t->local;
	ctx->cache = t->cache;
	memset(t->cache, 0xff, b->site_count * sizeof(struct ptx_cached_range));
	ptx_check_provenances(ctx);
	t->serial = launch->serial;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/warm-pool.h"

#include <stdlib.h>

#include "common/log.h"

/* Until one is replaced: its guest process starts meanwhile, and making a context would slow it down. */
#define REPLACE_MS 100

/* One that ends younger than this has failed; the next is tried after a pause, each twice as long as the last. */
#define YOUNG_MS 10000
#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 60000

/* With --warm-once: time in which the expected guest process must come. */
#define ONCE_MS 60000

struct spare {
	struct vcuda_list entry;
	struct daemon_warm_pool *pool;
	struct daemon_worker *worker;
	uint64_t born;
};

static void spare_free(struct spare *spare)
{
	vcuda_list_remove(&spare->entry);
	spare->pool->count--;
	free(spare);
}

static void fail(struct daemon_warm_pool *pool)
{
	/* The program that it was for hears of what is wrong by the worker that it gets instead. */
	if (pool->options->warm_once) {
		pool->wanted = 0;
		return;
	}
	if (!pool->told)
		vcuda_log("a warm worker failed before it had a guest process: others are tried later, and guest "
			  "processes are served without");
	pool->told = true;
	pool->pause = pool->pause ? pool->pause * 2 : PAUSE_MIN_MS;
	if (pool->pause > PAUSE_MAX_MS)
		pool->pause = PAUSE_MAX_MS;
	daemon_timer_set(pool->loop, &pool->timer, pool->pause);
}

static void is_good(struct daemon_warm_pool *pool)
{
	pool->told = false;
	pool->pause = 0;
}

static void reaped(struct daemon_worker *worker)
{
	struct spare *spare = worker->owner;
	struct daemon_warm_pool *pool = spare->pool;

	if (daemon_now() - spare->born >= YOUNG_MS)
		is_good(pool);
	spare_free(spare);
	if (pool->wanted)
		fail(pool);
}

static void ignore_reply(struct daemon_worker *worker, const struct vcuda_channel_message *reply)
{
}

static void ignore_wake(struct daemon_worker *worker)
{
}

static const struct daemon_worker_ops spare_ops = {.reply = ignore_reply, .wake = ignore_wake, .reaped = reaped};

static bool add(struct daemon_warm_pool *pool)
{
	struct spare *spare = calloc(1, sizeof(*spare));
	int status;

	if (!spare)
		return false;
	spare->pool = pool;
	spare->born = daemon_now();
	spare->worker = daemon_worker_start_warm(pool->loop, pool->options, pool->told || pool->options->warm_once,
						 &spare_ops, spare, &status);
	if (!spare->worker) {
		free(spare);
		return false;
	}
	vcuda_list_add(&spare->entry, &pool->spares);
	pool->count++;
	return true;
}

static void kill_all(struct daemon_warm_pool *pool)
{
	struct spare *spare, *after;

	pool->wanted = 0;
	vcuda_list_for_each_safe (spare, after, &pool->spares, struct spare, entry)
		daemon_worker_kill(spare->worker);
}

static void expired(struct daemon_timer *timer)
{
	struct daemon_warm_pool *pool = container_of(timer, struct daemon_warm_pool, timer);

	if (pool->options->warm_once && pool->count) {
		vcuda_log_debug("no guest process came for the warm workers");
		kill_all(pool);
		return;
	}
	while (pool->count < pool->wanted) {
		if (!add(pool)) {
			fail(pool);
			return;
		}
	}
	if (pool->options->warm_once)
		daemon_timer_set(pool->loop, timer, ONCE_MS);
}

void daemon_warm_pool_open(struct daemon_warm_pool *pool, struct daemon_loop *loop,
			   const struct daemon_options *options)
{
	*pool = (struct daemon_warm_pool){.loop = loop, .options = options, .wanted = options->warm};
	vcuda_list_init(&pool->spares);
	daemon_timer_init(&pool->timer, expired);
	if (pool->wanted)
		expired(&pool->timer);
}

struct daemon_worker *daemon_warm_pool_take(struct daemon_warm_pool *pool, const struct daemon_worker_ops *ops,
					    void *owner)
{
	struct spare *spare, *after;

	vcuda_list_for_each_safe (spare, after, &pool->spares, struct spare, entry) {
		struct daemon_worker *worker = spare->worker;

		if (worker->ending || worker->channel < 0 || daemon_worker_has_ended(worker))
			continue;
		if (daemon_now() - spare->born >= YOUNG_MS)
			is_good(pool);
		worker->ops = ops;
		worker->owner = owner;
		worker->quiet = false;
		spare_free(spare);
		if (pool->options->warm_once)
			pool->wanted -= pool->wanted > 0;
		else if (!pool->timer.at)
			daemon_timer_set(pool->loop, &pool->timer, REPLACE_MS);
		return worker;
	}
	return NULL;
}

void daemon_warm_pool_close(struct daemon_warm_pool *pool)
{
	daemon_timer_clear(&pool->timer);
	kill_all(pool);
}

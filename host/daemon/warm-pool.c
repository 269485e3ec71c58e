/* SPDX-License-Identifier: Apache-2.0 */
#include "warm-pool.h"

#include <stdlib.h>

#include "common/log.h"

/* Until one is replaced: its guest process starts meanwhile, and making a context would slow it down. */
#define REPLACE_MS 100

/* One that ends younger than this has failed; the next is tried after a pause, each twice as long as the last. */
#define YOUNG_MS 10000
#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 60000

/* With --warm-once, how long one waits for the guest process that it is meant for. */
#define ONCE_MS 60000

struct spare {
	struct vcuda_list entry;
	struct vcuda_stock *stock;
	struct vcuda_worker *worker;
	uint64_t born;
};

static void spare_free(struct spare *spare)
{
	vcuda_list_remove(&spare->entry);
	spare->stock->count--;
	free(spare);
}

static void fail(struct vcuda_stock *stock)
{
	/* The program that it was for hears of what is wrong by the worker that it gets instead. */
	if (stock->options->warm_once) {
		stock->wanted = 0;
		return;
	}
	if (!stock->told)
		vcuda_log("a warm worker failed before it had a guest process: others are tried later, and guest "
			  "processes are served without");
	stock->told = true;
	stock->pause = stock->pause ? stock->pause * 2 : PAUSE_MIN_MS;
	if (stock->pause > PAUSE_MAX_MS)
		stock->pause = PAUSE_MAX_MS;
	vcuda_timer_set(stock->loop, &stock->timer, stock->pause);
}

static void is_good(struct vcuda_stock *stock)
{
	stock->told = false;
	stock->pause = 0;
}

static void reaped(struct vcuda_worker *worker)
{
	struct spare *spare = worker->owner;
	struct vcuda_stock *stock = spare->stock;

	if (vcuda_now() - spare->born >= YOUNG_MS)
		is_good(stock);
	spare_free(spare);
	if (stock->wanted)
		fail(stock);
}

static void ignore_reply(struct vcuda_worker *worker, const struct vcuda_channel_message *reply)
{
}

static void ignore_wake(struct vcuda_worker *worker)
{
}

static const struct vcuda_worker_ops spare_ops = {ignore_reply, ignore_wake, reaped};

static bool add(struct vcuda_stock *stock)
{
	struct spare *spare = calloc(1, sizeof(*spare));
	int status;

	if (!spare)
		return false;
	spare->stock = stock;
	spare->born = vcuda_now();
	spare->worker = vcuda_worker_start_warm(stock->loop, stock->options, stock->told || stock->options->warm_once,
						&spare_ops, spare, &status);
	if (!spare->worker) {
		free(spare);
		return false;
	}
	vcuda_list_add(&spare->entry, &stock->spares);
	stock->count++;
	return true;
}

static void kill_all(struct vcuda_stock *stock)
{
	struct spare *spare, *after;

	stock->wanted = 0;
	vcuda_list_for_each_safe (spare, after, &stock->spares, struct spare, entry)
		vcuda_worker_kill(spare->worker);
}

static void expired(struct vcuda_timer *timer)
{
	struct vcuda_stock *stock = container_of(timer, struct vcuda_stock, timer);

	if (stock->options->warm_once && stock->count) {
		vcuda_log_debug("no guest process came for the warm workers");
		kill_all(stock);
		return;
	}
	while (stock->count < stock->wanted) {
		if (!add(stock)) {
			fail(stock);
			return;
		}
	}
	if (stock->options->warm_once)
		vcuda_timer_set(stock->loop, timer, ONCE_MS);
}

void vcuda_stock_open(struct vcuda_stock *stock, struct vcuda_loop *loop, const struct vcuda_options *options)
{
	*stock = (struct vcuda_stock){.loop = loop, .options = options, .wanted = options->warm};
	vcuda_list_init(&stock->spares);
	vcuda_timer_init(&stock->timer, expired);
	if (stock->wanted)
		expired(&stock->timer);
}

struct vcuda_worker *vcuda_stock_take(struct vcuda_stock *stock, const struct vcuda_worker_ops *ops, void *owner)
{
	struct spare *spare, *after;

	vcuda_list_for_each_safe (spare, after, &stock->spares, struct spare, entry) {
		struct vcuda_worker *worker = spare->worker;

		if (worker->ending || vcuda_worker_has_ended(worker))
			continue;
		if (vcuda_now() - spare->born >= YOUNG_MS)
			is_good(stock);
		worker->ops = ops;
		worker->owner = owner;
		worker->quiet = false;
		spare_free(spare);
		if (stock->options->warm_once)
			stock->wanted -= stock->wanted > 0;
		else if (!stock->timer.at)
			vcuda_timer_set(stock->loop, &stock->timer, REPLACE_MS);
		return worker;
	}
	return NULL;
}

void vcuda_stock_close(struct vcuda_stock *stock)
{
	vcuda_timer_clear(&stock->timer);
	kill_all(stock);
}

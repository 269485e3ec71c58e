/* SPDX-License-Identifier: Apache-2.0 */
#include "create-queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

/* The VM's users do not matter: they are what its kernel says. */
#define VM_USER 0

/* The request is kept as it came: until its turn the table of guest memory may change. */
struct waiting {
	struct vcuda_list entry;
	struct daemon_owed owed;
	size_t length;
	uint8_t message[];
};

static void waiting_free(struct waiting *w)
{
	vcuda_list_remove(&w->entry);
	free(w);
}

static void answer(struct daemon_create_queue *queue, struct waiting *w, int status)
{
	if (status != DAEMON_LATER)
		daemon_device_reply(queue->device, &w->owed, &(struct vcuda_ctl_reply){.status = status});
	waiting_free(w);
}

static uint64_t take_turn(struct daemon_create_queue *queue)
{
	return daemon_connection_rate_take(&queue->rate, VM_USER, daemon_now());
}

static void serve(struct daemon_create_queue *queue, struct waiting *w)
{
	struct daemon_device *device = queue->device;
	struct daemon_parsed *p = &device->parsed;
	int status = daemon_parse(w->message, w->length, &device->memory, p);

	answer(queue, w, status ? status : daemon_context_create(device, p, &w->owed));
}

static void expired(struct daemon_timer *timer)
{
	struct daemon_create_queue *queue = container_of(timer, struct daemon_create_queue, timer);
	uint64_t pause = 0;

	while (!vcuda_list_empty(&queue->waiting) && !(pause = take_turn(queue)))
		serve(queue, vcuda_list_first(&queue->waiting, struct waiting, entry));
	if (pause)
		daemon_timer_set(queue->device->loop, timer, pause);
}

void daemon_create_queue_init(struct daemon_create_queue *queue, struct daemon_device *device)
{
	queue->device = device;
	vcuda_list_init(&queue->waiting);
	daemon_connection_rate_init(&queue->rate);
	daemon_timer_init(&queue->timer, expired);
}

static int wait_for_turn(struct daemon_create_queue *queue, const struct daemon_parsed *p,
			 const struct daemon_owed *owed, uint64_t pause)
{
	size_t length = sizeof(p->request) + p->request.extents * sizeof(struct vcuda_extent);
	struct waiting *w = malloc(sizeof(*w) + length);

	if (!w)
		return -ENOMEM;
	w->owed = *owed;
	w->length = length;
	memcpy(w->message, queue->device->message, length);
	vcuda_list_add(&w->entry, &queue->waiting);
	if (!queue->timer.at)
		daemon_timer_set(queue->device->loop, &queue->timer, pause);
	return DAEMON_LATER;
}

int daemon_create_queue_add(struct daemon_create_queue *queue, const struct daemon_parsed *p,
			    const struct daemon_owed *owed)
{
	/* The request goes behind the waiting ones. */
	uint64_t pause = vcuda_list_empty(&queue->waiting) ? take_turn(queue) : 1;

	return pause ? wait_for_turn(queue, p, owed, pause) : daemon_context_create(queue->device, p, owed);
}

void daemon_create_queue_refuse(struct daemon_create_queue *queue)
{
	struct waiting *w, *after;

	daemon_timer_clear(&queue->timer);
	vcuda_list_for_each_safe (w, after, &queue->waiting, struct waiting, entry)
		answer(queue, w, -ENODEV);
}

void daemon_create_queue_forget(struct daemon_create_queue *queue)
{
	struct waiting *w, *after;

	daemon_timer_clear(&queue->timer);
	vcuda_list_for_each_safe (w, after, &queue->waiting, struct waiting, entry)
		waiting_free(w);
	daemon_connection_rate_free(&queue->rate);
}

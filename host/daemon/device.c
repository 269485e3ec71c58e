/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "common/log.h"

#define VCUDA_WINDOWS_MAX 65536
#define VCUDA_MAPS_OF_WORKER 4096 /* mappings that a worker has for itself */
#define VCUDA_MAPS_DEFAULT 65530

/* What vm.max_map_count leaves for windows. */
static uint32_t mappings_for_windows(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned int count;

	if (!file || fscanf(file, "%u", &count) != 1)
		count = VCUDA_MAPS_DEFAULT;
	if (file)
		fclose(file);
	return count > 2 * VCUDA_MAPS_OF_WORKER ? count - VCUDA_MAPS_OF_WORKER : count / 2;
}

static void stop_expired(struct vcuda_timer *timer);

void vcuda_device_init(struct vcuda_device *device, struct vcuda_loop *loop, const struct vcuda_options *options,
		       struct vcuda_stock *stock)
{
	unsigned int i;

	memset(device, 0, sizeof(*device));
	device->loop = loop;
	device->options = options;
	device->stock = stock;
	device->generation = 1;
	device->quota = (struct vcuda_quota){.max_pinned = options->max_pinned,
					     .max_windows = VCUDA_WINDOWS_MAX,
					     .max_extents = mappings_for_windows()};
	vcuda_memory_init(&device->memory);
	vcuda_list_init(&device->contexts);
	vcuda_list_init(&device->hellos);
	vcuda_list_init(&device->events);
	vcuda_timer_init(&device->stop_timer, stop_expired);
	for (i = 0; i < VCUDA_QUEUES; i++)
		vcuda_queue_init(&device->queues[i], &device->memory, i);
}

void vcuda_device_config(const struct vcuda_device *device, struct vcuda_config *config)
{
	*config = (struct vcuda_config){.magic = VCUDA_CONFIG_MAGIC,
					.major = VCUDA_CONTROL_MAJOR,
					.minor = VCUDA_CONTROL_MINOR,
					.max_contexts = device->options->max_contexts,
					.page_shift = device->memory.page_shift,
					.max_window_bytes = VCUDA_WINDOW_MAX,
					.max_pinned_bytes = device->options->max_pinned,
					.flags = device->options->register_ram ? VCUDA_CONFIG_DIRECT : 0};
}

static void kill_all(struct vcuda_device *device, int why)
{
	struct vcuda_context *context, *after;

	vcuda_list_for_each_safe (context, after, &device->contexts, struct vcuda_context, entry)
		vcuda_context_kill(context, why);
}

/* ---- replies ---- */

void vcuda_device_reply(struct vcuda_device *device, const struct vcuda_owed *owed, const struct vcuda_ctl_reply *reply)
{
	struct vcuda_queue *queue = &device->queues[VCUDA_QUEUE_CONTROL];

	if (owed->generation != device->generation)
		return;
	if (owed->count && !vcuda_segments_write(&device->memory, owed->reply, owed->count, reply, sizeof(*reply))) {
		vcuda_queue_break(queue, "a reply's place is not in RAM");
		return;
	}
	vcuda_queue_push(queue, owed->head, owed->count ? sizeof(*reply) : 0);
	vcuda_queue_signal(queue);
}

/* Where the reply goes. A chain without enough room in few enough pieces gets an empty one. */
static void owe(const struct vcuda_device *device, const struct vcuda_chain *chain, struct vcuda_owed *owed)
{
	uint64_t room = 0;
	unsigned int i;

	*owed = (struct vcuda_owed){.generation = device->generation, .head = chain->head};
	for (i = 0; i < chain->writable && i < VCUDA_REPLY_SEGMENTS && room < sizeof(struct vcuda_ctl_reply); i++) {
		owed->reply[i] = chain->segments[chain->readable + i];
		room += owed->reply[i].length;
	}
	owed->count = room < sizeof(struct vcuda_ctl_reply) ? 0 : i;
}

/* ---- control queue ---- */

static void answer_hellos(struct vcuda_device *device)
{
	struct vcuda_context *context, *after_context;
	struct vcuda_pending *pending, *after;

	if (vcuda_list_empty(&device->hellos))
		return;
	vcuda_list_for_each_safe (context, after_context, &device->contexts, struct vcuda_context, entry)
		if (context->forgotten && context->id)
			return;
	vcuda_list_for_each_safe (pending, after, &device->hellos, struct vcuda_pending, entry) {
		const struct vcuda_ctl_reply reply = {
			.status = pending->verdict, .major = VCUDA_CONTROL_MAJOR, .minor = VCUDA_CONTROL_MINOR};

		vcuda_list_remove(&pending->entry);
		device->greeted = !pending->verdict;
		vcuda_device_reply(device, &pending->owed, &reply);
		free(pending);
	}
}

static int hello(struct vcuda_device *device, const struct vcuda_parsed *p, const struct vcuda_owed *owed)
{
	const struct vcuda_ctl_request *r = &p->request;
	struct vcuda_pending *pending = calloc(1, sizeof(*pending));
	struct vcuda_context *context, *after;

	if (!pending)
		return -ENOMEM;
	pending->type = VCUDA_CTL_HELLO;
	pending->owed = *owed;
	if (r->major != VCUDA_CONTROL_MAJOR) {
		pending->verdict = -EPROTONOSUPPORT;
		vcuda_log_peer("the guest's driver speaks control version %u.%u, this vcudad %d.%d: install matching "
			       "versions of both",
			       r->major, r->minor, VCUDA_CONTROL_MAJOR, VCUDA_CONTROL_MINOR);
	} else {
		vcuda_log_debug("the guest's driver says hello, control version %u.%u", r->major, r->minor);
	}
	device->greeted = false;
	vcuda_list_for_each_safe (context, after, &device->contexts, struct vcuda_context, entry)
		vcuda_context_forget(context);
	vcuda_list_add(&pending->entry, &device->hellos);
	answer_hellos(device);
	return VCUDA_LATER;
}

typedef int request_handler(struct vcuda_device *device, const struct vcuda_parsed *p, const struct vcuda_owed *owed);

static request_handler *const handlers[] = {
	[VCUDA_CTL_HELLO] = hello,
	[VCUDA_CTL_CREATE] = vcuda_context_create,
	[VCUDA_CTL_DESTROY] = vcuda_context_destroy,
	[VCUDA_CTL_MAP] = vcuda_context_map,
	[VCUDA_CTL_UNMAP] = vcuda_context_unmap,
};

static int handle_request(struct vcuda_device *device, size_t length, const struct vcuda_owed *owed)
{
	struct vcuda_parsed *p = &device->parsed;
	int status = vcuda_parse(device->message, length, &device->memory, p);

	if (!status && p->request.type != VCUDA_CTL_HELLO && !device->greeted)
		return -EPROTO;
	if (!status)
		return handlers[p->request.type](device, p, owed);
	vcuda_log_peer("a control request of the guest (type %u, %zu bytes) is refused: %s", p->request.type, length,
		       strerror(-status));
	if (p->request.type == VCUDA_CTL_MAP && device->greeted)
		return vcuda_context_map_failed(device, &p->request, owed, status);
	return status;
}

static void take_control(struct vcuda_device *device, const struct vcuda_chain *chain)
{
	struct vcuda_owed owed;
	int status = -EINVAL;

	owe(device, chain, &owed);
	if (chain->readable_bytes <= sizeof(device->message)) {
		if (!vcuda_chain_read(&device->memory, chain, device->message, chain->readable_bytes)) {
			vcuda_queue_break(&device->queues[VCUDA_QUEUE_CONTROL], "a request is not in RAM");
			return;
		}
		status = handle_request(device, chain->readable_bytes, &owed);
	}
	if (status != VCUDA_LATER)
		vcuda_device_reply(device, &owed, &(struct vcuda_ctl_reply){.status = status});
	vcuda_memory_trim(&device->memory);
}

/* ---- doorbell queue ---- */

static void take_doorbell(struct vcuda_device *device, const struct vcuda_chain *chain)
{
	struct vcuda_queue *queue = &device->queues[VCUDA_QUEUE_DOORBELL];
	struct vcuda_context *context;
	uint64_t id = 0;

	if (chain->readable_bytes == sizeof(id) && !vcuda_chain_read(&device->memory, chain, &id, sizeof(id))) {
		vcuda_queue_break(queue, "a doorbell is not in RAM");
		return;
	}
	context = id ? vcuda_context_find(device, id) : NULL;
	if (context && context->worker)
		vcuda_worker_ring(context->worker);
	vcuda_queue_push(queue, chain->head, 0);
	vcuda_memory_trim(&device->memory);
}

/* ---- event queue ---- */

/* False: no buffer, or a broken queue. */
static bool deliver(struct vcuda_device *device, const struct vcuda_event *event)
{
	struct vcuda_queue *queue = &device->queues[VCUDA_QUEUE_EVENT];
	struct vcuda_chain chain;

	if (vcuda_queue_next(queue, &chain) != 1)
		return false;
	if (chain.readable || chain.writable_bytes < sizeof(*event)) {
		vcuda_queue_break(queue, "an event buffer is too small, or not writable");
		return false;
	}
	if (!vcuda_segments_write(&device->memory, chain.segments, chain.writable, event, sizeof(*event))) {
		vcuda_queue_break(queue, "an event buffer is not in RAM");
		return false;
	}
	vcuda_queue_push(queue, chain.head, sizeof(*event));
	return true;
}

void vcuda_device_deliver(struct vcuda_device *device)
{
	bool delivered = false;

	while (!device->stopped && !vcuda_list_empty(&device->events)) {
		struct vcuda_context *context = vcuda_list_first(&device->events, struct vcuda_context, event_entry);
		struct vcuda_event event = {.context = context->id};

		event.type = context->events & 1u << VCUDA_EVENT_WAKE ? VCUDA_EVENT_WAKE : VCUDA_EVENT_LOST;
		if (event.type == VCUDA_EVENT_LOST)
			event.status = context->why;
		if (!deliver(device, &event))
			break;
		delivered = true;
		context->events &= ~(1u << event.type);
		if (!context->events)
			vcuda_list_remove(&context->event_entry);
	}
	if (delivered)
		vcuda_queue_signal(&device->queues[VCUDA_QUEUE_EVENT]);
	vcuda_memory_trim(&device->memory);
	if (device->queues[VCUDA_QUEUE_EVENT].broken)
		kill_all(device, -EIO);
}

/* ---- queues ---- */

/* As many chains as the queue holds; the rest waits for the next turn, so that one queue cannot keep the daemon to
 * itself. */
static void take_chains(struct vcuda_device *device, unsigned int index,
			void (*take)(struct vcuda_device *device, const struct vcuda_chain *chain))
{
	struct vcuda_queue *queue = &device->queues[index];
	struct vcuda_chain chain;
	uint32_t taken;

	for (taken = 0; taken < queue->size; taken++) {
		if (vcuda_queue_next(queue, &chain) != 1)
			break;
		take(device, &chain);
	}
	if (taken && index == VCUDA_QUEUE_DOORBELL)
		vcuda_queue_signal(queue);
	if (taken == queue->size && vcuda_queue_ready(queue)) {
		device->more |= 1u << index;
		device->loop->again = true;
	}
}

void vcuda_device_kick(struct vcuda_device *device, unsigned int index)
{
	if (device->stopped || !vcuda_queue_ready(&device->queues[index]))
		return;
	if (index == VCUDA_QUEUE_EVENT)
		vcuda_device_deliver(device);
	else
		take_chains(device, index, index == VCUDA_QUEUE_CONTROL ? take_control : take_doorbell);
	if (device->queues[index].broken)
		kill_all(device, -EIO);
}

void vcuda_device_continue(struct vcuda_device *device)
{
	unsigned int index, more = device->more;

	device->more = 0;
	for (index = 0; index < VCUDA_QUEUES; index++)
		if (more & 1u << index)
			vcuda_device_kick(device, index);
}

/* ---- stopping ---- */

static bool workers_left(const struct vcuda_device *device)
{
	const struct vcuda_list *entry;

	for (entry = device->contexts.next; entry != &device->contexts; entry = entry->next)
		if (container_of(entry, struct vcuda_context, entry)->worker)
			return true;
	return false;
}

static void finish_stop(struct vcuda_device *device)
{
	void (*stopped)(void *owner) = device->stopped;

	vcuda_timer_clear(&device->stop_timer);
	device->stopped = NULL;
	stopped(device->stopped_owner);
}

void vcuda_device_settle(struct vcuda_device *device)
{
	answer_hellos(device);
	if (device->stopped && !workers_left(device))
		finish_stop(device);
}

static void stop_expired(struct vcuda_timer *timer)
{
	struct vcuda_device *device = container_of(timer, struct vcuda_device, stop_timer);

	vcuda_log("a killed worker does not end within %d s (see dmesg): its guest memory may still be in use",
		  VCUDA_STOP_MS / 1000);
	/* The VMM may set up the rings anew after this: what was taken from the old ones is not given back. */
	device->generation++;
	finish_stop(device);
}

void vcuda_device_stop(struct vcuda_device *device, void (*stopped)(void *owner), void *owner)
{
	device->stopped = stopped;
	device->stopped_owner = owner;
	if (!workers_left(device)) {
		finish_stop(device);
		return;
	}
	vcuda_timer_set(device->loop, &device->stop_timer, VCUDA_STOP_MS);
	kill_all(device, -ENODEV);
}

void vcuda_device_forget(struct vcuda_device *device)
{
	struct vcuda_context *context, *after_context;
	struct vcuda_pending *pending, *after;
	unsigned int i;

	vcuda_timer_clear(&device->stop_timer);
	device->stopped = NULL;
	device->generation++;
	device->greeted = false;
	device->more = 0;
	vcuda_list_for_each_safe (pending, after, &device->hellos, struct vcuda_pending, entry) {
		vcuda_list_remove(&pending->entry);
		free(pending);
	}
	vcuda_list_for_each_safe (context, after_context, &device->contexts, struct vcuda_context, entry) {
		/* Numbers of the next VM's may be the same. */
		context->id = 0;
		vcuda_context_forget(context);
	}
	for (i = 0; i < VCUDA_QUEUES; i++)
		vcuda_queue_clear(&device->queues[i]);
	vcuda_memory_clear(&device->memory);
}

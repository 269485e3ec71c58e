/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "common/log.h"
#include "keeper/keeper.h"

#define DAEMON_MAPPINGS_MAX 65536
#define DAEMON_MAPS_OF_WORKER 4096 /* mappings that a worker has for itself */
#define DAEMON_MAPS_DEFAULT 65530

/* The number of mappings that vm.max_map_count allows. */
static uint32_t maps_for_guests(void)
{
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned int count;

	if (!file || fscanf(file, "%u", &count) != 1)
		count = DAEMON_MAPS_DEFAULT;
	if (file)
		fclose(file);
	return count > 2 * DAEMON_MAPS_OF_WORKER ? count - DAEMON_MAPS_OF_WORKER : count / 2;
}

void daemon_device_init(struct daemon_device *device, struct daemon_loop *loop, const struct daemon_options *options,
			struct daemon_warm_pool *pool)
{
	unsigned int i;

	memset(device, 0, sizeof(*device));
	device->loop = loop;
	device->options = options;
	device->warm_pool = pool;
	device->generation = 1;
	device->quota = (struct daemon_device_quota){.max_pinned = options->max_pinned,
						     .max_mappings = DAEMON_MAPPINGS_MAX,
						     .max_extents = maps_for_guests()};
	daemon_memory_init(&device->memory);
	daemon_create_queue_init(&device->creates, device);
	vcuda_list_init(&device->contexts);
	vcuda_list_init(&device->hellos);
	vcuda_list_init(&device->events);
	for (i = 0; i < VCUDA_QUEUES; i++)
		daemon_queue_init(&device->queues[i], &device->memory, i);
}

void daemon_device_config(const struct daemon_device *device, struct vcuda_config *config)
{
	*config = (struct vcuda_config){.magic = VCUDA_CONFIG_MAGIC,
					.major = VCUDA_CONTROL_MAJOR,
					.minor = VCUDA_CONTROL_MINOR,
					.max_contexts = (uint32_t)device->options->max_contexts,
					.page_shift = device->memory.page_shift,
					.max_mapping_bytes = DAEMON_MAPPING_MAX,
					.max_pinned_bytes = device->options->max_pinned,
					.flags = device->options->register_ram ? VCUDA_CONFIG_DIRECT : 0};
}

static void kill_all(struct daemon_device *device, int why)
{
	struct daemon_context *context, *after;

	daemon_create_queue_refuse(&device->creates);
	vcuda_list_for_each_safe (context, after, &device->contexts, struct daemon_context, entry)
		daemon_context_kill(context, why);
}

/* ---- replies ---- */

void daemon_device_reply(struct daemon_device *device, const struct daemon_owed *owed,
			 const struct vcuda_ctl_reply *reply)
{
	struct daemon_queue *queue = &device->queues[VCUDA_QUEUE_CONTROL];

	if (owed->generation != device->generation)
		return;
	if (owed->count && !daemon_segments_write(&device->memory, owed->reply, owed->count, reply, sizeof(*reply))) {
		daemon_queue_break(queue, "a reply's place is not in RAM");
		return;
	}
	daemon_queue_push(queue, owed->head, owed->count ? sizeof(*reply) : 0);
	daemon_queue_signal(queue);
}

/* Prepares the place of the reply. A chain without enough room in few enough pieces gets an empty reply. */
static void owe(const struct daemon_device *device, const struct daemon_chain *chain, struct daemon_owed *owed)
{
	uint64_t room = 0;
	unsigned int i;

	*owed = (struct daemon_owed){.generation = device->generation, .head = chain->head};
	for (i = 0; i < chain->writable && i < DAEMON_REPLY_SEGMENTS && room < sizeof(struct vcuda_ctl_reply); i++) {
		owed->reply[i] = chain->segments[chain->readable + i];
		room += owed->reply[i].length;
	}
	owed->count = room < sizeof(struct vcuda_ctl_reply) ? 0 : i;
}

/* ---- control queue ---- */

static void answer_hellos(struct daemon_device *device)
{
	struct daemon_context *context, *after_context;
	struct daemon_pending *pending, *after;

	if (vcuda_list_empty(&device->hellos))
		return;
	vcuda_list_for_each_safe (context, after_context, &device->contexts, struct daemon_context, entry)
		if (context->forgotten && context->id)
			return;
	vcuda_list_for_each_safe (pending, after, &device->hellos, struct daemon_pending, entry) {
		const struct vcuda_ctl_reply reply = {
			.status = pending->verdict, .major = VCUDA_CONTROL_MAJOR, .minor = VCUDA_CONTROL_MINOR};

		vcuda_list_remove(&pending->entry);
		device->greeted = !pending->verdict;
		daemon_device_reply(device, &pending->owed, &reply);
		free(pending);
	}
}

static int hello(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	const struct vcuda_ctl_request *r = &p->request;
	struct daemon_pending *pending = calloc(1, sizeof(*pending));
	struct daemon_context *context, *after;

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
	/* Files of an earlier driver hold nothing. */
	daemon_keeper_forget(DAEMON_KEEPER_VM);
	daemon_create_queue_refuse(&device->creates);
	vcuda_list_for_each_safe (context, after, &device->contexts, struct daemon_context, entry)
		daemon_context_forget(context);
	vcuda_list_add(&pending->entry, &device->hellos);
	answer_hellos(device);
	return DAEMON_LATER;
}

static int create(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	return daemon_create_queue_add(&device->creates, p, owed);
}

typedef int request_handler(struct daemon_device *device, const struct daemon_parsed *p,
			    const struct daemon_owed *owed);

static request_handler *const handlers[] = {
	[VCUDA_CTL_HELLO] = hello,
	[VCUDA_CTL_CREATE] = create,
	[VCUDA_CTL_DESTROY] = daemon_context_destroy,
	[VCUDA_CTL_MAP] = daemon_context_map,
	[VCUDA_CTL_UNMAP] = daemon_context_unmap,
	[VCUDA_CTL_STATE] = daemon_context_act,
	[VCUDA_CTL_HOLD] = daemon_export_hold,
	[VCUDA_CTL_DROP] = daemon_export_hold,
};

static int handle_request(struct daemon_device *device, size_t length, const struct daemon_owed *owed)
{
	struct daemon_parsed *p = &device->parsed;
	int status = daemon_parse(device->message, length, &device->memory, p);

	if (!status && p->request.type != VCUDA_CTL_HELLO && !device->greeted)
		return -EPROTO;
	if (!status)
		return handlers[p->request.type](device, p, owed);
	vcuda_log_peer("a control request of the guest (type %u, %zu bytes) is refused: %s", p->request.type, length,
		       strerror(-status));
	if (p->request.type == VCUDA_CTL_MAP && device->greeted)
		return daemon_context_map_failed(device, &p->request, owed, status);
	return status;
}

static void take_control(struct daemon_device *device, const struct daemon_chain *chain)
{
	struct daemon_owed owed;
	int status = -EINVAL;

	owe(device, chain, &owed);
	if (chain->readable_bytes <= sizeof(device->message)) {
		if (!daemon_chain_read(&device->memory, chain, device->message, chain->readable_bytes)) {
			daemon_queue_break(&device->queues[VCUDA_QUEUE_CONTROL], "a request is not in RAM");
			return;
		}
		status = handle_request(device, chain->readable_bytes, &owed);
	}
	if (status != DAEMON_LATER)
		daemon_device_reply(device, &owed, &(struct vcuda_ctl_reply){.status = status});
	daemon_memory_trim(&device->memory);
}

/* ---- doorbell queue ---- */

static void take_doorbell(struct daemon_device *device, const struct daemon_chain *chain)
{
	struct daemon_queue *queue = &device->queues[VCUDA_QUEUE_DOORBELL];
	struct daemon_context *context;
	uint64_t id = 0;

	if (chain->readable_bytes == sizeof(id) && !daemon_chain_read(&device->memory, chain, &id, sizeof(id))) {
		daemon_queue_break(queue, "a doorbell is not in RAM");
		return;
	}
	context = id ? daemon_context_find(device, id) : NULL;
	if (context && context->worker)
		daemon_worker_ring(context->worker);
	daemon_queue_push(queue, chain->head, 0);
	daemon_memory_trim(&device->memory);
}

/* ---- event queue ---- */

/* False: no buffer, or a broken queue. */
static bool deliver(struct daemon_device *device, const struct vcuda_event *event)
{
	struct daemon_queue *queue = &device->queues[VCUDA_QUEUE_EVENT];
	struct daemon_chain chain;

	if (daemon_queue_next(queue, &chain) != 1)
		return false;
	if (chain.readable || chain.writable_bytes < sizeof(*event)) {
		daemon_queue_break(queue, "an event buffer is too small, or not writable");
		return false;
	}
	if (!daemon_segments_write(&device->memory, chain.segments, chain.writable, event, sizeof(*event))) {
		daemon_queue_break(queue, "an event buffer is not in RAM");
		return false;
	}
	daemon_queue_push(queue, chain.head, sizeof(*event));
	return true;
}

void daemon_device_deliver(struct daemon_device *device)
{
	bool delivered = false;

	while (!device->stopped && !vcuda_list_empty(&device->events)) {
		struct daemon_context *context = vcuda_list_first(&device->events, struct daemon_context, event_entry);
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
		daemon_queue_signal(&device->queues[VCUDA_QUEUE_EVENT]);
	daemon_memory_trim(&device->memory);
	if (device->queues[VCUDA_QUEUE_EVENT].broken)
		kill_all(device, -EIO);
}

/* ---- queues ---- */

/* As many chains as the queue holds; the rest waits for the next turn, so that one queue cannot keep the daemon to
 * itself. */
static void take_chains(struct daemon_device *device, unsigned int index,
			void (*take)(struct daemon_device *device, const struct daemon_chain *chain))
{
	struct daemon_queue *queue = &device->queues[index];
	struct daemon_chain chain;
	uint32_t taken;

	for (taken = 0; taken < queue->size; taken++) {
		if (daemon_queue_next(queue, &chain) != 1)
			break;
		take(device, &chain);
	}
	if (taken && index == VCUDA_QUEUE_DOORBELL)
		daemon_queue_signal(queue);
	if (taken == queue->size && daemon_queue_ready(queue)) {
		device->more |= 1u << index;
		device->loop->again = true;
	}
}

void daemon_device_kick(struct daemon_device *device, unsigned int index)
{
	if (device->stopped || !daemon_queue_ready(&device->queues[index]))
		return;
	if (index == VCUDA_QUEUE_EVENT)
		daemon_device_deliver(device);
	else
		take_chains(device, index, index == VCUDA_QUEUE_CONTROL ? take_control : take_doorbell);
	if (device->queues[index].broken)
		kill_all(device, -EIO);
}

void daemon_device_continue(struct daemon_device *device)
{
	unsigned int index, more = device->more;

	device->more = 0;
	for (index = 0; index < VCUDA_QUEUES; index++)
		if (more & 1u << index)
			daemon_device_kick(device, index);
}

/* ---- stopping ---- */

static bool workers_left(const struct daemon_device *device)
{
	const struct vcuda_list *entry;

	for (entry = device->contexts.next; entry != &device->contexts; entry = entry->next)
		if (container_of(entry, struct daemon_context, entry)->worker)
			return true;
	return false;
}

static void finish_stop(struct daemon_device *device)
{
	void (*stopped)(void *owner) = device->stopped;

	device->stopped = NULL;
	stopped(device->stopped_owner);
}

void daemon_device_update(struct daemon_device *device)
{
	answer_hellos(device);
	if (device->stopped && !workers_left(device))
		finish_stop(device);
}

void daemon_device_stop(struct daemon_device *device, void (*stopped)(void *owner), void *owner)
{
	device->stopped = stopped;
	device->stopped_owner = owner;
	daemon_keeper_forget(DAEMON_KEEPER_VM);
	if (!workers_left(device)) {
		daemon_create_queue_refuse(&device->creates);
		finish_stop(device);
		return;
	}
	kill_all(device, -ENODEV);
}

void daemon_device_forget(struct daemon_device *device)
{
	struct daemon_context *context, *after_context;
	struct daemon_pending *pending, *after;
	unsigned int i;

	device->stopped = NULL;
	device->generation++;
	daemon_keeper_forget(DAEMON_KEEPER_VM);
	device->greeted = false;
	device->more = 0;
	daemon_create_queue_forget(&device->creates);
	vcuda_list_for_each_safe (pending, after, &device->hellos, struct daemon_pending, entry) {
		vcuda_list_remove(&pending->entry);
		free(pending);
	}
	vcuda_list_for_each_safe (context, after_context, &device->contexts, struct daemon_context, entry) {
		/* Numbers of the next VM's may be the same. */
		context->id = 0;
		daemon_context_forget(context);
	}
	for (i = 0; i < VCUDA_QUEUES; i++)
		daemon_queue_clear(&device->queues[i]);
	daemon_memory_clear(&device->memory);
}

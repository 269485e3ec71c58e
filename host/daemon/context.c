/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: one guest process and its worker.
 *
 * A request that the worker must act on waits in `sent` for its reply; one that can only be answered when the worker is
 * gone waits in `waiting`. When the worker is reaped both lists are answered, so every request is answered exactly
 * once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "attach.h"
#include "device.h"
#include "common/log.h"
#include "common/trace-point.h"
#include "protocol/ipc/worker-table.h"
#include "limits/overrun.h"
#include "options/quotas.h"
#include "keeper/keeper.h"

/* Beside VCUDA_CTL_*, a request of our own: its answer goes nowhere. */
#define DAEMON_CTL_REPLACE 0x10000

struct daemon_context *daemon_context_find(struct daemon_device *device, uint64_t id)
{
	struct daemon_context *context, *after;

	vcuda_list_for_each_safe (context, after, &device->contexts, struct daemon_context, entry)
		if (context->id == id)
			return context;
	return NULL;
}

static struct daemon_pending *pending_new(uint32_t type, const struct daemon_owed *owed)
{
	struct daemon_pending *pending = calloc(1, sizeof(*pending));

	if (!pending)
		return NULL;
	vcuda_list_init(&pending->entry);
	pending->type = type;
	pending->owed = *owed;
	return pending;
}

static void answer(struct daemon_context *context, struct daemon_pending *pending, int status)
{
	struct vcuda_ctl_reply reply = {.status = status, .major = context->major, .minor = context->minor};

	vcuda_list_remove(&pending->entry);
	daemon_device_reply(context->device, &pending->owed, &reply);
	free(pending);
}

static void context_free(struct daemon_context *context)
{
	vcuda_list_remove(&context->entry);
	vcuda_list_remove(&context->event_entry);
	context->device->count--;
	daemon_mapping_quota_free(&context->mappings);
	daemon_grants_free(&context->shared_area);
	free(context);
}

void daemon_context_event(struct daemon_context *context, unsigned int type)
{
	if (context->forgotten)
		return;
	context->events |= 1u << type;
	vcuda_list_remove(&context->event_entry);
	vcuda_list_add(&context->event_entry, &context->device->events);
	daemon_device_deliver(context->device);
}

void daemon_context_kill(struct daemon_context *context, int why)
{
	if (!context->worker)
		return;
	context->why = why;
	daemon_worker_kill(context->worker);
}

static void mark_forgotten(struct daemon_context *context)
{
	context->forgotten = true;
	context->events = 0;
	vcuda_list_remove(&context->event_entry);
}

void daemon_context_forget(struct daemon_context *context)
{
	mark_forgotten(context);
	daemon_context_kill(context, -ENODEV);
	if (!context->worker)
		context_free(context);
}

/* ---- what comes from the worker ---- */

static void created(struct daemon_context *context, struct daemon_pending *pending,
		    const struct vcuda_channel_message *m)
{
	context->major = m->major;
	context->minor = m->minor;
	if (!m->status) {
		context->ready = true;
		answer(context, pending, 0);
		return;
	}
	/* The guest may free the shared area as soon as it hears of the failure. */
	context->create_status = m->status;
	vcuda_list_remove(&pending->entry);
	vcuda_list_add(&pending->entry, &context->waiting);
	mark_forgotten(context);
	daemon_context_kill(context, m->status);
}

/* The request is answered when the worker is reaped. */
static void kill_over(struct daemon_context *context, struct daemon_pending *pending, const char *what)
{
	vcuda_log_peer("worker %d (guest process %u of user %u) %s: it is killed", context->worker->pid, context->pid,
		       context->uid, what);
	vcuda_list_remove(&pending->entry);
	vcuda_list_add(&pending->entry, &context->waiting);
	daemon_context_kill(context, -EIO);
}

/*
 * The worker's word is not trusted: where it has a mapper, vcudad looks itself. The range of a mapping that was not
 * reached may be the worker's own, with files in it.
 */
static bool has_unmapped(const struct daemon_context *context, const struct daemon_mapping *mapping)
{
	const struct daemon_mapper *mapper = &context->worker->mapper;

	return !mapping || !mapping->reached || !mapper->made ||
	       daemon_mapper_has_unmapped(mapper, mapping->address, mapping->length);
}

/* The guest may free the pages as soon as it is answered. False: it is not yet. */
static bool strike_out(struct daemon_context *context, struct daemon_pending *pending)
{
	if (!has_unmapped(context, daemon_mapping_quota_find_serial(&context->mappings, pending->serial))) {
		kill_over(context, pending, "keeps memory that it was to give back");
		return false;
	}
	daemon_mapping_quota_remove(&context->mappings, pending->serial);
	return true;
}

static void mapped(struct daemon_context *context, struct daemon_pending *pending, int status)
{
	/* The worker was asked to unmap the parts of a mapping that failed here. */
	if (pending->verdict) {
		if (status && status != -ENOENT) {
			kill_over(context, pending, "cannot unmap a part of a mapping");
			return;
		}
		status = pending->verdict;
	}
	if (!status || strike_out(context, pending))
		answer(context, pending, status);
}

static void unmapped(struct daemon_context *context, struct daemon_pending *pending, int status)
{
	if (status && status != -ENOENT) {
		daemon_mapping_quota_keep(&context->mappings, pending->serial);
		answer(context, pending, status);
	} else if (strike_out(context, pending)) {
		answer(context, pending, 0);
	}
}

static void replaced(struct daemon_context *context, struct daemon_pending *pending, int status)
{
	answer(context, pending, 0);
	if (status)
		daemon_context_kill(context, status);
}

static void worker_reply(struct daemon_worker *worker, const struct vcuda_channel_message *m)
{
	struct daemon_context *context = worker->owner;
	struct daemon_pending *pending = vcuda_list_first(&context->sent, struct daemon_pending, entry);

	switch (pending->type) {
	case VCUDA_CTL_CREATE:
		created(context, pending, m);
		break;
	case VCUDA_CTL_MAP:
		mapped(context, pending, m->status);
		break;
	case DAEMON_CTL_REPLACE:
		replaced(context, pending, m->status);
		break;
	default:
		unmapped(context, pending, m->status);
		break;
	}
}

static void worker_wake(struct daemon_worker *worker)
{
	daemon_context_event(worker->owner, VCUDA_EVENT_WAKE);
}

static bool worker_may_map(struct daemon_worker *worker, const struct daemon_grant *wanted)
{
	struct daemon_context *context = worker->owner;

	return daemon_mapping_quota_grants(&context->mappings, wanted) ||
	       daemon_grants_have_anywhere(&context->shared_area, wanted);
}

static int status_at_end(const struct daemon_context *context, const struct daemon_pending *pending)
{
	switch (pending->type) {
	case VCUDA_CTL_CREATE:
		return context->create_status ? context->create_status : -EIO;
	case VCUDA_CTL_MAP:
		return pending->verdict ? pending->verdict : -EPIPE;
	default:
		return 0;
	}
}

static void answer_all(struct daemon_context *context, struct vcuda_list *list)
{
	struct daemon_pending *pending, *after;

	vcuda_list_for_each_safe (pending, after, list, struct daemon_pending, entry)
		answer(context, pending, status_at_end(context, pending));
}

static const struct daemon_worker_ops worker_ops;

/*
 * A warm worker that does not fit its guest process ends, and another one serves the process from its first command on.
 * A process gets another worker once, before it has anything but its shared area. False: the worker is lost.
 */
static bool replace(struct daemon_context *context)
{
	struct daemon_device *device = context->device;
	struct daemon_pending *pending;
	int status;

	if (device->stopped || context->replaced || context->forgotten || !context->ready || context->mappings.count ||
	    !vcuda_list_empty(&context->sent) || !vcuda_list_empty(&context->waiting))
		return false;
	context->replaced = true;
	pending = pending_new(DAEMON_CTL_REPLACE, &(struct daemon_owed){0});
	if (!pending)
		return false;
	context->worker = daemon_worker_start(device->loop, device->options, &worker_ops, context, &status);
	if (!context->worker) {
		free(pending);
		return false;
	}
	daemon_worker_serve(context->worker, context->pid, context->uid, DAEMON_KEEPER_VM);
	vcuda_log_debug("context %llu: worker %d in its place", (unsigned long long)context->id, context->worker->pid);
	vcuda_list_add(&pending->entry, &context->sent);
	status = daemon_attach_again(context);
	if (status)
		daemon_context_kill(context, status);
	return true;
}

static void worker_reaped(struct daemon_worker *worker)
{
	struct daemon_context *context = worker->owner;
	struct daemon_device *device = context->device;

	context->worker = NULL;
	if (worker->unfit && replace(context))
		return;
	daemon_mapping_quota_release(&context->mappings);
	answer_all(context, &context->sent);
	answer_all(context, &context->waiting);
	if (context->forgotten || !context->ready) {
		context_free(context);
	} else {
		if (daemon_overrun_has_ended(&worker->ledger))
			context->why = VCUDA_LOST_TURNS;
		else if (worker->greedy)
			context->why = VCUDA_LOST_QUOTA;
		vcuda_log_debug("context %llu (guest process %u) is lost", (unsigned long long)context->id,
				context->pid);
		daemon_context_event(context, VCUDA_EVENT_LOST);
	}
	daemon_device_update(device);
}

static const struct daemon_worker_ops worker_ops = {worker_reply, worker_wake, worker_reaped, worker_may_map};

/* ---- what comes from the guest ---- */

/* A worker that cannot be reached is as good as dead: the answer comes when it is. */
static void send_or_wait(struct daemon_context *context, struct daemon_pending *pending,
			 struct vcuda_channel_message *m, const struct vcuda_channel_extent *extents)
{
	if (!daemon_worker_send(context->worker, m, extents, NULL, 0)) {
		vcuda_list_add(&pending->entry, &context->sent);
		return;
	}
	vcuda_list_add(&pending->entry, &context->waiting);
	daemon_context_kill(context, -EPIPE);
}

static struct daemon_context *context_new(struct daemon_device *device, const struct vcuda_ctl_request *r)
{
	struct daemon_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->device = device;
	context->id = r->context;
	context->uid = r->uid;
	context->pid = r->pid;
	context->why = -EPIPE;
	vcuda_list_init(&context->event_entry);
	vcuda_list_init(&context->sent);
	vcuda_list_init(&context->waiting);
	daemon_mapping_quota_init(&context->mappings, &device->quota);
	vcuda_list_add(&context->entry, &device->contexts);
	device->count++;
	return context;
}

int daemon_context_create(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	const struct vcuda_ctl_request *r = &p->request;
	struct daemon_context *context;
	struct daemon_pending *pending;
	int status;

	vcuda_trace_point("vcudad: a guest process is there");
	if (daemon_context_find(device, r->context))
		return -EEXIST;
	if (device->count >= device->options->max_contexts) {
		daemon_quota_refuse(DAEMON_QUOTA_CONTEXTS);
		vcuda_log_peer("guest process %u of user %u is refused: the VM has its %u contexts (raise "
			       "--max-contexts)",
			       r->pid, r->uid, device->count);
		return -ENOSPC;
	}
	pending = pending_new(VCUDA_CTL_CREATE, owed);
	context = pending ? context_new(device, r) : NULL;
	if (!context) {
		free(pending);
		return -ENOMEM;
	}
	context->shared = p->first;
	context->worker = daemon_warm_pool_take(device->warm_pool, &worker_ops, context);
	if (!context->worker)
		context->worker = daemon_worker_start(device->loop, device->options, &worker_ops, context, &status);
	if (!context->worker) {
		free(pending);
		context_free(context);
		return -EIO;
	}
	daemon_worker_serve(context->worker, r->pid, r->uid, DAEMON_KEEPER_VM);
	vcuda_log_debug("context %llu: worker %d for guest process %u of user %u", (unsigned long long)context->id,
			context->worker->pid, r->pid, r->uid);
	status = daemon_attach(context, p);
	if (status) {
		context->create_status = status;
		vcuda_list_add(&pending->entry, &context->waiting);
		mark_forgotten(context);
		daemon_context_kill(context, status);
	} else {
		vcuda_list_add(&pending->entry, &context->sent);
	}
	return DAEMON_LATER;
}

int daemon_context_destroy(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	struct daemon_context *context = daemon_context_find(device, p->request.context);
	struct daemon_pending *pending;

	if (!context)
		return -ENOENT;
	if (!context->worker) {
		context_free(context);
		return 0;
	}
	pending = pending_new(VCUDA_CTL_DESTROY, owed);
	if (!pending)
		return -ENOMEM;
	vcuda_list_add(&pending->entry, &context->waiting);
	mark_forgotten(context);
	daemon_worker_end(context->worker);
	return DAEMON_LATER;
}

int daemon_context_act(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	const struct vcuda_ctl_request *r = &p->request;
	const struct daemon_context *context = daemon_context_find(device, r->context);
	struct daemon_gate_state state;
	int status = 0;

	if (device->options->no_guest_checkpoint)
		return -EOPNOTSUPP;
	if (!context || !context->worker || context->forgotten)
		return -ENOENT;
	if (r->flags != VCUDA_PROCESS_GET_STATE)
		status = daemon_gate_act(&context->worker->gate, r->flags, (uint32_t)r->length);
	if (status)
		return status;
	state = daemon_gate_state(&context->worker->gate);
	daemon_device_reply(device, owed,
			    &(struct vcuda_ctl_reply){.state = state.state, .major = state.failure});
	return DAEMON_LATER;
}

/* Has the worker unmap what it has of a mapping that will not be completed, and answers `status` then. */
static int give_up(struct daemon_context *context, struct daemon_mapping *mapping, const struct daemon_owed *owed,
		   int status)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_MAPPING_UNMAP, .address = mapping->address, .length = mapping->length};
	struct daemon_pending *pending = pending_new(VCUDA_CTL_MAP, owed);

	if (!pending) {
		daemon_context_kill(context, -ENOMEM);
		return -ENOMEM;
	}
	mapping->leaving = true;
	pending->verdict = status;
	pending->serial = mapping->serial;
	send_or_wait(context, pending, &m, NULL);
	return DAEMON_LATER;
}

int daemon_context_map_failed(struct daemon_device *device, const struct vcuda_ctl_request *r,
			      const struct daemon_owed *owed, int status)
{
	struct daemon_context *context = daemon_context_find(device, r->context);
	struct daemon_mapping *mapping;

	if (!context || !context->worker || !r->offset)
		return status;
	mapping = daemon_mapping_quota_find(&context->mappings, r->address, r->length);
	return mapping && !mapping->complete && !mapping->leaving ? give_up(context, mapping, owed, status) : status;
}

static int map_part(struct daemon_context *context, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	const struct vcuda_ctl_request *r = &p->request;
	struct vcuda_channel_message m = {.type = VCUDA_CHANNEL_MAPPING_MAP,
					  .flags = r->flags,
					  .address = r->address,
					  .length = r->length,
					  .offset = r->offset};
	struct daemon_part part = {.address = r->address,
				   .length = r->length,
				   .offset = r->offset,
				   .bytes = p->bytes,
				   .writable = r->flags & VCUDA_MAP_WRITABLE,
				   .direct = r->flags & VCUDA_MAP_DIRECT,
				   .last = r->flags & VCUDA_MAP_LAST};
	struct vcuda_channel_extent extents[VCUDA_CHANNEL_MAX_EXTENTS];
	struct daemon_pending *pending;
	uint64_t serial;
	int status;

	if (part.direct && !context->device->options->register_ram)
		return -EOPNOTSUPP;
	status = daemon_extents_for_worker(context, p, extents);
	if (status < 0)
		return status;
	m.extents = part.extents = (uint32_t)status;
	part.granted = context->worker->mapper.made ? extents : NULL;
	pending = pending_new(VCUDA_CTL_MAP, owed);
	if (!pending)
		return -ENOMEM;
	context->device->quota.max_pinned = context->device->options->max_pinned;
	status = daemon_mapping_quota_add(&context->mappings, &part, &serial);
	if (status) {
		free(pending);
		return status;
	}
	pending->serial = serial;
	send_or_wait(context, pending, &m, extents);
	return DAEMON_LATER;
}

/* Says what an operator can do about a refusal. */
static void explain(const struct daemon_context *context, int status)
{
	const struct daemon_device_quota *shared = &context->device->quota;

	if (status == -EDQUOT) {
		daemon_quota_refuse(DAEMON_QUOTA_PINNED);
		vcuda_log_peer("guest process %u of user %u is refused a mapping: %llu MiB are pinned in %u mappings "
			       "(raise --max-pinned)",
			       context->pid, context->uid, (unsigned long long)shared->pinned >> 20, shared->mappings);
	} else if (status == -ENOMEM) {
		vcuda_log_peer("guest process %u of user %u is refused a mapping: its memory is in too many pieces "
			       "(raise the sysctl vm.max_map_count, or use huge pages in the guest)",
			       context->pid, context->uid);
	}
}

int daemon_context_map(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	struct daemon_context *context = daemon_context_find(device, p->request.context);
	struct daemon_pending *pending;
	int status;

	if (!context)
		return -ENOENT;
	if (!context->worker)
		return -EPIPE;
	if (context->forgotten || context->worker->ending) {
		/* Earlier parts of the mapping may still be mapped. */
		pending = pending_new(VCUDA_CTL_MAP, owed);
		if (!pending)
			return -ENOMEM;
		vcuda_list_add(&pending->entry, &context->waiting);
		return DAEMON_LATER;
	}
	status = map_part(context, p, owed);
	if (status < 0) {
		explain(context, status);
		status = daemon_context_map_failed(device, &p->request, owed, status);
	}
	return status;
}

int daemon_context_unmap(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed)
{
	const struct vcuda_ctl_request *r = &p->request;
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_MAPPING_UNMAP, .address = r->address, .length = r->length};
	struct daemon_context *context = daemon_context_find(device, r->context);
	struct daemon_pending *pending;
	struct daemon_mapping *mapping;

	mapping = context ? daemon_mapping_quota_find(&context->mappings, r->address, r->length) : NULL;
	if (!mapping)
		return -ENOENT;
	if (!context->worker) {
		daemon_mapping_quota_remove(&context->mappings, mapping->serial);
		return 0;
	}
	if (mapping->leaving)
		return -EBUSY;
	pending = pending_new(VCUDA_CTL_UNMAP, owed);
	if (!pending)
		return -ENOMEM;
	mapping->leaving = true;
	pending->serial = mapping->serial;
	send_or_wait(context, pending, &m, NULL);
	return DAEMON_LATER;
}

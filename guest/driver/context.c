// SPDX-License-Identifier: GPL-2.0-only
/*
 * Contexts: one open file, one mm, one worker on the host.
 *
 * References: the file's, and one of the DESTROY call from its submission until the host confirmed. The shared area
 * goes with the last of them, the ranges at the confirmation or, where a call still works on them, when that leaves.
 * So both exist at least as long as the worker does.
 *
 * The owner's exit ends a context even while others hold the file. A process that shares the owner's memory but not
 * its table of files may be in any call meanwhile.
 */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "virtio-cuda.h"

static unsigned int open_timeout_s = 60;
module_param(open_timeout_s, uint, 0644);
MODULE_PARM_DESC(open_timeout_s, "How long to wait for the host to start a worker, in seconds");

struct vcuda_context *vcuda_context_new(struct vcuda_device *device)
{
	struct vcuda_context *context = kzalloc(sizeof(*context), GFP_KERNEL_ACCOUNT);

	if (!context)
		return NULL;
	context->user = vcuda_user_get(current_uid());
	if (!context->user) {
		kfree(context);
		return NULL;
	}
	kref_init(&context->ref);
	mutex_init(&context->lock);
	init_waitqueue_head(&context->wait);
	context->ranges = RB_ROOT;
	context->device = vcuda_device_get(device);
	context->mm = current->mm;
	mmgrab(context->mm);
	context->owner = get_pid(task_tgid(current));
	return context;
}

static void vcuda_context_free_share(struct vcuda_context *context)
{
	vcuda_user_uncharge(context->user, context->share.count);
	vcuda_share_free(&context->share);
}

static void vcuda_context_free(struct kref *ref)
{
	struct vcuda_context *context = container_of(ref, struct vcuda_context, ref);

	if (context->id)
		xa_erase_irq(&context->device->contexts, context->id);
	vcuda_call_put(context->destroy);
	vcuda_context_free_share(context);
	vcuda_user_put(context->user);
	put_pid(context->owner);
	mmdrop(context->mm);
	vcuda_device_put(context->device);
	mutex_destroy(&context->lock);
	kfree(context);
}

void vcuda_context_put(struct vcuda_context *context)
{
	kref_put(&context->ref, vcuda_context_free);
}

static int vcuda_context_state(struct vcuda_context *context)
{
	if (context->generation != vcuda_device_generation(context->device))
		return -ENODEV;
	return READ_ONCE(context->lost) ? -EPIPE : 0;
}

/* In a work: the answer to DESTROY, or a reset in its place. */
static void vcuda_context_destroyed(struct vcuda_call *call)
{
	struct vcuda_context *context = call->owner;
	bool idle;

	if (!vcuda_call_confirmed(call)) {
		pr_err("vcuda: the host could not end context %llu (error %d): its pages stay until the device is reset\n",
		       context->id, call->status);
		if (vcuda_call_quarantine(call))
			return;
	}
	mutex_lock(&context->lock);
	context->confirmed = true;
	idle = !context->active;
	mutex_unlock(&context->lock);
	if (idle)
		vcuda_pin_release_all(context);
	vcuda_context_put(context);
}

/* Before work on the ranges. As vcuda_context_usable(). After 0, -ENODEV and -EPIPE vcuda_context_leave() follows. */
int vcuda_context_enter(struct vcuda_context *context)
{
	bool open;

	mutex_lock(&context->lock);
	open = context->state == VCUDA_CONTEXT_OPEN;
	context->active += open;
	mutex_unlock(&context->lock);
	return open ? vcuda_context_state(context) : -EINVAL;
}

void vcuda_context_leave(struct vcuda_context *context)
{
	bool last;

	mutex_lock(&context->lock);
	last = !--context->active && context->confirmed;
	mutex_unlock(&context->lock);
	if (last)
		vcuda_pin_release_all(context);
}

/* Has the host drop all that it has of the context. Idempotent; does not wait. */
void vcuda_context_end(struct vcuda_context *context)
{
	struct vcuda_call *destroy = NULL;

	mutex_lock(&context->lock);
	if (context->state == VCUDA_CONTEXT_OPENING) {
		/* DESTROY must not overtake CREATE: OPEN ends it when it has its answer. */
		context->end_wanted = true;
	} else {
		destroy = context->destroy;
		context->destroy = NULL;
		context->state = VCUDA_CONTEXT_ENDED;
	}
	mutex_unlock(&context->lock);
	if (!READ_ONCE(context->lost))
		WRITE_ONCE(context->lost, -EPIPE);
	wake_up_all(&context->wait);
	if (!destroy)
		return;
	kref_get(&context->ref);
	vcuda_call_submit(destroy);
	vcuda_call_put(destroy);
}

static int vcuda_context_number(struct vcuda_context *context)
{
	struct vcuda_device *device = context->device;
	unsigned long flags;
	int status;

	spin_lock_irqsave(&device->lock, flags);
	context->id = ++device->next_context;
	context->generation = device->generation;
	spin_unlock_irqrestore(&device->lock, flags);
	status = xa_insert_irq(&device->contexts, context->id, context, GFP_KERNEL);
	if (status)
		context->id = 0;
	return status;
}

/* All that the host will be told of, and the DESTROY call that takes it back. */
static int vcuda_context_prepare(struct vcuda_context *context, const struct vcuda_open *args)
{
	struct vcuda_device *device = context->device;
	int status;

	status = vcuda_share_alloc(&context->share, args->shm_bytes, device->limits.page_shift - PAGE_SHIFT);
	if (status)
		return status;
	status = vcuda_user_charge(context->user, context->share.count);
	if (status) {
		vcuda_share_free(&context->share);
		return status;
	}
	status = vcuda_context_number(context);
	if (status)
		goto free_share;
	context->wake_offset = args->wake_offset;
	context->destroy = vcuda_call_new(device, VCUDA_CTL_DESTROY, context->generation);
	if (!context->destroy) {
		status = -ENOMEM;
		goto erase;
	}
	context->destroy->request.context = context->id;
	context->destroy->finish = vcuda_context_destroyed;
	context->destroy->owner = context;
	return 0;
erase:
	xa_erase_irq(&device->contexts, context->id);
	context->id = 0;
free_share:
	vcuda_context_free_share(context);
	return status;
}

/* CREATE. After it was sent, only DESTROY frees the shared area, whatever the answer was. */
static int vcuda_context_create(struct vcuda_context *context, struct vcuda_open *args)
{
	struct vcuda_call *call = vcuda_call_new(context->device, VCUDA_CTL_CREATE, context->generation);
	int status;

	if (!call)
		return -ENOMEM;
	call->request.context = context->id;
	call->request.length = (u64)context->share.count << PAGE_SHIFT;
	call->request.uid = from_kuid_munged(&init_user_ns, current_uid());
	/* The process that the rights of others are checked against, and not one that shares its memory. */
	call->request.pid = pid_nr(context->owner);
	call->request.major = args->major;
	call->request.minor = args->minor;
	status = vcuda_share_describe(&context->share, call);
	if (status)
		goto put;
	vcuda_call_submit(call);
	status = vcuda_call_wait(call, open_timeout_s * HZ);
	if (!status || status == -EPROTONOSUPPORT) {
		args->major = call->reply.major;
		args->minor = call->reply.minor;
	}
	args->context = context->id;
put:
	vcuda_call_put(call);
	return status;
}

static int vcuda_context_check(const struct vcuda_open *args)
{
	if (args->flags & ~VCUDA_OPEN_DIRECT)
		return -EINVAL;
	if (!args->shm_bytes || args->shm_bytes > VCUDA_MAX_SHARE || !PAGE_ALIGNED(args->shm_bytes))
		return -EINVAL;
	if (!IS_ALIGNED(args->wake_offset, sizeof(u32)) || args->wake_offset > args->shm_bytes - sizeof(u32))
		return -EINVAL;
	return 0;
}

int vcuda_context_open(struct vcuda_context *context, struct vcuda_open *args)
{
	int status = vcuda_context_check(args);

	if (status)
		return status;
	if (!vcuda_device_live(context->device))
		return -ENODEV;
	if (mutex_lock_killable(&context->lock))
		return -EINTR;
	if (context->state != VCUDA_CONTEXT_NEW)
		status = -EBUSY;
	else
		context->state = VCUDA_CONTEXT_OPENING;
	mutex_unlock(&context->lock);
	if (status)
		return status;
	status = vcuda_context_prepare(context, args);
	if (status) {
		mutex_lock(&context->lock);
		context->state = VCUDA_CONTEXT_NEW;
		mutex_unlock(&context->lock);
		return status;
	}
	status = vcuda_context_create(context, args);
	mutex_lock(&context->lock);
	if (!status && context->end_wanted)
		status = -ENODEV;
	args->flags = !status && vcuda_device_offers_direct(context->device) ? VCUDA_OPEN_DIRECT : 0;
	context->state = status ? VCUDA_CONTEXT_ENDED : VCUDA_CONTEXT_OPEN;
	mutex_unlock(&context->lock);
	if (status)
		vcuda_context_end(context);
	return status;
}

/* 0, -EINVAL (not open), -ENODEV (no host), -EPIPE (the worker is gone). */
int vcuda_context_usable(struct vcuda_context *context)
{
	bool open;

	mutex_lock(&context->lock);
	open = context->state == VCUDA_CONTEXT_OPEN;
	mutex_unlock(&context->lock);
	return open ? vcuda_context_state(context) : -EINVAL;
}

static bool vcuda_context_woken(struct vcuda_context *context, u32 seen)
{
	return vcuda_share_read(&context->share, context->wake_offset) != seen || READ_ONCE(context->lost);
}

int vcuda_context_wait(struct vcuda_context *context, const struct vcuda_wait *args)
{
	int status = vcuda_context_usable(context);

	if (status)
		return status;
	if (args->timeout_us)
		status = wait_event_interruptible_hrtimeout(context->wait, vcuda_context_woken(context, args->seen),
							    ns_to_ktime((u64)args->timeout_us * NSEC_PER_USEC));
	else
		status = wait_event_interruptible(context->wait, vcuda_context_woken(context, args->seen));
	if (status == -ETIME)
		return -ETIMEDOUT;
	/* A restart would begin the timeout anew. */
	if (status)
		return args->timeout_us ? -EINTR : -ERESTARTSYS;
	/* The worker may have published something before it ended. */
	if (vcuda_share_read(&context->share, context->wake_offset) != args->seen)
		return 0;
	return vcuda_context_usable(context);
}

/* For the guest's administrator: the process itself gets a CUDA error. */
static void vcuda_context_report_lost(const struct vcuda_context *context, s32 status)
{
	const char *why = "its worker on the host has failed";

	if (status == VCUDA_LOST_OPERATOR)
		why = "killed by the host's operator";
	else if (status == VCUDA_LOST_QUOTA)
		why = "over a quota of the host";
	else if (status == VCUDA_LOST_TURNS)
		why = "its kernels ran in other VMs' turns for longer than vcudad's --max-kernel-time";
	pr_notice_ratelimited("vcuda: process %d lost its GPU: %s (%d)\n", pid_nr(context->owner), why, status);
}

/* Device lock held, in an interrupt. */
void vcuda_context_event(struct vcuda_device *device, const struct vcuda_event *event)
{
	struct vcuda_context *context;

	xa_lock(&device->contexts);
	context = xa_load(&device->contexts, event->context);
	if (context) {
		if (event->type == VCUDA_EVENT_LOST) {
			WRITE_ONCE(context->lost, event->status ? event->status : -EPIPE);
			vcuda_context_report_lost(context, event->status);
		}
		wake_up_all(&context->wait);
	}
	xa_unlock(&device->contexts);
}

void vcuda_context_lose_all(struct vcuda_device *device, int status)
{
	struct vcuda_context *context;
	unsigned long id;

	xa_lock_irq(&device->contexts);
	xa_for_each(&device->contexts, id, context) {
		WRITE_ONCE(context->lost, status);
		wake_up_all(&context->wait);
	}
	xa_unlock_irq(&device->contexts);
}

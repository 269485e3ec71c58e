// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls: requests on the control queue.
 *
 * A call has two references: the submitter's, and the queue's from submission until it finished. So a killed waiter
 * just leaves; the buffers live on until the host gave them back.
 */
#include <linux/slab.h>
#include <linux/virtio.h>

#include "virtio-cuda.h"

static void vcuda_call_free(struct kref *ref)
{
	struct vcuda_call *call = container_of(ref, struct vcuda_call, ref);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(call->chunks); i++)
		free_page((unsigned long)call->chunks[i]);
	vcuda_device_put(call->device);
	kfree(call);
}

void vcuda_call_put(struct vcuda_call *call)
{
	if (call)
		kref_put(&call->ref, vcuda_call_free);
}

static void vcuda_call_work(struct work_struct *work)
{
	struct vcuda_call *call = container_of(work, struct vcuda_call, work);

	call->finish(call);
	vcuda_call_put(call);
}

struct vcuda_call *vcuda_call_new(struct vcuda_device *device, u32 type, u64 generation)
{
	struct vcuda_call *call = kzalloc(sizeof(*call), GFP_KERNEL_ACCOUNT);

	if (!call)
		return NULL;
	kref_init(&call->ref);
	INIT_LIST_HEAD(&call->entry);
	init_completion(&call->done);
	INIT_WORK(&call->work, vcuda_call_work);
	call->device = vcuda_device_get(device);
	call->generation = generation;
	call->request.type = type;
	return call;
}

/* -ENOSPC: the message is full. */
int vcuda_call_add_extent(struct vcuda_call *call, phys_addr_t gpa, u64 length)
{
	u32 index = call->request.extents;
	u32 chunk = index / VCUDA_EXTENTS_PER_CHUNK;
	struct vcuda_extent *extent;

	if (index == VCUDA_MAX_EXTENTS)
		return -ENOSPC;
	if (!call->chunks[chunk]) {
		call->chunks[chunk] = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);
		if (!call->chunks[chunk])
			return -ENOMEM;
	}
	extent = &call->chunks[chunk][index % VCUDA_EXTENTS_PER_CHUNK];
	extent->gpa = gpa;
	extent->length = length;
	call->request.extents++;
	return 0;
}

/* Device lock held. The queue's reference passes to the work, or ends here. */
static void vcuda_call_finish(struct vcuda_call *call, int status, bool reset)
{
	list_del_init(&call->entry);
	call->status = status > 0 || status < -MAX_ERRNO ? -EIO : status;
	call->reset = reset;
	if (call->finish) {
		queue_work(vcuda_workqueue, &call->work);
		return;
	}
	complete(&call->done);
	vcuda_call_put(call);
}

static int vcuda_call_enqueue(struct vcuda_device *device, struct vcuda_call *call)
{
	struct scatterlist *lists[] = { call->out, call->in };
	u32 left = call->request.extents;
	unsigned int chunks = DIV_ROUND_UP(left, VCUDA_EXTENTS_PER_CHUNK), i;

	sg_init_table(call->out, 1 + chunks);
	sg_set_buf(&call->out[0], &call->request, sizeof(call->request));
	for (i = 0; i < chunks; i++) {
		u32 count = min_t(u32, left, VCUDA_EXTENTS_PER_CHUNK);

		sg_set_buf(&call->out[1 + i], call->chunks[i], count * sizeof(struct vcuda_extent));
		left -= count;
	}
	sg_init_one(call->in, &call->reply, sizeof(call->reply));
	return virtqueue_add_sgs(device->queues[VCUDA_QUEUE_CONTROL], lists, 1, 1, call, GFP_ATOMIC);
}

/* Device lock held. True if the host wants a kick. */
static bool vcuda_control_pump(struct vcuda_device *device)
{
	struct vcuda_call *call, *next;
	bool added = false;

	if (!device->live)
		return false;
	list_for_each_entry_safe(call, next, &device->backlog, entry) {
		/* A full queue drains the backlog when it gives a buffer back; a broken one waits for the reset. */
		if (vcuda_call_enqueue(device, call))
			break;
		list_move_tail(&call->entry, &device->in_flight);
		added = true;
	}
	return added && virtqueue_kick_prepare(device->queues[VCUDA_QUEUE_CONTROL]);
}

/* Hands the call to the host. It finishes in any case; one of an older generation at once. */
void vcuda_call_submit(struct vcuda_call *call)
{
	struct vcuda_device *device = call->device;
	unsigned long flags;

	kref_get(&call->ref);
	spin_lock_irqsave(&device->lock, flags);
	if (call->generation != device->generation) {
		vcuda_call_finish(call, -ENODEV, true);
	} else {
		list_add_tail(&call->entry, &device->backlog);
		/* Under the lock: a removal must not delete the queue between adding and notifying. */
		if (vcuda_control_pump(device))
			virtqueue_notify(device->queues[VCUDA_QUEUE_CONTROL]);
	}
	spin_unlock_irqrestore(&device->lock, flags);
}

/* 0 or the host's -errno; -EINTR (killed) and -ETIMEDOUT leave the call with the host. A timeout of 0 means none. */
int vcuda_call_wait(struct vcuda_call *call, unsigned long timeout)
{
	long left = wait_for_completion_killable_timeout(&call->done, timeout ? timeout : MAX_SCHEDULE_TIMEOUT);

	if (left < 0)
		return -EINTR;
	if (!left)
		return -ETIMEDOUT;
	return call->status;
}

/* After it finished: does it mean that the host holds nothing any more of what UNMAP or DESTROY named? */
bool vcuda_call_confirmed(const struct vcuda_call *call)
{
	return call->reset || !call->status || call->status == -ENOENT;
}

/*
 * From finish(), for a call that the host did not confirm: finish() runs again once a reset has confirmed it. False
 * if one did already.
 */
bool vcuda_call_quarantine(struct vcuda_call *call)
{
	struct vcuda_device *device = call->device;
	unsigned long flags;
	bool kept;

	spin_lock_irqsave(&device->lock, flags);
	kept = call->generation == device->generation;
	if (kept) {
		kref_get(&call->ref);
		list_add_tail(&call->entry, &device->quarantine);
	}
	spin_unlock_irqrestore(&device->lock, flags);
	return kept;
}

void vcuda_control_callback(struct virtqueue *queue)
{
	struct vcuda_device *device = queue->vdev->priv;
	struct vcuda_call *call;
	unsigned long flags;
	unsigned int length;

	spin_lock_irqsave(&device->lock, flags);
	if (device->live) {
		do {
			virtqueue_disable_cb(queue);
			while ((call = virtqueue_get_buf(queue, &length)))
				vcuda_call_finish(call, length < sizeof(call->reply) ? -EPROTO : call->reply.status, false);
		} while (!virtqueue_enable_cb(queue));
		if (vcuda_control_pump(device))
			virtqueue_notify(queue);
	}
	spin_unlock_irqrestore(&device->lock, flags);
}

/* After a completed reset: the host has forgotten everything. Ends the generation and every call of it. */
void vcuda_control_reset(struct vcuda_device *device)
{
	struct vcuda_call *call, *next;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	device->generation++;
	list_for_each_entry_safe(call, next, &device->in_flight, entry)
		vcuda_call_finish(call, -ENODEV, true);
	list_for_each_entry_safe(call, next, &device->backlog, entry)
		vcuda_call_finish(call, -ENODEV, true);
	list_for_each_entry_safe(call, next, &device->quarantine, entry)
		vcuda_call_finish(call, -ENODEV, true);
	spin_unlock_irqrestore(&device->lock, flags);
}

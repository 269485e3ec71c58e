// SPDX-License-Identifier: GPL-2.0-only
/* Events from the host, and doorbells to it. */
#include <linux/bitmap.h>
#include <linux/virtio.h>

#include "virtio-cuda.h"

static int vcuda_event_post(struct vcuda_device *device, struct vcuda_event *event)
{
	struct scatterlist sg;

	sg_init_one(&sg, event, sizeof(*event));
	return virtqueue_add_inbuf(device->queues[VCUDA_QUEUE_EVENT], &sg, 1, event, GFP_ATOMIC);
}

int vcuda_event_start(struct vcuda_device *device)
{
	unsigned long flags;
	unsigned int i;
	int status = 0;

	spin_lock_irqsave(&device->lock, flags);
	bitmap_zero(device->bells_used, VCUDA_QUEUE_SIZE);
	virtqueue_disable_cb(device->queues[VCUDA_QUEUE_DOORBELL]);
	for (i = 0; i < VCUDA_EVENT_BUFFERS && !status; i++)
		status = vcuda_event_post(device, &device->events[i]);
	virtqueue_kick(device->queues[VCUDA_QUEUE_EVENT]);
	spin_unlock_irqrestore(&device->lock, flags);
	return status;
}

void vcuda_event_callback(struct virtqueue *queue)
{
	struct vcuda_device *device = queue->vdev->priv;
	struct vcuda_event *buffer, event;
	unsigned long flags;
	unsigned int length;

	spin_lock_irqsave(&device->lock, flags);
	if (device->live) {
		do {
			virtqueue_disable_cb(queue);
			while ((buffer = virtqueue_get_buf(queue, &length))) {
				/* The host may write the buffer again as soon as it is posted. */
				event = *buffer;
				if (length >= sizeof(event))
					vcuda_context_event(device, &event);
				vcuda_event_post(device, buffer);
			}
		} while (!virtqueue_enable_cb(queue));
		virtqueue_kick(queue);
	}
	spin_unlock_irqrestore(&device->lock, flags);
}

/* Device lock held. */
static void vcuda_bell_reclaim(struct vcuda_device *device)
{
	unsigned int length;
	u64 *bell;

	while ((bell = virtqueue_get_buf(device->queues[VCUDA_QUEUE_DOORBELL], &length)))
		clear_bit(bell - device->bells, device->bells_used);
}

/* The callback is enabled only while a doorbell waits for space. */
void vcuda_bell_callback(struct virtqueue *queue)
{
	struct vcuda_device *device = queue->vdev->priv;
	unsigned long flags;

	spin_lock_irqsave(&device->lock, flags);
	if (device->live)
		virtqueue_disable_cb(queue);
	spin_unlock_irqrestore(&device->lock, flags);
	wake_up_all(&device->bell_space);
}

/* 0 or -ENODEV; -ENOSPC: the queue is full, and its callback will tell. */
static int vcuda_bell_try(struct vcuda_device *device, u64 context)
{
	struct virtqueue *queue;
	struct scatterlist sg;
	unsigned long flags;
	unsigned int slot;
	int status = -ENODEV;

	spin_lock_irqsave(&device->lock, flags);
	if (!device->live)
		goto unlock;
	queue = device->queues[VCUDA_QUEUE_DOORBELL];
	vcuda_bell_reclaim(device);
	slot = find_first_zero_bit(device->bells_used, VCUDA_QUEUE_SIZE);
	status = -ENOSPC;
	if (slot < VCUDA_QUEUE_SIZE) {
		device->bells[slot] = context;
		sg_init_one(&sg, &device->bells[slot], sizeof(device->bells[slot]));
		status = virtqueue_add_outbuf(queue, &sg, 1, &device->bells[slot], GFP_ATOMIC);
	}
	if (!status) {
		set_bit(slot, device->bells_used);
		if (virtqueue_kick_prepare(queue))
			virtqueue_notify(queue);
	} else if (status == -ENOSPC) {
		/* False: buffers came back meanwhile, so let the caller look again at once. */
		if (!virtqueue_enable_cb(queue))
			status = -EAGAIN;
	} else {
		status = -ENODEV;
	}
unlock:
	spin_unlock_irqrestore(&device->lock, flags);
	return status;
}

int vcuda_bell_ring(struct vcuda_device *device, u64 context)
{
	int status, interrupted;

	interrupted = wait_event_killable(device->bell_space, ({
		do
			status = vcuda_bell_try(device, context);
		while (status == -EAGAIN);
		status != -ENOSPC;
	}));
	return interrupted ? -EINTR : status;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/virtio_ring.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "virtqueue.h"

/* Bytes of each part; the event index behind the last two is not offered. */
static uint64_t descriptors_bytes(uint32_t size)
{
	return (uint64_t)size * sizeof(struct vring_desc);
}

static uint64_t available_bytes(uint32_t size)
{
	return sizeof(struct vring_avail) + (uint64_t)size * sizeof(uint16_t);
}

static uint64_t used_bytes(uint32_t size)
{
	return sizeof(struct vring_used) + (uint64_t)size * sizeof(struct vring_used_elem);
}

void daemon_queue_init(struct daemon_queue *queue, struct daemon_memory *memory, unsigned int index)
{
	*queue = (struct daemon_queue){.memory = memory, .index = index, .call = -1, .error = -1};
}

void daemon_queue_clear(struct daemon_queue *queue)
{
	if (queue->call >= 0)
		close(queue->call);
	if (queue->error >= 0)
		close(queue->error);
	daemon_queue_init(queue, queue->memory, queue->index);
}

int daemon_queue_set_size(struct daemon_queue *queue, uint32_t size)
{
	if (!size || size > DAEMON_QUEUE_SIZE_MAX || size & (size - 1))
		return -EINVAL;
	queue->size = size;
	queue->descriptors = queue->available = queue->used = NULL;
	return 0;
}

int daemon_queue_set_address(struct daemon_queue *queue, uint64_t descriptors, uint64_t available, uint64_t used)
{
	uint16_t index;

	queue->descriptors = queue->available = queue->used = NULL;
	if (!queue->size || descriptors % 16 || available % 2 || used % 4)
		return -EINVAL;
	queue->user_descriptors = descriptors;
	queue->user_available = available;
	queue->user_used = used;
	queue->descriptors = daemon_memory_from_user(queue->memory, descriptors, descriptors_bytes(queue->size));
	queue->available = daemon_memory_from_user(queue->memory, available, available_bytes(queue->size));
	queue->used = daemon_memory_from_user(queue->memory, used, used_bytes(queue->size));
	/* The VMM's alignment need not be ours: regions may start anywhere. */
	if (!queue->descriptors || !queue->available || !queue->used || (uintptr_t)queue->available % 2 ||
	    (uintptr_t)queue->used % 4) {
		queue->descriptors = queue->available = queue->used = NULL;
		return -EFAULT;
	}
	memcpy(&index, queue->used + offsetof(struct vring_used, idx), sizeof(index));
	queue->used_index = index;
	return 0;
}

void daemon_queue_remap(struct daemon_queue *queue)
{
	uint16_t used_index = queue->used_index;

	if (!queue->descriptors)
		return;
	if (daemon_queue_set_address(queue, queue->user_descriptors, queue->user_available, queue->user_used))
		vcuda_log("queue %u stops: its memory was taken away", queue->index);
	queue->used_index = used_index;
}

bool daemon_queue_ready(const struct daemon_queue *queue)
{
	return queue->enabled && !queue->broken && queue->descriptors;
}

void daemon_queue_break(struct daemon_queue *queue, const char *why)
{
	uint64_t one = 1;

	if (queue->broken)
		return;
	queue->broken = true;
	vcuda_log_peer("the guest's queue %u is broken (%s): the device stops until the driver is loaded again",
		       queue->index, why);
	if (queue->error >= 0 && write(queue->error, &one, sizeof(one)) < 0)
		vcuda_log_debug("queue %u: cannot tell the VMM: %m", queue->index);
}

static uint16_t load_index(const uint8_t *at)
{
	return __atomic_load_n((const uint16_t *)at, __ATOMIC_ACQUIRE);
}

static struct vring_desc copy_descriptor(const struct daemon_queue *queue, unsigned int index)
{
	struct vring_desc descriptor;

	memcpy(&descriptor, queue->descriptors + index * sizeof(descriptor), sizeof(descriptor));
	/* The copy is checked and used: the compiler must not read the guest's memory again. */
	__asm__ volatile("" : "+m"(descriptor) : : "memory");
	return descriptor;
}

/* Returns why the chain is no good, NULL if it is. */
static const char *walk(const struct daemon_queue *queue, struct daemon_chain *chain)
{
	unsigned int index = chain->head;

	for (;;) {
		struct vring_desc descriptor;
		unsigned int count = chain->readable + chain->writable;

		if (index >= queue->size)
			return "a descriptor's number is out of range";
		if (count == DAEMON_CHAIN_MAX || count == queue->size)
			return "a chain is too long or a loop";
		descriptor = copy_descriptor(queue, index);
		if (descriptor.flags & VRING_DESC_F_INDIRECT)
			return "an indirect descriptor, which was not offered";
		chain->segments[count] = (struct daemon_segment){descriptor.addr, descriptor.len};
		if (descriptor.flags & VRING_DESC_F_WRITE) {
			chain->writable++;
			chain->writable_bytes += descriptor.len;
		} else if (chain->writable) {
			return "a readable descriptor follows a writable one";
		} else {
			chain->readable++;
			chain->readable_bytes += descriptor.len;
		}
		if (!(descriptor.flags & VRING_DESC_F_NEXT))
			return NULL;
		index = descriptor.next;
	}
}

int daemon_queue_next(struct daemon_queue *queue, struct daemon_chain *chain)
{
	uint16_t available, slot;
	const char *why;

	if (!daemon_queue_ready(queue))
		return 0;
	/* Acquire: the ring entry and its descriptors were written before the index. */
	available = load_index(queue->available + offsetof(struct vring_avail, idx));
	if (available == queue->last_available)
		return 0;
	if ((uint16_t)(available - queue->last_available) > queue->size) {
		daemon_queue_break(queue, "more chains are available than it has room for");
		return -EPROTO;
	}
	slot = queue->last_available & (uint16_t)(queue->size - 1);
	chain->head = load_index(queue->available + sizeof(struct vring_avail) + slot * sizeof(uint16_t));
	chain->readable = chain->writable = 0;
	chain->readable_bytes = chain->writable_bytes = 0;
	why = walk(queue, chain);
	if (why) {
		daemon_queue_break(queue, why);
		return -EPROTO;
	}
	queue->last_available++;
	return 1;
}

void daemon_queue_push(struct daemon_queue *queue, uint16_t head, uint32_t written)
{
	struct vring_used_elem element = {.id = head, .len = written};
	uint16_t slot;

	/* A queue that is being disabled still takes the answers that it is owed. */
	if (queue->broken || !queue->used)
		return;
	slot = queue->used_index & (uint16_t)(queue->size - 1);
	memcpy(queue->used + sizeof(struct vring_used) + slot * sizeof(element), &element, sizeof(element));
	queue->used_index++;
	/* Release: the element and the buffers are there before the guest sees the index. */
	__atomic_store_n((uint16_t *)(queue->used + offsetof(struct vring_used, idx)), queue->used_index,
			 __ATOMIC_RELEASE);
}

void daemon_queue_signal(struct daemon_queue *queue)
{
	uint64_t one = 1;

	if (queue->broken || !queue->used || queue->call < 0)
		return;
	/* The guest enables interrupts and then looks at the index; we store the index and then look at its flag. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (load_index(queue->available + offsetof(struct vring_avail, flags)) & VRING_AVAIL_F_NO_INTERRUPT)
		return;
	if (write(queue->call, &one, sizeof(one)) < 0 && errno != EAGAIN)
		vcuda_log_debug("queue %u: cannot interrupt the guest: %m", queue->index);
}

bool daemon_chain_read(struct daemon_memory *memory, const struct daemon_chain *chain, void *to, size_t bytes)
{
	unsigned int i;

	for (i = 0; i < chain->readable && bytes; i++) {
		size_t part = chain->segments[i].length < bytes ? chain->segments[i].length : bytes;

		if (!daemon_memory_read(memory, to, chain->segments[i].gpa, part))
			return false;
		to = (char *)to + part;
		bytes -= part;
	}
	return !bytes;
}

bool daemon_segments_write(struct daemon_memory *memory, const struct daemon_segment *segments, unsigned int count,
			   const void *from, size_t bytes)
{
	unsigned int i;

	for (i = 0; i < count && bytes; i++) {
		size_t part = segments[i].length < bytes ? segments[i].length : bytes;

		if (!daemon_memory_write(memory, segments[i].gpa, from, part))
			return false;
		from = (const char *)from + part;
		bytes -= part;
	}
	return !bytes;
}

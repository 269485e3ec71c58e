/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One split virtqueue. The rings are in guest memory and untrusted: every index and descriptor is copied before it is
 * checked, and every chain is bounded. A malformed queue is broken until the VMM sets it up again.
 */
#ifndef VCUDA_VIRTQUEUE_H
#define VCUDA_VIRTQUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"

#define DAEMON_QUEUE_SIZE_MAX 1024
#define DAEMON_CHAIN_MAX 64

struct daemon_segment {
	uint64_t gpa;
	uint32_t length;
};

/* A request of the guest: its readable segments, then its writable ones. */
struct daemon_chain {
	uint16_t head;
	unsigned int readable, writable;
	uint64_t readable_bytes, writable_bytes;
	struct daemon_segment segments[DAEMON_CHAIN_MAX];
};

struct daemon_queue {
	struct daemon_memory *memory;
	unsigned int index;
	uint32_t size;
	uint64_t user_descriptors, user_available, user_used; /* the VMM's addresses */
	const uint8_t *descriptors;
	const uint8_t *available;
	uint8_t *used; /* these three: NULL while not set up */
	uint16_t last_available, used_index;
	bool enabled;
	bool broken;
	int call, error; /* eventfds or -1 */
};

void daemon_queue_init(struct daemon_queue *queue, struct daemon_memory *memory, unsigned int index);

/* Closes its descriptors and forgets everything. */
void daemon_queue_clear(struct daemon_queue *queue);

/* -EINVAL: not a power of two, or too large. */
int daemon_queue_set_size(struct daemon_queue *queue, uint32_t size);

/* -EFAULT: not in guest memory; -EINVAL: misaligned. */
int daemon_queue_set_address(struct daemon_queue *queue, uint64_t descriptors, uint64_t available, uint64_t used);

/* Looks the addresses up again after the memory changed. */
void daemon_queue_remap(struct daemon_queue *queue);

bool daemon_queue_ready(const struct daemon_queue *queue);

/* The next chain of the guest: 1 and *chain, 0 if there is none, -EPROTO if the queue is broken (now). */
int daemon_queue_next(struct daemon_queue *queue, struct daemon_chain *chain);

/* Gives a chain back, `written` bytes of it filled. The caller signals once it gave back all it has. */
void daemon_queue_push(struct daemon_queue *queue, uint16_t head, uint32_t written);

/* Interrupts the guest, unless it asked not to be. */
void daemon_queue_signal(struct daemon_queue *queue);

/* Logs why, tells the VMM. Nothing is taken or given any more. */
void daemon_queue_break(struct daemon_queue *queue, const char *why);

/* Copies the first `bytes` readable bytes out of the chain. False: not there, or not RAM. */
bool daemon_chain_read(struct daemon_memory *memory, const struct daemon_chain *chain, void *to, size_t bytes);

/* Copies into a list of segments. False: no room, or not RAM. */
bool daemon_segments_write(struct daemon_memory *memory, const struct daemon_segment *segments, unsigned int count,
			   const void *from, size_t bytes);

#endif

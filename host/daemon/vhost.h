/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vhost-user back end: the VMM connects, sets the device up, and everything else passes through guest memory.
 *
 * QEMU waits for many replies with its vCPU stopped, so each is given at once; only a pause or reset waits, for the
 * workers' end. The connection must outlive anything that the guest does: QEMU does not survive its loss.
 */
#ifndef VCUDA_VHOST_H
#define VCUDA_VHOST_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "listener.h"

#define DAEMON_VHOST_FDS 8
#define DAEMON_VHOST_PAYLOAD 1024

struct daemon_vhost_header {
	uint32_t request, flags, size;
};

/* Laid out as on the wire: the payload follows the header without a gap. */
struct daemon_vhost_message {
	struct daemon_vhost_header header;
	union {
		uint64_t number;
		struct {
			uint32_t index, number;
		} state;
		uint8_t bytes[DAEMON_VHOST_PAYLOAD];
	};
} __attribute__((packed, aligned(4)));

struct daemon_vhost;

struct daemon_kick {
	struct daemon_source source;
	struct daemon_vhost *vhost;
	unsigned int index;
	int fd;
};

struct daemon_vhost {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct daemon_listener listener;
	struct daemon_device device;
	struct daemon_source source;
	int fd;                              /* of the connection, -1: none */
	struct daemon_vhost_message message; /* being received, or waiting for the device to stop */
	size_t received;
	int fds[DAEMON_VHOST_FDS]; /* descriptors of the message; a handler that takes one puts -1 */
	unsigned int fd_count;
	uint8_t out[2 * sizeof(struct daemon_vhost_message)]; /* a reply that the socket had no room for */
	size_t out_bytes;
	struct daemon_kick kicks[VCUDA_QUEUES];
	uint64_t features, protocol_features;
	uint32_t queues_named; /* by the VMM, one bit for each */
	uint8_t status;
	bool ended; /* --once, and the VM is gone */
};

/* 0 or -errno, having said why. */
int daemon_vhost_open(struct daemon_vhost *vhost, struct daemon_loop *loop, const struct daemon_options *options,
		      struct daemon_warm_pool *pool);

/* Drops the VM and takes no other; device.count falls to 0 as workers are reaped. */
void daemon_vhost_close(struct daemon_vhost *vhost);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often a VM starts guest processes: as often as a user of the local socket connects (limits/connection-rate.h). A
 * CREATE beyond that waits for its turn, and fails for no other reason than before. Other requests overtake it.
 */
#ifndef VCUDA_CREATE_QUEUE_H
#define VCUDA_CREATE_QUEUE_H

#include "common/list.h"
#include "limits/connection-rate.h"
#include "loop/loop.h"
#include "parse.h"

struct daemon_device;
struct daemon_owed;

struct daemon_create_queue {
	struct daemon_device *device;
	struct vcuda_list waiting; /* each holds a chain of the control queue, which limits their number */
	struct daemon_timer timer; /* until the turn of the first one */
	struct daemon_connection_rate rate;
};

void daemon_create_queue_init(struct daemon_create_queue *queue, struct daemon_device *device);

/* Handles a CREATE, now or later. Returns what to answer now, or DAEMON_LATER. */
int daemon_create_queue_add(struct daemon_create_queue *queue, const struct daemon_parsed *p,
			    const struct daemon_owed *owed);

/* Answers -ENODEV to all that wait: their device stops, or has a new driver. */
void daemon_create_queue_refuse(struct daemon_create_queue *queue);

/* The VM is gone: drops all waiting requests. */
void daemon_create_queue_forget(struct daemon_create_queue *queue);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of one VM: its memory, its three queues and its contexts. Below vhost-user, which sets it up, and above
 * workers.
 *
 * The rule that all files keep: the guest is told that pages are free (UNMAP, DESTROY, a failed MAP or CREATE, HELLO)
 * only after the worker confirmed it or was reaped.
 */
#ifndef VCUDA_DEVICE_H
#define VCUDA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/control.h"
#include "mapping-quota.h"
#include "loop/loop.h"
#include "memory.h"
#include "options.h"
#include "parse.h"
#include "warm-pool.h"
#include "virtqueue.h"
#include "worker.h"

#define VCUDA_REPLY_SEGMENTS 4

/* A chain of the control queue that the guest waits for. */
struct vcuda_owed {
	uint64_t generation; /* of the device's: a chain taken before a reset is never given back */
	uint16_t head;
	unsigned int count;
	struct vcuda_segment reply[VCUDA_REPLY_SEGMENTS];
};

/* A request that is answered later. */
struct vcuda_pending {
	struct vcuda_list entry;
	struct vcuda_owed owed;
	uint32_t type;   /* VCUDA_CTL_* */
	int verdict;     /* MAP that failed here, HELLO: what to answer, once it may be answered */
	uint64_t serial; /* MAP, UNMAP: of the window */
};

struct vcuda_context {
	struct vcuda_list entry;       /* device->contexts */
	struct vcuda_list event_entry; /* device->events while `events` is not 0 */
	struct vcuda_device *device;
	struct vcuda_worker *worker; /* NULL once it is reaped */
	uint64_t id;                 /* 0: of a VM that is gone */
	uint32_t uid, pid;
	unsigned int events; /* bits: 1 << VCUDA_EVENT_* that the guest has not been told */
	int why;             /* status of LOST */
	bool ready;          /* the worker answered ATTACH */
	bool forgotten;      /* goes once the worker is reaped, and nobody hears of it */
	int create_status;
	uint32_t major, minor;     /* the worker's, with a refused CREATE */
	struct vcuda_list sent;    /* requests at the worker, in the order of its replies */
	struct vcuda_list waiting; /* requests that are answered when it is reaped */
	struct vcuda_ledger ledger;
	struct {
		uint64_t device, inode;
	} files[VCUDA_MEMORY_REGIONS]; /* what the worker knows as region 0, 1, ... */
	unsigned int file_count;
};

struct vcuda_device {
	struct vcuda_loop *loop;
	const struct vcuda_options *options;
	struct vcuda_stock *stock;
	struct vcuda_memory memory;
	struct vcuda_queue queues[VCUDA_QUEUES];
	unsigned int more; /* bits: queues with chains left for the next turn */
	struct vcuda_list contexts;
	unsigned int count;       /* of contexts */
	struct vcuda_list hellos; /* answered when no forgotten context is left */
	struct vcuda_list events;
	struct vcuda_quota quota;
	uint64_t generation;
	bool greeted;                 /* a driver of our major version said HELLO */
	void (*stopped)(void *owner); /* set while stopping */
	void *stopped_owner;
	struct vcuda_timer stop_timer;
	struct vcuda_parsed parsed; /* of the request being handled */
	uint8_t message[VCUDA_REQUEST_MAX];
};

void vcuda_device_init(struct vcuda_device *device, struct vcuda_loop *loop, const struct vcuda_options *options,
		       struct vcuda_stock *stock);
void vcuda_device_config(const struct vcuda_device *device, struct vcuda_config *config);

/* Takes what the guest put into a queue. Harmless at any time. */
void vcuda_device_kick(struct vcuda_device *device, unsigned int index);

/* Continues with queues that had more than fits one turn. */
void vcuda_device_continue(struct vcuda_device *device);

/*
 * Kills every worker and calls `stopped` (perhaps at once) when they are reaped, or after VCUDA_STOP_MS with a log
 * line. No chain is taken meanwhile. Contexts stay known, and the guest hears later that they are lost.
 */
#define VCUDA_STOP_MS 5000
void vcuda_device_stop(struct vcuda_device *device, void (*stopped)(void *owner), void *owner);

/* The VM is gone: so is everything of it, but for workers that are not yet reaped. */
void vcuda_device_forget(struct vcuda_device *device);

/* For contexts: answers a request of the control queue. */
void vcuda_device_reply(struct vcuda_device *device, const struct vcuda_owed *owed,
			const struct vcuda_ctl_reply *reply);

/* For contexts: one is gone, or lost its worker. */
void vcuda_device_settle(struct vcuda_device *device);

/* For contexts: delivers what events there is room for. */
void vcuda_device_deliver(struct vcuda_device *device);

/* context.c: each returns what to answer now (0 or -errno), or VCUDA_LATER. */
#define VCUDA_LATER 1
int vcuda_context_create(struct vcuda_device *device, const struct vcuda_parsed *p, const struct vcuda_owed *owed);
int vcuda_context_destroy(struct vcuda_device *device, const struct vcuda_parsed *p, const struct vcuda_owed *owed);
int vcuda_context_map(struct vcuda_device *device, const struct vcuda_parsed *p, const struct vcuda_owed *owed);
int vcuda_context_unmap(struct vcuda_device *device, const struct vcuda_parsed *p, const struct vcuda_owed *owed);

/* A part of a window was malformed: what the worker has of that window must go before `status` is answered. */
int vcuda_context_map_failed(struct vcuda_device *device, const struct vcuda_ctl_request *r,
			     const struct vcuda_owed *owed, int status);

struct vcuda_context *vcuda_context_find(struct vcuda_device *device, uint64_t id);

/* Kills its worker, if there is one; `why` is what LOST will say. */
void vcuda_context_kill(struct vcuda_context *context, int why);

/* Kills it, and it goes as soon as its worker is reaped (perhaps now: the pointer is void). */
void vcuda_context_forget(struct vcuda_context *context);

void vcuda_context_event(struct vcuda_context *context, unsigned int type);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device of one VM: its memory, its three queues and its contexts. vhost-user sets the device up, and the device
 * uses workers.
 *
 * The rule that all files keep: the guest is told that pages are free (UNMAP, DESTROY, a failed MAP or CREATE, HELLO)
 * only after the worker confirmed it or was reaped.
 */
#ifndef VCUDA_DEVICE_H
#define VCUDA_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/control.h"
#include "create-queue.h"
#include "limits/mapping-quota.h"
#include "loop/loop.h"
#include "memory.h"
#include "options/options.h"
#include "parse.h"
#include "worker/warm-pool.h"
#include "virtqueue.h"
#include "worker/worker.h"

#define DAEMON_REPLY_SEGMENTS 4

/* A chain of the control queue that the guest waits for. */
struct daemon_owed {
	uint64_t generation; /* of the device's: a chain taken before a reset is never given back */
	uint16_t head;
	unsigned int count;
	struct daemon_segment reply[DAEMON_REPLY_SEGMENTS];
};

/* A request that is answered later. */
struct daemon_pending {
	struct vcuda_list entry;
	struct daemon_owed owed;
	uint32_t type;   /* VCUDA_CTL_*, or of context.c */
	int verdict;     /* MAP that failed here, HELLO: what to answer, once it may be answered */
	uint64_t serial; /* MAP, UNMAP: of the mapping */
};

struct daemon_context {
	struct vcuda_list entry;       /* device->contexts */
	struct vcuda_list event_entry; /* device->events while `events` is not 0 */
	struct daemon_device *device;
	struct daemon_worker *worker; /* NULL once it is reaped */
	uint64_t id;                  /* 0: of a VM that is gone */
	uint32_t uid, pid;
	uint64_t shared;     /* guest-physical address of the control page of its shared area */
	unsigned int events; /* bits: 1 << VCUDA_EVENT_* that the guest has not been told */
	int why;             /* status of LOST */
	bool ready;          /* the worker answered ATTACH */
	bool forgotten;      /* removed without a message once the worker is reaped */
	int create_status;
	uint32_t major, minor;     /* the worker's, with a refused CREATE */
	struct vcuda_list sent;    /* requests at the worker, in the order of its replies */
	struct vcuda_list waiting; /* requests that are answered when it is reaped */
	struct daemon_mapping_quota mappings;
	struct daemon_grants shared_area;      /* the shared area; at addresses of the worker's choice */
	struct vcuda_channel_message attached; /* the first message to the worker */
	bool replaced;                         /* the first worker did not fit */
	struct {
		uint64_t device, inode;
	} files[DAEMON_MEMORY_REGIONS]; /* files that the worker has as region 0, 1, ... */
	unsigned int file_count;
};

struct daemon_device {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct daemon_warm_pool *warm_pool;
	struct daemon_memory memory;
	struct daemon_queue queues[VCUDA_QUEUES];
	unsigned int more; /* bits: queues with chains left for the next turn */
	struct daemon_create_queue creates;
	struct vcuda_list contexts;
	unsigned int count;       /* of contexts */
	struct vcuda_list hellos; /* answered when no forgotten context is left */
	struct vcuda_list events;
	struct daemon_device_quota quota;
	uint64_t generation;
	bool greeted;                 /* a driver of our major version said HELLO */
	void (*stopped)(void *owner); /* set while stopping */
	void *stopped_owner;
	struct daemon_parsed parsed; /* of the request being handled */
	uint8_t message[DAEMON_REQUEST_MAX];
};

void daemon_device_init(struct daemon_device *device, struct daemon_loop *loop, const struct daemon_options *options,
			struct daemon_warm_pool *pool);
void daemon_device_config(const struct daemon_device *device, struct vcuda_config *config);

/* Takes the chains that the guest has put into a queue. May be called at any time. */
void daemon_device_kick(struct daemon_device *device, unsigned int index);

/* Continues with queues that had more than fits one turn. */
void daemon_device_continue(struct daemon_device *device);

/*
 * Kills every worker and calls `stopped` (perhaps at once) when they are reaped. No chain is taken meanwhile. Contexts
 * stay known, and the guest hears later that they are lost.
 */
void daemon_device_stop(struct daemon_device *device, void (*stopped)(void *owner), void *owner);

/* The VM is gone: drops all its state, but for workers that are not yet reaped. */
void daemon_device_forget(struct daemon_device *device);

/* For contexts: answers a request of the control queue. */
void daemon_device_reply(struct daemon_device *device, const struct daemon_owed *owed,
			 const struct vcuda_ctl_reply *reply);

/* For the code of contexts: a context has ended, or has lost its worker. */
void daemon_device_update(struct daemon_device *device);

/* For contexts: delivers as many events as there is room for. */
void daemon_device_deliver(struct daemon_device *device);

/* context.c: each returns what to answer now (0 or -errno), or DAEMON_LATER. */
#define DAEMON_LATER 1
int daemon_context_create(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed);
int daemon_context_destroy(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed);
int daemon_context_map(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed);
int daemon_context_unmap(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed);
int daemon_context_act(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed);

/* export.c: HOLD and DROP, the same way. */
int daemon_export_hold(struct daemon_device *device, const struct daemon_parsed *p, const struct daemon_owed *owed);

/* A part of a mapping was malformed: the worker must unmap its other parts before `status` is answered. */
int daemon_context_map_failed(struct daemon_device *device, const struct vcuda_ctl_request *r,
			      const struct daemon_owed *owed, int status);

struct daemon_context *daemon_context_find(struct daemon_device *device, uint64_t id);

/* Kills the context's worker, if there is one; `why` is the status of LOST. */
void daemon_context_kill(struct daemon_context *context, int why);

/* Kills the worker and frees the context as soon as the worker is reaped (perhaps now: the pointer is invalid). */
void daemon_context_forget(struct daemon_context *context);

void daemon_context_event(struct daemon_context *context, unsigned int type);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The driver's own objects. It knows memory, contexts and doorbells, never CUDA.
 *
 * device    one virtio device. Outlives its removal for as long as files are open.
 * call      one request on the control queue. Submission never blocks; finishes once, by the host's reply or a reset.
 * context   one open file of /dev/vcuda, bound to the mm that opened it.
 * range     one pinned part of that mm, mirrored by the context's worker, or noted there to be copied directly.
 *
 * The rule that all files keep: pages that the host was told of are released only after it confirmed that nothing of
 * it can touch them any more (reply to UNMAP or DESTROY), or after a device reset completed. Without an answer they
 * stay.
 *
 * A reset ends a generation: calls and contexts of an older generation than the device's have nothing left on the
 * host.
 */
#ifndef VIRTIO_CUDA_H
#define VIRTIO_CUDA_H

#include <linux/bitmap.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rbtree.h>
#include <linux/scatterlist.h>
#include <linux/spinlock.h>
#include <linux/uidgid.h>
#include <linux/virtio.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "compat.h"
#include "control.h"
#include "uapi.h"

#define VCUDA_EVENT_BUFFERS 64
#define VCUDA_EXTENTS_PER_CHUNK (PAGE_SIZE / sizeof(struct vcuda_extent))
#define VCUDA_CHUNKS DIV_ROUND_UP(VCUDA_MAX_EXTENTS, VCUDA_EXTENTS_PER_CHUNK)
#define VCUDA_MAX_SHARE (4u << 20)

struct vcuda_limits {
	u32 max_contexts;
	u32 page_shift;
	u64 max_mapping_bytes;
	bool direct;			/* pages may be copied from and to in place */
};

struct vcuda_device {
	struct kref ref;
	struct virtio_device *vdev;	/* may be gone once the device is not live: files look at `bus` */
	vcuda_bus bus;
	struct miscdevice misc;
	struct notifier_block reboot;
	struct vcuda_limits limits;
	bool had_balloon;		/* never cleared */

	/* Guards the queues, `live`, `generation` and the lists of calls; taken in interrupts. */
	spinlock_t lock;
	struct virtqueue *queues[VCUDA_QUEUES];
	bool live;			/* the queues may be used */
	u64 generation;
	struct list_head backlog;	/* calls not yet in the queue, in order */
	struct list_head in_flight;	/* calls in the queue */
	struct list_head quarantine;	/* DESTROY calls that the host answered with an error */

	struct xarray contexts;		/* by number; its lock keeps a context alive while an event looks at it */
	u64 next_context;		/* under lock */

	struct vcuda_event *events;
	u64 *bells;			/* VCUDA_QUEUE_SIZE buffers of the doorbell queue */
	DECLARE_BITMAP(bells_used, VCUDA_QUEUE_SIZE);
	wait_queue_head_t bell_space;
};

struct vcuda_call {
	struct list_head entry;
	struct vcuda_device *device;
	struct completion done;
	struct kref ref;
	void (*finish)(struct vcuda_call *call);	/* in process context; NULL if a thread waits */
	void *owner;					/* for finish */
	struct work_struct work;
	u64 generation;
	int status;
	bool reset;					/* finished by a reset, not by the host */

	struct vcuda_ctl_request request;
	struct vcuda_extent *chunks[VCUDA_CHUNKS];
	struct vcuda_ctl_reply reply;
	struct scatterlist out[1 + VCUDA_CHUNKS], in[1];
};

enum vcuda_context_state {
	VCUDA_CONTEXT_NEW,		/* no OPEN yet */
	VCUDA_CONTEXT_OPENING,
	VCUDA_CONTEXT_OPEN,
	VCUDA_CONTEXT_ENDED,		/* DESTROY was sent, or OPEN failed */
};

/* Pages that the driver allocated and shares with the process (mmap) and its worker. */
struct vcuda_share {
	struct page **pages;
	unsigned long count;
	unsigned int block_order;	/* physically contiguous, aligned blocks of this order at least */
};

struct vcuda_context {
	struct kref ref;
	struct vcuda_device *device;
	struct mm_struct *mm;		/* mm_count held: for comparing, and for its counter of pinned pages */
	struct pid *owner;		/* thread group */
	struct vcuda_user *user;
	u64 id;
	u64 generation;
	int lost;			/* -errno once the worker is gone */
	wait_queue_head_t wait;

	struct mutex lock;		/* all below but share; never held while waiting for the host */
	enum vcuda_context_state state;
	bool end_wanted;		/* ended while OPENING */
	bool confirmed;			/* the host has nothing of the context any more */
	unsigned int active;		/* calls that work on the ranges */
	struct rb_root ranges;
	struct vcuda_share share;
	u32 wake_offset;
	struct vcuda_call *destroy;	/* made before CREATE, so that ending never needs memory */
};

/* main.c */
extern struct workqueue_struct *vcuda_workqueue;
struct vcuda_device *vcuda_device_get(struct vcuda_device *device);
void vcuda_device_put(struct vcuda_device *device);
u64 vcuda_device_generation(struct vcuda_device *device);
bool vcuda_device_live(struct vcuda_device *device);
bool vcuda_device_offers_direct(struct vcuda_device *device);

/* control.c */
struct vcuda_call *vcuda_call_new(struct vcuda_device *device, u32 type, u64 generation);
void vcuda_call_put(struct vcuda_call *call);
int vcuda_call_add_extent(struct vcuda_call *call, phys_addr_t gpa, u64 length);
void vcuda_call_submit(struct vcuda_call *call);
int vcuda_call_wait(struct vcuda_call *call, unsigned long timeout);
bool vcuda_call_quarantine(struct vcuda_call *call);
bool vcuda_call_confirmed(const struct vcuda_call *call);
void vcuda_control_callback(struct virtqueue *queue);
void vcuda_control_reset(struct vcuda_device *device);

/* event.c */
int vcuda_event_start(struct vcuda_device *device);
void vcuda_event_callback(struct virtqueue *queue);
void vcuda_bell_callback(struct virtqueue *queue);
int vcuda_bell_ring(struct vcuda_device *device, u64 context);

/* context.c */
struct vcuda_context *vcuda_context_new(struct vcuda_device *device);
void vcuda_context_put(struct vcuda_context *context);
int vcuda_context_open(struct vcuda_context *context, struct vcuda_open *args);
int vcuda_context_usable(struct vcuda_context *context);
int vcuda_context_wait(struct vcuda_context *context, const struct vcuda_wait *args);
int vcuda_context_enter(struct vcuda_context *context);
void vcuda_context_leave(struct vcuda_context *context);
void vcuda_context_end(struct vcuda_context *context);
void vcuda_context_event(struct vcuda_device *device, const struct vcuda_event *event);
void vcuda_context_lose_all(struct vcuda_device *device, int status);

/* share.c */
int vcuda_share_alloc(struct vcuda_share *share, u64 bytes, unsigned int block_order);
int vcuda_share_describe(const struct vcuda_share *share, struct vcuda_call *call);
int vcuda_share_map(const struct vcuda_share *share, struct vm_area_struct *vma);
u32 vcuda_share_read(const struct vcuda_share *share, u32 offset);
void vcuda_share_free(struct vcuda_share *share);

/* pin.c */
int vcuda_pin(struct vcuda_context *context, const struct vcuda_pin *args);
int vcuda_unpin(struct vcuda_context *context, const struct vcuda_unpin *args);
void vcuda_pin_release_all(struct vcuda_context *context);

/* process.c */
int vcuda_process_act(struct vcuda_device *device, struct vcuda_process *args);

/* account.c */
struct vcuda_user *vcuda_user_get(kuid_t uid);
void vcuda_user_put(struct vcuda_user *user);
int vcuda_user_charge(struct vcuda_user *user, unsigned long pages);
void vcuda_user_uncharge(struct vcuda_user *user, unsigned long pages);
/* One file more of the current user's: -EDQUOT where there are too many. */
struct vcuda_user *vcuda_user_get_export(void);
void vcuda_user_put_export(struct vcuda_user *user);

/* export.c */
int vcuda_export(struct vcuda_context *context, struct vcuda_hold __user *user);

/* file.c */
extern const struct file_operations vcuda_file_operations;

#endif

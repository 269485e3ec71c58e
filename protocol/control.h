/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The device as the guest's kernel sees it: config space, virtqueues and their messages.
 *
 * The protocol between virtio-cuda.ko and vcudad, over QEMU's generic vhost-user device. It has memory, doorbells and
 * contexts ("context": one guest process and its worker), but nothing of CUDA. Little-endian; every message is a
 * multiple of 8 bytes. Messages are only added, at the end, and the minor version then grows.
 *
 * Queues:
 *   0 control   guest to host: one readable request (struct vcuda_ctl_request, with its extents behind it), one
 * writable struct vcuda_ctl_reply. A reply may come late and out of order: DESTROY answers when the worker is reaped.
 *   1 event     host to guest: the guest posts writable struct vcuda_event buffers, the host fills one an event.
 *   2 doorbell  guest to host: one readable 8-byte context id, nothing written.
 */
#ifndef VCUDA_CONTROL_H
#define VCUDA_CONTROL_H

#ifdef __KERNEL__
#include <linux/types.h>
typedef __u32 vcuda_u32;
typedef __u64 vcuda_u64;
typedef __s32 vcuda_s32;
#else
#include <stdint.h>
typedef uint32_t vcuda_u32;
typedef uint64_t vcuda_u64;
typedef int32_t vcuda_s32;
#endif

/* The virtio id is one that QEMU accepts and Linux has no driver for; the magic makes sure that it is us. */
#define VCUDA_VIRTIO_ID 38
#define VCUDA_CONFIG_MAGIC 0x4144554356545256ull /* "VRTVCUDA" */
#define VCUDA_CONTROL_MAJOR 1
#define VCUDA_CONTROL_MINOR 3

#define VCUDA_QUEUE_CONTROL 0
#define VCUDA_QUEUE_EVENT 1
#define VCUDA_QUEUE_DOORBELL 2
#define VCUDA_QUEUES 3
#define VCUDA_QUEUE_SIZE 128
#define VCUDA_CONFIG_SIZE 64

/* Config space: 64 bytes, read-only. */
struct vcuda_config {
	vcuda_u64 magic;
	vcuda_u32 major, minor;		/* VCUDA_CONTROL_MAJOR/MINOR of the host */
	vcuda_u32 max_contexts;		/* quota of this VM */
	vcuda_u32 page_shift;		/* 12; 21 where guest RAM is hugetlb-backed: extents must have this alignment */
	vcuda_u64 max_mapping_bytes;	/* limit for one mapping */
	vcuda_u64 max_pinned_bytes;	/* limit for all mappings of this VM */
	vcuda_u32 flags;		/* VCUDA_CONFIG_*; 0 from a host of minor 0. Unknown ones mean nothing */
	vcuda_u32 reserved_half;
	vcuda_u64 reserved[2];
};

/* Since minor 1: MAP takes VCUDA_MAP_DIRECT. Workers have all of the VM's RAM registered with the device. */
#define VCUDA_CONFIG_DIRECT 0x1

enum vcuda_ctl_type {
	VCUDA_CTL_HELLO = 1,	/* major, minor; drops every context of an earlier driver */
	VCUDA_CTL_CREATE,	/* context, uid, pid; abi[]; extents of its shared area, in order. Answers when the worker is ready */
	VCUDA_CTL_DESTROY,	/* context. Answers when nothing of the host can touch its pages any more: implies UNMAP of all */
	VCUDA_CTL_MAP,		/* context, address, length, offset, flags; extents of [address + offset, ...) */
	VCUDA_CTL_UNMAP,	/* context, address, length. Answers when nothing can touch the pages any more */
	/*
	 * Since minor 2: the state of the process that a context belongs to. context; flags: enum vcuda_process_action;
	 * length: the milliseconds that running work may take. Answers at once: the driver asks for the state until the
	 * step has ended. -EBADFD: the process is in another state than the action needs.
	 */
	VCUDA_CTL_STATE,
	/*
	 * Since minor 3: a file of the guest's holds what a worker has exported under the name that `address` and
	 * `length` are, or does so no longer. context: any. -ENOENT: nothing has that name. -EDQUOT: there are too many.
	 */
	VCUDA_CTL_HOLD,
	VCUDA_CTL_DROP,
};

/*
 * MAP of a large mapping comes in parts, in order: `length` is the whole mapping's, `offset` this part's; the part with
 * VCUDA_MAP_LAST makes the mapping usable. A failed part ends the mapping: the host unmaps what it had.
 */
#define VCUDA_MAP_WRITABLE 0x1
#define VCUDA_MAP_LAST 0x2
/*
 * All parts of a mapping have the flag, or none; the host must offer VCUDA_CONFIG_DIRECT. The worker does not mirror
 * the range, and only notes its place; the process may then have it copied from and to. In all else the range is a
 * mapping: it may overlap none, counts as one, and UNMAP ends it.
 */
#define VCUDA_MAP_DIRECT 0x4

#define VCUDA_MAX_EXTENTS 2048

/* A run of guest-physical memory. Page aligned; never crosses a RAM region. */
struct vcuda_extent {
	vcuda_u64 gpa;
	vcuda_u64 length;
};

struct vcuda_ctl_request {
	vcuda_u32 type;		/* enum vcuda_ctl_type */
	vcuda_u32 flags;
	vcuda_u64 context;	/* chosen by the driver, never 0, never reused while the host knows it */
	vcuda_u64 address;	/* guest-virtual */
	vcuda_u64 length;	/* bytes */
	vcuda_u64 offset;
	vcuda_u32 uid, pid;	/* of the process, for limits and messages */
	vcuda_u32 major, minor;	/* HELLO: control version; CREATE: protocol version of the guest library */
	vcuda_u32 extents;	/* number of struct vcuda_extent that follow, <= VCUDA_MAX_EXTENTS */
	vcuda_u32 reserved;
};

struct vcuda_ctl_reply {
	vcuda_s32 status;	/* 0 or -errno (Linux numbers); -EPROTONOSUPPORT: version refused, see major and minor */
	vcuda_u32 state;	/* STATE: enum vcuda_process_state, perhaps with VCUDA_PROCESS_STEP */
	vcuda_u32 major, minor;	/* HELLO: the host's control version; CREATE: the worker's protocol version; STATE: failure */
};

/* The steps of cuCheckpointProcess*() between the states of a process. */
enum vcuda_process_action {
	VCUDA_PROCESS_GET_STATE,
	VCUDA_PROCESS_LOCK,		/* RUNNING -> LOCKED */
	VCUDA_PROCESS_CHECKPOINT,	/* LOCKED -> CHECKPOINTED */
	VCUDA_PROCESS_RESTORE,		/* CHECKPOINTED -> LOCKED */
	VCUDA_PROCESS_UNLOCK,		/* LOCKED -> RUNNING */
	VCUDA_PROCESS_ACTIONS
};

/*
 * The numbers are those of CUprocessState. While VCUDA_PROCESS_STEP is set, a step from the state is under way. A step
 * that has failed leaves the state from which it began, and the reply's `major` is its errno until the next step.
 */
enum vcuda_process_state {
	VCUDA_PROCESS_RUNNING,
	VCUDA_PROCESS_LOCKED,		/* the process's commands wait, and its work has ended */
	VCUDA_PROCESS_CHECKPOINTED,	/* and the process has no device memory */
};

#define VCUDA_PROCESS_STEP 0x100

/* The longest time that running work may take, in milliseconds: the operator and other VMs wait for that step. */
#define VCUDA_PROCESS_MS_MAX 5000

enum vcuda_event_type {
	VCUDA_EVENT_WAKE = 1,	/* wake the sleepers of `context`; they re-read their shared page */
	VCUDA_EVENT_LOST,	/* the worker of `context` is gone; `status` says why (-errno, see VCUDA_LOST_*) */
};

/*
 * Values of `status` of LOST that the driver explains to the guest's administrator. All other values: the worker
 * failed, or was ended with the device. A host may send values that an older driver does not know.
 */
#define VCUDA_LOST_OPERATOR (-125)	/* -ECANCELED: the host's operator ended it */
#define VCUDA_LOST_QUOTA (-122)		/* -EDQUOT: it was over a quota of the host */
#define VCUDA_LOST_TURNS (-62)		/* -ETIME: its kernels ran in other VMs' turns for too long */

struct vcuda_event {
	vcuda_u32 type;		/* enum vcuda_event_type */
	vcuda_s32 status;
	vcuda_u64 context;
};

#endif

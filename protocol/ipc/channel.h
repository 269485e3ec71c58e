/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's control channel: a SOCK_SEQPACKET Unix socket, file descriptor VCUDA_CHANNEL_FD of a new worker.
 *
 * local:  its peer is the guest process itself (hostile); vcudad passed the accepted connection on and keeps no copy.
 * virtio: its peer is vcudad, which has validated what the guest's kernel sent; vcudad treats replies as hostile.
 * A warm worker has vcudad for a peer until it is given a guest process, by ATTACH (virtio) or CLIENT (local).
 * The worker ends when the peer closes it, unless vcudad keeps it (gate.h: VCUDA_GATE_DETACH). Every request gets
 * exactly one reply with the same cookie, in order.
 */
#ifndef VCUDA_CHANNEL_H
#define VCUDA_CHANNEL_H

#include <stdint.h>

#define VCUDA_CHANNEL_FD 3
#define VCUDA_CHANNEL_MAX_FDS 32
#define VCUDA_CHANNEL_MAX_EXTENTS 2048

/* virtio: the exit status of a warm worker that does not fit its guest process. vcudad starts one that is not warm. */
#define VCUDA_CHANNEL_UNFIT 75

enum vcuda_channel_type {
	/*
	 * First message. local: major, minor, flags (VCUDA_ATTACH_*); the worker makes the shared area, the reply
	 * carries fds {shm memfd, doorbell eventfd}. virtio: the extents of the shared area; fds {doorbell eventfd,
	 * notify eventfd, RAM memfds...}, but the memfds of a worker with a mapper go to the mapper (mapper.h). The
	 * doorbell wakes the worker's dispatcher. The worker writes the notify eventfd to wake a guest sleeper.
	 */
	VCUDA_CHANNEL_ATTACH = 1,
	/* local: new shared memory at address (in the arena), length bytes; the reply carries {memfd}. */
	VCUDA_CHANNEL_MAPPING_CREATE,
	/* virtio: a part of a mapping, or of a direct range, as VCUDA_CTL_MAP (flags: VCUDA_MAP_*). */
	VCUDA_CHANNEL_MAPPING_MAP,
	VCUDA_CHANNEL_MAPPING_UNMAP,
	/*
	 * vcudad to a warm worker, before ATTACH: serve the local client whose connection is fds {connection}. Behind
	 * the reply it is the channel, and vcudad's end of the old one may be closed.
	 */
	VCUDA_CHANNEL_CLIENT,
	/* local, since minor 1: the page-aligned part at `offset` of the shared memory in fds {file}, which is on a
	 * tmpfs, as a mapping (flags: VCUDA_MAP_WRITABLE). */
	VCUDA_CHANNEL_MAPPING_ADOPT,
	/*
	 * local: 0 once the worker outlives this channel (gate.h: VCUDA_GATE_DETACH), else EAGAIN. EMFILE: it cannot,
	 * since it has not kept the files of all mappings. EOPNOTSUPP: ATTACH had no VCUDA_ATTACH_MAY_DETACH.
	 */
	VCUDA_CHANNEL_DETACH,
	/* local: the reply carries the fds of ATTACH's anew. pid: the guest process's number from now on. */
	VCUDA_CHANNEL_RESUME,
	/* local: the reply carries {memfd} of the mapping of `length` bytes at `address`. EMFILE: it was not kept. */
	VCUDA_CHANNEL_MAPPING_SHARE,
	/*
	 * local: the reply carries {descriptor} that holds what has been exported under the key of 16 bytes that
	 * `address` and `length` are (common/share-keeper.h). -ENOENT: nothing has; -EDQUOT: there are too many.
	 */
	VCUDA_CHANNEL_EXPORT,
};

/* The process may send VCUDA_CHANNEL_DETACH. The worker keeps files of mappings for it. */
#define VCUDA_ATTACH_MAY_DETACH 1u

/* A run of a RAM region, fds[2 + region] of ATTACH or the mapper's, at `offset` bytes in it. Validated by vcudad. */
struct vcuda_channel_extent {
	uint32_t region, reserved;
	uint64_t offset, length;
};

/*
 * Vcudad closes a local connection that it does not serve. Before that it answers the first request, whose cookie is 1,
 * with the status of one of these.
 */
#define VCUDA_CHANNEL_FIRST_COOKIE 1
#define VCUDA_REFUSED_USER EACCES   /* vcudad serves another user alone */
#define VCUDA_REFUSED_PLACE EUSERS  /* vcudad serves no more programs, or no more of this user */
#define VCUDA_REFUSED_SELF ELOOP    /* the program is a worker of this vcudad */
#define VCUDA_REFUSED_START ENOEXEC /* a worker cannot be started */

struct vcuda_channel_message {
	uint32_t type;		/* enum vcuda_channel_type; the reply repeats it */
	uint32_t flags;
	uint64_t cookie;
	uint64_t address, length, offset;
	uint32_t major, minor;	/* ATTACH: wire protocol version; the reply: the worker's */
	uint32_t uid, pid;
	int32_t status;		/* reply: 0 or -errno */
	uint32_t extents;	/* struct vcuda_channel_extent that follow the message */
};

#endif

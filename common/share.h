/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing between the workers of one host: files in memory, and notes of 64 bytes that a driver made, with or without
 * a descriptor. Guest processes may pass a handle on. A handle holds two random numbers: the name of the offering
 * worker's socket, and a key. The key is the permission, as with CUDA's own handles. The functions are thread-safe,
 * but for the two that are called once, before the others.
 */
#ifndef VCUDA_VCUDA_SHARE_H
#define VCUDA_VCUDA_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

enum vcuda_share_kind {
	/* of the software GPU */
	VCUDA_SHARE_MEMORY = 1,
	VCUDA_SHARE_EVENT,
	VCUDA_SHARE_ALLOCATION,
	/* of a GPU's driver: notes, and descriptors */
	VCUDA_SHARE_DRIVER_MEMORY,
	VCUDA_SHARE_DRIVER_EVENT,
	VCUDA_SHARE_DRIVER_POINTER,
	VCUDA_SHARE_DRIVER_ALLOCATION,
	VCUDA_SHARE_DRIVER_POOL,
	/* of the software GPU: pools, and memory of pools */
	VCUDA_SHARE_POOL,
	VCUDA_SHARE_POOL_MEMORY,
};

#define VCUDA_SHARE_NOTE_BYTES 64
#define VCUDA_SHARE_TAIL_BYTES 24

struct vcuda_share_handle {
	uint8_t magic[8];
	uint8_t server[16], key[16];
	uint8_t zero[VCUDA_SHARE_TAIL_BYTES]; /* zeroes, but for notes of a back end */
};

/*
 * From now on this worker talks only to workers for whose process id the function returns true. Without the function it
 * talks to every process of this user. Called once, before anything else.
 */
void vcuda_share_scope(bool (*same_guest)(pid_t worker));

/* A new file of zeroes that can never shrink under those who map it; -1: none. */
int vcuda_share_file(uint64_t bytes);

/* A part of a file. */
struct vcuda_share_part {
	uint64_t offset, bytes;
};

/* Offers a part of a file, as long as this worker lives, until vcuda_share_withdraw(); the descriptor is taken over.
 * False: not possible. */
bool vcuda_share_offer(enum vcuda_share_kind kind, struct vcuda_share_part part, int fd,
		       struct vcuda_share_handle *handle);

/* The same for a note, or, where there is none, for a descriptor that is no file of ours; -1: none. */
bool vcuda_share_offer_note(enum vcuda_share_kind kind, const void *note, int fd, struct vcuda_share_handle *handle);
void vcuda_share_withdraw(const struct vcuda_share_handle *handle);

/* Whether this worker offers the handle, or once did. */
bool vcuda_share_is_own(const struct vcuda_share_handle *handle);

/* ---- offers that outlive the worker ---- */

struct vcuda_keeper_message;

/* An offer that the guest's keeper has (share-keeper.h). */
struct vcuda_share_kept {
	enum vcuda_share_kind kind;
	struct vcuda_share_part part;          /* of a file of ours; 0 bytes: there is none */
	const void *note;                      /* or NULL */
	int fd;                                /* or -1 */
	unsigned int device;                   /* the device with the memory */
	uint64_t bytes;                        /* the bytes that count for this worker */
	const struct vcuda_share_handle *pool; /* the pool with the memory, or NULL */
};

/*
 * Sends the keeper a message with a descriptor (-1: none), and sets *m to the reply and *answer to its descriptor (-1:
 * none), which is the caller's. 0, the reply's status, or -ENOTCONN: there is no keeper. Thread-safe.
 */
typedef int vcuda_share_exchange(struct vcuda_keeper_message *m, int fd, int *answer);

/* The way to the keeper. Called once, before anything is kept; without it, and while there is none, nothing is. */
void vcuda_share_set_keeper(vcuda_share_exchange *exchange);

/*
 * Has the keeper keep the offer until vcuda_share_withdraw(), and longer while descriptors of the guest hold it.
 * The handle's tail (`zero`) is the caller's to set before; the rest is set here. Where there is no keeper it is
 * offered as by the functions above. The descriptor is taken over. 0; -ENOMEM: not possible, which the log explains.
 */
int vcuda_share_keep(const struct vcuda_share_kept *what, struct vcuda_share_handle *handle);

/* Tells the keeper that this worker counts `bytes` for the handle now. No effect if no keeper has the handle. */
void vcuda_share_resize(const struct vcuda_share_handle *handle, uint64_t bytes);

#define VCUDA_SHARE_KEPT_MAGIC "vcuda\0\0\2"

/* Whether a keeper has the handle; then descriptors can hold it. */
static inline bool vcuda_share_is_kept(const struct vcuda_share_handle *handle)
{
	return !memcmp(handle->magic, VCUDA_SHARE_KEPT_MAGIC, sizeof(handle->magic));
}

void vcuda_share_kept_handle(const uint8_t key[16], const uint8_t tail[VCUDA_SHARE_TAIL_BYTES],
			     struct vcuda_share_handle *handle);

/* ---- taken ---- */

/*
 * Takes what a worker offers under a handle, which may be forged: the file has that part, and cannot lose it. Returns
 * 0; -EINVAL: nothing of that kind is offered; -ENOMEM: a process has no descriptor left (logged). The descriptor is
 * the caller's. The function may wait for another worker, so the caller holds no lock.
 */
int vcuda_share_take(const struct vcuda_share_handle *handle, enum vcuda_share_kind kind, struct vcuda_share_part *part,
		     int *fd);

/* The same for notes and such descriptors: 64 bytes go to `note`, the descriptor to *fd (-1: it has none). */
int vcuda_share_take_note(const struct vcuda_share_handle *handle, enum vcuda_share_kind kind, void *note, int *fd);

#endif

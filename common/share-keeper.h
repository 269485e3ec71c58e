/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper (vcuda-keeper): a process that outlives the workers of one guest, a VM or a local user. It holds what they
 * have exported by descriptor: memory, pools, and memory of pools. An exported object is an entry, with a key of 128
 * random bits that the handle names. A descriptor of the guest's holds an entry: over the local transport a pipe
 * whose other end the keeper has, in a VM a file of the guest's driver, which vcudad tells of. An entry lives until its
 * worker has withdrawn it, or has ended, and no descriptor holds it. An entry of a pool's memory is held by the
 * descriptors of its pool, and ends when its worker withdraws it.
 *
 * vcudad starts the keeper with a SOCK_SEQPACKET Unix socket to itself as descriptor VCUDA_KEEPER_FD, and gives each
 * worker that asks for it (protocol/ipc/ledger.h: VCUDA_LEDGER_KEEPER) a connection of its own. The keeper takes
 * descriptors of workers, which vcudad does not, because to close some kinds of descriptors waits for their owner. A
 * message is one struct vcuda_keeper_message in either direction.
 */
#ifndef VCUDA_SHARE_KEEPER_H
#define VCUDA_SHARE_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/share.h"

#define VCUDA_KEEPER_FD 3
#define VCUDA_KEEPER_KEY_BYTES 16

enum vcuda_keeper_type {
	/* vcudad to the keeper: {connection} of a worker, which has the number `account`. No reply. */
	VCUDA_KEEPER_CONNECT = 1,
	/* The worker `account` has ended, or begins anew: it counts nothing any more. The reply is GONE. */
	VCUDA_KEEPER_ENDED,
	/* `limit` alone. No reply. */
	VCUDA_KEEPER_LIMIT,
	/* Entries without a worker end, whatever holds them. No reply but KEPT. */
	VCUDA_KEEPER_FREE,
	/* The same, of the VM: a file holds `key` from now on, or does so no longer. The reply has `status`. */
	VCUDA_KEEPER_HOLD,
	VCUDA_KEEPER_DROP,
	/*
	 * The keeper to vcudad: `count` entries without a worker are of `device`, and have `bytes` of its memory.
	 * The keeper sends that before the worker that withdraws an entry has the reply. With an `account` it holds
	 * once GONE of that account has come, which follows.
	 */
	VCUDA_KEEPER_KEPT,
	/* The keeper to vcudad: the connection of `account` is closed, and what descriptors hold of it is said. */
	VCUDA_KEEPER_GONE,
	/* The keeper to vcudad: an entry or a descriptor was refused at the limit. */
	VCUDA_KEEPER_REFUSED,

	/* A worker to the keeper. `kind`, part, note, `device`, `bytes`, `tail`, perhaps {descriptor}. `key`: the
	 * pool's, or zeroes. The reply has the entry's key. */
	VCUDA_KEEPER_OFFER,
	/* A worker to the keeper, about an entry that the same worker has offered. */
	VCUDA_KEEPER_WITHDRAW,
	VCUDA_KEEPER_RESIZE,
	/* The reply has the entry of `key` as it was offered. */
	VCUDA_KEEPER_TAKE,
	/* The reply has {pipe}, which holds the entry. The handle is in the pipe, and is never read from it. -EPERM:
	 * the guest is a VM. */
	VCUDA_KEEPER_DESCRIPTOR,
	/* A worker to the keeper: withdraws what the worker's OFFER of the number `count` made. */
	VCUDA_KEEPER_CANCEL,
};

struct vcuda_keeper_message {
	uint32_t type;    /* enum vcuda_keeper_type; a reply repeats it */
	int32_t status;   /* reply: 0 or -errno. -ENOENT: no such entry; -EDQUOT: the limit is reached */
	uint32_t kind;    /* enum vcuda_share_kind */
	uint32_t device;  /* the device with the memory, below VCUDA_LEDGER_GPUS */
	uint64_t account; /* between a worker and the keeper: a number that the reply repeats */
	uint32_t limit;   /* in each message of vcudad's: the most entries, and the most descriptors */
	uint32_t has_fd;  /* 1: a descriptor comes with the message */
	struct vcuda_share_part part;
	uint64_t bytes; /* OFFER, RESIZE: bytes that count for the worker */
	uint64_t count; /* KEPT, CANCEL */
	uint8_t key[VCUDA_KEEPER_KEY_BYTES];
	uint8_t tail[VCUDA_SHARE_TAIL_BYTES]; /* of the handle */
	uint8_t note[VCUDA_SHARE_NOTE_BYTES];
};

/*
 * Sends a message with a descriptor (-1: none). 0 or -errno. `flags` are sendmsg()'s.
 */
int vcuda_keeper_send(int socket, const struct vcuda_keeper_message *m, int fd, int flags);

/*
 * Receives a message, and in *fd the descriptor that came with it (-1: none), which is the caller's. Returns 1; 0: the
 * peer has closed the socket; -errno, -EPROTO: it was no such message, and its descriptors are closed. Further
 * descriptors are closed; where this process has no room for one *fd is -1, although the message has has_fd.
 */
int vcuda_keeper_receive(int socket, struct vcuda_keeper_message *m, int *fd, int flags);

#endif

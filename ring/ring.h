/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shared area of one guest process and its worker, and the command ring in it.
 *
 * Layout (fixed in protocol major version 1): a control page, the ring, the reply slots, the staging blocks, of which
 * minor versions may have more. Guest threads are the producers. A lock of the guest process serialises them, so
 * commands are in the order of the API calls. One dispatcher thread of the worker is the consumer. Each side keeps
 * private indices and publishes copies. The other side may write anything at any time, so each value in the shared area
 * is read once and checked.
 *
 * Sleeping: a thread that wants to sleep sets its flag and then checks the index again. A thread that publishes stores
 * its index and then reads the flag. All four accesses are seq_cst, which rules out a lost wake-up (test/ring/ring.pml
 * checks it).
 */
#ifndef VCUDA_RING_H
#define VCUDA_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VCUDA_CACHELINE 64

#define VCUDA_RING_BYTES (256u * 1024)
#define VCUDA_COMMAND_MAX (64u * 1024) /* largest command, header included */

#define VCUDA_SLOTS 64
#define VCUDA_SLOT_BYTES 8192
#define VCUDA_REPLY_MAX (VCUDA_SLOT_BYTES - 64)

#define VCUDA_STAGE_BLOCKS 12
#define VCUDA_STAGE_BLOCKS_0 8 /* if one side has protocol minor 0 */
#define VCUDA_STAGE_BLOCK_BYTES (256u * 1024)

#define VCUDA_RING_OFFSET 4096u
#define VCUDA_SLOT_OFFSET (VCUDA_RING_OFFSET + VCUDA_RING_BYTES)
#define VCUDA_STAGE_OFFSET (VCUDA_SLOT_OFFSET + VCUDA_SLOTS * VCUDA_SLOT_BYTES)
#define VCUDA_SHM_BYTES (VCUDA_STAGE_OFFSET + VCUDA_STAGE_BLOCKS * VCUDA_STAGE_BLOCK_BYTES)
#define VCUDA_SHM_BYTES_0 (VCUDA_STAGE_OFFSET + VCUDA_STAGE_BLOCKS_0 * VCUDA_STAGE_BLOCK_BYTES)

#define VCUDA_CALLBACKS 64

/* A host function that is due: the guest's name of it, and the state of its context (a CUresult). */
struct vcuda_callback {
	uint64_t id;
	int32_t status;
	uint32_t zero;
};

/*
 * The owner of a staging block in a large copy (vcudaStageTurns). While `count` is even, the side that fills the block
 * owns it; while `count` is odd, the other side. The owner adds 1 when it is done. `count` starts at 0; the pieces of
 * the copy take the blocks in turn. In a queue of copies (vcudaStageIn), `count` is the ticket of the last copy that
 * the device has read from the block.
 */
struct vcuda_handover {
	_Alignas(VCUDA_CACHELINE) _Atomic uint32_t count;
};

#define VCUDA_COMPILING_NAME_BYTES 120

/*
 * The compilation of the software GPU that commands wait for. `name` is the kernel's, cut off and ended by a NUL. The
 * name belongs to `number` while `number` stays the same.
 */
struct vcuda_compiling {
	_Alignas(VCUDA_CACHELINE) _Atomic uint32_t number;	/* of the compilation, from 1 on; 0: there is none */
	_Atomic uint32_t done;					/* compilations that have ended */
	char name[VCUDA_COMPILING_NAME_BYTES];
};

/* The control page. Indices count bytes and never wrap; position in the ring = index % VCUDA_RING_BYTES. */
struct vcuda_shm {
	_Alignas(VCUDA_CACHELINE) _Atomic uint64_t tail;	/* producers: published up to here */
	_Alignas(VCUDA_CACHELINE) _Atomic uint64_t head;	/* consumer: consumed up to here, space before it is free */
	_Alignas(VCUDA_CACHELINE) _Atomic uint32_t consumer_sleeps;
	_Alignas(VCUDA_CACHELINE) _Atomic uint32_t waiters;	/* guest threads that sleep or are about to */
	_Atomic uint32_t wake;					/* the wake word: a futex (local) or WAIT's word (virtio) */
	_Alignas(VCUDA_CACHELINE) _Atomic uint64_t room_at;	/* a producer sleeps until `head` is this; 0: none does */
	_Alignas(VCUDA_CACHELINE) _Atomic int32_t lost;		/* worker: this session ended, a CUresult to report; 0 while it lives */
	_Atomic uint32_t output;				/* worker: not 0 while there is text of kernels to be read */
	_Atomic uint32_t profile;				/* guest: VCUDA_PROFILE_* (protocol/activity-rows.h) */
	/* Host functions: how many have been due, and how many of these have returned; in the same order. */
	_Alignas(VCUDA_CACHELINE) _Atomic uint64_t callbacks_due;
	_Alignas(VCUDA_CACHELINE) _Atomic uint64_t callbacks_done;
	struct vcuda_callback callbacks[VCUDA_CALLBACKS];	/* the nth, from 1 on, at n % VCUDA_CALLBACKS */
	struct vcuda_handover handovers[VCUDA_STAGE_BLOCKS];
	/* worker: not 0 while a stream's fence says all that a wait for it would (vcudaStreamMark) */
	_Alignas(VCUDA_CACHELINE) _Atomic uint32_t fences;
	struct vcuda_compiling compiling;			/* worker */
};

_Static_assert(sizeof(struct vcuda_shm) <= VCUDA_RING_OFFSET, "the control page is one page");

#define VCUDA_WAKE_OFFSET offsetof(struct vcuda_shm, wake)

/* A reply slot: one synchronous call in flight. `done` = the call's seq once result and data are valid. */
struct vcuda_slot {
	_Alignas(VCUDA_CACHELINE) _Atomic uint64_t done;
	int32_t result;		/* CUresult */
	uint32_t bytes;		/* of data */
	uint8_t pad[48];
	uint8_t data[VCUDA_REPLY_MAX];
};

/* Every command starts with this; 8-byte aligned, little-endian. */
struct vcuda_command {
	uint32_t size;		/* header included, multiple of 8; the next command starts there */
	uint16_t op;		/* enum vcuda_op; 0: padding to the end of the ring */
	uint16_t flags;		/* VCUDA_COMMAND_* */
	uint64_t seq;		/* 1, 2, 3, ... per ring */
	uint64_t context;	/* CUDA context handle that the calling thread had current, 0: none */
	uint32_t slot;		/* reply slot, if VCUDA_COMMAND_SYNC */
	uint32_t thread;	/* a small number of the guest thread, for errors of asynchronous calls */
};

#define VCUDA_COMMAND_SYNC 0x1

static inline struct vcuda_slot *vcuda_shm_slot(void *shm, uint32_t slot)
{
	return (struct vcuda_slot *)((char *)shm + VCUDA_SLOT_OFFSET + (size_t)slot * VCUDA_SLOT_BYTES);
}

static inline void *vcuda_shm_stage(void *shm, uint32_t block)
{
	return (char *)shm + VCUDA_STAGE_OFFSET + (size_t)block * VCUDA_STAGE_BLOCK_BYTES;
}

/* The number of blocks that both sides use with the other side's protocol minor; the area has the bytes for them. */
static inline uint32_t vcuda_shm_blocks(uint32_t minor)
{
	return minor ? VCUDA_STAGE_BLOCKS : VCUDA_STAGE_BLOCKS_0;
}

/* ---- producer: guest; the caller holds its process's ring lock from reserve to publish ---- */

struct vcuda_producer {
	struct vcuda_shm *shm;
	uint64_t tail;		/* private copy */
	uint64_t head;		/* last value seen, checked */
	uint64_t seq;
};

void vcuda_producer_init(struct vcuda_producer *p, void *shm);

/*
 * Makes room for one command of at most `bytes` (header included, <= VCUDA_COMMAND_MAX) and returns its contiguous
 * place, or NULL while the ring is too full: wait until vcuda_producer_may_retry() and try again.
 */
struct vcuda_command *vcuda_producer_reserve(struct vcuda_producer *p, uint32_t bytes);

/* After a reserve() that gave NULL: asks the consumer to wake the guest once half of the ring is free. */
void vcuda_producer_want_room(struct vcuda_producer *p);
bool vcuda_producer_may_retry(const struct vcuda_producer *p);

/* Whether the consumer has taken all published commands, by the last index that this side can read. */
bool vcuda_producer_is_empty(const struct vcuda_producer *p);

/* Sets size and seq and publishes. Returns true if the consumer sleeps and must be rung; the caller rings exactly then.
 */
bool vcuda_producer_publish(struct vcuda_producer *p, struct vcuda_command *command, uint32_t bytes);

/* ---- guest threads that wait for the worker ---- */

/* Sleeps while the wake word equals `seen`, at most timeout_us (0: no limit). Returns 0 or -errno. */
typedef int vcuda_shm_wait(void *transport, uint32_t seen, uint32_t timeout_us);

/*
 * Sleeps once, unless the session is lost or blocked(argument), which reads the shared area, is false. A sleep may end
 * without a cause, so the caller looks again. Returns the result of wait(), 0 without a sleep. Thread-safe.
 */
int vcuda_shm_sleep(struct vcuda_shm *shm, vcuda_shm_wait *wait, void *transport, uint32_t timeout_us,
		    bool (*blocked)(void *argument), void *argument);

/* ---- consumer: the worker's dispatcher ---- */

struct vcuda_consumer {
	struct vcuda_shm *shm;
	uint64_t head;		/* private copy */
};

void vcuda_consumer_init(struct vcuda_consumer *c, void *shm);

/*
 * Copies the next command into `buffer` (VCUDA_COMMAND_MAX bytes, 8-byte aligned) and frees its place. Returns its
 * size, 0 if the ring is empty, -EPROTO if the producer's indices or sizes make no sense (end the session).
 */
int vcuda_consumer_take(struct vcuda_consumer *c, void *buffer);

/* The number of bytes that producers have published and the consumer has not taken, if their index is valid. */
uint64_t vcuda_consumer_backlog(const struct vcuda_consumer *c);

/* Before sleeping: returns true if the consumer may sleep now (flag set, ring still empty), false if there is work. */
bool vcuda_consumer_prepare_sleep(struct vcuda_consumer *c);
void vcuda_consumer_awake(struct vcuda_consumer *c);

/* ---- worker to guest ---- */

/*
 * Each returns true if guest threads sleep, with the wake word already moved: the caller wakes them (futex or event)
 * exactly then. vcuda_consumer_made_room() is called after each take(), the others by any worker thread. A command that
 * no thread waits for wakes none. Otherwise, while one thread sleeps, each command of the others would cost a system
 * call.
 */
bool vcuda_consumer_made_room(struct vcuda_consumer *c);
bool vcuda_complete_slot(struct vcuda_shm *shm, uint32_t slot, uint64_t seq, int32_t result, uint32_t bytes);

/*
 * The nth host function is due. The place of the function is free: n - VCUDA_CALLBACKS functions have returned. One
 * thread at a time.
 */
bool vcuda_callback_due(struct vcuda_shm *shm, uint64_t n, uint64_t id, int32_t status);

/* The compilation with this number, not 0, is the oldest one under way, and `done` have ended. One thread at a time. */
bool vcuda_compiling_begin(struct vcuda_shm *shm, uint32_t number, uint32_t done, const char *name);

/* No compilation is under way. One thread at a time, the same as above. */
void vcuda_compiling_end(struct vcuda_shm *shm, uint32_t done);

/*
 * Reads what is compiled. False: nothing is, or it is changing. From the guest, by any thread. The name has only
 * printable characters.
 */
bool vcuda_compiling_read(struct vcuda_shm *shm, uint32_t *number, uint32_t *done,
			  char name[VCUDA_COMPILING_NAME_BYTES]);

/* Tells the guest that the session is over; `result` is a CUresult other than 0. */
bool vcuda_complete_lost(struct vcuda_shm *shm, int32_t result);

#endif

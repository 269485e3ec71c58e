/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of device memory: a SOCK_SEQPACKET Unix socket between a worker and vcudad, descriptor VCUDA_LEDGER_FD of
 * a new worker. A worker asks for a grant before it allocates device memory, and gives the grant back after it has
 * freed the memory. vcudad keeps what each worker was granted, and takes it back when it has reaped the worker.
 *
 * Limits and sums are in a page that workers can only read: a worker asks only where there is a limit. The page's
 * descriptor comes with the reply to JOIN. A message is one struct vcuda_ledger_message in either direction.
 */
#ifndef VCUDA_LEDGER_IPC_H
#define VCUDA_LEDGER_IPC_H

#include <stdatomic.h>
#include <stdint.h>

#define VCUDA_LEDGER_FD 5

/* Descriptors with the reply to JOIN, at most. */
#define VCUDA_LEDGER_JOIN_FDS 3

/* Device numbers of the back end. Memory of a device beyond is refused. */
#define VCUDA_LEDGER_GPUS 64

#define VCUDA_LEDGER_NO_LIMIT (UINT64_MAX >> 1)

enum vcuda_ledger_type {
	/*
	 * The program of this worker begins, with no memory. The reply carries {page}, or {page, demand, drained}
	 * (protocol/turns.h).
	 */
	VCUDA_LEDGER_JOIN = 1,
	/*
	 * Wants `bytes`, and `spare` beyond them. The reply's `bytes`: what is granted, at least `bytes`, or 0, and
	 * then `spare` is an enum vcuda_ledger_room.
	 */
	VCUDA_LEDGER_TAKE,
	/* Has taken `bytes` while there was no limit. No reply. */
	VCUDA_LEDGER_NOTE,
	/* Gives `bytes` back. No reply. */
	VCUDA_LEDGER_GIVE,
	/* The page has what this worker sent before, once there is the reply. */
	VCUDA_LEDGER_SYNC,
	/* Refused its guest process something at the limit `gpu`, an enum vcuda_ledger_process_limit. No reply. */
	VCUDA_LEDGER_REFUSED,
	/* Like TAKE, of a worker that cannot wait. */
	VCUDA_LEDGER_TAKE_NOW,
	/* Wants to export something. The reply carries {connection to the guest's keeper}, or nothing: there is none. */
	VCUDA_LEDGER_KEEPER,
};

/*
 * `spare` in a reply to TAKE or TAKE_NOW that grants nothing. With WAIT the worker gives up what it does, leaves its
 * gate, and asks again when `room` in the page has changed. It may be told to release its memory meanwhile.
 */
enum vcuda_ledger_room {
	VCUDA_LEDGER_ASK_AGAIN, /* memory that another worker gave back may not be free yet */
	VCUDA_LEDGER_WAIT,      /* until other VMs have made room (vcudad --overcommit) */
	VCUDA_LEDGER_NO_ROOM,   /* other VMs cannot make room */
};

struct vcuda_ledger_message {
	uint32_t type; /* enum vcuda_ledger_type; the reply repeats it */
	uint32_t gpu;
	uint64_t bytes, spare;
};

/* The limits of one worker besides device memory. The defaults below apply without an option of vcudad. */
enum vcuda_ledger_process_limit {
	VCUDA_LEDGER_STREAMS,
	VCUDA_LEDGER_HANDLES,
	VCUDA_LEDGER_QUEUED_COMMANDS, /* commands that a stream has taken and not ended */
	VCUDA_LEDGER_QUEUED_BYTES,    /* host memory that these commands hold */
	VCUDA_LEDGER_MODULE_BYTES,    /* host memory of the code of modules */
	VCUDA_LEDGER_COMPILE_SECONDS, /* of a processor, for one kernel; with NVIDIA's driver for one call */
	VCUDA_LEDGER_COMPILE_BYTES,   /* host memory to compile one kernel */
	VCUDA_LEDGER_KERNEL_SECONDS,  /* limit for a kernel on the software GPU, and for a command in turns on a GPU */
	VCUDA_LEDGER_PROCESS_LIMITS
};

#define VCUDA_LEDGER_KERNEL_SECONDS_DEFAULT VCUDA_LEDGER_NO_LIMIT
#define VCUDA_LEDGER_STREAMS_DEFAULT (1u << 16)
#define VCUDA_LEDGER_HANDLES_DEFAULT (1u << 21)
#define VCUDA_LEDGER_QUEUED_COMMANDS_DEFAULT (1u << 18)
#define VCUDA_LEDGER_QUEUED_BYTES_DEFAULT (128ull << 20)
#define VCUDA_LEDGER_MODULE_BYTES_DEFAULT (1ull << 30)
#define VCUDA_LEDGER_COMPILE_SECONDS_DEFAULT 600
#define VCUDA_LEDGER_COMPILE_BYTES_DEFAULT (4ull << 30)

/* Bytes of one GPU; VCUDA_LEDGER_NO_LIMIT: none. vcudad may change a limit at any time, also below what is granted. */
struct vcuda_ledger_page {
	_Atomic uint64_t limit;                      /* of all workers together */
	_Atomic uint64_t process_limit;              /* of one worker */
	_Atomic uint64_t granted[VCUDA_LEDGER_GPUS]; /* to all workers together */
	_Atomic uint64_t process_limits[VCUDA_LEDGER_PROCESS_LIMITS];
	_Atomic uint32_t turns; /* the state (protocol/turns.h) */
	_Atomic uint32_t room; /* a futex; changes when workers that wait for room may ask again */
};

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a worker: a SOCK_SEQPACKET Unix socket between a worker and vcudad, descriptor VCUDA_GATE_FD of a new
 * worker. While the gate is closed, no command that gives the device work begins. vcudad sends one request at a time;
 * the worker answers each. A message is one struct vcuda_gate_message in either direction.
 */
#ifndef VCUDA_GATE_IPC_H
#define VCUDA_GATE_IPC_H

#include <stdint.h>

#define VCUDA_GATE_FD 7

enum vcuda_gate_type {
	/*
	 * Closes the gate, and waits at most `milliseconds` until no command is behind it and the device is idle. The
	 * answer's `state` says how that went. In all states but VCUDA_GATE_DONE the gate is open again.
	 */
	VCUDA_GATE_CLOSE = 1,
	VCUDA_GATE_OPEN,
	/*
	 * While the gate is closed: writes what device memory holds to a file, and gives the memory back. The message
	 * carries the descriptor of the empty file. Without a descriptor, and with another back end than the software
	 * GPU, the answer says whether vcuda-checkpoint may release the memory.
	 */
	VCUDA_GATE_RELEASE,
	/* Reads device memory back from the file. The file is the worker's until then. */
	VCUDA_GATE_RESTORE,
	/*
	 * While the gate is closed: vcuda-checkpoint has put two GPUs in each other's place. The worker's memory on
	 * gpus[0] is on gpus[1] from now on, and the reverse. The answer's state is VCUDA_GATE_DONE.
	 */
	VCUDA_GATE_SWAP,
	/* While the gate is closed, for a local process: the worker outlives its channel until ATTACH. */
	VCUDA_GATE_DETACH,
	/* The message carries the descriptor of the new channel. Without one the worker keeps its channel. */
	VCUDA_GATE_ATTACH,
};

enum vcuda_gate_state {
	VCUDA_GATE_DONE,          /* of CLOSE: nothing of this worker runs */
	VCUDA_GATE_COMMAND_RUNS,  /* a command did not end */
	VCUDA_GATE_DEVICE_BUSY,   /* the work of a context did not end */
	VCUDA_GATE_OUT_OF_MEMORY, /* the worker has no memory for what was asked */
	VCUDA_GATE_NO_ROOM,       /* the file cannot be written, or not be read; nothing has changed */
	VCUDA_GATE_NOT_SUPPORTED, /* the worker does not release its memory itself; vcuda-checkpoint may */
	VCUDA_GATE_SHARED,        /* other processes have a part in the memory, which vcuda-checkpoint would lose */
};

struct vcuda_gate_message {
	uint32_t type; /* enum vcuda_gate_type; the answer repeats it */
	uint32_t milliseconds;
	uint32_t state;   /* of the answer */
	uint16_t gpus[2]; /* of SWAP, in the numbers of the ledger (ledger.h) */
};

#endif

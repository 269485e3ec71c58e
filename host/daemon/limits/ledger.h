/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of device memory (protocol/ipc/ledger.h): a row for each worker, with what it was granted of each GPU. All
 * workers of this vcudad share the limit: they are the processes of one VM, or of the local socket.
 *
 * The sum of all grants of a GPU exceeds no limit that was there when they were made. What a worker says changes its
 * own row only. No call blocks.
 */
#ifndef VCUDA_DAEMON_LEDGER_H
#define VCUDA_DAEMON_LEDGER_H

#include <stdint.h>
#include <sys/types.h>

#include "protocol/ipc/ledger.h"
#include "loop/loop.h"
#include "options/options.h"

/*
 * Takes the limits from the options: at the start, and after each change. From now on grants keep to them. What was
 * granted before stays granted. 0 or -errno; only the first call fails.
 */
int daemon_ledger_refresh(const struct daemon_options *options);

struct daemon_ledger_row {
	struct daemon_loop *loop;
	struct daemon_source source;
	int fd; /* -1: closed */
	pid_t worker;
	const uint32_t *guest_pid; /* for messages */
	uint32_t refusals;         /* since the last grant */
	uint64_t granted[VCUDA_LEDGER_GPUS];
	void (*broken)(struct daemon_ledger_row *row); /* the worker broke the rules; the socket is closed */
};

/* Makes the socket. The worker's end is the caller's to close. 0 or -errno; after an error there is nothing to close.
 */
int daemon_ledger_open(struct daemon_ledger_row *row, struct daemon_loop *loop, int *worker_end);

/* Begins to listen, once the worker runs. `guest_pid` stays valid until the row is closed. */
int daemon_ledger_start(struct daemon_ledger_row *row, pid_t worker, const uint32_t *guest_pid,
			void (*broken)(struct daemon_ledger_row *row));

/* No process of the worker is left, or it did not start: its grants are free again. */
void daemon_ledger_close(struct daemon_ledger_row *row);

/* Granted to all workers, in bytes of that GPU. */
uint64_t daemon_ledger_granted(unsigned int gpu);

/* The same of the GPU of which most is granted: to all workers, and to one. */
uint64_t daemon_ledger_most_granted(void);
uint64_t daemon_ledger_row_most_granted(const struct daemon_ledger_row *row);

/* Granted to one worker, in bytes of all GPUs together. */
uint64_t daemon_ledger_row_granted(const struct daemon_ledger_row *row);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ledger of device memory (protocol/ipc/ledger.h): a row for each worker, with what it was granted of each GPU. All
 * workers of this vcudad share the limit: they are the processes of one VM, or of the local socket.
 *
 * The sum of all grants of a GPU exceeds no limit that was valid when they were made. A worker's message changes its
 * own row only. No call blocks.
 */
#ifndef VCUDA_DAEMON_LEDGER_H
#define VCUDA_DAEMON_LEDGER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/list.h"
#include "protocol/ipc/ledger.h"
#include "protocol/turns.h"
#include "loop/loop.h"
#include "options/options.h"

/*
 * Takes the limits from the options: at the start, and after each change. From now on grants keep to them. Earlier
 * grants stay. 0 or -errno; only the first call fails.
 */
int daemon_ledger_refresh(const struct daemon_options *options);

/* The guest of a worker that serves none, or none any more. */
#define DAEMON_LEDGER_NO_GUEST (UINT64_MAX - 1)

struct daemon_ledger_row {
	struct vcuda_list entry; /* of those whose workers run */
	struct daemon_loop *loop;
	struct daemon_source source, drained;
	int fd;                      /* -1: closed */
	struct vcuda_demand *demand; /* NULL: the VM has no share and no overcommit, or the worker has ended */
	int demand_fd, drained_fd;   /* -1: likewise */
	uint32_t number;             /* of the worker in the state of turns; 0: it has no demand */
	uint64_t chosen;             /* the order of the last choice to work alone, or of the first need; 0: none */
	uint64_t tries;              /* the order of its need for a trial; 0: it needs none */
	uint64_t waits_since;        /* since when its work may wait for its process, ns; 0: it does not */
	bool stopped;                /* by daemon_ledger_stop_work() */
	pid_t worker;
	const uint32_t *guest_pid; /* for messages */
	uint32_t refusals;         /* since the last grant */
	uint64_t want, refused;    /* bytes that the worker waits for, or may not have; 0: none */
	uint64_t order;            /* of the rows that wait: the least has waited longest */
	uint64_t granted[VCUDA_LEDGER_GPUS];
	/* reconcile.c: what the driver says the worker has beyond its grants, which counts like a grant. */
	uint64_t surplus[VCUDA_LEDGER_GPUS];
	uint8_t times[VCUDA_LEDGER_GPUS];              /* in a row that the driver has said so */
	/* overrun.c: how long, on each GPU; when that was found last, and when the worker was told to end; 0. */
	uint64_t overrun_ns[VCUDA_LEDGER_GPUS];
	uint64_t overrun_found_ns, overrun_ended_ns;
	uint64_t guest;                                /* whose keeper the worker may use */
	bool over;                                     /* it has too much, and ends */
	void (*broken)(struct daemon_ledger_row *row); /* the worker broke the rules; the socket is closed */
};

/* Makes the socket. The worker's end is the caller's to close. 0 or -errno; after an error there is nothing to close.
 */
int daemon_ledger_open(struct daemon_ledger_row *row, struct daemon_loop *loop, int *worker_end);

/* Begins to listen, once the worker runs. `guest_pid` stays valid until the row is closed. */
int daemon_ledger_start(struct daemon_ledger_row *row, pid_t worker, const uint32_t *guest_pid,
			void (*broken)(struct daemon_ledger_row *row));

/* The worker has been waited for: its work has ended, and no signal goes to its number any more. */
void daemon_ledger_end_work(struct daemon_ledger_row *row);

/* No process of the worker is left, or it did not start: its grants are free again. */
void daemon_ledger_close(struct daemon_ledger_row *row);

/* Calls with the row of each worker that runs. `call` may end the worker, and closes no row. */
void daemon_ledger_each(void (*call)(struct daemon_ledger_row *row, void *argument), void *argument);

/* Has `bytes` count in the row beside the grants, whatever the limits are. */
void daemon_ledger_set_surplus(struct daemon_ledger_row *row, unsigned int gpu, uint64_t bytes);

/* The GPU on which the worker has most memory. */
unsigned int daemon_ledger_row_gpu(const struct daemon_ledger_row *row);

/*
 * The worker's memory of two GPUs changes places. False: a limit would be exceeded on one of them, or a keeper knows on
 * which of them the worker's memory is.
 */
bool daemon_ledger_row_may_swap(const struct daemon_ledger_row *row, unsigned int gpu, unsigned int other);
void daemon_ledger_row_swap(struct daemon_ledger_row *row, unsigned int gpu, unsigned int other);

/* The work of the workers, where the VM has a share or overcommit (protocol/turns.h). */
struct daemon_ledger_work {
	bool wanted, running;
	bool waiting, inside;     /* commands in front of the gates, and behind them */
	unsigned int workers;     /* that have work */
	uint32_t begun, commands; /* of all workers, modulo 2^32 */
};

/* Work of the worker has begun and has not ended. */
bool daemon_ledger_row_runs(const struct daemon_ledger_row *row);

/* Looks whether the worker's work may wait for its process, which counts from the first look in a row on. */
void daemon_ledger_row_note_wait(struct daemon_ledger_row *row);

/* Adds the work of a worker. */
void daemon_ledger_row_work(const struct daemon_ledger_row *row, struct daemon_ledger_work *sum);

/* Has `call` called when a held worker says that nothing of its work runs any more. */
void daemon_ledger_on_drained(void (*call)(void));

/*
 * Stops the workers whose work runs, as SIGSTOP does, until daemon_ledger_continue_work(). The work of one may end just
 * before the signal: daemon_ledger_continue_ended() finds those. Returns false
 * if a worker's work is on a GPU, which cannot be stopped.
 */
bool daemon_ledger_stop_work(void);
void daemon_ledger_continue_work(void);
void daemon_ledger_continue_ended(void);

/*
 * Chooses the worker that may use the GPU alone, and returns its number. Without `next` the worker `last` keeps the GPU
 * while that worker has work. Otherwise a worker whose work runs comes first, and then the one that has waited longest.
 * Returns 0 if no worker has work. Sets `running` to the number of workers whose work runs and waits for nothing.
 */
uint32_t daemon_ledger_choose_worker(uint32_t last, bool next, unsigned int *running);
void daemon_ledger_note_choice(uint32_t number);

/*
 * Chooses the worker that has a trial (protocol/turns.h), and returns its number: `only` if that worker needs one, else
 * `last` while it needs one, else the one that has waited longest. Returns 0 if no worker needs a trial. A worker whose
 * work may wait for its process for some seconds comes last, and keeps no other from a trial; a worker that is paused
 * has none.
 */
uint32_t daemon_ledger_choose_trial(uint32_t last, uint32_t only);

/* Shows the workers of a VM with a share the state (protocol/turns.h). */
void daemon_ledger_set_turns(uint32_t state);

/* Whether the back end may use a GPU, whose work cannot be stopped. */
bool daemon_ledger_may_be_on_gpu(void);

/* The part of vcudad that decides about growth besides the limits (vcudad --overcommit). */
struct daemon_ledger_growth {
	/* Bytes that all workers together may be granted at once; `now`: to one that cannot wait. */
	uint64_t (*room)(bool now);
	/* Whether the VM needs what this worker waits for. */
	bool (*counts)(const struct daemon_ledger_row *row);
	/* A worker waits for more: daemon_ledger_wanted() may have changed. */
	void (*want)(void);
	/* A worker has a command that waits in front of its closed gate. */
	void (*waits)(void);
};

/* The keepers of what outlives workers (keeper/keeper.h). */
struct daemon_ledger_keepers {
	/* A connection for the row's worker, which is the caller's; -1: there is no keeper. */
	int (*connect)(struct daemon_ledger_row *row);
	/* Takes what the keeper of the row's worker has said of memory before now. */
	void (*settle)(const struct daemon_ledger_row *row);
	/* Whether the row's worker has a connection, and so perhaps something that a keeper keeps. */
	bool (*is_connected)(const struct daemon_ledger_row *row);
	/* The row's grants end now: what descriptors may hold of them counts without it. */
	void (*leave)(struct daemon_ledger_row *row);
};

/* Before there are workers. `keepers` stays valid. */
void daemon_ledger_on_keepers(const struct daemon_ledger_keepers *keepers);

/* Counts `bytes` beside those of all workers in place of `before` bytes. The limits do not matter. */
void daemon_ledger_keep(unsigned int gpu, uint64_t before, uint64_t bytes);

/* Returns what counts so, in bytes of all GPUs together: memory that descriptors alone hold, which no pause releases. */
uint64_t daemon_ledger_kept(void);

/* Before there are workers. `growth` stays valid. */
void daemon_ledger_on_growth(const struct daemon_ledger_growth *growth);

/* The worker that has waited longest waits for so many bytes. Workers that do not count are left out. 0: none waits. */
uint64_t daemon_ledger_wanted(void);

/*
 * Ends the waiting of all workers: they ask again. `refused`: the worker of daemon_ledger_wanted() does so in vain, if
 * it asks for as much as before.
 */
void daemon_ledger_end_wait(bool refused);

/* The limits of a GPU for all workers together, and for one. */
uint64_t daemon_ledger_limit(void);
uint64_t daemon_ledger_process_limit(void);

/* Granted to all workers, in bytes of that GPU, and what they have beyond that. */
uint64_t daemon_ledger_granted(unsigned int gpu);

/* The same of all GPUs together. */
uint64_t daemon_ledger_sum(void);

/* The same of the GPU of which most is granted: to all workers, and to one. */
uint64_t daemon_ledger_most_granted(void);
uint64_t daemon_ledger_row_most_granted(const struct daemon_ledger_row *row);

/* Granted to one worker, in bytes of all GPUs together. */
uint64_t daemon_ledger_row_granted(const struct daemon_ledger_row *row);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pause and resume: the gates of this vcudad's workers (protocol/ipc/gate.h). While its gate is closed, a worker gives
 * the device no work: its guest process sees slow calls. Its memory stays on the device, or is released: to the
 * worker's host memory by vcuda-checkpoint, on the software GPU to a file.
 *
 * A worker's messages are untrusted. No call blocks. All functions belong to the loop's thread.
 */
#ifndef VCUDA_DAEMON_GATE_H
#define VCUDA_DAEMON_GATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/list.h"
#include "protocol/control.h"
#include "loop/loop.h"
#include "options/options.h"

/* A pause that does not say how long running work may take. */
#define DAEMON_GATE_MS 5000

/* Each level is reached from the one before, and left to the one before. */
enum daemon_gate_level {
	DAEMON_GATE_OPEN,
	DAEMON_GATE_CLOSED,   /* and all work has ended */
	DAEMON_GATE_RELEASED, /* and the worker has no device memory */
};

struct daemon_checkpoint;

struct daemon_gate {
	struct vcuda_list entry; /* of all gates */
	struct daemon_loop *loop;
	struct daemon_source source;
	struct daemon_timer timer; /* until a step is overdue */
	int fd;                    /* -1: there is none */
	const struct daemon_options *options;
	const uint32_t *guest_pid;
	enum daemon_gate_level wanted, level;
	enum daemon_gate_level asked;         /* by the operator; more is wanted while the VM is out */
	enum daemon_gate_level held;          /* by the guest, likewise */
	enum daemon_gate_level held_before;   /* the guest's step: held again if the step fails */
	bool holds;                           /* the gate makes a step of the guest's */
	uint32_t held_group;                  /* of the gates of the guest's last step */
	uint32_t held_failure;                /* errno of that step, 0: none */
	enum daemon_gate_level before;        /* the last pause: wanted again if the pause fails */
	bool waits;                           /* a step is under way */
	uint32_t sent;                        /* the request that the worker has not answered; 0: there is none */
	struct daemon_checkpoint *checkpoint; /* makes the step; NULL: the worker makes it */
	bool is_image;                        /* the driver released the memory, and not the worker */
	unsigned int from, to;                /* GPUs that change places when the memory comes back; equal: none do */
	unsigned int home;                    /* the GPU of the last move; 0: there was none */
	bool moves;                           /* the ledger shows them so already */
	uint64_t reserved;                    /* bytes of host memory for a release that is under way */
	uint32_t group;                       /* of the gates that are paused together or not at all; 0: none */
	uint32_t ms;                          /* limit for running work to end */
	const char *failure;                  /* of the last step: a word for the status, NULL: none */
	bool gives_up;                        /* gate.c: it goes back to another level */
	bool stays;                           /* the worker is to hear that it keeps its channel */
	void (*broken)(struct daemon_gate *gate);
};

/* Before the other functions; from then on daemon_gate_drop() is harmless. The gate is a worker's `gate`. */
void daemon_gate_init(struct daemon_gate *gate, struct daemon_loop *loop);

/* Makes the socket. The worker's end is the caller's to close. 0 or -errno. */
int daemon_gate_make(struct daemon_gate *gate, int *worker_end);

/*
 * Begins to listen, once the worker runs. While all are paused, the worker is as well. `guest_pid` and `options` stay
 * valid until the gate is dropped. `broken`: the worker broke the rules. 0 or -errno.
 */
int daemon_gate_start(struct daemon_gate *gate, const struct daemon_options *options, const uint32_t *guest_pid,
		      void (*broken)(struct daemon_gate *gate));

void daemon_gate_drop(struct daemon_gate *gate);

/*
 * Pauses the workers of a guest process, 0: all, and those that start later. `release`: these workers also release
 * their device memory. If the work of one of them does not end within `ms`, or its memory cannot be released, none is
 * paused, and that one keeps the word `failure`. Returns how many there are. The pause is complete when each has the
 * level that it wants. A worker that starts after that and does not close its gate goes on alone.
 */
unsigned int daemon_gate_pause(uint32_t guest_pid, uint32_t ms, bool release);

/*
 * The overcommit of memory (overcommit.h). While the VM is out, each worker's memory is released, and new workers have
 * closed gates. Pauses and resumes only note what the operator asks for then: daemon_gate_admit() brings each gate to
 * that level. `changed` is called when a gate has reached a level or failed to, and for a new or dropped gate.
 *
 * With overcommit a worker may take 10 s and a second for each 50 MB to release or restore its memory. One that takes
 * longer is killed: other VMs wait for its memory, and nothing else says where that is.
 */
void daemon_gate_watch(void (*changed)(void));

/*
 * Has all workers go out, whose running work may take `ms`. daemon_gate_is_out() says that all of them are out. If one
 * cannot go, none does, and daemon_gate_has_stayed() says so until the next time.
 */
void daemon_gate_evict(uint32_t ms);
bool daemon_gate_is_out(void);
bool daemon_gate_has_stayed(void);

/*
 * Has all workers come in. daemon_gate_is_stuck() says that the memory of one of them did not come back;
 * daemon_gate_retry() has it come in again.
 */
void daemon_gate_admit(void);
void daemon_gate_retry(void);
bool daemon_gate_is_in(void);
bool daemon_gate_is_stuck(void);

/* Where the operator has paused all workers and released their memory: the VM is out from now on. False: it is not so.
 */
bool daemon_gate_leave(void);

/* The operator has resumed the VM since it went out. */
bool daemon_gate_is_resumed(void);

/*
 * For workers whose memory the driver has released. With the next resume the memory comes back on the GPU `to`, by its
 * number in the ledger, instead of the one on which the worker has most memory. The worker's memory on `to` comes back
 * on that one. Returns NULL, or the reason of a refusal: then nothing has changed.
 */
const char *daemon_gate_move(uint32_t guest_pid, unsigned int to);

/* A worker whose memory cannot come back stays released, and keeps the word `failure`. */
unsigned int daemon_gate_resume(uint32_t guest_pid);

/*
 * The steps of cuCheckpointProcess*(), by which a guest holds its own processes: a gate stays closed, and its memory
 * released, while the operator, the guest or the VM's being out wants that. `gate`: of a worker of the process; the
 * other gates of that process take the step too. The call only begins the step.
 *
 * A failed step of the guest ends no pause of the operator, and the other way round. daemon_gate_act() returns 0, or
 * -EBADFD: the process is not in the state that the action needs, or a step is under way. `ms`: that running work may
 * take. daemon_gate_state() tells the state from which a step that is under way began, and the last step's failure.
 */
struct daemon_gate_state {
	uint32_t state;   /* enum vcuda_process_state, perhaps with VCUDA_PROCESS_STEP */
	uint32_t failure; /* errno of the last step, 0: none */
};

int daemon_gate_act(struct daemon_gate *gate, enum vcuda_process_action action, uint32_t ms);
struct daemon_gate_state daemon_gate_state(const struct daemon_gate *gate);

#endif

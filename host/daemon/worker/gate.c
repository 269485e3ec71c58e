/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/gates.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/descriptors.h"
#include "common/fds.h"
#include "common/log.h"
#include "protocol/ipc/gate.h"
#include "worker/checkpoint.h"
#include "worker/memory-group.h"
#include "worker/worker.h"

/* A worker answers so long after the time for its work at the latest. */
#define ANSWER_MS 5000

/* Memory of a whole GPU takes half a minute, and a slow disk longer. */
#define MOVE_MS 600000

/* Other VMs wait for the memory of a VM with overcommit: it moves at least that fast, beside so long for all of it. */
#define MOVE_BYTES_PER_MS 50000
#define MOVE_LEAST_MS (10000 - ANSWER_MS)

struct daemon_gates daemon_gates = {.all = {&daemon_gates.all, &daemon_gates.all}};

void daemon_gate_set_wanted(struct daemon_gate *gate, enum daemon_gate_level wanted)
{
	gate->wanted = wanted;
	daemon_gate_step(gate);
}

enum daemon_gate_level daemon_gate_needed(const struct daemon_gate *gate)
{
	return gate->asked > gate->held ? gate->asked : gate->held;
}

void daemon_gate_tell_change(void)
{
	if (daemon_gates.changed)
		daemon_gates.changed();
}

bool daemon_gate_any(bool (*is)(const struct daemon_gate *gate))
{
	struct daemon_gate *gate, *after;

	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		if (is(gate))
			return true;
	return false;
}

uint64_t daemon_gate_memory(const struct daemon_gate *gate)
{
	return daemon_ledger_row_granted(&container_of(gate, struct daemon_worker, gate)->ledger);
}

/* Limit for a release or a restore. All workers of the VM move at once, by one disk or bus. */
static uint64_t move_ms(void)
{
	return daemon_gates.changed ? MOVE_LEAST_MS + daemon_ledger_sum() / MOVE_BYTES_PER_MS : MOVE_MS;
}

/* ---- steps by the worker ---- */

static bool is_of_channel(uint32_t type)
{
	return type == VCUDA_GATE_DETACH || type == VCUDA_GATE_ATTACH;
}

/* `file`: a descriptor that goes with the message; -1: none. */
static void ask(struct daemon_gate *gate, enum vcuda_gate_type type, int file, uint64_t ms)
{
	struct vcuda_gate_message m = {
		.type = type, .milliseconds = gate->ms, .gpus = {(uint16_t)gate->from, (uint16_t)gate->to}};
	const struct iovec part = {&m, sizeof(m)};

	/* The socket is empty. A worker that has ended is reaped soon; one without a socket becomes overdue. */
	if (gate->fd >= 0 && vcuda_fds_send(gate->fd, &part, 1, &file, file >= 0, MSG_DONTWAIT) < 0 &&
	    is_of_channel(type))
		ms = 0;
	gate->waits = true;
	gate->sent = type;
	daemon_timer_set(gate->loop, &gate->timer, ms + ANSWER_MS);
}

bool daemon_gate_is_busy(const struct daemon_gate *gate)
{
	return gate->waits;
}

void daemon_gate_tell(struct daemon_gate *gate, enum vcuda_gate_type type, int file)
{
	if (gate->waits)
		gate->stays = type == VCUDA_GATE_ATTACH;
	else
		ask(gate, type, file, move_ms());
}

/* ---- steps by the driver ---- */

/* The driver writes the memory into the worker's. Where there is no room, the kernel would kill a worker. */
static bool reserve(struct daemon_gate *gate)
{
	uint64_t bytes = daemon_gate_memory(gate);

	gate->reserved = daemon_memory_reserve(bytes) ? bytes : 0;
	return gate->reserved == bytes;
}

static void end_reservation(struct daemon_gate *gate)
{
	daemon_memory_unreserve(gate->reserved);
	gate->reserved = 0;
}

static void checkpointed(void *owner, enum daemon_checkpoint_end end);

static struct daemon_ledger_row *row_of(struct daemon_gate *gate)
{
	return &container_of(gate, struct daemon_worker, gate)->ledger;
}

/* The ledger shows the memory where it will be. False: a limit is in the way, and the memory stays where it was. */
static bool begin_move(struct daemon_gate *gate)
{
	if (gate->from == gate->to || gate->moves)
		return true;
	gate->moves = daemon_ledger_row_may_swap(row_of(gate), gate->from, gate->to);
	if (gate->moves)
		daemon_ledger_row_swap(row_of(gate), gate->from, gate->to);
	else
		gate->to = gate->from;
	return gate->moves;
}

static void end_move(struct daemon_gate *gate)
{
	gate->moves = false;
	gate->to = gate->from;
}

static void undo_move(struct daemon_gate *gate)
{
	if (gate->moves)
		daemon_ledger_row_swap(row_of(gate), gate->from, gate->to);
	end_move(gate);
}

static void checkpoint(struct daemon_gate *gate, bool release)
{
	int pidfd = container_of(gate, struct daemon_worker, gate)->pidfd;

	gate->is_image = true;
	/* A worker without a pidfd has ended, and its gate is dropped soon. */
	if (pidfd < 0) {
		gate->waits = true;
		return;
	}
	if (!release && !begin_move(gate)) {
		daemon_gate_fail_restore(gate, "quota");
		return;
	}
	gate->checkpoint = daemon_checkpoint_start(gate->loop, gate->options->checkpoint, pidfd,
						   &(struct daemon_checkpoint_step){release, gate->from, gate->to},
						   checkpointed, gate);
	if (!gate->checkpoint) {
		end_reservation(gate);
		undo_move(gate);
		release ? daemon_gate_fail(gate, "checkpoint") : daemon_gate_fail_restore(gate, "checkpoint");
		return;
	}
	gate->waits = true;
	daemon_timer_set(gate->loop, &gate->timer, move_ms() + ANSWER_MS);
}

/* The worker has said that the driver may do it. */
static void release_by_driver(struct daemon_gate *gate)
{
	if (!strcmp(gate->options->backend, "cpu")) {
		daemon_gate_fail(gate, "driver");
	} else if (!gate->options->checkpoint) {
		vcuda_log("there is no vcuda-checkpoint beside this program");
		daemon_gate_fail(gate, "checkpoint");
	} else if (reserve(gate)) {
		checkpoint(gate, true);
	} else {
		daemon_gate_fail(gate, "host-memory");
	}
}

/* The software GPU writes to the file. Another back end leaves the release to the driver. */
static void release(struct daemon_gate *gate)
{
	const char *backend = gate->options->backend, *folder = gate->options->swap_directory;
	int file = -1;

	gate->is_image = false;
	if (strcmp(backend, "cuda")) {
		file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (file < 0)
			vcuda_log("cannot make a file in %s: %m; give a folder for released memory with "
				  "--swap-directory",
				  folder);
		if (file < 0 && !strcmp(backend, "cpu")) {
			daemon_gate_fail(gate, "file");
			return;
		}
	}
	ask(gate, VCUDA_GATE_RELEASE, file, move_ms());
	if (file >= 0)
		close(file);
}

static void restore(struct daemon_gate *gate)
{
	if (gate->is_image)
		checkpoint(gate, false);
	else
		ask(gate, VCUDA_GATE_RESTORE, -1, move_ms());
}

/* ---- from level to level ---- */

/* The guest's step: up to its level, or down to it, or to where others keep the gate. */
static bool is_hold_reached(const struct daemon_gate *gate)
{
	bool leaves = gate->waits && (gate->level == DAEMON_GATE_RELEASED || gate->sent == VCUDA_GATE_OPEN);

	if (gate->held < gate->held_before)
		return gate->level <= gate->held || gate->wanted > gate->held;
	return gate->level > gate->held || (gate->level == gate->held && !leaves);
}

void daemon_gate_step(struct daemon_gate *gate)
{
	gate->holds &= !is_hold_reached(gate);
	if (gate->stays && !gate->waits) {
		gate->stays = false;
		ask(gate, VCUDA_GATE_ATTACH, -1, move_ms());
		return;
	}
	if (gate->wanted == gate->level)
		return;
	if (gate->waits) {
		/* The step may be overdue already. */
		if (!gate->timer.at)
			daemon_timer_set(gate->loop, &gate->timer, gate->ms + ANSWER_MS);
		return;
	}
	if (gate->level == DAEMON_GATE_OPEN)
		ask(gate, VCUDA_GATE_CLOSE, -1, gate->ms);
	else if (gate->level == DAEMON_GATE_RELEASED)
		restore(gate);
	else if (gate->wanted == DAEMON_GATE_RELEASED)
		release(gate);
	else
		ask(gate, VCUDA_GATE_OPEN, -1, gate->ms);
}

static void end_step(struct daemon_gate *gate)
{
	daemon_timer_clear(&gate->timer);
	gate->waits = false;
	gate->sent = 0;
	gate->checkpoint = NULL;
	end_reservation(gate);
}

/* The release did not succeed. One that was resumed meanwhile has what it wants. */
static void not_released(struct daemon_gate *gate, const char *failure)
{
	if (gate->wanted == DAEMON_GATE_RELEASED)
		daemon_gate_fail(gate, failure);
}

static void not_restored(struct daemon_gate *gate, const char *failure)
{
	if (gate->wanted < DAEMON_GATE_RELEASED)
		daemon_gate_fail_restore(gate, failure);
}

static void checkpointed(void *owner, enum daemon_checkpoint_end end)
{
	struct daemon_gate *gate = owner;
	bool releases = gate->level == DAEMON_GATE_CLOSED;

	end_step(gate);
	if (!releases && gate->moves && end == DAEMON_CHECKPOINT_DONE) {
		ask(gate, VCUDA_GATE_SWAP, -1, gate->ms);
		return;
	}
	/* A restore that was broken off may have moved the memory: the next one finds what there is to do. */
	if (!releases && end == DAEMON_CHECKPOINT_REFUSED)
		undo_move(gate);
	/* After a release that was broken off, a restore finds what there is to do. */
	if (releases ? end != DAEMON_CHECKPOINT_REFUSED : end == DAEMON_CHECKPOINT_DONE)
		gate->level = releases ? DAEMON_GATE_RELEASED : DAEMON_GATE_CLOSED;
	if (end != DAEMON_CHECKPOINT_DONE)
		releases ? not_released(gate, "driver") : not_restored(gate, "driver");
	daemon_gate_step(gate);
	daemon_gate_tell_change();
}

/* The arbiter must know which memory is on the device, and this worker does not say it. */
static bool holds_others_up(const struct daemon_gate *gate)
{
	return daemon_gates.changed && (gate->sent == VCUDA_GATE_RELEASE || gate->sent == VCUDA_GATE_RESTORE);
}

static void end_worker(struct daemon_gate *gate)
{
	vcuda_log("the worker of guest process %u has not %s its device memory in time, for which other VMs wait: it "
		  "is killed",
		  *gate->guest_pid, gate->sent == VCUDA_GATE_RELEASE ? "released" : "taken back");
	gate->broken(gate);
}

static void overdue(struct daemon_timer *timer)
{
	struct daemon_gate *gate = container_of(timer, struct daemon_gate, timer);

	if (gate->checkpoint)
		daemon_checkpoint_kill(gate->checkpoint);
	else if (container_of(gate, struct daemon_worker, gate)->ledger.stopped)
		/* Until its VM's turn the worker cannot answer. */
		daemon_timer_set(gate->loop, timer, gate->ms + ANSWER_MS);
	else if (holds_others_up(gate))
		end_worker(gate);
	else if (is_of_channel(gate->sent))
		gate->broken(gate);
	else if (gate->level == DAEMON_GATE_RELEASED)
		daemon_gate_fail_restore(gate, "worker");
	else
		daemon_gate_fail(gate, "worker");
	daemon_gate_tell_change();
}

static const char *failure_of(uint32_t state)
{
	static const char *const words[] = {
		[VCUDA_GATE_COMMAND_RUNS] = "command", [VCUDA_GATE_DEVICE_BUSY] = "device",
		[VCUDA_GATE_OUT_OF_MEMORY] = "memory", [VCUDA_GATE_NO_ROOM] = "file",
		[VCUDA_GATE_NOT_SUPPORTED] = "driver", [VCUDA_GATE_SHARED] = "shared",
	};

	return state < sizeof(words) / sizeof(*words) && words[state] ? words[state] : "memory";
}

/* Without the software GPU only a worker that has no memory has released it. */
static bool is_lie(const struct daemon_gate *gate, const struct vcuda_gate_message *m)
{
	return m->type == VCUDA_GATE_RELEASE && m->state == VCUDA_GATE_DONE &&
	       !strcmp(gate->options->backend, "cuda") && daemon_gate_memory(gate);
}

static void take_answer(struct daemon_gate *gate, const struct vcuda_gate_message *m)
{
	static const enum daemon_gate_level levels[] = {[VCUDA_GATE_CLOSE] = DAEMON_GATE_CLOSED,
							[VCUDA_GATE_OPEN] = DAEMON_GATE_OPEN,
							[VCUDA_GATE_RELEASE] = DAEMON_GATE_RELEASED,
							[VCUDA_GATE_RESTORE] = DAEMON_GATE_CLOSED,
							[VCUDA_GATE_SWAP] = DAEMON_GATE_CLOSED};

	end_step(gate);
	/* A worker that has not got its channel would wait for its process for ever. */
	if (is_of_channel(m->type) && m->state != VCUDA_GATE_DONE) {
		vcuda_log_peer("the worker of guest process %u cannot change its channel: it is killed",
			       *gate->guest_pid);
		gate->broken(gate);
		return;
	}
	if (is_of_channel(m->type)) {
		daemon_gate_step(gate);
		return;
	}
	if (m->type == VCUDA_GATE_SWAP) {
		gate->home = gate->to;
		end_move(gate);
	}
	if (m->state == VCUDA_GATE_DONE || m->type == VCUDA_GATE_OPEN || m->type == VCUDA_GATE_SWAP)
		gate->level = levels[m->type];
	else if (m->type == VCUDA_GATE_RELEASE && m->state == VCUDA_GATE_NOT_SUPPORTED &&
		 gate->wanted == DAEMON_GATE_RELEASED)
		release_by_driver(gate);
	else if (m->type == VCUDA_GATE_RELEASE)
		not_released(gate, failure_of(m->state));
	else if (m->type == VCUDA_GATE_RESTORE)
		not_restored(gate, failure_of(m->state));
	else if (gate->wanted != DAEMON_GATE_OPEN)
		daemon_gate_fail(gate, failure_of(m->state));
	daemon_gate_step(gate);
}

static void close_socket(struct daemon_gate *gate)
{
	daemon_source_remove(gate->loop, &gate->source);
	if (gate->fd >= 0)
		close(gate->fd);
	gate->fd = -1;
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_gate *gate = container_of(source, struct daemon_gate, source);
	struct vcuda_gate_message m;
	ssize_t bytes = recv(gate->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes == sizeof(m) && gate->sent && m.type == gate->sent && !is_lie(gate, &m)) {
		take_answer(gate, &m);
		daemon_gate_tell_change();
		return;
	}
	/* A worker closes the socket when it ends. One that goes on without is overdue when a pause wants it. */
	close_socket(gate);
	if (bytes <= 0)
		return;
	vcuda_log_peer("the worker of guest process %u breaks the rules of its gate: it is killed", *gate->guest_pid);
	gate->broken(gate);
}

void daemon_gate_init(struct daemon_gate *gate, struct daemon_loop *loop)
{
	*gate = (struct daemon_gate){.loop = loop, .fd = -1, .source = {.fd = -1, .ready = ready}};
	vcuda_list_init(&gate->entry);
	daemon_timer_init(&gate->timer, overdue);
}

int daemon_gate_make(struct daemon_gate *gate, int *worker_end)
{
	/* Above the descriptors that a worker is given, which are set one after the other. */
	int pair[2], status = vcuda_descriptors_pair(VCUDA_GATE_FD, pair);

	if (status)
		return status;
	gate->fd = pair[0];
	*worker_end = pair[1];
	return 0;
}

bool daemon_gate_pauses(uint32_t group)
{
	struct daemon_gate *gate, *after;

	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		if (group && gate->group == group && gate->wanted > gate->level)
			return true;
	return false;
}

int daemon_gate_start(struct daemon_gate *gate, const struct daemon_options *options, const uint32_t *guest_pid,
		      void (*broken)(struct daemon_gate *gate))
{
	int status = daemon_source_add(gate->loop, &gate->source, gate->fd, EPOLLIN);

	gate->options = options;
	gate->guest_pid = guest_pid;
	gate->broken = broken;
	vcuda_list_add(&gate->entry, &daemon_gates.all);
	gate->asked = daemon_gates.level;
	if (status || (daemon_gates.level == DAEMON_GATE_OPEN && !daemon_gates.out))
		return status;
	gate->ms = daemon_gates.level == DAEMON_GATE_OPEN ? DAEMON_GATE_MS : daemon_gates.ms;
	/* A pause that is complete does not depend on the new worker. */
	if (daemon_gate_pauses(daemon_gates.group)) {
		gate->group = daemon_gates.group;
		gate->before = daemon_gates.before;
	}
	/* A new worker has no memory to release, and its guest process must reach a command that waits. */
	daemon_gate_set_wanted(gate, DAEMON_GATE_CLOSED);
	daemon_gate_tell_change();
	return 0;
}

void daemon_gate_drop(struct daemon_gate *gate)
{
	close_socket(gate);
	daemon_timer_clear(&gate->timer);
	daemon_checkpoint_drop(gate->checkpoint);
	gate->checkpoint = NULL;
	end_reservation(gate);
	vcuda_list_remove(&gate->entry);
	daemon_gate_tell_change();
}

static bool is_of(const struct daemon_gate *gate, uint32_t guest_pid)
{
	return !guest_pid || guest_pid == *gate->guest_pid;
}

unsigned int daemon_gate_pause(uint32_t guest_pid, uint32_t ms, bool release)
{
	enum daemon_gate_level level = release ? DAEMON_GATE_RELEASED : DAEMON_GATE_CLOSED, asked;
	struct daemon_gate *gate, *after;
	unsigned int count = 0;

	daemon_gates.groups++;
	if (!guest_pid) {
		/* A pause of all may be under way: the level before that one counts. */
		if (!daemon_gate_pauses(daemon_gates.group) && !daemon_gates.out)
			daemon_gates.before = daemon_gates.level;
		daemon_gates.level = DAEMON_GATE_CLOSED;
		daemon_gates.group = daemon_gates.groups;
		daemon_gates.ms = ms;
	}
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (!is_of(gate, guest_pid))
			continue;
		gate->failure = NULL;
		count++;
		asked = gate->asked;
		gate->asked = asked > level ? asked : level;
		if (daemon_gates.out)
			continue;
		gate->group = daemon_gates.groups;
		gate->ms = ms;
		if (gate->wanted <= gate->level)
			gate->before = asked;
		/* Memory that is released stays so. */
		gate->wanted = gate->wanted > level ? gate->wanted : level;
	}
	/* The first step of a gate may fail at once, and with it the pause. */
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		daemon_gate_step(gate);
	daemon_gate_tell_change();
	return count;
}

unsigned int daemon_gate_resume(uint32_t guest_pid)
{
	struct daemon_gate *gate, *after;
	unsigned int count = 0;

	if (!guest_pid)
		daemon_gates.level = daemon_gates.before = DAEMON_GATE_OPEN;
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (!is_of(gate, guest_pid))
			continue;
		gate->failure = NULL;
		gate->asked = DAEMON_GATE_OPEN;
		count++;
		gate->before = DAEMON_GATE_OPEN;
		if (daemon_gates.out)
			continue;
		gate->group = 0;
		daemon_gate_set_wanted(gate, gate->held);
	}
	daemon_gates.resumed = daemon_gates.out;
	daemon_gate_tell_change();
	return count;
}

const char *daemon_gate_move(uint32_t guest_pid, unsigned int to)
{
	struct daemon_gate *gate, *after;

	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		if (is_of(gate, guest_pid) && (gate->level != DAEMON_GATE_RELEASED || gate->waits))
			return "the memory is not released (vcuda pause --release)";
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		if (is_of(gate, guest_pid) && !gate->is_image && daemon_gate_memory(gate))
			return "the memory is the software GPU's";
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry)
		if (is_of(gate, guest_pid) && gate->held)
			return "the guest holds the process (cuCheckpointProcessLock)";
	vcuda_list_for_each_safe (gate, after, &daemon_gates.all, struct daemon_gate, entry) {
		if (!is_of(gate, guest_pid) || !gate->is_image || gate->moves)
			continue;
		gate->from = daemon_gate_memory(gate) ? daemon_ledger_row_gpu(row_of(gate)) : gate->home;
		gate->to = to;
	}
	return NULL;
}

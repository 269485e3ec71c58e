/* SPDX-License-Identifier: Apache-2.0 */
#include "queue/gate.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/deadline.h"
#include "common/fds.h"
#include "common/log.h"
#include "common/start-thread.h"
#include "protocol/ipc/gate.h"
#include "queue/stage-queue.h"
#include "queue/turn.h"
#include "session/destroy.h"
#include "session/dispatch.h"
#include "session/ledger.h"

/* A word: this bit while the gate is closed, and how many of the word's threads are behind the gate. */
#define CLOSED 0x80000000u

/* Threads that write one cache line with each command wait for one another. So each thread has one of these words. */
#define WORDS 16

static struct gate_word {
	_Alignas(64) _Atomic uint32_t word;
} gate[WORDS];

static _Atomic uint32_t *own_word(void)
{
	static _Atomic unsigned int threads;
	static __thread _Atomic uint32_t *word;

	if (!word)
		word = &gate[atomic_fetch_add(&threads, 1) % WORDS].word;
	return word;
}

static void wait_on_word(_Atomic uint32_t *word, uint32_t seen, const struct timespec *end)
{
	/* With FUTEX_WAIT_BITSET the time is an absolute one. */
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, seen, end, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void wake_all(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* vcudad may have the gate closed until there is a command. Returns what the word is then. */
static uint32_t wait_for_opening(_Atomic uint32_t *word, uint32_t seen)
{
	const struct vcuda_turns *turns = worker_ledger_turns();
	uint64_t one = 1;

	if (turns) {
		atomic_fetch_add(&turns->demand->waiting, 1);
		/* The eventfd is full when vcudad has not read it for long: one more event would add nothing. */
		if (write(turns->drained, &one, sizeof(one)) < 0 && errno != EAGAIN)
			vcuda_log_once("cannot tell vcudad of a command that waits: %m");
	}
	while (seen & CLOSED) {
		wait_on_word(word, seen, NULL);
		seen = atomic_load(word);
	}
	if (turns)
		atomic_fetch_sub(&turns->demand->waiting, 1);
	return seen;
}

static void pass(void)
{
	const struct vcuda_turns *turns = worker_ledger_turns();
	_Atomic uint32_t *word = own_word();
	uint32_t seen = atomic_load(word);

	do {
		if (seen & CLOSED)
			seen = wait_for_opening(word, seen);
	} while (!atomic_compare_exchange_weak(word, &seen, seen + 1));
	if (!turns)
		return;
	atomic_fetch_add(&turns->demand->inside, 1);
	atomic_fetch_add(&turns->demand->commands, 1);
}

static void leave(void)
{
	const struct vcuda_turns *turns = worker_ledger_turns();
	_Atomic uint32_t *word = own_word();

	if (turns)
		atomic_fetch_sub(&turns->demand->inside, 1);
	if (atomic_fetch_sub(word, 1) == (CLOSED | 1))
		wake_all(word);
}

/* A thread that waits for its turn is not behind the gate, so that a pause need not wait for the turn. */
bool worker_gate_enter(bool gives_work)
{
	enum worker_turn turn;

	if (!gives_work) {
		pass();
		return false;
	}
	for (;;) {
		worker_turn_wait();
		pass();
		turn = worker_turn_begin();
		if (turn != WORKER_TURN_OTHER)
			return turn == WORKER_TURN_BEGUN;
		leave();
	}
}

void worker_gate_leave(bool in_turn)
{
	if (in_turn)
		worker_turn_end();
	leave();
}

static bool is_over(const struct timespec *end)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

/* False: a command is behind the gate still. */
static bool wait_until_empty(const struct timespec *end)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		uint32_t seen;

		while ((seen = atomic_load(&gate[i].word)) != CLOSED) {
			if (is_over(end))
				return false;
			wait_on_word(&gate[i].word, seen, end);
		}
	}
	return true;
}

static void shut_gate(void)
{
	for (unsigned int i = 0; i < WORDS; i++)
		atomic_fetch_or(&gate[i].word, CLOSED);
}

static void open_gate(void)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		atomic_fetch_and(&gate[i].word, ~CLOSED);
		wake_all(&gate[i].word);
	}
}

/* ---- the device ---- */

/* A thread that waits for the device may do so for ever. The next request finds the thread still there. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct worker_session *session;
	bool runs;
} wait = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* A context that a kernel's fault has ended gives an error, and is idle. */
static void synchronize(struct worker_session *s, uint64_t id)
{
	CUcontext context = worker_handle_get(s->handles, id, WORKER_ACCEPT(VCUDA_KIND_CONTEXT));

	if (!context)
		return;
	if (s->ops->cuCtxSetCurrent(context) == CUDA_SUCCESS)
		s->ops->cuCtxSynchronize();
	/* The context may end now, and then no thread may have it. */
	s->ops->cuCtxSetCurrent(NULL);
	if (worker_handle_put(s->handles, id))
		worker_destroy_ready(s);
}

static void *wait_for_device(void *unused)
{
	struct worker_session *s = wait.session;

	worker_stage_queue_drain(s);
	for (uint64_t id = 0; (id = worker_handle_next(s->handles, VCUDA_KIND_CONTEXT, id));)
		synchronize(s, id);
	pthread_mutex_lock(&wait.lock);
	wait.runs = false;
	pthread_cond_signal(&wait.ended);
	pthread_mutex_unlock(&wait.lock);
	return unused;
}

/* With the lock held. False: no thread could be started. */
static bool start_wait(struct worker_session *s)
{
	wait.session = s;
	wait.runs = vcuda_thread_start_with(NULL, vcuda_faults, wait_for_device, NULL);
	return wait.runs;
}

/* With the lock held. False: the time is over. */
static bool wait_until_ended(const struct timespec *end)
{
	while (wait.runs)
		if (pthread_cond_clockwait(&wait.ended, &wait.lock, CLOCK_MONOTONIC, end) == ETIMEDOUT)
			return !wait.runs;
	return true;
}

static enum vcuda_gate_state drain_device(struct worker_session *s, const struct timespec *end)
{
	enum vcuda_gate_state state = VCUDA_GATE_DONE;

	if (!s->ops)
		return state;
	pthread_mutex_lock(&wait.lock);
	/* A thread of an earlier request has not seen what came after it. */
	if (!wait_until_ended(end))
		state = VCUDA_GATE_DEVICE_BUSY;
	else if (!start_wait(s))
		state = VCUDA_GATE_OUT_OF_MEMORY;
	else if (!wait_until_ended(end))
		state = VCUDA_GATE_DEVICE_BUSY;
	pthread_mutex_unlock(&wait.lock);
	return state;
}

/* ---- vcudad's requests ---- */

static void close_gate(struct worker_session *s, struct vcuda_gate_message *m)
{
	struct timespec end = vcuda_deadline(m->milliseconds * UINT64_C(1000000));

	shut_gate();
	m->state = wait_until_empty(&end) ? drain_device(s, &end) : VCUDA_GATE_COMMAND_RUNS;
	if (m->state == VCUDA_GATE_DONE && !worker_turn_settle())
		m->state = VCUDA_GATE_DEVICE_BUSY;
	if (m->state != VCUDA_GATE_DONE)
		open_gate();
}

static enum vcuda_gate_state state_of(int status)
{
	return !status ? VCUDA_GATE_DONE : status == -ENOMEM ? VCUDA_GATE_OUT_OF_MEMORY : VCUDA_GATE_NO_ROOM;
}

/* A worker without a back end has no memory to release. The file is the back end's if the release succeeds. */
static enum vcuda_gate_state release(const struct worker_session *s, int *file)
{
	enum vcuda_gate_state state;

	if (!s->ops)
		return VCUDA_GATE_DONE;
	if (s->has_shared && s->has_shared())
		return VCUDA_GATE_SHARED;
	if (!s->release || *file < 0)
		return VCUDA_GATE_NOT_SUPPORTED;
	state = state_of(s->release(*file));
	if (state == VCUDA_GATE_DONE)
		*file = -1;
	return state;
}

static enum vcuda_gate_state restore(const struct worker_session *s)
{
	return s->ops && s->restore ? state_of(s->restore()) : VCUDA_GATE_DONE;
}

static enum vcuda_gate_state change_channel(const struct worker_session *s, uint32_t type, int file)
{
	if (!s->detach)
		return VCUDA_GATE_NOT_SUPPORTED;
	if (type == VCUDA_GATE_ATTACH)
		return state_of(s->attach(file));
	s->detach();
	return VCUDA_GATE_DONE;
}

static void serve(struct worker_session *s, struct vcuda_gate_message *m, int *file)
{
	m->state = VCUDA_GATE_DONE;
	if (m->type == VCUDA_GATE_CLOSE)
		close_gate(s, m);
	else if (m->type == VCUDA_GATE_OPEN)
		open_gate();
	else if (m->type == VCUDA_GATE_RELEASE)
		m->state = release(s, file);
	else if (m->type == VCUDA_GATE_SWAP)
		worker_ledger_swap(m->gpus[0], m->gpus[1]);
	else if (m->type == VCUDA_GATE_DETACH || m->type == VCUDA_GATE_ATTACH)
		m->state = change_channel(s, m->type, *file);
	else
		m->state = restore(s);
}

/* The bytes, or -errno. *file: the descriptor that came with the message, which is the caller's; -1: none. */
static ssize_t receive(struct vcuda_gate_message *m, int *file)
{
	const struct iovec part = {m, sizeof(*m)};
	struct vcuda_fds fds;
	ssize_t bytes = vcuda_fds_receive(VCUDA_GATE_FD, &part, 1, &fds, 0);

	*file = vcuda_fds_take(&fds);
	return bytes;
}

void worker_gate_serve(struct worker_session *s)
{
	struct vcuda_gate_message m;
	int file;

	while (receive(&m, &file) == sizeof(m)) {
		serve(s, &m, &file);
		if (file >= 0)
			close(file);
		if (send(VCUDA_GATE_FD, &m, sizeof(m), MSG_NOSIGNAL) != sizeof(m))
			break;
	}
}

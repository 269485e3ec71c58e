/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "guest/driver/uapi.h"
#include "protocol/ipc/process.h"
#include "restore.h"
#include "transport.h"

/* A step takes a millisecond, or seconds. */
#define FIRST_NAP_NS 200000
#define LONGEST_NAP_NS 20000000

/* For the process's own part of a step: of one that has begun to copy its memory, and until it has begun. */
#define COPY_MS 60000
#define FOLLOW_MS 8000

/* A process that is restored on disk has its session only when its restore thread has asked for it. */
#define CLAIM_MS 2000

/* The restore thread is signalled so often, in case it was looking while the step ended. */
#define NUDGE_MS 100

static bool is_wanted(const struct client_transport_ops *transport)
{
	const char *only = getenv("VCUDA_TRANSPORT");

	return !only || !*only || !strcmp(only, transport->name);
}

/* ---- local ---- */

static int ask_vcudad(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct vcuda_process_request request = {
		.action = action, .milliseconds = milliseconds, .pid = (uint32_t)p->pid};
	struct vcuda_process_reply reply;
	ssize_t bytes;

	if (send(p->own.fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return -errno;
	do {
		bytes = recv(p->own.fd, &reply, sizeof(reply), 0);
	} while (bytes < 0 && errno == EINTR);
	if (bytes < 0)
		return errno == EAGAIN ? -EIO : -errno;
	if (bytes != sizeof(reply))
		return bytes ? -EPROTO : -ECONNRESET;
	p->state = reply.state;
	p->failure = reply.failure;
	p->flags = reply.flags;
	return reply.status;
}

/* ---- /dev/vcuda ---- */

static int ask_driver(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	struct vcuda_process m = {.pid = p->pid, .action = action, .milliseconds = milliseconds};

	while (ioctl(p->own.fd, VCUDA_IOC_PROCESS, &m)) {
		if (errno == EINTR)
			continue;
		return errno == ENOTTY ? -EOPNOTSUPP : -errno;
	}
	p->state = m.state;
	p->failure = m.failure;
	return 0;
}

/* ---- both ---- */

static int open_transport(struct client_process *p)
{
	int fd = is_wanted(&client_transport_virtio) ? open(VCUDA_DEVICE_PATH, O_RDWR | O_CLOEXEC) : -1;

	if (fd >= 0)
		return vcuda_own_descriptor_take(&p->own, fd);
	if (is_wanted(&client_transport_virtio) && errno != ENOENT)
		return -errno;
	p->is_local = true;
	return is_wanted(&client_transport_local) ? client_local_dialog(NULL, &p->own) : -ENOENT;
}

int client_process_open(struct client_process *p, int pid)
{
	int err, guarded = vcuda_own_descriptor_guard();

	*p = (struct client_process){.pid = pid, .own.fd = -1};
	err = open_transport(p);
	vcuda_own_descriptor_unguard(guarded);
	return err;
}

void client_process_close(struct client_process *p)
{
	vcuda_own_descriptor_close(&p->own);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void take_nap(struct timespec *nap)
{
	nanosleep(nap, NULL);
	nap->tv_nsec = 2 * nap->tv_nsec < LONGEST_NAP_NS ? 2 * nap->tv_nsec : LONGEST_NAP_NS;
}

pid_t client_process_thread(const struct client_process *p)
{
	return p->flags & VCUDA_PROCESS_HAS_THREAD ? client_restore_find(p->pid) : 0;
}

/* Signals the restore thread and asks for the state until is_done() or `ms` are over. 0: it is done. */
static int ask_thread(struct client_process *p, pid_t thread, uint64_t ms, bool restores,
		      bool (*is_done)(const struct client_process *p, int err))
{
	struct timespec nap = {.tv_nsec = FIRST_NAP_NS};
	uint64_t end = now_ms() + ms, nudge = 0;
	int err;

	for (;;) {
		if (thread && now_ms() >= nudge) {
			client_restore_nudge(p->pid, thread, restores);
			nudge = now_ms() + NUDGE_MS;
		}
		take_nap(&nap);
		err = ask_vcudad(p, VCUDA_PROCESS_GET_STATE, 0);
		if (is_done(p, err))
			return 0;
		if (!thread)
			return err ? err : -ESRCH;
		if (now_ms() >= end)
			return err ? err : -ETIMEDOUT;
	}
}

static bool is_known(const struct client_process *p, int err)
{
	(void)p;
	return err != -ESRCH;
}

int client_process_act(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	pid_t thread;
	int err;

	if (!p->is_local)
		return ask_driver(p, action, milliseconds);
	err = ask_vcudad(p, action, milliseconds);
	/* The number may be another process's, to whom vcudad has not been introduced yet. */
	thread = err == -ESRCH ? client_restore_find(p->pid) : 0;
	if (thread && !ask_thread(p, thread, CLAIM_MS, true, is_known))
		err = ask_vcudad(p, action, milliseconds);
	return err;
}

static int make_step(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	static const enum vcuda_process_state ends[VCUDA_PROCESS_ACTIONS] = {
		[VCUDA_PROCESS_LOCK] = VCUDA_PROCESS_LOCKED,
		[VCUDA_PROCESS_CHECKPOINT] = VCUDA_PROCESS_CHECKPOINTED,
		[VCUDA_PROCESS_RESTORE] = VCUDA_PROCESS_LOCKED,
		[VCUDA_PROCESS_UNLOCK] = VCUDA_PROCESS_RUNNING};
	struct timespec nap = {.tv_nsec = FIRST_NAP_NS};
	int err = client_process_act(p, action, milliseconds);

	while (!err && p->state & VCUDA_PROCESS_STEP) {
		take_nap(&nap);
		err = client_process_act(p, VCUDA_PROCESS_GET_STATE, 0);
		/* A process that goes on may end at once. */
		if (err == -ESRCH && action == VCUDA_PROCESS_UNLOCK)
			return 0;
	}
	if (err || p->failure)
		return err ? err : -(int)p->failure;
	/* Another caller has taken a step meanwhile, or a worker was replaced. */
	return p->state == ends[action] ? 0 : -EBADFD;
}

/* ---- the process's own part ---- */

static bool is_quiet(const struct client_process *p, int err)
{
	return err || p->flags & (VCUDA_PROCESS_QUIET | VCUDA_PROCESS_STAYS) || p->state != VCUDA_PROCESS_LOCKED;
}

static bool is_detached(const struct client_process *p, int err)
{
	return err || p->flags & (VCUDA_PROCESS_DETACHED | VCUDA_PROCESS_STAYS) ||
	       p->state != VCUDA_PROCESS_CHECKPOINTED;
}

static bool has_begun(const struct client_process *p, int err)
{
	return is_detached(p, err) || p->flags & (VCUDA_PROCESS_QUIET | VCUDA_PROCESS_COPIES);
}

static bool is_attached(const struct client_process *p, int err)
{
	return err || !(p->flags & VCUDA_PROCESS_APART);
}

static bool goes_on(const struct client_process *p, int err)
{
	return err || !(p->flags & (VCUDA_PROCESS_QUIET | VCUDA_PROCESS_STAYS)) || p->state != VCUDA_PROCESS_RUNNING;
}

/* A process that has no thread for it stays attached. One that copies, or that does not answer, may be detached yet. */
static int follow_checkpoint(struct client_process *p)
{
	pid_t thread = client_process_thread(p);
	int err = 0;

	if (!thread)
		return 0;
	if (!has_begun(p, 0))
		err = ask_thread(p, thread, FOLLOW_MS, false, has_begun);
	if (!err)
		err = ask_thread(p, thread, COPY_MS, false, is_detached);
	return err ? err : ask_vcudad(p, VCUDA_PROCESS_GET_STATE, 0);
}

/* A process that has its session needs no thread. One that has not cannot go on. */
static int follow_restore(struct client_process *p)
{
	int err = ask_vcudad(p, VCUDA_PROCESS_GET_STATE, 0);
	pid_t thread = client_process_thread(p);

	if (err || (is_attached(p, 0) && !thread))
		return err;
	err = ask_thread(p, thread, COPY_MS, true, is_attached);
	return err ? err : ask_vcudad(p, VCUDA_PROCESS_GET_STATE, 0);
}

/* Locking and unlocking do not fail: the next step waits for the process again. */
static int follow(struct client_process *p, enum vcuda_process_action action)
{
	pid_t thread;

	if (!p->is_local || !(p->flags & VCUDA_PROCESS_KNOWN))
		return 0;
	if (action == VCUDA_PROCESS_CHECKPOINT)
		return follow_checkpoint(p);
	if (action == VCUDA_PROCESS_RESTORE)
		return follow_restore(p);
	thread = client_process_thread(p);
	if (thread)
		ask_thread(p, thread, FOLLOW_MS, false, action == VCUDA_PROCESS_LOCK ? is_quiet : goes_on);
	return 0;
}

/* An earlier caller has ended, or has waited too long, before the process had done its part. */
static bool is_half_done(struct client_process *p, enum vcuda_process_action action)
{
	if (!p->is_local || client_process_act(p, VCUDA_PROCESS_GET_STATE, 0))
		return false;
	if (action == VCUDA_PROCESS_RESTORE)
		return p->state == VCUDA_PROCESS_LOCKED && p->flags & VCUDA_PROCESS_APART;
	return action == VCUDA_PROCESS_CHECKPOINT && p->state == VCUDA_PROCESS_CHECKPOINTED &&
	       p->flags & VCUDA_PROCESS_KNOWN && !is_detached(p, 0) && client_process_thread(p);
}

/* The host waits for work no longer than VCUDA_PROCESS_MS_MAX at a time. */
int client_process_step(struct client_process *p, enum vcuda_process_action action, uint32_t milliseconds)
{
	uint64_t end = milliseconds ? now_ms() + milliseconds : UINT64_MAX, left;
	int err;

	if (is_half_done(p, action))
		return follow(p, action);
	do {
		left = end - now_ms();
		err = make_step(p, action, left < VCUDA_PROCESS_MS_MAX ? (uint32_t)left : VCUDA_PROCESS_MS_MAX);
	} while (err == -ETIMEDOUT && action == VCUDA_PROCESS_LOCK && now_ms() < end);
	return err ? err : follow(p, action);
}

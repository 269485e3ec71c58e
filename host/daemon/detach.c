/* SPDX-License-Identifier: Apache-2.0 */
#include "detach.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/log.h"
#include "protocol/control.h"
#include "protocol/ipc/gate.h"
#include "worker/gates.h"
#include "worker/worker.h"

/* An owner runs another program so long at most until it counts as ended. */
#define LOOK_MS 2000

/* Reading a thread's name takes microseconds and blocks vcudad. The restore thread is among the oldest. */
#define MOST_THREADS 64u

static struct daemon_worker *worker_of(struct daemon_detach *detach)
{
	return container_of(detach, struct daemon_worker, detach);
}

static void forget_owner(struct daemon_detach *d)
{
	daemon_source_remove(worker_of(d)->loop, &d->owner_source);
	if (d->owner >= 0)
		close(d->owner);
	d->owner = -1;
	d->thread = 0;
}

/* The thread's name is that of guest/client/restore.h. */
static bool is_restore_thread(uint32_t process, const char *thread)
{
	char path[300], name[32];
	FILE *file;
	bool is;

	snprintf(path, sizeof(path), "/proc/%u/task/%s/comm", process, thread);
	file = fopen(path, "re");
	is = file && fgets(name, sizeof(name), file) && !strcmp(name, VCUDA_RESTORE_THREAD "\n");
	if (file)
		fclose(file);
	return is;
}

/*
 * The restore thread's number, or 0 if none of the first MOST_THREADS threads has its name. *all: the process has no
 * more threads.
 */
static uint32_t find_restore_thread(uint32_t process, DIR *threads, bool *all)
{
	struct dirent *entry;
	unsigned int count = 0;

	*all = true;
	while ((entry = readdir(threads))) {
		if (*entry->d_name == '.')
			continue;
		*all = ++count <= MOST_THREADS;
		if (!*all)
			break;
		if (is_restore_thread(process, entry->d_name))
			return (uint32_t)strtoul(entry->d_name, NULL, 10);
	}
	return 0;
}

/* An owner whose threads cannot be seen, or that has too many to look at all, has it. */
static bool has_restore_thread(struct daemon_worker *w)
{
	char path[32];
	DIR *threads;
	bool all;

	snprintf(path, sizeof(path), "%u", w->detach.thread);
	if (w->detach.thread && is_restore_thread(w->guest.pid, path))
		return true;
	snprintf(path, sizeof(path), "/proc/%u/task", w->guest.pid);
	threads = opendir(path);
	if (!threads)
		return true;
	w->detach.thread = find_restore_thread(w->guest.pid, threads, &all);
	closedir(threads);
	return w->detach.thread || !all;
}

static void owner_ended(struct daemon_detach *d)
{
	forget_owner(d);
	daemon_timer_set(worker_of(d)->loop, &d->timer, d->keep * UINT64_C(1000));
}

static void look_at_owner(struct daemon_detach *d)
{
	if (has_restore_thread(worker_of(d)))
		daemon_timer_set(worker_of(d)->loop, &d->timer, LOOK_MS);
	else
		owner_ended(d);
}

static void expired(struct daemon_timer *timer)
{
	struct daemon_detach *d = container_of(timer, struct daemon_detach, timer);
	struct daemon_worker *w = worker_of(d);

	if (d->owner >= 0) {
		look_at_owner(d);
		return;
	}
	vcuda_log_peer("guest process %u of user %u ended, or began another program, while it was checkpointed, and no "
		       "process has claimed its session for %u s (--keep-detached): worker %d is killed",
		       w->guest.pid, w->guest.uid, d->keep, w->pid);
	daemon_worker_kill(w);
}

static void ready(struct daemon_source *source, uint32_t events)
{
	owner_ended(container_of(source, struct daemon_detach, owner_source));
}

void daemon_detach_init(struct daemon_worker *w)
{
	w->detach = (struct daemon_detach){.owner = -1, .owner_source = {.fd = -1, .ready = ready}};
	daemon_timer_init(&w->detach.timer, expired);
}

void daemon_detach_drop(struct daemon_worker *w)
{
	struct daemon_detach *d = &w->detach;

	forget_owner(d);
	daemon_timer_clear(&d->timer);
	explicit_bzero(d->token, sizeof(d->token));
	d->has_token = false;
}

/* The process that the socket names waits for our answer: the number is its own still. */
static int watch_owner(struct daemon_detach *d, uint32_t pid)
{
	int status;

	forget_owner(d);
	d->owner = (int)syscall(SYS_pidfd_open, pid, 0);
	if (d->owner < 0)
		return -errno;
	status = daemon_source_add(worker_of(d)->loop, &d->owner_source, d->owner, EPOLLIN);
	if (status)
		forget_owner(d);
	return status;
}

static bool is_in_state(const struct daemon_gate *gate, enum vcuda_process_state state)
{
	return daemon_gate_state(gate).state == (uint32_t)state;
}

bool daemon_detach_is_possible(const struct daemon_worker *w)
{
	return !(w->detach.flags & VCUDA_PROCESS_DETACHED) && !w->ending &&
	       is_in_state(&w->gate, VCUDA_PROCESS_CHECKPOINTED) && !daemon_gate_is_busy(&w->gate);
}

int daemon_detach_begin(struct daemon_worker *w, const struct daemon_options *options)
{
	struct daemon_detach *d = &w->detach;
	int status;

	if (d->has_token || !daemon_detach_is_possible(w))
		return -EAGAIN;
	if (getrandom(d->token, sizeof(d->token), GRND_NONBLOCK) != sizeof(d->token))
		return -EIO;
	status = watch_owner(d, w->guest.pid);
	if (status)
		return status;
	d->keep = options->keep_detached;
	d->has_token = true;
	daemon_gate_tell(&w->gate, VCUDA_GATE_DETACH, -1);
	return 0;
}

void daemon_detach_end(struct daemon_worker *w)
{
	struct daemon_detach *d = &w->detach;

	if (!d->has_token)
		return;
	d->flags = VCUDA_PROCESS_DETACHED;
	if (d->owner >= 0)
		daemon_timer_set(w->loop, &d->timer, LOOK_MS);
	else if (!d->timer.at)
		owner_ended(d);
}

void daemon_detach_cancel(struct daemon_worker *w)
{
	if (!w->detach.has_token)
		return;
	daemon_detach_drop(w);
	/* A worker that takes a step hears of it when the step has ended. */
	daemon_gate_tell(&w->gate, VCUDA_GATE_ATTACH, -1);
}

bool daemon_detach_is_token(const struct daemon_worker *w, const uint8_t token[VCUDA_TOKEN_BYTES])
{
	const volatile uint8_t *own = w->detach.token;
	uint8_t differs = 0;

	for (size_t i = 0; i < VCUDA_TOKEN_BYTES; i++)
		differs |= own[i] ^ token[i];
	return !differs && !w->ending && w->detach.has_token && w->detach.flags & VCUDA_PROCESS_DETACHED;
}

int daemon_detach_claim(struct daemon_worker *w, const struct ucred *who)
{
	struct daemon_detach *d = &w->detach;
	int status;

	if (who->uid != w->guest.uid)
		return -EPERM;
	if ((uint32_t)who->pid == w->guest.pid && d->owner >= 0)
		return 0;
	/* The session's owner is alive. */
	if (d->owner >= 0)
		return -EPERM;
	status = watch_owner(d, (uint32_t)who->pid);
	if (status)
		return status;
	daemon_timer_set(w->loop, &d->timer, LOOK_MS);
	vcuda_log_debug("process %d has claimed the session of process %u", who->pid, w->guest.pid);
	w->guest.pid = w->log.guest_pid = (uint32_t)who->pid;
	return 0;
}

bool daemon_detach_may_attach(const struct daemon_worker *w)
{
	return is_in_state(&w->gate, VCUDA_PROCESS_LOCKED) && !daemon_gate_is_busy(&w->gate);
}

void daemon_detach_attach(struct daemon_worker *w, int connection)
{
	daemon_detach_drop(w);
	w->detach.flags = VCUDA_PROCESS_RETURNS;
	daemon_gate_tell(&w->gate, VCUDA_GATE_ATTACH, connection);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "local-restore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "common/log.h"
#include "detach.h"

struct search {
	const struct daemon_restore *restore;
	const struct vcuda_restore_request *request;
	struct daemon_worker *found;
};

/* All processes that vcudad cannot see, in another pid namespace, have the number 0. */
static bool is_of(const struct daemon_restore *restore, const struct daemon_worker *worker)
{
	return restore->who.pid > 0 && worker->guest.pid == (uint32_t)restore->who.pid &&
	       worker->guest.uid == restore->who.uid;
}

static void look_for_worker(struct daemon_worker *worker, void *argument)
{
	struct search *search = argument;

	if ((uint32_t)worker->pid == search->request->head.worker && !worker->ending &&
	    is_of(search->restore, worker) && !daemon_detach_is_ownerless(&worker->detach))
		search->found = worker;
}

/* All are looked at, so that the time tells nothing. */
static void look_for_token(struct daemon_worker *worker, void *argument)
{
	struct search *search = argument;

	if (daemon_detach_is_token(worker, search->request->token))
		search->found = worker;
}

static struct daemon_worker *find(const struct daemon_restore *restore, const struct vcuda_restore_request *request,
				  void (*look)(struct daemon_worker *worker, void *argument))
{
	struct search search = {.restore = restore, .request = request};

	daemon_local_each(restore->local, look, &search);
	return search.found;
}

static int detach(struct daemon_restore *restore, struct daemon_worker *worker, struct vcuda_restore_reply *reply)
{
	int status = daemon_detach_begin(worker, restore->local->options);

	if (status)
		return status;
	memcpy(reply->token, worker->detach.token, sizeof(reply->token));
	restore->worker = worker->pid;
	return 0;
}

/* A process whose connection ended before it knew that it is detached has kept its channel, and says that it stays. */
static int say(struct daemon_restore *restore, struct daemon_worker *worker, uint32_t flags)
{
	if (worker->detach.flags & VCUDA_PROCESS_DETACHED && !(flags & VCUDA_PROCESS_STAYS))
		return -EBADFD;
	daemon_detach_cancel(worker);
	restore->worker = 0;
	worker->detach.has_thread = true;
	worker->detach.flags = flags;
	return 0;
}

static int say_copies(struct daemon_restore *restore, struct daemon_worker *worker)
{
	return daemon_detach_is_possible(worker) ? say(restore, worker, VCUDA_PROCESS_QUIET | VCUDA_PROCESS_COPIES)
						 : -EAGAIN;
}

static int act_on_own(struct daemon_restore *restore, const struct vcuda_restore_request *m,
		      struct vcuda_restore_reply *reply)
{
	struct daemon_worker *worker = find(restore, m, look_for_worker);

	if (!worker)
		return -ESRCH;
	switch (m->head.action) {
	case VCUDA_RESTORE_LOOK:
		reply->head.state = daemon_gate_state(&worker->gate).state;
		return 0;
	case VCUDA_RESTORE_QUIET:
		return say(restore, worker, VCUDA_PROCESS_QUIET);
	case VCUDA_RESTORE_BUSY:
		return say(restore, worker, VCUDA_PROCESS_STAYS);
	case VCUDA_RESTORE_STAYS:
		return say(restore, worker, VCUDA_PROCESS_QUIET | VCUDA_PROCESS_STAYS);
	case VCUDA_RESTORE_GOES_ON:
		return say(restore, worker, 0);
	case VCUDA_RESTORE_COPIES:
		return say_copies(restore, worker);
	case VCUDA_RESTORE_DETACH:
		return detach(restore, worker, reply);
	default:
		return -EINVAL;
	}
}

/* The reply goes first: behind it the worker reads. */
static enum daemon_restore_next attach(struct daemon_restore *restore, struct daemon_worker *worker,
				       struct vcuda_restore_reply *reply)
{
	int fd = restore->fd;

	if (send(fd, reply, sizeof(*reply), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*reply))
		return DAEMON_RESTORE_CLOSE;
	/* The worker expects a descriptor that blocks. */
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	daemon_detach_attach(worker, fd);
	return DAEMON_RESTORE_GIVEN;
}

static enum daemon_restore_next act_by_token(struct daemon_restore *restore, const struct vcuda_restore_request *m,
					     struct vcuda_restore_reply *reply)
{
	struct daemon_worker *worker = find(restore, m, look_for_token);

	/* A connection tries one token. */
	if (!worker) {
		vcuda_log_peer("process %d of user %u has claimed a session that is not there", restore->who.pid,
			       restore->who.uid);
		reply->head.status = -ENOENT;
		return DAEMON_RESTORE_CLOSE;
	}
	reply->head.status = daemon_detach_claim(worker, &restore->who);
	if (reply->head.status)
		return DAEMON_RESTORE_CLOSE;
	reply->head.state = daemon_gate_state(&worker->gate).state;
	if (m->head.action == VCUDA_RESTORE_CLAIM)
		return DAEMON_RESTORE_GOES_ON;
	if (daemon_detach_may_attach(worker))
		return attach(restore, worker, reply);
	reply->head.status = -EAGAIN;
	return DAEMON_RESTORE_GOES_ON;
}

enum daemon_restore_next daemon_local_restore_act(struct daemon_restore *restore, const struct vcuda_restore_request *m,
						  struct vcuda_restore_reply *reply)
{
	bool by_token = m->head.action == VCUDA_RESTORE_CLAIM || m->head.action == VCUDA_RESTORE_ATTACH;

	*reply = (struct vcuda_restore_reply){0};
	if (restore->local->options->no_guest_checkpoint) {
		reply->head.status = -EOPNOTSUPP;
		return DAEMON_RESTORE_GOES_ON;
	}
	if (by_token)
		return act_by_token(restore, m, reply);
	reply->head.status = act_on_own(restore, m, reply);
	return DAEMON_RESTORE_GOES_ON;
}

static void end_of_worker(struct daemon_worker *worker, void *argument)
{
	const struct daemon_restore *restore = argument;

	/* Another worker may have its number by now. */
	if (worker->pid == restore->worker && is_of(restore, worker))
		daemon_detach_end(worker);
}

void daemon_local_restore_end(struct daemon_restore *restore)
{
	if (restore->worker)
		daemon_local_each(restore->local, end_of_worker, restore);
	restore->worker = 0;
}

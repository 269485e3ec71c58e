/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local.h"
#include "common/log.h"
#include "common/trace-point.h"
#include "quotas.h"
#include "worker.h"

struct client {
	struct vcuda_list entry;
	struct daemon_local *local;
	struct daemon_worker *worker;
	struct ucred who;
	int fd; /* the connection, while a warm worker has yet to take it; -1 */
};

static void client_free(struct client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	vcuda_list_remove(&client->entry);
	client->local->count--;
	free(client);
}

static bool start(struct client *client, int fd);

static void worker_reaped(struct daemon_worker *worker)
{
	struct client *client = worker->owner;
	int fd = client->fd;

	/* A warm worker that died before it had the connection: the client gets another. */
	if (fd >= 0 && !client->local->closed && start(client, fd)) {
		client->fd = -1;
		close(fd);
		return;
	}
	vcuda_log_debug("the worker %d of process %d is gone", worker->pid, client->who.pid);
	client_free(client);
}

/* A warm worker has taken the connection, or could not. */
static void worker_reply(struct daemon_worker *worker, const struct vcuda_channel_message *reply)
{
	struct client *client = worker->owner;

	if (reply->status) {
		daemon_worker_kill(worker);
		return;
	}
	close(client->fd);
	client->fd = -1;
	daemon_worker_let_go(worker);
}

static void worker_wake(struct daemon_worker *worker)
{
}

static const struct daemon_worker_ops worker_ops = {worker_reply, worker_wake, worker_reaped};

static bool start(struct client *client, int fd)
{
	struct daemon_local *local = client->local;
	int status;

	client->worker =
		daemon_worker_start_local(local->listener.loop, local->options, fd, &worker_ops, client, &status);
	if (!client->worker)
		return false;
	daemon_worker_serve(client->worker, (uint32_t)client->who.pid, client->who.uid);
	vcuda_log_debug("worker %d for process %d of user %u", client->worker->pid, client->who.pid,
			client->who.uid);
	return true;
}

/* Gives the connection to a warm worker, if there is one; ours stays open until it has said that it has it. */
static bool start_warm(struct client *client, int fd)
{
	struct vcuda_channel_message m = {.type = VCUDA_CHANNEL_CLIENT};

	client->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (client->fd >= 0)
		client->worker = daemon_warm_pool_take(client->local->warm_pool, &worker_ops, client);
	if (!client->worker) {
		if (client->fd >= 0)
			close(client->fd);
		client->fd = -1;
		return false;
	}
	daemon_worker_serve(client->worker, (uint32_t)client->who.pid, client->who.uid);
	vcuda_log_debug("warm worker %d for process %d of user %u", client->worker->pid, client->who.pid,
			client->who.uid);
	if (daemon_worker_send(client->worker, &m, NULL, &fd, 1))
		daemon_worker_kill(client->worker);
	return true;
}

/* One of ours whose libcuda.so.1 is the guest's: it would wait for a worker that would wait for another one. */
static bool is_own_worker(pid_t process)
{
	siginfo_t unused;

	return !waitid(P_PID, (id_t)process, &unused, WEXITED | WNOHANG | WNOWAIT);
}

static bool may_enter(const struct daemon_local *local, const struct ucred *who)
{
	if (is_own_worker(who->pid)) {
		vcuda_log_peer("worker %d is refused: the libcuda.so.1 that its loader finds is virtio-cuda's own, and "
			       "VCUDA_SOCKET names this daemon",
			       who->pid);
		return false;
	}
	if (local->options->allow_any_user || who->uid == geteuid() || who->uid == 0)
		return true;
	vcuda_log_peer("process %d of user %u is refused: not our user (allow with --allow-any-user)", who->pid,
		       who->uid);
	return false;
}

/* The worker expects a descriptor that blocks; ours does not outlive this call. */
static void serve(struct daemon_local *local, int fd, const struct ucred *who)
{
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return;
	*client = (struct client){.local = local, .who = *who, .fd = -1};
	vcuda_list_add(&client->entry, &local->clients);
	local->count++;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	if (!start_warm(client, fd) && !start(client, fd))
		client_free(client);
}

static void accepted(struct daemon_listener *listener, int fd)
{
	struct daemon_local *local = container_of(listener, struct daemon_local, listener);
	struct ucred who;
	socklen_t length = sizeof(who);

	vcuda_trace_point("vcudad: a client is there");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) || !may_enter(local, &who))
		goto close;
	if (local->count >= local->options->max_contexts) {
		daemon_quota_refuse(DAEMON_QUOTA_CONTEXTS);
		vcuda_log_peer("process %d of user %u is refused: there are %u clients (raise --max-contexts)", who.pid,
			       who.uid, local->count);
		goto close;
	}
	serve(local, fd, &who);
close:
	close(fd);
}

int daemon_local_open(struct daemon_local *local, struct daemon_loop *loop, const struct daemon_options *options,
		     struct daemon_warm_pool *pool)
{
	*local = (struct daemon_local){.options = options, .warm_pool = pool, .listener = {.fd = -1, .accepted = accepted}};
	vcuda_list_init(&local->clients);
	if (!options->socket)
		return 0;
	return daemon_listener_open(&local->listener, loop, options->socket, SOCK_SEQPACKET, options->socket_mode);
}

void daemon_local_each(struct daemon_local *local, void (*call)(const struct daemon_worker *worker, void *argument),
		       void *argument)
{
	struct client *client, *after;

	vcuda_list_for_each_safe (client, after, &local->clients, struct client, entry)
		call(client->worker, argument);
}

unsigned int daemon_local_kill(struct daemon_local *local, uint32_t pid)
{
	struct client *client, *after;
	unsigned int killed = 0;

	vcuda_list_for_each_safe (client, after, &local->clients, struct client, entry) {
		if (pid && client->worker->guest.pid != pid)
			continue;
		/* Else the client would get another worker. */
		if (client->fd >= 0)
			close(client->fd);
		client->fd = -1;
		daemon_worker_kill(client->worker);
		killed++;
	}
	return killed;
}

void daemon_local_close(struct daemon_local *local)
{
	local->closed = true;
	daemon_listener_close(&local->listener);
	daemon_local_kill(local, 0);
}

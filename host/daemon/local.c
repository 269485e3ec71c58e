/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "detach.h"
#include "local.h"
#include "local-process.h"
#include "common/log.h"
#include "common/trace-point.h"
#include "options/quotas.h"
#include "worker/worker.h"

/* Connections that wait, of all users: each is a descriptor of ours. */
#define WAITING_MAX 1024

struct waiting {
	struct vcuda_list entry;
	struct ucred who;
	int fd;
};

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

	daemon_detach_drop(worker);
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

static const struct daemon_worker_ops worker_ops = {
	.reply = worker_reply, .wake = worker_wake, .reaped = worker_reaped};

static bool start(struct client *client, int fd)
{
	struct daemon_local *local = client->local;
	int status;

	client->worker =
		daemon_worker_start_local(local->listener.loop, local->options, fd, &worker_ops, client, &status);
	if (!client->worker)
		return false;
	daemon_detach_init(client->worker);
	daemon_worker_serve(client->worker, (uint32_t)client->who.pid, client->who.uid, client->who.uid);
	vcuda_log_debug("worker %d for process %d of user %u", client->worker->pid, client->who.pid, client->who.uid);
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
	daemon_detach_init(client->worker);
	daemon_worker_serve(client->worker, (uint32_t)client->who.pid, client->who.uid, client->who.uid);
	vcuda_log_debug("warm worker %d for process %d of user %u", client->worker->pid, client->who.pid,
			client->who.uid);
	if (daemon_worker_send(client->worker, &m, NULL, &fd, 1))
		daemon_worker_kill(client->worker);
	return true;
}

/* Closes the connection. `status`: VCUDA_REFUSED_... The reply is lost where the client is older than these. */
static void refuse(int fd, int status)
{
	struct vcuda_channel_message m = {
		.type = VCUDA_CHANNEL_ATTACH, .cookie = VCUDA_CHANNEL_FIRST_COOKIE, .status = -status};

	send(fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

/* One of ours whose libcuda.so.1 is the guest's: it would wait for a worker that would wait for another one. */
static bool is_own_worker(pid_t process)
{
	siginfo_t unused;

	return !waitid(P_PID, (id_t)process, &unused, WEXITED | WNOHANG | WNOWAIT);
}

/* 0 or VCUDA_REFUSED_... */
static int may_enter(const struct daemon_local *local, const struct ucred *who)
{
	if (is_own_worker(who->pid)) {
		vcuda_log_peer("worker %d is refused: the libcuda.so.1 that its loader finds is virtio-cuda's own, and "
			       "VCUDA_SOCKET names this daemon",
			       who->pid);
		return VCUDA_REFUSED_SELF;
	}
	if (local->options->allow_any_user || who->uid == geteuid() || who->uid == 0)
		return 0;
	vcuda_log_peer("process %d of user %u is refused: vcudad runs as user %u. To serve other users, start vcudad "
		       "with --allow-any-user; --socket-mode, and --socket-group for a group, say who may connect",
		       who->pid, who->uid, geteuid());
	return VCUDA_REFUSED_USER;
}

/*
 * The worker expects a descriptor that blocks; ours does not outlive this call. The time for the first message is a
 * property of the socket, which the worker takes back once it has that message.
 */
static bool serve(struct daemon_local *local, int fd, const struct ucred *who)
{
	struct timeval patience = {.tv_sec = local->options->client_timeout};
	struct client *client = calloc(1, sizeof(*client));

	if (!client)
		return false;
	*client = (struct client){.local = local, .who = *who, .fd = -1};
	vcuda_list_add(&client->entry, &local->clients);
	local->count++;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (start_warm(client, fd) || start(client, fd))
		return true;
	client_free(client);
	return false;
}

static unsigned int count_clients(struct daemon_local *local, uid_t user)
{
	struct client *client, *after;
	unsigned int count = 0;

	vcuda_list_for_each_safe (client, after, &local->clients, struct client, entry)
		count += client->who.uid == user;
	return count;
}

static bool has_place(struct daemon_local *local, const struct ucred *who)
{
	uint64_t most = local->options->max_contexts, left = local->count < most ? most - local->count : 0;

	if (!left) {
		daemon_quota_refuse(DAEMON_QUOTA_CONTEXTS);
		vcuda_log_peer("process %d of user %u is refused: there are %u clients (raise --max-contexts)",
			       who->pid, who->uid, local->count);
		return false;
	}
	if (!local->options->allow_any_user || count_clients(local, who->uid) < left)
		return true;
	daemon_quota_refuse(DAEMON_QUOTA_CONTEXTS);
	vcuda_log_peer("process %d of user %u is refused: the user has %u clients, and the %llu places that are left "
		       "are for other users (raise --max-contexts)",
		       who->pid, who->uid, count_clients(local, who->uid), (unsigned long long)left);
	return false;
}

/* Closes the connection. One whose client has gone meanwhile needs no worker. */
static void admit(struct daemon_local *local, int fd, const struct ucred *who)
{
	struct pollfd peer = {.fd = fd};

	if (poll(&peer, 1, 0) == 1 && peer.revents & POLLHUP)
		close(fd);
	else if (!has_place(local, who))
		refuse(fd, VCUDA_REFUSED_PLACE);
	else if (!serve(local, fd, who))
		refuse(fd, VCUDA_REFUSED_START);
	else
		close(fd);
}

/* ---- users who connect too often ---- */

static void waiting_free(struct daemon_local *local, struct waiting *waiting)
{
	if (waiting->fd >= 0)
		close(waiting->fd);
	vcuda_list_remove(&waiting->entry);
	local->waiting_count--;
	free(waiting);
}

static void waiting_expired(struct daemon_timer *timer)
{
	struct daemon_local *local = container_of(timer, struct daemon_local, waiting_timer);
	uint64_t first = UINT64_MAX;
	struct waiting *waiting, *after;

	vcuda_list_for_each_safe (waiting, after, &local->waiting, struct waiting, entry) {
		uint64_t pause = daemon_connection_rate_take(&local->rate, waiting->who.uid, daemon_now());

		first = pause && pause < first ? pause : first;
		if (pause)
			continue;
		admit(local, waiting->fd, &waiting->who);
		waiting->fd = -1;
		waiting_free(local, waiting);
	}
	if (local->waiting_count)
		daemon_timer_set(local->listener.loop, timer, first);
}

static unsigned int count_waiting(struct daemon_local *local, uid_t user)
{
	struct waiting *waiting, *after;
	unsigned int count = 0;

	vcuda_list_for_each_safe (waiting, after, &local->waiting, struct waiting, entry)
		count += waiting->who.uid == user;
	return count;
}

/* Connections whose clients have gone make room for others. */
static void drop_gone(struct daemon_local *local)
{
	struct pollfd peers[WAITING_MAX], *peer = peers;
	struct waiting *waiting, *after;

	vcuda_list_for_each_safe (waiting, after, &local->waiting, struct waiting, entry)
		*peer++ = (struct pollfd){.fd = waiting->fd};
	poll(peers, (nfds_t)(peer - peers), 0);
	peer = peers;
	vcuda_list_for_each_safe (waiting, after, &local->waiting, struct waiting, entry)
		if (peer++->revents & POLLHUP)
			waiting_free(local, waiting);
}

/* A user has no use for more than there are places. */
static bool may_wait(struct daemon_local *local, uid_t user)
{
	return local->waiting_count < WAITING_MAX && count_waiting(local, user) < local->options->max_contexts;
}

/* False: too many wait. */
static bool wait_for_token(struct daemon_local *local, int fd, const struct ucred *who, uint64_t pause)
{
	struct waiting *waiting = NULL;

	if (!may_wait(local, who->uid))
		drop_gone(local);
	if (may_wait(local, who->uid))
		waiting = malloc(sizeof(*waiting));
	if (!waiting) {
		vcuda_log_peer("process %d of user %u is refused: the user connects more than %d times a second, and "
			       "%u connections wait",
			       who->pid, who->uid, DAEMON_CONNECTIONS_PER_S, local->waiting_count);
		return false;
	}
	*waiting = (struct waiting){.who = *who, .fd = fd};
	vcuda_list_add(&waiting->entry, &local->waiting);
	local->waiting_count++;
	if (!local->waiting_timer.at)
		daemon_timer_set(local->listener.loop, &local->waiting_timer, pause);
	return true;
}

/*
 * Replies that a client does not read have descriptors, and the kernel limits all of a user's that are on their way:
 * with the least buffer about 7 replies are. The client waits for each reply before it asks again.
 */
static void limit_replies(int fd)
{
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){1}, sizeof(int));
}

static void accepted(struct daemon_listener *listener, int fd)
{
	struct daemon_local *local = container_of(listener, struct daemon_local, listener);
	struct ucred who;
	socklen_t length = sizeof(who);
	uint64_t pause;
	int status;

	vcuda_trace_point("vcudad: a client is there");
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length)) {
		close(fd);
		return;
	}
	status = may_enter(local, &who);
	if (status) {
		refuse(fd, status);
		return;
	}
	limit_replies(fd);
	if (daemon_local_process_is(fd)) {
		daemon_local_process_add(local, fd, &who);
		return;
	}
	/* The connection goes behind the waiting ones of the same user. */
	pause = count_waiting(local, who.uid) ? 1 : daemon_connection_rate_take(&local->rate, who.uid, daemon_now());
	if (!pause)
		admit(local, fd, &who);
	else if (!wait_for_token(local, fd, &who, pause))
		refuse(fd, VCUDA_REFUSED_PLACE);
}

int daemon_local_open(struct daemon_local *local, struct daemon_loop *loop, const struct daemon_options *options,
		      struct daemon_warm_pool *pool)
{
	*local = (struct daemon_local){
		.options = options, .warm_pool = pool, .listener = {.fd = -1, .accepted = accepted}};
	vcuda_list_init(&local->clients);
	vcuda_list_init(&local->process_clients);
	vcuda_list_init(&local->waiting);
	daemon_connection_rate_init(&local->rate);
	daemon_connection_rate_init(&local->own_rate);
	daemon_timer_init(&local->waiting_timer, waiting_expired);
	if (!options->socket)
		return 0;
	return daemon_listener_open(&local->listener, loop, options->socket, SOCK_SEQPACKET, options->socket_mode);
}

void daemon_local_each(struct daemon_local *local, void (*call)(struct daemon_worker *worker, void *argument),
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
	struct waiting *waiting, *after_waiting;

	local->closed = true;
	daemon_listener_close(&local->listener);
	daemon_local_process_close(local);
	daemon_timer_clear(&local->waiting_timer);
	vcuda_list_for_each_safe (waiting, after_waiting, &local->waiting, struct waiting, entry)
		waiting_free(local, waiting);
	daemon_connection_rate_free(&local->rate);
	daemon_connection_rate_free(&local->own_rate);
	daemon_local_kill(local, 0);
}

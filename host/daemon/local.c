/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local.h"
#include "log.h"
#include "worker.h"

struct client {
	struct vcuda_list entry;
	struct vcuda_local *local;
	struct vcuda_worker *worker;
	struct ucred who;
};

static void client_free(struct client *client)
{
	vcuda_list_remove(&client->entry);
	client->local->count--;
	free(client);
}

static void worker_reaped(struct vcuda_worker *worker)
{
	struct client *client = worker->owner;

	vcuda_log_debug("the worker %d of process %d is gone", worker->pid, client->who.pid);
	client_free(client);
}

static const struct vcuda_worker_ops worker_ops = {.reaped = worker_reaped};

static bool may_enter(const struct vcuda_local *local, const struct ucred *who)
{
	if (local->options->allow_any_user || who->uid == geteuid() || who->uid == 0)
		return true;
	vcuda_log_peer("process %d of user %u is refused: not our user (allow with --allow-any-user)", who->pid,
		       who->uid);
	return false;
}

/* The worker expects a descriptor that blocks; ours does not outlive this call. */
static void serve(struct vcuda_local *local, int fd, const struct ucred *who)
{
	struct client *client = calloc(1, sizeof(*client));
	int status;

	if (!client)
		return;
	*client = (struct client){.local = local, .who = *who};
	vcuda_list_add_tail(&local->clients, &client->entry);
	local->count++;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	client->worker =
		vcuda_worker_start_local(local->listener.loop, local->options, fd, &worker_ops, client, &status);
	if (!client->worker) {
		client_free(client);
		return;
	}
	vcuda_log_debug("worker %d for process %d of user %u", client->worker->pid, who->pid, who->uid);
}

static void accepted(struct vcuda_listener *listener, int fd)
{
	struct vcuda_local *local = container_of(listener, struct vcuda_local, listener);
	struct ucred who;
	socklen_t length = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) || !may_enter(local, &who))
		goto close;
	if (local->count >= local->options->max_contexts) {
		vcuda_log_peer("process %d is refused: there are %u clients (raise --max-contexts)", who.pid,
			       local->count);
		goto close;
	}
	serve(local, fd, &who);
close:
	close(fd);
}

int vcuda_local_open(struct vcuda_local *local, struct vcuda_loop *loop, const struct vcuda_options *options)
{
	*local = (struct vcuda_local){.options = options, .listener = {.fd = -1, .accepted = accepted}};
	vcuda_list_init(&local->clients);
	if (!options->socket)
		return 0;
	return vcuda_listener_open(&local->listener, loop, options->socket, SOCK_SEQPACKET, options->socket_mode);
}

void vcuda_local_close(struct vcuda_local *local)
{
	struct client *client, *after;

	vcuda_listener_close(&local->listener);
	list_for_each_entry_safe(client, after, &local->clients, struct client, entry)
		vcuda_worker_kill(client->worker);
}

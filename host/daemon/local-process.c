/* SPDX-License-Identifier: Apache-2.0 */
#include "local-process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"
#include "local-restore.h"
#include "protocol/ipc/process.h"
#include "worker/gate.h"

/*
 * Each connection is a descriptor of ours. There may be so many of processes that have workers here, which speak for
 * themselves, and as many of others.
 */
#define MOST 64

struct process_client {
	struct vcuda_list entry;
	struct daemon_local *local;
	struct daemon_source source;
	struct daemon_timer silent;
	struct ucred who;
	int fd;
	bool has_worker;
	struct daemon_restore restore;
};

bool daemon_local_process_is(int fd)
{
	static const char prefix[] = VCUDA_PROCESS_NAME;
	struct sockaddr_un name = {0};
	socklen_t length = sizeof(name);

	if (getpeername(fd, (struct sockaddr *)&name, &length))
		return false;
	return length > offsetof(struct sockaddr_un, sun_path) + sizeof(prefix) && !name.sun_path[0] &&
	       !memcmp(name.sun_path + 1, prefix, sizeof(prefix) - 1);
}

static void client_free(struct process_client *client)
{
	daemon_source_remove(client->local->listener.loop, &client->source);
	daemon_local_restore_end(&client->restore);
	daemon_timer_clear(&client->silent);
	vcuda_list_remove(&client->entry);
	close(client->fd);
	free(client);
}

/* The number that the process has in its own pid namespace; 0: it has ended, or is not to be seen. */
static uint32_t own_number(pid_t pid)
{
	char path[64], line[256];
	const char *last;
	uint32_t number = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (!number && fgets(line, sizeof(line), file)) {
		last = strncmp(line, "NSpid:", 6) ? NULL : strrchr(line, '\t');
		number = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
	}
	fclose(file);
	return number;
}

static bool share_namespace(pid_t one, pid_t other)
{
	struct stat s, t;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", one);
	if (stat(path, &s))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/ns/pid", other);
	return !stat(path, &t) && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

struct search {
	const struct process_client *client;
	uint32_t number;
	struct daemon_worker *found;
	bool is_foreign; /* a worker of that process is another user's */
	uint32_t flags;  /* of all its workers */
	bool is_apart;   /* a worker must run no work */
};

static void look_at(struct daemon_worker *worker, void *argument)
{
	struct search *search = argument;
	pid_t pid = (pid_t)worker->guest.pid;

	if (worker->ending || daemon_detach_is_ownerless(&worker->detach) || own_number(pid) != search->number ||
	    !share_namespace(pid, search->client->who.pid))
		return;
	search->found = worker;
	search->is_foreign |= worker->guest.uid != search->client->who.uid;
	search->flags |= worker->detach.flags | (worker->detach.has_thread ? VCUDA_PROCESS_HAS_THREAD : 0);
	search->is_apart |= worker->detach.has_token || worker->detach.flags & VCUDA_PROCESS_APART;
}

static int act(const struct process_client *client, const struct vcuda_process_request *m,
	       struct vcuda_process_reply *reply)
{
	struct search search = {.client = client, .number = m->pid};
	struct daemon_gate_state state;
	int status;

	if (client->local->options->no_guest_checkpoint)
		return -EOPNOTSUPP;
	if (m->action >= VCUDA_PROCESS_ACTIONS || m->milliseconds > VCUDA_PROCESS_MS_MAX || !m->pid)
		return -EINVAL;
	daemon_local_each(client->local, look_at, &search);
	if (!search.found)
		return -ESRCH;
	if (client->who.uid && search.is_foreign)
		return -EPERM;
	if (m->action == VCUDA_PROCESS_GET_STATE)
		status = 0;
	else if (m->action == VCUDA_PROCESS_UNLOCK && search.is_apart)
		status = -EBADFD;
	else
		status = daemon_gate_act(&search.found->gate, m->action, m->milliseconds);
	state = daemon_gate_state(&search.found->gate);
	reply->state = state.state;
	reply->failure = state.failure;
	reply->flags = search.flags | VCUDA_PROCESS_KNOWN;
	return status;
}

/* False: the connection is to be closed. */
static bool act_on_itself(struct process_client *client, const struct vcuda_restore_request *m)
{
	struct vcuda_restore_reply reply;
	enum daemon_restore_next next = daemon_local_restore_act(&client->restore, m, &reply);

	if (next == DAEMON_RESTORE_GIVEN)
		return false;
	return send(client->fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(reply) &&
	       next == DAEMON_RESTORE_GOES_ON;
}

static bool act_on_process(struct process_client *client, const struct vcuda_process_request *m)
{
	struct vcuda_process_reply reply = {0};

	reply.status = act(client, m, &reply);
	return send(client->fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(reply);
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct process_client *client = container_of(source, struct process_client, source);
	union {
		struct vcuda_process_request process;
		struct vcuda_restore_request itself;
	} m;
	/* No room for control data: descriptors that a client sends us are closed by the kernel. */
	ssize_t bytes = recv(client->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);
	bool goes_on;

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes == sizeof(m.process))
		goes_on = act_on_process(client, &m.process);
	else
		goes_on = bytes == sizeof(m.itself) && act_on_itself(client, &m.itself);
	if (!goes_on) {
		client_free(client);
		return;
	}
	daemon_timer_set(client->local->listener.loop, &client->silent,
			 (uint64_t)client->local->options->client_timeout * 1000);
}

static void silent(struct daemon_timer *timer)
{
	client_free(container_of(timer, struct process_client, silent));
}

static void look_for_process(struct daemon_worker *worker, void *argument)
{
	struct process_client *client = argument;

	client->has_worker |= client->who.pid > 0 && worker->guest.pid == (uint32_t)client->who.pid;
}

/* A user gets half of the places that are free, so that another user always finds one. */
static bool has_place(const struct process_client *new)
{
	struct daemon_local *local = new->local;
	struct process_client *client, *after;
	unsigned int count = 0, of_user = 0;

	if (daemon_connection_rate_take(new->has_worker ? &local->own_rate : &local->rate, new->who.uid, daemon_now()))
		return false;
	vcuda_list_for_each_safe (client, after, &local->process_clients, struct process_client, entry) {
		if (client->has_worker != new->has_worker)
			continue;
		count++;
		of_user += client->who.uid == new->who.uid;
	}
	return of_user < (MOST - count);
}

/* NULL: no place is free. */
static struct process_client *make_client(struct daemon_local *local, int fd, const struct ucred *who)
{
	struct process_client *client = calloc(1, sizeof(*client));

	if (!client)
		return NULL;
	*client = (struct process_client){.local = local,
					  .who = *who,
					  .fd = fd,
					  .source = {.fd = -1, .ready = ready},
					  .restore = {.local = local, .who = *who, .fd = fd}};
	daemon_local_each(local, look_for_process, client);
	if (has_place(client))
		return client;
	free(client);
	return NULL;
}

void daemon_local_process_add(struct daemon_local *local, int fd, const struct ucred *who)
{
	struct process_client *client = make_client(local, fd, who);

	if (!client) {
		vcuda_log_peer("process %d of user %u is refused: it connects too often, or too many connections hold "
			       "processes",
			       who->pid, who->uid);
		close(fd);
		return;
	}
	vcuda_list_add(&client->entry, &local->process_clients);
	daemon_timer_init(&client->silent, silent);
	daemon_timer_set(local->listener.loop, &client->silent, (uint64_t)local->options->client_timeout * 1000);
	if (daemon_source_add(local->listener.loop, &client->source, fd, EPOLLIN))
		client_free(client);
}

void daemon_local_process_close(struct daemon_local *local)
{
	struct process_client *client, *after;

	vcuda_list_for_each_safe (client, after, &local->process_clients, struct process_client, entry)
		client_free(client);
}

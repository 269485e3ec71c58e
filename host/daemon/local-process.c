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
#include "protocol/ipc/process.h"
#include "worker/gate.h"

/* Each connection is a descriptor of ours. */
#define MOST 64

struct process_client {
	struct vcuda_list entry;
	struct daemon_local *local;
	struct daemon_source source;
	struct daemon_timer silent;
	struct ucred who;
	int fd;
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
};

static void look_at(struct daemon_worker *worker, void *argument)
{
	struct search *search = argument;
	pid_t pid = (pid_t)worker->guest.pid;

	if (worker->ending || own_number(pid) != search->number || !share_namespace(pid, search->client->who.pid))
		return;
	search->found = worker;
	search->is_foreign |= worker->guest.uid != search->client->who.uid;
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
	status = m->action == VCUDA_PROCESS_GET_STATE
			 ? 0
			 : daemon_gate_act(&search.found->gate, m->action, m->milliseconds);
	state = daemon_gate_state(&search.found->gate);
	reply->state = state.state;
	reply->failure = state.failure;
	return status;
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct process_client *client = container_of(source, struct process_client, source);
	struct vcuda_process_reply reply = {0};
	struct vcuda_process_request m;
	/* No room for control data: descriptors that a client sends us are closed by the kernel. */
	ssize_t bytes = recv(client->fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes == sizeof(m))
		reply.status = act(client, &m, &reply);
	if (bytes != sizeof(m) || send(client->fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
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

/* A user gets half of the places that are free, so that another user always finds one. */
static bool has_place(struct daemon_local *local, uid_t user)
{
	struct process_client *client, *after;
	unsigned int count = 0, of_user = 0;

	if (daemon_connection_rate_take(&local->rate, user, daemon_now()))
		return false;

	vcuda_list_for_each_safe (client, after, &local->process_clients, struct process_client, entry) {
		count++;
		of_user += client->who.uid == user;
	}
	return of_user < (MOST - count);
}

void daemon_local_process_add(struct daemon_local *local, int fd, const struct ucred *who)
{
	struct process_client *client = has_place(local, who->uid) ? calloc(1, sizeof(*client)) : NULL;

	if (!client) {
		vcuda_log_peer("process %d of user %u is refused: it connects too often, or too many connections hold "
			       "processes",
			       who->pid, who->uid);
		close(fd);
		return;
	}
	*client = (struct process_client){.local = local, .who = *who, .fd = fd, .source = {.fd = -1, .ready = ready}};
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

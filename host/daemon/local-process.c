/* SPDX-License-Identifier: Apache-2.0 */
#include "local-process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/log.h"
#include "protocol/ipc/process.h"
#include "worker/gate.h"

/* Each connection is a descriptor of ours. */
#define MOST 64
#define MOST_OF_USER 16

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

/* As this process numbers it. 0: it has ended, or this process's namespace has no number for it. */
static uint32_t pid_of(int pidfd)
{
	char path[64], line[128];
	unsigned int pid = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", pidfd);
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (!pid && fgets(line, sizeof(line), file))
		if (sscanf(line, "Pid:\t%u", &pid) != 1)
			pid = 0;
	fclose(file);
	return pid;
}

struct search {
	uint32_t pid;
	const struct daemon_worker *found;
};

static void look_at(const struct daemon_worker *worker, void *argument)
{
	struct search *search = argument;

	if (worker->guest.pid == search->pid && !worker->ending)
		search->found = worker;
}

static int act(const struct process_client *client, const struct vcuda_process_request *m, int pidfd,
	       struct vcuda_process_reply *reply)
{
	struct search search = {.pid = pid_of(pidfd)};
	struct daemon_gate_state state;
	struct daemon_gate *gate;
	int status;

	if (m->action >= VCUDA_PROCESS_ACTIONS || m->milliseconds > VCUDA_PROCESS_MS_MAX)
		return -EINVAL;
	if (search.pid)
		daemon_local_each(client->local, look_at, &search);
	if (!search.found)
		return -ESRCH;
	if (client->who.uid && client->who.uid != search.found->guest.uid)
		return -EPERM;
	gate = (struct daemon_gate *)&search.found->gate;
	status = m->action == VCUDA_PROCESS_GET_STATE ? 0 : daemon_gate_act(gate, m->action, m->milliseconds);
	state = daemon_gate_state(gate);
	reply->state = state.state;
	reply->failure = state.failure;
	return status;
}

/* Returns the bytes of the request, or -1 with errno. *pidfd is the caller's to close, -1: there was none. */
static ssize_t receive(const struct process_client *client, struct vcuda_process_request *m, int *pidfd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct iovec data = {m, sizeof(*m)};
	struct msghdr h = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
	/* The kernel closes descriptors for which there is no room. */
	ssize_t bytes = recvmsg(client->fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	const struct cmsghdr *c = bytes < 0 ? NULL : CMSG_FIRSTHDR(&h);

	*pidfd = -1;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(pidfd, CMSG_DATA(c), sizeof(int));
	return bytes;
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct process_client *client = container_of(source, struct process_client, source);
	struct vcuda_process_request m;
	struct vcuda_process_reply reply = {0};
	int pidfd;
	ssize_t bytes = receive(client, &m, &pidfd);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes == sizeof(m) && pidfd >= 0)
		reply.status = act(client, &m, pidfd, &reply);
	if (pidfd >= 0)
		close(pidfd);
	if (bytes != sizeof(m) || pidfd < 0 ||
	    send(client->fd, &reply, sizeof(reply), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
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

static bool has_place(struct daemon_local *local, uid_t user)
{
	struct process_client *client, *after;
	unsigned int count = 0, of_user = 0;

	vcuda_list_for_each_safe (client, after, &local->process_clients, struct process_client, entry) {
		count++;
		of_user += client->who.uid == user;
	}
	return count < MOST && of_user < MOST_OF_USER;
}

void daemon_local_process_add(struct daemon_local *local, int fd, const struct ucred *who)
{
	struct process_client *client = has_place(local, who->uid) ? calloc(1, sizeof(*client)) : NULL;

	if (!client) {
		vcuda_log_peer("process %d of user %u is refused: too many connections hold processes", who->pid,
			       who->uid);
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

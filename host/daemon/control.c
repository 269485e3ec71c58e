/* SPDX-License-Identifier: Apache-2.0 */
/* The socket and its connections: a line in, an answer out. */
#include "control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/control-directory.h"
#include "common/log.h"

struct connection {
	struct vcuda_list entry;
	struct daemon_control *control;
	struct daemon_source source;
	struct daemon_timer timer;
	unsigned int user;
	int fd;
	char in[DAEMON_CONTROL_REQUEST];
	size_t received;
	char *out; /* NULL: the request is not complete */
	size_t out_bytes, sent;
};

static void connection_free(struct connection *c)
{
	daemon_source_remove(c->control->loop, &c->source);
	daemon_timer_clear(&c->timer);
	vcuda_list_remove(&c->entry);
	c->control->count--;
	close(c->fd);
	free(c->out);
	free(c);
}

static void connection_expired(struct daemon_timer *timer)
{
	connection_free(container_of(timer, struct connection, timer));
}

static void send_answer(struct connection *c)
{
	while (c->sent < c->out_bytes) {
		ssize_t bytes = send(c->fd, c->out + c->sent, c->out_bytes - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (bytes < 0 && errno == EINTR)
			continue;
		if (bytes < 0 && errno == EAGAIN) {
			daemon_source_change(c->control->loop, &c->source, EPOLLOUT);
			return;
		}
		if (bytes < 0)
			break;
		c->sent += (size_t)bytes;
	}
	connection_free(c);
}

static void answer(struct connection *c)
{
	FILE *out = open_memstream(&c->out, &c->out_bytes);

	if (!out) {
		connection_free(c);
		return;
	}
	daemon_control_handle(c->control, c->in, c->user, out);
	if (fclose(out))
		c->out_bytes = 0;
	send_answer(c);
}

/* Descriptors that come along are closed by the kernel: there is no room for them. */
static void receive(struct connection *c)
{
	ssize_t bytes = recv(c->fd, c->in + c->received, sizeof(c->in) - c->received, MSG_DONTWAIT);
	char *newline;

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes <= 0) {
		connection_free(c);
		return;
	}
	newline = memchr(c->in + c->received, '\n', (size_t)bytes);
	c->received += (size_t)bytes;
	if (newline) {
		*newline = 0;
		answer(c);
	} else if (c->received == sizeof(c->in)) {
		connection_free(c);
	}
}

static void connection_ready(struct daemon_source *source, uint32_t events)
{
	struct connection *c = container_of(source, struct connection, source);

	if (c->out)
		send_answer(c);
	else
		receive(c);
}

/* NULL: it may not enter, or there are too many. */
static struct connection *connection_new(struct daemon_control *control, int fd)
{
	struct ucred who;
	socklen_t length = sizeof(who);
	struct connection *c;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length))
		return NULL;
	if (who.uid != geteuid() && who.uid) {
		vcuda_log_peer("process %d of user %u is refused at the control socket: not our user", who.pid,
			       who.uid);
		return NULL;
	}
	if (control->count >= DAEMON_CONTROL_CONNECTIONS)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	c->control = control;
	c->fd = fd;
	c->user = who.uid;
	c->source = (struct daemon_source){.fd = -1, .ready = connection_ready};
	daemon_timer_init(&c->timer, connection_expired);
	vcuda_list_add(&c->entry, &control->connections);
	control->count++;
	return c;
}

static void accepted(struct daemon_listener *listener, int fd)
{
	struct daemon_control *control = container_of(listener, struct daemon_control, listener);
	struct connection *c = connection_new(control, fd);

	if (!c) {
		close(fd);
		return;
	}
	daemon_timer_set(control->loop, &c->timer, DAEMON_CONTROL_MS);
	if (daemon_source_add(control->loop, &c->source, fd, EPOLLIN))
		connection_free(c);
}

static int open_default(struct daemon_control *control)
{
	char directories[VCUDA_CONTROL_DIRECTORIES][VCUDA_CONTROL_DIRECTORY_BYTES];
	unsigned int count = vcuda_control_directories(directories), i;

	for (i = 0; i < count; i++) {
		if (!vcuda_control_directory_make(directories[i]))
			continue;
		daemon_listener_clean(directories[i], SOCK_STREAM);
		snprintf(control->path, sizeof(control->path), "%.*s/%d", VCUDA_CONTROL_DIRECTORY_BYTES - 1,
			 directories[i], (int)getpid());
		return daemon_listener_open(&control->listener, control->loop, control->path, SOCK_STREAM, 0600);
	}
	return -ENOENT;
}

int daemon_control_open(struct daemon_control *control, struct daemon_loop *loop, struct daemon_options *options,
			struct daemon_vhost *vhost, struct daemon_local *local)
{
	*control = (struct daemon_control){.loop = loop,
					   .options = options,
					   .vhost = vhost,
					   .local = local,
					   .listener = {.fd = -1, .accepted = accepted},
					   .started = daemon_now()};
	vcuda_list_init(&control->connections);
	if (!options->control) {
		if (open_default(control))
			vcuda_log_debug("no control socket could be made: `vcuda vm list` does not show this vcudad");
		return 0;
	}
	if (!strcmp(options->control, "none"))
		return 0;
	return daemon_listener_open(&control->listener, loop, options->control, SOCK_STREAM, 0600);
}

void daemon_control_close(struct daemon_control *control)
{
	struct connection *c, *after;

	daemon_listener_close(&control->listener);
	vcuda_list_for_each_safe (c, after, &control->connections, struct connection, entry)
		connection_free(c);
}

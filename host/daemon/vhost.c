/* SPDX-License-Identifier: Apache-2.0 */
/* The connection: reads messages and writes replies. Their handlers are in vhost-message.c. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fds.h"
#include "common/log.h"
#include "vhost.h"
#include "vhost-message.h"

#define VHOST_USER_VERSION 0x1
#define VHOST_USER_REPLY 0x4
#define VHOST_USER_NEED_REPLY 0x8
#define DAEMON_MESSAGES_PER_TURN 32

static void close_fds(struct daemon_vhost *vhost)
{
	unsigned int i;

	for (i = 0; i < vhost->fd_count; i++)
		if (vhost->fds[i] >= 0)
			close(vhost->fds[i]);
	vhost->fd_count = 0;
}

static void drop_kick(struct daemon_vhost *vhost, unsigned int index)
{
	struct daemon_kick *kick = &vhost->kicks[index];

	daemon_source_remove(vhost->loop, &kick->source);
	if (kick->fd >= 0)
		close(kick->fd);
	kick->fd = -1;
}

static void disconnect(struct daemon_vhost *vhost)
{
	unsigned int i;

	if (vhost->fd < 0)
		return;
	for (i = 0; i < VCUDA_QUEUES; i++)
		drop_kick(vhost, i);
	daemon_source_remove(vhost->loop, &vhost->source);
	close(vhost->fd);
	vhost->fd = -1;
	close_fds(vhost);
	vhost->received = vhost->out_bytes = 0;
	vhost->features = vhost->protocol_features = 0;
	vhost->status = 0;
	vhost->queues_named = 0;
	daemon_device_forget(&vhost->device);
	vcuda_log_debug("the VM is gone");
	vhost->ended = vhost->options->once;
}

/* ---- out ---- */

static void update_events(struct daemon_vhost *vhost)
{
	/* While a reply is stuck, or a stop is awaited, the next message must wait. */
	uint32_t events = vhost->device.stopped ? 0 : EPOLLIN;

	daemon_source_change(vhost->loop, &vhost->source, vhost->out_bytes ? EPOLLOUT : events);
}

/* False: the connection is gone. */
static bool flush(struct daemon_vhost *vhost)
{
	while (vhost->out_bytes) {
		ssize_t sent = send(vhost->fd, vhost->out, vhost->out_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN)
			break;
		if (sent < 0) {
			disconnect(vhost);
			return false;
		}
		vhost->out_bytes -= (size_t)sent;
		memmove(vhost->out, vhost->out + sent, vhost->out_bytes);
	}
	update_events(vhost);
	return true;
}

static bool reply(struct daemon_vhost *vhost)
{
	struct daemon_vhost_message *m = &vhost->message;

	m->header.flags = VHOST_USER_VERSION | VHOST_USER_REPLY;
	memcpy(vhost->out, m, sizeof(m->header) + m->header.size);
	vhost->out_bytes = sizeof(m->header) + m->header.size;
	return flush(vhost);
}

/* ---- in ---- */

static bool finish(struct daemon_vhost *vhost, int status)
{
	struct daemon_vhost_message *m = &vhost->message;
	bool acknowledge = m->header.flags & VHOST_USER_NEED_REPLY && vhost->protocol_features & DAEMON_VHOST_REPLY_ACK;
	bool alive = true;

	close_fds(vhost);
	vhost->received = 0;
	if (daemon_vhost_replies(m->header.request)) {
		alive = reply(vhost);
	} else if (acknowledge) {
		m->number = status ? 1 : 0;
		m->header.size = sizeof(m->number);
		alive = reply(vhost);
	}
	return alive;
}

static void stopped(void *owner)
{
	struct daemon_vhost *vhost = owner;

	if (finish(vhost, daemon_vhost_handle(vhost)))
		update_events(vhost);
}

/* False: the connection is gone, or nothing more may be read for now. */
static bool handle(struct daemon_vhost *vhost)
{
	struct daemon_vhost_message *m = &vhost->message;

	if ((m->header.flags & 0x3) != VHOST_USER_VERSION) {
		vcuda_log("the VMM speaks another version of vhost-user (flags %#x): it is dropped", m->header.flags);
		disconnect(vhost);
		return false;
	}
	if (daemon_vhost_stops(vhost)) {
		daemon_device_stop(&vhost->device, stopped, vhost);
		if (vhost->fd >= 0)
			update_events(vhost);
		return vhost->fd >= 0 && !vhost->device.stopped && !vhost->out_bytes;
	}
	return finish(vhost, daemon_vhost_handle(vhost)) && !vhost->out_bytes;
}

/* No message has a socket. With the VMM's end of this connection vcudad would never hear that the VMM is gone. */
static bool is_socket(int fd)
{
	struct stat stat;

	return fstat(fd, &stat) || S_ISSOCK(stat.st_mode);
}

static void keep_fds(struct daemon_vhost *vhost, const struct vcuda_fds *fds)
{
	for (unsigned int i = 0; i < fds->count; i++)
		if (vhost->fd_count < DAEMON_VHOST_FDS && !is_socket(fds->fd[i]))
			vhost->fds[vhost->fd_count++] = fds->fd[i];
		else
			close(fds->fd[i]);
}

/* Reads up to `wanted` bytes of the message. 1: they are all there; 0: not yet; -1: the connection is over. */
static int receive(struct daemon_vhost *vhost, size_t wanted)
{
	struct vcuda_fds fds;
	struct iovec part;
	ssize_t bytes;

	while (vhost->received < wanted) {
		part = (struct iovec){(uint8_t *)&vhost->message + vhost->received, wanted - vhost->received};
		bytes = vcuda_fds_receive(vhost->fd, &part, 1, &fds, MSG_DONTWAIT);
		if (bytes == -EAGAIN)
			return 0;
		if (bytes <= 0)
			return -1;
		keep_fds(vhost, &fds);
		vhost->received += (size_t)bytes;
	}
	return 1;
}

static int receive_message(struct daemon_vhost *vhost)
{
	struct daemon_vhost_header *header = &vhost->message.header;
	int status = 1;

	if (vhost->received < sizeof(*header)) {
		status = receive(vhost, sizeof(*header));
		if (status == 1)
			memset(vhost->message.bytes, 0, sizeof(vhost->message.bytes));
	}
	if (status != 1)
		return status;
	if (header->size > DAEMON_VHOST_PAYLOAD) {
		vcuda_log("the VMM sent a message of %u bytes (request %u): it is dropped", header->size,
			  header->request);
		return -1;
	}
	return receive(vhost, sizeof(*header) + header->size);
}

static void connection_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_vhost *vhost = container_of(source, struct daemon_vhost, source);
	int turn;

	if (events & EPOLLOUT && !flush(vhost))
		return;
	/* With a stop awaited only a hang-up gets here. */
	if (vhost->device.stopped || vhost->out_bytes) {
		if (events & (EPOLLHUP | EPOLLERR))
			disconnect(vhost);
		return;
	}
	for (turn = 0; turn < DAEMON_MESSAGES_PER_TURN; turn++) {
		int status = receive_message(vhost);

		if (status < 0)
			disconnect(vhost);
		if (status != 1 || !handle(vhost))
			return;
	}
}

static void accepted(struct daemon_listener *listener, int fd)
{
	struct daemon_vhost *vhost = container_of(listener, struct daemon_vhost, listener);
	struct pollfd peer = {.fd = vhost->fd};

	/* A new QEMU may be here before we heard that the old one went. */
	if (vhost->fd >= 0 && poll(&peer, 1, 0) == 1 && peer.revents & (POLLHUP | POLLERR))
		disconnect(vhost);
	if (vhost->fd >= 0) {
		vcuda_log("a second VM connects to %s: refused, each needs a vcudad of its own", listener->path);
		close(fd);
		return;
	}
	if (daemon_source_add(vhost->loop, &vhost->source, fd, EPOLLIN)) {
		close(fd);
		return;
	}
	vhost->fd = fd;
	vhost->ended = false;
	vcuda_log_debug("a VM connects");
}

static void kick_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_kick *kick = container_of(source, struct daemon_kick, source);
	uint64_t kicks;

	if (read(kick->fd, &kicks, sizeof(kicks)) <= 0) {
		if (errno == EAGAIN)
			return;
		vcuda_log("queue %u: the VMM's kick descriptor is broken", kick->index);
		drop_kick(kick->vhost, kick->index);
		return;
	}
	daemon_device_kick(&kick->vhost->device, kick->index);
}

int daemon_vhost_open(struct daemon_vhost *vhost, struct daemon_loop *loop, const struct daemon_options *options,
		      struct daemon_warm_pool *pool)
{
	unsigned int i;

	memset(vhost, 0, sizeof(*vhost));
	vhost->loop = loop;
	vhost->options = options;
	vhost->fd = -1;
	vhost->source = (struct daemon_source){.fd = -1, .ready = connection_ready};
	vhost->listener.fd = -1;
	vhost->listener.accepted = accepted;
	daemon_device_init(&vhost->device, loop, options, pool);
	for (i = 0; i < VCUDA_QUEUES; i++)
		vhost->kicks[i] = (struct daemon_kick){
			.source = {.fd = -1, .ready = kick_ready}, .vhost = vhost, .index = i, .fd = -1};
	if (!options->vhost_socket)
		return 0;
	return daemon_listener_open(&vhost->listener, loop, options->vhost_socket, SOCK_STREAM, options->socket_mode);
}

void daemon_vhost_close(struct daemon_vhost *vhost)
{
	daemon_listener_close(&vhost->listener);
	disconnect(vhost);
}

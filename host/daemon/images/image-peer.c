/* SPDX-License-Identifier: Apache-2.0 */
#include "images/image-peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "images/image-check.h"
#include "protocol/ipc/image-message.h"
#include "images/image-store.h"
#include "common/log.h"

/* Of a worker that has ended: more than an honest one leaves. */
#define LAST_MESSAGES 32

void daemon_image_peer_close(struct daemon_image_peer *peer)
{
	daemon_source_remove(peer->loop, &peer->source);
	if (peer->fd >= 0)
		close(peer->fd);
	peer->fd = -1;
}

static void cut_off(struct daemon_image_peer *peer)
{
	vcuda_log_peer("a worker broke the rules of the image cache: it goes on without");
	daemon_image_peer_close(peer);
}

/* `fd` goes along, unless that is -1. A worker that does not take its answers gets no more of them. */
static void reply(struct daemon_image_peer *peer, struct vcuda_image_message *m, int fd)
{
	if (vcuda_image_send(peer->fd, m, fd, MSG_DONTWAIT))
		daemon_image_peer_close(peer);
}

/* What was offered before a guest went does not come back as a later one's. */
static unsigned int epoch;

static void checked(struct daemon_image_check *check)
{
	if (check->status)
		vcuda_log_peer("image cache: what a worker offered is not kept, as it can be changed, or is another");
	else if (check->epoch == epoch)
		daemon_image_store_enter(check->guest, check->bytes, &check->name, check->fd);
	else
		daemon_image_check_close(check->fd);
	free(check);
}

void daemon_image_peers_forget(uint64_t guest)
{
	epoch++;
	daemon_image_store_drop(guest);
}

void daemon_image_peers_open(struct daemon_loop *loop, uint64_t limit)
{
	int err = limit ? daemon_image_check_open(loop, checked) : 0;

	if (err)
		vcuda_log("no images are kept: %s", strerror(-err));
	else
		daemon_image_store_set_limit(limit);
}

/* False: it broke the rules. *fd is -1 if the descriptor is taken over. */
static bool answer(struct daemon_image_peer *peer, struct vcuda_image_message *m, int *fd)
{
	int found;

	if ((m->type == VCUDA_IMAGE_OFFER) != (*fd >= 0))
		return false;
	m->status = 0;
	switch (m->type) {
	case VCUDA_IMAGE_LOOK:
		m->look = peer->has_guest ? daemon_image_store_look(peer->guest, m->bytes) : VCUDA_IMAGE_NEVER;
		reply(peer, m, -1);
		return true;
	case VCUDA_IMAGE_FIND:
		found = peer->has_guest ? daemon_image_store_find(peer->guest, m->bytes, &m->name) : -1;
		m->status = found < 0 ? -ENOENT : 0;
		reply(peer, m, found);
		return true;
	case VCUDA_IMAGE_OFFER:
		if (peer->has_guest && daemon_image_store_look(peer->guest, m->bytes) != VCUDA_IMAGE_NEVER) {
			daemon_image_check_start(*fd, m->bytes, peer->guest, epoch);
			*fd = -1;
		}
		return true;
	default:
		return false;
	}
}

/* One a turn, so that no worker keeps the others waiting. */
static void peer_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_image_peer *peer = container_of(source, struct daemon_image_peer, source);
	struct vcuda_image_message m;
	int fd, flags = MSG_DONTWAIT;
	ssize_t n = vcuda_image_receive(peer->fd, &m, &fd, &flags);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		daemon_image_peer_close(peer);
	else if (n != sizeof(m) || flags & (MSG_TRUNC | MSG_CTRUNC) || !answer(peer, &m, &fd))
		cut_off(peer);
	if (fd >= 0)
		daemon_image_check_close(fd);
}

void daemon_image_peer_end(struct daemon_image_peer *peer)
{
	for (int n = 0; n < LAST_MESSAGES && peer->fd >= 0; n++)
		peer_ready(&peer->source, EPOLLIN);
	daemon_image_peer_close(peer);
}

int daemon_image_peer_open(struct daemon_image_peer *peer, struct daemon_loop *loop)
{
	int pair[2], theirs;

	*peer = (struct daemon_image_peer){.loop = loop, .fd = -1, .source = {.fd = -1, .ready = peer_ready}};
	if (!daemon_image_store_limit() || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -1;
	/* Above all that the worker is given, so that none of that takes its place before it is there. */
	theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, VCUDA_IMAGE_CHANNEL_FD + 1);
	close(pair[1]);
	peer->fd = pair[0];
	if (theirs >= 0 && !daemon_source_add(loop, &peer->source, peer->fd, EPOLLIN))
		return theirs;
	if (theirs >= 0)
		close(theirs);
	daemon_image_peer_close(peer);
	return -1;
}

void daemon_image_peer_serves(struct daemon_image_peer *peer, uint64_t guest)
{
	peer->has_guest = true;
	peer->guest = guest;
}

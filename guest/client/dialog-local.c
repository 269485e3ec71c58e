/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of a local process's restore thread to vcudad (protocol/ipc/process.h: enum vcuda_restore_action).
 * Nothing here allocates memory or writes to a stream: another thread may be stopped inside the C library.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/control.h"
#include "transport-local.h"

static struct client_local *of(struct client_transport *t)
{
	return (struct client_local *)t;
}

int client_local_ask(struct client_local *t, uint32_t action, struct vcuda_restore_reply *reply)
{
	struct vcuda_restore_request request = {
		.head = {.action = action, .pid = (uint32_t)getpid(), .worker = t->worker}};
	ssize_t bytes;

	if (!vcuda_own_descriptor_is_there(&t->dialog))
		return -EIO;
	memcpy(request.token, t->token, sizeof(request.token));
	if (send(t->dialog.fd, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return -EIO;
	do {
		bytes = recv(t->dialog.fd, reply, sizeof(*reply), 0);
	} while (bytes < 0 && errno == EINTR);
	/* An older vcudad closes the connection. */
	return bytes == sizeof(*reply) ? reply->head.status : -EIO;
}

static int connect_dialog(struct client_local *t)
{
	return client_local_dialog(t->path[0] ? t->path : NULL, &t->dialog);
}

/* A thread that shares memory has it for a moment; no other thread has the lock while the process is quiet. */
static bool give_up_reserve(struct client_local *t)
{
	if (pthread_mutex_trylock(&t->reserve_lock))
		return false;
	vcuda_own_descriptor_close(&t->reserve);
	pthread_mutex_unlock(&t->reserve_lock);
	return true;
}

static void take_reserve(struct client_local *t)
{
	if (pthread_mutex_trylock(&t->reserve_lock))
		return;
	if (t->reserve.fd < 0)
		client_local_make_reserve(t);
	pthread_mutex_unlock(&t->reserve_lock);
}

void client_local_end_dialog(struct client_local *t)
{
	int guarded = vcuda_own_descriptor_guard();

	vcuda_own_descriptor_close(&t->dialog);
	if (!t->detached)
		take_reserve(t);
	vcuda_own_descriptor_unguard(guarded);
}

/* Without a free descriptor the reserve's is used: threads of a locked process may wait for this one and close none. */
int client_local_open_dialog(struct client_local *t)
{
	int guarded = vcuda_own_descriptor_guard(), err;

	vcuda_own_descriptor_close(&t->dialog);
	err = connect_dialog(t);
	if ((err == -EMFILE || err == -ENFILE) && give_up_reserve(t))
		err = connect_dialog(t);
	vcuda_own_descriptor_unguard(guarded);
	return err ? -EIO : 0;
}

int client_local_look(struct client_transport *transport, uint32_t *state)
{
	struct client_local *t = of(transport);
	struct vcuda_restore_reply reply;
	int err = client_local_open_dialog(t);

	if (!err)
		err = client_local_ask(t, t->detached ? VCUDA_RESTORE_CLAIM : VCUDA_RESTORE_LOOK, &reply);
	*state = err ? VCUDA_PROCESS_RUNNING : reply.head.state;
	return err;
}

/* The dialog may have ended, or has become the session's connection. */
int client_local_tell(struct client_transport *transport, bool quiet, bool stays)
{
	struct client_local *t = of(transport);
	struct vcuda_restore_reply reply;
	uint32_t action = !quiet  ? stays ? VCUDA_RESTORE_BUSY : VCUDA_RESTORE_GOES_ON
			  : stays ? VCUDA_RESTORE_STAYS
				  : VCUDA_RESTORE_QUIET;
	int err = client_local_ask(t, action, &reply);

	if (err == -EIO)
		err = client_local_open_dialog(t);
	else
		return err;
	return err ? err : client_local_ask(t, action, &reply);
}

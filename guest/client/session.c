/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a worker. Settings of the user:
 *   VCUDA_TRANSPORT  virtio or local: only that one (otherwise virtio where /dev/vcuda exists, else local)
 *   VCUDA_SOCKET     vcudad's socket for the local transport (otherwise $XDG_RUNTIME_DIR/vcuda/socket, then
 *                    /run/vcuda/socket)
 *   VCUDA_LOG        0: no message on stderr
 *   VCUDA_CHECKPOINT detach: a local process gives its session up while it is checkpointed (restore.h); keep: it does
 *                    not, as without the variable
 */
#include "session.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "common/log.h"
#include "common/virtio-device.h"
#include "protocol/ipc/channel.h"
#include "restore.h"
#include "stage.h"

struct client_session client_session;

static int lose(int error, bool *first)
{
	int none = 0;

	*first = atomic_compare_exchange_strong(&client_session.lost, &none, error);
	return *first ? error : none;
}

int client_session_lose(int error)
{
	bool first;
	int lost = lose(error, &first);

	if (!first)
		return lost;
	vcuda_log("the worker of this process is gone (host process %u, CUDA error %d): every CUDA call fails from now "
		  "on. "
		  "Start the program again; the log of vcudad on the host says why the worker ended.",
		  client_session.host_pid, error);
	return error;
}

int client_session_check(int err)
{
	bool first;

	if (err == -EPIPE || err == -ECONNRESET || err == -ENODEV)
		client_session_lose(client_session.gone);
	/* The transport has said which descriptor. */
	if (err == -EBADF && lose(client_session.gone, &first) && first)
		vcuda_log("the connection of this process to its worker is lost (CUDA error %d): every CUDA call fails "
			  "from now on",
			  client_session.gone);
	return client_session_error();
}

/* The child shares the parent's descriptors: it must not keep the parent's worker alive, and nothing else of the
 * session is usable. */
static void after_fork_in_child(void)
{
	struct client_transport *t = client_session.transport;

	atomic_store(&client_session.forked, true);
	client_call_forked();
	if (t->ops->forked)
		t->ops->forked(t);
}

static const char *reason_of(int err)
{
	switch (-err) {
	case VCUDA_REFUSED_PLACE:
		return "vcudad serves as many programs as it may (--max-contexts)";
	case VCUDA_REFUSED_SELF:
		return "this program is a worker of the vcudad that it asks";
	case VCUDA_REFUSED_START:
		return "vcudad cannot start a worker, and its log says why";
	default:
		return strerror(-err);
	}
}

static void explain(const struct client_transport_ops *ops, const struct client_transport *t, int err)
{
	if (err == -EPROTONOSUPPORT) {
		vcuda_log("host and guest do not fit: the host speaks protocol %u.%u, this libcuda.so.1 speaks %u.%u. "
			  "Install the same major version of virtio-cuda on both.",
			  t ? t->host_major : 0, t ? t->host_minor : 0, VCUDA_PROTOCOL_MAJOR, VCUDA_PROTOCOL_MINOR);
		return;
	}
	if (err == -EACCES || err == -EPERM)
		vcuda_log(
			"no permission to use the %s transport: %s", ops->name,
			ops == &client_transport_virtio
				? "let this user read and write /dev/vcuda"
				: "vcudad serves another user. Start the program with `vcuda run -- PROGRAM`, or have "
				  "vcudad started with --allow-any-user and --socket-mode 0666 (or --socket-group)");
	else
		vcuda_log("cannot reach a GPU over the %s transport: %s. `vcuda doctor` says what is missing.",
			  ops->name, reason_of(err));
}

static void explain_none(void)
{
	switch (vcuda_virtio_device()) {
	case VCUDA_VIRTIO_NO_DRIVER:
		vcuda_log("no GPU: the VM has the device, whose driver is not loaded: modprobe virtio-cuda (the "
			  "package virtio-cuda-dkms builds it)");
		break;
	case VCUDA_VIRTIO_DRIVER:
		vcuda_log("no GPU: the VM has the device, whose driver is loaded and does not use it: `dmesg | grep "
			  "virtio_cuda` says why");
		break;
	default:
		vcuda_log("no GPU: there is no /dev/vcuda (a VM needs the device) and vcudad listens on no socket "
			  "that was looked for (else: start the program with `vcuda run -- PROGRAM`, or set "
			  "VCUDA_SOCKET)");
	}
}

static int open_transport(void)
{
	static const struct client_transport_ops *const all[] = {&client_transport_virtio, &client_transport_local};
	const char *only = getenv("VCUDA_TRANSPORT");
	bool known = false;

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct client_transport *t = NULL;
		int err;

		if (only && *only && strcmp(only, all[i]->name))
			continue;
		known = true;
		err = all[i]->open(&t, NULL);
		if (err == -ENOENT)
			continue;
		if (err) {
			explain(all[i], t, err);
			return err;
		}
		client_session.transport = t;
		return 0;
	}
	if (!known)
		vcuda_log("VCUDA_TRANSPORT=%s is not a transport: use virtio or local", only);
	else
		explain_none();
	return -ENOENT;
}

int client_session_open(int gone)
{
	int err = open_transport();

	if (err)
		return err;
	client_session.gone = gone;
	client_call_attach(client_session.transport->shm);
	client_stage_attach(client_session.transport->shm, vcuda_shm_blocks(client_session.transport->host_minor));
	atomic_store(&client_session.open, true);
	pthread_atfork(NULL, NULL, after_fork_in_child);
	client_restore_start(client_session.transport);
	return 0;
}

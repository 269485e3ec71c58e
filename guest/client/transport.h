/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a guest process reaches its worker: /dev/vcuda (virtio) or a Unix socket (local). Everything above this is the
 * same for both.
 *
 * Functions return 0 or -errno. mapping_*, doorbell and wait may be called by any thread at once.
 *
 * -EBADF of each but open: the application has closed a descriptor of the transport, or has put another file in its
 * place. A line in the log has said so, and nothing has happened to that file.
 */
#ifndef VCUDA_TRANSPORT_H
#define VCUDA_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/own-descriptor.h"

struct client_transport {
	const struct client_transport_ops *ops;
	void *shm; /* VCUDA_SHM_BYTES, MADV_DONTFORK */
	uint32_t host_major,
		host_minor; /* the worker's protocol version, also where open failed with -EPROTONOSUPPORT */
	bool direct;        /* direct_pin() and direct_unpin() are there, and the worker's vcudaCopyDirect */
};

/* The kind of a mapping's pages, and their state after its release. */
enum client_mapping_release {
	CLIENT_MAPPING_REMOVE_PAGES,  /* new ones: PROT_NONE again */
	CLIENT_MAPPING_KEEP_PAGES,    /* the application's: nothing happens to them */
	CLIENT_MAPPING_RESTORE_PAGES, /* shared ones in place of the application's private ones: private again */
};

struct client_transport_ops {
	const char *name; /* "virtio", "local" */

	/* How long to look for what a GPU does before wait() is called: so much that to be woken up takes a few
	 * hundredths of it at most. */
	uint64_t gpu_spin_ns;

	/* -ENOENT: this transport is not there (no device, no socket): try the next. Others are reported to the user.
	 */
	int (*open)(struct client_transport **transport, const char *where);

	/* The worker's dispatcher sleeps: wake it. 0, or -EBADF as below. */
	int (*doorbell)(struct client_transport *t);

	/* Sleeps while the wake word equals `seen`; 0, -ETIMEDOUT, -EINTR; -EPIPE: the worker is gone; -EBADF.
	 * timeout_us 0: no limit. */
	int (*wait)(struct client_transport *t, uint32_t seen, uint32_t timeout_us);

	/* New zeroed memory at `address` (in the arena, page aligned, now PROT_NONE) that the worker maps at the same
	 * address. */
	int (*mapping_create)(struct client_transport *t, void *address, size_t bytes);

	/* Makes existing memory of the application (page aligned) visible to the worker at the same address. */
	int (*mapping_register)(struct client_transport *t, void *address, size_t bytes, bool writable,
				enum client_mapping_release *pages);

	/* Undoes either: afterwards the worker can no longer touch the pages. */
	int (*mapping_release)(struct client_transport *t, void *address, size_t bytes,
			       enum client_mapping_release pages);

	/*
	 * Pins pages of the application (page aligned) for copies by the worker from them, and to them if they are
	 * pinned writable; gives them back, once no copy is under way. For those who find `direct` true.
	 */
	int (*direct_pin)(struct client_transport *t, void *address, size_t bytes, bool writable);
	int (*direct_unpin)(struct client_transport *t, void *address, size_t bytes);

	/* In a forked child: closes what it inherited. Async-signal-safe; may be NULL. */
	void (*forked)(struct client_transport *t);
};

extern const struct client_transport_ops client_transport_virtio; /* where: device path, NULL: /dev/vcuda */
extern const struct client_transport_ops
	client_transport_local; /* where: socket path, NULL: $VCUDA_SOCKET or the default socket */

/*
 * Makes *own a connection to vcudad at `where`, as client_transport_local's. `prepare`: called with the socket before it
 * connects, returns 0 or -errno; NULL: nothing. 0 or -errno: then there is nothing to close.
 */
int client_local_connect(const char *where, struct vcuda_own_descriptor *own, int (*prepare)(int fd));

#endif

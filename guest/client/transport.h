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
	bool direct;        /* direct_pin() and direct_unpin() work, and the worker has vcudaCopyDirect */
};

/* The kind of a mapping's pages, and the state of the pages after the mapping's release. */
enum client_mapping_release {
	CLIENT_MAPPING_REMOVE_PAGES,  /* new ones: PROT_NONE again */
	CLIENT_MAPPING_KEEP_PAGES,    /* pages of the application: left as they are */
	CLIENT_MAPPING_RESTORE_PAGES, /* shared ones in place of the application's private ones: private again */
};

/*
 * The operations of a transport whose session can be given up and taken again. The restore thread (restore.h) calls
 * them. They return 0 or -errno.
 */
struct client_detaching {
	/* Whether the user wants that: VCUDA_CHECKPOINT=detach. For any thread. */
	bool (*is_wanted)(void);

	/* Begins to talk to vcudad: the state of the process (protocol/control.h: enum vcuda_process_state). -ENOENT of
	 * a detached session: it is gone. */
	int (*look)(struct client_transport *t, uint32_t *state);

	/* Between look() and end(): tells vcudad whether the process is quiet, and whether it stays so attached. */
	int (*tell)(struct client_transport *t, bool quiet, bool stays);

	/* While sections are closed: from hold() to let_go() no other thread uses what is known of mappings. False: not
	 * within `ms`. */
	bool (*hold)(struct client_transport *t, unsigned int ms);
	void (*let_go)(struct client_transport *t);

	/*
	 * Between look() and end(), while calls are closed and the process is checkpointed: memory that the worker
	 * shares becomes the process's own, and the descriptors are closed. -EAGAIN: not now. Where it fails the
	 * process has its session, and a part of the memory may be its own.
	 */
	int (*detach)(struct client_transport *t);

	/*
	 * Between look() and end(), of a detached session, once the process is restored: the process has its session,
	 * and memory of its own. -ENOENT: the session is gone. Others: it is detached still, and this may be repeated.
	 */
	int (*attach)(struct client_transport *t);

	/*
	 * After attach(), and after a detach() that has failed: the worker shares the memory again. -EPIPE, -ECONNRESET
	 * and -EBADF: the session is lost. Others: a part of the memory is the process's own still, and this may be
	 * repeated.
	 */
	int (*gather)(struct client_transport *t);

	/* The last descriptor of a detached session is closed. */
	void (*end)(struct client_transport *t);

	/* Closes the descriptors of a session that is lost. */
	void (*drop)(struct client_transport *t);
};

struct client_transport_ops {
	const char *name; /* "virtio", "local" */

	/* How long to poll for a GPU's work before wait() is called. A wake-up takes a few hundredths of that at most.
	 */
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

	/* Undoes mapping_create() or mapping_register(). Afterwards the worker can no longer touch the pages. */
	int (*mapping_release)(struct client_transport *t, void *address, size_t bytes,
			       enum client_mapping_release pages);

	/*
	 * Pins pages of the application (page aligned) for copies by the worker from them, and to them if they are
	 * pinned writable; gives them back, once no copy is under way. Only where `direct` is true.
	 */
	int (*direct_pin)(struct client_transport *t, void *address, size_t bytes, bool writable);
	int (*direct_unpin)(struct client_transport *t, void *address, size_t bytes);

	/*
	 * A new descriptor of the application's that holds what the worker has exported under the key `name`, and from
	 * which `contents` can be read (client_export_read()). Returns it, or -errno. -EOPNOTSUPP: the host or the
	 * guest's driver is older; -ENOENT: nothing has that name; -EDQUOT: the host's limit is reached.
	 */
	int (*export_descriptor)(struct client_transport *t, const uint64_t name[2], const uint8_t contents[64]);

	const struct client_detaching *detaching; /* NULL: the session cannot be given up */

	/* In a forked child: closes what it inherited. Async-signal-safe; may be NULL. */
	void (*forked)(struct client_transport *t);
};

extern const struct client_transport_ops client_transport_virtio; /* argument: device path, NULL: /dev/vcuda */
extern const struct client_transport_ops
	client_transport_local; /* argument: socket path, NULL: $VCUDA_SOCKET or the default socket */

/* The contents of a descriptor of export_descriptor(), of any process. False: it is none. */
bool client_export_read(int fd, void *contents, size_t bytes);

/*
 * Makes *own a connection to vcudad at `where`, as client_transport_local's. `prepare`: called with the socket before it
 * connects, returns 0 or -errno; NULL: nothing. 0 or -errno: then there is nothing to close.
 */
int client_local_connect(const char *where, struct vcuda_own_descriptor *own, int (*prepare)(int fd));

/* The same for a connection that has no worker (protocol/ipc/process.h). */
int client_local_dialog(const char *where, struct vcuda_own_descriptor *own);

#endif

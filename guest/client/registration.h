/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the application that the worker maps, byte by byte: several registrations may have parts of one page.
 *
 * The first and the last page of a registration, where it has only a part of them, are mappings of their own, which all
 * registrations on that page share and which the last of them ends. The whole pages in between are one mapping of the
 * registration's. Registrations do not overlap: the caller sees to that.
 *
 * Functions return 0 or -errno of the transport. Thread-safe.
 */
#ifndef VCUDA_REGISTRATION_H
#define VCUDA_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "transport.h"

struct client_registration {
	uint64_t start, bytes;             /* bytes: not 0 */
	enum client_mapping_release pages; /* of the whole pages; set by client_registration_map() */
};

/*
 * Makes all of it visible to the worker at the same address, or nothing on failure. -EFAULT: a part of the memory is
 * not the process's, or a page is shared with another registration, and only one of the two is writable.
 */
int client_registration_map(struct client_transport *t, struct client_registration *r, bool writable);

/* After this the worker has only those pages that other registrations have parts of. */
int client_registration_unmap(struct client_transport *t, const struct client_registration *r);

/*
 * Between these two calls the process does not fork where registrations have parts of pages. False: another thread does,
 * or registers memory, for longer than `ms`.
 */
bool client_registration_hold(unsigned int ms);
void client_registration_let_go(void);

#endif

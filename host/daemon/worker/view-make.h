/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a view (view.h). */
#ifndef VCUDA_VIEW_MAKE_H
#define VCUDA_VIEW_MAKE_H

#include <stdbool.h>
#include <sys/types.h>

#include "host/sandbox/worker-files.h"
#include "options/options.h"
#include "worker/view.h"

/* The namespaces of a view, in the order in which a worker enters them. */
enum { DAEMON_VIEW_USER, DAEMON_VIEW_MOUNTS, DAEMON_VIEW_NETWORK, DAEMON_VIEW_IPC, DAEMON_VIEW_NAMESPACES };

struct daemon_view_plan {
	const struct worker_file_needs *files;
	struct daemon_worker_user user; /* of workers, if it is set */
	const gid_t *groups;            /* and its further groups */
	unsigned int group_count;
	bool alone; /* the workers share nothing with those of another vcudad */
	/*
	 * The namespaces of the view that this one replaces, or NULL. The new view has the same namespaces but for the
	 * mounts, and the same /dev/shm: so later workers find the memory that earlier ones share.
	 */
	const int *earlier;
};

/*
 * Makes the view in a child, which has ended when this returns. `namespaces` are descriptors, the caller's to close;
 * -1: none. 0, or -errno with *failure.
 */
int daemon_view_make(const struct daemon_view_plan *plan, int namespaces[DAEMON_VIEW_NAMESPACES],
		     struct daemon_view_failure *failure);

/* In the process that becomes the worker, last: its user. 0 or -errno. */
int daemon_view_set_user(const struct daemon_view_plan *plan);

#endif

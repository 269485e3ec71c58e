/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view: the file system as workers see it. Its root has the files that host/sandbox/worker-files.h lists, and no
 * others: so a worker finds no socket of another program there. It is a mount namespace, which vcudad makes at its
 * start and keeps by a descriptor. vcudad itself stays outside.
 *
 * Without CAP_SYS_ADMIN the mount namespace belongs to a user namespace, in which workers keep their user. Only VMs
 * have such a view: there workers have a network and an IPC namespace too. Local programs may belong to users that the
 * user namespace does not know.
 */
#ifndef VCUDA_VIEW_H
#define VCUDA_VIEW_H

#include <limits.h>
#include <stdbool.h>

#include "options/options.h"

struct daemon_view_failure {
	bool user; /* only the workers' user is in the way */
	char text[PATH_MAX + 128];
};

/*
 * Makes the view, in which `options->user` can work if it is set. VCUDA_TEST_VIEW=none, for tests, makes none. 0; or
 * -errno with *failure, and workers stay in the host's file system.
 */
int daemon_view_open(const struct daemon_options *options, struct daemon_view_failure *failure);

/*
 * Makes the view anew where one of its files has come, gone or been replaced. `environment` is the next worker's. The
 * memory that earlier workers share is there for later ones too.
 */
void daemon_view_refresh(const struct daemon_options *options, char *const environment[]);

/* In the process that becomes a worker. Nothing, where there is no view. 0 or -errno. */
int daemon_view_enter(void);

/* The same, after all that needs vcudad's rights: takes `options->user`, if it is set. */
int daemon_view_become_user(const struct daemon_options *options);

#endif

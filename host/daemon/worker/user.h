/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user for the workers of a VM alone (vcudad --worker-user auto): other VMs' workers, and vcudad, are another user's.
 * The user's number is of systemd's range for users that come and go, and is the VM's as long as vcudad holds a lock
 * on /run/vcuda/users/UID. The number follows from the name of the VM's cache, so that a VM that starts again has the
 * same number as a rule.
 */
#ifndef VCUDA_DAEMON_USER_H
#define VCUDA_DAEMON_USER_H

#include "options/options.h"

/*
 * Sets `options->user` where "auto" asks for a user and vcudad may have one. Returns why there is none; NULL: there is
 * one, or it was not asked for.
 */
const char *daemon_user_choose(struct daemon_options *options);

/* Lets others have a user that daemon_user_choose() took. */
void daemon_user_release(struct daemon_options *options);

#endif

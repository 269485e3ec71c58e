/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups that a vcudad makes in its own control group. Their names tell the next vcudad there which were left by a
 * vcudad that was killed.
 */
#ifndef VCUDA_OWN_GROUP_H
#define VCUDA_OWN_GROUP_H

#include <limits.h>
#include <stdbool.h>

/* Behind the name of the group in which a vcudad is itself, where it had to leave the one that it was started in. */
#define DAEMON_OWN_GROUP_ASIDE ".daemon"

/* Makes the group in `folder`, with `ending` behind its name. `path` is the new group's. 0 or -errno. */
int daemon_own_group_make(const char *folder, const char *ending, char path[PATH_MAX]);

/* Whether a group of that name is of a vcudad that is gone. */
bool daemon_own_group_is_stale(const char *name);

#endif

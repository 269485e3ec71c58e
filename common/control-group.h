/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups: where this process's own groups are, and which of them can end all processes that a child started.
 * Thread-safe.
 */
#ifndef VCUDA_CONTROL_GROUP_H
#define VCUDA_CONTROL_GROUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* Returns whether to go on with the next mount. The mount's own path is the first `top` characters of `folder`. */
typedef bool vcuda_group_visit(void *argument, const char *folder, size_t top);

/*
 * Calls `visit` for each mount that shows this process's group: of version 2 (controller NULL), or of the hierarchy of
 * version 1 with that controller. `root` is a prefix of all paths: "" except in tests.
 */
void vcuda_group_each(const char *root, const char *controller, vcuda_group_visit *visit, void *argument);

/* The ways to end all processes in a group. */
enum vcuda_group_way {
	VCUDA_GROUP_V2,   /* cgroup.kill (Linux 5.14) */
	VCUDA_GROUP_V1,   /* the freezer of version 1 */
	VCUDA_GROUP_NONE, /* this process can make no group of either kind */
};

/*
 * Whether a group below this process's own has a writable file of that name, in version 2 (controller NULL) or in the
 * hierarchy of version 1 with that controller. Makes such a group and removes it. On success `folder` is the path of
 * the own group's folder.
 */
bool vcuda_group_has(const char *controller, const char *file, char folder[PATH_MAX]);

/* The same for the file that ends the processes of a group in that way. */
bool vcuda_group_works(enum vcuda_group_way way, char folder[PATH_MAX]);

#endif

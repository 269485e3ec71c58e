/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock up to its ABI 6 (Linux 6.12). The system's header may be older. */
#ifndef VCUDA_SANDBOX_LANDLOCK_H
#define VCUDA_SANDBOX_LANDLOCK_H

#include <stdint.h>

enum {
	LANDLOCK_EXECUTE = 1 << 0,
	LANDLOCK_WRITE_FILE = 1 << 1,
	LANDLOCK_READ_FILE = 1 << 2,
	LANDLOCK_READ_DIR = 1 << 3,
	LANDLOCK_REMOVE_DIR = 1 << 4,
	LANDLOCK_REMOVE_FILE = 1 << 5,
	LANDLOCK_MAKE_DIR = 1 << 7,
	LANDLOCK_MAKE_REG = 1 << 8,
	LANDLOCK_MAKE_SOCK = 1 << 9,
	LANDLOCK_MAKE_FIFO = 1 << 10,
	LANDLOCK_REFER = 1 << 13,
	LANDLOCK_TRUNCATE = 1 << 14,
	LANDLOCK_IOCTL_DEV = 1 << 15,

	LANDLOCK_RIGHTS_1 = (1 << 13) - 1, /* all that ABI 1 knows */

	/* Rights to what is no folder. */
	LANDLOCK_FILE_RIGHTS =
		LANDLOCK_EXECUTE | LANDLOCK_WRITE_FILE | LANDLOCK_READ_FILE | LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV,
};

/* A new ruleset that denies everything that the kernel knows to deny, as a descriptor; or -errno. */
int landlock_create(void);

/* Adds rights to a file, or to a folder and all in it. A missing path is no error. 0 or -errno. */
int landlock_allow(int ruleset, const char *path, uint64_t rights);

/*
 * The same for a file in /proc. The kernel may forget such a file, and make another of the same name that has no right:
 * so a descriptor of it stays open.
 */
int landlock_allow_in_proc(int ruleset, const char *path, uint64_t rights);

/* Limits this thread and threads that it starts, for good; closes the ruleset. 0 or -errno. */
int landlock_enter(int ruleset);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock takes rights from a process for good, and needs no privilege for it. virtiofsd keeps the right to read
 * files, but not those of /proc, /sys and /dev: there it could read the memory of its user's other processes.
 *
 * Landlock grants whole hierarchies. So the names in /proc, /sys and /dev can be listed, and our directory, with its
 * logs, can be read. Landlock does not cover modes, owners, times and attributes, and truncation only since Linux 6.2.
 * There only virtiofsd's own --readonly refuses a guest's requests.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vm-view.h"

/* Since Linux 6.2; the headers may be older. */
#define FS_TRUNCATE (1ULL << 14)

/* Not the right to run programs: virtiofsd starts as a script, and its seccomp filter refuses execve. */
#define FS_RIGHTS                                                                                                      \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_WRITE_FILE |                  \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |               \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                    \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* For virtiofsd's socket, and the file with its process id. */
#define FS_OWN_DIRECTORY                                                                                               \
	(LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |                  \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK)

/* In a folder that the VM may write to: no device nodes. */
#define FS_WRITABLE (FS_RIGHTS & ~(uint64_t)(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK))

/* Since Linux 5.19: names that move from one folder to another. Without it programs copy. */
#define FS_REFER (1ULL << 13)

static bool allow_at(int ruleset, int directory, const char *path, uint64_t rights)
{
	/* A link is not followed: it could lead into /proc. */
	int fd = openat(directory, path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
	bool done = fd >= 0 && !syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);

	if (fd >= 0)
		close(fd);
	return done;
}

static bool is_kernels(const char *name)
{
	return !strcmp(name, "proc") || !strcmp(name, "sys") || !strcmp(name, "dev");
}

/* The content of all that is in "/" now, but for the kernel's file systems. */
static bool allow_reading(int ruleset)
{
	DIR *root = opendir("/");
	struct dirent *entry;

	if (!root)
		return false;
	while ((entry = readdir(root)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..") && !is_kernels(entry->d_name))
			/* An entry that has just gone, or that this user may not open, is not shared. */
			allow_at(ruleset, dirfd(root), entry->d_name, LANDLOCK_ACCESS_FS_READ_FILE);
	closedir(root);
	/* virtiofsd reads there how many files it may open. */
	allow_at(ruleset, AT_FDCWD, "/proc/sys/fs", LANDLOCK_ACCESS_FS_READ_FILE);
	return allow_at(ruleset, AT_FDCWD, "/", LANDLOCK_ACCESS_FS_READ_DIR);
}

bool landlock_enter(const char *directory, const char *writable, struct view_attempt *attempt)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	uint64_t truncate = abi >= 3 ? FS_TRUNCATE : 0, refer = abi >= 2 ? FS_REFER : 0;
	struct landlock_ruleset_attr attributes = {.handled_access_fs = FS_RIGHTS | truncate | refer};
	int ruleset;

	if (abi < 1)
		return view_refused(attempt, VIEW_LANDLOCK);
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof(attributes), 0);
	if (ruleset < 0 || !allow_reading(ruleset) ||
	    !allow_at(ruleset, AT_FDCWD, directory, FS_OWN_DIRECTORY | truncate) ||
	    (writable && !allow_at(ruleset, AT_FDCWD, writable, FS_WRITABLE | truncate | refer)) ||
	    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, ruleset, 0))
		return view_refused(attempt, VIEW_LANDLOCK);
	close(ruleset);
	return true;
}

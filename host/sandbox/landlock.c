/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sandbox/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define VERSION 1u /* flag of landlock_create_ruleset() that asks for the ABI */
#define PATH_BENEATH 1

#define NET_BIND_TCP (1u << 0)
#define NET_CONNECT_TCP (1u << 1)

/* Not abstract sockets: workers of one guest find one another by them (common/share.h). */
#define SCOPE_SIGNAL (1u << 1)

struct ruleset {
	uint64_t fs, net, scoped;
};

struct path_beneath {
	uint64_t rights;
	int32_t parent;
} __attribute__((packed));

static uint64_t handled_fs;

int landlock_create(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, VERSION), fd;
	struct ruleset attributes = {.fs = LANDLOCK_RIGHTS_1};
	size_t size = sizeof(attributes.fs);

	if (abi < 0)
		return -errno;
	if (abi >= 2)
		attributes.fs |= LANDLOCK_REFER;
	if (abi >= 3)
		attributes.fs |= LANDLOCK_TRUNCATE;
	if (abi >= 4) {
		attributes.net = NET_BIND_TCP | NET_CONNECT_TCP;
		size += sizeof(attributes.net);
	}
	if (abi >= 5)
		attributes.fs |= LANDLOCK_IOCTL_DEV;
	if (abi >= 6) {
		attributes.scoped = SCOPE_SIGNAL;
		size += sizeof(attributes.scoped);
	}
	fd = syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
	handled_fs = attributes.fs;
	return fd < 0 ? -errno : (int)fd;
}

static int allow(int ruleset, int fd, uint64_t rights)
{
	struct path_beneath rule = {.rights = rights & handled_fs, .parent = fd};
	struct stat file;

	if (fstat(fd, &file))
		return -errno;
	if (!S_ISDIR(file.st_mode))
		rule.rights &= LANDLOCK_FILE_RIGHTS;
	if (!rule.rights || !syscall(SYS_landlock_add_rule, ruleset, PATH_BENEATH, &rule, 0))
		return 0;
	return -errno;
}

static int allow_at(int ruleset, const char *path, uint64_t rights, int *fd)
{
	int err;

	*fd = open(path, O_PATH | O_CLOEXEC);
	if (*fd < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	err = allow(ruleset, *fd, rights);
	if (err)
		close(*fd);
	return err;
}

int landlock_allow(int ruleset, const char *path, uint64_t rights)
{
	int fd, err = allow_at(ruleset, path, rights, &fd);

	if (!err && fd >= 0)
		close(fd);
	return err;
}

int landlock_allow_in_proc(int ruleset, const char *path, uint64_t rights)
{
	int fd;

	return allow_at(ruleset, path, rights, &fd);
}

int landlock_enter(int ruleset)
{
	int err = syscall(SYS_landlock_restrict_self, ruleset, 0) ? -errno : 0;

	close(ruleset);
	return err;
}

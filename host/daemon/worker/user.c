/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/user.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "options/cache-folder.h"

#define FOLDER "/run/vcuda/users"

/* systemd has up to 65519 for it; Debian gives some from 64000 on to packages. */
#define FIRST_USER 61184u
#define USERS (64000u - FIRST_USER)

static struct {
	int lock; /* a descriptor */
	bool taken;
} own;

static bool has_capabilities(void)
{
	static const int needed[] = {CAP_CHOWN, CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_ADMIN};
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{0}};

	if (syscall(SYS_capget, &header, data))
		return false;
	for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
		if (!(data[0].effective >> needed[i] & 1))
			return false;
	return true;
}

static bool has_mps(const struct daemon_options *options)
{
	const char *given = getenv("CUDA_MPS_PIPE_DIRECTORY");

	return strcmp(options->backend, "cpu") && !access(given && *given ? given : "/tmp/nvidia-mps", F_OK);
}

/* ---- locks ---- */

static int open_folder(void)
{
	struct stat s;
	int folder;

	mkdir("/run/vcuda", 0755);
	mkdir(FOLDER, 0700);
	folder = open(FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder >= 0 && (fstat(folder, &s) || s.st_uid || s.st_mode & (S_IWGRP | S_IWOTH))) {
		close(folder);
		return -1;
	}
	return folder;
}

/* The lock's holder removes the file at its end: a file that was opened before that is no lock any more. */
static bool lock(int folder, uid_t uid)
{
	struct stat s;
	char name[16];
	int fd;

	snprintf(name, sizeof(name), "%u", uid);
	fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	if (flock(fd, LOCK_EX | LOCK_NB) || fstat(fd, &s) || !s.st_nlink) {
		close(fd);
		return false;
	}
	own.lock = fd;
	own.taken = true;
	return true;
}

static bool has_name(uid_t uid)
{
	return getpwuid(uid) || getgrgid(uid);
}

static uint32_t hash(const char *name)
{
	uint32_t value = 0x811c9dc5;

	/* FNV-1a */
	for (; *name; name++)
		value = (value ^ (unsigned char)*name) * 0x01000193;
	return value;
}

static bool take(const char *name, uid_t *uid)
{
	int folder = open_folder();
	uint32_t first = hash(name);

	for (uint32_t i = 0; folder >= 0 && i < USERS && !own.taken; i++) {
		*uid = FIRST_USER + (first + i) % USERS;
		if (!has_name(*uid))
			lock(folder, *uid);
	}
	if (folder >= 0)
		close(folder);
	return own.taken;
}

const char *daemon_user_choose(struct daemon_options *options)
{
	char name[DAEMON_CACHE_NAME_BYTES];
	uid_t uid = 0;

	/* Workers of local programs speak to those of the same user's other daemons. */
	if (strcmp(options->worker_user, "auto") || geteuid() || !options->vhost_socket || options->socket)
		return NULL;
	if (options->cache && !strcmp(options->cache, "shared"))
		return "--cache shared has them share vcudad's user's files";
	if (has_mps(options))
		return "NVIDIA's MPS serves one user at a time";
	if (!has_capabilities())
		return "vcudad lacks CAP_SYS_ADMIN, CAP_SETUID, CAP_SETGID, CAP_CHOWN or CAP_KILL";
	daemon_cache_name(options, name);
	if (!take(name, &uid))
		return "there is no free user (" FOLDER ")";
	options->user = (struct daemon_worker_user){.set = true, .uid = uid, .gid = uid};
	return NULL;
}

void daemon_user_release(struct daemon_options *options)
{
	char path[64];

	if (!own.taken)
		return;
	snprintf(path, sizeof(path), FOLDER "/%u", options->user.uid);
	unlink(path);
	close(own.lock);
	own.taken = false;
	options->user.set = false;
}

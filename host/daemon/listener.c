/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "listener.h"
#include "common/log.h"

#define DAEMON_BACKLOG 64

/* The connection that could not be accepted stays there: without a pause vcudad would try all the time. */
#define DAEMON_PAUSE_MS 100

/* Behind the path of a socket that does not accept connections yet. */
#define UNNAMED ".new"

/* The number of the first descriptor that systemd passes. */
#define PASSED_FIRST 3

/* True: a process listens at the address, or may do so. */
static bool is_live(const struct sockaddr_un *address, int type)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool live;

	if (fd < 0)
		return true;
	live = !connect(fd, (const struct sockaddr *)address, sizeof(*address)) ||
	       (errno != ECONNREFUSED && errno != ENOENT);
	close(fd);
	return live;
}

static int cannot_listen(const char *path, int status)
{
	vcuda_log("cannot listen on %s: %s", path, strerror(-status));
	return status;
}

static int clear_place(const struct sockaddr_un *address, int type)
{
	const char *path = address->sun_path;
	struct stat stat;

	if (lstat(path, &stat))
		return errno == ENOENT ? 0 : cannot_listen(path, -errno);
	if (!S_ISSOCK(stat.st_mode)) {
		vcuda_log("%s exists and is not a socket: remove it, or choose another path", path);
		return -EEXIST;
	}
	if (is_live(address, type)) {
		vcuda_log("another program listens on %s: end it, or choose another path", path);
		return -EADDRINUSE;
	}
	if (unlink(path))
		return cannot_listen(path, -errno);
	vcuda_log_debug("%s was left behind by a program that is gone: removed", path);
	return 0;
}

/* The socket gets its name once connections are accepted: a client that finds the name is not refused. */
static int bind_and_listen(struct daemon_listener *listener, const struct sockaddr_un *address, int type, mode_t mode)
{
	struct sockaddr_un unnamed = *address;
	const char *path = address->sun_path;
	struct stat stat;
	mode_t before;
	int status = clear_place(address, type);

	strcat(unnamed.sun_path, UNNAMED);
	if (!status)
		status = clear_place(&unnamed, type);
	if (status)
		return status;
	before = umask(0777 & ~mode);
	status = bind(listener->fd, (const struct sockaddr *)&unnamed, sizeof(unnamed)) ? -errno : 0;
	umask(before);
	if (status)
		return cannot_listen(path, status);
	if (listen(listener->fd, DAEMON_BACKLOG) || rename(unnamed.sun_path, path) || lstat(path, &stat)) {
		status = -errno;
		unlink(unnamed.sun_path);
		return cannot_listen(path, status);
	}
	listener->device = stat.st_dev;
	listener->inode = stat.st_ino;
	return 0;
}

/* Two daemons that start at once must not remove each other's socket: the directory is locked. */
static int lock_directory(const char *path)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		flock(fd, LOCK_EX);
	free(copy);
	return fd;
}

static void remove_dead(const char *directory, const char *name, int type)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat stat;

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", directory, name) >=
	    (int)sizeof(address.sun_path))
		return;
	if (lstat(address.sun_path, &stat) || !S_ISSOCK(stat.st_mode) || is_live(&address, type))
		return;
	if (!unlink(address.sun_path))
		vcuda_log_debug("%s was left behind by a program that is gone: removed", address.sun_path);
}

/* A program that has bound its socket and does not listen yet holds the directory's lock. */
void daemon_listener_clean(const char *directory, int type)
{
	int lock = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = lock >= 0 && !flock(lock, LOCK_EX) ? opendir(directory) : NULL;
	struct dirent *entry;

	while (entries && (entry = readdir(entries)))
		remove_dead(directory, entry->d_name, type);
	if (entries)
		closedir(entries);
	if (lock >= 0)
		close(lock);
}

static void pause_expired(struct daemon_timer *timer)
{
	struct daemon_listener *listener = container_of(timer, struct daemon_listener, pause);

	if (daemon_source_add(listener->loop, &listener->source, listener->fd, EPOLLIN))
		daemon_timer_set(listener->loop, timer, DAEMON_PAUSE_MS);
}

static void accept_later(struct daemon_listener *listener)
{
	vcuda_log_peer("cannot accept a connection on %s: %m", listener->path);
	daemon_source_remove(listener->loop, &listener->source);
	daemon_timer_set(listener->loop, &listener->pause, DAEMON_PAUSE_MS);
}

static void listener_ready(struct daemon_source *source, uint32_t events)
{
	struct daemon_listener *listener = container_of(source, struct daemon_listener, source);
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		listener->accepted(listener, fd);
	else if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR)
		accept_later(listener);
}

static bool listens_on(int fd, const struct sockaddr_un *address, int type)
{
	struct sockaddr_un bound;
	socklen_t length = sizeof(bound), size = sizeof(int);
	int listens = 0, kind = 0;

	memset(&bound, 0, sizeof(bound));
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
		return false;
	size = sizeof(int);
	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) || kind != type)
		return false;
	return !getsockname(fd, (struct sockaddr *)&bound, &length) && bound.sun_family == AF_UNIX &&
	       !strncmp(bound.sun_path, address->sun_path, sizeof(bound.sun_path));
}

/*
 * The descriptor of a socket that systemd listens on at the address, and passed as sd_listen_fds(3) says; -1: there is
 * none. The file is systemd's, and stays when vcudad ends.
 */
static int take_passed(const struct sockaddr_un *address, int type)
{
	const char *process = getenv("LISTEN_PID"), *number = getenv("LISTEN_FDS");
	long count = number ? strtol(number, NULL, 10) : 0;

	if (!process || strtol(process, NULL, 10) != getpid())
		return -1;
	for (int fd = PASSED_FIRST; fd - PASSED_FIRST < count && fcntl(fd, F_GETFD) >= 0; fd++)
		if (listens_on(fd, address, type) && !fcntl(fd, F_SETFD, FD_CLOEXEC) &&
		    !fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK))
			return fd;
	return -1;
}

/* A socket of our own at the address. */
static int open_own(struct daemon_listener *listener, const struct sockaddr_un *address, int type, mode_t mode)
{
	int lock, status;

	listener->fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return cannot_listen(address->sun_path, -errno);
	lock = lock_directory(address->sun_path);
	status = bind_and_listen(listener, address, type, mode);
	if (lock >= 0)
		close(lock);
	return status;
}

int daemon_listener_open(struct daemon_listener *listener, struct daemon_loop *loop, const char *path, int type,
			 mode_t mode)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int status = 0;

	listener->loop = loop;
	listener->path = path;
	listener->source = (struct daemon_source){.fd = -1, .ready = listener_ready};
	daemon_timer_init(&listener->pause, pause_expired);
	listener->fd = -1;
	if (strlen(path) > sizeof(address.sun_path) - sizeof(UNNAMED)) {
		vcuda_log("%s: a socket's path has at most %zu characters", path,
			  sizeof(address.sun_path) - sizeof(UNNAMED));
		return -ENAMETOOLONG;
	}
	strcpy(address.sun_path, path);
	listener->fd = take_passed(&address, type);
	if (listener->fd < 0)
		status = open_own(listener, &address, type, mode);
	if (!status)
		status = daemon_source_add(loop, &listener->source, listener->fd, EPOLLIN);
	if (status && listener->fd >= 0) {
		close(listener->fd);
		listener->fd = -1;
	}
	return status;
}

void daemon_listener_drain(struct daemon_listener *listener)
{
	struct stat stat;

	if (listener->fd < 0)
		return;
	if (!lstat(listener->path, &stat) && stat.st_dev == listener->device && stat.st_ino == listener->inode)
		unlink(listener->path);
	listener->inode = 0;
	listener_ready(&listener->source, EPOLLIN);
}

void daemon_listener_close(struct daemon_listener *listener)
{
	struct stat stat;

	if (listener->fd < 0)
		return;
	daemon_source_remove(listener->loop, &listener->source);
	daemon_timer_clear(&listener->pause);
	if (!lstat(listener->path, &stat) && stat.st_dev == listener->device && stat.st_ino == listener->inode)
		unlink(listener->path);
	close(listener->fd);
	listener->fd = -1;
}

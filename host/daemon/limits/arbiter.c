/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/arbiter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/control-directory.h"
#include "common/log.h"
#include "loop/helper.h"

/* Without an arbiter: until the next try to find one. */
#define RETRY_MS 200

static void ready(struct daemon_source *source, uint32_t events);

static struct {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	const struct daemon_arbiter_user *users[DAEMON_ARBITER_USERS];
	unsigned int count;
	struct daemon_source source;
	struct daemon_timer retry;
	struct daemon_helper helper; /* the arbiter, where this vcudad has started it */
	char path[108];
	int fd; /* -1: no arbiter */
} arbiter = {.source = {.fd = -1, .ready = ready}, .fd = -1};

void daemon_arbiter_use(const struct daemon_arbiter_user *user)
{
	arbiter.users[arbiter.count++] = user;
}

void daemon_arbiter_say(const struct vcuda_arbiter_message *m)
{
	/* An arbiter that does not read misses a message, and counts as gone: ready() finds the socket's end. */
	if (arbiter.fd >= 0 && send(arbiter.fd, m, sizeof(*m), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(*m))
		shutdown(arbiter.fd, SHUT_RDWR);
}

const char *daemon_arbiter_path(void)
{
	return arbiter.path;
}

bool daemon_arbiter_is_there(void)
{
	return arbiter.fd >= 0;
}

/* ---- the connection ---- */

static int connect_arbiter(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int error;

	if (fd >= 0 && !connect(fd, (const struct sockaddr *)address, sizeof(*address)))
		return fd;
	error = -errno;
	if (fd >= 0)
		close(fd);
	return error;
}

/* Whether no process listens at the path. */
static bool is_absent(int status)
{
	return status == -ENOENT || status == -ECONNREFUSED;
}

static int clear_path(const char *path)
{
	struct stat stat;

	if (lstat(path, &stat))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(stat.st_mode))
		return -EEXIST;
	return unlink(path) ? -errno : 0;
}

/* With the lock file held: no process listens at the path. */
static int start_arbiter(const struct sockaddr_un *address)
{
	char quantum[16], *arguments[] = {arbiter.options->arbiter_program, quantum, NULL};
	int status = clear_path(address->sun_path), fd, high;
	mode_t mask;

	if (status)
		return status;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	snprintf(quantum, sizeof(quantum), "%u", arbiter.options->quantum);
	mask = umask(0177);
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) || listen(fd, 128))
		status = -errno;
	else
		status = 0;
	umask(mask);
	high = status ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, VCUDA_ARBITER_FD + 1);
	if (!status)
		status = high < 0 ? -errno : daemon_helper_start(&arbiter.helper, arguments, high, VCUDA_ARBITER_FD);
	close(fd);
	if (high >= 0)
		close(high);
	return status;
}

/* Another vcudad may start one at the same time. */
static int find_arbiter(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char lock_path[sizeof(arbiter.path) + 8];
	int fd, lock, status;

	strcpy(address.sun_path, arbiter.path);
	fd = connect_arbiter(&address);
	if (!is_absent(fd) || !arbiter.options->arbiter_program || arbiter.helper.process)
		return fd;
	snprintf(lock_path, sizeof(lock_path), "%s.lock", arbiter.path);
	lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB)) {
		status = -errno;
		if (lock >= 0)
			close(lock);
		return status;
	}
	fd = connect_arbiter(&address);
	if (is_absent(fd)) {
		status = start_arbiter(&address);
		fd = status ? status : connect_arbiter(&address);
	}
	close(lock);
	return fd;
}

static void close_connection(void)
{
	daemon_source_remove(arbiter.loop, &arbiter.source);
	if (arbiter.fd >= 0)
		close(arbiter.fd);
	arbiter.fd = -1;
}

static void lose(void)
{
	close_connection();
	for (unsigned int i = 0; i < arbiter.count; i++)
		arbiter.users[i]->lost();
	daemon_timer_set(arbiter.loop, &arbiter.retry, RETRY_MS);
}

static void register_vm(void)
{
	struct vcuda_arbiter_message m = {.type = VCUDA_ARBITER_REGISTER, .version = VCUDA_ARBITER_VERSION};

	for (unsigned int i = 0; i < arbiter.count; i++)
		arbiter.users[i]->fill(&m);
	daemon_arbiter_say(&m);
	for (unsigned int i = 0; i < arbiter.count; i++)
		arbiter.users[i]->found();
}

static void try_arbiter(struct daemon_timer *timer)
{
	int fd = find_arbiter();

	if (fd < 0 || daemon_source_add(arbiter.loop, &arbiter.source, fd, EPOLLIN)) {
		if (fd >= 0)
			close(fd);
		lose();
		return;
	}
	arbiter.fd = fd;
	register_vm();
}

static bool take(const struct vcuda_arbiter_message *m)
{
	for (unsigned int i = 0; i < arbiter.count; i++)
		if (arbiter.users[i]->take(m))
			return true;
	return false;
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct vcuda_arbiter_message m;
	ssize_t bytes = recv(arbiter.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes != sizeof(m) || !take(&m))
		lose();
}

/* The socket tells of the arbiter's end as well. */
static void arbiter_ended(struct daemon_helper *helper, const siginfo_t *info)
{
}

static bool choose_path(void)
{
	char directories[VCUDA_CONTROL_DIRECTORIES][VCUDA_CONTROL_DIRECTORY_BYTES];
	unsigned int count = vcuda_control_directories(directories);

	if (arbiter.options->arbiter)
		return (size_t)snprintf(arbiter.path, sizeof(arbiter.path), "%s", arbiter.options->arbiter) <
		       sizeof(arbiter.path);
	for (unsigned int i = 0; i < count; i++)
		if (vcuda_control_directory_make(directories[i])) {
			snprintf(arbiter.path, sizeof(arbiter.path), "%.*s.arbiter", VCUDA_CONTROL_DIRECTORY_BYTES - 1,
				 directories[i]);
			return true;
		}
	return false;
}

void daemon_arbiter_open(struct daemon_loop *loop, const struct daemon_options *options)
{
	arbiter.options = options;
	if (!arbiter.count)
		return;
	if (!choose_path()) {
		vcuda_log("there is no folder for the arbiter's socket; say where it is with --arbiter PATH");
		return;
	}
	arbiter.loop = loop;
	daemon_timer_init(&arbiter.retry, try_arbiter);
	daemon_helper_init(&arbiter.helper, loop, arbiter_ended);
	try_arbiter(&arbiter.retry);
}

void daemon_arbiter_close(void)
{
	if (!arbiter.loop)
		return;
	close_connection();
	daemon_timer_clear(&arbiter.retry);
	/* The arbiter serves other VMs, and ends by itself. */
	daemon_helper_leave(&arbiter.helper);
}

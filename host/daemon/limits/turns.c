/* SPDX-License-Identifier: Apache-2.0 */
#include "limits/turns.h"

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
#include "limits/ledger.h"
#include "loop/helper.h"
#include "protocol/ipc/arbiter.h"

/* How often the workers' work is looked at: while turns are taken and the VM has work, and else. */
#define BUSY_MS 1
#define QUIET_MS 5

/* A VM has no work any more if it had none so many times. */
#define QUIET_TIMES 2

/* Without an arbiter: until work goes on by itself, and until the next try to find one. */
#define LEASE_MS 100
#define RETRY_MS 200

static void ready(struct daemon_source *source, uint32_t events);

static struct {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct daemon_source source;
	struct daemon_timer poll, retry, lease, stop;
	struct daemon_helper helper; /* the arbiter, where this vcudad has started it */
	char path[108];
	int fd; /* -1: no arbiter */
	bool lost;
	unsigned int exclusive; /* of the arbiter's last message */
	bool held;              /* it is another VM's turn */
	bool active;            /* as the arbiter knows */
	unsigned int processes; /* that share the device in the VM's turn */
	bool drains;
	uint32_t turn; /* of the last HOLD */
	uint32_t begun;
	unsigned int quiet;
} turns = {.source = {.fd = -1, .ready = ready}, .fd = -1};

static void say(enum vcuda_arbiter_type type)
{
	struct vcuda_arbiter_message m = {
		.type = type, .turn = turns.turn, .version = VCUDA_ARBITER_VERSION, .share = turns.options->share};

	/* An arbiter that does not read misses a message, and counts as gone: ready() finds the socket's end. */
	if (turns.fd >= 0 && send(turns.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(m))
		shutdown(turns.fd, SHUT_RDWR);
}

/* ---- what the workers do ---- */

static void add(struct daemon_ledger_row *row, void *sum)
{
	struct daemon_ledger_work *work = sum;

	daemon_ledger_row_work(row, work);
}

static void end_drain(void)
{
	turns.drains = false;
	daemon_timer_clear(&turns.stop);
	say(VCUDA_ARBITER_DRAINED);
}

/* Work that does not end is stopped, in the middle of a kernel. A GPU's work cannot be stopped. */
static void stop_expired(struct daemon_timer *timer)
{
	if (daemon_ledger_stop_work())
		end_drain();
}

static void show_state(void)
{
	uint32_t flags = (turns.held ? VCUDA_TURNS_HELD : 0) | (turns.exclusive ? VCUDA_TURNS_TAKEN : 0);

	daemon_ledger_set_turns(VCUDA_TURNS_STATE(flags, flags == VCUDA_TURNS_TAKEN ? turns.processes : 0));
}

/* What other VMs have on the device counts as a process each. */
static void count_processes(unsigned int workers)
{
	unsigned int processes = workers + (turns.exclusive ? turns.exclusive - 1 : 0);

	if (processes == turns.processes || !turns.exclusive || turns.held)
		return;
	turns.processes = processes;
	show_state();
}

static void look(void)
{
	struct daemon_ledger_work work = {0};
	bool busy;

	/* A worker without running work may have a guest process that waits for it, and no turn to come. */
	daemon_ledger_continue_ended();
	daemon_ledger_each(add, &work);
	busy = work.wanted || work.running || work.begun != turns.begun;
	turns.begun = work.begun;
	turns.quiet = busy ? 0 : turns.quiet + 1;
	if (turns.drains && !work.running)
		end_drain();
	if (busy && !turns.active)
		say(VCUDA_ARBITER_ACTIVE);
	else if (turns.active && turns.quiet == QUIET_TIMES)
		say(VCUDA_ARBITER_IDLE);
	turns.active = turns.quiet < QUIET_TIMES;
	count_processes(work.workers);
}

static void drained(void)
{
	if (turns.drains)
		look();
}

static void poll_expired(struct daemon_timer *timer)
{
	bool often;

	look();
	often = turns.drains || (turns.exclusive && turns.active);
	daemon_timer_set(turns.loop, timer, often ? BUSY_MS : QUIET_MS);
}

/* ---- the arbiter ---- */

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

/* Whether the path names no socket that somebody serves. */
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

/* With the lock file held: the path names no socket that somebody serves. */
static int start_arbiter(const struct sockaddr_un *address)
{
	char quantum[16], *arguments[] = {turns.options->arbiter_program, quantum, NULL};
	int status = clear_path(address->sun_path), fd, high;
	mode_t mask;

	if (status)
		return status;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	snprintf(quantum, sizeof(quantum), "%u", turns.options->quantum);
	mask = umask(0177);
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) || listen(fd, 128))
		status = -errno;
	else
		status = 0;
	umask(mask);
	high = status ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, VCUDA_ARBITER_FD + 1);
	if (!status)
		status = high < 0 ? -errno : daemon_helper_start(&turns.helper, arguments, high, VCUDA_ARBITER_FD);
	close(fd);
	if (high >= 0)
		close(high);
	return status;
}

/* Another vcudad may start one at the same time. */
static int find_arbiter(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char lock_path[sizeof(turns.path) + 8];
	int fd, lock, status;

	strcpy(address.sun_path, turns.path);
	fd = connect_arbiter(&address);
	if (!is_absent(fd) || !turns.options->arbiter_program || turns.helper.process)
		return fd;
	snprintf(lock_path, sizeof(lock_path), "%s.lock", turns.path);
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

static void close_arbiter(void)
{
	daemon_source_remove(turns.loop, &turns.source);
	if (turns.fd >= 0)
		close(turns.fd);
	turns.fd = -1;
}

static void lose(void)
{
	close_arbiter();
	daemon_timer_clear(&turns.stop);
	daemon_ledger_continue_work();
	turns.active = turns.drains = false;
	turns.exclusive = 0;
	if (!turns.lost)
		daemon_timer_set(turns.loop, &turns.lease, LEASE_MS);
	turns.lost = true;
	daemon_timer_set(turns.loop, &turns.retry, RETRY_MS);
}

static void lease_expired(struct daemon_timer *timer)
{
	vcuda_log("there is no arbiter at %s: %s", turns.path,
		  turns.options->share_strict ? "the work of this VM waits for one (--share-strict)"
					      : "this VM works without regard to shares until there is one");
	daemon_ledger_set_turns(turns.options->share_strict ? VCUDA_TURNS_HELD : 0);
}

static void try_arbiter(struct daemon_timer *timer)
{
	int fd = find_arbiter();

	if (fd < 0 || daemon_source_add(turns.loop, &turns.source, fd, EPOLLIN)) {
		if (fd >= 0)
			close(fd);
		lose();
		return;
	}
	turns.fd = fd;
	turns.quiet = QUIET_TIMES;
	turns.active = false;
	say(VCUDA_ARBITER_REGISTER);
}

static void take(const struct vcuda_arbiter_message *m)
{
	/* One that has answered is there: another version, or one that is full, closes the socket. */
	turns.lost = false;
	daemon_timer_clear(&turns.lease);
	turns.exclusive = m->exclusive;
	turns.turn = m->turn;
	turns.held = turns.drains = m->type == VCUDA_ARBITER_HOLD;
	show_state();
	if (turns.held) {
		daemon_timer_set(turns.loop, &turns.stop, m->quantum);
	} else {
		daemon_timer_clear(&turns.stop);
		daemon_ledger_continue_work();
	}
	look();
	daemon_timer_set(turns.loop, &turns.poll, BUSY_MS);
}

static void ready(struct daemon_source *source, uint32_t events)
{
	struct vcuda_arbiter_message m;
	ssize_t bytes = recv(turns.fd, &m, sizeof(m), MSG_DONTWAIT | MSG_TRUNC);

	if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (bytes == sizeof(m) && (m.type == VCUDA_ARBITER_RUN || m.type == VCUDA_ARBITER_HOLD))
		take(&m);
	else
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

	if (turns.options->arbiter)
		return (size_t)snprintf(turns.path, sizeof(turns.path), "%s", turns.options->arbiter) <
		       sizeof(turns.path);
	for (unsigned int i = 0; i < count; i++)
		if (vcuda_control_directory_make(directories[i])) {
			snprintf(turns.path, sizeof(turns.path), "%.*s.arbiter", VCUDA_CONTROL_DIRECTORY_BYTES - 1,
				 directories[i]);
			return true;
		}
	return false;
}

void daemon_turns_open(struct daemon_loop *loop, const struct daemon_options *options)
{
	if (!options->share)
		return;
	turns.options = options;
	daemon_ledger_set_turns(options->share_strict ? VCUDA_TURNS_HELD : 0);
	if (!choose_path()) {
		vcuda_log("--share: there is no folder for the arbiter's socket; say where it is with --arbiter PATH");
		return;
	}
	turns.loop = loop;
	daemon_timer_init(&turns.poll, poll_expired);
	daemon_timer_init(&turns.retry, try_arbiter);
	daemon_timer_init(&turns.lease, lease_expired);
	daemon_timer_init(&turns.stop, stop_expired);
	daemon_helper_init(&turns.helper, loop, arbiter_ended);
	daemon_ledger_on_drained(drained);
	try_arbiter(&turns.retry);
	daemon_timer_set(loop, &turns.poll, QUIET_MS);
}

const char *daemon_turns_state(void)
{
	if (turns.fd < 0)
		return "lost";
	return !turns.exclusive ? "open" : turns.held ? "other" : "own";
}

void daemon_turns_close(void)
{
	if (!turns.loop)
		return;
	close_arbiter();
	/* A worker that is stopped could not end. */
	daemon_ledger_continue_work();
	daemon_ledger_on_drained(NULL);
	daemon_timer_clear(&turns.poll);
	daemon_timer_clear(&turns.retry);
	daemon_timer_clear(&turns.lease);
	daemon_timer_clear(&turns.stop);
	/* The arbiter serves other VMs, and ends by itself. */
	daemon_helper_leave(&turns.helper);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "call.h"
#include "common/log.h"
#include "common/start-thread.h"
#include "protocol/control.h"
#include "protocol/ipc/process.h"
#include "registration.h"
#include "session.h"
#include "transport.h"

/*
 * To the thread alone, which has it blocked. The value tells the library's signals from others of that number, and
 * where the process is to be restored.
 */
#define SIGNAL (SIGRTMAX - 1)
#define VALUE 0x76637564u
#define VALUE_RESTORES 0x76637565u

/* The time for running calls and ending threads. */
#define PAUSE_MS 2000

/* Interval of looks: the process that locked this one may end, and another one may unlock it. */
#define LOOK_S 1

/* Times between introductions that vcudad refuses: twice as long each time, up to this. */
#define MOST_WAIT_S 32

/* A thread of the application's gets about so long to take a signal that is not the library's. */
#define PASS_MS 128

static struct client_restore_watch *watches;

/* The thread's own. */
static struct {
	bool quiet;    /* calls and mappings are closed */
	bool stays;    /* detaching failed, and is not tried again in this state */
	bool detached; /* vcudad keeps the session */
	bool apart;    /* not detached, but some memory may be the process's own */
	bool untold;   /* vcudad does not know these flags yet */
	bool is_over;  /* the session is lost */
} self;

void client_restore_watch(struct client_restore_watch *watch)
{
	watch->next = watches;
	watches = watch;
}

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

/* ---- locked, and unlocked ---- */

static bool is_paused(void)
{
	for (struct client_restore_watch *w = watches; w; w = w->next)
		if (!w->is_paused())
			return false;
	return true;
}

/* False: a thread goes on. */
static bool pause_threads(void)
{
	for (struct client_restore_watch *w = watches; w; w = w->next)
		w->pause();
	for (unsigned int i = 0; i < 2 * PAUSE_MS && !is_paused(); i++) {
		client_call_wake();
		nap();
	}
	return is_paused();
}

static void resume_threads(void)
{
	for (struct client_restore_watch *w = watches; w; w = w->next)
		w->resume();
}

static bool become_quiet(struct client_transport *t)
{
	if (pause_threads() && client_call_close(PAUSE_MS)) {
		if (t->ops->detaching->hold(t, PAUSE_MS))
			return true;
		client_call_open();
	}
	resume_threads();
	return false;
}

static void go_on(struct client_transport *t)
{
	t->ops->detaching->let_go(t);
	client_call_open();
	resume_threads();
}

/* A vcudad that does not hear it now hears it in the next look. One that does not know the process needs no more. */
static void tell(struct client_transport *t)
{
	int err = t->ops->detaching->tell(t, self.quiet, self.stays);

	self.untold = err && err != -EOPNOTSUPP && err != -ESRCH;
}

static void when_running(struct client_transport *t)
{
	bool said = self.quiet || self.stays;

	if (self.quiet)
		go_on(t);
	self.quiet = self.stays = false;
	if (said)
		tell(t);
}

static void when_locked(struct client_transport *t)
{
	if (self.quiet || self.stays)
		return;
	self.quiet = become_quiet(t);
	self.stays = !self.quiet;
	if (self.stays)
		vcuda_log(
			"this process is locked, and a thread of it is busy in the library: it keeps its connection to "
			"the GPU when it is checkpointed");
	tell(t);
}

/* ---- checkpointed, and restored ---- */

static void lose(struct client_transport *t)
{
	struct vcuda_shm *shm = t->shm;

	/* Threads that sleep check `lost`. */
	atomic_store(&shm->lost, client_session.gone);
	t->ops->detaching->drop(t);
	if (self.quiet)
		go_on(t);
	self.quiet = false;
	self.is_over = true;
	/* Calls fail from now on, whatever the log does. */
	client_session_lose(client_session.gone);
}

/* Pages of the application are exchanged: a fork does that too. */
static int move_memory(struct client_transport *t, int (*move)(struct client_transport *t))
{
	int err;

	if (!client_registration_hold(PAUSE_MS))
		return -EAGAIN;
	err = move(t);
	client_registration_let_go();
	return err;
}

/* False: some memory is the process's own still, or the session is lost. Calls stay closed, and vcudad refuses to run
 * work. */
static bool gather(struct client_transport *t)
{
	int err = self.apart ? move_memory(t, t->ops->detaching->gather) : 0;

	if (!err) {
		self.apart = false;
		return true;
	}
	if (client_session_check(err))
		lose(t);
	else
		vcuda_log_once(
			"this process is attached to its GPU, and cannot share its memory with it now (error %d): "
			"it tries again, and its CUDA calls wait",
			-err);
	return false;
}

static void stay(int err)
{
	if (err == -EOPNOTSUPP)
		vcuda_log("this process is checkpointed, and keeps its connection to the GPU: it has registered memory "
			  "that it shares with others, or a stack, or has put other memory there, or the host is "
			  "older");
	else
		vcuda_log("this process is checkpointed, and keeps its connection to the GPU: error %d", -err);
	self.stays = true;
}

static void when_checkpointed(struct client_transport *t)
{
	int err;

	when_locked(t);
	if (self.stays)
		return;
	err = move_memory(t, t->ops->detaching->detach);
	self.detached = !err;
	if (!err)
		return;
	self.apart = self.untold = true;
	if (err != -EAGAIN)
		stay(err);
	if (gather(t))
		tell(t);
}

/* The restoring process signals again until this process has its session and its memory. */
static void when_restored(struct client_transport *t)
{
	int err = t->ops->detaching->attach(t);

	if (err == -ENOENT) {
		vcuda_log("this process cannot have its connection to the GPU back: vcudad has ended its session");
		lose(t);
	}
	if (err && err != -ENOENT && err != -EAGAIN)
		vcuda_log_once(
			"this process cannot take its connection to the GPU now (error %d), and tries again when "
			"it is restored again",
			-err);
	if (err)
		return;
	self.detached = false;
	self.apart = self.untold = true;
	if (gather(t))
		tell(t);
}

/* ---- the thread ---- */

/* No other thread looks while the process is quiet. */
static bool is_worker_gone(struct client_transport *t)
{
	const struct vcuda_shm *shm = t->shm;

	return client_session_check(t->ops->wait(t, atomic_load(&shm->wake), 1)) != 0;
}

static void follow_state(struct client_transport *t, uint32_t state)
{
	if (self.untold)
		tell(t);
	if (state & VCUDA_PROCESS_STEP)
		return;
	if (state == VCUDA_PROCESS_RUNNING)
		when_running(t);
	else if (state == VCUDA_PROCESS_CHECKPOINTED)
		when_checkpointed(t);
	else
		when_locked(t);
}

static void look_detached(struct client_transport *t)
{
	uint32_t state;
	int err = t->ops->detaching->look(t, &state);

	/* vcudad knows the token no more: the worker has ended. */
	if (err == -ENOENT)
		lose(t);
	else if (!err && !(state & VCUDA_PROCESS_STEP) && state != VCUDA_PROCESS_CHECKPOINTED)
		when_restored(t);
}

static void look_attached(struct client_transport *t)
{
	uint32_t state;
	int err;

	if (!gather(t))
		return;
	err = t->ops->detaching->look(t, &state);
	if (!err)
		follow_state(t, state);
	else if (self.quiet && is_worker_gone(t))
		lose(t);
}

static void look(struct client_transport *t)
{
	if (self.detached)
		look_detached(t);
	else
		look_attached(t);
	t->ops->detaching->end(t);
}

static bool is_ours(const siginfo_t *info)
{
	unsigned int value = (unsigned int)info->si_value.sival_int;

	return info->si_code == SI_QUEUE && (value == VALUE || value == VALUE_RESTORES);
}

static bool is_pending(void)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, SIGNAL);
}

/*
 * A signal to the process, which another thread was to have. It is sent again, and this thread leaves it alone for a
 * while. The kernel lets no thread send one as if kill() had.
 */
static void pass_on(siginfo_t *info)
{
	if (syscall(SYS_rt_sigqueueinfo, getpid(), SIGNAL, info)) {
		info->si_code = SI_QUEUE;
		syscall(SYS_rt_sigqueueinfo, getpid(), SIGNAL, info);
	}
	for (unsigned int ms = 1; ms < PASS_MS && is_pending(); ms *= 2)
		nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* The program may not wait for signals (seccomp), or not any more. The thread goes on for as long as it has to. */
static bool look_without_signals(bool looks)
{
	if (looks || self.detached)
		nanosleep(&(struct timespec){.tv_sec = LOOK_S}, NULL);
	else
		self.is_over = true;
	return looks;
}

/* Waits for a signal, or for the time of the next look. */
static bool wait_for_look(siginfo_t *info)
{
	bool looks = (self.quiet || self.stays || self.apart || self.untold) && !self.detached;
	struct timespec soon = {.tv_sec = LOOK_S};
	sigset_t signals;
	int signal;

	sigemptyset(&signals);
	sigaddset(&signals, SIGNAL);
	signal = sigtimedwait(&signals, info, looks ? &soon : NULL);
	if (signal < 0 && errno != EAGAIN && errno != EINTR)
		return look_without_signals(looks);
	if (signal < 0)
		return errno == EAGAIN;
	if (is_ours(info))
		return true;
	pass_on(info);
	return false;
}

/* Other processes look for the restore thread only if vcudad knows it. */
static void introduce(struct client_transport *t)
{
	tell(t);
	t->ops->detaching->end(t);
}

/* vcudad refuses frequent connections, such as those of many processes of one user that start at once. */
static void introduce_again(struct client_transport *t)
{
	for (time_t wait = 1; self.untold && wait <= MOST_WAIT_S; wait *= 2) {
		nanosleep(&(struct timespec){.tv_sec = wait}, NULL);
		introduce(t);
	}
	if (self.untold)
		vcuda_log("vcudad was not told of the thread for cuCheckpointProcess*(): a checkpointed process keeps "
			  "its "
			  "connection to the GPU");
	self.untold = false;
}

static void *serve(void *transport)
{
	prctl(PR_SET_NAME, VCUDA_RESTORE_THREAD);
	/* The application's functions for the log may make calls, which wait for this thread. */
	vcuda_log_unobserved();
	introduce_again(transport);
	while (!self.is_over) {
		siginfo_t info = {0};

		if (wait_for_look(&info) && (!self.detached || (unsigned int)info.si_value.sival_int == VALUE_RESTORES))
			look(transport);
	}
	return NULL;
}

static void check_setting(void)
{
	const char *how = getenv("VCUDA_CHECKPOINT");

	if (how && *how && strcmp(how, "keep") && strcmp(how, "detach"))
		vcuda_log("VCUDA_CHECKPOINT=%s is not known, and is as keep: use detach or keep", how);
}

void client_restore_start(struct client_transport *t)
{
	if (!t->ops->detaching)
		return;
	check_setting();
	if (!t->ops->detaching->is_wanted())
		return;
	introduce(t);
	if (!vcuda_thread_start_before_fork(serve, t))
		vcuda_log("no thread can be started for cuCheckpointProcess*(): a checkpointed process keeps its "
			  "connection to the GPU");
}

/* ---- for other processes ---- */

/* The beginning of a file in a thread's folder of /proc; "": the file cannot be read. */
static void read_text(pid_t process, const char *thread, const char *file, char *text, size_t size)
{
	char path[64];
	ssize_t bytes = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/%s", process, thread, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		bytes = read(fd, text, size - 1);
		close(fd);
	}
	text[bytes > 0 ? bytes : 0] = 0;
}

static bool has_name(pid_t process, const char *thread)
{
	char name[32];

	read_text(process, thread, "comm", name, sizeof(name));
	return !strcmp(name, VCUDA_RESTORE_THREAD "\n");
}

/* The line comes after one with all groups of the user, which may be long. 0: it cannot be read. */
static unsigned long long read_blocked(pid_t process, const char *thread)
{
	unsigned long long blocked = 0;
	char path[64], *line = NULL;
	size_t size = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", process, thread);
	file = fopen(path, "re");
	while (file && !blocked && getline(&line, &size, file) > 0)
		if (!strncmp(line, "SigBlk:", 7))
			blocked = strtoull(line + 7, NULL, 16);
	free(line);
	if (file)
		fclose(file);
	return blocked;
}

/* As the library's threads do. The signal that the thread waits for counts as one that it does not block. */
static bool blocks_signals(pid_t process, const char *thread)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGCHLD};
	unsigned long long blocked = read_blocked(process, thread);

	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++)
		if (!(blocked >> (signals[i] - 1) & 1))
			return false;
	return true;
}

/* The signal ends a process that does not expect it, and any thread may have the name. */
static bool is_restore_thread(pid_t process, const char *thread)
{
	return has_name(process, thread) && blocks_signals(process, thread);
}

pid_t client_restore_find(pid_t process)
{
	struct dirent *entry;
	char path[32];
	pid_t found = 0;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", process);
	threads = opendir(path);
	while (threads && !found && (entry = readdir(threads)))
		if (entry->d_name[0] != '.' && is_restore_thread(process, entry->d_name))
			found = atoi(entry->d_name);
	if (threads)
		closedir(threads);
	return found;
}

void client_restore_nudge(pid_t process, pid_t thread, bool restores)
{
	siginfo_t info = {.si_signo = SIGNAL, .si_code = SI_QUEUE};

	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = (int)(restores ? VALUE_RESTORES : VALUE);
	syscall(SYS_rt_tgsigqueueinfo, process, thread, SIGNAL, &info);
}

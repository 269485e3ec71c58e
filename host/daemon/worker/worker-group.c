/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/worker-group.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/log.h"
#include "loop/helper.h"
#include "worker/group-file.h"
#include "worker/own-group.h"
#include "worker/strays.h"

/* Until a group that the kernel tells nothing of is looked at again. */
#define RETRY_MS 2
#define RETRY_SLOW_MS 50
#define RETRIES_FAST 50

/* A process that waits in the kernel does not freeze: the others are thawed, to die, after so many tries. */
#define FREEZE_TRIES 25

#define FOLDER_DEPTH 8 /* descriptors of nftw() */

static struct {
	struct daemon_loop *loop;
	enum vcuda_group_way way;
	char folder[PATH_MAX]; /* folder of vcudad's group, which has those of workers */
	unsigned int made;
	struct vcuda_list groups;
} state;

static bool has_word(int fd, const char *word)
{
	char text[256];
	ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);

	text[bytes > 0 ? bytes : 0] = '\0';
	return strstr(text, word);
}

/* ---- removal ---- */

/* How often vcudad tries to remove its own group at its end. */
#define CLOSE_TRIES 100

static int remove_folder(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	if (type == FTW_DP)
		rmdir(path);
	return 0;
}

/* The kernel removes a group only without processes. A worker may have made groups in its group. */
static bool is_removed(const char *folder)
{
	if (!rmdir(folder) || errno == ENOENT)
		return true;
	nftw(folder, remove_folder, FOLDER_DEPTH, FTW_DEPTH | FTW_PHYS);
	return !rmdir(folder) || errno == ENOENT;
}

/* ---- version 2 ---- */

/* False: there will be no event, or none that vcudad can wait for. */
static bool wait_for_event(struct daemon_worker_group *group)
{
	if (group->events < 0)
		group->events = daemon_group_open(group->folder, "cgroup.events", O_RDONLY);
	/* Read first: an event is a change after the read. */
	if (group->events < 0 || !has_word(group->events, "populated 1"))
		return false;
	return group->source.fd >= 0 || !daemon_source_add(state.loop, &group->source, group->events, EPOLLPRI);
}

static bool kill_v2(struct daemon_worker_group *group)
{
	daemon_group_write(group->folder, "cgroup.kill", "1");
	return wait_for_event(group);
}

/* ---- version 1 ---- */

static bool thaws;

/* A process of another namespace has the number 0 here, which kill() takes for vcudad's own process group. */
static int kill_in_folder(const char *path, const struct stat *stat, int type, struct FTW *where)
{
	int fd = type == FTW_DP ? daemon_group_open(path, "cgroup.procs", O_RDONLY) : -1;
	FILE *processes = fd >= 0 ? fdopen(fd, "r") : NULL;
	pid_t process;

	while (processes && fscanf(processes, "%d", &process) == 1)
		if (process > 0)
			kill(process, SIGKILL);
	if (processes)
		fclose(processes);
	if (thaws && type == FTW_DP)
		daemon_group_write(path, "freezer.state", "THAWED");
	return 0;
}

/* While the group is frozen its list is complete: no process of it forks, ends, or is between the two. */
static bool kill_v1(struct daemon_worker_group *group)
{
	int fd;

	daemon_group_write(group->folder, "freezer.state", "FROZEN");
	fd = daemon_group_open(group->folder, "freezer.state", O_RDONLY);
	thaws = fd < 0 || has_word(fd, "FROZEN") || group->tries % FREEZE_TRIES == FREEZE_TRIES - 1;
	if (fd >= 0)
		close(fd);
	nftw(group->folder, kill_in_folder, FOLDER_DEPTH, FTW_DEPTH | FTW_PHYS);
	return false;
}

/* ---- any way ---- */

static void forget(struct daemon_worker_group *group)
{
	daemon_source_remove(state.loop, &group->source);
	daemon_timer_clear(&group->timer);
	if (group->events >= 0)
		close(group->events);
	free(group->folder);
	vcuda_list_remove(&group->entry);
}

/* Kills what is left, and has itself called again until nothing is. */
static void step(struct daemon_worker_group *group)
{
	bool waits = true;

	if (group->folder ? is_removed(group->folder) : !daemon_strays_left()) {
		forget(group);
		group->empty(group);
		return;
	}
	if (group->folder)
		waits = group->way == VCUDA_GROUP_V2 ? kill_v2(group) : kill_v1(group);
	group->tries++;
	if (!waits)
		daemon_timer_set(state.loop, &group->timer, group->tries < RETRIES_FAST ? RETRY_MS : RETRY_SLOW_MS);
}

static void events_ready(struct daemon_source *source, uint32_t events)
{
	step(container_of(source, struct daemon_worker_group, source));
}

static void timer_expired(struct daemon_timer *timer)
{
	step(container_of(timer, struct daemon_worker_group, timer));
}

static void group_init(struct daemon_worker_group *group, enum vcuda_group_way way)
{
	*group = (struct daemon_worker_group){.way = way, .events = -1, .source = {.fd = -1, .ready = events_ready}};
	daemon_timer_init(&group->timer, timer_expired);
	vcuda_list_add(&group->entry, &state.groups);
}

int daemon_worker_group_make(struct daemon_worker_group *group)
{
	int status;

	group_init(group, state.way);
	if (state.way == VCUDA_GROUP_NONE)
		return 0;
	if (asprintf(&group->folder, "%s/%u", state.folder, ++state.made) < 0)
		group->folder = NULL;
	status = !group->folder ? -ENOMEM : mkdir(group->folder, 0755) ? -errno : 0;
	if (status)
		forget(group);
	return status;
}

static pid_t fork_into(const char *folder)
{
	struct clone_args arguments = {.flags = CLONE_VFORK | CLONE_INTO_CGROUP, .exit_signal = SIGCHLD};
	int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t child;

	if (fd < 0)
		return -errno;
	arguments.cgroup = (uint64_t)fd;
	child = (pid_t)syscall(SYS_clone3, &arguments, sizeof(arguments));
	if (child < 0)
		child = -errno;
	if (child)
		close(fd);
	return child;
}

static pid_t fork_plainly(void)
{
	pid_t child = (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);

	return child < 0 ? -errno : child;
}

/* Filters of containers and of services may refuse clone3(). */
pid_t daemon_worker_group_fork(struct daemon_worker_group *group)
{
	pid_t child = group->way == VCUDA_GROUP_V2 ? fork_into(group->folder) : -ENOSYS;

	if (child < 0) {
		group->moves = group->folder;
		child = fork_plainly();
	}
	if (child > 0)
		group->worker = child;
	return child;
}

/* In version 1 a thread moves alone. A process that moves may wait until all processors have been elsewhere. */
int daemon_worker_group_enter(const struct daemon_worker_group *group)
{
	if (!group->moves)
		return 0;
	return daemon_group_write(group->folder, group->way == VCUDA_GROUP_V1 ? "tasks" : "cgroup.procs", "0");
}

void daemon_worker_group_end(struct daemon_worker_group *group, void (*empty)(struct daemon_worker_group *group))
{
	group->worker = 0;
	group->empty = empty;
	step(group);
}

/* ---- vcudad's own ---- */

static bool is_known(pid_t child)
{
	if (daemon_helper_is(child))
		return true;
	vcuda_list_for_each (entry, &state.groups)
		if (container_of(entry, struct daemon_worker_group, entry)->worker == child)
			return true;
	return false;
}

static void strays_ended(void)
{
	struct daemon_worker_group *group, *after;

	if (daemon_strays_left())
		return;
	vcuda_list_for_each_safe (group, after, &state.groups, struct daemon_worker_group, entry)
		if (group->empty && !group->folder)
			step(group);
}

static void orphan_empty(struct daemon_worker_group *group)
{
	free(group);
}

/* Takes `folder`, of a group without an owner, and kills what is in it. */
static void end_orphan(char *folder, enum vcuda_group_way way)
{
	struct daemon_worker_group *group = malloc(sizeof(*group));

	if (!group) {
		free(folder);
		return;
	}
	group_init(group, way);
	group->folder = folder;
	daemon_worker_group_end(group, orphan_empty);
}

/* Processes in it may be alive: the worker may have started some, and its mapper ends after it. */
void daemon_worker_group_drop(struct daemon_worker_group *group)
{
	if (group->folder && !is_removed(group->folder)) {
		end_orphan(group->folder, group->way);
		group->folder = NULL;
	}
	forget(group);
}

static void end_stale(const char *folder, const char *name, enum vcuda_group_way way)
{
	char *path;

	if (asprintf(&path, "%s/%s", folder, name) < 0)
		return;
	vcuda_log_debug("%s was left behind by a vcudad that is gone: its processes are killed", path);
	end_orphan(path, way);
}

void daemon_worker_groups_end_stale(const char *folder, enum vcuda_group_way way)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (daemon_own_group_is_stale(entry->d_name))
			end_stale(folder, entry->d_name, way);
	if (directory)
		closedir(directory);
}

const char *daemon_worker_groups_folder(enum vcuda_group_way *way)
{
	*way = state.way;
	return state.folder;
}

static bool use(enum vcuda_group_way way)
{
	char folder[PATH_MAX];

	state.way = way;
	if (way == VCUDA_GROUP_NONE)
		return daemon_strays_adopt();
	if (!vcuda_group_works(way, folder) || daemon_own_group_make(folder, "", state.folder))
		return false;
	daemon_worker_groups_end_stale(folder, way);
	return true;
}

static bool use_first(const char *only)
{
	static const char *const names[] = {"v2", "v1", "none"};

	for (enum vcuda_group_way way = VCUDA_GROUP_V2; way <= VCUDA_GROUP_NONE; way++)
		if ((!only || !strcmp(only, names[way])) && use(way)) {
			vcuda_log_debug("control groups of workers: %s", names[way]);
			return true;
		}
	return false;
}

int daemon_worker_groups_open(struct daemon_loop *loop)
{
	const char *test = getenv("VCUDA_TEST_GROUPS"), *only = test && *test ? test : NULL;

	state.loop = loop;
	vcuda_list_init(&state.groups);
	daemon_strays_open(loop, is_known, strays_ended);
	if (use_first(only))
		return 0;
	if (only) {
		vcuda_log("VCUDA_TEST_GROUPS=%s does not work here", only);
		return -EOPNOTSUPP;
	}
	vcuda_log(
		"processes that a worker starts outlive it: vcudad may make no control groups (see vcuda doctor), and "
		"%s",
		getpid() == 1 ? "is process 1 of a container: start it behind an init, as by `docker run --init`"
			      : "this system has no list of a process's children (CONFIG_PROC_CHILDREN)");
	return 0;
}

void daemon_worker_groups_close(void)
{
	static const struct timespec pause = {.tv_nsec = 2000000};

	if (state.way == VCUDA_GROUP_NONE)
		return;
	/* a process that has just been killed keeps its group for a moment */
	for (unsigned int tries = 0; !is_removed(state.folder) && tries < CLOSE_TRIES; tries++)
		nanosleep(&pause, NULL);
}

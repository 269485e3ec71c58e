/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/memory-group.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log.h"
#include "worker/group-file.h"
#include "worker/own-group.h"
#include "worker/worker-group.h"

/* Until a lower limit is tried again. */
#define RETRY_MS 1000

/* The files of a group. */
struct version {
	const char *limit, *no_limit, *used, *swap_limit;
	struct counter {
		const char *file, *key;
	} kills, hits; /* processes that the kernel has killed; hits of the limit */
};

static const struct version version_1 = {
	"memory.limit_in_bytes",
	"-1",
	"memory.usage_in_bytes",
	"memory.memsw.limit_in_bytes",
	{"memory.oom_control", "oom_kill"},
	{"memory.oom_control", "oom_kill"},
};

static const struct version version_2 = {
	"memory.max",
	"max",
	"memory.current",
	"memory.swap.max",
	{"memory.events", "oom_kill"},
	{"memory.events", "oom"},
};

static struct {
	struct daemon_loop *loop;
	struct daemon_timer timer;     /* while a lower limit waits */
	const struct version *version; /* NULL: there is no group */
	char folder[PATH_MAX];
	char aside[PATH_MAX]; /* vcudad's own group; empty: the group in which it was started */
	uint64_t quota, guest;
	uint64_t limit;       /* the limit that the kernel has */
	uint64_t kills, hits; /* events that vcudad has handled */
} memory = {.quota = DAEMON_HOST_MEMORY_NO_LIMIT, .limit = DAEMON_HOST_MEMORY_NO_LIMIT};

static uint64_t count(const struct counter *counter)
{
	uint64_t number = daemon_group_number(memory.folder, counter->file, counter->key);

	return number == UINT64_MAX ? 0 : number;
}

/* ---- the limit ---- */

static uint64_t wanted(uint64_t quota)
{
	uint64_t limit = quota + memory.guest;

	return limit > DAEMON_HOST_MEMORY_NO_LIMIT ? DAEMON_HOST_MEMORY_NO_LIMIT : limit;
}

static int write_limit(const char *name, uint64_t bytes)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return daemon_group_write(memory.folder, name,
				  bytes == DAEMON_HOST_MEMORY_NO_LIMIT ? memory.version->no_limit : text);
}

/* In version 1 the second limit is of memory and swap together, and is never the lower one of both. */
static int write_limits_1(uint64_t bytes)
{
	bool raises = bytes > memory.limit;
	int status;

	if (raises)
		write_limit(memory.version->swap_limit, bytes);
	status = write_limit(memory.version->limit, bytes);
	if (!raises)
		write_limit(memory.version->swap_limit, bytes);
	return status;
}

static int write_limits_2(uint64_t bytes)
{
	bool is_limited = bytes != DAEMON_HOST_MEMORY_NO_LIMIT;

	daemon_group_write(memory.folder, memory.version->swap_limit, is_limited ? "0" : memory.version->no_limit);
	return write_limit(memory.version->limit, bytes);
}

/* The kernel would kill workers for a limit below what they have. */
static int settle(uint64_t quota)
{
	uint64_t bytes = wanted(quota);
	int status;

	if (bytes == memory.limit)
		return 0;
	if (bytes < memory.limit && daemon_memory_group_used() > bytes)
		return -EBUSY;
	status = memory.version == &version_1 ? write_limits_1(bytes) : write_limits_2(bytes);
	if (!status)
		memory.limit = bytes;
	return status;
}

int daemon_memory_group_set(uint64_t limit)
{
	int status = memory.version ? settle(limit) : -EOPNOTSUPP;

	if (!status)
		memory.quota = limit;
	return status;
}

/* A lower limit may have to wait for what is being freed. */
static void settle_later(struct daemon_timer *timer)
{
	int status = settle(memory.quota);

	if (status == -EBUSY)
		daemon_timer_set(memory.loop, timer, RETRY_MS);
	else if (status)
		vcuda_log_debug("cannot change the limit of the host's memory: %s", strerror(-status));
}

void daemon_memory_group_guest(uint64_t bytes)
{
	if (bytes == memory.guest)
		return;
	memory.guest = bytes;
	if (memory.version)
		settle_later(&memory.timer);
}

uint64_t daemon_memory_group_used(void)
{
	return memory.version ? daemon_group_number(memory.folder, memory.version->used, NULL) : UINT64_MAX;
}

uint64_t daemon_memory_group_left(void)
{
	uint64_t used = daemon_memory_group_used();

	if (!memory.version || memory.limit == DAEMON_HOST_MEMORY_NO_LIMIT || used == UINT64_MAX)
		return UINT64_MAX;
	return used < memory.limit ? memory.limit - used : 0;
}

/*
 * Where the whole host is out of memory the kernel kills workers too, without their limit being reached. Version 1 does
 * not tell both apart.
 */
bool daemon_memory_group_has_killed(void)
{
	uint64_t kills, hits;
	bool has_killed;

	if (!memory.version)
		return false;
	kills = count(&memory.version->kills);
	hits = count(&memory.version->hits);
	has_killed = kills > memory.kills && hits > memory.hits;
	memory.kills += kills > memory.kills;
	if (memory.kills == kills)
		memory.hits = hits;
	return has_killed;
}

/* ---- the group ---- */

static bool has_limit(void)
{
	return daemon_group_number(memory.folder, version_2.used, NULL) != UINT64_MAX;
}

static int lend(const char *group, const char *what)
{
	return daemon_group_write(group, "cgroup.subtree_control", what);
}

/* Leaves the group in which vcudad was started. A group with other processes still lends nothing. */
static int step_aside(const char *group)
{
	int status = daemon_own_group_make(group, DAEMON_OWN_GROUP_ASIDE, memory.aside);

	if (!status)
		status = daemon_group_write(memory.aside, "cgroup.procs", "0");
	if (!status)
		status = lend(group, "+memory");
	if (!status)
		return 0;
	daemon_group_write(group, "cgroup.procs", "0");
	rmdir(memory.aside);
	*memory.aside = '\0';
	return status;
}

static void folder_above(const char *folder, char above[PATH_MAX])
{
	strcpy(above, folder);
	*strrchr(above, '/') = '\0';
}

static bool open_2(bool is_wanted)
{
	enum vcuda_group_way way;
	const char *folder = daemon_worker_groups_folder(&way);
	char above[PATH_MAX];

	if (way != VCUDA_GROUP_V2)
		return false;
	strcpy(memory.folder, folder);
	folder_above(folder, above);
	if (!has_limit() && is_wanted && lend(above, "+memory"))
		step_aside(above);
	if (!has_limit())
		return false;
	memory.version = &version_2;
	return true;
}

static bool open_1(void)
{
	char above[PATH_MAX];

	if (!vcuda_group_has("memory", version_1.limit, above) || daemon_own_group_make(above, "", memory.folder))
		return false;
	daemon_worker_groups_end_stale(above, VCUDA_GROUP_V1);
	memory.version = &version_1;
	return true;
}

static int fail(const char *why)
{
	vcuda_log("--max-host-memory: %s (vcuda doctor says more): start vcudad with `systemd-run --user --scope -p "
		  "Delegate=yes vcudad ...`, or in a service with Delegate=yes, or leave the option out",
		  why);
	return -EOPNOTSUPP;
}

int daemon_memory_group_open(struct daemon_loop *loop, uint64_t limit)
{
	bool is_wanted = limit != DAEMON_HOST_MEMORY_NO_LIMIT;
	int status;

	memory.loop = loop;
	daemon_timer_init(&memory.timer, settle_later);
	if (!open_2(is_wanted) && !(is_wanted && open_1()))
		return is_wanted ? fail("vcudad may make no control group with a limit of memory") : 0;
	memory.kills = count(&memory.version->kills);
	memory.hits = count(&memory.version->hits);
	status = daemon_memory_group_set(limit);
	if (!status)
		return 0;
	daemon_memory_group_close();
	return fail(strerror(-status));
}

void daemon_memory_group_close(void)
{
	char above[PATH_MAX];

	if (memory.version == &version_1)
		rmdir(memory.folder);
	memory.version = NULL;
	daemon_timer_clear(&memory.timer);
	if (!*memory.aside)
		return;
	folder_above(memory.aside, above);
	lend(above, "-memory");
	daemon_group_write(above, "cgroup.procs", "0");
	rmdir(memory.aside);
}

int daemon_memory_group_enter(void)
{
	return memory.version == &version_1 ? daemon_group_write(memory.folder, "tasks", "0") : 0;
}

/* The host's own part of its memory, which no released memory takes. */
#define HOST_RESERVE (256u << 20)

static uint64_t reserved;

/* UINT64_MAX: not known. */
static uint64_t available(void)
{
	FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib;
	bool found = false;
	char line[128];

	while (file && !found && fgets(line, sizeof(line), file))
		found = sscanf(line, "MemAvailable: %llu", &kib) == 1;
	if (file)
		fclose(file);
	return found ? kib << 10 : UINT64_MAX;
}

bool daemon_memory_reserve(uint64_t bytes)
{
	uint64_t wanted = reserved + bytes;

	if (wanted > daemon_memory_group_left() || wanted + HOST_RESERVE > available())
		return false;
	reserved = wanted;
	return true;
}

void daemon_memory_unreserve(uint64_t bytes)
{
	reserved -= bytes;
}

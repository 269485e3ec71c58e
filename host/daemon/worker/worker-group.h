/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All processes of a worker: the worker and all that it started, however they were started. vcudad answers DESTROY,
 * UNMAP and a reset only when none of them is left: each may have the guest's memory mapped.
 *
 * Each worker has a control group of its own from its first instruction on:
 *
 *   VCUDA_GROUP_V2    cgroup.kill ends all processes of the group at once; cgroup.events tells when none is left.
 *   VCUDA_GROUP_V1    vcudad freezes the group, kills all that is in it, and thaws it.
 *   VCUDA_GROUP_NONE  No group: vcudad is the sub-reaper (strays.h) and kills the children that a worker leaves.
 *
 * In the first two ways the kernel says that a group is empty: it removes no other group. A process leaves its group
 * after it gave up its memory and closed its files. So an empty group has no mapping of guest memory, and no open
 * device: NVIDIA's driver ends all work of a process, copies included, before the close of the process's files returns.
 *
 * A worker may leave its group if it may write to the groups' file system. The worker's sandbox denies that.
 */
#ifndef VCUDA_WORKER_GROUP_H
#define VCUDA_WORKER_GROUP_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/control-group.h"
#include "common/list.h"
#include "loop/loop.h"

struct daemon_worker_group {
	struct vcuda_list entry; /* of all groups */
	enum vcuda_group_way way;
	pid_t worker; /* 0: not started, or waited for */
	char *folder; /* NULL: none */
	int events;   /* the group's cgroup.events while vcudad waits, else -1 */
	struct daemon_source source;
	struct daemon_timer timer;
	unsigned int tries;
	bool moves;                                       /* the worker goes into its group by itself, before exec */
	void (*empty)(struct daemon_worker_group *group); /* NULL: not ended yet */
};

/*
 * Chooses the way, and ends the groups of daemons that were killed. VCUDA_TEST_GROUPS=v2|v1|none, for tests, makes the
 * choice, and fails where that way does not work. 0 or -errno.
 */
int daemon_worker_groups_open(struct daemon_loop *loop);

/* Removes vcudad's own group. */
void daemon_worker_groups_close(void);

/* vcudad's own group, in which those of workers are, and how they are ended; with VCUDA_GROUP_NONE there is none. */
const char *daemon_worker_groups_folder(enum vcuda_group_way *way);

/* Ends the groups in `folder`, a group that vcudad is in, of daemons that were killed. */
void daemon_worker_groups_end_stale(const char *folder, enum vcuda_group_way way);

/* 0 or -errno. */
int daemon_worker_group_make(struct daemon_worker_group *group);

/*
 * As vfork(), in that vcudad goes on after the child's exec or end; as fork(), in that the child has memory of its own.
 * The child calls daemon_worker_group_enter() before exec. Returns the child's number, 0 in the child, or -errno.
 */
pid_t daemon_worker_group_fork(struct daemon_worker_group *group);
int daemon_worker_group_enter(const struct daemon_worker_group *group);

/*
 * The worker did not start, or was waited for before it had a guest. Processes that are left in its group are killed
 * later.
 */
void daemon_worker_group_drop(struct daemon_worker_group *group);

/*
 * The worker was waited for. Kills all other processes of the group, and calls `empty`, perhaps at once, when none is
 * left: the group is gone then. Does not call `empty` while a process cannot end.
 */
void daemon_worker_group_end(struct daemon_worker_group *group, void (*empty)(struct daemon_worker_group *group));

#endif

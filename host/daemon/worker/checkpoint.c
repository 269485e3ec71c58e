/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "loop/helper.h"
#include "protocol/ipc/checkpoint.h"

struct daemon_checkpoint {
	struct daemon_helper helper;
	void (*done)(void *owner, enum daemon_checkpoint_end end); /* NULL: the owner is gone */
	void *owner;
};

static enum daemon_checkpoint_end end_of(const siginfo_t *info)
{
	if (info->si_code != CLD_EXITED)
		return DAEMON_CHECKPOINT_BROKEN;
	return info->si_status == VCUDA_CHECKPOINT_DONE ? DAEMON_CHECKPOINT_DONE : DAEMON_CHECKPOINT_REFUSED;
}

static void ended(struct daemon_helper *helper, const siginfo_t *info)
{
	struct daemon_checkpoint *checkpoint = container_of(helper, struct daemon_checkpoint, helper);

	if (checkpoint->done)
		checkpoint->done(checkpoint->owner, end_of(info));
	free(checkpoint);
}

struct daemon_checkpoint *daemon_checkpoint_start(struct daemon_loop *loop, char *program, int pidfd,
						  const struct daemon_checkpoint_step *step,
						  void (*done)(void *owner, enum daemon_checkpoint_end end),
						  void *owner)
{
	char from[12], to[12];
	bool moves = !step->release && step->from != step->to;
	char *arguments[] = {program, step->release ? "release" : "restore", moves ? from : NULL, moves ? to : NULL,
			     NULL};
	struct daemon_checkpoint *checkpoint = calloc(1, sizeof(*checkpoint));
	int status = -ENOMEM;

	snprintf(from, sizeof(from), "%u", step->from);
	snprintf(to, sizeof(to), "%u", step->to);
	if (checkpoint) {
		daemon_helper_init(&checkpoint->helper, loop, ended);
		checkpoint->done = done;
		checkpoint->owner = owner;
		status = daemon_helper_start(&checkpoint->helper, arguments, pidfd, VCUDA_CHECKPOINT_FD);
	}
	if (!status)
		return checkpoint;
	vcuda_log("cannot start %s: %s", program, strerror(-status));
	free(checkpoint);
	return NULL;
}

void daemon_checkpoint_kill(struct daemon_checkpoint *checkpoint)
{
	daemon_helper_kill(&checkpoint->helper);
}

void daemon_checkpoint_drop(struct daemon_checkpoint *checkpoint)
{
	if (!checkpoint)
		return;
	checkpoint->done = NULL;
	daemon_helper_kill(&checkpoint->helper);
}

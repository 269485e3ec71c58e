/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VCUDA_LAUNCH_H
#define VCUDA_LAUNCH_H

#include <sys/types.h>

#include "options.h"

/* Whose process it is to serve: a local client's, the VM's, or one's that is yet to come. */
enum vcuda_launch_kind { VCUDA_LAUNCH_LOCAL, VCUDA_LAUNCH_VIRTIO, VCUDA_LAUNCH_WARM, VCUDA_LAUNCH_WARM_QUIET };

/*
 * Runs the worker program with `channel` as its descriptor VCUDA_CHANNEL_FD, the roster as VCUDA_ROSTER_FD, `images`
 * (-1: none) as VCUDA_IMAGE_CHANNEL_FD and none of our others, default signals and only the environment that concerns
 * it. 0 or -errno; *pidfd is the caller's to close.
 */
int vcuda_launch(const struct vcuda_options *options, enum vcuda_launch_kind kind, int channel, int images,
		 pid_t *pid, int *pidfd);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This vcudad's connection to the arbiter of the host (protocol/ipc/arbiter.h), which turns.h and worker/overcommit.h
 * have in common. vcudad starts the arbiter where there is none, and looks for one again and again while there is none.
 * No call blocks. All functions belong to the loop's thread.
 */
#ifndef VCUDA_DAEMON_ARBITER_H
#define VCUDA_DAEMON_ARBITER_H

#include <stdbool.h>

#include "loop/loop.h"
#include "options/options.h"
#include "protocol/ipc/arbiter.h"

/* A part of vcudad that uses the arbiter. */
struct daemon_arbiter_user {
	/* Sets this part's fields of the first message. */
	void (*fill)(struct vcuda_arbiter_message *m);
	/* An arbiter was found, and has been sent the first message. */
	void (*found)(void);
	/* False: the message is not for this part. */
	bool (*take)(const struct vcuda_arbiter_message *m);
	/* There is no arbiter, or none any more. Called again with each try that finds none. */
	void (*lost)(void);
};

#define DAEMON_ARBITER_USERS 2

/* Before daemon_arbiter_open(). `user` stays valid. */
void daemon_arbiter_use(const struct daemon_arbiter_user *user);

/* Without a part that uses it nothing happens. */
void daemon_arbiter_open(struct daemon_loop *loop, const struct daemon_options *options);
void daemon_arbiter_close(void);

/* Where there is none the message is dropped. */
void daemon_arbiter_say(const struct vcuda_arbiter_message *m);

/* Where the arbiter's socket is; for messages. */
const char *daemon_arbiter_path(void);

bool daemon_arbiter_is_there(void);

#endif

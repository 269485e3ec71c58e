/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that works for vcudad and is no worker: its environment and stderr are vcudad's, it has one more
 * descriptor, and vcudad notices its end. All functions belong to the loop's thread.
 */
#ifndef VCUDA_HELPER_H
#define VCUDA_HELPER_H

#include <signal.h>
#include <sys/types.h>

#include "loop/loop.h"

struct daemon_helper {
	struct vcuda_list entry; /* of all that run */
	struct daemon_loop *loop;
	struct daemon_source source;
	pid_t process; /* 0: it does not run */
	void (*ended)(struct daemon_helper *helper, const siginfo_t *info);
};

/* Before the other functions. `ended` is called once for each start, when the process has been waited for. */
void daemon_helper_init(struct daemon_helper *helper, struct daemon_loop *loop,
			void (*ended)(struct daemon_helper *helper, const siginfo_t *info));

/*
 * Starts the program arguments[0], which does not run. The program has `fd` as its descriptor `number`, and no higher
 * one. `fd` is above `number`, and stays the caller's. 0 or -errno.
 */
int daemon_helper_start(struct daemon_helper *helper, char *const arguments[], int fd, int number);

/* The same with a child that the caller has started in another way. After an error the child is killed and gone. */
int daemon_helper_adopt(struct daemon_helper *helper, pid_t child);

/* Kills the program if it runs. vcudad does not wait for the end: NVIDIA's driver may hold the program. */
void daemon_helper_kill(struct daemon_helper *helper);

/* As daemon_helper_kill(), and `ended` is not called: vcudad ends. */
void daemon_helper_close(struct daemon_helper *helper);

/* Lets the program go on, and `ended` is not called: vcudad ends. */
void daemon_helper_leave(struct daemon_helper *helper);

/* Whether the child of vcudad is one of these programs. */
bool daemon_helper_is(pid_t child);

#endif

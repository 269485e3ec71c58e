/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strays: children of vcudad that vcudad did not start. A worker makes one with CLONE_PARENT. Where vcudad is the
 * sub-reaper, a worker's own children become strays when the worker ends.
 *
 * The kernel lists the children of a thread in the order in which they came, and a child leaves the list only when
 * vcudad waits for it. A stray's children come into the list before the stray can be waited for. Hence a pass through
 * the list that finds no stray proves that no process descends from a worker that was waited for.
 */
#ifndef VCUDA_STRAYS_H
#define VCUDA_STRAYS_H

#include <stdbool.h>
#include <sys/types.h>

#include "loop/loop.h"

/*
 * Waits from now on for strays that have ended, in the loop. Children that vcudad has now are not strays. Another child
 * that is not a worker must be waited for before the loop goes on. `known` says whether a child is a worker. `ended` is
 * called when a child has ended. Without CONFIG_PROC_CHILDREN there are no strays for vcudad.
 */
void daemon_strays_open(struct daemon_loop *loop, bool (*known)(pid_t child), void (*ended)(void));

/*
 * Makes vcudad the sub-reaper. From now on each stray is killed, whenever one is seen. False: the kernel has no list of
 * children, or vcudad is the first process of a container, which also gets the orphans of other programs.
 */
bool daemon_strays_adopt(void);

/* Kills the strays that there are, if vcudad is the sub-reaper, and returns whether there are any. */
bool daemon_strays_left(void);

#endif

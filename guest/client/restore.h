/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The restore thread of a process that was started with VCUDA_CHECKPOINT=detach, for cuCheckpointProcess*(). A process
 * that is locked or unlocked, checkpointed or restored does its part there, whatever its other threads do, a debugger's
 * stop of these included:
 *
 *   locked        its threads touch nothing of the session's, and other threads of the library have ended
 *   checkpointed  the session's descriptors are closed, and memory that was shared with the worker is the process's
 *                 own, at the same addresses; vcudad keeps the worker for the holder of the token
 *   restored      the session is as it was
 *
 * The caller of cuCheckpointProcess*() signals the thread, which then asks vcudad for the process's state. A thread
 * that is detached hears only of a restore, so that it opens no descriptor before. In the checkpointed state the thread
 * takes no lock of the C library's that another thread may hold. Its lines of the log go to stderr alone: functions of
 * cuLogsRegisterCallback() are not called in it. Where a part of it fails the thread tries it again: the session is
 * lost only where the worker has ended.
 */
#ifndef VCUDA_CLIENT_RESTORE_H
#define VCUDA_CLIENT_RESTORE_H

#include <stdbool.h>
#include <sys/types.h>

struct client_transport;

/*
 * Tells vcudad that the thread is there, and starts it, for a transport that can be detached, if the user wants that
 * (VCUDA_CHECKPOINT). Without memory for it the process is never detached.
 */
void client_restore_start(struct client_transport *t);

/* Other threads of the library, which end while the process is locked. */
struct client_restore_watch {
	void (*pause)(void);     /* tells them to end, and may be repeated; client_call_wake() wakes those that sleep */
	bool (*is_paused)(void); /* all have ended */
	void (*resume)(void);    /* the threads may be started again; also called after a pause that was given up */
	struct client_restore_watch *next;
};

/* For a constructor of the library. The structure stays. */
void client_restore_watch(struct client_restore_watch *watch);

/*
 * The restore thread of a process, by its number in the caller's pid namespace; 0: it has none, or cannot be seen.
 * Threads of the name that do not block signals as the library's do are not taken for it.
 */
pid_t client_restore_find(pid_t process);

/* Has the thread ask for the state. One that is detached does so where the process is to be restored. */
void client_restore_nudge(pid_t process, pid_t thread, bool restores);

#endif

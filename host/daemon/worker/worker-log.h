/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pipe that is stdout and stderr of a worker, or of a keeper, which is meant below too. A worker has no descriptor
 * of vcudad's log: vcudad reads the pipe and writes to its own stderr the lines that log-lines.h lets pass.
 *
 * Neither side waits for the other. vcudad reads a bounded amount a turn, and pauses for a worker over its limit. The
 * worker's end does not block: a line for which the pipe has no room is lost, and vcudad does not count that line.
 */
#ifndef VCUDA_WORKER_LOG_H
#define VCUDA_WORKER_LOG_H

#include <stdint.h>
#include <sys/types.h>

#include "limits/log-lines.h"
#include "loop/loop.h"

struct daemon_worker_log {
	struct daemon_loop *loop;
	struct daemon_source source;
	struct daemon_timer pause_timer;  /* until it is read again */
	struct daemon_timer report_timer; /* until the dropped bytes are logged */
	int fd;                           /* -1: closed */
	uint64_t reported;                /* dropped bytes that the log tells of; lines.dropped come on top */
	const char *program;              /* the worker program's name */
	pid_t process;
	uint32_t guest_pid; /* for messages, 0: none yet; the owner sets it */
	struct daemon_log_lines lines;
};

/* Makes the pipe. The worker's end is the caller's to close. 0 or -errno; after an error there is nothing to close. */
int daemon_worker_log_open(struct daemon_worker_log *log, struct daemon_loop *loop, int *worker_end);

/* Begins to read, once the process runs. `program` is the name of the program, a constant. */
void daemon_worker_log_start(struct daemon_worker_log *log, const char *program, pid_t process);

/* The worker is gone, or did not start: logs what is left in the pipe. */
void daemon_worker_log_close(struct daemon_worker_log *log);

#endif

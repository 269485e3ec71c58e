/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text that a worker or a keeper writes to stderr, as lines for vcudad's log. The text is hostile. This module
 * splits the text into lines, replaces control characters, cuts long lines and limits the rate. It has no descriptor
 * and no clock.
 *
 * A line keeps its form. A line that claims to come from vcudad or from another such process gets the process's own
 * name in front. Empty lines are left out.
 */
#ifndef VCUDA_LOG_LINES_H
#define VCUDA_LOG_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The length of the longest line of common/log.c. The rest of a longer line is cut. */
#define DAEMON_LOG_LINE_BYTES 1024

/* Room for the report of a crash, or for the lines of VCUDA_VERBOSE=1 about 600 kernels. */
#define DAEMON_LOG_BURST_BYTES (64 << 10)

/* About ten lines a second; a worker that writes for ever adds 86 MB a day. */
#define DAEMON_LOG_BYTES_PER_S 1024

/*
 * The same of all workers together. The last part of the burst is for workers that have written little: many that write
 * without end leave it to the others.
 */
#define DAEMON_LOG_ALL_BURST_BYTES (256 << 10)
#define DAEMON_LOG_ALL_BYTES_PER_S 8192
#define DAEMON_LOG_RESERVE_BYTES (64 << 10)

/* After a drop, lines pass again once this much may pass: the log has whole paragraphs of a flood. */
#define DAEMON_LOG_RESUME_BYTES 4096

/* The newest dropped lines, for the end of the worker: the reason of a crash passes after a flood. */
#define DAEMON_LOG_LAST_BYTES 4096

/* A token bucket. */
struct daemon_log_bucket {
	uint64_t tokens;   /* thousandths of a byte that may pass */
	uint64_t refilled; /* when, in ms */
};

struct daemon_log_lines {
	/* Gets one line or several, of 4096 bytes at most. Each line has its newline. False: the lines are dropped. */
	bool (*emit)(struct daemon_log_lines *lines, const char *text, size_t length);
	char name[32]; /* "PROGRAM[PID]: " */
	struct daemon_log_bucket own, *all;
	uint64_t dropped;   /* bytes of lines over the limit that no caller has taken */
	bool is_cut;        /* the unfinished line is longer than `line` */
	bool is_over;       /* the newest complete line was dropped */
	size_t length;      /* of the unfinished line */
	size_t last_length; /* of the lines dropped since a line passed */
	char line[DAEMON_LOG_LINE_BYTES];
	char last[2 * DAEMON_LOG_LAST_BYTES];
};

/* `now` is a monotonic time in ms, here and below. */
void daemon_log_bucket_init(struct daemon_log_bucket *all, uint64_t now);

/* The text of `process`, which runs `program`. `all` is of all workers and keepers, and outlives `lines`. */
void daemon_log_lines_init(struct daemon_log_lines *lines, const char *program, pid_t process,
			   struct daemon_log_bucket *all, uint64_t now,
			   bool (*emit)(struct daemon_log_lines *lines, const char *text, size_t length));

void daemon_log_lines_add(struct daemon_log_lines *lines, const char *text, size_t length, uint64_t now);

/* Returns how many bytes were dropped since the last call. */
uint64_t daemon_log_lines_take_dropped(struct daemon_log_lines *lines);

/*
 * The worker has ended. daemon_log_lines_finish() completes the last line. daemon_log_lines_emit_last() then emits the
 * newest dropped lines, which do not count as dropped, unless all workers together have written too much for that.
 */
void daemon_log_lines_finish(struct daemon_log_lines *lines, uint64_t now);
void daemon_log_lines_emit_last(struct daemon_log_lines *lines);

#endif

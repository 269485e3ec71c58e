/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing: a line for each call that the application makes (VCUDA_TRACE), and a table of all when the process exits
 * (VCUDA_STATS). Each names a file that is appended to, or is 1 or -: standard error; without it, empty or 0: off.
 *
 * Every exported function is one jump through a table to the function itself, which is called vcuda_do_NAME. Tracing
 * fills the table with functions that note the call around it. All of this is generated (trace.py), so that no
 * function can be forgotten; the library's own calls of such functions pass it by.
 */
#ifndef VCUDA_TRACE_H
#define VCUDA_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

enum vcuda_trace_how {
	VCUDA_TRACE_SIGNED,
	VCUDA_TRACE_UNSIGNED,
	VCUDA_TRACE_HEX,
	VCUDA_TRACE_FLOAT,
	VCUDA_TRACE_ENUM,
	VCUDA_TRACE_FUNCTION, /* a handle, with the kernel's name */
	VCUDA_TRACE_STRING,   /* what the application says */
	VCUDA_TRACE_TEXT,     /* a string that the call writes: shown once it has */
	VCUDA_TRACE_STRUCT,   /* passed by value: not shown */
};

struct vcuda_trace_value {
	int value;
	const char *name; /* NULL: the end */
};

struct vcuda_trace_param {
	const char *name;
	uint8_t how;
	uint8_t target; /* not 0: a pointer to that many bytes, which are shown once the call has succeeded */
	const struct vcuda_trace_value *values;
};

struct vcuda_trace_call {
	const char *name;
	int count; /* of parameters; -1: not known, the call is refused whatever they are */
	const struct vcuda_trace_param *params;
};

/* What the calling thread did with the ring since a call began. */
struct vcuda_trace {
	uint64_t start, waited; /* ns */
	uint32_t waits, queued, stalls;
};

/* ---- generated ---- */

extern void (*vcuda_trace_jump[])(void);
extern void (*const vcuda_trace_traced[])(void);
extern const struct vcuda_trace_call vcuda_trace_calls[];
extern const unsigned int vcuda_trace_call_count;

/* ---- trace.c ---- */

void vcuda_trace_enter(struct vcuda_trace *t);
void vcuda_trace_leave(const struct vcuda_trace *t, unsigned int call, CUresult result, const uint64_t *values);

/* ---- trace-file.c ---- */

struct vcuda_trace_file {
	char *path; /* absolute; NULL: standard error */
	int fd;
	uint64_t device, inode;
};

/* What a variable asks for: false: nothing. A file that cannot be opened is standard error, and a message. */
bool vcuda_trace_file_open(struct vcuda_trace_file *f, const char *variable);

/* In one write, so that lines of several threads and processes do not mix. */
void vcuda_trace_file_write(struct vcuda_trace_file *f, const char *text, size_t length);

/* ---- trace-line.c ---- */

#define VCUDA_TRACE_LINE 2048

/* "NAME(ARGUMENTS) = RESULT" into line[VCUDA_TRACE_LINE]; returns its length. What does not fit is left out. */
size_t vcuda_trace_line(char *line, const struct vcuda_trace_call *call, CUresult result, const uint64_t *values);

/* ---- trace-summary.c ---- */

bool vcuda_trace_summary_start(void);
void vcuda_trace_summary_add(unsigned int call, CUresult result, uint64_t ns, const struct vcuda_trace *during);

/* In a child that was forked: its own calls count from now on. */
void vcuda_trace_summary_forget(void);

/* Nothing if the process made no call. Asks the worker for its part. */
void vcuda_trace_summary_print(struct vcuda_trace_file *to);

#endif

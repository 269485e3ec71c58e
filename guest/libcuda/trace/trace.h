/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracing: a line for each call that the application makes (VCUDA_TRACE), a table of all when the process exits
 * (VCUDA_STATS), and a trace of calls, commands and device work for a viewer (VCUDA_PROFILE). Each names a file that is
 * appended to, or is 1 or -: standard error; without it, empty or 0: off. A sink of the recorder (profile.h) turns it
 * on and off while the program runs.
 *
 * Every exported function is one jump through a table to the function itself, which is called vcuda_do_NAME. Before
 * cuInit, and in a child that was forked after it, the table has that of before-init.txt only, and for all others a
 * function that gives CUDA_ERROR_NOT_INITIALIZED. Tracing fills the table with functions that note the call around it.
 * All of this is generated (trace.py), so that no function can be forgotten; the library's own calls of such functions
 * pass it by.
 */
#ifndef VCUDA_TRACE_H
#define VCUDA_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/own-descriptor.h"
#include "protocol/cuda-abi.h"
#include "trace/profile.h"

enum libcuda_trace_how {
	LIBCUDA_TRACE_SIGNED,
	LIBCUDA_TRACE_UNSIGNED,
	LIBCUDA_TRACE_HEX,
	LIBCUDA_TRACE_FLOAT,
	LIBCUDA_TRACE_ENUM,
	LIBCUDA_TRACE_FUNCTION, /* a handle, with the kernel's name */
	LIBCUDA_TRACE_STRING,   /* a string of the application */
	LIBCUDA_TRACE_TEXT,     /* a string that the call writes: shown once it has */
	LIBCUDA_TRACE_STRUCT,   /* passed by value: not shown */
	LIBCUDA_TRACE_STREAM,   /* handles, shown as _HEX */
	LIBCUDA_TRACE_EVENT,
};

struct libcuda_trace_value {
	int value;
	const char *name; /* NULL: the end */
};

struct libcuda_trace_param {
	const char *name;
	uint8_t how;
	uint8_t target; /* not 0: a pointer to that many bytes, which are shown once the call has succeeded */
	const struct libcuda_trace_value *values;
};

struct libcuda_trace_call {
	const char *name;
	int count; /* of parameters; -1: not known, the call is refused whatever they are */
	const struct libcuda_trace_param *params;
};

/* The calling thread's use of the ring since a call began. */
struct libcuda_trace {
	uint64_t start, waited; /* ns */
	uint32_t waits, queued, stalls;
	struct libcuda_profile_entered profile;
};

/* ---- generated ---- */

extern void (*_Atomic libcuda_trace_jump[])(void);
extern void (*const libcuda_trace_closed[])(void); /* before cuInit */
extern void (*const libcuda_trace_plain[])(void);
extern void (*const libcuda_trace_traced[])(void);
extern const struct libcuda_trace_call libcuda_trace_calls[];
extern const unsigned int libcuda_trace_call_count;

/* ---- trace.c ---- */

/* Whether cuInit has succeeded, in this process. */
bool libcuda_trace_is_open(void);

/* Fills the table of entry points for what is traced and recorded now. Calls may be under way. */
void libcuda_trace_refill(void);

/* parameters: a structure of them in their order; NULL: there are none, or they are not known. */
void libcuda_trace_enter(struct libcuda_trace *t, unsigned int call, const void *parameters, const uint64_t *values);
void libcuda_trace_leave(struct libcuda_trace *t, unsigned int call, CUresult result, const uint64_t *values);

/* ---- trace-file.c ---- */

struct libcuda_trace_file {
	char *path; /* absolute; NULL: standard error */
	struct vcuda_own_descriptor own;
};

/* Opens the file that a variable names. False: none. A file that cannot be opened is logged, and stderr replaces it. */
bool libcuda_trace_file_open(struct libcuda_trace_file *f, const char *variable);

/* In one write, so that lines of several threads and processes do not mix. */
void libcuda_trace_file_write(struct libcuda_trace_file *f, const char *text, size_t length);

/* ---- trace-line.c ---- */

#define LIBCUDA_TRACE_LINE 2048

/* "NAME(ARGUMENTS) = RESULT" into line[LIBCUDA_TRACE_LINE]; returns its length. Parts that do not fit are left out. */
size_t libcuda_trace_line(char *line, const struct libcuda_trace_call *call, CUresult result, const uint64_t *values);

/*
 * The name of a function or kernel into name[room], with its NUL; a long name is cut. Returns its length, 0: it has
 * none.
 */
size_t libcuda_trace_function_name(char *name, size_t room, uint64_t handle);

/* ---- trace-summary.c ---- */

bool libcuda_trace_summary_start(void);
void libcuda_trace_summary_add(unsigned int call, CUresult result, uint64_t ns, const struct libcuda_trace *during);

/* In a child that was forked: its own calls count from now on. */
void libcuda_trace_summary_forget(void);

/* Nothing if the process made no call. Asks the worker for its part. */
void libcuda_trace_summary_print(struct libcuda_trace_file *to);

#endif

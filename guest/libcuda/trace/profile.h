/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile of the process (VCUDA_PROFILE): events in the JSON array form of Chrome's trace format, which Perfetto and
 * chrome://tracing read. The events are the application's calls, the worker's commands, and the device's work.
 *
 * Calls are noted by the threads that make them. A thread of the library fetches the worker's rows
 * (protocol/activity-rows.h) every few milliseconds and writes the events. Each event is a line with a comma at its
 * end, so that several processes may write to one file; the array has no end, which readers of the format accept.
 */
#ifndef VCUDA_LIBCUDA_PROFILE_H
#define VCUDA_LIBCUDA_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/cuda-abi.h"

/* Longer names are cut: of kernels; of ranges and domains of NVTX. */
#define LIBCUDA_PROFILE_NAME 4096
#define LIBCUDA_PROFILE_RANGE_NAME 1024

/* ---- profile.c ---- */

/* False: there is no profile. */
bool libcuda_profile_start(void);

/*
 * The calling thread's call has ended. start, ns, waited: when it began, how long it took, how long it waited for the
 * worker, in ns of the monotonic clock. Thread-safe. A call for which there is no room is counted as lost.
 */
void libcuda_profile_add(unsigned int call, CUresult result, uint64_t start, uint64_t ns, uint64_t waited,
			 const uint64_t *values);

enum libcuda_profile_range_kind {
	LIBCUDA_PROFILE_PUSHED,  /* and popped by the same thread */
	LIBCUDA_PROFILE_STARTED, /* and ended, maybe by another thread */
	LIBCUDA_PROFILE_MARK,    /* a moment */
};

/* A range or mark of NVTX. */
struct libcuda_profile_range {
	enum libcuda_profile_range_kind kind;
	uint64_t start, ns;
	char *name;         /* allocated; NULL: there was no memory */
	const char *domain; /* lives as long as the process. NULL: none */
	int tid;
};

bool libcuda_profile_is_on(void);

/* Notes a range of the calling thread, or of any, which has ended. Takes its name over. Thread-safe. */
void libcuda_profile_add_range(const struct libcuda_profile_range *range);

/* In a child that was forked: the profile of the child begins. */
void libcuda_profile_forget(void);

/* Writes all that is known. Waits for the worker for a second at most. */
void libcuda_profile_finish(void);

/* The function's name, which lives as long as the process. NULL: it is not known. Thread-safe. */
const char *libcuda_profile_name(uint64_t function);

/* ---- profile-commands.c ---- */

/* A command that gives the device work. */
struct libcuda_profile_command {
	uint64_t stream, bytes; /* bytes: of a copy or memset, else 0 */
	uint64_t function;      /* of a launch, else 0 */
	const char *kind;       /* "kernel", "graph", "library", "memcpy" or "memset" */
	const char *name;       /* where there is no function */
};

/* From now on commands are noted. Returns false if there is no memory for them. Once, before the first command. */
bool libcuda_profile_commands_start(void);

/* False: the command gives the device no work, or is too long ago. Thread-safe. */
bool libcuda_profile_command_find(uint64_t seq, struct libcuda_profile_command *command);

/* ---- profile-write.c ---- */

struct libcuda_trace_file;

/* A call that has ended. */
struct libcuda_profile_call {
	uint64_t start, ns, waited;
	uint64_t first, last; /* its commands, and maybe other threads'; 0: it made none */
	uint64_t function;    /* that the call names; 0: none */
	int tid;
	CUresult result;
	uint16_t call;
};

/* All that follows is for one thread at a time. */

void libcuda_profile_write_begin(struct libcuda_trace_file *file);
void libcuda_profile_write_call(const struct libcuda_profile_call *call);
void libcuda_profile_write_range(const struct libcuda_profile_range *range);

/* VCUDA_ACTIVITY_WORDS words of the worker; `offset`: what its clock is ahead of ours, in ns. */
void libcuda_profile_write_row(const uint64_t *row, int64_t offset);

/* Hands what has been written to the file. */
void libcuda_profile_write_flush(void);

#endif

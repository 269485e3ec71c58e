/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record of what the process does: the application's calls, the worker's commands, and the device's work. It goes to
 * a file (VCUDA_PROFILE), to a sink that libcupti.so attaches (protocol/profile-table.h), or to both.
 *
 * Calls are noted by the threads that make them. A thread of the library fetches the worker's rows
 * (protocol/activity-rows.h) every few milliseconds and tells file and sink.
 *
 * The file has events in the JSON array form of Chrome's trace format, which Perfetto and chrome://tracing read. Each
 * event is a line with a comma at its end, so that several processes may write to one file; the array has no end, which
 * readers of the format accept.
 */
#ifndef VCUDA_LIBCUDA_PROFILE_H
#define VCUDA_LIBCUDA_PROFILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/thread.h"
#include "protocol/cuda-abi.h"
#include "protocol/profile-table.h"

/* Longer names are cut: of kernels; of ranges and domains of NVTX. */
#define LIBCUDA_PROFILE_NAME 4096
#define LIBCUDA_PROFILE_RANGE_NAME 1024

/* ---- profile.c ---- */

/* Begins the file that VCUDA_PROFILE names. False: there is none. */
bool libcuda_profile_start(void);

/* Memory for a record is there from now on. False: there is none. Thread-safe. */
bool libcuda_profile_prepare(void);

/* A call that has ended. */
struct libcuda_profile_call {
	struct vcuda_profile_note note;
	uint64_t waited;      /* ns */
	uint64_t first, last; /* the call's commands, maybe with those of other threads in between; 0: no commands */
	uint64_t function;    /* the function handle in the call; 0: none */
};

/* A call for which there is no room is counted as lost. Thread-safe. */
void libcuda_profile_add(const struct libcuda_profile_call *call);

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

/* Whether there is a file. */
bool libcuda_profile_has_file(void);

/* Notes a range of the calling thread, or of any, which has ended. Takes its name over. Thread-safe. */
void libcuda_profile_add_range(const struct libcuda_profile_range *range);

/* In a child that was forked: the record of the child begins. */
void libcuda_profile_forget(void);

/* Tells all that is known. Waits for the worker for a second at most. */
void libcuda_profile_finish(void);

/*
 * Tells all calls that have ended, and all work that the worker knows of, however long the worker takes. False: a
 * call's note has not been ended within a second, or the worker is lost with work that was not told.
 */
bool libcuda_profile_flush(void);

/* Tells a change of the sink's wishes: change() is called, and the worker measures from now on if there is a sink. */
void libcuda_profile_change(void (*change)(uint32_t what), uint32_t what);

/* Nothing is told any more, once a round that is under way has ended. */
void libcuda_profile_end(void);

/* ---- profile-function.c ---- */

struct libcuda_profile_function {
	const char *name; /* lives as long as the process. NULL: it is not known */
	uint32_t static_shared_bytes, local_bytes, registers;
};

/* False: there is no memory. Once. */
bool libcuda_profile_functions_start(void);

/*
 * The name of a function or kernel is kept, since it may be unloaded; and its attributes in the current context, for
 * which the worker may be asked. Thread-safe.
 */
void libcuda_profile_function_keep(uint64_t handle, bool with_attributes);

/* All 0: nothing is known. Thread-safe. */
struct libcuda_profile_function libcuda_profile_function_find(uint64_t handle);

void libcuda_profile_functions_forget(void);

/* ---- profile-sink.c ---- */

/* NULL: there is none. */
const struct vcuda_profile_sink *libcuda_profile_sink(void);

/* The VCUDA_PROFILE_* that the sink wants. */
uint32_t libcuda_profile_watched(void);

/* A call that a thread is in. */
struct libcuda_profile_entered {
	const struct vcuda_profile_sink *sink; /* NULL: the call is not told */
	struct vcuda_profile_site site;
	struct libcuda_recorded before;
};

/* Whether calls are recorded, for the sink or the file. */
bool libcuda_profile_is_on(void);

/* Begins a call of which the site is filled in but for its correlation and context. False: it is not told. */
bool libcuda_profile_enter_site(struct libcuda_profile_entered *e);
/* Fills in what the sink knows. Returns whether the sink wants the note. The domain and call are filled in. */
bool libcuda_profile_leave_site(struct libcuda_profile_entered *e, const void *result, struct vcuda_profile_note *note);

/* Around a call of the driver. `values`: its arguments. */
void libcuda_profile_enter(struct libcuda_profile_entered *e, unsigned int call, const void *parameters,
			   const uint64_t *values);
/* start, ns, waited: when it began, how long it took, how long it waited for the worker, in ns. */
void libcuda_profile_leave(struct libcuda_profile_entered *e, unsigned int call, CUresult result, uint64_t start,
			   uint64_t ns, uint64_t waited, const uint64_t *values);

/* ---- nvtx-functions.c ---- */

/* vcuda_profile_table.observe_ranges(). */
bool libcuda_ranges_observe(const void *(*table_of)(uint32_t));

/* ---- profile-runtime.c ---- */

/* Whether NVIDIA's runtime tells of its calls. */
void libcuda_profile_switch_runtime(bool on);

/* ---- profile-commands.c ---- */

/* A command that gives the device work. */
struct libcuda_profile_command {
	struct vcuda_profile_work work; /* without its times, and name where there is a function */
	uint64_t stream;
	uint64_t function; /* of a launch, else 0 */
};

/* Commands are noted from now on. Returns false if there is no memory for them. Once. */
bool libcuda_profile_commands_start(void);

/* False: the command gives the device no work, or is too long ago. Thread-safe. */
bool libcuda_profile_command_find(uint64_t seq, struct libcuda_profile_command *command);

/* The number of commands noted so far. Thread-safe. */
uint64_t libcuda_profile_command_count(void);

/* ---- profile-write.c ---- */

struct libcuda_trace_file;

/* The worker ran a command, or the device did its work. */
struct libcuda_profile_row {
	uint64_t seq, begin, end; /* ns of our clock */
	unsigned int op, thread;
};

/* All that follows is for one thread at a time. */

void libcuda_profile_write_begin(struct libcuda_trace_file *file);
void libcuda_profile_write_call(const struct libcuda_profile_call *call);
void libcuda_profile_write_range(const struct libcuda_profile_range *range);
void libcuda_profile_write_command(const struct libcuda_profile_row *row);
/* The work has its times and its name. */
void libcuda_profile_write_work(const struct libcuda_profile_command *command);

/* Hands what has been written to the file. */
void libcuda_profile_write_flush(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcupti.so: CUPTI's activities and callbacks, from the recorder of libcuda.so.1 (protocol/profile-table.h). The
 * library loads libcuda.so.1 when it is first asked to watch, and costs nothing before.
 *
 * Records are made by one thread at a time (the recorder's). They wait until no lock of the recorder is held; then they
 * go into buffers that the client gives, and are handed to the client when a buffer is full or when it asks. No
 * function of the client is called with a lock of ours held. All functions are thread-safe unless they say otherwise.
 */
#ifndef VCUDA_CUPTI_H
#define VCUDA_CUPTI_H

#include <stdbool.h>

#include "cupti-abi.h"
#include "protocol/profile-table.h"

#define CUPTI_EXPORT __attribute__((visibility("default")))

/* ---- library.c ---- */

/* Loads libcuda.so.1 and attaches to its recorder. NULL: it has none, or another tool is attached; a line says so. */
const struct vcuda_profile_table *cupti_recorder(void);

/* The same once cupti_recorder() has succeeded, else NULL. */
const struct vcuda_profile_table *cupti_recorder_attached(void);

/* The recorder, to which the library need not be attached. NULL: there is none. */
const struct vcuda_profile_table *cupti_recorder_find(void);

/* Has the recorder watch the events that the active kinds and callbacks need. */
void cupti_recorder_watch(void);

/* Notes `result` for cuptiGetLastError(), and returns it. */
cupti_result cupti_done(cupti_result result);

/* How many functions of the client, which give or take a buffer, the calling thread is in. */
extern _Thread_local unsigned int cupti_in_client;

/* ---- names.c ---- */

/* CUPTI's number of a function of the driver, by the recorder's. 0: it has none. */
uint32_t cupti_driver_number(const struct vcuda_profile_table *recorder, uint32_t call);

/* The function of a number. NULL: there is none. */
const char *cupti_function_name(uint32_t domain, uint32_t number);

/* Numbers of the domain are less than this; 0: there is no such domain. */
uint32_t cupti_number_limit(uint32_t domain);

/* Whether a function of the driver is a version of another: its name goes on with _v2, _ptsz and the like. */
bool cupti_is_function(const char *name, const char *function);

/* ---- clock.c ---- */

/* The client's clock, or the system's, in its units. */
uint64_t cupti_clock_now(void);

/* The client's clock at a time of the monotonic clock, in ns, after cupti_clock_start(). Does not call the client. */
uint64_t cupti_clock_at(uint64_t ns);

/* The clocks are compared from now on. */
void cupti_clock_start(void);

/* The clocks are compared. Now and then, so that times in between can be told. */
void cupti_clock_compare(void);

void cupti_clock_forget(void);

/* ---- buffer.c ---- */

/*
 * Asks the client for a buffer if there is none. In the thread whose call is recorded: Kineto does not flush before it
 * was asked for a buffer, and the recorder tells of calls later.
 */
void cupti_buffer_prepare(void);

/*
 * Adds a record, whose times are ns of the monotonic clock. It counts as dropped if the client gives no buffer with
 * room for it. Does not call the client.
 */
void cupti_buffer_add(const void *record);

/* Records go into buffers of the client. Hands it those that are full, and with `all` all that it has given. */
void cupti_buffer_deliver(bool all);

/* Waits until other threads have handed over what they have taken out. False: they take too long; a line says so. */
bool cupti_buffer_wait(void);

void cupti_buffer_drop(uint64_t records);
bool cupti_buffer_has_client(void);

/* A child was forked. Its parent's buffers are not its own, and locks may be held by threads that it does not have. */
void cupti_buffer_forget(void);

/* ---- activity.c ---- */

/* Whether records of a kind are made. */
bool cupti_activity_is_on(uint32_t kind);
/* Whether calls or work have records. */
bool cupti_activity_is_any_on(void);

/* Whether any call of the domain has records. */
bool cupti_activity_has_calls(uint32_t domain);

/* The bits of the kinds, by 1 << kind, that are on. */
uint64_t cupti_activity_kinds(void);

/* Whether a call has a record. */
bool cupti_activity_has_call(uint32_t domain, uint32_t number);

void cupti_activity_stop(void);
void cupti_activity_forget(void);

/* ---- external.c ---- */

/* The thread's innermost identifiers. */
void cupti_external_read(struct vcuda_profile_tags *tags);

/* ---- record.c ---- */

/* Beside the bits of kinds in vcuda_profile_tags. */
#define CUPTI_TAG_ASYNC (1ull << 63)
#define CUPTI_TAG_PEER (1ull << 62) /* `detail`: 16 bits each: device and context of the source, of the destination */

void cupti_record_call(const struct vcuda_profile_note *note);
void cupti_record_work(const struct vcuda_profile_work *work);
/* A copy, or the launch of a graph, of which all parts are known. */
void cupti_record_whole(const struct vcuda_profile_work *work);
/* The thread has handed records to the client from `start` to now, in ns of the monotonic clock. */
void cupti_record_flush(uint64_t start);
/* Contexts, devices and streams that were recorded are recorded anew. */
void cupti_record_forget(void);
/* The same in a forked child, whose parent's threads may have held locks. */
void cupti_record_fork(void);

/* Calls the client, for a buffer. */
void cupti_record_marker(const struct vcuda_profile_marker *marker);

/* ---- texts.c ---- */

/* A copy that lives as long as the process; the same for the same text. NULL: of NULL, or there is no memory. */
const char *cupti_text_keep(const char *text);
void cupti_text_fork(void);

/* ---- pieces.c ---- */

/*
 * Work that may be one of several parts of a copy, or of the launch of a graph that has one record. Parts of one call
 * with the same `node` belong together. cupti_record_whole() gets their sum once all parts of the call are known.
 */
void cupti_pieces_add(const struct vcuda_profile_work *work, uint64_t node);

/* The call with the number `copy` has ended, and has `all` such parts. */
void cupti_pieces_end(uint32_t copy, uint32_t all);

/* Records the sums that are not complete as they are. */
void cupti_pieces_flush(void);
void cupti_pieces_forget(void);

/* ---- callback.c ---- */

/* Whether any callback of the domain is on. */
bool cupti_callback_is_on(uint32_t domain);

void cupti_callback_enter(struct vcuda_profile_site *site, uint32_t number);
void cupti_callback_leave(struct vcuda_profile_site *site, uint32_t number);
void cupti_callback_stop(void);
void cupti_callback_forget(void);

/* ---- resource.c ---- */

/* Tells of contexts and streams that a call of the driver has made or is to end, by its name. */
void cupti_resource_enter(const struct vcuda_profile_site *site);
void cupti_resource_leave(const struct vcuda_profile_site *site);
void cupti_resource_forget(void);

/* ---- injection.c ---- */

/* vcuda_profile_sink.nvtx(). */
void cupti_nvtx_called(enum vcuda_nvtx_function function, const void *parameters, const void *result);

/* Calls the subscriber. callback.c */
void cupti_callback_call(uint32_t domain, uint32_t id, const void *data);

#endif

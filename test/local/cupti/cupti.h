/* SPDX-License-Identifier: Apache-2.0 */
/* A client of libcupti.so, whose work on the device is known. */
#ifndef TEST_LOCAL_CUPTI_H
#define TEST_LOCAL_CUPTI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/libcupti/cupti-abi.h"
#include "protocol/cuda-functions.h"
#include "test/check.h"

/* ---- the library ---- */

typedef struct subscriber *subscriber_handle;

cupti_result cuptiGetVersion(uint32_t *version);
cupti_result cuptiGetLastError(void);
cupti_result cuptiActivityEnable(uint32_t kind);
cupti_result cuptiActivityDisable(uint32_t kind);
cupti_result cuptiActivityEnableContext(CUcontext context, uint32_t kind);
cupti_result cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable);
cupti_result cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable);
cupti_result cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable);
cupti_result cuptiActivityFlushAll(uint32_t flag);
cupti_result cuptiActivityGetNextRecord(uint8_t *buffer, size_t size, struct cupti_record **record);
cupti_result cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped);
cupti_result cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id);
cupti_result cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t *last);
cupti_result cuptiActivityRegisterCallbacks(void (*requested)(uint8_t **, size_t *, size_t *),
					    void (*completed)(CUcontext, uint32_t, uint8_t *, size_t, size_t));
cupti_result cuptiActivityRegisterTimestampCallback(uint64_t (*now)(void));
cupti_result cuptiActivitySetAttribute(uint32_t attribute, size_t *size, void *value);
cupti_result cuptiActivityGetAttribute(uint32_t attribute, size_t *size, void *value);
cupti_result cuptiEnableCallback(uint32_t enable, subscriber_handle subscriber, uint32_t domain, uint32_t id);
cupti_result cuptiEnableDomain(uint32_t enable, subscriber_handle subscriber, uint32_t domain);
cupti_result cuptiEnableAllDomains(uint32_t enable, subscriber_handle subscriber);
cupti_result cuptiGetCallbackState(uint32_t *enabled, subscriber_handle subscriber, uint32_t domain, uint32_t id);
cupti_result cuptiFinalize(void);
cupti_result cuptiGetCallbackName(uint32_t domain, uint32_t id, const char **name);
cupti_result cuptiGetResultString(uint32_t result, const char **text);
cupti_result cuptiGetErrorMessage(uint32_t result, const char **text);
cupti_result cuptiGetTimestamp(uint64_t *timestamp);
cupti_result cuptiGetDeviceId(CUcontext context, uint32_t *id);
cupti_result cuptiGetContextId(CUcontext context, uint32_t *id);
cupti_result cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *id);
cupti_result cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id);
cupti_result cuptiGetGraphId(CUgraph graph, uint32_t *id);
cupti_result cuptiGetGraphExecId(CUgraphExec exec, uint32_t *id);
cupti_result cuptiGetGraphNodeId(CUgraphNode node, uint64_t *id);
cupti_result cuptiSubscribe(subscriber_handle *subscriber, cupti_callback function, void *userdata);
cupti_result cuptiUnsubscribe(subscriber_handle subscriber);
cupti_result cuptiSupportedDomains(size_t *count, uint32_t **domains);

/* ---- records; cupti.c ---- */

/* How the client gives buffers. `size` 0: NULL. */
extern size_t buffer_size, buffer_most;
extern _Atomic unsigned int buffers_given, buffers_taken;

void give_buffer(uint8_t **buffer, size_t *size, size_t *most);
void take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t used);

/* Registers both functions of the client, which keep all records. */
void start_client(void);

/* The records of a kind so far, in the order in which they came. */
unsigned int count_records(uint32_t kind);
const void *find_record(uint32_t kind, unsigned int n);
void forget_records(void);

/* The record of a call of the driver with a correlation. NULL: there is none. */
const struct cupti_api_record *find_call(uint32_t correlation);
uint32_t number_of(const char *driver_function);

/* ---- work; cupti.c ---- */

/* cuInit(0), and the primary context of device 0 with the module. */
void start_device(void);

extern CUcontext context;
extern CUfunction first, second; /* of one parameter: memory for 64 bytes */

void launch(CUfunction function, unsigned int grid, unsigned int block, unsigned int shared, CUdeviceptr data,
	    CUstream stream);

/* ---- scenarios ---- */

void test_records(void);
void test_graphs(void);
void test_externals(void);
void test_synchronization(void);
void test_clock(void);
void test_buffers(void);
void test_callbacks(void);
void test_subscribers(void);
void test_arguments(void);
void test_off(void);
void test_finalize(void);
void test_fork(void);
void test_pieces(void);
void test_peers(void);
void test_runtime(void);
void test_locks(void);
void test_clients(void);
void test_unsubscribing(void);
void test_flush(void);
void test_long_call(void);
void test_lost(void);
void test_markers(void);
void test_nvtx(void);
void test_numbers(void);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* A program that was compiled with NVIDIA's header gets records and callbacks from our libcupti. */
#include "check.h"

#include <cuda.h>
#include <cupti.h>
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (64 << 10)
#define BYTES 12345

static unsigned int entries, exits, records;

static void CUPTIAPI called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	const CUpti_CallbackData *call = data;

	CHECK(user == &entries && domain == CUPTI_CB_DOMAIN_DRIVER_API && id == CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2);
	CHECK(!strcmp(call->functionName, "cuMemsetD8_v2"));
	CHECK(((const cuMemsetD8_v2_params *)call->functionParams)->N == BYTES);
	if (call->callbackSite == CUPTI_API_ENTER)
		entries++;
	else
		exits++;
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *bytes, size_t *most)
{
	*buffer = aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, BUFFER_BYTES);
	CHECK(*buffer);
	*bytes = BUFFER_BYTES;
	*most = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	CUpti_Activity *record = NULL;

	while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
		const CUpti_ActivityMemset4 *memset = (const CUpti_ActivityMemset4 *)record;

		CHECK(record->kind == CUPTI_ACTIVITY_KIND_MEMSET && memset->bytes == BYTES && memset->value == 7);
		CHECK(memset->start && memset->end >= memset->start);
		records++;
	}
	free(buffer);
}

int main(void)
{
	CUpti_SubscriberHandle subscriber;
	CUcontext context;
	CUdeviceptr memory;
	uint32_t version = 0;
	uint64_t now = 0;

	OK(cuptiGetVersion(&version));
	CHECK(version >= CUPTI_API_VERSION);
	OK(cuptiSubscribe(&subscriber, called, &entries));
	OK(cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2));
	OK(cuptiActivityRegisterCallbacks(requested, completed));
	OK(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET));
	OK(cuInit(0));
	OK(cuptiGetTimestamp(&now));
	CHECK(now);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc(&memory, BYTES));
	OK(cuMemsetD8(memory, 7, BYTES));
	OK(cuCtxSynchronize());
	OK(cuptiActivityFlushAll(0));
	CHECK(records == 1 && entries == 1 && exits == 1);
	OK(cuptiUnsubscribe(subscriber));
	return 0;
}

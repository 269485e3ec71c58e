/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber is told of calls, contexts, streams and waits; and what wrong arguments give. */
#include "cupti.h"

struct seen {
	unsigned int enters, exits, contexts, streams, destroyed, waits, stream_waits, initialized;
	uint32_t correlation;
	CUdeviceptr destination;
	size_t bytes;
	char symbol[32];
};

static struct seen seen;

struct memset_parameters {
	CUdeviceptr destination;
	unsigned char value;
	size_t bytes;
};

static void see_call(uint32_t id, const struct cupti_callback_data *data)
{
	const char *name;

	OK(cuptiGetCallbackName(CUPTI_DOMAIN_DRIVER, id, &name));
	CHECK(!strcmp(name, data->function));
	if (data->site == CUPTI_SITE_ENTER) {
		seen.enters++;
		*data->correlation_data = 1234 + seen.enters;
		seen.correlation = data->correlation;
	} else {
		seen.exits++;
		CHECK(*data->correlation_data == 1234 + seen.enters && data->correlation == seen.correlation);
		CHECK(data->result);
	}
	if (!strcmp(name, "cuMemsetD8_v2")) {
		const struct memset_parameters *p = data->parameters;

		seen.destination = p->destination;
		seen.bytes = p->bytes;
		CHECK(p->value == 5 && data->context == context && data->context_number);
	}
	if (!strcmp(name, "cuLaunchKernel") && data->symbol)
		snprintf(seen.symbol, sizeof(seen.symbol), "%s", data->symbol);
}

static void see(void *userdata, uint32_t domain, uint32_t id, const void *data)
{
	const struct cupti_resource_data *resource = data;
	CUdevice device;

	CHECK(userdata == &seen);
	switch (domain) {
	case CUPTI_DOMAIN_DRIVER:
		see_call(id, data);
		/* Calls of a callback have no callbacks. */
		cuCtxGetDevice(&device);
		break;
	case CUPTI_DOMAIN_RESOURCE:
		seen.initialized += id == CUPTI_RESOURCE_INIT_FINISHED;
		seen.contexts += id == CUPTI_RESOURCE_CONTEXT_CREATED && resource->context;
		seen.streams += id == CUPTI_RESOURCE_STREAM_CREATED && resource->stream;
		seen.destroyed += id == CUPTI_RESOURCE_STREAM_DESTROY_STARTING && resource->stream;
		break;
	case CUPTI_DOMAIN_SYNCHRONIZE:
		seen.waits += id == CUPTI_SYNCHRONIZED_CONTEXT;
		seen.stream_waits += id == CUPTI_SYNCHRONIZED_STREAM;
		break;
	}
}

void test_callbacks(void)
{
	subscriber_handle subscriber;
	CUdeviceptr data;
	uint32_t enabled;
	CUstream stream;

	OK(cuptiSubscribe(&subscriber, see, &seen));
	OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_RESOURCE));
	OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_SYNCHRONIZE));
	start_device();
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(seen.initialized == 1 && seen.contexts == 1);
	OK(cuStreamCreate(&stream, 0));
	OK(cuStreamSynchronize(stream));
	OK(cuCtxSynchronize());
	OK(cuStreamDestroy_v2(stream));
	CHECK(seen.streams == 1 && seen.destroyed == 1 && seen.waits == 1 && seen.stream_waits == 1);
	CHECK(!seen.enters && !seen.exits);
	OK(cuMemAlloc_v2(&data, 100));
	OK(cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER, number_of("cuMemsetD8_v2")));
	OK(cuptiGetCallbackState(&enabled, subscriber, CUPTI_DOMAIN_DRIVER, number_of("cuMemsetD8_v2")));
	CHECK(enabled);
	OK(cuptiGetCallbackState(&enabled, subscriber, CUPTI_DOMAIN_DRIVER, number_of("cuMemsetD16_v2")));
	CHECK(!enabled);
	OK(cuMemsetD8_v2(data, 5, 99));
	OK(cuMemsetD16_v2(data, 5, 9));
	CHECK(seen.enters == 1 && seen.exits == 1 && seen.destination == data && seen.bytes == 99);
	OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_DRIVER));
	launch(first, 1, 32, 0, data, NULL);
	CHECK(!strcmp(seen.symbol, "first") && seen.enters == 2 && seen.exits == 2);
	OK(cuptiEnableAllDomains(0, subscriber));
	OK(cuCtxSynchronize());
	CHECK(seen.enters == 2 && seen.waits == 1);
	OK(cuptiUnsubscribe(subscriber));
	GIVES(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_DRIVER), CUPTI_ERROR_INVALID_PARAMETER);
}

static void other(void *userdata, uint32_t domain, uint32_t id, const void *data)
{
	(void)userdata, (void)domain, (void)id, (void)data;
	CHECK(!"the second subscriber is told");
}

void test_subscribers(void)
{
	subscriber_handle subscriber, second_subscriber;
	CUdevice device;

	start_device();
	OK(cuptiSubscribe(&subscriber, see, &seen));
	GIVES(cuptiSubscribe(&second_subscriber, other, NULL), CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
	OK(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_DRIVER));
	OK(cuCtxGetDevice(&device));
	CHECK(seen.enters == 1);
	OK(cuptiUnsubscribe(subscriber));
	OK(cuCtxGetDevice(&device));
	CHECK(seen.enters == 1);
	OK(cuptiSubscribe(&second_subscriber, see, &seen));
	OK(cuptiEnableDomain(1, second_subscriber, CUPTI_DOMAIN_DRIVER));
	OK(cuCtxGetDevice(&device));
	CHECK(seen.enters == 2);
	OK(cuptiFinalize());
	OK(cuCtxGetDevice(&device));
	CHECK(seen.enters == 2);
	GIVES(cuptiUnsubscribe(second_subscriber), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiSubscribe(&subscriber, see, &seen));
	OK(cuptiUnsubscribe(subscriber));
}

static void check_numbers(void)
{
	uint32_t id, other_id;
	CUstream stream;

	OK(cuStreamCreate(&stream, 0));
	OK(cuptiGetDeviceId(context, &id));
	CHECK(id == 0);
	OK(cuptiGetContextId(NULL, &id));
	OK(cuptiGetContextId(context, &other_id));
	CHECK(id == other_id);
	OK(cuptiGetStreamId(context, stream, &id));
	OK(cuptiGetStreamId(NULL, stream, &other_id));
	CHECK(id == other_id);
	OK(cuptiGetStreamId(NULL, NULL, &other_id));
	CHECK(id != other_id);
	OK(cuptiGetStreamIdEx(NULL, NULL, 1, &id));
	CHECK(id != other_id);
	OK(cuptiGetStreamIdEx(NULL, CU_STREAM_PER_THREAD, 0, &other_id));
	CHECK(id == other_id);
	GIVES(cuptiGetDeviceId((CUcontext)&id, &id), CUPTI_ERROR_INVALID_CONTEXT);
	GIVES(cuptiGetContextId(context, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetStreamId(context, (CUstream)&id, &id), CUPTI_ERROR_INVALID_STREAM);
	GIVES(cuptiGetStreamId(context, stream, NULL), CUPTI_ERROR_INVALID_PARAMETER);
}

static void check_attributes(void)
{
	size_t size = sizeof(size_t), value = 17;
	uint8_t small = 1;

	OK(cuptiActivitySetAttribute(0, &size, &value));
	value = 0;
	OK(cuptiActivityGetAttribute(0, &size, &value));
	CHECK(value == 17 && size == sizeof(size_t));
	size = 1;
	GIVES(cuptiActivitySetAttribute(0, &size, &value), CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT);
	OK(cuptiActivitySetAttribute(5, &size, &small));
	GIVES(cuptiActivitySetAttribute(100, &size, &value), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivitySetAttribute(0, NULL, &value), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivityGetAttribute(0, &size, NULL), CUPTI_ERROR_INVALID_PARAMETER);
}

void test_arguments(void)
{
	struct cupti_record *record = NULL;
	struct cupti_api_record buffer[2] = {{.kind = CUPTI_KIND_DRIVER}, {.kind = 4711}};
	subscriber_handle subscriber;
	uint32_t version, *domains;
	size_t count;
	const char *text;

	OK(cuptiGetVersion(&version));
	CHECK(version == CUPTI_VERSION);
	GIVES(cuptiGetVersion(NULL), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetLastError(), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiGetLastError());
	GIVES(cuptiActivityFlushAll(0), CUPTI_ERROR_INVALID_OPERATION);
	GIVES(cuptiActivityRegisterCallbacks(NULL, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	start_client();
	OK(cuptiActivityFlushAll(0));
	start_device();
	/* Instructions cannot be sampled, nor metrics be measured. */
	GIVES(cuptiActivityEnable(30), CUPTI_ERROR_INVALID_KIND);
	GIVES(cuptiActivityEnable(0), CUPTI_ERROR_INVALID_KIND);
	GIVES(cuptiActivityDisable(100000), CUPTI_ERROR_INVALID_KIND);
	GIVES(cuptiActivityEnableContext(context, CUPTI_KIND_DRIVER), CUPTI_ERROR_NOT_SUPPORTED);
	GIVES(cuptiActivityEnableDriverApi(0, 1), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivityEnableDriverApi(5000, 1), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiActivityEnableCudaEventDeviceTimestamps(0));
	GIVES(cuptiActivityEnableCudaEventDeviceTimestamps(1), CUPTI_ERROR_NOT_SUPPORTED);
	GIVES(cuptiActivityRegisterTimestampCallback(NULL), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetTimestamp(NULL), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivityPushExternalCorrelationId(0, 1), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivityPushExternalCorrelationId(6, 1), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivityPopExternalCorrelationId(6, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivityGetNumDroppedRecords(NULL, 0, NULL), CUPTI_ERROR_INVALID_PARAMETER);

	GIVES(cuptiActivityGetNextRecord(NULL, 10, &record), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiActivityGetNextRecord((uint8_t *)buffer, 0, &record), CUPTI_ERROR_MAX_LIMIT_REACHED);
	OK(cuptiActivityGetNextRecord((uint8_t *)buffer, sizeof(buffer), &record));
	CHECK((void *)record == buffer);
	GIVES(cuptiActivityGetNextRecord((uint8_t *)buffer, sizeof(buffer), &record), CUPTI_ERROR_INVALID_KIND);
	GIVES(cuptiActivityGetNextRecord((uint8_t *)buffer, sizeof(buffer[0]), &record), CUPTI_ERROR_MAX_LIMIT_REACHED);

	GIVES(cuptiSubscribe(NULL, see, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiSubscribe(&subscriber, see, &seen));
	GIVES(cuptiEnableDomain(1, NULL, CUPTI_DOMAIN_DRIVER), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiEnableDomain(1, subscriber, 0), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiEnableDomain(1, subscriber, 99), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_DRIVER, 4000), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiEnableDomain(1, subscriber, CUPTI_DOMAIN_STATE), CUPTI_ERROR_NOT_SUPPORTED);
	GIVES(cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_RESOURCE, CUPTI_RESOURCE_MODULE_LOADED), CUPTI_ERROR_NOT_SUPPORTED);
	OK(cuptiUnsubscribe(subscriber));
	GIVES(cuptiUnsubscribe(subscriber), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiSupportedDomains(&count, &domains));
	CHECK(count && domains[0] == CUPTI_DOMAIN_DRIVER);

	GIVES(cuptiGetCallbackName(CUPTI_DOMAIN_DRIVER, 1, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetCallbackName(CUPTI_DOMAIN_RESOURCE, 1, &text), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetCallbackName(CUPTI_DOMAIN_DRIVER, 5000, &text), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiGetCallbackName(CUPTI_DOMAIN_RUNTIME, 211, &text));
	CHECK(!strcmp(text, "cudaLaunchKernel_v7000"));
	OK(cuptiGetResultString(CUPTI_ERROR_QUEUE_EMPTY, &text));
	CHECK(!strcmp(text, "CUPTI_ERROR_QUEUE_EMPTY"));
	GIVES(cuptiGetResultString(500, &text), CUPTI_ERROR_INVALID_PARAMETER);
	GIVES(cuptiGetResultString(0, NULL), CUPTI_ERROR_INVALID_PARAMETER);
	OK(cuptiGetErrorMessage(CUPTI_ERROR_NOT_SUPPORTED, &text));
	CHECK(*text);
	check_numbers();
	check_attributes();
}

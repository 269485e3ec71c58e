/* SPDX-License-Identifier: Apache-2.0 */
/* Which records are made. */
#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "common/log.h"

#define WORDS 16u /* of a domain's bits: for numbers less than 1024 */

#define SUPPORTED                                                                                                      \
	(1ull << CUPTI_KIND_MEMCPY | 1ull << CUPTI_KIND_MEMCPY2 | 1ull << CUPTI_KIND_MEMSET |                          \
	 1ull << CUPTI_KIND_KERNEL | 1ull << CUPTI_KIND_DRIVER | 1ull << CUPTI_KIND_RUNTIME |                          \
	 1ull << CUPTI_KIND_DEVICE | 1ull << CUPTI_KIND_CONTEXT | 1ull << CUPTI_KIND_CONCURRENT_KERNEL |               \
	 1ull << CUPTI_KIND_MARKER | 1ull << CUPTI_KIND_OVERHEAD | 1ull << CUPTI_KIND_CUDA_EVENT |                     \
	 1ull << CUPTI_KIND_STREAM | 1ull << CUPTI_KIND_SYNCHRONIZATION | 1ull << CUPTI_KIND_EXTERNAL_CORRELATION |    \
	 1ull << CUPTI_KIND_GRAPH_TRACE)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t kinds;
/* A bit for each function of the driver and of the runtime that has records. */
static _Atomic uint64_t calls[CUPTI_DOMAIN_RUNTIME + 1][WORDS];

bool cupti_activity_is_on(uint32_t kind)
{
	return atomic_load_explicit(&kinds, memory_order_relaxed) >> kind & 1;
}

uint64_t cupti_activity_kinds(void)
{
	return atomic_load_explicit(&kinds, memory_order_relaxed);
}

bool cupti_activity_has_call(uint32_t domain, uint32_t number)
{
	return number / 64 < WORDS &&
	       atomic_load_explicit(&calls[domain][number / 64], memory_order_relaxed) >> number % 64 & 1;
}

bool cupti_activity_has_calls(uint32_t domain)
{
	uint64_t any = 0;

	for (unsigned int i = 0; i < WORDS; i++)
		any |= atomic_load(&calls[domain][i]);
	return any;
}

bool cupti_activity_is_any_on(void)
{
	return atomic_load(&kinds) & ~(1ull << CUPTI_KIND_MARKER) || cupti_activity_has_calls(CUPTI_DOMAIN_DRIVER) ||
	       cupti_activity_has_calls(CUPTI_DOMAIN_RUNTIME);
}

static void set_calls(uint32_t domain, bool on)
{
	for (unsigned int i = 0; i < WORDS; i++)
		atomic_store(&calls[domain][i], on ? UINT64_MAX : 0);
}

void cupti_activity_stop(void)
{
	atomic_store(&kinds, 0);
	set_calls(CUPTI_DOMAIN_DRIVER, false);
	set_calls(CUPTI_DOMAIN_RUNTIME, false);
}

void cupti_activity_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	cupti_activity_stop();
}

static bool is_supported(uint32_t kind)
{
	static _Atomic uint64_t said;
	uint64_t bit = 1ull << (kind < CUPTI_KINDS ? kind : 0);

	if (kind < CUPTI_KINDS && SUPPORTED >> kind & 1)
		return true;
	if (!(atomic_fetch_or(&said, bit) & bit))
		vcuda_log("libcupti: activities of kind %u are not supported", kind);
	return false;
}

static cupti_result set_kind(uint32_t kind, bool on)
{
	if (!is_supported(kind))
		return CUPTI_ERROR_INVALID_KIND;
	if (on && !cupti_recorder())
		return CUPTI_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	if (on)
		atomic_fetch_or(&kinds, 1ull << kind);
	else
		atomic_fetch_and(&kinds, ~(1ull << kind));
	if (on && (kind == CUPTI_KIND_DEVICE || kind == CUPTI_KIND_CONTEXT))
		cupti_record_forget();
	if (kind == CUPTI_KIND_DRIVER || kind == CUPTI_KIND_RUNTIME)
		set_calls(kind == CUPTI_KIND_DRIVER ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME, on);
	cupti_recorder_watch();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivityEnable(uint32_t kind)
{
	return cupti_done(set_kind(kind, true));
}

CUPTI_EXPORT cupti_result cuptiActivityDisable(uint32_t kind)
{
	return cupti_done(set_kind(kind, false));
}

static cupti_result set_call(uint32_t domain, uint32_t number, bool on)
{
	if (!number || number >= cupti_number_limit(domain))
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (on && !cupti_recorder())
		return CUPTI_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&lock);
	if (on)
		atomic_fetch_or(&calls[domain][number / 64], 1ull << number % 64);
	else
		atomic_fetch_and(&calls[domain][number / 64], ~(1ull << number % 64));
	cupti_recorder_watch();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivityEnableDriverApi(uint32_t number, uint8_t enable)
{
	return cupti_done(set_call(CUPTI_DOMAIN_DRIVER, number, enable));
}

CUPTI_EXPORT cupti_result cuptiActivityEnableRuntimeApi(uint32_t number, uint8_t enable)
{
	return cupti_done(set_call(CUPTI_DOMAIN_RUNTIME, number, enable));
}

/* ---- attributes ---- */

/* Sizes of buffers on the device, of which there are none here, and the like: values are kept for who reads them. */
static size_t attributes[] = {
	[0] = 3200000, /* bytes of a device buffer */
	[1] = 8388608, /* the same for kernels that kernels launch */
	[2] = 250,     /* device buffers */
	[3] = 25000,   /* events of a pool */
	[4] = 250,     /* pools */
	[5] = 0,       /* whether buffers are given with zeros in them; 1 byte */
	[6] = 3,       /* device buffers that are made at first */
	[7] = 3,       /* pools that are made at first */
	[8] = 0,       /* whether these are host memory; 1 byte */
};

#define ATTRIBUTES (sizeof(attributes) / sizeof(attributes[0]))

static size_t bytes_of(uint32_t attribute)
{
	return attribute == 5 || attribute == 8 ? 1 : sizeof(size_t);
}

static cupti_result check_attribute(uint32_t attribute, const size_t *size, const void *value)
{
	if (attribute >= ATTRIBUTES || !size || !value)
		return CUPTI_ERROR_INVALID_PARAMETER;
	return *size < bytes_of(attribute) ? CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT : CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivitySetAttribute(uint32_t attribute, size_t *size, void *value)
{
	cupti_result result = check_attribute(attribute, size, value);

	if (result != CUPTI_SUCCESS)
		return cupti_done(result);
	pthread_mutex_lock(&lock);
	attributes[attribute] = 0;
	memcpy(&attributes[attribute], value, bytes_of(attribute));
	pthread_mutex_unlock(&lock);
	*size = bytes_of(attribute);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiActivityGetAttribute(uint32_t attribute, size_t *size, void *value)
{
	cupti_result result = check_attribute(attribute, size, value);

	if (result != CUPTI_SUCCESS)
		return cupti_done(result);
	pthread_mutex_lock(&lock);
	memcpy(value, &attributes[attribute], bytes_of(attribute));
	pthread_mutex_unlock(&lock);
	*size = bytes_of(attribute);
	return CUPTI_SUCCESS;
}

/* ---- what records may have beside ---- */

static cupti_result refuse_if(uint8_t enable, const char *what)
{
	if (!enable)
		return CUPTI_SUCCESS;
	vcuda_log("libcupti: %s", what);
	return cupti_done(CUPTI_ERROR_NOT_SUPPORTED);
}

CUPTI_EXPORT cupti_result cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable)
{
	return refuse_if(enable, "times of events on the device are not supported");
}

CUPTI_EXPORT cupti_result cuptiActivityEnableLatencyTimestamps(uint8_t enable)
{
	return refuse_if(enable, "times at which kernels are queued and submitted are not supported");
}

CUPTI_EXPORT cupti_result cuptiActivityEnableLaunchAttributes(uint8_t enable)
{
	return refuse_if(enable, "attributes of launches are not supported");
}

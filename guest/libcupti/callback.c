/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber, and the callbacks that it wants. */
#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define WORDS 16u /* of a domain's bits: for numbers less than 1024 */

struct cupti_subscriber {
	cupti_callback function;
	void *userdata;
	bool is_there;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cupti_subscriber only;
static _Atomic uint64_t wanted[CUPTI_DOMAINS][WORDS];

/* The subscriber's function runs in the thread, and makes calls that it is not told of. */
static _Thread_local unsigned int callback_depth;

bool cupti_callback_is_on(uint32_t domain)
{
	uint64_t any = 0;

	for (unsigned int i = 0; i < WORDS; i++)
		any |= atomic_load_explicit(&wanted[domain][i], memory_order_relaxed);
	return any;
}

static bool is_wanted(uint32_t domain, uint32_t id)
{
	return id / 64 < WORDS && atomic_load_explicit(&wanted[domain][id / 64], memory_order_relaxed) >> id % 64 & 1;
}

void cupti_callback_call(uint32_t domain, uint32_t id, const void *data)
{
	cupti_callback function = only.function;

	if (!is_wanted(domain, id) || !function || callback_depth)
		return;
	callback_depth++;
	function(only.userdata, domain, id, data);
	callback_depth--;
}

/* ---- calls ---- */

static void tell_call(struct vcuda_profile_site *site, uint32_t number, uint32_t at)
{
	const struct vcuda_profile_table *recorder = cupti_recorder_attached();
	struct cupti_callback_data data = {
		.site = at,
		.function = cupti_function_name(site->domain, number),
		.parameters = site->parameters,
		.result = site->result,
		.context = site->handle,
		.context_number = site->context,
		.correlation_data = &site->data,
		.correlation = site->correlation,
	};

	if (!is_wanted(site->domain, number))
		return;
	data.symbol = site->symbol;
	if (site->function && recorder)
		data.symbol = recorder->function_name(site->function);
	cupti_callback_call(site->domain, number, &data);
}

void cupti_callback_enter(struct vcuda_profile_site *site, uint32_t number)
{
	tell_call(site, number, CUPTI_SITE_ENTER);
}

void cupti_callback_leave(struct vcuda_profile_site *site, uint32_t number)
{
	tell_call(site, number, CUPTI_SITE_EXIT);
}

/* ---- the subscriber ---- */

static void clear(void)
{
	for (uint32_t domain = 0; domain < CUPTI_DOMAINS; domain++)
		for (unsigned int i = 0; i < WORDS; i++)
			atomic_store(&wanted[domain][i], 0);
}

void cupti_callback_stop(void)
{
	clear();
	only.is_there = false;
}

void cupti_callback_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	cupti_callback_stop();
}

CUPTI_EXPORT cupti_result cuptiSubscribe(struct cupti_subscriber **subscriber, cupti_callback function, void *userdata)
{
	cupti_result result = CUPTI_SUCCESS;

	if (!subscriber)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (!cupti_recorder())
		return cupti_done(CUPTI_ERROR_NOT_INITIALIZED);
	pthread_mutex_lock(&lock);
	if (only.is_there)
		result = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
	else
		only = (struct cupti_subscriber){function, userdata, true};
	pthread_mutex_unlock(&lock);
	if (result == CUPTI_SUCCESS)
		*subscriber = &only;
	return cupti_done(result);
}

static bool is_subscriber(const struct cupti_subscriber *subscriber)
{
	return subscriber == &only && only.is_there;
}

CUPTI_EXPORT cupti_result cuptiUnsubscribe(struct cupti_subscriber *subscriber)
{
	if (!is_subscriber(subscriber))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	pthread_mutex_lock(&lock);
	cupti_callback_stop();
	cupti_recorder_watch();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

static cupti_result check(const struct cupti_subscriber *subscriber, uint32_t domain)
{
	bool is_valid = is_subscriber(subscriber) && domain && domain < CUPTI_DOMAINS;

	return is_valid ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

/* Callbacks of these domains are known, and never happen. */
static bool is_silent(uint32_t domain)
{
	return domain == CUPTI_DOMAIN_NVTX || domain == CUPTI_DOMAIN_STATE;
}

static void set_domain(uint32_t domain, bool on)
{
	for (unsigned int i = 0; i < WORDS; i++)
		atomic_store(&wanted[domain][i], on ? UINT64_MAX : 0);
}

CUPTI_EXPORT cupti_result cuptiEnableCallback(uint32_t enable, struct cupti_subscriber *subscriber, uint32_t domain,
					      uint32_t id)
{
	if (check(subscriber, domain) != CUPTI_SUCCESS || id >= cupti_number_limit(domain))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	/* Modules and graphs are not told of. */
	if (enable && (is_silent(domain) || (domain == CUPTI_DOMAIN_RESOURCE && id > CUPTI_RESOURCE_INIT_FINISHED)))
		return cupti_done(CUPTI_ERROR_NOT_SUPPORTED);
	pthread_mutex_lock(&lock);
	if (enable)
		atomic_fetch_or(&wanted[domain][id / 64], 1ull << id % 64);
	else
		atomic_fetch_and(&wanted[domain][id / 64], ~(1ull << id % 64));
	cupti_recorder_watch();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiEnableDomain(uint32_t enable, struct cupti_subscriber *subscriber, uint32_t domain)
{
	if (check(subscriber, domain) != CUPTI_SUCCESS)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (enable && is_silent(domain))
		return cupti_done(CUPTI_ERROR_NOT_SUPPORTED);
	pthread_mutex_lock(&lock);
	set_domain(domain, enable);
	cupti_recorder_watch();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiEnableAllDomains(uint32_t enable, struct cupti_subscriber *subscriber)
{
	if (!is_subscriber(subscriber))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	pthread_mutex_lock(&lock);
	for (uint32_t domain = CUPTI_DOMAIN_DRIVER; domain < CUPTI_DOMAINS; domain++)
		if (!is_silent(domain))
			set_domain(domain, enable);
	cupti_recorder_watch();
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiGetCallbackState(uint32_t *enabled, struct cupti_subscriber *subscriber, uint32_t domain,
						uint32_t id)
{
	if (!enabled || check(subscriber, domain) != CUPTI_SUCCESS || id >= cupti_number_limit(domain))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*enabled = is_wanted(domain, id);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiSupportedDomains(size_t *count, uint32_t **domains)
{
	static uint32_t all[] = {CUPTI_DOMAIN_DRIVER, CUPTI_DOMAIN_RUNTIME, CUPTI_DOMAIN_RESOURCE,
				 CUPTI_DOMAIN_SYNCHRONIZE};

	if (!count || !domains)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*count = sizeof(all) / sizeof(all[0]);
	*domains = all;
	return CUPTI_SUCCESS;
}

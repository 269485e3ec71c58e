/* SPDX-License-Identifier: Apache-2.0 */
/* The subscriber, and the callbacks that it wants. */
#include "cupti.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define WORDS 16u /* of a domain's bits: for numbers less than 1024 */

struct cupti_subscriber {
	_Atomic(cupti_callback) function;
	void *_Atomic userdata;
	bool is_there;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cupti_subscriber only;
/* Odd while function and data of a subscriber are being set. */
static _Atomic unsigned int generation;
static _Atomic uint64_t wanted[CUPTI_DOMAINS][WORDS];

/* Calls of subscribers' functions that are under way. */
static _Atomic unsigned int under_way;

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

/* The function may end its thread. */
static void end_call(void *unused)
{
	(void)unused;
	atomic_fetch_sub(&under_way, 1);
	callback_depth--;
}

/*
 * The call is counted before the wish is read, and cuptiUnsubscribe() takes the wish back before it reads the count:
 * one of both sees the other.
 */
void cupti_callback_call(uint32_t domain, uint32_t id, const void *data)
{
	unsigned int before;
	cupti_callback function;
	void *userdata;

	if (!is_wanted(domain, id) || callback_depth)
		return;
	callback_depth++;
	atomic_fetch_add(&under_way, 1);
	pthread_cleanup_push(end_call, NULL);
	before = atomic_load(&generation);
	function = atomic_load(&only.function);
	userdata = atomic_load(&only.userdata);
	if (function && !(before & 1) && atomic_load(&generation) == before &&
	    atomic_load(&wanted[domain][id / 64]) >> id % 64 & 1)
		function(userdata, domain, id, data);
	pthread_cleanup_pop(true);
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

/* With the lock held. */
static void end_subscriber(void)
{
	clear();
	only.is_there = false;
}

/*
 * A callback that ended the subscriber waits for no other thread: callbacks of other threads may wait for locks that it
 * holds.
 */
static void wait_for_callbacks(void)
{
	while (!callback_depth && atomic_load(&under_way))
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

void cupti_callback_stop(void)
{
	pthread_mutex_lock(&lock);
	end_subscriber();
	pthread_mutex_unlock(&lock);
	wait_for_callbacks();
}

void cupti_callback_forget(void)
{
	pthread_mutex_init(&lock, NULL);
	end_subscriber();
	atomic_store(&generation, 0);
	atomic_store(&under_way, callback_depth);
}

static void set_subscriber(cupti_callback function, void *userdata)
{
	atomic_fetch_add(&generation, 1);
	atomic_store(&only.function, function);
	atomic_store(&only.userdata, userdata);
	only.is_there = true;
	atomic_fetch_add(&generation, 1);
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
		set_subscriber(function, userdata);
	pthread_mutex_unlock(&lock);
	if (result == CUPTI_SUCCESS)
		*subscriber = &only;
	return cupti_done(result);
}

/* With the lock held. */
static bool is_subscriber(const struct cupti_subscriber *subscriber)
{
	return subscriber == &only && only.is_there;
}

CUPTI_EXPORT cupti_result cuptiUnsubscribe(struct cupti_subscriber *subscriber)
{
	bool is_valid;

	pthread_mutex_lock(&lock);
	is_valid = is_subscriber(subscriber);
	if (is_valid) {
		end_subscriber();
		cupti_recorder_watch();
	}
	pthread_mutex_unlock(&lock);
	if (!is_valid)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	wait_for_callbacks();
	return CUPTI_SUCCESS;
}

static bool is_domain(uint32_t domain)
{
	return domain && domain < CUPTI_DOMAINS;
}

/* Callbacks of this domain are known, and never happen. */
static bool is_silent(uint32_t domain)
{
	return domain == CUPTI_DOMAIN_STATE;
}

static void set_domain(uint32_t domain, bool on)
{
	for (unsigned int i = 0; i < WORDS; i++)
		atomic_store(&wanted[domain][i], on ? UINT64_MAX : 0);
}

static void set_callback(uint32_t domain, uint32_t id, bool on)
{
	if (on)
		atomic_fetch_or(&wanted[domain][id / 64], 1ull << id % 64);
	else
		atomic_fetch_and(&wanted[domain][id / 64], ~(1ull << id % 64));
}

CUPTI_EXPORT cupti_result cuptiEnableCallback(uint32_t enable, struct cupti_subscriber *subscriber, uint32_t domain,
					      uint32_t id)
{
	bool is_valid;

	if (!is_domain(domain) || id >= cupti_number_limit(domain))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	/* Modules and graphs are not told of. */
	if (enable && (is_silent(domain) || (domain == CUPTI_DOMAIN_RESOURCE && id > CUPTI_RESOURCE_INIT_FINISHED)))
		return cupti_done(CUPTI_ERROR_NOT_SUPPORTED);
	pthread_mutex_lock(&lock);
	is_valid = is_subscriber(subscriber);
	if (is_valid) {
		set_callback(domain, id, enable);
		cupti_recorder_watch();
	}
	pthread_mutex_unlock(&lock);
	return cupti_done(is_valid ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

/* The domains from `first` to `last`. */
static cupti_result set_domains(struct cupti_subscriber *subscriber, uint32_t first, uint32_t last, bool on)
{
	bool is_valid;

	pthread_mutex_lock(&lock);
	is_valid = is_subscriber(subscriber);
	for (uint32_t domain = first; is_valid && domain <= last; domain++)
		if (!is_silent(domain))
			set_domain(domain, on);
	if (is_valid)
		cupti_recorder_watch();
	pthread_mutex_unlock(&lock);
	return cupti_done(is_valid ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

CUPTI_EXPORT cupti_result cuptiEnableDomain(uint32_t enable, struct cupti_subscriber *subscriber, uint32_t domain)
{
	if (!is_domain(domain))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	if (enable && is_silent(domain))
		return cupti_done(CUPTI_ERROR_NOT_SUPPORTED);
	return set_domains(subscriber, domain, domain, enable);
}

CUPTI_EXPORT cupti_result cuptiEnableAllDomains(uint32_t enable, struct cupti_subscriber *subscriber)
{
	return set_domains(subscriber, CUPTI_DOMAIN_DRIVER, CUPTI_DOMAINS - 1, enable);
}

CUPTI_EXPORT cupti_result cuptiGetCallbackState(uint32_t *enabled, struct cupti_subscriber *subscriber, uint32_t domain,
						uint32_t id)
{
	bool is_valid;

	pthread_mutex_lock(&lock);
	is_valid = is_subscriber(subscriber);
	pthread_mutex_unlock(&lock);
	if (!is_valid || !enabled || !is_domain(domain) || id >= cupti_number_limit(domain))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*enabled = is_wanted(domain, id);
	return CUPTI_SUCCESS;
}

CUPTI_EXPORT cupti_result cuptiSupportedDomains(size_t *count, uint32_t **domains)
{
	static uint32_t all[] = {CUPTI_DOMAIN_DRIVER, CUPTI_DOMAIN_RUNTIME, CUPTI_DOMAIN_RESOURCE,
				 CUPTI_DOMAIN_SYNCHRONIZE, CUPTI_DOMAIN_NVTX};

	if (!count || !domains)
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*count = sizeof(all) / sizeof(all[0]);
	*domains = all;
	return CUPTI_SUCCESS;
}

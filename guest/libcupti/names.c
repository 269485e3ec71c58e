/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

#include <stdatomic.h>
#include <string.h>

#include "cupti.h"

/* The recorder has fewer calls. */
#define MOST_CALLS 2048u

/* The numbers by the recorder's, plus 1; 0: not looked for yet. */
static _Atomic uint16_t driver_numbers[MOST_CALLS];

/* Ids of callbacks of resources and synchronization are less. */
#define RESOURCES (LIBCUPTI >= 13 ? 26u : 24u)
#define SYNCHRONIZATIONS 3u

bool cupti_is_function(const char *name, const char *function)
{
	size_t length = strlen(function);

	return !strncmp(name, function, length) && (!name[length] || name[length] == '_');
}

static uint32_t find(const char *name)
{
	unsigned int low = 0, high = cupti_driver_count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;
		int order = strcmp(cupti_driver_names[middle].name, name);

		if (!order)
			return cupti_driver_names[middle].number;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return 0;
}

uint32_t cupti_driver_number(const struct vcuda_profile_table *recorder, uint32_t call)
{
	uint32_t number;

	if (!recorder || call >= MOST_CALLS)
		return 0;
	number = atomic_load_explicit(&driver_numbers[call], memory_order_relaxed);
	if (!number) {
		number = find(recorder->call_name(call)) + 1;
		atomic_store_explicit(&driver_numbers[call], (uint16_t)number, memory_order_relaxed);
	}
	return number - 1;
}

const char *cupti_function_name(uint32_t domain, uint32_t number)
{
	const struct cupti_name *all = domain == CUPTI_DOMAIN_DRIVER ? cupti_driver_names : cupti_runtime_names;
	unsigned int count = domain == CUPTI_DOMAIN_DRIVER ? cupti_driver_count : cupti_runtime_count;

	for (unsigned int i = 0; i < count; i++)
		if (all[i].number == number)
			return all[i].name;
	return NULL;
}

uint32_t cupti_number_limit(uint32_t domain)
{
	switch (domain) {
	case CUPTI_DOMAIN_DRIVER:
		return cupti_driver_limit;
	case CUPTI_DOMAIN_RUNTIME:
		return cupti_runtime_limit;
	case CUPTI_DOMAIN_RESOURCE:
		return RESOURCES;
	case CUPTI_DOMAIN_SYNCHRONIZE:
		return SYNCHRONIZATIONS;
	case CUPTI_DOMAIN_NVTX:
		return VCUDA_NVTX_LIMIT;
	}
	return 0;
}

CUPTI_EXPORT cupti_result cuptiGetCallbackName(uint32_t domain, uint32_t number, const char **name)
{
	if (!name || (domain != CUPTI_DOMAIN_DRIVER && domain != CUPTI_DOMAIN_RUNTIME))
		return cupti_done(CUPTI_ERROR_INVALID_PARAMETER);
	*name = cupti_function_name(domain, number);
	return cupti_done(*name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Fields: figures by their numbers, many in one call, each with a result of its own. */
#include <string.h>
#include <time.h>

#include "nvml.h"

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static nvmlReturn_t ecc_mode(int index, nvmlFieldValue_t *v)
{
	int enabled;

	if (!nvml_attribute(index, CU_DEVICE_ATTRIBUTE_ECC_ENABLED, &enabled))
		return NVML_ERROR_NOT_SUPPORTED;
	v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	v->value = (unsigned long long)enabled;
	return NVML_SUCCESS;
}

static nvmlReturn_t get(int index, nvmlFieldValue_t *v)
{
	const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS] = {v->fieldId, v->scopeId};
	uint64_t values[VCUDA_FIGURE_VALUES];
	nvmlReturn_t result;

	if (!v->fieldId || v->fieldId >= NVML_FI_MAX)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (v->fieldId == NVML_FI_DEV_ECC_CURRENT)
		return ecc_mode(index, v);
	result = nvml_figure(index, VCUDA_FIGURE_FIELD, arguments, values);
	if (result != NVML_SUCCESS)
		return result;
	v->value = values[0];
	v->valueType = (unsigned int)values[1];
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values)
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (count <= 0 || !values)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < count; i++) {
		values[i].timestamp = now_us();
		values[i].value = 0;
		values[i].nvmlReturn = get(index, &values[i]);
		values[i].latencyUsec = now_us() - values[i].timestamp;
	}
	return NVML_SUCCESS;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures that only the host knows: how busy a device is, clocks, power, temperature, errors, links. The worker gives
 * those that the guest may have.
 */
#include <string.h>

#include "nvml.h"

nvmlReturn_t nvml_figure(int index, unsigned int figure, const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS],
			 uint64_t values[VCUDA_FIGURE_VALUES])
{
	uint32_t copy[VCUDA_FIGURE_ARGUMENTS];
	unsigned int answer = 0;
	nvmlReturn_t result;

	memcpy(copy, arguments, sizeof(copy));
	result = nvml_error_of(nvml_client_figure(index, figure, copy, values, &answer));
	return result == NVML_SUCCESS ? (nvmlReturn_t)answer : result;
}

/* `to` is NULL, or an argument is not below its limit: an invalid argument, as the library itself finds. */
static nvmlReturn_t get(nvmlDevice_t device, unsigned int figure, const uint32_t arguments[VCUDA_FIGURE_ARGUMENTS],
			const uint32_t limits[VCUDA_FIGURE_ARGUMENTS], const void *to,
			uint64_t values[VCUDA_FIGURE_VALUES])
{
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < VCUDA_FIGURE_ARGUMENTS; i++)
		if (limits[i] && arguments[i] >= limits[i])
			return NVML_ERROR_INVALID_ARGUMENT;
	return nvml_figure(index, figure, arguments, values);
}

#define ARGUMENTS(...) ((const uint32_t[VCUDA_FIGURE_ARGUMENTS]){__VA_ARGS__})

/* A function of one value, of `type`, with the arguments before it and their limits in brackets. */
#define FIGURE(name, figure, parameters, type, arguments, ...)                                                         \
	NVML_EXPORT nvmlReturn_t name parameters                                                                       \
	{                                                                                                              \
		uint64_t values[VCUDA_FIGURE_VALUES];                                                                  \
		nvmlReturn_t result =                                                                                  \
			get(device, VCUDA_FIGURE_##figure, arguments, ARGUMENTS(__VA_ARGS__), value, values);          \
                                                                                                                       \
		if (result == NVML_SUCCESS)                                                                            \
			*value = (type)values[0];                                                                      \
		return result;                                                                                         \
	}

#define PLAIN(name, figure, type) FIGURE(name, figure, (nvmlDevice_t device, type * value), type, ARGUMENTS(0), 0)
#define WITH_ONE(name, figure, most)                                                                                   \
	FIGURE(name, figure, (nvmlDevice_t device, unsigned int a, unsigned int *value), unsigned int, ARGUMENTS(a),   \
	       most)

/* ---- power, temperature, clocks ---- */

PLAIN(nvmlDeviceGetPowerUsage, POWER_USAGE, unsigned int)
PLAIN(nvmlDeviceGetPowerManagementMode, POWER_MODE, unsigned int)
PLAIN(nvmlDeviceGetPowerManagementLimit, POWER_LIMIT, unsigned int)
PLAIN(nvmlDeviceGetPowerManagementDefaultLimit, POWER_DEFAULT_LIMIT, unsigned int)
PLAIN(nvmlDeviceGetEnforcedPowerLimit, POWER_ENFORCED_LIMIT, unsigned int)
PLAIN(nvmlDeviceGetTotalEnergyConsumption, ENERGY, unsigned long long)
PLAIN(nvmlDeviceGetPerformanceState, PERFORMANCE_STATE, unsigned int)
PLAIN(nvmlDeviceGetPowerState, PERFORMANCE_STATE, unsigned int)
WITH_ONE(nvmlDeviceGetTemperature, TEMPERATURE, NVML_TEMPERATURE_GPU + 1)
WITH_ONE(nvmlDeviceGetTemperatureThreshold, TEMPERATURE_THRESHOLD, NVML_TEMPERATURE_THRESHOLD_COUNT)
PLAIN(nvmlDeviceGetNumFans, NUM_FANS, unsigned int)
PLAIN(nvmlDeviceGetFanSpeed, FAN_SPEED, unsigned int)
WITH_ONE(nvmlDeviceGetFanSpeed_v2, FAN_SPEED_OF, 0)
PLAIN(nvmlDeviceGetCurrentClocksThrottleReasons, THROTTLE_REASONS, unsigned long long)
PLAIN(nvmlDeviceGetCurrentClocksEventReasons, THROTTLE_REASONS, unsigned long long)
PLAIN(nvmlDeviceGetSupportedClocksThrottleReasons, SUPPORTED_THROTTLE_REASONS, unsigned long long)
PLAIN(nvmlDeviceGetSupportedClocksEventReasons, SUPPORTED_THROTTLE_REASONS, unsigned long long)
WITH_ONE(nvmlDeviceGetClockInfo, CLOCK, NVML_CLOCK_COUNT)
WITH_ONE(nvmlDeviceGetApplicationsClock, APPLICATION_CLOCK, NVML_CLOCK_COUNT)
WITH_ONE(nvmlDeviceGetDefaultApplicationsClock, DEFAULT_CLOCK, NVML_CLOCK_COUNT)
WITH_ONE(nvmlDeviceGetMaxCustomerBoostClock, MAX_BOOST_CLOCK, NVML_CLOCK_COUNT)
FIGURE(nvmlDeviceGetClock, CLOCK_OF, (nvmlDevice_t device, unsigned int type, unsigned int id, unsigned int *value),
       unsigned int, ARGUMENTS(type, id), NVML_CLOCK_COUNT, NVML_CLOCK_ID_COUNT)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned int *least,
								      unsigned int *most)
{
	uint64_t values[VCUDA_FIGURE_VALUES];
	nvmlReturn_t result =
		get(device, VCUDA_FIGURE_POWER_CONSTRAINTS, ARGUMENTS(0), ARGUMENTS(0), least ? most : NULL, values);

	if (result != NVML_SUCCESS)
		return result;
	*least = (unsigned int)values[0];
	*most = (unsigned int)values[1];
	return NVML_SUCCESS;
}

NVML_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_v1_t *to)
{
	unsigned int degrees;
	int index;
	nvmlReturn_t result = nvml_require_device(device, &index);

	if (result != NVML_SUCCESS)
		return result;
	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (to->version != NVML_VERSION(nvmlTemperature_v1_t, 1u))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	result = nvmlDeviceGetTemperature(device, to->sensorType, &degrees);
	if (result == NVML_SUCCESS)
		to->temperature = (int)degrees;
	return result;
}

/* ---- the board and its PCIe link ---- */

PLAIN(nvmlDeviceGetBusType, BUS_TYPE, unsigned int)
PLAIN(nvmlDeviceGetNumGpuCores, NUM_CORES, unsigned int)
PLAIN(nvmlDeviceGetMaxPcieLinkGeneration, MAX_PCIE_GENERATION, unsigned int)
PLAIN(nvmlDeviceGetGpuMaxPcieLinkGeneration, GPU_MAX_PCIE_GENERATION, unsigned int)
PLAIN(nvmlDeviceGetMaxPcieLinkWidth, MAX_PCIE_WIDTH, unsigned int)
PLAIN(nvmlDeviceGetCurrPcieLinkGeneration, PCIE_GENERATION, unsigned int)
PLAIN(nvmlDeviceGetCurrPcieLinkWidth, PCIE_WIDTH, unsigned int)
PLAIN(nvmlDeviceGetPcieLinkMaxSpeed, PCIE_MAX_SPEED, unsigned int)
PLAIN(nvmlDeviceGetPcieSpeed, PCIE_SPEED, unsigned int)
PLAIN(nvmlDeviceGetPcieReplayCounter, PCIE_REPLAYS, unsigned int)
WITH_ONE(nvmlDeviceGetPcieThroughput, PCIE_THROUGHPUT, NVML_PCIE_UTIL_COUNT)

/* The software GPU's is not known. */
NVML_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *brand)
{
	uint64_t values[VCUDA_FIGURE_VALUES];
	nvmlReturn_t result = get(device, VCUDA_FIGURE_BRAND, ARGUMENTS(0), ARGUMENTS(0), brand, values);

	if (result != NVML_SUCCESS && result != NVML_ERROR_NOT_SUPPORTED)
		return result;
	*brand = result == NVML_SUCCESS ? (unsigned int)values[0] : NVML_BRAND_UNKNOWN;
	return NVML_SUCCESS;
}

/* ---- errors ---- */

FIGURE(nvmlDeviceGetTotalEccErrors, ECC_ERRORS,
       (nvmlDevice_t device, unsigned int type, unsigned int counter, unsigned long long *value), unsigned long long,
       ARGUMENTS(type, counter), NVML_MEMORY_ERROR_TYPE_COUNT, NVML_ECC_COUNTER_TYPE_COUNT)
FIGURE(nvmlDeviceGetMemoryErrorCounter, ECC_ERRORS_OF,
       (nvmlDevice_t device, unsigned int type, unsigned int counter, unsigned int location, unsigned long long *value),
       unsigned long long, ARGUMENTS(type, counter, location), NVML_MEMORY_ERROR_TYPE_COUNT,
       NVML_ECC_COUNTER_TYPE_COUNT, NVML_MEMORY_LOCATION_COUNT)

NVML_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
						   unsigned int *uncorrected, unsigned int *pending,
						   unsigned int *failed)
{
	uint64_t values[VCUDA_FIGURE_VALUES];
	bool all = corrected && uncorrected && pending && failed;
	nvmlReturn_t result =
		get(device, VCUDA_FIGURE_REMAPPED_ROWS, ARGUMENTS(0), ARGUMENTS(0), all ? corrected : NULL, values);

	if (result != NVML_SUCCESS)
		return result;
	*corrected = (unsigned int)values[0];
	*uncorrected = (unsigned int)values[1];
	*pending = (unsigned int)values[2];
	*failed = (unsigned int)values[3];
	return NVML_SUCCESS;
}

/* ---- links ---- */

WITH_ONE(nvmlDeviceGetNvLinkState, LINK_STATE, NVML_NVLINK_MAX_LINKS)
WITH_ONE(nvmlDeviceGetNvLinkVersion, LINK_VERSION, NVML_NVLINK_MAX_LINKS)
WITH_ONE(nvmlDeviceGetNvLinkRemoteDeviceType, LINK_REMOTE_TYPE, NVML_NVLINK_MAX_LINKS)
FIGURE(nvmlDeviceGetNvLinkCapability, LINK_CAPABILITY,
       (nvmlDevice_t device, unsigned int link, unsigned int capability, unsigned int *value), unsigned int,
       ARGUMENTS(link, capability), NVML_NVLINK_MAX_LINKS, NVML_NVLINK_CAP_COUNT)

/* ---- how busy the device is ---- */

NVML_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *to)
{
	uint64_t values[VCUDA_FIGURE_VALUES];
	nvmlReturn_t result = get(device, VCUDA_FIGURE_UTILIZATION, ARGUMENTS(0), ARGUMENTS(0), to, values);

	if (result == NVML_SUCCESS)
		*to = (nvmlUtilization_t){(unsigned int)values[0], (unsigned int)values[1]};
	return result;
}

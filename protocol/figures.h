/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures of a device that libnvidia-ml asks its worker for (vcudaFigure), by number. Numbers are only added, at the
 * end.
 */
#ifndef VCUDA_FIGURES_H
#define VCUDA_FIGURES_H

/* Results are nvmlReturn_t. */
#define VCUDA_FIGURE_NOT_SUPPORTED 3

/*
 * X(name, shape, function, allowed): the shape is that of NVIDIA's function. U32 and U64: one value behind the
 * arguments; an A before that, or several: arguments of 32 bits; PAIR, FOUR: so many values; RATES: one structure of
 * two values. ASKED: the worker asks the host's library only where vcudad has --nvml-host-figures, because the figure
 * tells of other users of the GPU. ALWAYS: the figure is one of the hardware.
 */
#define VCUDA_FIGURES(X)                                                                                               \
	X(UTILIZATION, RATES, nvmlDeviceGetUtilizationRates, ASKED)                                                    \
	X(BRAND, U32, nvmlDeviceGetBrand, ALWAYS)                                                                      \
	X(BUS_TYPE, U32, nvmlDeviceGetBusType, ALWAYS)                                                                 \
	X(NUM_CORES, U32, nvmlDeviceGetNumGpuCores, ALWAYS)                                                            \
	X(NUM_FANS, U32, nvmlDeviceGetNumFans, ALWAYS)                                                                 \
	X(MAX_PCIE_GENERATION, U32, nvmlDeviceGetMaxPcieLinkGeneration, ALWAYS)                                        \
	X(MAX_PCIE_WIDTH, U32, nvmlDeviceGetMaxPcieLinkWidth, ALWAYS)                                                  \
	X(GPU_MAX_PCIE_GENERATION, U32, nvmlDeviceGetGpuMaxPcieLinkGeneration, ALWAYS)                                 \
	X(POWER_DEFAULT_LIMIT, U32, nvmlDeviceGetPowerManagementDefaultLimit, ALWAYS)                                  \
	X(POWER_CONSTRAINTS, PAIR, nvmlDeviceGetPowerManagementLimitConstraints, ALWAYS)                               \
	X(TEMPERATURE_THRESHOLD, A_U32, nvmlDeviceGetTemperatureThreshold, ALWAYS)                                     \
	X(DEFAULT_CLOCK, A_U32, nvmlDeviceGetDefaultApplicationsClock, ALWAYS)                                         \
	X(MAX_BOOST_CLOCK, A_U32, nvmlDeviceGetMaxCustomerBoostClock, ALWAYS)                                          \
	X(SUPPORTED_THROTTLE_REASONS, U64, nvmlDeviceGetSupportedClocksThrottleReasons, ALWAYS)                        \
	X(LINK_STATE, A_U32, nvmlDeviceGetNvLinkState, ALWAYS)                                                         \
	X(LINK_VERSION, A_U32, nvmlDeviceGetNvLinkVersion, ALWAYS)                                                     \
	X(LINK_CAPABILITY, AA_U32, nvmlDeviceGetNvLinkCapability, ALWAYS)                                              \
	X(LINK_REMOTE_TYPE, A_U32, nvmlDeviceGetNvLinkRemoteDeviceType, ALWAYS)                                        \
	X(POWER_USAGE, U32, nvmlDeviceGetPowerUsage, ASKED)                                                            \
	X(POWER_LIMIT, U32, nvmlDeviceGetPowerManagementLimit, ASKED)                                                  \
	X(POWER_ENFORCED_LIMIT, U32, nvmlDeviceGetEnforcedPowerLimit, ASKED)                                           \
	X(POWER_MODE, U32, nvmlDeviceGetPowerManagementMode, ASKED)                                                    \
	X(ENERGY, U64, nvmlDeviceGetTotalEnergyConsumption, ASKED)                                                     \
	X(PERFORMANCE_STATE, U32, nvmlDeviceGetPerformanceState, ASKED)                                                \
	X(THROTTLE_REASONS, U64, nvmlDeviceGetCurrentClocksThrottleReasons, ASKED)                                     \
	X(TEMPERATURE, A_U32, nvmlDeviceGetTemperature, ASKED)                                                         \
	X(FAN_SPEED, U32, nvmlDeviceGetFanSpeed, ASKED)                                                                \
	X(FAN_SPEED_OF, A_U32, nvmlDeviceGetFanSpeed_v2, ASKED)                                                        \
	X(CLOCK, A_U32, nvmlDeviceGetClockInfo, ASKED)                                                                 \
	X(CLOCK_OF, AA_U32, nvmlDeviceGetClock, ASKED)                                                                 \
	X(APPLICATION_CLOCK, A_U32, nvmlDeviceGetApplicationsClock, ASKED)                                             \
	X(PCIE_GENERATION, U32, nvmlDeviceGetCurrPcieLinkGeneration, ASKED)                                            \
	X(PCIE_WIDTH, U32, nvmlDeviceGetCurrPcieLinkWidth, ASKED)                                                      \
	X(PCIE_THROUGHPUT, A_U32, nvmlDeviceGetPcieThroughput, ASKED)                                                  \
	X(PCIE_REPLAYS, U32, nvmlDeviceGetPcieReplayCounter, ASKED)                                                    \
	X(ECC_ERRORS, AA_U64, nvmlDeviceGetTotalEccErrors, ASKED)                                                      \
	X(ECC_ERRORS_OF, AAA_U64, nvmlDeviceGetMemoryErrorCounter, ASKED)                                              \
	X(REMAPPED_ROWS, FOUR, nvmlDeviceGetRemappedRows, ASKED)                                                       \
	X(PCIE_MAX_SPEED, U32, nvmlDeviceGetPcieLinkMaxSpeed, ALWAYS)                                                  \
	X(PCIE_SPEED, U32, nvmlDeviceGetPcieSpeed, ASKED)

#define VCUDA_FIGURE_NUMBER(name, shape, function, allowed) VCUDA_FIGURE_##name,

enum vcuda_figure {
	VCUDA_FIGURES(VCUDA_FIGURE_NUMBER) VCUDA_FIGURE_OF_HOST_COUNT,
	/* The argument is a link. values[0]: the number of the guest's device at its other end, or
	   VCUDA_FIGURE_FOREIGN. */
	VCUDA_FIGURE_LINK_REMOTE = 1000,
	/* The argument is another device. values[0]: nvmlGpuTopologyLevel_t. */
	VCUDA_FIGURE_COMMON_ANCESTOR,
	/* The arguments are a field and its scope. values: the value, its type, its time in us. */
	VCUDA_FIGURE_FIELD,
};

/* The other end of a link is no GPU, but one that the guest's own devices may use: a switch. */
#define VCUDA_FIGURE_FOREIGN UINT64_MAX

#define VCUDA_FIGURE_ARGUMENTS 3
#define VCUDA_FIGURE_VALUES 4

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "cupti.h"

static const struct {
	uint16_t result;
	char name[60], message[64];
} results[] = {
	{0, "CUPTI_SUCCESS", "no error"},
	{1, "CUPTI_ERROR_INVALID_PARAMETER", "an argument is not valid"},
	{2, "CUPTI_ERROR_INVALID_DEVICE", "there is no such device"},
	{3, "CUPTI_ERROR_INVALID_CONTEXT", "there is no such context"},
	{4, "CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID", "there is no such domain of events"},
	{5, "CUPTI_ERROR_INVALID_EVENT_ID", "there is no such event"},
	{6, "CUPTI_ERROR_INVALID_EVENT_NAME", "no event has that name"},
	{7, "CUPTI_ERROR_INVALID_OPERATION", "the call is not possible now"},
	{8, "CUPTI_ERROR_OUT_OF_MEMORY", "there is no memory"},
	{9, "CUPTI_ERROR_HARDWARE", "the hardware fails"},
	{10, "CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT", "the memory is too small for the value"},
	{11, "CUPTI_ERROR_API_NOT_IMPLEMENTED", "the function is not implemented"},
	{12, "CUPTI_ERROR_MAX_LIMIT_REACHED", "there is no more"},
	{13, "CUPTI_ERROR_NOT_READY", "the result is not there yet"},
	{14, "CUPTI_ERROR_NOT_COMPATIBLE", "the call does not fit an earlier one"},
	{15, "CUPTI_ERROR_NOT_INITIALIZED", "nothing can be recorded in this process"},
	{16, "CUPTI_ERROR_INVALID_METRIC_ID", "there is no such metric"},
	{17, "CUPTI_ERROR_INVALID_METRIC_NAME", "no metric has that name"},
	{18, "CUPTI_ERROR_QUEUE_EMPTY", "the stack or queue is empty"},
	{19, "CUPTI_ERROR_INVALID_HANDLE", "the handle is not valid"},
	{20, "CUPTI_ERROR_INVALID_STREAM", "there is no such stream"},
	{21, "CUPTI_ERROR_INVALID_KIND", "the kind of activity is not supported"},
	{22, "CUPTI_ERROR_INVALID_EVENT_VALUE", "the value of the event is not valid"},
	{23, "CUPTI_ERROR_DISABLED", "the profiler is off"},
	{24, "CUPTI_ERROR_INVALID_MODULE", "the module is not valid"},
	{25, "CUPTI_ERROR_INVALID_METRIC_VALUE", "the value of the metric is not valid"},
	{26, "CUPTI_ERROR_HARDWARE_BUSY", "others use the hardware"},
	{27, "CUPTI_ERROR_NOT_SUPPORTED", "the function is not supported"},
	{28, "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED", "managed memory cannot be profiled"},
	{29, "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE", "the device cannot profile managed memory"},
	{30, "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES",
	 "devices without peer access cannot profile managed memory"},
	{31, "CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS", "managed memory cannot be profiled under MPS"},
	{32, "CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED", "kernels that kernels launch cannot be traced"},
	{33, "CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED", "virtual devices are not supported"},
	{34, "CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE", "the compiler of the code is not supported"},
	{35, "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "the user may not profile"},
	{36, "CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED", "the old profiler is in use"},
	{37, "CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE", "OpenACC lacks a routine"},
	{38, "CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED", "the old profiler is not supported"},
	{39, "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED", "there is a subscriber already"},
	{40, "CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES", "the virtual machine may not profile"},
	{41, "CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED", "confidential computing is not supported"},
	{42, "CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED", "mining devices are not supported"},
	{43, "CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED", "MIG devices are not supported"},
	{44, "CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED", "devices in SLI are not supported"},
	{45, "CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED", "devices under WSL are not supported"},
	{46, "CUPTI_ERROR_INVALID_CHIP_NAME", "there is no such chip"},
	{47, "CUPTI_ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS", "hardware event tracing is not supported under MPS"},
	{999, "CUPTI_ERROR_UNKNOWN", "unknown error"},
};

static cupti_result find(uint32_t result, const char **text, bool is_message)
{
	if (!text)
		return CUPTI_ERROR_INVALID_PARAMETER;
	for (unsigned int i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
		if (results[i].result != result)
			continue;
		*text = is_message ? results[i].message : results[i].name;
		return CUPTI_SUCCESS;
	}
	return CUPTI_ERROR_INVALID_PARAMETER;
}

CUPTI_EXPORT cupti_result cuptiGetResultString(uint32_t result, const char **text)
{
	return cupti_done(find(result, text, false));
}

CUPTI_EXPORT cupti_result cuptiGetErrorMessage(uint32_t result, const char **text)
{
	return cupti_done(find(result, text, true));
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVTX loads the library that NVTX_INJECTION64_PATH names. Its functions tell the recorder of libcuda.so.1 then, which
 * tells us (guest/libcuda/trace/nvtx.c).
 */
#include "cupti.h"

#include "common/log.h"

/* NVTX of version 3 calls it. 0 is a failure: NVTX records nothing in this process. */
CUPTI_EXPORT int InitializeInjectionNvtx2(const void *(*table_of)(uint32_t))
{
	const struct vcuda_profile_table *recorder = cupti_recorder_find();

	return recorder && recorder->observe_ranges(table_of);
}

#define NAME(function) "nvtx" #function,
static const char *const names[VCUDA_NVTX_LIMIT] = {NULL, VCUDA_NVTX_FUNCTIONS(NAME)};
#undef NAME

void cupti_nvtx_called(enum vcuda_nvtx_function function, const void *parameters, const void *result)
{
	const struct cupti_nvtx_data data = {names[function], parameters, result};

	cupti_callback_call(CUPTI_DOMAIN_NVTX, function, &data);
}

static int refuse(const char *what)
{
	vcuda_log("libcupti: %s of NVTX are not supported", what);
	return 0;
}

CUPTI_EXPORT int InitializeInjectionNvtx(const void *table)
{
	(void)table;
	return refuse("versions before 3");
}

CUPTI_EXPORT int InitializeInjectionNvtxExtension(const void *table)
{
	(void)table;
	return refuse("extensions");
}

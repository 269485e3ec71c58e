/* SPDX-License-Identifier: Apache-2.0 */
/* NVTX may be told to load this library as its tool. The tool for that is libcuda.so.1 (guest/libcuda/trace/nvtx.c). */
#include "cupti.h"

#include "common/log.h"

static int refuse(void)
{
	vcuda_log("libcupti: ranges of NVTX are not recorded: NVTX_INJECTION64_PATH=libcuda.so.1 records them in "
		  "profiles");
	return 0;
}

/* NVTX takes 0 for a failure. */
CUPTI_EXPORT int InitializeInjectionNvtx(const void *table)
{
	(void)table;
	return refuse();
}

CUPTI_EXPORT int InitializeInjectionNvtx2(const void *table)
{
	(void)table;
	return refuse();
}

CUPTI_EXPORT int InitializeInjectionNvtxExtension(const void *table)
{
	(void)table;
	return refuse();
}

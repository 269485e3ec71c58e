/* SPDX-License-Identifier: Apache-2.0 */
/* The function that NVTX calls in the library that NVTX_INJECTION64_PATH names. */
#include "core/hooks.h"
#include "core/request.h"
#include "trace/profile.h"

/* NVTX calls this. `table_of` gives a table of the program's library. Returns 0 where nothing is recorded. */
int InitializeInjectionNvtx2(const void *(*table_of)(uint32_t));

VCUDA_EXPORT int InitializeInjectionNvtx2(const void *(*table_of)(uint32_t))
{
	return (libcuda_hook_note || libcuda_profile_has_file()) && libcuda_ranges_observe(table_of);
}

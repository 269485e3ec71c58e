/* SPDX-License-Identifier: Apache-2.0 */
#include "private/procaddress.h"

#include <string.h>

#include "core/request.h"
#include "protocol/cuda-functions.h"

#define KNOWN_FLAGS (CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)

/* The first row of a name. */
static unsigned int find_name(const char *name)
{
	unsigned int low = 0, high = libcuda_entry_count;

	while (low < high) {
		unsigned int middle = (low + high) / 2;

		if (strcmp(libcuda_entries[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Finds the newest version up to `version`, and its per-thread form if `per_thread` is set and one exists. */
static const struct libcuda_entry *find(const char *name, int version, bool per_thread, bool *known)
{
	const struct libcuda_entry *best = NULL;

	*known = false;
	for (unsigned int i = find_name(name); i < libcuda_entry_count && !strcmp(libcuda_entries[i].name, name); i++) {
		const struct libcuda_entry *e = &libcuda_entries[i];

		*known = true;
		if (e->version > version || (e->per_thread && !per_thread))
			continue;
		if (!best || e->per_thread > best->per_thread ||
		    (e->per_thread == best->per_thread && e->version > best->version))
			best = e;
	}
	return best;
}

/*
 * Works before cuInit. The status may be NULL: then a name that is not found is an error. A function that is refused is
 * found: NVIDIA's driver has it, and what it answers says that it cannot be used.
 */
VCUDA_EXPORT CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
					  CUdriverProcAddressQueryResult *status)
{
	const struct libcuda_entry *e;
	int newest;
	bool known;

	if (!name || !function || flags & ~(cuuint64_t)KNOWN_FLAGS || flags == KNOWN_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (cuDriverGetVersion(&newest) != CUDA_SUCCESS || version > newest)
		return CUDA_ERROR_INVALID_VALUE;
	e = find(name, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
	*function = e ? (void *)e->function : NULL;
	if (status)
		*status = e       ? CU_GET_PROC_ADDRESS_SUCCESS
			  : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
				  : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

VCUDA_EXPORT CUresult cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags)
{
	CUresult result = cuGetProcAddress_v2(name, function, version, flags, NULL);

	return result == CUDA_SUCCESS && !*function ? CUDA_ERROR_NOT_FOUND : result;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl.h"

#include <dlfcn.h>

#define DEFINE(result, name, parameters) result(*name) parameters;
NCCL_FUNCTIONS(DEFINE)

void nccl_open(const char *file)
{
	void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		fprintf(stderr, "no NCCL: %s\n", dlerror());
		exit(1);
	}
#define LOOK_UP(result, name, parameters)                                                                              \
	*(void **)&name = dlsym(library, #name);                                                                       \
	if (!name) {                                                                                                   \
		fprintf(stderr, "%s has no %s\n", file, #name);                                                        \
		exit(1);                                                                                               \
	}
	NCCL_FUNCTIONS(LOOK_UP)
}

void nccl_check(int result, ncclComm_t comm, const char *what)
{
	if (!result)
		return;
	fprintf(stderr, "%s: %s: %s\n", what, ncclGetErrorString(result), ncclGetLastError(comm));
	exit(1);
}

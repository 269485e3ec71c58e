/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU by its driver's library, which is opened at run time: NVIDIA's, or in a guest of virtio-cuda the guest's.
 * Nothing of a toolkit is needed, to build or to run.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "backend-cuda.h"
#include "blas.h"
#include "ending.h"
#include "handles.h"
#include "ipc.h"
#include "launch.h"
#include "matmul.h"
#include "meter.h"
#include "random.h"

#define DRIVER_LIBRARY "libcuda.so.1"

/* A function under the name it had in older drivers, with the same arguments and meaning. A structure may have grown at
 * its end. */
static const struct {
	const char *name, *older;
} older_names[] = {
	{"cuEventElapsedTime_v2", "cuEventElapsedTime"},
	{"cuGraphAddKernelNode_v2", "cuGraphAddKernelNode"},
	{"cuGraphExecKernelNodeSetParams_v2", "cuGraphExecKernelNodeSetParams"},
};

static void *look_up(void *library, const char *name)
{
	void *function = dlsym(library, name);

	for (size_t i = 0; !function && i < sizeof(older_names) / sizeof(older_names[0]); i++)
		if (!strcmp(name, older_names[i].name))
			function = dlsym(library, older_names[i].older);
	return function;
}

const struct vcuda_backend_ops *backend_cuda(CUresult (**host)(vcuda_host_info *info), const struct vcuda_meter *meter,
					     char *why, size_t size)
{
	static struct vcuda_backend_ops ops = {.name = "cuda"};
	void *library = dlopen(DRIVER_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		snprintf(why, size, "no NVIDIA driver (%s)", dlerror());
		return NULL;
	}
	*host = (__typeof__(*host))dlsym(library, "cuVcudaHost");
#define LOOK_UP(function) ops.function = (__typeof__(ops.function))look_up(library, #function);
	VCUDA_BACKEND_FUNCTIONS(LOOK_UP)
#undef LOOK_UP
	backend_share(&ops);
	backend_handles_init(&ops, library);
	backend_blas_init(&ops);
	backend_matmul_init(&ops);
	backend_random_init(&ops);
	backend_launch_init(&ops);
	backend_ending_init(&ops);
	if (!ops.cuInit || !ops.cuDeviceGetCount || !ops.cuCtxSetCurrent) {
		snprintf(why, size, DRIVER_LIBRARY " lacks basic functions");
		return NULL;
	}
	backend_meter_init(&ops, library, *host, meter);
	return &ops;
}

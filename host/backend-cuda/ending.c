/* SPDX-License-Identifier: Apache-2.0 */
#include "ending.h"

#include "blas.h"
#include "launch.h"
#include "matmul.h"
#include "random.h"

static struct vcuda_backend_ops driver;

static void ends(CUcontext context)
{
	CUcontext before;

	if (driver.cuCtxGetCurrent(&before) != CUDA_SUCCESS || driver.cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return;
	backend_blas_forget(context);
	backend_matmul_forget(context);
	backend_random_forget(context);
	driver.cuCtxSetCurrent(before);
}

static void primary_ends(CUdevice device)
{
	CUcontext context;
	unsigned int flags;
	int active;

	if (driver.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || !active ||
	    driver.cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
		return;
	ends(context);
	driver.cuDevicePrimaryCtxRelease_v2(device);
}

/* A context that has failed may not be had any more: what is dropped first asks for none. */
static CUresult destroy(CUcontext context)
{
	backend_launch_forget();
	ends(context);
	return driver.cuCtxDestroy_v2(context);
}

/* The guest releases it once, at the end. */
static CUresult release(CUdevice device)
{
	backend_launch_forget();
	primary_ends(device);
	return driver.cuDevicePrimaryCtxRelease_v2(device);
}

static CUresult reset(CUdevice device)
{
	backend_launch_forget();
	primary_ends(device);
	return driver.cuDevicePrimaryCtxReset_v2(device);
}

void backend_ending_init(struct vcuda_backend_ops *ops)
{
	driver = *ops;
	if (!driver.cuCtxGetCurrent || !driver.cuCtxSetCurrent || !driver.cuDevicePrimaryCtxGetState ||
	    !driver.cuDevicePrimaryCtxRetain || !driver.cuDevicePrimaryCtxRelease_v2)
		return;
	if (driver.cuCtxDestroy_v2)
		ops->cuCtxDestroy_v2 = destroy;
	ops->cuDevicePrimaryCtxRelease_v2 = release;
	if (driver.cuDevicePrimaryCtxReset_v2)
		ops->cuDevicePrimaryCtxReset_v2 = reset;
}

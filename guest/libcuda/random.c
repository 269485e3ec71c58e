/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's libcurand calls: generators, and a generation as a command of a stream. No function of NVIDIA's
 * driver. */
#include "call.h"
#include "capture.h"
#include "guest-calls.h"

VCUDA_EXPORT CUresult cuVcudaRandomCreate(vcuda_generator *generator, unsigned int type)
{
	CUresult result = vcuda_require_context();

	return result == CUDA_SUCCESS ? vcuda_call_vcudaRandomCreate(generator, type) : result;
}

VCUDA_EXPORT CUresult cuVcudaRandomDestroy(vcuda_generator generator)
{
	CUresult result = vcuda_require_context();

	return result == CUDA_SUCCESS ? vcuda_call_vcudaRandomDestroy(generator) : result;
}

/* Queues what random-abi.h describes. */
VCUDA_EXPORT CUresult cuVcudaRandom(CUstream stream, vcuda_generator generator, const vcuda_random *random)
{
	CUresult result = vcuda_capture_enter_without(&stream);

	return result == CUDA_SUCCESS ? vcuda_call_vcudaRandom(stream, generator, *random) : result;
}

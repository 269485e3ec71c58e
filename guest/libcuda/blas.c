/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's libcublas calls: a computation as a command of a stream. No function of NVIDIA's driver. */
#include "blas-abi.h"

#include "call.h"
#include "capture.h"
#include "guest-calls.h"

/* Queues a function of blas-abi.h with its words. */
VCUDA_EXPORT CUresult cuVcudaBlas(CUstream stream, unsigned int function, unsigned int flags, unsigned int count,
				  const uint64_t *words)
{
	CUresult result = vcuda_capture_enter_without(&stream);

	return result == CUDA_SUCCESS ? vcuda_call_vcudaBlas(stream, function, flags, count, words) : result;
}

/* The same, and waits for its result of at most VCUDA_BLAS_VALUE_WORDS. */
VCUDA_EXPORT CUresult cuVcudaBlasValue(CUstream stream, unsigned int function, unsigned int flags, unsigned int count,
				       const uint64_t *words, uint64_t *value)
{
	CUresult result = vcuda_capture_enter_without(&stream);

	return result == CUDA_SUCCESS ? vcuda_call_vcudaBlasValue(stream, function, flags, count, words, value)
				      : result;
}

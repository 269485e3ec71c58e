/* SPDX-License-Identifier: Apache-2.0 */
/* What the guest's libcublasLt calls: products and copies of matrices as commands of a stream, and questions about
 * them. No function of NVIDIA's driver. */
#include "call.h"
#include "capture.h"
#include "guest-calls.h"

VCUDA_EXPORT CUresult cuVcudaMatmulAsk(const vcuda_matmul_question *question, unsigned int room, unsigned int *count,
				       uint64_t *words)
{
	CUresult result = vcuda_require_context();

	return result == CUDA_SUCCESS ? vcuda_call_vcudaMatmulAsk(*question, room, count, words) : result;
}

/* Queues what matmul-abi.h describes. */
VCUDA_EXPORT CUresult cuVcudaMatmul(CUstream stream, const vcuda_matmul *matmul)
{
	CUresult result = vcuda_capture_enter_without(&stream);

	return result == CUDA_SUCCESS ? vcuda_call_vcudaMatmul(stream, *matmul) : result;
}

VCUDA_EXPORT CUresult cuVcudaTransform(CUstream stream, const vcuda_transform *transform)
{
	CUresult result = vcuda_capture_enter_without(&stream);

	return result == CUDA_SUCCESS ? vcuda_call_vcudaTransform(stream, *transform) : result;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for the guest's libcublas, libcublasLt and libcurand. NVIDIA's driver does not have them. */
#include "launch/computation.h"

#include "core/capture.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"
#include "stream/stream.h"

/* On a stream as the application names it: queued, or a node of the graph that the stream captures. */
static CUresult enqueue(const struct libcuda_computation *what, CUstream stream)
{
	const struct call_options how = libcuda_context_options(libcuda_context_current());
	CUresult result = libcuda_stream_enter_current(&stream);
	CUgraphNodeParams p = {.type = LIBCUDA_NODE_COMPUTATION};

	if (result != CUDA_SUCCESS)
		return result;
	*libcuda_computation_of(&p) = what;
	return libcuda_capture_takes(&how, stream, &p, &result) ? result : what->issue(what, &how, stream);
}

/* ---- libcublas: queues a function of blas-abi.h with its words ---- */

VCUDA_EXPORT CUresult cuVcudaBlas(CUstream stream, unsigned int function, unsigned int flags, unsigned int count,
				  const uint64_t *words)
{
	struct libcuda_computation what = {.issue = libcuda_issue_blas, .blas = {function, flags, count, words}};

	return enqueue(&what, stream);
}

/* The same, and waits for its result of at most VCUDA_BLAS_VALUE_WORDS, which no capture lets it do. */
VCUDA_EXPORT CUresult cuVcudaBlasValue(CUstream stream, unsigned int function, unsigned int flags, unsigned int count,
				       const uint64_t *words, uint64_t *value)
{
	const struct call_options how = libcuda_context_options(libcuda_context_current());
	CUresult result = libcuda_stream_enter_current(&stream);

	if (result == CUDA_SUCCESS)
		result = libcuda_capture_refuses(libcuda_request_context(&how), stream);
	return result == CUDA_SUCCESS ? vcuda_call_vcudaBlasValue(stream, function, flags, count, words, value)
				      : result;
}

/* ---- libcublasLt: questions about what matmul-abi.h describes, and its queueing ---- */

VCUDA_EXPORT CUresult cuVcudaMatmulAsk(const vcuda_matmul_question *question, unsigned int room, unsigned int *count,
				       uint64_t *words)
{
	CUresult result = libcuda_require_context();

	return result == CUDA_SUCCESS ? vcuda_call_vcudaMatmulAsk(*question, room, count, words) : result;
}

VCUDA_EXPORT CUresult cuVcudaMatmul(CUstream stream, const vcuda_matmul *matmul)
{
	struct libcuda_computation what = {.issue = libcuda_issue_matmul, .matmul = *matmul};

	return enqueue(&what, stream);
}

VCUDA_EXPORT CUresult cuVcudaTransform(CUstream stream, const vcuda_transform *transform)
{
	struct libcuda_computation what = {.issue = libcuda_issue_transform, .transform = *transform};

	return enqueue(&what, stream);
}

/* ---- libcurand: generators, and a generation as random-abi.h describes it ---- */

VCUDA_EXPORT CUresult cuVcudaRandomCreate(vcuda_generator *generator, unsigned int type)
{
	CUresult result = libcuda_require_context();

	return result == CUDA_SUCCESS ? vcuda_call_vcudaRandomCreate(generator, type) : result;
}

VCUDA_EXPORT CUresult cuVcudaRandomDestroy(vcuda_generator generator)
{
	CUresult result = libcuda_require_context();

	return result == CUDA_SUCCESS ? vcuda_call_vcudaRandomDestroy(generator) : result;
}

VCUDA_EXPORT CUresult cuVcudaRandom(CUstream stream, vcuda_generator generator, const vcuda_random *random)
{
	struct libcuda_computation what = {.issue = libcuda_issue_random, .random = {generator, *random}};

	return enqueue(&what, stream);
}

/* `room`: a multiple of `bits` + 1. */
VCUDA_EXPORT CUresult cuVcudaRandomScrambles(unsigned int bits, unsigned int first, unsigned int room, uint64_t *words)
{
	CUresult result = libcuda_require_init();

	return result == CUDA_SUCCESS ? vcuda_call_vcudaRandomScrambles(bits, first, room, words) : result;
}

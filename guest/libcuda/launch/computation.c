/* SPDX-License-Identifier: Apache-2.0 */
#include "launch/computation.h"

#include <stdlib.h>
#include <string.h>

#include "core/context.h"
#include "core/request.h"
#include "protocol/cuda-functions.h"

CUresult libcuda_issue_blas(const struct libcuda_computation *what, const struct call_options *how, CUstream stream)
{
	return vcuda_call_vcudaBlas_with(how, stream, what->blas.function, what->blas.flags, what->blas.count,
					 what->blas.words);
}

CUresult libcuda_issue_matmul(const struct libcuda_computation *what, const struct call_options *how, CUstream stream)
{
	return vcuda_call_vcudaMatmul_with(how, stream, what->matmul);
}

CUresult libcuda_issue_transform(const struct libcuda_computation *what, const struct call_options *how,
				 CUstream stream)
{
	return vcuda_call_vcudaTransform_with(how, stream, what->transform);
}

CUresult libcuda_issue_random(const struct libcuda_computation *what, const struct call_options *how, CUstream stream)
{
	return vcuda_call_vcudaRandom_with(how, stream, what->random.generator, what->random.random);
}

struct libcuda_computation *libcuda_computation_copy(const struct libcuda_computation *what)
{
	size_t bytes = what->issue == libcuda_issue_blas ? what->blas.count * sizeof(*what->blas.words) : 0;
	struct libcuda_computation *copy = malloc(sizeof(*copy) + bytes);

	if (!copy)
		return NULL;
	*copy = *what;
	if (!copy->home)
		copy->home = libcuda_context_current();
	if (bytes)
		copy->blas.words = memcpy(copy + 1, what->blas.words, bytes);
	return copy;
}

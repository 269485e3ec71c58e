/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of about 3,000 instructions, with 64 calls of functions that are not inlined. */
#include <cmath>

#include "check.h"

#define COUNT 4096

#define FUNCTION(n)                                                                                                    \
	__device__ __noinline__ float function_##n(float x, float y)                                                   \
	{                                                                                                              \
		float sum = x;                                                                                         \
                                                                                                                       \
		for (int i = 0; i < 4 + n; i++) {                                                                      \
			sum = fmaf(sum, 0.5f, y);                                                                      \
			if (sum > 2 + n)                                                                               \
				sum = sqrtf(sum) - y / (n + 1.5f);                                                     \
			y = fabsf(sum - y) * 0.25f;                                                                    \
		}                                                                                                      \
		return sum + expf(-y) * sinf(x);                                                                       \
	}

FUNCTION(0)
FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)
FUNCTION(6)
FUNCTION(7)

#define CALL(n) x = function_##n(x, y); y = function_##n(y, x * 0.5f);
#define CALLS CALL(0) CALL(1) CALL(2) CALL(3) CALL(4) CALL(5) CALL(6) CALL(7)

__global__ void all(const float *in, float *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float x = in[i], y = in[COUNT - 1 - i];

	CALLS
	if (x < y) {
		CALLS
	}
	CALLS
	if (x > 1) {
		CALLS
	}
	out[i] = x + y;
}

int main(void)
{
	float *in = managed<float>(COUNT), *out = managed<float>(COUNT);

	for (int i = 0; i < COUNT; i++)
		in[i] = i / (float)COUNT;
	all<<<COUNT / 256, 256>>>(in, out);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < COUNT; i++)
		expect(std::isfinite(out[i]), "a number");
	return 0;
}

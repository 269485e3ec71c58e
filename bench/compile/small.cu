/* SPDX-License-Identifier: Apache-2.0 */
/* One small kernel: what the first launch costs. */
#include "check.h"

#define COUNT 1024

__global__ void scale(float *values, float by)
{
	values[blockIdx.x * blockDim.x + threadIdx.x] *= by;
}

int main(void)
{
	float *values = managed<float>(COUNT);

	for (int i = 0; i < COUNT; i++)
		values[i] = i;
	scale<<<COUNT / 128, 128>>>(values, 2);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < COUNT; i++)
		expect(values[i] == 2 * i, "value");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The device code of legacyLaunch.c. Parameters of three sizes, so that their offsets matter. */
extern "C" __global__ void scale(float *data, int count, double factor, float offset)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		data[i] = (float)(data[i] * factor) + offset;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Adds two vectors. */
#include <math.h>

#include "example.h"

__global__ void vector_add(const float *a, const float *b, float *c, int count)
{
	int i = blockDim.x * blockIdx.x + threadIdx.x;

	if (i < count)
		c[i] = a[i] + b[i];
}

int main()
{
	const int count = 50000, block = 256;
	const size_t bytes = count * sizeof(float);
	float *a = (float *)malloc(bytes), *b = (float *)malloc(bytes), *c = (float *)malloc(bytes);
	float *device_a, *device_b, *device_c;
	bool good = true;

	print_device();
	for (int i = 0; i < count; i++) {
		a[i] = rand() / (float)RAND_MAX;
		b[i] = rand() / (float)RAND_MAX;
	}
	CHECK(cudaMalloc((void **)&device_a, bytes));
	CHECK(cudaMalloc((void **)&device_b, bytes));
	CHECK(cudaMalloc((void **)&device_c, bytes));
	CHECK(cudaMemcpy(device_a, a, bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(device_b, b, bytes, cudaMemcpyHostToDevice));

	vector_add<<<(count + block - 1) / block, block>>>(device_a, device_b, device_c, count);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(c, device_c, bytes, cudaMemcpyDeviceToHost));

	for (int i = 0; i < count && good; i++) {
		good = fabsf(a[i] + b[i] - c[i]) <= 1e-5f;
		if (!good)
			fprintf(stderr, "element %d: %g + %g is not %g\n", i, a[i], b[i], c[i]);
	}
	CHECK(cudaFree(device_a));
	CHECK(cudaFree(device_b));
	CHECK(cudaFree(device_c));
	free(a);
	free(b);
	free(c);
	printf("%d sums\n", count);
	return finish(good);
}

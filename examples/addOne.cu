/* SPDX-License-Identifier: Apache-2.0 */
/* Adds one to each of 32 doubles. */
#include "example.h"

__global__ void add_one(double *data)
{
	data[threadIdx.x] += 1.0;
}

int main()
{
	const int count = 32;
	double data[count], *device;
	bool good = true;

	print_device();
	for (int i = 0; i < count; i++)
		data[i] = i * 0.5;
	CHECK(cudaMalloc((void **)&device, sizeof(data)));
	CHECK(cudaMemcpy(device, data, sizeof(data), cudaMemcpyHostToDevice));
	add_one<<<1, count>>>(device);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(data, device, sizeof(data), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(device));
	for (int i = 0; i < count; i++) {
		printf("%g%c", data[i], i % 8 == 7 ? '\n' : ' ');
		good = good && data[i] == i * 0.5 + 1.0;
	}
	return finish(good);
}

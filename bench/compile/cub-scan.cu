/* SPDX-License-Identifier: Apache-2.0 */
/* CUB's scan, reduction, histogram and selection. */
#include <algorithm>

#include <cub/cub.cuh>

#include "check.h"

#define COUNT 50000

struct is_even {
	__host__ __device__ bool operator()(int value) const { return value % 2 == 0; }
};

int main(void)
{
	int *in = managed<int>(COUNT), *out = managed<int>(COUNT), *sum = managed<int>(1), *bins = managed<int>(16);
	size_t bytes[4] = {};
	void *scratch;
	int total = 0;

	for (int i = 0; i < COUNT; i++)
		in[i] = i % 16;
	CHECK(cub::DeviceScan::InclusiveSum(NULL, bytes[0], in, out, COUNT));
	CHECK(cub::DeviceReduce::Sum(NULL, bytes[1], in, sum, COUNT));
	CHECK(cub::DeviceHistogram::HistogramEven(NULL, bytes[2], in, bins, 17, 0, 16, COUNT));
	CHECK(cub::DeviceSelect::If(NULL, bytes[3], in, out, sum, COUNT, is_even()));
	CHECK(cudaMalloc(&scratch, *std::max_element(bytes, bytes + 4)));
	CHECK(cub::DeviceScan::InclusiveSum(scratch, bytes[0], in, out, COUNT));
	CHECK(cub::DeviceReduce::Sum(scratch, bytes[1], in, sum, COUNT));
	CHECK(cub::DeviceHistogram::HistogramEven(scratch, bytes[2], in, bins, 17, 0, 16, COUNT));
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < COUNT; i++)
		expect(out[i] == (total += in[i]), "scan");
	expect(*sum == total, "reduction");
	for (int i = 0; i < 16; i++)
		expect(bins[i] == COUNT / 16, "histogram");
	CHECK(cub::DeviceSelect::If(scratch, bytes[3], in, out, sum, COUNT, is_even()));
	CHECK(cudaDeviceSynchronize());
	expect(*sum == COUNT / 2, "selection");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* CUB's radix sort of keys and of pairs. */
#include <algorithm>
#include <vector>

#include <cub/cub.cuh>

#include "check.h"

#define COUNT 20000

int main(void)
{
	unsigned int *keys = managed<unsigned int>(COUNT), *sorted = managed<unsigned int>(COUNT);
	int *values = managed<int>(COUNT), *moved = managed<int>(COUNT);
	std::vector<unsigned int> right(COUNT);
	size_t bytes = 0, more = 0;
	void *scratch;

	for (int i = 0; i < COUNT; i++) {
		keys[i] = right[i] = i * 2654435761u;
		values[i] = i;
	}
	std::sort(right.begin(), right.end());
	CHECK(cub::DeviceRadixSort::SortKeys(NULL, bytes, keys, sorted, COUNT));
	CHECK(cub::DeviceRadixSort::SortPairs(NULL, more, keys, sorted, values, moved, COUNT));
	CHECK(cudaMalloc(&scratch, std::max(bytes, more)));
	CHECK(cub::DeviceRadixSort::SortKeys(scratch, bytes, keys, sorted, COUNT));
	CHECK(cudaDeviceSynchronize());
	expect(std::equal(right.begin(), right.end(), sorted), "keys");
	CHECK(cub::DeviceRadixSort::SortPairs(scratch, more, keys, sorted, values, moved, COUNT));
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < COUNT; i++)
		expect(keys[moved[i]] == right[i], "pairs");
	return 0;
}

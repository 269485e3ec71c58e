/* SPDX-License-Identifier: Apache-2.0 */
/* Thrust: sequence, transform, sort by key, reduction by key, unique. */
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include "check.h"

#define COUNT 20000

struct scramble {
	__host__ __device__ unsigned int operator()(unsigned int value) const { return value * 2654435761u % 100; }
};

int main(void)
{
	thrust::device_vector<unsigned int> keys(COUNT), values(COUNT, 1), found(COUNT), sums(COUNT);

	thrust::sequence(keys.begin(), keys.end());
	thrust::transform(keys.begin(), keys.end(), keys.begin(), scramble());
	thrust::sort_by_key(keys.begin(), keys.end(), values.begin());
	auto ends = thrust::reduce_by_key(keys.begin(), keys.end(), values.begin(), found.begin(), sums.begin());

	expect(ends.first - found.begin() == 100, "reduction by key");
	expect(thrust::reduce(sums.begin(), ends.second) == COUNT, "reduction");
	expect(thrust::unique(keys.begin(), keys.end()) - keys.begin() == 100, "unique");
	return 0;
}

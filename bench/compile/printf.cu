/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that prints in many places, as code with messages for errors does. */
#include "check.h"

#define COUNT 1024

#define TEST(n)                                                                                                        \
	if (values[(i + (n)) % COUNT] % ((n) + 2) == 1 && i == 0)                                                      \
		printf("test %d: thread %d has %d at %p, which is %f\n", n, i, values[i], values + i,                  \
		       values[i] / ((n) + 1.5));                                                                       \
	sum += values[(i + (n)) % COUNT] * (n);

#define TESTS(n) TEST(n) TEST(n + 1) TEST(n + 2) TEST(n + 3) TEST(n + 4) TEST(n + 5) TEST(n + 6) TEST(n + 7)

__global__ void tell(const int *values, int *out)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;

	TESTS(0) TESTS(8) TESTS(16) TESTS(24) TESTS(32) TESTS(40) TESTS(48) TESTS(56)
	out[i] = sum;
}

int main(void)
{
	int *values = managed<int>(COUNT), *out = managed<int>(COUNT);

	for (int i = 0; i < COUNT; i++)
		values[i] = i;
	tell<<<COUNT / 128, 128>>>(values, out);
	CHECK(cudaDeviceSynchronize());
	expect(out[0] == 63 * 64 * 127 / 6, "sum");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* __managed__ variables: the host and kernels use them by their names, without a copy. */
#include "example.h"

#define COUNT 1000

struct summary {
	unsigned int blocks;
	float scale;
	unsigned int *largest; /* points into the table */
};

__managed__ int rounds = 3;
__managed__ unsigned int table[COUNT] = {1, 2, 3};
__managed__ struct summary result = {0, 0.5f, NULL};
static __managed__ double sum;

__global__ void grow(unsigned int by)
{
	unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < COUNT)
		table[i] += by * (unsigned int)rounds;
	if (threadIdx.x == 0)
		atomicAdd(&result.blocks, 1);
}

__global__ void summarise()
{
	result.largest = table;
	for (unsigned int i = 0; i < COUNT; i++) {
		sum += table[i] * (double)result.scale;
		if (table[i] > *result.largest)
			result.largest = &table[i];
	}
}

static bool same(const char *what, double is, double expected)
{
	if (is != expected)
		fprintf(stderr, "%s is %g, not %g\n", what, is, expected);
	return is == expected;
}

int main()
{
	unsigned int *address;
	struct cudaPointerAttributes of;
	bool good = same("rounds", rounds, 3) && same("table[2]", table[2], 3) && same("table[3]", table[3], 0);
	double expected = 0;
	size_t bytes;

	print_device();
	rounds += 4;
	table[700] = 1000;
	grow<<<8, 128>>>(10);
	summarise<<<1, 1>>>();
	CHECK(cudaGetLastError());
	CHECK(cudaDeviceSynchronize());
	for (unsigned int i = 0; i < COUNT; i++)
		expected += 0.5 * table[i];
	good = good && same("table[2]", table[2], 73) && same("table[999]", table[999], 70) &&
	       same("blocks", result.blocks, 8) && same("sum", sum, expected) &&
	       same("the largest one's place", (double)(result.largest - table), 700);
	CHECK(cudaGetSymbolAddress((void **)&address, table));
	CHECK(cudaGetSymbolSize(&bytes, table));
	CHECK(cudaPointerGetAttributes(&of, &table[5]));
	good = good && address == table && same("the table's size", (double)bytes, sizeof(table)) &&
	       same("its type", of.type, cudaMemoryTypeManaged);
	printf("%u blocks wrote to %d managed words\n", result.blocks, COUNT);
	return finish(good);
}

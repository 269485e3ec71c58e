/* SPDX-License-Identifier: Apache-2.0 */
/* 300 small kernels, each launched once. */
#include <utility>

#include "check.h"

#define KERNELS 300
#define COUNT 1000

template <int N> __global__ void step(const int *in, int *out, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;

	if (i >= count)
		return;
	for (int n = 0; n < N % 7 + 1; n++)
		sum += in[(i + n * N) % count];
	out[i] += N % 3 == 0 ? sum : N % 3 == 1 ? sum ^ N : sum * N;
}

template <int N> static void run(const int *in, int *out, const int *values, int *right)
{
	step<N><<<(COUNT + 127) / 128, 128>>>(in, out, COUNT);
	for (int i = 0; i < COUNT; i++) {
		int sum = 0;

		for (int n = 0; n < N % 7 + 1; n++)
			sum += values[(i + n * N) % COUNT];
		right[i] += N % 3 == 0 ? sum : N % 3 == 1 ? sum ^ N : sum * N;
	}
}

template <int... N> static void run_all(std::integer_sequence<int, N...>, const int *in, int *out, const int *values, int *right)
{
	(run<N>(in, out, values, right), ...);
}

int main(void)
{
	int *in, *out, values[COUNT], right[COUNT] = {}, got[COUNT];

	for (int i = 0; i < COUNT; i++)
		values[i] = i;
	CHECK(cudaMalloc(&in, sizeof(values)));
	CHECK(cudaMalloc(&out, sizeof(got)));
	CHECK(cudaMemcpy(in, values, sizeof(values), cudaMemcpyHostToDevice));
	CHECK(cudaMemset(out, 0, sizeof(got)));
	run_all(std::make_integer_sequence<int, KERNELS>(), in, out, values, right);
	CHECK(cudaMemcpy(got, out, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < COUNT; i++)
		expect(got[i] == right[i], "sum");
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor cores: products of matrices in half precision, bfloat16, TF32 and int8. */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

#include "check.h"

using namespace nvcuda;

#define SIZE 128

template <typename T, typename Fragment, typename Sum, int K>
__global__ void multiply(const T *a, const T *b, Sum *c)
{
	int row = blockIdx.y * 64 + threadIdx.y * 16, column = blockIdx.x * 64;
	wmma::fragment<wmma::accumulator, 16, 16, K, Sum> sums[4];

	for (int n = 0; n < 4; n++)
		wmma::fill_fragment(sums[n], 0);
	for (int k = 0; k < SIZE; k += K) {
		wmma::fragment<wmma::matrix_a, 16, 16, K, Fragment, wmma::row_major> left;

		wmma::load_matrix_sync(left, a + row * SIZE + k, SIZE);
		for (int n = 0; n < 4; n++) {
			wmma::fragment<wmma::matrix_b, 16, 16, K, Fragment, wmma::col_major> right;

			wmma::load_matrix_sync(right, b + (column + n * 16) * SIZE + k, SIZE);
			wmma::mma_sync(sums[n], left, right, sums[n]);
		}
	}
	for (int n = 0; n < 4; n++)
		wmma::store_matrix_sync(c + row * SIZE + column + n * 16, sums[n], SIZE, wmma::mem_row_major);
}

template <typename T, typename Fragment, typename Sum, int K> static void run(const char *name)
{
	T *a = managed<T>(SIZE * SIZE), *b = managed<T>(SIZE * SIZE);
	Sum *c = managed<Sum>(SIZE * SIZE);

	for (int i = 0; i < SIZE * SIZE; i++) {
		a[i] = (T)(float)(i % 7);
		b[i] = (T)(float)(i % 5);
	}
	multiply<T, Fragment, Sum, K><<<dim3(SIZE / 64, SIZE / 64), dim3(32, 4)>>>(a, b, c);
	CHECK(cudaDeviceSynchronize());
	for (int i = 0; i < SIZE; i++)
		for (int j = 0; j < SIZE; j++) {
			float sum = 0;

			for (int k = 0; k < SIZE; k++)
				sum += (float)((i * SIZE + k) % 7 * ((j * SIZE + k) % 5));
			expect((float)c[i * SIZE + j] == sum, name);
		}
}

int main(void)
{
	run<__half, __half, float, 16>("half");
	run<__nv_bfloat16, __nv_bfloat16, float, 16>("bfloat16");
	run<float, wmma::precision::tf32, float, 8>("TF32");
	run<signed char, signed char, int, 16>("int8");
	return 0;
}

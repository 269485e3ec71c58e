/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplies two matrices tile by tile in shared memory. usage: matrixMul [height width-of-A width-of-B] (multiples of
 * 16) */
#include <math.h>

#include "example.h"

#define TILE 16

/* C = A B; A is height x inner, B is inner x width. A block computes one tile of C. */
__global__ void matrix_multiply(float *c, const float *a, const float *b, int inner, int width)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	int x = threadIdx.x, y = threadIdx.y;
	int row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
	float sum = 0;

	for (int start = 0; start < inner; start += TILE) {
		tile_a[y][x] = a[row * inner + start + x];
		tile_b[y][x] = b[(start + y) * width + column];
		__syncthreads();
		for (int k = 0; k < TILE; k++)
			sum += tile_a[y][k] * tile_b[k][x];
		__syncthreads();
	}
	c[row * width + column] = sum;
}

/* Compares with sums in double precision. Both round each of `inner` steps, so the allowed difference grows with it. */
static bool verify(const float *c, const float *a, const float *b, int height, int inner, int width)
{
	for (int row = 0; row < height; row++) {
		for (int column = 0; column < width; column++) {
			double sum = 0, size = 0;

			for (int k = 0; k < inner; k++) {
				double product = (double)a[row * inner + k] * b[k * width + column];

				sum += product;
				size += fabs(product);
			}
			if (!(fabs(sum - c[row * width + column]) <= 1e-7 * inner * size)) {
				fprintf(stderr, "element (%d, %d) is %g, not %g\n", row, column,
					c[row * width + column], sum);
				return false;
			}
		}
	}
	return true;
}

static float *random_matrix(int count)
{
	float *matrix = (float *)malloc(count * sizeof(float));

	for (int i = 0; i < count; i++)
		matrix[i] = rand() / (float)RAND_MAX - 0.5f;
	return matrix;
}

int main(int argc, char **argv)
{
	int height = argc == 4 ? atoi(argv[1]) : 160, inner = argc == 4 ? atoi(argv[2]) : 160;
	int width = argc == 4 ? atoi(argv[3]) : 320;
	float *a, *b, *c, *device_a, *device_b, *device_c, milliseconds;
	cudaEvent_t start, stop;
	bool good;

	if ((argc != 1 && argc != 4) || height <= 0 || inner <= 0 || width <= 0 || height % TILE || inner % TILE ||
	    width % TILE) {
		fprintf(stderr, "usage: matrixMul [height width-of-A width-of-B], each a multiple of %d\n", TILE);
		return finish(false);
	}
	print_device();
	a = random_matrix(height * inner);
	b = random_matrix(inner * width);
	c = (float *)malloc(height * width * sizeof(float));
	CHECK(cudaMalloc((void **)&device_a, height * inner * sizeof(float)));
	CHECK(cudaMalloc((void **)&device_b, inner * width * sizeof(float)));
	CHECK(cudaMalloc((void **)&device_c, height * width * sizeof(float)));
	CHECK(cudaMemcpy(device_a, a, height * inner * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(device_b, b, inner * width * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&stop));

	CHECK(cudaEventRecord(start, 0));
	matrix_multiply<<<dim3(width / TILE, height / TILE), dim3(TILE, TILE)>>>(device_c, device_a, device_b, inner,
										 width);
	CHECK(cudaGetLastError());
	CHECK(cudaEventRecord(stop, 0));
	CHECK(cudaEventSynchronize(stop));
	CHECK(cudaEventElapsedTime(&milliseconds, start, stop));
	CHECK(cudaMemcpy(c, device_c, height * width * sizeof(float), cudaMemcpyDeviceToHost));
	printf("%d x %d by %d x %d\n", height, inner, inner, width);
	fprintf(stderr, "%.3f ms, with the kernel's loading\n", milliseconds);

	good = verify(c, a, b, height, inner, width);
	CHECK(cudaEventDestroy(start));
	CHECK(cudaEventDestroy(stop));
	CHECK(cudaFree(device_a));
	CHECK(cudaFree(device_b));
	CHECK(cudaFree(device_c));
	free(a);
	free(b);
	free(c);
	return finish(good);
}

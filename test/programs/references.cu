/* SPDX-License-Identifier: Apache-2.0 */
/* Texture and surface references, for a toolkit before 12: arrays, linear memory, normalised texels, a name in a namespace. */
#include <math.h>
#include <stdio.h>

enum { WIDTH = 16, HEIGHT = 8, COUNT = WIDTH * HEIGHT };

texture<float, 2, cudaReadModeElementType> numbers;
static texture<unsigned char, 2, cudaReadModeNormalizedFloat> shades;
namespace elsewhere
{
texture<int, 1, cudaReadModeElementType> line;
}
surface<void, 2> board;

__global__ void gather(float *out)
{
	int x = threadIdx.x, y = blockIdx.x;

	out[y * WIDTH + x] = tex2D(numbers, x + 0.5f, y + 0.5f) + tex2D(shades, x + 0.5f, y + 0.5f) +
			     tex1Dfetch(elsewhere::line, y * WIDTH + x);
}

__global__ void twice()
{
	int x = threadIdx.x * sizeof(float), y = blockIdx.x;
	float value;

	surf2Dread(&value, board, x, y);
	surf2Dwrite(value * 2, board, x, y);
}

int main()
{
	cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>(), bytes = cudaCreateChannelDesc<unsigned char>();
	float number[COUNT], result[COUNT], *out;
	unsigned char shade[COUNT];
	int line[COUNT], *memory, bad = 0;
	cudaArray_t array, array8;

	for (int i = 0; i < COUNT; i++) {
		number[i] = shade[i] = i;
		line[i] = 1000 * i;
	}
	cudaMallocArray(&array, &floats, WIDTH, HEIGHT, cudaArraySurfaceLoadStore);
	cudaMallocArray(&array8, &bytes, WIDTH, HEIGHT);
	cudaMemcpyToArray(array, 0, 0, number, sizeof(number), cudaMemcpyHostToDevice);
	cudaMemcpyToArray(array8, 0, 0, shade, sizeof(shade), cudaMemcpyHostToDevice);
	cudaMalloc(&memory, sizeof(line));
	cudaMalloc(&out, sizeof(result));
	cudaMemcpy(memory, line, sizeof(line), cudaMemcpyHostToDevice);
	bad += cudaBindTextureToArray(numbers, array, floats) != cudaSuccess;
	bad += cudaBindTextureToArray(shades, array8) != cudaSuccess;
	bad += cudaBindTexture(NULL, elsewhere::line, memory, sizeof(line)) != cudaSuccess;
	bad += cudaBindSurfaceToArray(board, array) != cudaSuccess;
	for (int round = 1; round <= 2; round++) {
		gather<<<HEIGHT, WIDTH>>>(out);
		bad += cudaMemcpy(result, out, sizeof(result), cudaMemcpyDeviceToHost) != cudaSuccess;
		for (int i = 0; i < COUNT; i++)
			bad += fabsf(result[i] - (i * round + i / 255.0f + 1000 * i)) > 1e-2f;
		twice<<<HEIGHT, WIDTH>>>();
	}
	bad += cudaDeviceSynchronize() != cudaSuccess;
	printf("Test %s\n", bad ? "FAILED" : "PASSED");
	return bad;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A C program without a CUDA compiler: it registers a fatbin by hand, as start-up code made by nvcc does, and launches
 * as programs did before CUDA 9.2: cudaConfigureCall, cudaSetupArgument for each parameter, cudaLaunch. NVIDIA's
 * runtime lost the last three with CUDA 13; virtio-cuda's keeps them.
 */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "legacyLaunch-fatbin.h" /* unsigned char legacyLaunch_fatbin[] */

struct size3 {
	unsigned int x, y, z;
};

typedef struct CUstream_st *stream;

extern void **__cudaRegisterFatBinary(void *wrapper);
extern void __cudaRegisterFatBinaryEnd(void **handle);
extern void __cudaUnregisterFatBinary(void **handle);
extern void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int thread_limit,
				   void *thread, void *block, struct size3 *block_size, struct size3 *grid_size,
				   int *warp_size);
extern int cudaConfigureCall(struct size3 grid, struct size3 block, size_t shared, stream stream);
extern int cudaSetupArgument(const void *argument, size_t size, size_t offset);
extern int cudaLaunch(const void *function);
extern int cudaThreadSynchronize(void);
extern int cudaMalloc(void **address, size_t bytes);
extern int cudaFree(void *address);
extern int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);
extern int cudaGetDeviceProperties(void *properties, int device);
extern const char *cudaGetErrorString(int error);

enum { HOST_TO_DEVICE = 1, DEVICE_TO_HOST = 2 };
enum { COUNT = 1000, BLOCK = 128 };

static struct {
	unsigned int magic, version;
	const void *data;
	void *unused;
} wrapper = {0x466243b1, 1, legacyLaunch_fatbin, NULL};

/* Represents the kernel: only its address matters. */
static char scale;

static int finish(int passed)
{
	printf("Test %s\n", passed ? "PASSED" : "FAILED");
	return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void check(int error, const char *what, int line)
{
	if (!error)
		return;
	fprintf(stderr, "line %d: %s: %s (%d)\n", line, what, cudaGetErrorString(error), error);
	exit(finish(0));
}

#define CHECK(call) check((call), #call, __LINE__)

static void print_device(void)
{
	/* The name comes first in every version of the structure. */
	static char properties[8192];

	CHECK(cudaGetDeviceProperties(properties, 0));
	printf("Device: %s\n", properties);
}

static void launch_scale(float *data, int count, double factor, float offset)
{
	struct size3 grid = {(COUNT + BLOCK - 1) / BLOCK, 1, 1}, block = {BLOCK, 1, 1};

	CHECK(cudaConfigureCall(grid, block, 0, NULL));
	CHECK(cudaSetupArgument(&data, sizeof(data), 0));
	CHECK(cudaSetupArgument(&count, sizeof(count), 8));
	CHECK(cudaSetupArgument(&factor, sizeof(factor), 16));
	CHECK(cudaSetupArgument(&offset, sizeof(offset), 24));
	CHECK(cudaLaunch(&scale));
}

int main(void)
{
	float data[COUNT], *device;
	void **handle;
	int good = 1;

	handle = __cudaRegisterFatBinary(&wrapper);
	__cudaRegisterFunction(handle, &scale, &scale, "scale", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterFatBinaryEnd(handle);

	print_device();
	for (int i = 0; i < COUNT; i++)
		data[i] = (float)i;
	CHECK(cudaMalloc((void **)&device, sizeof(data)));
	CHECK(cudaMemcpy(device, data, sizeof(data), HOST_TO_DEVICE));
	launch_scale(device, COUNT, 1.5, 0.25f);
	CHECK(cudaThreadSynchronize());
	CHECK(cudaMemcpy(data, device, sizeof(data), DEVICE_TO_HOST));
	CHECK(cudaFree(device));
	for (int i = 0; i < COUNT && good; i++) {
		good = fabsf(data[i] - (i * 1.5f + 0.25f)) < 1e-3f;
		if (!good)
			fprintf(stderr, "element %d is %g\n", i, data[i]);
	}
	printf("%d elements scaled\n", COUNT);
	__cudaUnregisterFatBinary(handle);
	return finish(good);
}

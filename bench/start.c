/* SPDX-License-Identifier: Apache-2.0 */
/* A program that adds two vectors once and ends: `vcuda bench` times it from start to exit. */
#include "driver-bench.h"

enum { COUNT = 50000, BLOCK = 256 };

static float a[COUNT], b[COUNT], sums[COUNT];

static void add(const CUdeviceptr device[3])
{
	unsigned int count = COUNT;
	CUdeviceptr x = device[0], y = device[1], z = device[2];
	void *parameters[] = {&x, &y, &z, &count};

	check(cuMemcpyHtoD_v2(x, a, sizeof(a)), "copy to the device");
	check(cuMemcpyHtoD_v2(y, b, sizeof(b)), "copy to the device");
	check(cuLaunchKernel(driver_kernel(KERNEL_ADD), (COUNT + BLOCK - 1) / BLOCK, 1, 1, BLOCK, 1, 1, 0, NULL,
			     parameters, NULL),
	      "cuLaunchKernel");
	check(cuMemcpyDtoH_v2(sums, z, sizeof(sums)), "copy from the device");
}

void bench_start(void)
{
	CUdeviceptr device[3];
	double start = now_us();

	driver_start();
	report("context", (now_us() - start) * 1e-3, "ms");
	for (int i = 0; i < COUNT; i++) {
		a[i] = (float)i;
		b[i] = (float)(COUNT - 2 * i);
	}
	for (int i = 0; i < 3; i++)
		check(cuMemAlloc_v2(&device[i], sizeof(a)), "cuMemAlloc");
	add(device);
	for (int i = 0; i < COUNT; i++) {
		if (sums[i] == a[i] + b[i])
			continue;
		fprintf(stderr, "driver-bench: element %d: %g + %g is not %g\n", i, a[i], b[i], sums[i]);
		exit(1);
	}
	for (int i = 0; i < 3; i++)
		check(cuMemFree_v2(device[i]), "cuMemFree");
}

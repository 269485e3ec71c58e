/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's cuRAND: what the device generates is what its host generators do. */
#include "check.h"

#include <curand.h>

enum { N = 10000 };

static curandGenerator_t generator(curandStatus_t (*create)(curandGenerator_t *g, curandRngType_t type),
				   curandRngType_t type)
{
	curandGenerator_t g;

	OK(create(&g, type));
	if (type < CURAND_RNG_QUASI_DEFAULT)
		OK(curandSetPseudoRandomGeneratorSeed(g, 20251121));
	return g;
}

static void compare(curandRngType_t type)
{
	curandGenerator_t device = generator(curandCreateGenerator, type),
			  host = generator(curandCreateGeneratorHost, type);
	static float ours[N], theirs[N];
	float *d = device_memory(sizeof(ours));
	double sum = 0;

	OK(curandGenerateUniform(device, d, N));
	from_device(ours, d, sizeof(ours));
	OK(curandGenerateUniform(host, theirs, N));
	for (int i = 0; i < N; i++) {
		CHECK(ours[i] == theirs[i] && ours[i] > 0 && ours[i] <= 1);
		sum += ours[i];
	}
	CHECK(fabs(sum / N - 0.5) < 0.02);
	OK(curandDestroyGenerator(device));
	OK(curandDestroyGenerator(host));
	OK(cudaFree(d));
}

int main(void)
{
	compare(CURAND_RNG_PSEUDO_XORWOW);
	compare(CURAND_RNG_PSEUDO_PHILOX4_32_10);
	compare(CURAND_RNG_QUASI_SOBOL32);
	printf("curand: passed\n");
	return 0;
}

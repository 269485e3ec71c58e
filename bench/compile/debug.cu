/* SPDX-License-Identifier: Apache-2.0 */
/* Built with nvcc -G: each variable is in local memory, and no function is inlined. */
#include "check.h"

#define COUNT 4096
#define BLOCK 128

struct particle {
	float position[3], velocity[3], mass;
};

__device__ float distance_of(const particle &a, const particle &b, float *direction)
{
	float sum = 0;

	for (int i = 0; i < 3; i++) {
		direction[i] = b.position[i] - a.position[i];
		sum += direction[i] * direction[i];
	}
	return sqrtf(sum + 0.01f);
}

__device__ void pull(particle &to, const particle &from, float step)
{
	float direction[3], distance = distance_of(to, from, direction);
	float force = from.mass / (distance * distance * distance);

	for (int i = 0; i < 3; i++)
		to.velocity[i] += direction[i] * force * step;
}

__global__ void move(particle *all, int count, float step)
{
	__shared__ particle tile[BLOCK];
	int own = blockIdx.x * blockDim.x + threadIdx.x;
	particle mine = all[own];

	for (int first = 0; first < count; first += BLOCK) {
		tile[threadIdx.x] = all[first + threadIdx.x];
		__syncthreads();
		for (int i = 0; i < BLOCK; i += 16)
			if (first + i != own)
				pull(mine, tile[i], step);
		__syncthreads();
	}
	for (int i = 0; i < 3; i++)
		mine.position[i] += mine.velocity[i] * step;
	all[own] = mine;
}

__global__ void energy(const particle *all, float *sum)
{
	__shared__ float part[BLOCK];
	const particle &mine = all[blockIdx.x * blockDim.x + threadIdx.x];
	float speed = 0;

	for (int i = 0; i < 3; i++)
		speed += mine.velocity[i] * mine.velocity[i];
	part[threadIdx.x] = speed * mine.mass / 2;
	__syncthreads();
	for (int half = BLOCK / 2; half; half /= 2) {
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
		__syncthreads();
	}
	if (!threadIdx.x)
		atomicAdd(sum, part[0]);
}

int main(void)
{
	particle *all = managed<particle>(COUNT);
	float *sum = managed<float>(1);

	for (int i = 0; i < COUNT; i++)
		all[i] = particle{{(float)(i % 16), (float)(i / 16 % 16), (float)(i / 256)}, {}, 1};
	*sum = 0;
	move<<<COUNT / BLOCK, BLOCK>>>(all, COUNT, 0.01f);
	energy<<<COUNT / BLOCK, BLOCK>>>(all, sum);
	CHECK(cudaDeviceSynchronize());
	expect(*sum > 0 && *sum < 1e9f, "energy");
	return 0;
}
